"""The names of logged numbers: a value that says what a number is, and how it is written."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from lightning_bleu.core.messages import list_values, warn_user

MEAN = "mean"
"""The name of the mean of the groups of a loader, beside their scores."""
STEPS = {"val": "validation_step", "test": "test_step"}
"""The step of each stage."""


class Name(NamedTuple):
    """What a logged number is.

    Attributes:
        metric: the name of the metric.
        loader: the name of the loader; empty if it has none, and for the whole validation.
        group: the label of the group; empty for all sentences, and ``"mean"`` for the mean of the groups.
        score: the name of the score, for a metric with several scores.
        detail: the name of a component of the score or of a statistic; empty for the score itself.
    """

    metric: str
    loader: str = ""
    group: str = ""
    score: str = ""
    detail: str = ""

    @property
    def key(self) -> str:
        """The name of the score alone: that of the metric, if it has only one score.

        Example:
            >>> Name("bleu", "news").key, Name("rouge", score="rouge1").key
            ('bleu', 'rouge/rouge1')
        """
        return f"{self.metric}/{self.score}" if self.score else self.metric

    @property
    def whole(self) -> Name:
        """The name of the same score of the whole validation."""
        return Name(self.metric, score=self.score)


def join_place(loader: str, group: str | None) -> str:
    """What a loader, or a group of it, is called in messages; empty for a loader without a name.

    Example:
        >>> join_place("news", "de"), join_place("", "de"), join_place("news", None)
        ('news/de', 'de', 'news')
    """
    return "/".join(filter(None, [loader, group]))


class Naming(NamedTuple):
    """How the names of a validation are written.

    Attributes:
        stage: how the names begin: ``"val"``, or, in Transformers, ``"eval_news"``.
        log_name: the names of the scores, with placeholders for the stage and for the name of the metric.
        separator: what joins the pieces of a name: a slash, or in Transformers an underscore.

    Example:
        >>> naming = Naming("val", "{stage}/{metric}")
        >>> naming.render(Name("rouge", "news", score="rouge1", detail="low"))
        'val/rouge/news/rouge1/low'
        >>> naming.folder
        ['val']
    """

    stage: str = "val"
    log_name: str = "{stage}_{metric}"
    separator: str = "/"

    def tag(self, metric_name: str) -> str:
        """The logged name of a metric."""
        return self.log_name.format(stage=self.stage, metric=metric_name)

    def render(self, name: Name, separator: str | None = None) -> str:
        """The logged name of a number; perhaps with another separator."""
        separator = separator or self.separator
        parts = [part.replace("/", separator) for part in name[1:] if part]
        return separator.join([self.tag(name.metric), *parts])

    def shown_as(self, logged: str) -> str:
        """The name that loggers give to a logged name: the same, unless a trainer changes it."""
        return logged

    def render_for_loggers(self, name: Name) -> str:
        """The name of a number in the loggers of a trainer."""
        return self.shown_as(self.render(name))

    def render_panel(self, name: Name) -> str:
        """The name of something that loggers show beside numbers, such as a figure: its parts are always folders."""
        return self.shown_as(self.render(name, "/"))

    def parse(self, logged: str, scores: Mapping[str, Collection[str]], details: Collection[str]) -> Name | None:
        """What is logged under a name; None if it is none of these metrics.

        A loader and a group cannot be told apart: both are in `loader`.

        Args:
            logged: the name.
            scores: the names of the scores of each metric.
            details: the names of the components and statistics that are logged below a score.

        Example:
            >>> Naming().parse("val_rouge/news/rouge1/low", {"rouge": ["rouge1", "rouge2"]}, ["low", "high"])
            Name(metric='rouge', loader='news', group='', score='rouge1', detail='low')
        """
        for metric in sorted(scores, key=len, reverse=True):  # "bleu/a" before "bleu"
            tag = self.tag(metric)
            if f"{logged}{self.separator}".startswith(f"{tag}{self.separator}"):
                rest = logged.removeprefix(tag).removeprefix(self.separator)
                rest, detail = self._split_last(rest, details)
                rest, score = self._split_last(rest, scores[metric])
                return Name(metric, rest, score=score, detail=detail)
        return None

    def _split_last(self, text: str, names: Collection[str]) -> tuple[str, str]:
        """Split off the longest of these names at the end: ``"news/low"`` -> ``("news", "low")``."""
        for name in sorted(filter(None, names), key=len, reverse=True):  # "difference_low" before "low"
            written = name.replace("/", self.separator)
            if text == written:
                return "", name
            if text.endswith(f"{self.separator}{written}"):
                return text.removesuffix(f"{self.separator}{written}"), name
        return text, ""

    @property
    def folder(self) -> list[str]:
        """The folder of the translations, which do not depend on a metric, below that of the run.

        Example:
            >>> Naming("val", "{stage}/mt/{metric}").folder, Naming("val", "mt/{metric}").folder
            (['val', 'mt'], ['val', 'mt'])
        """
        pieces = [piece.strip("_-. ") for piece in self.tag("").split("/")]
        if "{stage}" not in self.log_name:
            pieces.insert(0, self.stage)
        return [piece for piece in pieces if piece] or [self.stage]


def name_loaders(stage: str, loaders: Any, count: int, *, given: Sequence[str] | None = None) -> list[str]:
    """The names of the loaders of a stage.

    Args:
        stage: ``"val"`` or ``"test"``.
        loaders: the loaders as the user passed them; the keys of a dict are names.
        count: the number of loaders.
        given: names that take precedence; ignored with a warning if there is another number of test loaders.

    Returns:
        a name per loader; ``""`` for a single loader without a name.

    Raises:
        ValueError: if `given` does not name every loader.

    Example:
        >>> name_loaders("val", {"news": [...], "talks": [...]}, 2)
        ['news', 'talks']
        >>> name_loaders("val", [[...], [...]], 2)
        ['dataloader_idx_0', 'dataloader_idx_1']
        >>> name_loaders("val", [...], 1)
        ['']
    """
    if given is not None and len(given) != count:
        if stage != "test":
            raise ValueError(
                f"'dataloader_names' must name every loader of {stage!r}, got {len(given)} names for {count} loaders"
            )
        warn_user(f"'dataloader_names' has {len(given)} names, but there are {count} loaders of 'test': it is ignored")
        given = None
    if given is not None:
        return list(given)
    if isinstance(loaders, Mapping) and len(loaders) == count:
        return [str(name) for name in loaders]
    if count > 1:
        return [f"dataloader_idx_{number}" for number in range(count)]
    return [""]


def column_name(name: str) -> str:
    """The name of a score in the header of a table.

    Example:
        >>> column_name('exact  "match"')
        'exact match'
    """
    return " ".join(name.replace('"', " ").split())


def check_names(kind: str, names: Sequence[Any], reserved: Collection[str] = ("",)) -> None:
    """Check names that are logged as part of a name.

    Args:
        kind: what has the names, for error messages.
        names: the names.
        reserved: names of what is logged beside them.

    Raises:
        TypeError: if they are not strings.
        ValueError: if they clash with each other, or with what is logged beside them.

    Example:
        >>> check_names("groups", ["de", "de/news"])
        Traceback (most recent call last):
        ...
        ValueError: the names 'de' and 'de/news' of the groups clash: de/... is logged
    """
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"the names of the {kind} must be strings, got {name!r} of type {type(name).__name__}")
        for folder in _folders(name):
            if folder in reserved:
                reason = "which is reserved" if folder == name else f"because {folder!r} is reserved"
                raise ValueError(f"the {kind} cannot have the name {name!r}, {reason}")
        if name.encode(errors="replace").decode() != name:
            raise ValueError(f"the {kind} cannot have the name {name!r}: a lone surrogate cannot be written to a file")
    distinct = set(names)
    if len(distinct) < len(names):
        raise ValueError(f"the {kind} must have different names, got {list_values(names)}")
    for name in names:
        for folder in _folders(name):
            if folder != name and folder in distinct:
                raise ValueError(f"the names {folder!r} and {name!r} of the {kind} clash: {folder}/... is logged")


def _folders(name: str) -> Iterator[str]:
    """A name and those of its folders: ``"a/b"`` → ``"a"``, ``"a/b"``."""
    return accumulate(name.split("/"), "{}/{}".format)


def check_labels(labels: Sequence[str], reserved: Collection[str] = ("",)) -> None:
    """Check labels of groups; see :func:`check_names`. Unlike names, they may begin with a slash, as paths do."""
    is_empty = "" in labels
    check_names("groups", labels, [name for name in reserved if name or is_empty])
