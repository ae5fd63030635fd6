"""The section "Coming from compute_metrics": what it replaces and what it puts there give the same numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu

from lightning_bleu import CorpusBLEU, Evaluator
from tests.helpers.hugging_face import decode, make_items, make_trainer, texts_of
from tests.helpers.pages import run_page
from tests.helpers.process_groups import run_in_processes

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


def score_in_two_ways() -> dict[str, float]:
    """The scores of 37 sentences in batches of 4: those of `compute_metrics`, and those of an evaluator."""

    def compute_metrics(output: Any) -> dict[str, float]:
        hypotheses, references = map(decode, (output.predictions.tolist(), output.label_ids.tolist()))
        bleu = sacrebleu.corpus_bleu(hypotheses, [references], tokenize="none").score
        return {"computed_bleu": bleu, "computed_sentences": len(hypotheses)}

    evaluator = Evaluator(CorpusBLEU(tokenizer="none", percent=True), decoder=decode)
    scores: dict[str, float] = make_trainer(evaluator, compute_metrics=compute_metrics).evaluate(make_items(37))
    return {name: scores[f"eval_{name}"] for name in ("bleu", "computed_bleu", "computed_sentences")}


@pytest.mark.slow
@pytest.mark.long
def test_compute_metrics_gets_the_sentences_that_two_processes_repeat_and_an_evaluator_does_not() -> None:
    """It gets 40 sentences for 37, and BLEU 56.70 instead of 59.23."""
    pytest.importorskip("transformers")
    items = make_items(37)
    whole, repeated = (
        sacrebleu.corpus_bleu(texts[0], [*zip(*texts[1])], tokenize="none").score
        for texts in (texts_of(items), texts_of([*items, *items[:3]]))
    )
    assert (round(whole, 2), round(repeated, 2)) == (59.23, 56.7)
    for processes, (count, bleu) in {1: (37, whole), 2: (40, repeated)}.items():
        expected = {"bleu": whole, "computed_bleu": bleu, "computed_sentences": count}
        assert run_in_processes(processes, score_in_two_ways) == [pytest.approx(expected)] * processes
