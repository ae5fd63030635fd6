"""Signatures, and the numbers of sentences and references that they need."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sacrebleu
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightning_bleu import Convention, __version__, corpus_bleu
from lightning_bleu.bleu import BLEUSettings, bleu_signature
from lightning_bleu.counting.kept import pack_rows, read_rows
from lightning_bleu.reading.batch import read_batch
from lightning_bleu.scoring.signature import InputCounts
from tests.helpers.systems import TWO_ORDERS_MISSING

IDS, WORDS = TWO_ORDERS_MISSING, (["a", "b"], [["a", "b"], ["b"]])
ONE = (["a"], ["a"])


@pytest.mark.parametrize(
    ("corpus", "options", "expected"),
    [
        (IDS, {}, "nrefs:1|case:mixed|eff:no|tok:ids|smooth:exp|reflen:closest|version:"),
        (IDS, {"convention": "papineni"}, "nrefs:1|case:mixed|eff:no|tok:ids|smooth:none|reflen:closest|version:"),
        (IDS, {"smoothing": "floor", "effective_order": True}, "eff:yes|tok:ids|smooth:floor[0.10]|"),
        (IDS, {"convention": "nltk"}, "smooth:method0|reflen:closest|zero:leave-out|possible:1+|version:"),
        (IDS, {"convention": "gnmt", "smoothing": "epsilon"}, "epsilon[1e-13]|reflen:shortest|zero:as-smoothed|ver"),
        (IDS, {"max_order": 2, "weights": (0.7, 0.3), "unk_id": 3}, "|unk:unmatched|order:2|weights:0.7,0.3|version:"),
        (IDS, {"convention": Convention(zero_rule="leave-out")}, "|zero:leave-out|"),
        (IDS, {"decoder": lambda rows: ["a b"] * len(rows)}, "|tok:13a|"),
        (([], []), {}, "nrefs:?|case:mixed|eff:no|tok:?|smooth:exp|reflen:closest|version:"),
        (WORDS, {"tokenizer": "intl", "lowercase": True}, "nrefs:var|case:lc|eff:no|tok:intl|"),
        ((["a"], [["a", "b"]]), {"tokenizer": str.split}, "nrefs:2|case:mixed|eff:no|tok:split|"),
        (([["a"]], [["a"]]), {"percent": True}, "|tok:tokens|"),
        (ONE, {"tokenizer": "ja-mecab"}, "|tok:ja-mecab-0.996-IPA|"),
        (ONE, {"percent": True}, corpus_bleu(*ONE).signature),  # the unit is no part of it
        (ONE, {}, f"|version:{sacrebleu.__version__}|lightning_bleu:{__version__}"),
    ],
)
def test_a_signature_names_everything_that_a_score_depends_on(
    corpus: Any, options: dict[str, Any], expected: str
) -> None:
    assert expected in corpus_bleu(*corpus, **options).signature


@pytest.mark.parametrize(
    ("counts", "tokenization"),
    [
        (InputCounts(strings=3), "13a"),
        (InputCounts(strings=1, tokens=1, ids=1), "13a+ids+tokens"),
        (InputCounts(ids=1, empty=2), "ids"),
        (InputCounts(empty=2), "?"),
        (InputCounts(), "?"),
    ],
)
def test_a_signature_names_every_way_of_tokenizing(counts: InputCounts, tokenization: str) -> None:
    assert f"|tok:{tokenization}|" in bleu_signature(BLEUSettings.from_options(), counts)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=8))
def test_the_number_of_references_is_known_from_the_sums_alone(numbers: list[int]) -> None:
    """Of all lists with the same length and sum, only a uniform one has the least sum of squares."""
    batch = read_batch(["a"] * len(numbers), [["b"] * number for number in numbers], BLEUSettings.from_options())
    counts = InputCounts.of(batch)
    assert counts.reference_count == (str(numbers[0]) if len(set(numbers)) == 1 else "var")
    assert (counts.sentence_count, counts.references) == (len(numbers), sum(numbers))


@pytest.mark.parametrize(
    ("preds", "target", "expected"),
    [
        # strings, tokens, ids, empty, references, squared references
        (["a b", "c"], ["a", "c"], (2, 0, 0, 0, 2, 2)),
        (["a b", "c"], [["a", "b"], ["c"]], (2, 0, 0, 0, 3, 5)),
        ([["a", "b"]], [["a"]], (0, 1, 0, 0, 1, 1)),
        ([[1, 2]], [[[1], [2], [3]]], (0, 0, 1, 0, 3, 9)),
        # In a tensor, empty references do not count, but for one if all references of a sentence are empty.
        (torch.tensor([[1], [2]]), torch.tensor([[[1], [2]], [[3], [-100]]]), (0, 0, 2, 0, 3, 5)),
        (torch.tensor([[1], [2]]), torch.tensor([[[1], [-100]], [[-100], [-100]]]), (0, 0, 2, 0, 2, 2)),
        # Lists without any token are of no kind, unless another list of the batch has one.
        ([[], []], [[[]], [[], []]], (0, 0, 0, 2, 3, 5)),
        ([[], []], [[[]], [[], [5]]], (0, 0, 2, 0, 3, 5)),
        ([["a"], []], [[[]], [[]]], (0, 2, 0, 0, 2, 2)),
        ([""], [""], (1, 0, 0, 0, 1, 1)),
        ([], [], (0, 0, 0, 0, 0, 0)),
    ],
)
def test_input_counts_say_what_sentences_are_made_of(preds: Any, target: Any, expected: tuple[int, ...]) -> None:
    batch = read_batch(preds, target, BLEUSettings.from_options(tokenizer="none"))
    counts = InputCounts(*expected)
    kept = read_rows(torch.from_numpy(pack_rows(batch, np.zeros((counts.sentence_count, 4), int))))
    assert InputCounts.of(batch) == InputCounts.of_kept(kept) == counts
    # Masks and several batches: tests/test_metric.py
