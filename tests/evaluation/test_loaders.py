"""Loaders: the positions of their sentences, and which of them are ignored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch.utils.data import DataLoader

from lightning_bleu.core.settings import Settings
from lightning_bleu.evaluation.input.outputs import Origin
from lightning_bleu.evaluation.input.positions import Loader, Positions

FIVE: Any = range(5)
"""A set of five items; a range is not a Dataset for mypy."""


@pytest.mark.parametrize("order_needed_by", ["", "Evaluator(compare_to='best')"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_positions_are_those_that_the_step_returned_or_not_needed_by_a_single_process(
    shuffle: bool, order_needed_by: str
) -> None:
    """But if an option needs the order, a loader that shuffles needs an index."""
    loader = Loader("news", Settings(), DataLoader(FIVE, shuffle=shuffle), order_needed_by=order_needed_by)
    index = np.array([7, 3])
    assert loader.find_positions(index, 0, 2) == Positions(index)
    if shuffle and order_needed_by:
        message = (
            r"^Evaluator\(compare_to='best'\) needs to know which sentence is which, but a loader shuffles them: pass "
            r"the position of each sentence in the dataset as 'index' to 'update', or set shuffle=False$"
        )
        with pytest.raises(ValueError, match=message):
            loader.find_positions(None, 0, 2)
    else:
        assert loader.find_positions(None, 0, 2) == Positions(None)


def test_an_error_of_a_loader_speaks_of_what_returned_its_sentences() -> None:
    origin = Origin("validation_step", owner="BLEUCallback")
    loader = Loader(
        "", Settings(), DataLoader(FIVE, shuffle=True), origin, order_needed_by="BLEUCallback(translations=...)"
    )
    with pytest.raises(ValueError, match=r"return the position .* as 'index' from 'validation_step', or set shuffle"):
        loader.find_positions(None, 0, 2)


@pytest.mark.parametrize(("labels", "is_ignored"), [(None, False), ([], True), (["de"], False), ([""], False)])
def test_a_loader_of_which_nothing_is_scored_is_ignored(labels: Any, is_ignored: bool) -> None:
    assert Loader("news", Settings(), labels=labels).is_ignored is is_ignored
