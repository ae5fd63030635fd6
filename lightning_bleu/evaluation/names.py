"""The names of logged numbers: a value that says what a number is, and how it is written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from lightning_bleu.evaluation.results import STATISTICS
from lightning_bleu.messages import warn_user

ALL_GROUPS = "all"
"""The name of the score of all sentences of a loader with groups, beside those of the groups."""
RESERVED = ("", *STATISTICS)
"""Names that no loader can have, because they are logged below the mean of all."""
RESERVED_FOR_GROUPS = (*RESERVED, ALL_GROUPS)
"""Names that no group can have."""
STEPS = {"val": "validation_step", "test": "test_step"}
"""The step of each stage."""


class Name(NamedTuple):
    """What a logged number is.

    Attributes:
        metric: the name of the metric.
        subset: the names of the loader and of the group, without those that have none. Empty for the whole validation.
        score: the name of the score, for a metric with several scores.
        detail: the name of a component of the score or of a statistic; empty for the score itself.
    """

    metric: str
    subset: tuple[str, ...] = ()
    score: str = ""
    detail: str = ""


def score_key(metric: str, score: str) -> str:
    """The name of a score without its subset: that of the metric, if it has only one score.

    Example:
        >>> score_key("bleu", ""), score_key("rouge", "rouge1")
        ('bleu', 'rouge/rouge1')
    """
    return f"{metric}/{score}" if score else metric


def _as_logged(name: str) -> str:
    return name


class Naming(NamedTuple):
    """How the names of a validation are written.

    Attributes:
        stage: how the names begin: ``"val"``, or, in Transformers, ``"eval_news"``.
        log_name: the names of the scores, with placeholders for the stage and for the name of the metric.
        separator: what joins the pieces of a name: those of the score, the subset, and the part.
        shown_as: the name that the loggers of a trainer give to a logged name.

    Example:
        >>> naming = Naming("val", "{stage}/{metric}")
        >>> naming.render(Name("rouge", ("news",), "rouge1", "low"))
        'val/rouge/news/rouge1/low'
        >>> naming.folder
        ['val']
    """

    stage: str = "val"
    log_name: str = "{stage}_{metric}"
    separator: str = "/"
    shown_as: Callable[[str], str] = _as_logged

    def tag(self, metric: str) -> str:
        """The logged name of a metric."""
        return self.log_name.format(stage=self.stage, metric=metric)

    def render(self, name: Name) -> str:
        """The logged name of a number."""
        return self._join(name, self.separator)

    def render_for_loggers(self, name: Name) -> str:
        """The name of a number in the loggers of a trainer."""
        return self.shown_as(self.render(name))

    def render_panel(self, name: Name) -> str:
        """The name of something that loggers show beside numbers, such as a figure: its parts are always folders."""
        return self.shown_as(self._join(name, "/"))

    def _join(self, name: Name, separator: str) -> str:
        pieces = [self.tag(name.metric)]
        pieces += [part.replace("/", separator) for part in (*name.subset, name.score, name.detail) if part]
        return separator.join(pieces)

    def parse(self, logged: str, scores: Mapping[str, Collection[str]], details: Collection[str]) -> Name | None:
        """What is logged under a name; None if it is none of these metrics.

        Args:
            logged: the name.
            scores: the names of the scores of each metric.
            details: the names of the components and statistics that are logged below a score.

        Example:
            >>> Naming().parse("val_rouge/news/rouge1/low", {"rouge": ["rouge1", "rouge2"]}, ["low", "high"])
            Name(metric='rouge', subset=('news',), score='rouge1', detail='low')
        """
        for metric in sorted(scores, key=len, reverse=True):  # "bleu/a" before "bleu"
            tag = self.tag(metric)
            if f"{logged}{self.separator}".startswith(f"{tag}{self.separator}"):
                rest = logged.removeprefix(tag).removeprefix(self.separator)
                rest, detail = self._split_last(rest, details)
                rest, score = self._split_last(rest, scores[metric])
                return Name(metric, (rest,) if rest else (), score, detail)
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
        """The folder of the translations, which do not depend on a metric, below that of the run."""
        pieces = [piece.strip("_-. ") for piece in self.tag("").split("/")]
        return [piece for piece in pieces if piece]


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
        ValueError: if `given` does not name every loader, or if names clash.

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
        names = list(given)
    elif isinstance(loaders, Mapping) and len(loaders) == count:
        names = [str(name) for name in loaders]
    elif count > 1:
        names = [f"dataloader_idx_{number}" for number in range(count)]
    else:
        return [""]
    check_names(f"loaders of {stage!r}", names)
    return names


def check_names(kind: str, names: Sequence[Any], reserved: Iterable[str] = RESERVED) -> None:
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
        ValueError: the names 'de' and 'de/news' of the groups clash, because de/... is logged
    """
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"the names of the {kind} must be strings, got {name!r} of type {type(name).__name__}")
        if name in reserved:
            raise ValueError(f"the {kind} cannot have the name {name!r}, which is reserved")
        if name.encode(errors="replace").decode() != name:
            raise ValueError(f"the {kind} cannot have the name {name!r}: a lone surrogate cannot be written to a file")
    if len(set(names)) < len(names):
        raise ValueError(f"the {kind} must have different names, got {list(names)}")
    nested = find_nested(names)
    if nested is not None:
        folder, name = nested
        raise ValueError(f"the names {folder!r} and {name!r} of the {kind} clash, because {folder}/... is logged")


def find_nested(names: Collection[str]) -> tuple[str, str] | None:
    """A name that is a folder of another one, and that other one; None if there is none.

    Example:
        >>> find_nested(["val_bleu", "val_bleu/low"]), find_nested(["val_bleu", "val_bleu_low"])
        (('val_bleu', 'val_bleu/low'), None)
    """
    distinct = set(names)
    for name in names:
        for folder in accumulate(name.split("/"), "{}/{}".format):
            if folder != name and folder in distinct:
                return folder, name
    return None
