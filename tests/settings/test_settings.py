"""Options: their names, types, and defaults; errors for wrong ones; and when two settings are the same."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import io
import math
import re
import threading
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torchmetrics import MetricCollection
from transformers import PreTrainedTokenizerFast

from lightning_bleu import CONVENTIONS, Convention, CorpusBLEU, corpus_bleu, sentence_bleu
from lightning_bleu.bleu import BLEU_OPTIONS, BLEUOptions, BLEUSettings
from lightning_bleu.settings.settings import unknown_options
from lightning_bleu.settings.smoothing import SMOOTHINGS


@dataclasses.dataclass
class Splitter:
    """A tokenizer that cannot be hashed, and that is equal to another one."""

    separator: str = " "

    def __call__(self, line: str) -> list[str]:
        return line.split(self.separator)


class LockedSplitter:
    """A tokenizer that can be neither deep-copied nor pickled."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __call__(self, line: str) -> list[str]:
        with self.lock:
            return line.split()


@dataclasses.dataclass
class Speller:
    """A decoder that cannot be hashed: 5 → "f"."""

    letters: str = "abcdefghij"

    def __call__(self, rows: list[list[int]]) -> list[str]:
        return [" ".join(self.letters[i] for i in row) for row in rows]


class LockedSpeller:
    """A decoder that can be neither deep-copied nor pickled."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def batch_decode(self, rows: list[list[int]], *, skip_special_tokens: bool) -> list[str]:
        with self.lock:
            return Speller()(rows)


def split(line: str) -> list[str]:
    return line.split()


CALLABLES: list[dict[str, Any]] = [
    {"tokenizer": Splitter()},
    {"tokenizer": LockedSplitter()},
    {"decoder": Speller(), "tokenizer": "none"},
    {"decoder": LockedSpeller(), "tokenizer": "none"},
]
LINES = (["a b c d e"], ["a b c d f"])
IDS = (torch.tensor([[0, 1, 2, 3, 4]]), torch.tensor([[0, 1, 2, 3, 5]]))


def score_corpus(**options: Any) -> Any:
    return corpus_bleu(*LINES, **options)


def score_sentences(**options: Any) -> Any:
    return sentence_bleu(*LINES, **options)


FUNCTIONS: list[Callable[..., Any]] = [score_corpus, score_sentences, BLEUSettings.from_options]
PLACES: list[Callable[..., Any]] = [CorpusBLEU, *FUNCTIONS]
"""Everything that takes options."""


def describe(value: Any) -> str:
    """A test id without addresses, which differ between processes."""
    if isinstance(value, dict):
        return ",".join(f"{name}={describe(option)}" for name, option in value.items())
    if isinstance(value, str | int | float | tuple | np.ndarray | Convention):
        return repr(value)
    return getattr(value, "__qualname__", type(value).__qualname__)


def inputs_for(options: dict[str, Any]) -> tuple[Any, Any]:
    return IDS if "decoder" in options else LINES


def values(settings: BLEUSettings) -> dict[str, Any]:
    return {field.name: getattr(settings, field.name) for field in dataclasses.fields(BLEUSettings)}


# The three lists of options: CorpusBLEU spells them out, BLEUOptions types them for the functions, BLEUSettings stores
# them

OF_CONVENTIONS_ONLY = {"zero_rule", "min_possible_matches"}
CONVERTED = {"weights": "tuple[float, ...]", "ignore_ids": "tuple[int, ...]"}
"""BLEUSettings that are stored as another type than that of the option."""


def option_types() -> dict[str, str]:
    return {name: annotation.__forward_arg__ for name, annotation in BLEUOptions.__annotations__.items()}


def test_the_constructor_has_the_options_with_their_types() -> None:
    parameters = inspect.signature(CorpusBLEU.__init__).parameters
    types = {name: parameter.annotation for name, parameter in parameters.items()}
    for other in ("self", "keep_sentences", "kwargs"):
        del types[other]
    assert list(types.items()) == list(option_types().items())
    assert list(types) == list(BLEU_OPTIONS)


def test_settings_store_the_options_with_their_types() -> None:
    options, stored = option_types(), {field.name: field.type for field in dataclasses.fields(BLEUSettings)}
    assert stored.keys() - OF_CONVENTIONS_ONLY == options.keys() - {"convention"}
    # None stands for the default of the convention. (The convention's own smoothing value may be None.)
    may_be_none = {field.name for field in dataclasses.fields(Convention)} - {"smoothing_value"}
    for name in options.keys() - {"convention"}:
        expected = f"{stored[name]} | None" if name in may_be_none else stored[name]
        assert CONVERTED.get(name, options[name]) == expected


def test_the_constructor_has_the_defaults_of_settings() -> None:
    parameters = inspect.signature(CorpusBLEU.__init__).parameters
    for name in BLEU_OPTIONS:
        assert values(BLEUSettings.from_options(**{name: parameters[name].default})) == values(
            BLEUSettings.from_options()
        )
    assert values(CorpusBLEU().settings) == values(BLEUSettings.from_options())


# Values


def test_an_option_takes_precedence_over_the_convention() -> None:
    settings = BLEUSettings.from_options(
        convention="sacrebleu", smoothing="floor", tokenizer="zh", lowercase=True, reference_length="shortest"
    )
    # 0.1 is the default of "floor"; everything that was not given is as in "sacrebleu"
    expected = dataclasses.replace(
        CONVENTIONS["sacrebleu"],
        tokenizer="zh",
        lowercase=True,
        smoothing="floor",
        smoothing_value=0.1,
        reference_length="shortest",
    )
    assert {field.name: getattr(settings, field.name) for field in dataclasses.fields(Convention)} == vars(expected)
    own = Convention(smoothing="floor", smoothing_value=0.3)
    assert BLEUSettings.from_options(convention=own).smoothing_value == 0.3
    assert BLEUSettings.from_options(convention=own, smoothing="add-k").smoothing_value == 1
    assert BLEUSettings.from_options(convention=own, smoothing_value=0.2).smoothing_value == 0.2


@pytest.mark.parametrize("smoothing", list(SMOOTHINGS))
def test_the_smoothing_value_defaults_to_that_of_the_smoothing(smoothing: str) -> None:
    assert BLEUSettings.from_options(smoothing=smoothing).smoothing_value == SMOOTHINGS[smoothing].default


def test_numbers_of_any_type_are_stored_as_plain_ones() -> None:
    options: dict[str, Any] = {
        "convention": Convention(min_possible_matches=cast(int, np.int64(1))),
        "max_order": np.int64(3),
        "weights": np.array([0.5, 0.25, 0.25], np.float32),
        "smoothing": "floor",
        "smoothing_value": np.float32(0.1),
        "pad_id": torch.tensor(0),
        "ignore_ids": np.array([7]),
        "lowercase": np.True_,
        "percent": np.True_,
    }
    settings = BLEUSettings.from_options(**options)
    names = "max_order", "min_possible_matches", "pad_id", "smoothing_value", "lowercase", "percent"
    found = [*(getattr(settings, name) for name in names), *settings.ignore_ids, *settings.weights]
    expected = [3, 1, 0, float(np.float32(0.1)), True, True, 7, 0.5, 0.25, 0.25]
    assert found == expected
    assert list(map(type, found)) == list(map(type, expected))


@pytest.mark.parametrize(
    ("ignore_ids", "expected"),
    [
        (None, ()),
        ([], ()),
        (7, (7,)),
        (np.int32(7), (7,)),
        (torch.tensor(7), (7,)),
        (np.array(7), (7,)),
        ([7, -1], (7, -1)),
        ({7: "an unknown word"}, (7,)),
        (torch.tensor([7, -1]), (7, -1)),
        (np.array([7, -1], np.int16), (7, -1)),
        (range(3), (0, 1, 2)),
    ],
    ids=repr,
)
def test_ignored_ids_may_be_one_several_or_none(ignore_ids: Any, expected: tuple[int, ...]) -> None:
    assert BLEUSettings.from_options(ignore_ids=ignore_ids).ignore_ids == expected
    assert CorpusBLEU(ignore_ids=ignore_ids).settings.ignore_ids == expected


def test_ids_are_kept_when_none_is_ignored() -> None:
    preds, target = [[-100, 1]], [[-100, 2]]
    assert corpus_bleu(preds, target).hypothesis_length == 1  # -100 is what losses ignore
    assert corpus_bleu(preds, target, ignore_ids=None).hypothesis_length == 2


# Unknown options

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


@pytest.mark.parametrize(("name", "meant"), [*ELSEWHERE.items(), *MISSPELT.items()])
def test_an_option_under_another_name_is_an_error_that_says_ours(name: str, meant: str) -> None:
    assert meant in BLEU_OPTIONS
    for call in PLACES:
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
    assert repr(value) in str(unknown_options([name], BLEU_OPTIONS))
    assert CorpusBLEU(**advice).settings == BLEUSettings.from_options(**advice)  # type: ignore[arg-type]


@pytest.mark.parametrize("call", PLACES)
def test_an_option_that_nobody_has_is_an_error_that_lists_the_nearest_of_ours(call: Callable[..., Any]) -> None:
    message = "unknown option 'size'; the nearest are ['tokenizer', 'bos_id', 'smoothing_value']"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        call(size=1)


@pytest.mark.parametrize("call", PLACES)
def test_all_unknown_options_are_named_at_once(call: Callable[..., Any]) -> None:
    message = "unknown option 'max_n': did you mean 'max_order'?, 'tokenise': did you mean 'tokenizer'?"
    with pytest.raises(TypeError, match=re.escape(message)):
        call(tokenise="13a", max_n=4)


def test_only_a_metric_can_keep_sentences() -> None:
    with pytest.raises(TypeError, match="unknown option 'keep_sentence': did you mean 'keep_sentences'"):
        CorpusBLEU(keep_sentence=True)
    for function in FUNCTIONS:
        with pytest.raises(TypeError, match="unknown option 'keep_sentences'; the nearest are"):
            function(keep_sentences=True)


def test_the_options_of_every_torchmetrics_metric_stay_its_own() -> None:
    assert CorpusBLEU(sync_on_compute=False).sync_on_compute is False
    with pytest.raises(ValueError, match="Expected keyword argument `compute_on_cpu` to be an `bool` but got x"):
        CorpusBLEU(compute_on_cpu="x")


# Wrong values

WRONG_TYPES: list[tuple[dict[str, Any], str]] = [
    ({"max_order": "4"}, "'max_order' must be an integer, got '4' of type str"),
    ({"max_order": None}, "'max_order' must be an integer, got None of type NoneType"),
    ({"max_order": 2.0}, "'max_order' must be an integer, got 2.0"),
    ({"max_order": True}, "'max_order' must be an integer, got True"),
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
    ({"convention": ["nltk"]}, "'convention' must be one of ['papineni', "),
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
    ({"ignore_ids": [1.5]}, "'ignore_ids' must be an integer, got 1.5"),
    ({"decoder": "gpt2"}, "'decoder' must be a callable that turns a list of lists of ids into strings"),
    ({"decoder": 5}, "(such as a Hugging Face tokenizer), got int"),
]

WRONG_VALUES: list[tuple[dict[str, Any], str]] = [
    ({"max_order": 0}, "'max_order' must be 1 or more, got 0"),
    ({"weights": [0.5, 0.5]}, "'weights' must hold one weight for each order 1 ... max_order=4, got 2"),
    ({"weights": [0.5, 0.5, 0.5, -0.5]}, "'weights' must be finite, not negative, and not all 0"),
    ({"weights": [0.5, 0.5, 0.5, math.nan]}, "'weights' must be finite"),
    ({"weights": [0, 0, 0, 0]}, "not all 0, got (0.0, 0.0, 0.0, 0.0)"),
    ({"convention": "bleu"}, f"'convention' must be one of {list(CONVENTIONS)}, got 'bleu'"),
    ({"convention": "allennlp"}, "got 'allennlp'"),
    ({"smoothing": "smooth"}, f"'smoothing' must be one of {list(SMOOTHINGS)}, got 'smooth'"),
    ({"smoothing": "floor", "smoothing_value": -1}, "'smoothing_value' must be a finite number of 0 or more, got -1"),
    ({"smoothing": "floor", "smoothing_value": math.inf}, "'smoothing_value' must be a finite number"),
    (
        {"smoothing": "method4", "smoothing_value": 0},
        "'smoothing_value' must be greater than 0 for smoothing 'method4', got 0",
    ),
    ({"reference_length": "average"}, "'reference_length' must be one of ['closest', 'closest-first', 'shortest'], "),
    ({"tokenizer": "moses"}, "'tokenizer' must be a callable or one of ['13a', "),
    ({"pad_id": 2**63}, "'pad_id' must fit in 64 bits, got 9223372036854775808"),
    ({"ignore_ids": [-(2**63) - 1]}, "'ignore_ids' must fit in 64 bits"),
]


@pytest.mark.parametrize(
    ("error", "options", "message"),
    [(TypeError, *case) for case in WRONG_TYPES] + [(ValueError, *case) for case in WRONG_VALUES],
)
def test_a_wrong_option_is_an_error_that_names_it_and_says_what_it_is(
    error: type[Exception], options: dict[str, Any], message: str
) -> None:
    (*_, name) = options
    for call in PLACES:
        with pytest.raises(error, match=re.escape(message)) as caught:
            call(**options)
        assert str(caught.value).startswith(f"{name!r} must ")


@pytest.mark.parametrize(
    ("error", "convention", "message"),
    [
        (ValueError, {"zero_rule": "x"}, "'zero_rule' must be one of ['no-match', "),
        (TypeError, {"min_possible_matches": "x"}, "'min_possible_matches' must be an integer, got 'x' of type str"),
        (TypeError, {"min_possible_matches": 1.5}, "'min_possible_matches' must be an integer, got 1.5 of type float"),
        (ValueError, {"min_possible_matches": -1}, "'min_possible_matches' must be 0 or more, got -1"),
        (TypeError, {"lowercase": "x"}, "'lowercase' must be True or False, got 'x' of type str"),
    ],
)
@pytest.mark.parametrize("call", PLACES)
def test_a_convention_with_a_wrong_value_is_an_error_when_it_is_used(
    call: Callable[..., Any], error: type[Exception], convention: dict[str, Any], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call(convention=Convention(**convention))


@pytest.mark.parametrize("call", PLACES)
def test_a_value_for_a_smoothing_that_takes_none_is_an_error_that_lists_those_that_do(call: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match=r"smoothing 'exp' takes no 'smoothing_value'; these do: .*'floor'"):
        call(smoothing="exp", smoothing_value=1)


def test_keeping_sentences_is_a_matter_of_true_or_false() -> None:
    with pytest.raises(TypeError, match="'keep_sentences' must be True or False, got 1 of type int"):
        CorpusBLEU(keep_sentences=1)  # type: ignore[arg-type]


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
def test_a_choice_that_is_nearly_right_is_an_error_with_the_right_one(name: str, value: str, meant: str) -> None:
    for call in PLACES:
        with pytest.raises(ValueError, match=rf"^'{name}' must be .*got '{value}': did you mean '{meant}'\?$"):
            call(**{name: value})


# Equality and copies


def test_settings_are_equal_if_they_score_alike() -> None:
    assert BLEUSettings.from_options() == BLEUSettings.from_options(convention="sacrebleu", weights=[0.25] * 4)
    assert BLEUSettings.from_options() == BLEUSettings.from_options(convention="papineni", smoothing="exp")
    assert BLEUSettings.from_options(pad_id=0) == BLEUSettings.from_options(pad_id=cast(int, np.int64(0)))
    assert BLEUSettings.from_options() != BLEUSettings.from_options(percent=True)
    assert not BLEUSettings.from_options().differences(
        BLEUSettings.from_options(percent=True)
    )  # the unit changes no test
    assert BLEUSettings.from_options() != "13a"
    assert len({BLEUSettings.from_options(tokenizer=split), BLEUSettings.from_options(tokenizer=split)}) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"max_order": 3},
        {"weights": (0.4, 0.2, 0.2, 0.2)},
        {"tokenizer": "none"},
        {"tokenizer": split},
        {"lowercase": True},
        {"smoothing": "floor"},
        {"reference_length": "shortest"},
        {"effective_order": True},
        {"pad_id": 0},
        {"bos_id": 0},
        {"eos_id": 0},
        {"unk_id": 0},
        {"ignore_ids": ()},
        {"decoder": Speller()},
        {"convention": Convention(smoothing="exp", zero_rule="as-smoothed")},
        {"convention": Convention(smoothing="exp", min_possible_matches=1)},
    ],
    ids=describe,
)
def test_settings_differ_in_what_was_set_differently(options: Any) -> None:
    one, other = BLEUSettings.from_options(), BLEUSettings.from_options(**options)
    assert one != other
    assert one.plain() != other.plain()
    (name,) = options
    also = {"max_order": ["weights"], "smoothing": ["smoothing_value"]}  # which have other defaults then
    names = (
        [field for field, value in vars(options[name]).items() if value != getattr(one, field)]
        if name == "convention"
        else [name, *also.get(name, [])]
    )
    assert sorted(one.differences(other)) == sorted(other.differences(one)) == sorted(names)


def test_smoothing_values_are_compared_as_numbers() -> None:
    value = 0.1015625  # exact in 32 bits
    one = BLEUSettings.from_options(smoothing="floor", smoothing_value=value)
    assert one == BLEUSettings.from_options(smoothing="floor", smoothing_value=cast(float, np.float32(value)))
    assert one.differences(BLEUSettings.from_options(smoothing="floor", smoothing_value=0.1)) == ["smoothing_value"]


def test_callables_are_compared_by_identity() -> None:
    tokenizer = Splitter()
    assert tokenizer == Splitter()
    assert BLEUSettings.from_options(tokenizer=tokenizer) == BLEUSettings.from_options(tokenizer=tokenizer)
    assert BLEUSettings.from_options(tokenizer=tokenizer) != BLEUSettings.from_options(tokenizer=Splitter())
    assert BLEUSettings.from_options(decoder=Speller()) != BLEUSettings.from_options(decoder=Speller())
    first, second = (lambda line: line.split()), (lambda line: line.split())
    assert BLEUSettings.from_options(tokenizer=first) != BLEUSettings.from_options(tokenizer=second)


def test_ids_may_differ_if_both_settings_decode_them() -> None:
    """Two models may have vocabularies of their own; their text is comparable all the same."""
    one = BLEUSettings.from_options(decoder=Speller(), pad_id=0)
    other = BLEUSettings.from_options(decoder=Speller(), pad_id=1, bos_id=3, eos_id=2, unk_id=4, ignore_ids=5)
    assert one != other
    assert one.differences(other) == []
    assert one.differences(BLEUSettings.from_options(pad_id=0)) == ["decoder"]


@pytest.mark.parametrize("options", CALLABLES, ids=describe)
def test_any_callable_can_be_a_tokenizer_or_decoder(options: dict[str, Any]) -> None:
    """Some cannot be hashed, some cannot be copied."""
    inputs = inputs_for(options)
    expected = corpus_bleu(*LINES, tokenizer="none").bleu
    assert corpus_bleu(*inputs, **options).bleu == expected
    collection = MetricCollection({"one": CorpusBLEU(**options), "same": CorpusBLEU(**options)})
    collection.update(*inputs)
    assert collection.compute_groups == {0: ["one", "same"]}
    for twin in (collection, collection.clone()):
        twin.update(*inputs)
        assert {name: value.item() for name, value in twin.compute().items()} == {"one": expected, "same": expected}


def test_settings_cannot_be_changed_and_copies_are_the_same_object() -> None:
    settings = BLEUSettings.from_options(tokenizer=LockedSplitter())
    assert copy.deepcopy(settings) is settings
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.percent = True  # type: ignore[misc]


# Plain values


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"convention": "nltk", "pad_id": 0},
        {"max_order": np.int64(2), "weights": np.array([0.7, 0.3])},
        {"smoothing": "floor", "smoothing_value": np.float32(0.1)},
        {"convention": Convention(min_possible_matches=cast(int, np.int64(2)))},
        *CALLABLES,
        {"tokenizer": split, "percent": True},
    ],
    ids=describe,
)
def test_plain_values_can_be_saved_and_loaded_safely(options: Any) -> None:
    plain = BLEUSettings.from_options(**options).plain()
    file = io.BytesIO()
    torch.save(plain, file)
    file.seek(0)
    assert torch.load(file, weights_only=True) == plain


@pytest.mark.parametrize(
    ("tokenizer", "name"),
    [
        ("13a", "13a"),
        (str.split, "builtins.str.split"),
        (split, f"{__name__}.split"),
        (Splitter(), f"{__name__}.Splitter"),
        (functools.partial(str.split, sep=","), "functools.partial"),
    ],
    ids=describe,
)
def test_callables_are_represented_by_their_names(tokenizer: Any, name: str) -> None:
    assert BLEUSettings.from_options(tokenizer=tokenizer).plain()["tokenizer"] == name
    assert BLEUSettings.from_options(decoder=Speller()).plain()["decoder"] == f"{__name__}.Speller"


def test_plain_values_hold_every_setting_but_the_unit() -> None:
    names = {field.name for field in dataclasses.fields(BLEUSettings)}
    assert BLEUSettings.from_options().plain().keys() == names - {"percent"}


def test_the_tokenizer_of_a_model_is_an_error_that_says_where_it_belongs() -> None:
    raw: Any = Tokenizer(WordLevel({"a": 0}, unk_token="a"))
    tokenizer: Any = PreTrainedTokenizerFast(tokenizer_object=raw)  # type: ignore[no-untyped-call]
    with pytest.raises(TypeError, match="the tokenizer of a model: to decode ids, pass decoder=tokenizer"):
        BLEUSettings.from_options(tokenizer=tokenizer)
    with pytest.raises(ValueError, match="'decoder' is the method 'decode' of a Hugging Face tokenizer"):
        BLEUSettings.from_options(decoder=tokenizer.decode)
    with pytest.raises(TypeError, match=r"pass decoder=tokenizer.decode_batch; to count its subwords"):
        BLEUSettings.from_options(tokenizer=raw)
    assert corpus_bleu([[0, 0]], ["a a"], decoder=raw.decode_batch, max_order=1) == 1
    subwords = corpus_bleu(["a a"], ["a a"], tokenizer=lambda line: raw.encode(line).tokens, max_order=1)
    assert subwords == 1


def test_a_tokenizer_must_not_return_a_dict() -> None:
    """As that of a Hugging Face tokenizer does, which is callable."""
    tokenizer: Any = lambda line: {"input_ids": [1, 2]}  # noqa: E731
    with pytest.raises(TypeError, match="'tokenizer' must return a list of strings for a line, got dict"):
        corpus_bleu(["a"], ["a"], tokenizer=tokenizer)
