"""The section "Coming from compute_metrics": what it replaces and what it puts there give the same numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightning_bleu import CorpusBLEU, Evaluator
from tests.helpers.pages import run_page

PAGE = Path(__file__).parents[1] / "docs" / "hugging_face.md"
TARGETS = ["It's a warm day, isn't it?", "The dog ran. It snowed a lot.", "Bring the boats ashore, please."]
OUTPUTS = ["It is a warm day, isn't it?", "It snowed a lot. A dog ran.", "Bring the boats, please."]


def make_tokenizer() -> Any:
    """A tokenizer of the words of the texts."""
    transformers, tokenizers = pytest.importorskip("transformers"), pytest.importorskip("tokenizers")
    words = sorted({word for line in TARGETS + OUTPUTS for word in line.split()})
    vocabulary = {"<pad>": 0, "</s>": 1, "<unk>": 2, **{word: number for number, word in enumerate(words, 3)}}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=model, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )


def encode(tokenizer: Any, lines: list[str], padding: int) -> Any:
    rows = [[*tokenizer(line)["input_ids"], tokenizer.eos_token_id] for line in lines]
    width = max(map(len, rows))
    return np.array([row + [padding] * (width - len(row)) for row in rows])


def test_translation_has_the_same_scores() -> None:
    page = run_page(PAGE, "Coming from `compute_metrics`")
    tokenizer = page["tokenizer"] = make_tokenizer()
    predictions = encode(tokenizer, OUTPUTS, tokenizer.pad_token_id)
    labels = encode(tokenizer, TARGETS, -100)
    expected = page["compute_metrics"]((predictions, labels))
    evaluator = Evaluator(CorpusBLEU(percent=True), decoder=tokenizer)
    evaluator.start()
    for batch in (slice(0, 2), slice(2, 3)):
        evaluator.update(predictions[batch], labels[batch])
    results = evaluator.finish(step=0)
    assert {f"val_{name}": value for name, value in expected.items()} == pytest.approx(
        {name: result.score for name, result in results.items()}
    )
