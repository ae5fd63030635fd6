"""The base of the metrics of tasks: functions with options of their own, on the libraries that define them."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from lightning_bleu.core.forms import InputCounts
from lightning_bleu.core.scoring import join_signature
from lightning_bleu.core.settings import describe, describe_options, to_plain
from lightning_bleu.evaluation.functions import FunctionMetric

if TYPE_CHECKING:
    from typing_extensions import Self


Normalizer: TypeAlias = Callable[[str], str]
"""Takes a text, and returns the text that is compared."""


class TaskMetric(FunctionMetric):
    """A ready metric: a :class:`lightning_bleu.FunctionMetric` whose options are recorded, so it can be made again.

    Args:
        function: the function.
        options: the options by name, as the user passed them.
        percent: whether scores are in 0..100 rather than in 0..1.
        higher_is_better: whether higher scores are better, perhaps by the name of the score.
        perfect: the best score that a sentence can have, in 0..1.
        fields: what else its signature names.

    Attributes:
        library: the package that computes it; empty for none.
    """

    short_name: ClassVar[str]
    library: ClassVar[str] = ""

    def __init__(
        self,
        function: Callable[..., Any],
        options: Mapping[str, Any],
        *,
        percent: bool,
        higher_is_better: bool | Mapping[str, bool],
        perfect: float,
        fields: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(function, higher_is_better=higher_is_better, percent=percent, perfect=perfect)
        self.options = dict(options)
        self._signature_fields = dict(fields)
        self.sees = {"subwords"} if options.get("normalize") else {"subwords", "case", "punctuation"}

    def __repr__(self) -> str:
        given = describe_options({**self.options, "percent": self.percent}, defaults_of=type(self))
        return f"{type(self).__name__}({', '.join(given)})"

    @property
    def scale(self) -> bool:
        """Whether scores are in 0..100 rather than in 0..1."""
        return self.percent

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
        if isinstance(options.get("normalize"), str) or isinstance(options.get("tokenizer"), str):
            raise TypeError(f"{cls.__name__} had a callable as an option, of which only the name is known: {options}")
        return cls(**options, percent=percent)

    def signature(self, inputs: InputCounts) -> str:
        """Everything that the scores of such sentences depend on, in one line."""
        fields = {"nrefs": inputs.reference_count, **self._signature_fields}
        if "normalize" in self.options:
            normalize = self.options["normalize"]
            fields["normalize"] = "no" if normalize is None else describe(normalize)
        versions = {}
        if self.library:
            name = "version" if self.library == "sacrebleu" else self.library  # sacreBLEU calls its own so
            versions[name] = importlib.metadata.version(self.library)
        return join_signature(fields, versions)


def normalize_all(texts: Sequence[str], normalize: Normalizer | None) -> Sequence[str]:
    """Texts as they are compared."""
    return texts if normalize is None else list(map(normalize, texts))


def check_installed(metric: str, module: str, extra: str) -> None:
    """Raise an error if a library is missing.

    Raises:
        ModuleNotFoundError: with the extra that installs it.
    """
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{metric} needs {module}, which is not installed: pip install 'lightning-bleu[{extra}]'", name=module
        ) from error
