"""Which words of a hypothesis and of its references are marked, against BLEU's own counts and a slow, obvious twin."""

from __future__ import annotations

import random
from collections import Counter
from itertools import groupby, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightning_bleu import corpus_bleu
from lightning_bleu.views.blocks import Mark, Span
from lightning_bleu.views.marks import Line, mark_words
from tests.helpers.text import WORDWISE, fuzz_line, sacrebleu_tokens

SENTENCES = st.lists(st.sampled_from("abcde"), max_size=12)
"""Sentences of few different words, so that words repeat and match."""


def split(line: str) -> Line:
    """A line whose tokens are separated by blanks."""
    return Line(line, line.split())


def split_in_order(line: str) -> Line:
    """The same, for an error rate."""
    return Line(line, line.split(), is_ordered=True)


def show(spans: list[Span]) -> str:
    """Spans in one string: ``*unmatched*`` and ``_displaced_``."""
    signs: dict[Mark, str] = {"": "", "unmatched": "*", "displaced": "_"}
    return "".join(signs[mark] + text + signs[mark] for text, mark in spans)


def show_all(hypothesis: Line, *references: Line) -> list[str]:
    """The hypothesis and its references, as :func:`show` shows them."""
    marked, marked_references = mark_words(hypothesis, references)
    return [show(marked), *map(show, marked_references)]


def token_marks(spans: list[Span]) -> list[Mark]:
    """The mark of each token, for tokens separated by blanks."""
    return [mark for text, mark in spans for _ in text.split()]


def expected_marks(tokens: list[str], counts: Counter[str], bigrams: set[tuple[str, str]]) -> list[Mark]:
    """The definition, in quadratic time: a token matches if fewer than its count come before it in the ranking."""
    in_bigram = [
        any(bigram in bigrams for bigram in pairwise(tokens[max(i - 1, 0) : i + 2])) for i in range(len(tokens))
    ]
    ranks = [(not in_bigram[i], i) for i in range(len(tokens))]
    marks: list[Mark] = []
    for i, token in enumerate(tokens):
        better = sum(other == token and ranks[j] < ranks[i] for j, other in enumerate(tokens))
        matches = better < counts[token]
        marks.append("unmatched" if not matches else "" if in_bigram[i] or len(tokens) == 1 else "displaced")
    return marks


# Marked by hand, according to the rules in the docstring of mark_words.
@pytest.mark.parametrize(
    ("hypothesis", "references", "expected"),
    [
        # No reference has "dog" or "black", and the hypothesis lacks "cat".
        ("the black dog sat", ["the cat sat down"], ["_the_ *black dog* _sat_", "the *cat* sat *down*"]),
        # Two of three match: those in the bigram "the cat", then the earlier one.
        ("the so the the cat", ["the cat on the mat"], ["_the_ *so the* the cat", "the cat *on* the *mat*"]),
        # At most one match in any one reference, although the references have "a" twice.
        ("a b a", ["a b", "b a"], ["a b *a*", "a b", "b a"]),
        # Every token matches, but no bigram does.
        ("c b a", ["a b c"], ["_c b a_", "a b c"]),
        # A hypothesis of one token has no bigrams.
        ("a", ["b a"], ["a", "*b* a"]),
        # In the reference, the "a" of the shared bigram "a b" matches, not the earlier one.
        ("a b", ["a c a b"], ["a b", "*a c* a b"]),
        ("", ["a b"], ["", "*a b*"]),
        ("a b", [""], ["*a b*", ""]),
    ],
)
def test_unmatched_and_displaced_words_are_marked(hypothesis: str, references: list[str], expected: list[str]) -> None:
    assert show_all(split(hypothesis), *map(split, references)) == expected


# The fewest edits, by hand. Of several references, the closest one marks the hypothesis.
@pytest.mark.parametrize(
    ("hypothesis", "references", "expected"),
    [
        ("two one three", ["one two three"], ["two *one* three", "*one* two three"]),
        ("a b", ["x y z", "a c b"], ["a b", "*x y z*", "a *c* b"]),
        # Two errors for five words, rather than three for two, although five words are wrong, rather than three.
        ("a b c d e", ["a b", "a b c x y"], ["a b c *d e*", "a b", "a b c *x y*"]),
        ("a", ["", "x y"], ["*a*", "", "*x y*"]),
        ("a", [], ["*a*"]),
    ],
)
def test_words_of_an_error_rate_are_aligned(hypothesis: str, references: list[str], expected: list[str]) -> None:
    assert show_all(split_in_order(hypothesis), *map(split_in_order, references)) == expected


@given(SENTENCES, SENTENCES)
def test_an_alignment_has_as_few_edits_as_there_are(tokens: list[str], others: list[str]) -> None:
    marked, (marked_other,) = mark_words(split_in_order(" ".join(tokens)), [split_in_order(" ".join(others))])
    gaps, matches = [], []
    for spans, words in ((marked, tokens), (marked_other, others)):
        marks = token_marks(spans)
        matches.append([word for word, mark in zip(words, marks, strict=True) if not mark])
        joined = "".join("x" if mark else " " for mark in marks)
        gaps.append([*map(len, joined.split(" "))])
    assert matches[0] == matches[1]
    assert sum(map(max, *gaps)) == count_edits(tokens, others)


def count_edits(tokens: list[str], others: list[str]) -> int:
    """The definition of the edit distance, row by row."""
    row = list(range(len(others) + 1))
    for number, token in enumerate(tokens, 1):
        above, row = row, [number]
        for column, other in enumerate(others, 1):
            row.append(min(above[column] + 1, row[-1] + 1, above[column - 1] + (token != other)))
    return row[-1]


@given(SENTENCES, st.lists(SENTENCES, max_size=4))
def test_marks_agree_with_a_slow_twin_and_with_the_matches_of_bleu(
    hypothesis: list[str], references: list[list[str]]
) -> None:
    lines = [Line(" ".join(tokens), tokens) for tokens in (hypothesis, *references)]
    marked, marked_references = mark_words(lines[0], lines[1:])

    counts: Counter[str] = Counter()
    for reference in references:
        counts |= Counter(reference)  # the largest count in any one reference
    bigrams = {bigram for reference in references for bigram in pairwise(reference)}
    assert token_marks(marked) == expected_marks(hypothesis, counts, bigrams)
    if references:
        report = corpus_bleu([hypothesis], [references], tokenizer="none")
        assert sum(mark != "unmatched" for mark in token_marks(marked)) == report.matches[0]

    for spans, reference in zip(marked_references, references, strict=True):
        expected = expected_marks(reference, Counter(hypothesis), set(pairwise(hypothesis)))
        assert token_marks(spans) == ["unmatched" if mark == "unmatched" else "" for mark in expected]


@given(st.text(), st.sampled_from(WORDWISE), st.booleans(), st.randoms(use_true_random=False))
def test_spans_join_to_the_text_and_neighbors_have_different_marks(
    line: str, tokenizer: str, lowercase: bool, rng: random.Random
) -> None:
    for text in (line, fuzz_line(rng)):
        tokens = sacrebleu_tokens(tokenizer, text.lower() if lowercase else text)
        kept = [token for token in tokens if rng.random() < 0.5]
        marked, (marked_reference,) = mark_words(Line(text, tokens), [Line(" ".join(kept), kept)])
        for spans, whole in ((marked, Line(text, tokens)), (marked_reference, split(" ".join(kept)))):
            assert "".join(span.text for span in spans) in (whole.text, " ".join(whole.tokens))
            assert all(len(list(run)) == 1 for _, run in groupby(span.mark for span in spans))
            assert all(span.text for span in spans)
        unrelated, _ = mark_words(Line(line, kept), [])  # tokens of another text
        assert "".join(span.text for span in unrelated) in (line, " ".join(kept))


# Tokens as in 13a with and without lowercase=True, zh, SentencePiece with nmt_nfkc_cf, and BERT; only "world" matches.
@pytest.mark.parametrize(
    ("text", "tokens", "shown"),
    [
        ("Hello,  (world)!", ["Hello", ",", "(", "world", ")", "!"], "*Hello,  (*world*)!*"),
        # Not the second "the", which has the same case as the token.
        ("The world of the Sun", ["the", "world", "of", "the", "sun"], "*The* world *of the Sun*"),
        ("İstanbul world Straße", ["i̇stanbul", "world", "straße"], "*İstanbul* world *Straße*"),
        ("ΟΔΟΣ world", ["οδος", "world"], "*ΟΔΟΣ* world"),  # str.lower gives a final sigma
        ("我很world抱歉。", ["我", "很", "world", "抱", "歉", "。"], "*我很*world*抱歉。*"),
        ("Ａ，… world", ["\u2581a", ",", "...", "\u2581world"], "*Ａ，…* world"),
        ("A B world", ["\u2581", "a", "\u2581", "b", "\u2581world"], "*A B* world"),
        ("world A B", ["\u2581world", "\u2581a", "\u2581", "\u2581b"], "world *A B*"),
        ("café world", ["cafe", "world"], "*café* world"),
        ("שלום, world.", ["שלום", ",", "world", "."], "*שלום,* world*.*"),
        ("  world  ", ["world"], "  world  "),
        # 13a decodes the entity, and "##s" is a WordPiece token: the tokens are shown.
        ("&quot;world&quot;", ['"', "world", '"'], '*"* world *"*'),
        ("worlds", ["world", "##s"], "world *##s*"),
    ],
)
def test_the_original_text_is_marked_if_it_contains_the_tokens(text: str, tokens: list[str], shown: str) -> None:
    reference = Line("the world", ["word", "world", "\u2581world"])
    marked, _ = mark_words(Line(text, tokens), [reference])
    matches: list[Span] = [Span(span.text, "" if span.mark == "displaced" else span.mark) for span in marked]
    assert show(matches) == shown
