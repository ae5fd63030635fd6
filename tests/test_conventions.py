from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from lightning_bleu import CONVENTIONS, Convention, CorpusBLEU, corpus_bleu, sentence_bleu
from lightning_bleu.scoring.settings import Settings
from lightning_bleu.scoring.smoothing import SMOOTHINGS

NAMES = [
    "papineni",
    "sacrebleu",
    "nltk",
    "gnmt",
    "evaluate",
    "torchmetrics",
    "fastai",
    "overlap",
    "fairseq",
    "allennlp",
]


def test_the_ten_names() -> None:
    assert list(CONVENTIONS) == NAMES


@pytest.mark.parametrize("convention", NAMES)
def test_all_agree_where_there_is_nothing_to_disagree_about(convention: str) -> None:
    preds, target = [[1, 2, 3, 4, 5, 6, 7]], [[1, 2, 3, 4, 5, 9, 7]]
    expected = (6 / 7 * 4 / 6 * 3 / 5 * 2 / 4) ** (1 / 4)
    assert corpus_bleu(preds, target, convention=convention).bleu == pytest.approx(expected, abs=1e-12)


# 3 of 4 unigrams and 1 of 3 bigrams, no trigram of 2 and no 4-gram of 1: what a missing order does
MISSING = ([[1, 2, 8, 4]], [[1, 2, 3, 4]])


@pytest.mark.parametrize(
    ("convention", "smoothing", "expected"),
    [
        ("papineni", None, 0.0),
        ("sacrebleu", None, (3 / 4 * 1 / 3 * 1 / (2 * 2) * 1 / (4 * 1)) ** (1 / 4)),
        ("nltk", None, (3 / 4 * 1 / 3) ** (1 / 4) * 2.2250738585072014e-308 ** (1 / 2)),
        ("gnmt", None, 0.0),
        ("gnmt", "add-one", (4 / 5 * 2 / 4 * 1 / 3 * 1 / 2) ** (1 / 4)),
        ("evaluate", "add-one", (4 / 5 * 2 / 4 * 1 / 3 * 1 / 2) ** (1 / 4)),
        ("torchmetrics", None, 0.0),
        ("torchmetrics", "add-k", 0.0),
        ("fastai", None, 0.0),
        ("overlap", None, (3 / 4 * 1 / 3) ** (1 / 4)),
        ("fairseq", None, 0.0),
        ("allennlp", None, (3 / 4 * 1 / 3 * 1e-13 / (2 + 1e-13) * 1e-13 / (1 + 1e-13)) ** (1 / 4)),
    ],
)
def test_an_order_without_a_match(convention: str, smoothing: str | None, expected: float) -> None:
    score = corpus_bleu(*MISSING, convention=convention, smoothing=smoothing).bleu
    assert score == pytest.approx(expected, rel=1e-9, abs=1e-320)


@pytest.mark.parametrize(
    ("smoothing", "precisions"),
    [
        ("none", (3 / 4, 1 / 3, 0, 0)),
        ("floor", (3 / 4, 1 / 3, 0.1 / 2, 0.1 / 1)),
        ("add-k", (3 / 4, 2 / 4, 1 / 3, 1 / 2)),
        ("add-one", (4 / 5, 2 / 4, 1 / 3, 1 / 2)),
        ("exp", (3 / 4, 1 / 3, 1 / 4, 1 / 4)),
        ("epsilon", (3 / 4, 1 / 3, 0, 0)),
        ("method0", (3 / 4, 1 / 3, 2.2250738585072014e-308, 2.2250738585072014e-308)),
        ("method4", (3 / 4, 1 / 3, math.log(4) / (2 * 5) / 2, math.log(4) / (4 * 5))),
    ],
)
def test_smoothings(smoothing: str, precisions: tuple[float, ...]) -> None:
    assert corpus_bleu(*MISSING, smoothing=smoothing).precisions == pytest.approx(precisions, abs=1e-12)


def test_smoothing_value() -> None:
    assert corpus_bleu(*MISSING, smoothing="floor", smoothing_value=0.5).precisions[2] == 0.25
    assert corpus_bleu(*MISSING, smoothing="add-k", smoothing_value=2).precisions[2] == 0.5


def test_nltk_counts_one_possible_match_in_every_sentence() -> None:
    result = corpus_bleu([[1], [1, 2], []], [[1], [1, 2], [1]], convention="nltk")
    assert result.possible_matches == (4, 3, 3, 3)


def test_an_explicit_option_wins_over_the_convention() -> None:
    settings = Settings.from_options(
        convention="sacrebleu", smoothing="floor", tokenizer="zh", lowercase=True, reference_length="shortest"
    )
    assert settings.convention == Convention("zh", True, "floor", None, "shortest")
    own = Convention(smoothing="floor", smoothing_value=0.3)
    assert Settings.from_options(convention=own).smoothing_value == 0.3
    assert Settings.from_options(convention=own, smoothing="add-k").smoothing_value == 1
    assert Settings.from_options(convention=own, smoothing_value=0.2).smoothing_value == 0.2


@pytest.mark.parametrize(
    ("options", "signature"),
    [
        ({}, "nrefs:1|case:mixed|eff:no|tok:ids|smooth:none|reflen:closest|version:"),
        ({"convention": "sacrebleu"}, "nrefs:1|case:mixed|eff:no|tok:ids|smooth:exp|reflen:closest|version:"),
        ({"smoothing": "floor", "effective_order": True}, "eff:yes|tok:ids|smooth:floor[0.10]|"),
        ({"convention": "nltk"}, "smooth:method0|reflen:closest|zero:leave-out|possible:1+|version:"),
        ({"convention": "allennlp"}, "smooth:epsilon[1e-13]|reflen:closest|zero:as-smoothed|removed:split|version:"),
        ({"max_order": 2, "weights": (0.7, 0.3), "unk_id": 3}, "|unk:unmatched|order:2|weights:0.7,0.3|version:"),
    ],
)
def test_signature(options: dict[str, Any], signature: str) -> None:
    assert signature in corpus_bleu(*MISSING, **options).signature


def test_signature_names_the_tokens_and_the_references() -> None:
    assert (
        "nrefs:2|case:lc|eff:no|tok:intl|"
        in corpus_bleu(["a"], [["a", "b"]], tokenizer="intl", lowercase=True).signature
    )
    assert "nrefs:var|" in corpus_bleu(["a", "b"], [["a", "b"], ["b"]]).signature
    assert "|tok:tokens|" in corpus_bleu([["a"]], [["a"]]).signature
    assert "|tok:split|" in corpus_bleu(["a"], ["a"], tokenizer=str.split).signature
    assert "|tok:ja-mecab-0.996-IPA|" in corpus_bleu(["a"], ["a"], tokenizer="ja-mecab").signature


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"max_order": 0}, ValueError, "'max_order' must be 1 or more, got 0"),
        ({"max_order": 2.0}, TypeError, "'max_order' must be an integer, got 2.0"),
        ({"max_order": True}, TypeError, "'max_order' must be an integer, got True"),
        ({"weights": [0.5, 0.5]}, ValueError, "one weight for each order 1 ... max_order=4, got 2"),
        ({"weights": [0.5, 0.5, 0.5, -0.5]}, ValueError, "not negative"),
        ({"weights": [0.5, 0.5, 0.5, math.nan]}, ValueError, "finite"),
        ({"weights": [0, 0, 0, 0]}, ValueError, "not all 0"),
        ({"convention": "bleu"}, ValueError, r"'convention' must be one of \['papineni', .*'allennlp'\], got 'bleu'"),
        ({"smoothing": "smooth"}, ValueError, r"'smoothing' must be one of \['none', 'floor', .*got 'smooth'"),
        (
            {"smoothing": "exp", "smoothing_value": 1},
            ValueError,
            "smoothing 'exp' takes no 'smoothing_value'; these do: .*'floor'",
        ),
        (
            {"smoothing": "floor", "smoothing_value": -1},
            ValueError,
            "'smoothing_value' must be a finite number of 0 or more",
        ),
        (
            {"reference_length": "average"},
            ValueError,
            r"'reference_length' must be one of \['closest', .*got 'average'",
        ),
        ({"convention": Convention(zero_rule="x")}, ValueError, "'zero_rule' must be one of"),
        ({"tokenizer": "moses"}, ValueError, "'tokenizer' must be a callable or one of .*'13a'.*got 'moses'"),
        ({"pad_id": "0"}, TypeError, "'pad_id' must be an integer, got '0' of type str"),
        ({"ignore_ids": [1.5]}, TypeError, "'ignore_ids' must be an integer, got 1.5"),
        ({"decoder": 5}, TypeError, "'decoder' must be a callable .* got int"),
    ],
)
def test_errors_list_the_choices(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        CorpusBLEU(**options)


def test_integers_of_all_kinds_are_integers() -> None:
    settings = Settings.from_options(np.int64(3), pad_id=torch.tensor(0), ignore_ids=np.array([7]))  # type: ignore[arg-type]
    assert (settings.max_order, settings.pad_id, settings.ignore_ids) == (3, 0, (7,))


@pytest.mark.parametrize("smoothing", list(SMOOTHINGS))
def test_sentence_bleu_is_batched(smoothing: str) -> None:
    """A sentence scores in a batch what it scores alone, to the last bit."""
    preds = [[1, 2, 3, 4, 5, 6], [1, 2, 9, 9], [7], []]
    target = [[[1, 2, 3, 4, 6], [2, 3]], [[1, 2, 3, 9]], [[7]], [[1]]]
    scores = sentence_bleu(preds, target, smoothing=smoothing)
    assert scores.shape == (4,)
    for score, hypothesis, references in zip(scores, preds, target):
        assert score == sentence_bleu([hypothesis], [references], smoothing=smoothing)[0]
        if not SMOOTHINGS[smoothing].sentences_only:
            assert score == corpus_bleu([hypothesis], [references], smoothing=smoothing).bleu


def test_sentence_bleu_in_percent() -> None:
    assert sentence_bleu(["a b c d"], ["a b c d"], percent=True).tolist() == [pytest.approx(100)]


def test_weights() -> None:
    result = corpus_bleu(*MISSING, weights=(0.5, 0.5, 0, 0))
    assert result.bleu == pytest.approx((3 / 4 * 1 / 3) ** 0.5, abs=1e-12)
