"""Options: their names, types, and defaults; errors for wrong ones; and when two settings are the same."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import io
import itertools
import math
import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sacrebleu.metrics.chrf import CHRF as SacreCHRF
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torchmetrics import MetricCollection
from transformers import PreTrainedTokenizerFast

from lightning_bleu import CONVENTIONS, Convention, CorpusBLEU, CorpusCHRF, corpus_bleu
from lightning_bleu.bleu import BLEUSettings
from lightning_bleu.chrf import CHRFSettings
from lightning_bleu.core.conventions import REFERENCE_LENGTHS, SMOOTHINGS
from lightning_bleu.core.settings import unknown_options
from tests.helpers.metrics import BLEU, CHRF, KINDS, Kind
from tests.helpers.text import spell

LINES = (["a b c d e"], ["a b c d f"])
IDS = (torch.tensor([[0, 1, 2, 3, 4]]), torch.tensor([[0, 1, 2, 3, 5]]))


def split(line: str) -> list[str]:
    return line.split()


@dataclasses.dataclass
class Unhashable:
    """A tokenizer or decoder that cannot be hashed, and that is equal to others with the same function."""

    function: Callable[..., Any]

    def __call__(self, argument: Any) -> Any:
        return self.function(argument)


class Locked(Unhashable):
    """A tokenizer or decoder that can be neither deep-copied nor pickled."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self.lock = threading.Lock()


def places(kind: Kind) -> list[Callable[..., Any]]:
    """Everything that takes options."""
    functions = [functools.partial(function, *LINES) for function in (kind.score, kind.score_sentences)]
    return [kind.metric, *functions, kind.settings.from_options]


def refuse(kind: Kind, error: type[Exception], message: str, **options: Any) -> str:
    """Check that all places raise an error, and return what the last of them says."""
    for call in places(kind):
        with pytest.raises(error, match=message) as caught:
            call(**options)
    return str(caught.value)


# The lists of options: the metric spells them out, a TypedDict types them for the functions, and settings store them


def test_the_lists_of_options_agree_in_names_types_and_defaults(kind: Kind) -> None:
    types, settings = kind.options, kind.settings
    parameters = dict(inspect.signature(kind.metric.__init__).parameters)
    for other in ("self", "kwargs"):
        del parameters[other]
    assert [(name, parameter.annotation) for name, parameter in parameters.items()] == [*types.items()]
    for name, parameter in parameters.items():
        assert settings.from_options(**{name: parameter.default}) == settings.from_options()
    assert kind.metric().settings == settings.from_options()
    stored = {field.name: field.type for field in dataclasses.fields(settings)}
    # None stands for the default of the convention. (The convention's own smoothing value may be None.)
    of_convention = {field.name for field in dataclasses.fields(Convention)} if kind is BLEU else set()
    converted = {"weights": "tuple[float, ...]", "ignore_ids": "tuple[int, ...]"}
    assert stored.keys() - {"zero_rule", "min_possible_matches"} == types.keys() - {"convention"}
    for name in types.keys() - {"convention"}:
        optional = name in of_convention - {"smoothing_value"}
        assert converted.get(name, types[name]) == (f"{stored[name]} | None" if optional else stored[name])


def test_the_defaults_of_chrf_are_those_of_sacrebleu() -> None:
    ours, theirs = CorpusCHRF().settings, SacreCHRF()
    for name in ("char_order", "word_order", "beta", "lowercase", "whitespace", "eps_smoothing"):
        assert getattr(ours, name) == getattr(theirs, name)


# Values


def test_an_option_takes_precedence_over_the_convention() -> None:
    options: Any = {"smoothing": "floor", "tokenizer": "zh", "lowercase": True, "reference_length": "shortest"}
    settings = BLEUSettings.from_options(convention="sacrebleu", **options)
    # 0.1 is the default of "floor"; everything that was not given is as in "sacrebleu"
    expected = dataclasses.replace(CONVENTIONS["sacrebleu"], **options, smoothing_value=0.1)
    assert {field.name: getattr(settings, field.name) for field in dataclasses.fields(Convention)} == vars(expected)
    own = Convention(smoothing="floor", smoothing_value=0.3)
    assert BLEUSettings.from_options(convention=own).smoothing_value == 0.3
    assert BLEUSettings.from_options(convention=own, smoothing="add-k").smoothing_value == 1
    assert BLEUSettings.from_options(convention=own, smoothing_value=0.2).smoothing_value == 0.2


@pytest.mark.parametrize("smoothing", list(SMOOTHINGS))
def test_the_smoothing_value_defaults_to_that_of_the_smoothing(smoothing: str) -> None:
    assert BLEUSettings.from_options(smoothing=smoothing).smoothing_value == SMOOTHINGS[smoothing].default


NUMBERS: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
    (BLEUSettings, {"max_order": np.int64(3)}, {"max_order": 3}),
    (BLEUSettings, {"weights": np.array([0.5, 0.25, 0.25, 0], np.float32)}, {"weights": (0.5, 0.25, 0.25, 0.0)}),
    (BLEUSettings, {"smoothing": "floor", "smoothing_value": np.float32(0.5)}, {"smoothing_value": 0.5}),
    (BLEUSettings, {"pad_id": torch.tensor(0), "percent": np.True_}, {"pad_id": 0, "percent": True}),
    (CHRFSettings, {"char_order": np.int64(3), "beta": np.float32(1)}, {"char_order": 3, "beta": 1.0}),
]


@pytest.mark.parametrize(("settings", "options", "expected"), NUMBERS)
def test_numbers_of_any_type_are_stored_as_plain_ones(settings: Any, options: Any, expected: dict[str, Any]) -> None:
    found = {name: getattr(settings.from_options(**options), name) for name in expected}
    assert repr(found) == repr(expected)  # with their types


@pytest.mark.parametrize(
    ("ignore_ids", "expected"),
    [
        (None, ()),
        ([], ()),
        (7, (7,)),
        (np.array(7), (7,)),
        ([7, -1], (7, -1)),
        (torch.tensor([7, -1]), (7, -1)),
        (range(3), (0, 1, 2)),
    ],
    ids=repr,
)
def test_ignored_ids_may_be_one_several_or_none(ignore_ids: Any, expected: tuple[int, ...], kind: Kind) -> None:
    assert kind.metric(ignore_ids=ignore_ids).settings.ignore_ids == expected


def test_ids_are_kept_when_none_is_ignored() -> None:
    assert corpus_bleu([[-100, 1]], [[-100, 2]]).hypothesis_length == 1  # -100 is what losses ignore
    assert corpus_bleu([[-100, 1]], [[-100, 2]], ignore_ids=None).hypothesis_length == 2


# Unknown options

# The names in the signatures of sacrebleu.metrics.BLEU and CHRF, sacrebleu.corpus_bleu, torchmetrics' BLEUScore,
# SacreBLEUScore, and CHRFScore, NLTK's corpus_bleu, Ignite's Bleu, Hugging Face's tokenizers and evaluate, and torch's
# cross_entropy.
ELSEWHERE = {
    **dict.fromkeys(["tokenize", "trg_lang"], "tokenizer"),
    "lower": "lowercase",
    **dict.fromkeys(["smooth_method", "smooth", "smoothing_function"], "smoothing"),
    "smooth_value": "smoothing_value",
    **dict.fromkeys(["max_ngram_order", "n_gram", "ngram", "max_n"], "max_order"),
    **{f"{name}_token_id": f"{name}_id" for name in ("pad", "bos", "eos", "unk")},
    "ignore_index": "ignore_ids",
    "n_char_order": "char_order",
    "n_word_order": "word_order",
}

MISSPELT = {"smooting": "smoothing", "Convention": "convention", "PAD_ID": "pad_id", "wordorder": "word_order"}


@pytest.mark.parametrize(("name", "meant"), [*ELSEWHERE.items(), *MISSPELT.items()])
def test_an_option_under_another_name_is_an_error_that_says_ours(name: str, meant: str, kind: Kind) -> None:
    """And that names only options that the metric has."""
    has_it = meant in kind.options
    message = refuse(kind, TypeError, f"^unknown option '{name}'" + f": did you mean '{meant}'" * has_it, **{name: 1})
    named = re.findall(r"'(\w+)'", re.sub(r"\(.*\)", "", message))[1:]
    assert named
    assert {*named} <= {*kind.options}


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [("smooth", "smoothing", "add-k"), ("smoothing_function", "smoothing", "method1"), ("trg_lang", "tokenizer", "zh")],
)
def test_advice_in_an_error_can_be_followed(name: str, option: str, value: str) -> None:
    assert f"{option}={value!r}" in str(unknown_options([name], BLEU.options))
    options: Any = {option: value}
    assert CorpusBLEU(**options).settings == BLEUSettings.from_options(**options)


def test_all_unknown_options_are_named_at_once_and_all_options_if_nothing_is_meant() -> None:
    message = "unknown option 'max_n': did you mean 'max_order'?, 'tokenise': did you mean 'tokenizer'?"
    refuse(BLEU, TypeError, re.escape(message), tokenise="13a", max_n=4)
    refuse(BLEU, TypeError, r"^unknown option 'size'; the options are \['max_order', 'weights', ", size=1)


def test_the_options_of_every_torchmetrics_metric_stay_its_own(kind: Kind) -> None:
    assert kind.metric(sync_on_compute=False).sync_on_compute is False
    with pytest.raises(ValueError, match="Expected keyword argument `compute_on_cpu` to be an `bool` but got x"):
        kind.metric(compute_on_cpu="x")


# Wrong values

WRONG_TYPES: dict[str, tuple[str, list[Any]]] = {
    "bool": ("must be True or False", ["no", 0, 1, [True]]),
    "int": ("must be an integer", ["4", 2.0, True, [2]]),
    "float": ("must be a number", ["1", True, [1]]),
}
"""What an option of a type must be, and what it is not."""


@pytest.mark.parametrize("of_type", WRONG_TYPES)
def test_an_option_of_a_wrong_type_is_an_error_with_that_type(of_type: str, kind: Kind) -> None:
    must, wrong = WRONG_TYPES[of_type]
    for name, annotation in kind.options.items():
        for value in [*wrong, None] if annotation == of_type else wrong:
            if annotation.removesuffix(" | None") == of_type:
                others = {"smoothing": "floor"} if name == "smoothing_value" else {}
                got = f"{re.escape(repr(value))} of type {type(value).__name__}"
                refuse(kind, TypeError, f"^{name!r} {must}, got {got}$", **others, **{name: value})


CHOICES = {"convention": CONVENTIONS, "smoothing": SMOOTHINGS, "reference_length": REFERENCE_LENGTHS}
IN_WEIGHTS = "'weights' must be one number for each order 1 ... max_order=4, got "

OF_ALL: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"pad_id": 2**63}, ValueError, "'pad_id' must fit in 64 bits, got 9223372036854775808"),
    ({"ignore_ids": [-(2**63) - 1]}, ValueError, "'ignore_ids' must fit in 64 bits"),
    ({"ignore_ids": [1.5]}, TypeError, "'ignore_ids' must be an integer, got 1.5"),
    ({"decoder": 5}, TypeError, "'decoder' must be a callable that turns a list of lists of ids into strings"),
    ({"decoder": "gpt2"}, TypeError, "(such as a Hugging Face tokenizer), got str"),
]
WRONG: list[tuple[Kind, dict[str, Any], type[Exception], str]] = [
    *((kind, *wrong) for kind in KINDS.values() for wrong in OF_ALL),
    *((BLEU, {name: 3}, TypeError, f"must be one of {[*names]}, got 3 of type int") for name, names in CHOICES.items()),
    *((BLEU, {name: "x"}, ValueError, f"must be one of {[*names]}, got 'x'") for name, names in CHOICES.items()),
    (BLEU, {"convention": None}, TypeError, "got None of type NoneType"),
    (BLEU, {"weights": 0.25}, TypeError, f"{IN_WEIGHTS}0.25 of type float"),
    (BLEU, {"weights": [1, 1, "x", 1]}, TypeError, f"{IN_WEIGHTS}[1, 1, 'x', 1]"),
    (BLEU, {"weights": torch.tensor(0.25)}, TypeError, f"{IN_WEIGHTS}tensor("),
    (BLEU, {"weights": [0.5, 0.5]}, ValueError, "must hold one weight for each order 1 ... max_order=4, got 2"),
    (BLEU, {"weights": [0.5, 0.5, 0.5, -0.5]}, ValueError, "must be finite, not negative, and not all 0"),
    (BLEU, {"weights": [0, 0, 0, 0]}, ValueError, "not all 0, got (0.0, 0.0, 0.0, 0.0)"),
    (BLEU, {"max_order": 0}, ValueError, "'max_order' must be 1 or more, got 0"),
    (BLEU, {"smoothing": "floor", "smoothing_value": -1}, ValueError, "must be a finite number of 0 or more, got -1"),
    (BLEU, {"smoothing": "method4", "smoothing_value": 0}, ValueError, "greater than 0 for smoothing 'method4', got 0"),
    (BLEU, {"smoothing_value": 1}, ValueError, "smoothing 'exp' takes no 'smoothing_value'; these do: ['floor', "),
    (BLEU, {"tokenizer": 13}, TypeError, "'tokenizer' must be a name or a callable, got 13 of type int"),
    (BLEU, {"tokenizer": "Flores200"}, ValueError, "got 'Flores200': did you mean 'flores200'?"),
    (BLEU, {"tokenizer": "moses"}, ValueError, "'tokenizer' must be a callable or one of ['none', 'zh', '13a', "),
    (CHRF, {"char_order": -1}, ValueError, "'char_order' must be 0 or more, got -1"),
    (CHRF, {"word_order": -2}, ValueError, "'word_order' must be 0 or more, got -2"),
    (CHRF, {"char_order": 0}, ValueError, "'char_order' or 'word_order' must be 1 or more, got 0 for both"),
    (CHRF, {"beta": math.nan}, ValueError, "'beta' must be a finite number of 0 or more, got nan"),
]


@pytest.mark.parametrize(("kind", "options", "error", "message"), WRONG)
def test_a_wrong_option_is_an_error_that_says_what_is_right(
    kind: Kind, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    assert [*options][-1] in refuse(kind, error, re.escape(message), **options)


@pytest.mark.parametrize(
    ("error", "convention", "message"),
    [
        (ValueError, {"zero_rule": "x"}, "'zero_rule' must be one of ['no-match', "),
        (TypeError, {"min_possible_matches": 1.5}, "'min_possible_matches' must be an integer, got 1.5 of type float"),
        (ValueError, {"min_possible_matches": -1}, "'min_possible_matches' must be 0 or more, got -1"),
        (TypeError, {"lowercase": "x"}, "'lowercase' must be True or False, got 'x' of type str"),
    ],
)
def test_a_convention_with_a_wrong_value_is_an_error_when_it_is_used(
    error: type[Exception], convention: dict[str, Any], message: str
) -> None:
    refuse(BLEU, error, re.escape(message), convention=Convention(**convention))


# Equality and copies

FLOOR = Convention(smoothing="floor", smoothing_value=0.1015625)  # exact in 32 bits


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"convention": "sacrebleu", "weights": [0.25] * 4}),
        ({}, {"convention": "papineni", "smoothing": "exp"}),
        ({"pad_id": 0}, {"pad_id": np.int64(0)}),
        ({"tokenizer": split}, {"tokenizer": split}),
        ({"convention": FLOOR}, {"smoothing": "floor", "smoothing_value": np.float32(0.1015625)}),
    ],
)
def test_settings_are_equal_if_they_score_alike(one: Any, other: Any) -> None:
    settings = {BLEUSettings.from_options(**options) for options in (one, other)}
    assert len(settings) == 1
    assert settings != {BLEUSettings.from_options(**one, percent=True)}
    assert not settings.pop().differences(BLEUSettings.from_options(**one, percent=True))  # the unit changes no test


@pytest.mark.parametrize(
    ("options", "names"),
    [
        *(
            ({name: value}, [name])
            for name, value in {"lowercase": True, "tokenizer": "none", "ignore_ids": ()}.items()
        ),
        *(({name: 0}, [name]) for name in ("pad_id", "bos_id", "eos_id", "unk_id")),
        ({"max_order": 3}, ["max_order", "weights"]),  # which have other defaults then
        ({"weights": (0.4, 0.2, 0.2, 0.2)}, ["weights"]),
        ({"tokenizer": split}, ["tokenizer"]),
        ({"smoothing": "floor"}, ["smoothing", "smoothing_value"]),
        ({"reference_length": "shortest"}, ["reference_length"]),
        ({"effective_order": True}, ["effective_order"]),
        ({"decoder": Unhashable(spell)}, ["decoder"]),
        ({"convention": Convention(smoothing="exp", zero_rule="as-smoothed")}, ["zero_rule"]),
        ({"convention": Convention(smoothing="exp", min_possible_matches=1)}, ["min_possible_matches"]),
    ],
)
def test_settings_differ_in_what_was_set_differently(options: Any, names: list[str]) -> None:
    one, other = BLEUSettings.from_options(), BLEUSettings.from_options(**options)
    assert one != other
    assert one.plain() != other.plain()
    assert sorted(one.differences(other)) == sorted(other.differences(one)) == sorted(names)


def test_callables_are_compared_as_python_does() -> None:
    makers: list[Callable[[], Any]] = [lambda: Unhashable(split), lambda: lambda line: line.split()]
    for name, (make, are_equal) in itertools.product(["tokenizer", "decoder"], zip(makers, [True, False])):
        one, same, other = (BLEU.settings.from_options(**{name: call}) for call in (*[make()] * 2, make()))
        assert one == same
        assert (one == other) == (len({one, other}) == 1) == are_equal


@pytest.mark.parametrize("wrap", [Unhashable, Locked])
@pytest.mark.parametrize("name", ["tokenizer", "decoder"])
def test_any_callable_can_be_a_tokenizer_or_decoder(name: str, wrap: type[Unhashable]) -> None:
    inputs: Any = IDS if name == "decoder" else LINES
    options: Any = {"tokenizer": "none"} | {name: wrap(spell if name == "decoder" else split)}
    expected = corpus_bleu(*LINES, tokenizer="none").bleu
    assert corpus_bleu(*inputs, **options).bleu == expected
    collection = MetricCollection({"one": CorpusBLEU(**options), "same": CorpusBLEU(**options)})
    collection.update(*inputs)
    for twin in (collection, collection.clone()):
        twin.update(*inputs)
        assert twin.compute() == {"one": expected, "same": expected}


def test_settings_cannot_be_changed_and_copies_are_the_same_object() -> None:
    settings = BLEUSettings.from_options(tokenizer=Locked(split))
    assert copy.deepcopy(settings) is settings
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.percent = True  # type: ignore[misc]


# Plain values


@pytest.mark.parametrize(
    ("options", "name", "plain"),
    [
        ({}, "tokenizer", "13a"),
        ({"max_order": np.int64(2), "weights": np.array([0.7, 0.3])}, "weights", (0.7, 0.3)),
        ({"tokenizer": str.split}, "tokenizer", "builtins.str.split"),
        ({"tokenizer": split, "percent": True}, "tokenizer", f"{__name__}.split"),
        ({"tokenizer": Locked(split)}, "tokenizer", f"{__name__}.Locked"),
        ({"tokenizer": functools.partial(str.split, sep=",")}, "tokenizer", "functools.partial"),
        ({"decoder": Unhashable(spell)}, "decoder", f"{__name__}.Unhashable"),
    ],
)
def test_plain_values_hold_every_setting_but_the_unit_and_can_be_saved(options: Any, name: str, plain: Any) -> None:
    values, file = BLEUSettings.from_options(**options).plain(), io.BytesIO()
    torch.save(values, file)
    file.seek(0)
    assert torch.load(file, weights_only=True) == values
    assert values.keys() == {field.name for field in dataclasses.fields(BLEUSettings)} - {"percent"}
    assert values[name] == plain


def test_the_tokenizer_of_a_model_is_an_error_that_says_where_it_belongs() -> None:
    raw = Tokenizer(WordLevel({"a": 0}, unk_token="a"))
    tokenizer: Any = PreTrainedTokenizerFast(tokenizer_object=raw)  # type: ignore[no-untyped-call]
    with pytest.raises(TypeError, match="the tokenizer of a model: to decode ids, pass decoder=tokenizer"):
        BLEUSettings.from_options(tokenizer=tokenizer)
    with pytest.raises(ValueError, match="'decoder' is the method 'decode' of a Hugging Face tokenizer"):
        BLEUSettings.from_options(decoder=tokenizer.decode)
    assert corpus_bleu(["a a"], ["a a"], tokenizer=tokenizer.tokenize, max_order=1) == 1
