from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import io
import math
import threading
from typing import Any, cast

import numpy as np
import pytest
import torch
from torchmetrics import MetricCollection

from lightning_bleu import Convention, CorpusBLEU, corpus_bleu
from lightning_bleu.settings.conventions import CONVENTIONS
from lightning_bleu.settings.options import Options
from lightning_bleu.settings.settings import Settings
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


def describe(value: Any) -> str:
    """A test id without addresses, which differ between processes."""
    if isinstance(value, dict):
        return ",".join(f"{name}={describe(option)}" for name, option in value.items())
    if isinstance(value, str | int | float | tuple | Convention):
        return repr(value)
    return getattr(value, "__qualname__", type(value).__qualname__)


def inputs_for(options: dict[str, Any]) -> tuple[Any, Any]:
    return IDS if "decoder" in options else LINES


# Options and their defaults


def test_the_options_are_the_same_in_all_three_places() -> None:
    """CorpusBLEU spells them out, Options types them for the functions, Settings has their defaults."""
    parameters = dict(inspect.signature(CorpusBLEU.__init__).parameters)
    for other in ("self", "keep_sentences", "kwargs"):
        del parameters[other]
    assert list(parameters) == list(Options.__annotations__)
    for name, parameter in parameters.items():
        assert Settings.from_options(**{name: parameter.default}) == Settings.from_options()
    assert CorpusBLEU().settings == Settings.from_options()


def test_the_options_have_the_same_types_in_both_places() -> None:
    parameters = inspect.signature(CorpusBLEU.__init__).parameters
    for name, annotation in Options.__annotations__.items():
        typed = annotation.__forward_arg__ if hasattr(annotation, "__forward_arg__") else annotation
        assert parameters[name].annotation == typed


def test_an_option_takes_precedence_over_the_convention() -> None:
    settings = Settings.from_options(
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
    assert Settings.from_options(convention=own).smoothing_value == 0.3
    assert Settings.from_options(convention=own, smoothing="add-k").smoothing_value == 1
    assert Settings.from_options(convention=own, smoothing_value=0.2).smoothing_value == 0.2


@pytest.mark.parametrize("smoothing", list(SMOOTHINGS))
def test_the_smoothing_value_defaults_to_that_of_the_smoothing(smoothing: str) -> None:
    assert Settings.from_options(smoothing=smoothing).smoothing_value == SMOOTHINGS[smoothing].default


def test_any_type_of_integer_is_accepted_and_stored_as_an_int() -> None:
    settings = Settings.from_options(
        max_order=cast(int, np.int64(3)), pad_id=cast(int, torch.tensor(0)), ignore_ids=np.array([7])
    )
    assert (settings.max_order, settings.special_ids.pad_id, settings.special_ids.ignore_ids) == (3, 0, (7,))
    values = (settings.max_order, settings.special_ids.pad_id, *settings.special_ids.ignore_ids)
    assert {type(value) for value in values} == {int}


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
    assert Settings.from_options(ignore_ids=ignore_ids).special_ids.ignore_ids == expected
    assert CorpusBLEU(ignore_ids=ignore_ids).settings.special_ids.ignore_ids == expected


def test_ids_are_kept_when_none_is_ignored() -> None:
    preds, target = [[-100, 1]], [[-100, 2]]
    assert corpus_bleu(preds, target).hypothesis_length == 1  # -100 is what losses ignore
    assert corpus_bleu(preds, target, ignore_ids=None).hypothesis_length == 2


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
        ({"smoothing": "method4", "smoothing_value": 0}, ValueError, "greater than 0 for smoothing 'method4', got 0"),
        (
            {"reference_length": "average"},
            ValueError,
            r"'reference_length' must be one of \['closest', .*got 'average'",
        ),
        ({"convention": Convention(zero_rule="x")}, ValueError, "'zero_rule' must be one of"),
        ({"tokenizer": "moses"}, ValueError, "'tokenizer' must be a callable or one of .*'13a'.*got 'moses'"),
        ({"pad_id": "0"}, TypeError, "'pad_id' must be an integer, got '0' of type str"),
        ({"pad_id": 2**63}, ValueError, "'pad_id' must fit in 64 bits, got 9223372036854775808"),
        ({"ignore_ids": [-(2**63) - 1]}, ValueError, "'ignore_ids' must fit in 64 bits"),
        ({"ignore_ids": [1.5]}, TypeError, "'ignore_ids' must be an integer, got 1.5"),
        ({"decoder": 5}, TypeError, "'decoder' must be a callable .* got int"),
    ],
)
def test_an_error_says_what_is_wrong_and_lists_the_choices(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        CorpusBLEU(**options)
    with pytest.raises(error, match=message):
        corpus_bleu(*LINES, **options)


# Equality, hashing, and copies


def test_settings_are_equal_if_they_score_alike() -> None:
    assert Settings.from_options() == Settings.from_options(convention="sacrebleu", weights=[0.25] * 4)
    assert Settings.from_options() == Settings.from_options(convention="papineni", smoothing="exp")
    assert Settings.from_options(pad_id=0) == Settings.from_options(pad_id=cast(int, np.int64(0)))
    assert hash(Settings.from_options(convention="papineni", smoothing="exp")) == hash(Settings.from_options())
    assert Settings.from_options() != "13a"


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
        {"percent": True},
        {"convention": Convention(zero_rule="as-smoothed")},
        {"convention": Convention(min_possible_matches=1)},
        {"convention": Convention(break_ngrams=True)},
    ],
    ids=describe,
)
def test_settings_differ_in_what_was_set_differently(options: Any) -> None:
    one, other = Settings.from_options(), Settings.from_options(**options)
    assert one != other
    # The unit does not change how scores compare.
    assert bool(one.differences(other)) == ("percent" not in options)
    assert one.differences(other) == other.differences(one)
    assert (one.fingerprint() != other.fingerprint()) == ("percent" not in options)


def test_differences_are_named() -> None:
    one = Settings.from_options(smoothing="floor", smoothing_value=0.101)
    assert one.differences(Settings.from_options(smoothing="floor", smoothing_value=0.104)) == ["smoothing_value"]
    assert one.differences(Settings.from_options(lowercase=True)) == ["lowercase", "smoothing", "smoothing_value"]
    assert one.differences(one) == []


def test_callables_are_compared_by_identity() -> None:
    tokenizer = Splitter()
    assert tokenizer == Splitter()
    assert Settings.from_options(tokenizer=tokenizer) == Settings.from_options(tokenizer=tokenizer)
    assert Settings.from_options(tokenizer=tokenizer) != Settings.from_options(tokenizer=Splitter())
    assert Settings.from_options(decoder=Speller()) != Settings.from_options(decoder=Speller())
    first, second = (lambda line: line.split()), (lambda line: line.split())
    assert Settings.from_options(tokenizer=first) != Settings.from_options(tokenizer=second)


def test_ids_may_differ_if_both_settings_decode_them() -> None:
    """Two models may have vocabularies of their own; their text is comparable all the same."""
    one = Settings.from_options(decoder=Speller(), pad_id=0)
    other = Settings.from_options(decoder=Speller(), pad_id=1, eos_id=2)
    assert one != other
    assert one.differences(other) == []
    assert one.differences(Settings.from_options(pad_id=0)) == ["decoder"]


@pytest.mark.parametrize("options", CALLABLES, ids=describe)
def test_any_callable_can_be_a_tokenizer_or_decoder(options: dict[str, Any]) -> None:
    """Some cannot be hashed, some cannot be copied."""
    inputs = inputs_for(options)
    expected = corpus_bleu(*LINES, tokenizer="none").bleu
    assert corpus_bleu(*inputs, **options).bleu == expected
    metric = CorpusBLEU(**options)
    metric.update(*inputs)
    clone = metric.clone()
    clone.update(*inputs)
    assert clone.settings == metric.settings
    assert clone.compute().item() == metric.compute().item() == expected
    hash(metric.settings)


@pytest.mark.parametrize("options", CALLABLES, ids=describe)
def test_any_callable_works_in_a_collection(options: dict[str, Any]) -> None:
    inputs = inputs_for(options)
    collection = MetricCollection({"one": CorpusBLEU(**options), "same": CorpusBLEU(**options)})
    for _ in range(2):
        collection.update(*inputs)
    assert collection.compute_groups == {0: ["one", "same"]}
    expected = corpus_bleu(*LINES, tokenizer="none").bleu
    for twin in (collection, collection.clone()):
        assert {name: value.item() for name, value in twin.compute().items()} == {"one": expected, "same": expected}


def test_settings_cannot_be_changed_and_copies_are_the_same_object() -> None:
    settings = Settings.from_options(tokenizer=LockedSplitter())
    assert copy.deepcopy(settings) is settings
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.percent = True  # type: ignore[misc]


# Fingerprints


@pytest.mark.parametrize(
    "options",
    [{}, {"convention": "allennlp", "pad_id": 0}, *CALLABLES, {"tokenizer": split, "percent": True}],
    ids=describe,
)
def test_a_fingerprint_is_plain_data_that_can_be_saved(options: Any) -> None:
    fingerprint = Settings.from_options(**options).fingerprint()
    file = io.BytesIO()
    torch.save(fingerprint, file)
    file.seek(0)
    assert torch.load(file, weights_only=True) == fingerprint


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
def test_a_fingerprint_represents_callables_by_their_names(tokenizer: Any, name: str) -> None:
    assert Settings.from_options(tokenizer=tokenizer).fingerprint()["tokenizer"] == name
    assert Settings.from_options(decoder=Speller()).fingerprint()["decoder"] == f"{__name__}.Speller"


def test_a_fingerprint_holds_every_setting() -> None:
    names = [field.name for field in dataclasses.fields(Settings)]
    assert list(Settings.from_options().fingerprint()) == names
