"""The options of an evaluator, checked once."""

from __future__ import annotations

import os
import re
import string
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from lightning_bleu.bleu import BLEU_OPTIONS, CorpusBLEU
from lightning_bleu.evaluation.metric_table import MetricTable
from lightning_bleu.evaluation.names import STEPS, Name, Naming
from lightning_bleu.evaluation.opponents import MIN_LEVEL, OpponentKind
from lightning_bleu.messages import check_choice
from lightning_bleu.scoring.resampling import check_share
from lightning_bleu.settings.settings import Decoder, Settings, check_integer, describe, unknown_options


@dataclass(kw_only=True, eq=False)
class Options:
    """The options of an evaluator; see :class:`lightning_bleu.Evaluator`.

    Attributes:
        table: the metrics, checked.
        namings: the logged names of each stage.

    Raises:
        TypeError: for an option of the wrong type.
        ValueError: for an option that is out of range.
    """

    metrics: Any = None
    decoder: Decoder | None = None
    log_name: str | Mapping[str, str] = "{stage}_{metric}"
    separator: str | None = None
    parts: bool | Sequence[str] = True
    samples: int = 8
    translations: bool | str | os.PathLike[str] | None = None
    keep_translations: int | None = None
    confidence: float | None = None
    compare_to: OpponentKind | None = None
    significance_level: float | None = None
    loggers: Sequence[Any] = ()

    def __post_init__(self) -> None:
        Settings(decoder=self.decoder)  # checks it
        _check_separator(self.separator)
        self.namings = _check_log_name(self.log_name, self.separator or "/")
        if not isinstance(self.parts, bool | list | tuple):
            raise TypeError(f"'parts' must be True, False, or a list of names, got {self.parts!r}")
        check_integer("samples", self.samples, at_least=0)
        self._check_translations()
        if self.confidence is not None:
            check_share("confidence", self.confidence)
        self._check_comparison()
        if not isinstance(self.loggers, list | tuple):
            raise TypeError(f"'loggers' must be a list of loggers, got {self.loggers!r}")
        if self.metrics is None:
            self.metrics = CorpusBLEU()
        self.table = MetricTable.from_metrics(self.metrics, self.parts)
        self.table.warn_about_scales()

    def expected_names(self, stage: str, loaders: Collection[str] = (), table: MetricTable | None = None) -> list[Name]:
        """What a validation or a test logs, as far as it is known before; see :meth:`MetricTable.expected_names`."""
        compare_to = self.compare_to if stage == "val" else None
        return (table or self.table).expected_names(
            loaders, interval=self.confidence is not None, compare_to=compare_to
        )

    @property
    def folder(self) -> str | os.PathLike[str] | None:
        """The folder of the translations that the user named; None for none, or for that of a Trainer's run."""
        return None if isinstance(self.translations, bool) else self.translations

    @property
    def uses_folder_of_run(self) -> bool:
        """Whether the translations are in the folder of a Trainer's run."""
        return self.translations is True

    def _check_translations(self) -> None:
        folder = self.translations
        if not isinstance(folder, str | os.PathLike | bool | None) or folder == "":
            raise TypeError(f"'translations' must be a folder or True, got {folder!r} of type {type(folder).__name__}")
        is_url = re.match(r"\w\w+:/", str(folder)) is not None  # a Path has a single slash left
        if is_url:
            raise ValueError(f"'translations' must be a local folder, got {folder!r}")
        self.translations = folder or None
        if self.keep_translations is not None:
            check_integer("keep_translations", self.keep_translations, at_least=1)
            if not folder:
                raise ValueError("'keep_translations' needs a folder: set 'translations' as well")

    def _check_comparison(self) -> None:
        if self.compare_to is not None:
            check_choice("compare_to", self.compare_to, get_args(OpponentKind))
        level = self.significance_level
        if level is None:
            return
        check_share("significance_level", level)
        if self.compare_to == "first":
            raise ValueError("'significance_level' decides what becomes the best: use compare_to='best', got 'first'")
        if level < MIN_LEVEL:
            raise ValueError(
                f"'significance_level' must be at least {MIN_LEVEL}, got {level}: a smaller one needs more than 10,000 "
                "resamples in each validation"
            )
        self.compare_to = "best"


class OptionAttributes:
    """Shows options as attributes that cannot be set.

    Args:
        options: the options.
    """

    def __init__(self, options: Options) -> None:
        self._options = options

    @property
    def metrics(self) -> Any:
        """The metrics, as they were passed."""
        return self._options.metrics

    @property
    def decoder(self) -> Decoder | None:
        """The decoder of metrics that set none."""
        return self._options.decoder

    @property
    def log_name(self) -> str | Mapping[str, str]:
        """The logged names."""
        return self._options.log_name

    @property
    def separator(self) -> str | None:
        """What joins the pieces of logged names."""
        return self._options.separator

    @property
    def parts(self) -> bool | Sequence[str]:
        """The components that are logged."""
        return self._options.parts

    @property
    def samples(self) -> int:
        """The number of sentences that are shown."""
        return self._options.samples

    @property
    def translations(self) -> bool | str | os.PathLike[str] | None:
        """The folder of the translations."""
        return self._options.translations

    @property
    def keep_translations(self) -> int | None:
        """The number of files of hypotheses that are kept."""
        return self._options.keep_translations

    @property
    def confidence(self) -> float | None:
        """The confidence level of intervals."""
        return self._options.confidence

    @property
    def compare_to(self) -> OpponentKind | None:
        """What validations are compared with."""
        return self._options.compare_to

    @property
    def significance_level(self) -> float | None:
        """The level below which an improvement becomes the new best."""
        return self._options.significance_level

    @property
    def loggers(self) -> Sequence[Any]:
        """The loggers of the evaluator itself."""
        return self._options.loggers


_SEPARATORS = "".join(sorted({*string.punctuation} - {*"{}"}))
"""The characters of separators: punctuation without braces."""


def _check_separator(separator: Any) -> None:
    """Raise an error unless a separator is None or punctuation."""
    if separator is None:
        return
    if not isinstance(separator, str):
        raise TypeError(f"'separator' must be a string, got {separator!r} of type {type(separator).__name__}")
    if not separator or not {*separator} <= {*_SEPARATORS}:
        raise ValueError(f"'separator' must be one or more of the characters {_SEPARATORS}, got {separator!r}")


def _check_log_name(log_name: Any, separator: str) -> dict[str, Naming]:
    """The logged names of each stage."""
    names = log_name if isinstance(log_name, Mapping) else dict.fromkeys(STEPS, log_name)
    if names.keys() != STEPS.keys() or not all(isinstance(name, str) for name in names.values()):
        raise TypeError(f"'log_name' must be a string, or a dict of strings for 'val' and 'test', got {log_name!r}")
    fixed_texts = {name.replace("{stage}", stage).replace("{metric}", "") for stage, name in names.items()}
    differ = len({_letters(text) for text in fixed_texts} - {""}) == len(names)
    if not differ or not all(_is_path_of_metric(name) for name in names.values()):
        raise ValueError(
            "'log_name' must be a name with '{stage}' and '{metric}', or a dict of names that differ in more than "
            "punctuation, such as {'val': 'valid_{metric}', 'test': 'test_{metric}'}, got " + repr(log_name)
        )
    return {stage: Naming(stage, names[stage], separator) for stage in STEPS}


def _is_path_of_metric(log_name: str) -> bool:
    """Whether a name is a path that contains the name of the metric, and no other placeholder than that of the stage.

    Example:
        >>> _is_path_of_metric("{stage}/{metric}"), _is_path_of_metric("{stage}//{metric}")
        (True, False)
    """
    rest = log_name.replace("{stage}", "").replace("{metric}", "")
    has_other_braces = "{" in rest or "}" in rest
    return "{metric}" in log_name and "" not in log_name.split("/") and not has_other_braces


def _letters(text: str) -> str:
    """A name without the punctuation that may separate its parts, in which folders must differ; see `Naming.folder`."""
    return re.sub(r"[-_. /]+", "/", text).strip("/")


def check_single(metrics: Any, more_metrics: Sequence[Any], owner: str) -> None:
    """Raise a TypeError for several metrics without names."""
    if more_metrics:
        names = [getattr(type(metric), "short_name", "NAME") for metric in (metrics, *more_metrics)]
        example = ", ".join(f"{name!r}: ..." for name in names)
        raise TypeError(f"several metrics need names: pass a dict, {owner}({{{example}}})")


def check_unknown(unknown: Mapping[str, Any], known: Collection[str], owner: str) -> None:
    """Raise a TypeError for options that do not exist.

    Args:
        unknown: the unknown options.
        known: the names of the options that exist, besides `metrics`.
        owner: the name of the class that was given the options.
    """
    if not unknown:
        return
    of_metric = {option: value for option, value in unknown.items() if option in BLEU_OPTIONS}
    tokenizer = of_metric.get("tokenizer")
    if hasattr(tokenizer, "batch_decode"):
        raise TypeError(f"'tokenizer' is not an option of {owner}: to decode ids, pass decoder=tokenizer")
    if of_metric:
        example = ", ".join(f"{option}={describe(value)}" for option, value in of_metric.items())
        raise TypeError(f"{[*of_metric]} are options of the metric: {owner}(CorpusBLEU({example}))")
    raise unknown_options(unknown, ["metrics", *known, *BLEU_OPTIONS])
