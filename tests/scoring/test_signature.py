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
from lightning_bleu.reading.batch import Batch, read_batch
from lightning_bleu.scoring.signature import InputCounts
from tests.helpers.systems import TWO_ORDERS_MISSING

SETTINGS = BLEUSettings.from_options(tokenizer="none")


def read(preds: Any, target: Any) -> Batch:
    return read_batch(preds, target, SETTINGS)


# Signatures


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "nrefs:1|case:mixed|eff:no|tok:ids|smooth:exp|reflen:closest|version:"),
        ({"convention": "papineni"}, "nrefs:1|case:mixed|eff:no|tok:ids|smooth:none|reflen:closest|version:"),
        ({"smoothing": "floor", "effective_order": True}, "eff:yes|tok:ids|smooth:floor[0.10]|"),
        ({"convention": "nltk"}, "smooth:method0|reflen:closest|zero:leave-out|possible:1+|version:"),
        (
            {"convention": "gnmt", "smoothing": "epsilon"},
            "smooth:epsilon[1e-13]|reflen:shortest|zero:as-smoothed|version:",
        ),
        ({"max_order": 2, "weights": (0.7, 0.3), "unk_id": 3}, "|unk:unmatched|order:2|weights:0.7,0.3|version:"),
    ],
)
def test_a_signature_names_every_setting_that_is_not_common(options: dict[str, Any], expected: str) -> None:
    assert expected in corpus_bleu(*TWO_ORDERS_MISSING, **options).signature


def test_a_signature_names_the_tokens_and_the_number_of_references() -> None:
    result = corpus_bleu(["a"], [["a", "b"]], tokenizer="intl", lowercase=True)
    assert "nrefs:2|case:lc|eff:no|tok:intl|" in result.signature
    assert "nrefs:var|" in corpus_bleu(["a", "b"], [["a", "b"], ["b"]]).signature
    assert "|tok:tokens|" in corpus_bleu([["a"]], [["a"]]).signature
    assert "|tok:split|" in corpus_bleu(["a"], ["a"], tokenizer=str.split).signature
    assert "|tok:ja-mecab-0.996-IPA|" in corpus_bleu(["a"], ["a"], tokenizer="ja-mecab").signature


def test_a_signature_ends_with_the_versions() -> None:
    expected = f"|version:{sacrebleu.__version__}|lightning_bleu:{__version__}"
    assert corpus_bleu(["a"], ["a"]).signature.endswith(expected)


def test_a_signature_without_sentences_has_question_marks() -> None:
    expected = "nrefs:?|case:mixed|eff:no|tok:?|smooth:exp|reflen:closest|version:"
    assert corpus_bleu([], []).signature.startswith(expected)
    assert bleu_signature(BLEUSettings.from_options(), InputCounts()).startswith(expected)


def test_the_unit_is_not_part_of_a_signature() -> None:
    assert corpus_bleu(["a"], ["a"], percent=True).signature == corpus_bleu(["a"], ["a"]).signature


def test_two_conventions_that_score_differently_have_different_signatures() -> None:
    one, other = (
        corpus_bleu(*TWO_ORDERS_MISSING, convention=Convention(zero_rule=rule)) for rule in ("no-match", "leave-out")
    )
    assert one.bleu != other.bleu
    assert one.signature != other.signature


# Input counts

WORDS = st.lists(st.sampled_from("abc"), max_size=4)
INPUTS = st.one_of(
    # Sentences with one to three references, as strings, tokens, or ids.
    st.lists(st.tuples(WORDS.map(" ".join), st.lists(WORDS.map(" ".join), min_size=1, max_size=3)), max_size=5),
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 9), min_size=1, max_size=4),
            st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), min_size=1, max_size=3),
        ),
        max_size=5,
    ),
)


def count(pairs: list[Any]) -> InputCounts:
    return InputCounts.of(read([preds for preds, _ in pairs], [target for _, target in pairs]))


@given(INPUTS, st.integers(0, 5))
def test_the_input_counts_of_a_concatenation_are_the_sums(pairs: list[Any], cut: int) -> None:
    parts = count(pairs[:cut]), count(pairs[cut:])
    assert count(pairs) == InputCounts(*map(sum, zip(*parts)))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=8))
def test_the_number_of_references_is_known_from_the_sums_alone(numbers: list[int]) -> None:
    """Of all lists with the same length and sum, only a uniform one has the least sum of squares."""
    counts = count([("a", ["b"] * number) for number in numbers])
    assert counts.reference_count == (str(numbers[0]) if len(set(numbers)) == 1 else "var")
    assert counts.sentences == len(numbers)
    assert counts.references == sum(numbers)


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
    batch, counts = read(preds, target), InputCounts(*expected)
    kept = read_rows(torch.from_numpy(pack_rows(batch, np.zeros((counts.sentences, 4), int))))
    assert InputCounts.of(batch) == InputCounts.of_kept(kept) == counts


@pytest.mark.parametrize(
    ("counts", "tokenization"),
    [
        (InputCounts(strings=3), "13a"),
        (InputCounts(tokens=3), "tokens"),
        (InputCounts(ids=3), "ids"),
        (InputCounts(strings=1, tokens=1, ids=1), "13a+ids+tokens"),
        (InputCounts(ids=1, empty=2), "ids"),
        (InputCounts(empty=2), "?"),
        (InputCounts(), "?"),
    ],
)
def test_a_signature_names_every_way_of_tokenizing(counts: InputCounts, tokenization: str) -> None:
    assert f"|tok:{tokenization}|" in bleu_signature(BLEUSettings.from_options(), counts)


def test_decoded_ids_count_as_strings() -> None:
    result = corpus_bleu([[1, 2]], [[1, 2]], decoder=lambda rows: [" ".join(map(str, row)) for row in rows])
    assert "|tok:13a|" in result.signature
