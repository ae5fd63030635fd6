"""The type of decoders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias


class BatchDecoder(Protocol):
    """A Hugging Face tokenizer."""

    def batch_decode(self, sequences: list[list[int]], *, skip_special_tokens: bool) -> Sequence[str]:
        """Decode lists of ids to strings."""


Decoder: TypeAlias = "BatchDecoder | Callable[[list[list[int]]], Sequence[str]]"
"""Decodes lists of ids to strings."""
