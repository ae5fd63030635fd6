"""Which words of a hypothesis and of its references do not match."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby, pairwise
from typing import NamedTuple

from lightning_bleu.core.clean import MAX_SHOWN
from lightning_bleu.core.scoring import closeness
from lightning_bleu.views.blocks import Mark, Span


class Line(NamedTuple):
    """A hypothesis or a reference.

    Attributes:
        text: the text as the model or the dataset has it.
        tokens: its tokens, as they are counted.
        is_ordered: whether they match in their order only, as in an error rate.
    """

    text: str
    tokens: Sequence[str]
    is_ordered: bool = False


def shorten(spans: Iterable[Span], limit: int = MAX_SHOWN) -> list[Span]:
    """The first characters of a sentence, with " ..." if there are more.

    Example:
        >>> shorten([Span("a b", "unmatched"), Span(" c d")], limit=5)
        [Span(text='a b', mark='unmatched'), Span(text=' c', mark=''), Span(text=' ...', mark='')]
    """
    shown = []
    characters_left = limit
    for text, mark in spans:
        shown.append(Span(text[:characters_left], mark))
        characters_left -= len(text)
        if characters_left < 0:
            return [*shown, Span(" ...")]
    return shown


_SENTENCEPIECE_BLANK = "\u2581"


def mark_words(hypothesis: Line, references: Sequence[Line]) -> tuple[list[Span], list[list[Span]]]:
    """Mark the words of a hypothesis and of its references that don't match.

    If tokens are ordered, those outside an alignment are ``"unmatched"``; see :func:`align`. The closest reference
    marks the hypothesis. Else:

    - In the hypothesis, a token is ``"unmatched"`` beyond its largest count in any one reference. Occurrences in a
      bigram that a reference shares match first, then the earlier ones.
    - In the hypothesis, a token is ``"displaced"`` if it matches, but neither of its bigrams appears in a reference.
      A hypothesis of one token has no bigrams, and no displaced tokens.
    - In a reference, a token is ``"unmatched"`` beyond its count in the hypothesis.

    Args:
        hypothesis: the hypothesis.
        references: its references.

    Returns:
        The spans of the hypothesis, and of each reference. Their texts join to the original text. If a token isn't in
        the text, they join to the tokens, separated by blanks; if tokens are ordered, the text has no marks.
        Neighboring spans have different marks.

    Example:
        >>> hypothesis = Line("The very cat sat.", ["the", "very", "cat", "sat", "."])
        >>> reference = Line("The cat that sat.", ["the", "cat", "that", "sat", "."])
        >>> marked_hypothesis, (marked_reference,) = mark_words(hypothesis, [reference])
        >>> [(text, mark) for text, mark in marked_hypothesis if mark]
        [('The', 'displaced'), ('very', 'unmatched'), ('cat', 'displaced')]
        >>> [(text, mark) for text, mark in marked_reference if mark]
        [('that', 'unmatched')]
    """
    if hypothesis.is_ordered and references:
        aligned = [align(hypothesis.tokens, reference.tokens) for reference in references]
        _, closest, _ = min(aligned)
        return _split(hypothesis, closest), [_split(line, marks) for line, (*_, marks) in zip(references, aligned)]
    largest_counts: Counter[str] = Counter()  # in any one reference
    bigrams: set[tuple[str, str]] = set()
    for reference in references:
        largest_counts |= Counter(reference.tokens)
        bigrams.update(pairwise(reference.tokens))
    in_bigram = _find_in_bigrams(hypothesis.tokens, bigrams)
    is_match = _choose_matches(hypothesis.tokens, largest_counts, in_bigram)
    has_bigrams = len(hypothesis.tokens) > 1
    marks: list[Mark] = []
    for matches, has_right_neighbor in zip(is_match, in_bigram):
        if not matches:
            marks.append("unmatched")
        elif has_bigrams and not has_right_neighbor:
            marks.append("displaced")
        else:
            marks.append("")
    marked_references = [_mark_reference(reference, hypothesis) for reference in references]
    return _split(hypothesis, marks), marked_references


def align(tokens: Sequence[str], reference: Sequence[str]) -> tuple[tuple[float, int], list[Mark], list[Mark]]:
    """The marks of a hypothesis and of a reference, of whose tokens those match that the fewest edits keep.

    Requires rapidfuzz. How close they are comes first, so that the smallest is that of the closest reference; see
    :func:`lightning_bleu.core.scoring.closeness`.

    Example:
        >>> align(["a", "cat", "sat"], ["the", "cat"])
        ((1.0, -2), ['unmatched', '', 'unmatched'], ['unmatched', ''])
    """
    from rapidfuzz.distance import Levenshtein

    edits = Levenshtein.editops(tokens, reference)
    marks: list[Mark] = ["unmatched"] * len(tokens)
    reference_marks: list[Mark] = ["unmatched"] * len(reference)
    for start, reference_start, size in edits.as_matching_blocks():
        marks[start : start + size] = [""] * size
        reference_marks[reference_start : reference_start + size] = [""] * size
    return closeness(len(edits), len(reference)), marks, reference_marks


def _mark_reference(reference: Line, hypothesis: Line) -> list[Span]:
    """Mark the words of a reference that the hypothesis lacks."""
    in_bigram = _find_in_bigrams(reference.tokens, set(pairwise(hypothesis.tokens)))
    is_match = _choose_matches(reference.tokens, Counter(hypothesis.tokens), in_bigram)
    return _split(reference, ["" if matches else "unmatched" for matches in is_match])


def _find_in_bigrams(tokens: Sequence[str], bigrams: set[tuple[str, str]]) -> list[bool]:
    """For each token, whether the bigram it ends or the bigram it begins is one of ``bigrams``."""
    in_bigram = [False] * len(tokens)
    for place, bigram in enumerate(pairwise(tokens)):
        if bigram in bigrams:
            in_bigram[place] = in_bigram[place + 1] = True
    return in_bigram


def _choose_matches(tokens: Sequence[str], counts: Mapping[str, int], preferred: Sequence[bool]) -> list[bool]:
    """Choose which tokens match, at most ``counts`` of each: preferred ones first, then earlier ones.

    Example:
        >>> _choose_matches(["a", "a", "a", "b"], {"a": 2}, [False, False, True, False])
        [True, False, True, False]
    """
    remaining = dict(counts)
    matches = [False] * len(tokens)
    for index in sorted(range(len(tokens)), key=preferred.__getitem__, reverse=True):  # stable
        if remaining.get(tokens[index], 0):
            remaining[tokens[index]] -= 1
            matches[index] = True
    return matches


def _split(line: Line, marks: Sequence[Mark]) -> list[Span]:
    """Split a text where the marks of its tokens change.

    Example:
        >>> _split(Line("Oh, no!", ["oh", ",", "no", "!"]), ["unmatched", "unmatched", "", ""])
        [Span(text='Oh,', mark='unmatched'), Span(text=' no!', mark='')]
    """
    text, tokens, _ = line
    places = _locate(text, tokens)
    if places is None:
        return [Span(text)] if line.is_ordered else _split(Line(" ".join(tokens), tokens), marks)
    marks_of_characters: list[Mark] = [""] * len(text)
    last_mark: Mark = ""
    last_end = 0
    for (start, end), mark in zip(places, marks):
        if start < end:
            # The blank between equally marked tokens is marked, too.
            first = last_end if mark == last_mark else start
            marks_of_characters[first:end] = [mark] * (end - first)
            last_mark, last_end = mark, end
    spans = []
    start = 0
    for mark, run in groupby(marks_of_characters):
        end = start + len(list(run))
        spans.append(Span(text[start:end], mark))
        start = end
    return spans


def _locate(text: str, tokens: Sequence[str]) -> list[tuple[int, int]] | None:
    """The start and the end of each token in its text; None if a token isn't in it.

    Example:
        >>> _locate("İs it?", ["\\u2581i̇s", "\\u2581it", "?"]), _locate("&quot;", ['"'])
        ([(0, 2), (3, 5), (5, 6)], None)
    """
    folded = "".join(map(_fold, text))
    # Where each character of `folded` comes from: folding never shortens a text, but may lengthen it.
    origins: Sequence[int] = range(len(text))
    if len(folded) > len(text):
        origins = [place for place, character in enumerate(text) for _ in _fold(character)]
    places = []
    end = 0
    for token in tokens:
        visible = "".join(map(_fold, token.strip(_SENTENCEPIECE_BLANK)))
        if not visible:
            places.append((0, 0))
            continue
        start = folded.find(visible, end)
        if start < 0:
            return None
        end = start + len(visible)
        places.append((origins[start], origins[end - 1] + 1))
    return places


@cache
def _fold(character: str) -> str:
    """Undo what tokenizers do to characters: lowercasing and Unicode normalization.

    Unlike with ``str.lower``, which has a final sigma, the result doesn't depend on the neighbors of the character.
    """
    return unicodedata.normalize("NFKD", character).casefold()
