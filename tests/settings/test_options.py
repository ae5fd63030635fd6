"""Options under wrong names and of wrong types."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from lightning_bleu import CorpusBLEU, corpus_bleu, sentence_bleu
from lightning_bleu.settings.options import OPTION_NAMES, unknown_options
from lightning_bleu.settings.settings import Settings

LINES = (["a b c d e"], ["a b c d f"])


def score_corpus(**options: Any) -> Any:
    return corpus_bleu(*LINES, **options)


def score_sentences(**options: Any) -> Any:
    return sentence_bleu(*LINES, **options)


FUNCTIONS: list[Callable[..., Any]] = [score_corpus, score_sentences, Settings.from_options]
PLACES: list[Callable[..., Any]] = [CorpusBLEU, *FUNCTIONS]

# The names in the signatures of sacrebleu.metrics.BLEU, sacrebleu.corpus_bleu, torchmetrics' BLEUScore and
# SacreBLEUScore, NLTK's corpus_bleu, Ignite's Bleu, Hugging Face's tokenizers and evaluate, and torch's cross_entropy.
ELSEWHERE = {
    "tokenize": "tokenizer",
    "lower": "lowercase",
    "smooth_method": "smoothing",
    "smooth_value": "smoothing_value",
    "smooth": "smoothing",
    "smoothing_function": "smoothing",
    "max_ngram_order": "max_order",
    "n_gram": "max_order",
    "ngram": "max_order",
    "max_n": "max_order",
    "trg_lang": "tokenizer",
    "pad_token_id": "pad_id",
    "bos_token_id": "bos_id",
    "eos_token_id": "eos_id",
    "unk_token_id": "unk_id",
    "ignore_index": "ignore_ids",
}

MISSPELT = {
    "tokeniser": "tokenizer",
    "weight": "weights",
    "lower_case": "lowercase",
    "smooting": "smoothing",
    "max_ordr": "max_order",
    "Convention": "convention",
    "PAD_ID": "pad_id",
    "ignore_id": "ignore_ids",
    "percentage": "percent",
}


@pytest.mark.parametrize("call", PLACES)
@pytest.mark.parametrize(("name", "meant"), [*ELSEWHERE.items(), *MISSPELT.items()])
def test_an_option_under_another_name_is_an_error_that_says_ours(
    call: Callable[..., Any], name: str, meant: str
) -> None:
    assert meant in OPTION_NAMES
    with pytest.raises(TypeError, match=f"^unknown option '{name}': did you mean '{meant}'"):
        call(**{name: 1})


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("smooth", {"smoothing": "add-k"}),
        ("smooth", {"smoothing": "add-one"}),
        ("smoothing_function", {"smoothing": "method1"}),
        ("trg_lang", {"tokenizer": "zh"}),
        ("trg_lang", {"tokenizer": "ja-mecab"}),
        ("trg_lang", {"tokenizer": "ko-mecab"}),
    ],
)
def test_advice_in_an_error_can_be_followed(name: str, advice: dict[str, str]) -> None:
    ((_, value),) = advice.items()
    assert repr(value) in str(unknown_options([name]))
    assert CorpusBLEU(**advice).settings == Settings.from_options(**advice)  # type: ignore[arg-type]


@pytest.mark.parametrize("call", PLACES)
def test_an_option_that_nobody_has_is_an_error_that_lists_ours(call: Callable[..., Any]) -> None:
    names = sorted({*OPTION_NAMES, "keep_sentences"} if call is CorpusBLEU else OPTION_NAMES)
    with pytest.raises(TypeError, match=re.escape(f"unknown option 'qqq'; the options are {names}") + "$"):
        call(qqq=1)


@pytest.mark.parametrize("call", PLACES)
def test_all_unknown_options_are_named_at_once(call: Callable[..., Any]) -> None:
    message = "unknown option 'max_n': did you mean 'max_order'?, 'tokenise': did you mean 'tokenizer'?"
    with pytest.raises(TypeError, match=re.escape(message)):
        call(tokenise="13a", max_n=4)


def test_only_a_metric_can_keep_sentences() -> None:
    with pytest.raises(TypeError, match="unknown option 'keep_sentence': did you mean 'keep_sentences'"):
        CorpusBLEU(keep_sentence=True)
    for function in FUNCTIONS:
        with pytest.raises(TypeError, match="unknown option 'keep_sentences'; the options are"):
            function(keep_sentences=True)


def test_the_options_of_every_torchmetrics_metric_stay_its_own() -> None:
    assert CorpusBLEU(sync_on_compute=False).sync_on_compute is False
    with pytest.raises(ValueError, match="Expected keyword argument `compute_on_cpu` to be an `bool` but got x"):
        CorpusBLEU(compute_on_cpu="x")


WRONG_TYPES: list[tuple[dict[str, Any], str]] = [
    ({"max_order": "4"}, "'max_order' must be an integer, got '4' of type str"),
    ({"max_order": None}, "'max_order' must be an integer, got None of type NoneType"),
    ({"weights": 0.25}, "'weights' must hold one number for each order 1 ... max_order=4, got 0.25"),
    (
        {"weights": [1, 1, "x", 1]},
        "'weights' must hold one number for each order 1 ... max_order=4, got [1, 1, 'x', 1]",
    ),
    ({"weights": torch.tensor(0.25)}, "'weights' must hold one number for each order 1 ... max_order=4, got tensor("),
    ({"lowercase": "no"}, "'lowercase' must be True or False, got 'no' of type str"),
    ({"effective_order": 0}, "'effective_order' must be True or False, got 0 of type int"),
    ({"percent": "yes"}, "'percent' must be True or False, got 'yes' of type str"),
    ({"percent": None}, "'percent' must be True or False, got None of type NoneType"),
    ({"convention": ["nltk"]}, "got ['nltk'] of type list"),
    ({"convention": None}, "got None of type NoneType"),
    ({"smoothing": 1}, "got 1 of type int"),
    ({"smoothing": ["exp"]}, "got ['exp'] of type list"),
    ({"smoothing": "floor", "smoothing_value": "1"}, "'smoothing_value' must be a number, got '1' of type str"),
    ({"smoothing": "floor", "smoothing_value": True}, "'smoothing_value' must be a number, got True of type bool"),
    ({"smoothing": "floor", "smoothing_value": [1]}, "'smoothing_value' must be a number, got [1] of type list"),
    ({"reference_length": 3}, "'reference_length' must be one of ['closest', 'closest-first', 'shortest'], got 3 of"),
    ({"tokenizer": 13}, "'tokenizer' must be a name or a callable, got 13 of type int"),
    ({"tokenizer": ["13a"]}, "'tokenizer' must be a name or a callable, got ['13a'] of type list"),
    ({"pad_id": "0"}, "'pad_id' must be an integer, got '0' of type str"),
    ({"bos_id": 1.0}, "'bos_id' must be an integer, got 1.0 of type float"),
    ({"eos_id": [2]}, "'eos_id' must be an integer, got [2] of type list"),
    ({"unk_id": True}, "'unk_id' must be an integer, got True of type bool"),
    ({"ignore_ids": "0"}, "'ignore_ids' must be an integer, got '0' of type str"),
    ({"decoder": "gpt2"}, "'decoder' must be a callable that turns a list of lists of ids into strings"),
]


@pytest.mark.parametrize("call", PLACES)
@pytest.mark.parametrize(("options", "message"), WRONG_TYPES)
def test_an_option_of_a_wrong_type_is_named_with_what_it_is(
    call: Callable[..., Any], options: dict[str, Any], message: str
) -> None:
    (*_, name) = options
    with pytest.raises(TypeError, match=re.escape(message)) as caught:
        call(**options)
    assert str(caught.value).startswith(f"{name!r} must ")


def test_keeping_sentences_is_a_matter_of_true_or_false() -> None:
    with pytest.raises(TypeError, match="'keep_sentences' must be True or False, got 1 of type int"):
        CorpusBLEU(keep_sentences=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("call", PLACES)
@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("convention", "SacreBLEU", "sacrebleu"),
        ("convention", "NLTK", "nltk"),
        ("smoothing", "Exp", "exp"),
        ("smoothing", "add_k", "add-k"),
        ("reference_length", "Closest", "closest"),
        ("tokenizer", "13A", "13a"),
        ("tokenizer", "Flores200", "flores200"),
    ],
)
def test_a_choice_that_is_nearly_right_is_an_error_with_the_right_one(
    call: Callable[..., Any], name: str, value: str, meant: str
) -> None:
    with pytest.raises(ValueError, match=rf"^'{name}' must be .*got '{value}': did you mean '{meant}'\?$"):
        call(**{name: value})


def test_true_and_false_may_be_those_of_numpy() -> None:
    options: dict[str, Any] = {"lowercase": np.True_, "percent": np.True_}
    assert score_corpus(**options) == score_corpus(lowercase=True, percent=True)
