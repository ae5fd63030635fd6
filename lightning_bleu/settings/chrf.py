"""The settings of chrF."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, TypedDict

from lightning_bleu.settings.settings import Decoder, Settings, check_bool, check_integer, check_number

_MAX_BETA = 1_000_000
"""Beyond it, only recall counts anyway."""


class CHRFOptions(TypedDict, total=False):
    """The options of a score, as the user passes them; see :class:`lightning_bleu.CorpusCHRF`."""

    char_order: int
    word_order: int
    beta: float
    lowercase: bool
    whitespace: bool
    eps_smoothing: bool
    pad_id: int | None
    bos_id: int | None
    eos_id: int | None
    ignore_ids: int | Iterable[int] | None
    decoder: Decoder | None
    percent: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class CHRFSettings(Settings):
    """The options of chrF, checked. Create settings with :meth:`from_options`.

    Attributes:
        char_order: the longest n-gram of characters.
        word_order: the longest n-gram of words.
        beta: how much more recall weighs than precision.
        whitespace: whether whitespace counts as characters.
        eps_smoothing: whether orders without n-grams count, with a tiny precision and recall, and the F-score is the
            mean of those of the orders.
    """

    char_order: int = 6
    word_order: int = 0
    beta: float = 2
    whitespace: bool = False
    eps_smoothing: bool = False

    needs_text: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._replace(
            char_order=check_integer("char_order", self.char_order, at_least=0),
            word_order=check_integer("word_order", self.word_order, at_least=0),
            beta=check_number("beta", self.beta),
            whitespace=check_bool("whitespace", self.whitespace),
            eps_smoothing=check_bool("eps_smoothing", self.eps_smoothing),
        )
        if self.beta > _MAX_BETA:
            raise ValueError(f"'beta' must be at most {_MAX_BETA:,}, got {self.beta:g}")
        if not self.orders:
            raise ValueError("'char_order' or 'word_order' must be 1 or more, got 0 for both")

    @property
    def orders(self) -> int:
        """The number of orders, of characters and of words."""
        return self.char_order + self.word_order

    @property
    def name(self) -> str:
        """The name of the score: ``"chrF2"``, or ``"chrF2++"`` with words and their bigrams.

        Example:
            >>> CHRFSettings.from_options(word_order=2, beta=3).name
            'chrF3++'
        """
        return f"chrF{self.beta:g}" + "+" * self.word_order
