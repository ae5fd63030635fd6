"""The base of the metrics of tasks: functions with options of their own, on the libraries that define them."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from lightning_bleu.core.batch import InputCounts
from lightning_bleu.core.scoring import join_signature
from lightning_bleu.core.settings import describe, describe_options, to_plain
from lightning_bleu.evaluation.metrics.functions import FunctionMetric

if TYPE_CHECKING:
    from typing_extensions import Self


Normalizer: TypeAlias = Callable[[str], str]
"""Takes a text, and returns the text that is compared."""


class TaskMetric(FunctionMetric):
    """A ready metric: a :class:`lightning_bleu.FunctionMetric` whose options are recorded, so it can be made again.

    Args:
        function: the function.
        options: the options by name, as the user passed them.
        signature: what the signature names besides the references and `normalize`.
        percent: whether scores are in 0..100 rather than in 0..1.
        sensitive_to: what of a text changes its scores, besides subwords; see
            :class:`lightning_bleu.core.scoring.EvaluatorMetric`. Nothing is known of a normalized text.
        score_names: the names of its scores; ``""`` for a single one.
    """

    short_name: ClassVar[str]
    is_error_rate: ClassVar[bool] = False
    """Whether a score of 0 is perfect, and lower is better, rather than 1 and higher."""
    versions: ClassVar[Mapping[str, str]] = {}
    """The packages that compute it, by the names of their versions in the signature."""

    def __init__(
        self,
        function: Callable[..., Any],
        options: Mapping[str, Any],
        signature: Mapping[str, str],
        *,
        percent: bool,
        sensitive_to: Collection[str] = ("case", "punctuation"),
        score_names: Sequence[str] = ("",),
    ) -> None:
        normalize = options.get("normalize")
        check_callable("normalize", normalize)
        higher_is_better = dict.fromkeys(score_names, not self.is_error_rate)
        perfect = 0 if self.is_error_rate else 1
        super().__init__(function, higher_is_better=higher_is_better, percent=percent, perfect=perfect)
        self.scale = self.percent
        self.options = dict(options)
        self._signature = dict(signature)
        self.sensitive_to = {"subwords"} if normalize else {"subwords", *sensitive_to}

    def __repr__(self) -> str:
        given = describe_options({**self.options, "percent": self.percent}, defaults_of=type(self))
        return f"{type(self).__name__}({', '.join(given)})"

    def plain_settings(self) -> dict[str, Any]:
        """The options as plain values. Callables are represented by their names."""
        return {name: to_plain(value) for name, value in self.options.items()}

    @classmethod
    def from_plain(cls, settings: Mapping[str, Any], *, percent: bool) -> Self:
        """The metric with recorded settings.

        Raises:
            TypeError: for a setting that has been a callable, of which only the name is known.
        """
        options = {name: value for name, value in settings.items() if name != "higher_is_better"}
        return cls(**options, percent=percent)

    def signature(self, inputs: InputCounts) -> str:
        """Everything that the scores of such sentences depend on, in one line."""
        fields = {"nrefs": inputs.reference_count, **self._signature}
        if "normalize" in self.options:
            normalize = self.options["normalize"]
            fields["normalize"] = "no" if normalize is None else describe(normalize)
        versions = {name: importlib.metadata.version(package) for name, package in self.versions.items()}
        return join_signature(fields, versions)


def normalize_text(text: str, normalize: Normalizer | None) -> str:
    """A text as it is compared."""
    return text if normalize is None else normalize(text)


def check_callable(name: str, value: Any) -> None:
    """Raise a TypeError for anything but a callable or None."""
    if value is not None and not callable(value):
        raise TypeError(f"{name!r} must be a function, got {value!r}")


def check_installed(metric: str, module: str, extra: str) -> None:
    """Raise an error if a library is missing.

    Raises:
        ModuleNotFoundError: with the extra that installs it.
    """
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        message = f"{metric} needs {module}, which is not installed: pip install 'lightning-bleu[{extra}]'"
        raise ModuleNotFoundError(message, name=module) from error
