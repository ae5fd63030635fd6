"""Random choices, read from bytes.

Hypothesis draws bytes of a fixed size faster than anything else, and shrinks each byte toward 0. So an input is made
from one block of bytes. Its *head* holds one choice per byte, and its *body* holds the tokens. Byte 0 is always the
simplest choice, and no token at all, so what remains after shrinking is small.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")

Symbols: TypeAlias = list[int]
"""Stand-ins for tokens, from 0 to 254."""

HEAD_BYTES = 40
BODY_BYTES = 72

blocks = st.binary(min_size=HEAD_BYTES + BODY_BYTES, max_size=HEAD_BYTES + BODY_BYTES)
"""Draws an input. With more than one draw, Hypothesis would spend most of the time exchanging their results."""

_SIZES = (BODY_BYTES, 48, 32, 24, 24, 16, 16, 12, 12, 8, 8, 5, 3)
"""The number of bytes of the body that are read."""
_ENDS = (16, 40, 40, 80, 140, 4)
"""The number of byte values that end a segment: few for long segments, many for short ones."""
_COPY_FROM = (256, 180, 90, 30, 8)
"""The byte value from which on a token of a reference is copied from the hypothesis."""


class Choices:
    """Makes choices with one byte each.

    Example:
        >>> choices = Choices(bytes([0, 7]))
        >>> choices.pick("abc"), choices.pick("abc"), choices.pick("abc")
        ('a', 'b', 'a')
    """

    def __init__(self, block: bytes) -> None:
        self._head = iter(block[:HEAD_BYTES])
        self._body = block[HEAD_BYTES:]

    def byte(self) -> int:
        """A number from 0 to 255; 0 once all bytes are used up."""
        return next(self._head, 0)

    def pick(self, options: Sequence[T]) -> T:
        """One of the options, of which the first is the simplest."""
        return options[self.byte() % len(options)]

    def sentences(self) -> list[list[Symbols]]:
        """Sentences, each a hypothesis and one or more references."""
        size, ends, copy_from = self.pick(_SIZES), self.pick(_ENDS), self.pick(_COPY_FROM)
        return read_sentences(self._body[:size], ends, copy_from)


def read_sentences(body: bytes, ends: int, copy_from: int) -> list[list[Symbols]]:
    """Read sentences from bytes.

    Args:
        body: a byte for each token, 0 for none. The largest values end a sentence or a segment.
        ends: the number of byte values that end a segment. A third of them also end the sentence.
        copy_from: from this value on, a token of a reference is the next token of the hypothesis.

    Example:
        >>> read_sentences(bytes([5, 0, 6, 249, 1, 99, 255]), ends=10, copy_from=90)
        [[[4, 5], [0, 5]], [[], []]]
    """
    sentences: list[list[Symbols]] = []
    shift = 0
    for byte in body:
        if byte == 0:
            continue
        if byte >= 256 - ends // 3:
            sentences.append([[]])
            continue
        if not sentences:
            sentences.append([[]])
        hypothesis, *references = sentences[-1]
        if byte >= 256 - ends:
            sentences[-1].append([])
            shift = byte % 3
            continue
        segment = sentences[-1][-1]
        position = len(segment) + shift
        copies = bool(references) and byte >= copy_from and position < len(hypothesis)
        segment.append(hypothesis[position] if copies else byte - 1)
    for sentence in sentences:
        if len(sentence) == 1:
            sentence.append([])
    return sentences


sentences = blocks.map(lambda block: Choices(block).sentences())
"""Draws sentences."""
