from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightning_bleu import CONVENTIONS
from lightning_bleu.settings.lengths import REFERENCE_LENGTHS
from lightning_bleu.settings.options import OPTION_NAMES
from lightning_bleu.settings.smoothing import SMOOTHINGS
from lightning_bleu.settings.tokenizers import TOKENIZERS
from lightning_bleu.suggestions import choose, closest

CHOICES = [list(CONVENTIONS), list(SMOOTHINGS), list(REFERENCE_LENGTHS), list(TOKENIZERS), list(OPTION_NAMES)]


@pytest.mark.parametrize("choices", CHOICES)
@pytest.mark.parametrize("change", [str, str.upper, str.title, str.swapcase])
def test_a_name_in_another_case_is_closest_to_itself(choices: list[str], change: Any) -> None:
    for name in choices:
        assert closest(change(name), choices) == repr(name)


@pytest.mark.parametrize(
    ("name", "choices", "expected"),
    [
        ("papinieni", CONVENTIONS, "'papineni'"),
        ("sacre_bleu", CONVENTIONS, "'sacrebleu'"),
        ("add_k", SMOOTHINGS, "'add-k'"),
        ("flores-200", TOKENIZERS, "'flores200'"),
        ("lower_case", OPTION_NAMES, "'lowercase'"),
        ("moses", TOKENIZERS, None),
        ("", CONVENTIONS, None),
        ("exp", [], None),
    ],
)
def test_a_misspelt_name_is_closest_to_what_was_meant_and_others_to_nothing(
    name: str, choices: Any, expected: str | None
) -> None:
    assert closest(name, choices) == expected


@given(st.text(), st.lists(st.text(), unique_by=str.lower))
def test_the_closest_name_is_one_of_the_choices(name: str, choices: list[str]) -> None:
    assert closest(name, choices) in {None, *map(repr, choices)}


def test_a_choice_is_returned_as_it_is() -> None:
    assert choose("smoothing", "exp", SMOOTHINGS) == "exp"


def test_a_value_that_is_not_a_choice_is_an_error_with_the_choices_and_a_hint_if_there_is_one() -> None:
    with pytest.raises(
        ValueError, match=r"^'letter' must be one of \['Alpha', 'beta'\], got 'alpha': did you mean 'Alpha'\?$"
    ):
        choose("letter", "alpha", ["Alpha", "beta"])
    with pytest.raises(ValueError, match=r"^'letter' must be one of \['Alpha', 'beta'\], got 'x'$"):
        choose("letter", "x", ["Alpha", "beta"])


@pytest.mark.parametrize(
    ("value", "type_name"), [(None, "NoneType"), (3, "int"), (["beta"], "list"), (b"beta", "bytes")]
)
def test_a_value_that_is_no_name_is_an_error_with_its_type(value: object, type_name: str) -> None:
    with pytest.raises(TypeError, match=rf"^'letter' must be one of \['beta'\], got .* of type {type_name}$"):
        choose("letter", value, ["beta"])
