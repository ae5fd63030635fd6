"""Which ids are tokens, and which are padding or markers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class SpecialIds:
    """The ids that are not ordinary tokens.

    Attributes:
        pad_id: padding; removed.
        bos_id: begins a sentence; removed.
        eos_id: ends a sentence; removed together with everything after it. If it is also the ``bos_id`` or the
            ``pad_id``, it ends the sentence only after the first token.
        unk_id: the unknown word. In a reference it matches nothing, but it counts toward the length.
        ignore_ids: other ids to remove.
        break_ngrams: if True, n-grams do not span removed ids, as in AllenNLP. If False, the tokens on both sides of a
            removed id become adjacent.
    """

    pad_id: int | None = None
    bos_id: int | None = None
    eos_id: int | None = None
    unk_id: int | None = None
    ignore_ids: tuple[int, ...] = (-100,)
    break_ngrams: bool = False

    @property
    def removed(self) -> tuple[int, ...]:
        """The ids that are always removed.

        Example:
            >>> SpecialIds(pad_id=0, bos_id=1, eos_id=0).removed
            (-100, 0, 1)
        """
        return tuple(sorted({value for value in (*self.ignore_ids, self.pad_id, self.bos_id) if value is not None}))

    @property
    def eos_also_leads(self) -> bool:
        """Whether ``eos_id`` may appear before the first token, where it does not end the sentence."""
        return self.eos_id in (self.bos_id, self.pad_id)
