"""The names of loaders, in the order in which Lightning reads them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest

from lightning_bleu.training.names import name_loaders

LOADER: Any = [["a batch"]]


@pytest.mark.parametrize(
    ("loaders", "count", "given", "metrics", "expected"),
    [
        # without names
        (LOADER, 1, None, None, None),
        ([LOADER], 1, None, None, None),
        (None, 1, None, None, None),
        ([LOADER, LOADER], 2, None, None, ["dataloader_idx_0", "dataloader_idx_1"]),
        (None, 3, None, None, ["dataloader_idx_0", "dataloader_idx_1", "dataloader_idx_2"]),
        # the keys of a dict
        ({"news": LOADER}, 1, None, None, ["news"]),
        ({"talks": LOADER, "news": LOADER}, 2, None, None, ["talks", "news"]),
        (OrderedDict(talks=LOADER, news=LOADER), 2, None, None, ["talks", "news"]),
        ({1: LOADER, None: LOADER}, 2, None, None, ["1", "None"]),
        # a dict whose values hold several loaders
        ({"all": [LOADER, LOADER]}, 2, None, None, ["dataloader_idx_0", "dataloader_idx_1"]),
        # given names
        (LOADER, 1, ["news"], None, ["news"]),
        ([LOADER, LOADER], 2, ("talks", "news"), None, ["talks", "news"]),
        ({"talks": LOADER, "news": LOADER}, 2, ["a", "b"], None, ["a", "b"]),
        # the names of metrics
        (LOADER, 1, None, ["news"], ["news"]),
        ([LOADER, LOADER], 2, None, ["talks", "news"], ["talks", "news"]),
        ({"talks": LOADER, "news": LOADER}, 2, None, ["news", "talks"], ["talks", "news"]),
        ({"talks": LOADER}, 1, None, ["news", "talks"], ["talks"]),
        ({"talks": LOADER, "news": LOADER}, 2, ["news", "talks"], ["talks", "news"], ["news", "talks"]),
        (LOADER, 1, ["news"], ["talks", "news"], ["news"]),
        # names that Lightning would give
        (
            [LOADER] * 2,
            2,
            None,
            ["dataloader_idx_0", "dataloader_idx_1", "x"],
            ["dataloader_idx_0", "dataloader_idx_1"],
        ),
    ],
)
def test_names_come_from_the_user_or_the_loaders_or_the_metrics_or_lightning(
    loaders: Any, count: int, given: Any, metrics: Any, expected: Any
) -> None:
    assert name_loaders("val", loaders, count, given=given, metrics=metrics) == expected


def test_names_are_a_list_of_their_own() -> None:
    given, metrics = ["a", "b"], ["c", "d"]
    for names in (name_loaders("val", None, 2, given=given), name_loaders("val", None, 2, metrics=metrics)):
        assert names is not None
        names.clear()
    assert (given, metrics) == (["a", "b"], ["c", "d"])


@pytest.mark.parametrize(
    ("count", "given", "numbers"),
    [(2, ["a"], "1 names for 2 loaders"), (1, ["a", "b"], "2 names for 1 loaders"), (1, [], "0 names for 1 loaders")],
)
@pytest.mark.parametrize("metrics", [None, ["a", "b"]])
def test_every_loader_needs_a_name(count: int, given: list[str], numbers: str, metrics: list[str] | None) -> None:
    with pytest.raises(ValueError, match=f"^'dataloader_names' must name every loader of 'test', got {numbers}$"):
        name_loaders("test", None, count, given=given, metrics=metrics)


@pytest.mark.parametrize(
    ("loaders", "count", "given", "found"),
    [
        (LOADER, 1, None, "without a name"),
        ([LOADER] * 3, 3, None, "['dataloader_idx_0', 'dataloader_idx_1', 'dataloader_idx_2']"),
        ({"news": LOADER, "chat": LOADER}, 2, None, "['news', 'chat']"),
        ({"chat": LOADER}, 1, None, "['chat']"),
        (LOADER, 1, ["chat"], "['chat']"),
        ({"news": LOADER}, 1, ["chat"], "['chat']"),
    ],
)
def test_every_loader_needs_a_metric_if_there_is_one_for_each(loaders: Any, count: int, given: Any, found: str) -> None:
    with pytest.raises(ValueError, match="'metric' has the names") as error:
        name_loaders("val", loaders, count, given=given, metrics=["news", "talks"])
    assert str(error.value) == (
        f"'metric' has the names ['news', 'talks'], but the loaders of 'val' are {found}: pass a dict of loaders with "
        "these names, or 'dataloader_names'"
    )
