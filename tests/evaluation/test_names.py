"""The names of loaders, and those of logged numbers."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_bleu import CorpusBLEU
from lightning_bleu.evaluation.metrics.shared_facts import list_components
from lightning_bleu.evaluation.names import (
    Name,
    Naming,
    check_names,
    name_loaders,
)
from lightning_bleu.evaluation.scores.validation import STATISTICS
from lightning_bleu.hugging_face.mixin import TrainerNaming

LOADER: Any = [["a batch"]]


# Names of loaders


@pytest.mark.parametrize(
    ("loaders", "count", "given", "expected"),
    [
        # without names
        (LOADER, 1, None, [""]),
        (None, 1, None, [""]),
        ([LOADER, LOADER], 2, None, ["dataloader_idx_0", "dataloader_idx_1"]),
        # the keys of a dict
        ({"news": LOADER}, 1, None, ["news"]),
        ({"talks": LOADER, "news": LOADER}, 2, None, ["talks", "news"]),
        ({1: LOADER, None: LOADER}, 2, None, ["1", "None"]),
        # a dict whose values hold several loaders
        ({"all": [LOADER, LOADER]}, 2, None, ["dataloader_idx_0", "dataloader_idx_1"]),
        # given names
        ([LOADER, LOADER], 2, ("talks", "news"), ["talks", "news"]),
        ({"talks": LOADER, "news": LOADER}, 2, ["a", "b"], ["a", "b"]),
    ],
)
def test_names_come_from_the_user_or_the_loaders_or_lightning(
    loaders: Any, count: int, given: Any, expected: Any
) -> None:
    assert name_loaders("val", loaders, count, given=given) == expected


@pytest.mark.parametrize(
    ("count", "given", "numbers"),
    [(2, ["a"], "1 names for 2 loaders"), (1, ["a", "b"], "2 names for 1 loaders"), (1, [], "0 names for 1 loaders")],
)
def test_every_validation_loader_needs_a_name(count: int, given: list[str], numbers: str) -> None:
    with pytest.raises(ValueError, match=f"^'dataloader_names' must name every loader of 'val', got {numbers}$"):
        name_loaders("val", None, count, given=given)


@pytest.mark.parametrize(("count", "given"), [(2, ["a"]), (1, ["a", "b"]), (1, [])])
def test_names_of_another_number_of_test_loaders_are_ignored(count: int, given: list[str]) -> None:
    """They are those of the validation loaders."""
    message = f"'dataloader_names' has {len(given)} names, but there are {count} loaders of 'test': it is ignored"
    for loaders in (None, dict.fromkeys(["c", "d"][:count], LOADER)):
        with pytest.warns(UserWarning, match=f"^{message}$"):
            names = name_loaders("test", loaders, count, given=given)
        assert names == name_loaders("test", loaders, count)
    assert name_loaders("test", None, len(given) or 1, given=given or None) == (given or [""])


RESERVED = ["", "mean", "best", "low", "precision_1", "gaps/max"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "b", "a"], "the loaders of 'val' must have different names, got ['a', 'b', 'a']"),
        (["best", "talks"], "the loaders of 'val' cannot have the name 'best', which is reserved"),
        (["news", ""], "the loaders of 'val' cannot have the name '', which is reserved"),
        (["/news"], "the loaders of 'val' cannot have the name '/news', because '' is reserved"),
        (["low/news"], "the loaders of 'val' cannot have the name 'low/news', because 'low' is reserved"),
        (["gaps/max/a"], "the loaders of 'val' cannot have the name 'gaps/max/a', because 'gaps/max' is reserved"),
        (["a", "a/b"], "the names 'a' and 'a/b' of the loaders of 'val' clash: a/... is logged"),
        (["a/b/c/d", "x", "a/b"], "the names 'a/b' and 'a/b/c/d' of the loaders of 'val' clash: a/b/..."),
        (["a\ud800"], "the loaders of 'val' cannot have the name 'a\\ud800': a lone surrogate cannot be written to a"),
    ],
)
def test_names_of_loaders_must_not_clash(names: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        check_names("loaders of 'val'", names, RESERVED)


@pytest.mark.parametrize("names", [["news"], ["a/b", "a/c"], ["lower", "mean_", "news/low", "gaps", "新"], []])
def test_names_that_begin_like_reserved_ones_are_not_reserved(names: list[str]) -> None:
    check_names("loaders of 'val'", names, RESERVED)


@pytest.mark.parametrize("name", [1, None, b"a", ("a",)])
def test_names_are_strings(name: Any) -> None:
    message = f"the names of the groups must be strings, got {name!r} of type {type(name).__name__}"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        check_names("groups", ["a", name])


# Names of logged numbers

LIGHTNING = Naming("val", "{stage}_{metric}")
FOLDERS = Naming("val", "{stage}/{metric}")
TRANSFORMERS = TrainerNaming("eval_news", "{stage}_{metric}", "_")
NAMINGS = {"Lightning": LIGHTNING, "folders": FOLDERS, "Transformers": TRANSFORMERS}
DETAILS = [*STATISTICS, *(component.name for component in list_components(CorpusBLEU().scorer))]
"""The names of all statistics, and of the components of BLEU."""


@pytest.mark.parametrize(
    ("name", "lightning", "folders", "transformers"),
    [
        (Name("bleu"), "val_bleu", "val/bleu", "eval_news_bleu"),
        (Name("bleu", detail="low"), "val_bleu/low", "val/bleu/low", "eval_news_bleu_low"),
        (Name("bleu", "de"), "val_bleu/de", "val/bleu/de", "eval_news_bleu_de"),
        (Name("bleu", group="de"), "val_bleu/de", "val/bleu/de", "eval_news_bleu_de"),
        (Name("bleu", "talks", "de"), "val_bleu/talks/de", "val/bleu/talks/de", "eval_news_bleu_talks_de"),
        (Name("bleu/a"), "val_bleu/a", "val/bleu/a", "eval_news_bleu/a"),
        (
            Name("rouge", "talks", "de", "l/f1", "p_value"),
            "val_rouge/talks/de/l/f1/p_value",
            "val/rouge/talks/de/l/f1/p_value",
            "eval_news_rouge_talks_de_l_f1_p_value",
        ),
    ],
)
def test_a_name_is_that_of_the_metric_the_loader_the_group_the_score_and_the_detail(
    name: Name, lightning: str, folders: str, transformers: str
) -> None:
    assert LIGHTNING.render(name) == LIGHTNING.render_panel(name) == lightning
    assert FOLDERS.render(name) == FOLDERS.render_panel(name) == folders
    assert TRANSFORMERS.render(name) == transformers


def test_the_whole_of_a_score_is_that_of_all_loaders_and_groups() -> None:
    name = Name("rouge", "news", "de", "l/f1", "low")
    assert name.whole == name.whole.whole == Name("rouge", score="l/f1")
    assert (name.key, name.whole.key, Name("bleu", "news").key) == ("rouge/l/f1", "rouge/l/f1", "bleu")


def test_loggers_of_a_trainer_have_names_of_their_own_and_panels_have_folders() -> None:
    name = Name("rouge", "de", score="l", detail="low")
    assert TRANSFORMERS.render_for_loggers(name) == "eval/news_rouge_de_l_low"
    assert TRANSFORMERS.render_panel(name) == "eval/news_rouge/de/l/low"


SCORES = {"bleu": [""], "bleu/a": [""], "rouge": ["l", "l/f1"]}


@pytest.mark.parametrize("naming", NAMINGS.values(), ids=NAMINGS)
@pytest.mark.parametrize("detail", ["", *STATISTICS, "precision_1"])
@pytest.mark.parametrize("loader", ["", "de", "low-resource", "p_values"])
@pytest.mark.parametrize("metric", SCORES)
def test_every_detail_of_every_metric_is_read_as_what_it_is(
    metric: str, loader: str, detail: str, naming: Naming
) -> None:
    """Such as ``difference_low``, which ends like ``low``, and ``bleu/a``, which begins like ``bleu``."""
    for score in SCORES[metric]:
        name = Name(metric, loader, score=score, detail=detail)
        assert naming.parse(naming.render(name), SCORES, DETAILS) == name


@pytest.mark.parametrize("metrics", [["bleu", "bleu/a"], ["bleu/a", "bleu"]])
def test_metrics_of_which_one_begins_like_the_other_are_told_apart(metrics: list[str]) -> None:
    of_metrics = {metric: [""] for metric in metrics}
    assert LIGHTNING.parse("val_bleu/a", of_metrics, DETAILS) == Name("bleu/a")
    assert LIGHTNING.parse("val_bleu/a/low", of_metrics, DETAILS) == Name("bleu/a", detail="low")
    assert LIGHTNING.parse("val_bleu/ab", of_metrics, DETAILS) == Name("bleu", "ab")
    assert LIGHTNING.parse("val_bleu/b/a", of_metrics, DETAILS) == Name("bleu", "b/a")


def test_a_loader_and_its_group_are_read_as_one_name() -> None:
    logged = LIGHTNING.render(Name("rouge", "news", "de", "l", "low"))
    assert LIGHTNING.parse(logged, SCORES, DETAILS) == Name("rouge", "news/de", score="l", detail="low")
    assert LIGHTNING.parse("val_bleu/mean", SCORES, DETAILS) == Name("bleu", "mean")


@pytest.mark.parametrize("naming", NAMINGS.values(), ids=NAMINGS)
@pytest.mark.parametrize(
    "logged", ["", "train_loss", "bleu", "val", "val_ble", "val_bleus", "eval_news_bleus", "lr/bleu"]
)
def test_another_name_is_that_of_no_metric(logged: str, naming: Naming) -> None:
    assert naming.parse(logged, SCORES, DETAILS) is None


class Logged(NamedTuple):
    """A number, among the metrics with the names of their scores, and how its name is written."""

    name: Name
    scores: dict[str, list[str]]
    naming: Naming


def words(letters: str, separators: str = "_/-") -> st.SearchStrategy[str]:
    """Names of up to three words of these letters."""
    return st.from_regex(rf"[{letters}]{{1,3}}([{separators}][{letters}]{{1,2}}){{0,2}}", fullmatch=True)


@st.composite
def logged_numbers(draw: st.DrawFn) -> Logged:
    """Metrics, loaders, and scores have letters of their own, so that only one number has each logged name."""
    naming = draw(st.sampled_from([*NAMINGS.values()]))
    unique_scores = st.lists(
        words("pqr"), min_size=1, max_size=4, unique_by=lambda score: score.replace("/", naming.separator)
    )
    scores = draw(st.dictionaries(words("mno"), st.just([""]) | unique_scores, min_size=1, max_size=4))
    metric = draw(st.sampled_from([*scores]))
    loader = draw(st.just("") | words("stu", "_/-" if naming.separator == "/" else "_-"))
    score = draw(st.sampled_from(scores[metric]))
    detail = draw(st.sampled_from(["", *DETAILS]))
    return Logged(Name(metric, loader, score=score, detail=detail), scores, naming)


@given(logged_numbers())
@settings(max_examples=20)
def test_what_is_logged_is_read_back(logged: Logged) -> None:
    name, scores, naming = logged
    assert naming.parse(naming.render(name), scores, DETAILS) == name
