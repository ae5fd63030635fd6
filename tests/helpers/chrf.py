"""chrF as sacreBLEU computes it, and text that is hard to count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from tests.helpers.text import PIECES

Groups: TypeAlias = list[list[str]]
"""The references of each sentence."""

CHRF_PIECES = [
    *PIECES,
    *"\x1d\x1e\u1680\u2007\u2029\u202f\u205f\u2060\u180e\ud800\udc00\udfff\U0010ffff\u0345\u0327",
    *"İıẞﬁΣσς",
    "\ud83d\ude00",  # the surrogates of 😀, each on its own
    *("ΑΣ ", "(a)", "((", "..", "-", " . ", "\ue000 ", " \ue000.", "'s "),
]
"""The pieces of hard text, and more: lone surrogates, all kinds of whitespace, letters whose lowercase is of another
length or depends on their place, and punctuation around words, alone, and next to the marks of the word cache."""


def lines(pieces: Sequence[str] = CHRF_PIECES, longest: int = 14) -> st.SearchStrategy[str]:
    """Lines of pieces."""
    return st.lists(st.sampled_from(pieces), max_size=longest).map("".join)


corpora: st.SearchStrategy[list[tuple[str, list[str]]]] = st.lists(
    st.sampled_from(CHRF_PIECES) | st.characters(), min_size=1, max_size=6
).flatmap(
    lambda pieces: st.lists(
        st.tuples(lines(pieces), st.lists(lines(pieces), min_size=1, max_size=3)), min_size=1, max_size=5
    )
)
"""Sentences with one to three references, of few pieces, so that much of them matches."""

orders = st.tuples(st.integers(0, 7), st.integers(0, 3)).filter(any)
"""The longest n-grams of characters and of words."""


@st.composite
def chrf_options(draw: st.DrawFn) -> dict[str, Any]:
    """All options of a score that sacreBLEU has."""
    options: dict[str, Any] = dict(zip(("char_order", "word_order"), draw(orders)))
    options["beta"] = draw(st.sampled_from([2, 0, 1, 3, 0.5]))
    return options | {name: draw(st.booleans()) for name in ("lowercase", "whitespace", "eps_smoothing")}


def streams(groups: Groups) -> Any:
    """References as sacreBLEU takes them: a list for each set, with None for a sentence that has fewer."""
    return [[group[i] if i < len(group) else None for group in groups] for i in range(max(map(len, groups)))]


def peer_rows(preds: Sequence[str], groups: Groups, **options: Any) -> list[list[int]]:
    """sacreBLEU's statistics of each sentence."""
    rows: list[list[int]] = CHRF(**options)._extract_corpus_statistics(preds, streams(groups)) if preds else []
    return rows


def peer_score(preds: Sequence[str], groups: Groups, **options: Any) -> tuple[Any, str]:
    """sacreBLEU's score of a corpus, and its signature."""
    peer = CHRF(**options)
    return peer.corpus_score(preds, streams(groups)), peer.get_signature().format()
