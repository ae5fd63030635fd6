"""The options of an evaluator: their types, their checks, and what must be the same in all processes."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, TypedDict, get_type_hints

from sacrebleu.metrics.base import Metric as SacreMetric
from torchmetrics import Metric

from lightning_bleu.bleu import BLEU_OPTIONS
from lightning_bleu.core.messages import check_choice
from lightning_bleu.core.scoring import EvaluatorMetric
from lightning_bleu.core.settings import Decoder, Settings, check_integer, describe, unknown_options
from lightning_bleu.core.significance import check_share
from lightning_bleu.evaluation.metrics.shared_facts import known_scorers
from lightning_bleu.evaluation.names import Naming

# LightningCLI tries the members of a union in order, and takes a dict for a callable if that comes first.
MetricsByName: TypeAlias = Mapping[str, Metric | SacreMetric | EvaluatorMetric | Callable[..., Any]]
"""Metrics by name."""


class EvaluatorOptions(TypedDict, total=False):
    """The options of :class:`Options` but the metrics, for type checkers."""

    decoder: Decoder | None
    log_name: str
    parts: bool | Sequence[str]
    samples: int
    translations: bool | str | os.PathLike[str] | None
    confidence: float | None
    compare_to: Literal["best"] | None
    only: Sequence[str] | None
    loggers: Sequence[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Options:
    """The options of an evaluator; see :class:`lightning_bleu.Evaluator`. This is the list of them.

    Raises:
        TypeError: for an option of the wrong type.
        ValueError: for an option that is out of range.
    """

    metrics: Metric | SacreMetric | EvaluatorMetric | MetricsByName | Callable[..., Any] | None = None
    decoder: Decoder | None = None
    log_name: str = "{stage}_{metric}"
    parts: bool | Sequence[str] = False
    samples: int = 8
    translations: bool | str | os.PathLike[str] | None = None
    confidence: float | None = None
    compare_to: Literal["best"] | None = None
    only: Sequence[str] | None = None
    loggers: Sequence[Any] = ()

    def __post_init__(self) -> None:
        Settings(decoder=self.decoder)  # checks it
        make_namings(self.log_name)  # checks it
        if not isinstance(self.parts, bool | list | tuple):
            raise TypeError(f"'parts' must be True, False, or a list of names, got {self.parts!r}")
        check_integer("samples", self.samples, at_least=0)
        _check_translations(self.translations)
        if self.confidence is not None:
            check_share("confidence", self.confidence)
        if self.compare_to is not None:
            check_choice("compare_to", self.compare_to, ["best"])
        _check_only(self.only)
        if not isinstance(self.loggers, list | tuple):
            raise TypeError(f"'loggers' must be a list of loggers, got {self.loggers!r}")

    @property
    def folder(self) -> str | os.PathLike[str] | None:
        """The folder of the translations that the user named; None for none, or for that of a Trainer's run."""
        return None if isinstance(self.translations, bool) else self.translations

    @property
    def uses_folder_of_run(self) -> bool:
        """Whether the translations are in the folder of a Trainer's run."""
        return self.translations is True

    def labels_of(self, loader: str, loaders: Collection[str]) -> Collection[str] | None:
        """The labels of the groups of a loader that are scored. A label alone holds in every loader.

        Args:
            loader: the name of the loader; empty if it has none.
            loaders: the names of all loaders.

        Returns:
            None for all sentences; nothing for none of them.

        Example:
            >>> options, loaders = Options(only=["news", "talks/de", "zh"]), ["news", "talks", "chats"]
            >>> [options.labels_of(loader, loaders) for loader in loaders]
            [None, ['de', 'zh'], ['zh']]
        """
        if self.only is None or (loader and loader in self.only):
            return None
        labels = []
        for entry in self.only:
            if loader and entry.startswith(f"{loader}/"):
                labels.append(entry.removeprefix(f"{loader}/"))
            elif not any(f"{entry}/".startswith(f"{name}/") for name in loaders if name):
                labels.append(entry)
        return labels

    def ignores(self, loader: str, loaders: Collection[str]) -> bool:
        """Whether none of the sentences of a loader is scored."""
        return self.labels_of(loader, loaders) == []


def _check_translations(folder: Any) -> None:
    """Raise an error unless `translations` is a local folder, a boolean, or None."""
    if not isinstance(folder, str | os.PathLike | bool | None) or folder == "":
        raise TypeError(f"'translations' must be a folder or True, got {folder!r} of type {type(folder).__name__}")
    is_url = re.match(r"\w\w+:/", str(folder)) is not None  # a Path has a single slash left
    if is_url:
        raise ValueError(f"'translations' must be a local folder, got {folder!r}")


def _check_only(only: Any) -> None:
    """Raise an error unless `only` is None or has names."""
    if only is None:
        return
    is_list = isinstance(only, list | tuple | set | frozenset) and all(isinstance(entry, str) for entry in only)
    if not is_list:
        raise TypeError(f"'only' must be a list of names of loaders or groups, such as ['zh'], got {only!r}")
    if not only or "" in only:
        raise ValueError(f"'only' must have one or more names of loaders or groups, got {only!r}")


def show_options(function: Callable[..., Any]) -> None:
    """Let the signature of a constructor show all options with their types, where it has ``**options``.

    ``help()``, Sphinx, and LightningCLI read this signature.
    """
    signature = inspect.signature(function)
    types = get_type_hints(Options)
    parameters = [
        parameter.replace(annotation=types["metrics"]) if parameter.name == "metrics" else parameter
        for parameter in signature.parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    for field in fields(Options):
        if field.name not in signature.parameters:
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter(field.name, kind, default=field.default, annotation=types[field.name]))
    function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]


def make_namings(log_name: Any) -> dict[str, Naming]:
    """How the names of each stage are written. Without ``{stage}``, those of a test begin with ``test_``.

    Example:
        >>> [naming.tag("bleu") for naming in make_namings("{metric}").values()]
        ['bleu', 'test_bleu']
    """
    if not isinstance(log_name, str):
        raise TypeError(f"'log_name' must be a string, got {log_name!r} of type {type(log_name).__name__}")
    rest = log_name.replace("{stage}", "").replace("{metric}", "")
    has_other_braces = "{" in rest or "}" in rest
    if "{metric}" not in log_name or has_other_braces or "" in log_name.split("/"):
        raise ValueError(f"'log_name' must be a name with '{{metric}}', and perhaps '{{stage}}', got {log_name!r}")
    of_test = log_name if "{stage}" in log_name else "{stage}_" + log_name
    return {"val": Naming("val", log_name), "test": Naming("test", of_test)}


_MAX_SHOWN = 80
"""The number of characters of a value that error messages show."""


def check_names_of_options(
    owner: str, options: Mapping[str, Any], metrics: Sequence[Any], others: Sequence[str] = ()
) -> None:
    """Raise a TypeError for options that do not exist, and for several metrics without names.

    Args:
        owner: the name of the class that was given the options.
        options: the options besides `metrics`.
        metrics: the metrics that were passed by position.
        others: the names of options that only this class has.
    """
    if len(metrics) > 1:
        names = [getattr(type(metric), "short_name", "NAME") for metric in metrics]
        example = ", ".join(f"{name!r}: ..." for name in names)
        raise TypeError(f"several metrics need names: pass a dict, {owner}({{{example}}})")
    known = [*others, *EvaluatorOptions.__annotations__]
    unknown = [option for option in options if option not in known]
    if not unknown:
        return
    tokenizer = options.get("tokenizer")
    for method, decoder in {"batch_decode": "tokenizer", "decode_batch": "tokenizer.decode_batch"}.items():
        if hasattr(tokenizer, method):
            raise TypeError(f"'tokenizer' is not an option of {owner}: to decode ids, pass decoder={decoder}")
    of_metric = [option for option in unknown if option in BLEU_OPTIONS]
    if of_metric:
        example = ", ".join(f"{option}={describe(options[option])[:_MAX_SHOWN]}" for option in of_metric)
        raise TypeError(f"{of_metric} are options of the metric: {owner}(CorpusBLEU({example}))")
    raise unknown_options(unknown, ["metrics", *known, *BLEU_OPTIONS])


def describe_for_agreement(options: Options, metrics: Mapping[str, EvaluatorMetric]) -> dict[str, Any]:
    """What must be the same in all processes, as plain values.

    Args:
        options: the options. Loggers may differ: only those of process 0 are used.
        metrics: the metrics by name.
    """
    described = {option: getattr(options, option) for option in ("samples", "confidence", "compare_to", "log_name")}
    described["parts"] = options.parts if isinstance(options.parts, bool) else sorted(options.parts)
    described["only"] = None if options.only is None else sorted(set(options.only))
    described["translations"] = str(options.translations)
    described["metrics"] = {name: _describe_metric(name, metric) for name, metric in metrics.items()}
    return described


def check_agreement(described: Sequence[Mapping[str, Any]]) -> None:
    """Raise a ValueError if processes have described something differently.

    Args:
        described: what must be the same, as plain values, in the order of the ranks.
    """
    first, *others = described
    for rank, other in enumerate(others, 1):
        for option, value in first.items():
            if value != other[option]:
                raise ValueError(
                    f"{option!r} must be the same in all processes, but is {value} in process 0, and {other[option]} "
                    f"in process {rank}"
                )


def _describe_metric(name: str, metric: EvaluatorMetric) -> dict[str, Any]:
    """What must be the same in all processes: the class, the settings, how it is called, and what the scores mean."""
    scorers = known_scorers(name, metric)
    meanings = {key: (scorer.percent, scorer.higher_is_better) for key, scorer in scorers.items()}
    called = (metric.corpus_level, metric.takes_sources, list(metric.keys))
    return {"class": metric.class_name, "settings": metric.plain_settings(), "called": called, "scores": meanings}
