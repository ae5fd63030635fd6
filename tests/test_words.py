"""One word, one meaning: what names hold while the package runs."""

from __future__ import annotations

import pytest

from tests.helpers.words import MEANINGS, evaluate_compare_and_read, record_types


@pytest.mark.filterwarnings("ignore:With .* sentences, a paired bootstrap", "ignore:The record has scores of")
def test_a_word_means_the_same_in_the_whole_package() -> None:
    found = record_types(evaluate_compare_and_read)
    assert {name: set(types) for name, types in found.items()} == MEANINGS
