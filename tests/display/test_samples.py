"""Sample sentences: which are shown, which of their words are marked, and the table as TensorBoard renders it."""

from __future__ import annotations

import random
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from html.parser import HTMLParser
from itertools import groupby, pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from lightning_bleu import CorpusBLEU, CorpusCHRF, corpus_bleu, sentence_chrf
from lightning_bleu.bleu import BLEUSettings
from lightning_bleu.reading.batch import read_batch
from lightning_bleu.scoring.scoring import ratio_scoring
from lightning_bleu.training.samples import (
    Line,
    Mark,
    Sample,
    Span,
    find_worst,
    make_samples,
    mark_words,
    sample_table,
)
from lightning_bleu.training.sentences import Sentence
from tests.helpers.corpora import random_corpus
from tests.helpers.text import WORDWISE, fuzz_line, sacrebleu_tokens

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # TensorBoard's copy of bleach warns of its own imports
    from tensorboard.plugin_util import markdown_to_safe_html  # type: ignore[import-untyped]

BLEU = CorpusBLEU()
SETTINGS = BLEU.settings


def random_text(rng: random.Random) -> tuple[list[str], list[list[str]]]:
    hypotheses, references = random_corpus(rng, 200)
    return [*map(" ".join, hypotheses)], [[*map(" ".join, group)] for group in references]


def count(hypotheses: Sequence[Any], references: Sequence[Any], metric: Any = BLEU) -> Tensor:
    return torch.from_numpy(metric.count_rows(read_batch(hypotheses, references, metric.settings)))


def split(line: str) -> Line:
    """A line whose tokens are separated by blanks."""
    return Line(line, line.split())


# The worst sentences

BROKEN = 8


def break_some(rng: random.Random, hypotheses: Sequence[str], references: Sequence[str]) -> tuple[list[str], set[int]]:
    """Break sentences that are long enough for a mistake to matter: loops, cut ones, empty ones, and wrong ones.

    Returns:
        all hypotheses, and which of them are broken.
    """
    chosen = rng.sample([row for row, line in enumerate(references) if len(line.split()) >= 12], BROKEN)
    broken = list(hypotheses)
    for number, row in enumerate(chosen):
        words, other = hypotheses[row].split(), hypotheses[(row + 1) % len(hypotheses)]
        loop = (words[:3] * len(words))[: 2 * len(words)]
        broken[row] = [" ".join(loop), " ".join(words[:3]), "", other][number % 4]
    return broken, {*chosen}


def weaken(rng: random.Random, lines: Sequence[str], share: float, vocabulary: Sequence[str]) -> list[str]:
    """Replace all but a share of the words, as a model does that is not yet trained."""
    return [
        " ".join(word if rng.random() < share else rng.choice(vocabulary) for word in line.split()) for line in lines
    ]


@pytest.mark.parametrize("share", [0.3, 0.4, 0.5])
def test_most_broken_sentences_are_found_and_more_than_by_the_lowest_sentence_bleu(share: float) -> None:
    vocabulary = [f"w{number}" for number in range(300) for _ in range(300 // (number + 1))]  # some words are frequent
    found = lowest = 0
    for seed in range(10):
        rng = random.Random(seed)
        references = [" ".join(rng.choices(vocabulary, k=rng.randint(2, 40))) for _ in range(400)]
        hypotheses, broken = break_some(rng, weaken(rng, references, share, vocabulary), references)
        statistics = count(hypotheses, references)
        worst = {*find_worst(statistics, BLEU.scoring, BROKEN)}
        assert len(broken & worst) >= 5
        found += len(broken & worst)
        lowest += len(broken & {*BLEU.scoring.score_sentences(statistics).argsort(stable=True)[:BROKEN].tolist()})
    assert found >= 0.75 * 10 * BROKEN
    assert found > 1.2 * lowest


def test_of_two_sentences_without_a_match_the_longer_one_is_worse() -> None:
    references = ["a b c", "d e f g h i j k l m", "n o p q r s t u v w x y", "z"]
    hypotheses = ["a b c", "- - - - - - - - - -", references[2], "-"]
    assert find_worst(count(hypotheses, references), BLEU.scoring, 2) == [1, 3]


def test_equally_bad_sentences_come_in_the_order_of_the_dataset() -> None:
    statistics = count(["a b", "x y", "a b", "x z"], ["a b", "a b", "a b", "a b"])
    assert find_worst(statistics, BLEU.scoring, 4) == [1, 3, 0, 2]


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_the_worst_for_a_function_depend_on_its_direction(higher_is_better: bool) -> None:
    rows = torch.tensor([[0.5, 1], [4, 2], [-1, 1], [2, 4], [0, 0]])
    worst = find_worst(rows, ratio_scoring("f", higher_is_better), 4)
    assert worst == ([2, 0, 3, 4] if higher_is_better else [1, 0, 3, 4])


def test_the_worst_of_chrf_are_those_with_the_lowest_scores(rng: random.Random) -> None:
    """So they are in the order of what is shown."""
    corpus = random_text(rng)
    expected = sentence_chrf(*corpus).argsort(stable=True)[:20].tolist()
    chrf = CorpusCHRF()
    assert find_worst(count(*corpus, chrf), chrf.scoring, 20) == expected


@given(
    st.lists(st.lists(st.integers(0, 9), min_size=5, max_size=5), max_size=8),
    st.integers(0, 10),
    st.sampled_from([torch.int32, torch.int64]),
)
def test_as_many_different_sentences_are_found_as_there_are(
    rows: list[list[int]], number: int, dtype: torch.dtype
) -> None:
    hypotheses = [[7] * row[0] + [8] * row[1] for row in rows]
    references = [[7] * row[2] + [9] * row[3] + [8] * row[4] for row in rows]
    statistics = count(hypotheses, references).to(dtype) if rows else torch.zeros(0, 10, dtype=dtype)
    worst = find_worst(statistics, BLEU.scoring, number)
    assert len({*worst}) == len(worst) == min(number, len(rows))
    assert {*worst} <= {*range(len(rows))}
    assert worst == find_worst(statistics, BLEU.scoring, len(rows))[:number]


@pytest.mark.parametrize("references", [[""] * 3, ["", "", "a"]])
def test_sentences_without_references_have_a_worst_one_too(references: list[str]) -> None:
    assert sorted(find_worst(count(["a b", "", "c"], references), BLEU.scoring, 3)) == [0, 1, 2]


# Samples


def tokenize_samples(sentences: Sequence[Sentence], **options: Any) -> list[tuple[Line, list[Line]]]:
    """The hypothesis and the references of each sample."""
    rows = range(len(sentences))
    made = make_samples(dict(zip(rows, sentences)), [], BLEUSettings.from_options(**options))
    return [(sample.hypothesis, [*sample.references]) for sample in made]


def tokenize(text: str, *, tokenized: bool = False, **options: Any) -> list[str]:
    ((hypothesis, references),) = tokenize_samples([Sentence(text, [text], tokenized=tokenized)], **options)
    assert references == [hypothesis]
    assert hypothesis.text == text
    return [*hypothesis.tokens]


def test_a_sample_has_the_number_and_the_scores_of_its_row() -> None:
    sentences = [Sentence("a b", ["c", "d e"], "f"), Sentence("", [""])]
    scores = torch.tensor([[0.0, 25.5, 50.0, 12.25], [0.5, 0.25, 0.0, 0.75]])
    assert make_samples(dict(zip([3, 1], sentences)), scores, SETTINGS) == [
        Sample(4, [12.25, 0.75], Line("a b", ["a", "b"]), [Line("c", ["c"]), Line("d e", ["d", "e"])], "f"),
        Sample(2, [25.5, 0.25], Line("", []), [Line("", [])], None),
    ]


def test_a_sentence_longer_than_what_is_shown_is_marked_as_a_whole() -> None:
    """Its last words are those that match the reference, and beyond them nothing is read of a loop."""
    long = "x " * 300 + "a b"
    ((hypothesis, (reference,)),) = tokenize_samples([Sentence(long, ["a b"])])
    assert (hypothesis.text, len(hypothesis.tokens)) == (long, 302)
    assert {span.mark for span in mark_words(hypothesis, [reference])[1][0]} == {""}
    ((loop, _),) = tokenize_samples([Sentence("x " * 100_000, ["a"])])
    assert len(loop.text) == 20_000


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("Hi, you!", {}, ["Hi", ",", "you", "!"]),
        ("Hi, you!", {"lowercase": True}, ["hi", ",", "you", "!"]),
        ("Hi, you!", {"tokenizer": "none"}, ["Hi,", "you!"]),
        ("Hi!", {"tokenizer": "char"}, ["H", "i", "!"]),
        ("你好 you", {"tokenizer": "zh"}, ["你", "好", "you"]),
        ("1-2", {"tokenizer": "13a"}, ["1", "-", "2"]),
        ("&quot;a&quot;", {}, ['"', "a", '"']),
        ("a-b C", {"tokenizer": lambda line: line.split("-")}, ["a", "b C"]),
        ("a-b C", {"tokenizer": lambda line: line.split("-"), "lowercase": True}, ["a", "b c"]),
        ("a-b C", {"tokenizer": lambda line: line.replace("-", " ")}, ["a", "b", "C"]),
        ("ab", {"tokenizer": lambda line: [ord(letter) for letter in line]}, ["97", "98"]),
        ("ab", {"tokenizer": lambda line: (letter for letter in line)}, ["a", "b"]),
        # Whitespace at the end makes no token: not "trans" and not "".
        ("trans-\n", {}, ["trans-"]),
        ("a b ", {"tokenizer": lambda line: line.split(" ")}, ["a", "b"]),
    ],
)
def test_text_is_tokenized_as_it_is_counted(text: str, options: dict[str, Any], expected: list[str]) -> None:
    assert tokenize(text, **options) == expected
    assert count([text], [text], CorpusBLEU(**options))[0, -1] == len(expected)


@pytest.mark.parametrize("options", [{}, {"tokenizer": "char"}, {"lowercase": True}, {"tokenizer": len}])
def test_tokens_and_ids_are_not_tokenized_again(options: dict[str, Any]) -> None:
    assert tokenize("Hi, 5 you!", tokenized=True, **options) == ["Hi,", "5", "you!"]
    assert tokenize("", tokenized=True, **options) == []


@pytest.mark.parametrize("tokenizer", WORDWISE)
@pytest.mark.parametrize("lowercase", [False, True])
def test_hard_text_has_the_tokens_of_sacrebleu(tokenizer: str, lowercase: bool, rng: random.Random) -> None:
    lines = [fuzz_line(rng) for _ in range(300)]
    samples = tokenize_samples([Sentence(line, [line]) for line in lines], tokenizer=tokenizer, lowercase=lowercase)
    for line, (hypothesis, _) in zip(lines, samples):
        assert hypothesis.text == line
        assert hypothesis.tokens == sacrebleu_tokens(tokenizer, line.lower() if lowercase else line)


# Marks, against BLEU's own counts and a slow, obvious twin

SENTENCES = st.lists(st.sampled_from("abcde"), max_size=12)
"""Sentences of few different words, so that words repeat and match."""


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
        ("same words", ["same words"], ["same words", "same words"]),
        ("", ["a b"], ["", "*a b*"]),
        ("a b", [""], ["*a b*", ""]),
        ("a b", [], ["*a b*"]),
    ],
)
def test_unmatched_and_displaced_words_are_marked(hypothesis: str, references: list[str], expected: list[str]) -> None:
    assert show_all(split(hypothesis), *map(split, references)) == expected


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


def test_the_work_grows_linearly_with_tokens_and_references() -> None:
    class Token(str):
        """A token that counts how often it is looked up or compared."""

        __slots__ = ()
        uses = 0

        def __hash__(self) -> int:
            Token.uses += 1
            return super().__hash__()

        def __eq__(self, other: object) -> bool:
            Token.uses += 1
            return super().__eq__(other)

    def count_uses(hypothesis: str, *references: str) -> int:
        Token.uses = 0
        lines = [Line(line, [Token(token) for token in line.split()]) for line in (hypothesis, *references)]
        mark_words(lines[0], lines[1:])
        return Token.uses

    for words in (("a{}", "a{}"), ("a{}", "b{}"), ("w", "w")):
        short, long = ([" ".join(word.format(i) for i in range(size)) for word in words] for size in (200, 400))
        uses = count_uses(*short)
        assert uses > 200
        assert count_uses(*long) < 3 * uses
        assert count_uses(short[0], *[short[1]] * 10) < 10 * uses


# The table, read back by an HTML parser

NASTY = [
    "a | b || c",
    "| --- | --- |",
    "<script>alert(1)</script>",
    "two\nlines\r\n| --- |\n\nparagraph",
    "*bold* _italic_ `code` # heading [link](javascript:alert(1)) ![image](x) ~~~ \\",
    "&lt;b&gt; &amp; <b> &#60;b&#62; &#x3c;b&#x3e; &quot;",
    "<b <i </pre></code></td></table> <!-- <![CDATA[ <?php",
    "<img src=x onerror=alert(1)> <a href='javascript:alert(1)'>",
    "```\ncode\n```",
    "`` ` ``` \\` \\| \\\\|",
    "1. list",
    "- list",
    "> quote",
    "    code",
    "=====",
    "[id]: http://example.com",
    "http://example.com <http://example.com> a@example.com <a@example.com>",
    "**bold** __bold__ ***both***",
    "äöü 中文 😀 שלום مرحبا हिन्दी",
    "\x00\x85\u2028\u2029\x1b[31m\x02klzzwxh:0\x03\x7f",
    "\u200b\u200e\u200f\u061c\ufeff\u00ad zero width",
    "\u202eright to left\u2069 \u2066\u2067\u2068 \u202a\u202b\u202c\u202d",
    "lone surrogate \ud800 and noncharacter \uffff",
    "word " * 200,
]

TAGS = {"p", "br", "table", "thead", "tbody", "tr", "th", "td", "pre", "code", "strong", "em"}
"""The tags of a sample table."""

# Shown as replacement characters, shown as blanks, and not shown.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
LINE_BREAK = re.compile("[\t-\r\x1c-\x1f\x85\u2028\u2029]")
DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")

TEXTS = st.one_of(
    st.text(), st.sampled_from(NASTY), st.text(alphabet="ab <>&#;/|\\`*_[]()!~\"'=-+.:1\n\u2068\u2069", max_size=30)
)


class Page(HTMLParser):
    """The tags and the attributes of a page, and the text of its paragraph and its cells, with line breaks."""

    def __init__(self, markdown: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: dict[str, list[str]] = {"p": [], "th": [], "td": []}
        self._open = ""
        self.feed(markdown_to_safe_html(markdown.encode()))  # TensorBoard reads bytes from event files
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag in self.texts:
            self._open = tag
            self.texts[tag].append("")
        elif tag == "br":
            self.handle_data("\n")

    def handle_endtag(self, tag: str) -> None:
        self._open = "" if tag == self._open else self._open

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open][-1] += data
        else:
            assert not data.strip()


def make_sample(hypothesis: str, *references: str, source: str | None = None, number: int = 1) -> Sample:
    return Sample(number, [12.34, 0.5], split(hypothesis), [split(reference) for reference in references], source)


def body(hypothesis: str, *references: str, source: str | None = None) -> str:
    """The Markdown of the sentences of one sample, without isolates."""
    row = sample_table([make_sample(hypothesis, *references, source=source)], "").splitlines()[-1]
    return row.split(" | ")[-1].removesuffix(" |").replace("\u2068", "").replace("\u2069", "")


def visible(text: str) -> str:
    """The text as a reader sees it: unchanged, except for control characters."""
    text = DIRECTION.sub("", text[:500] + " ..." * (len(text) > 500))
    return CONTROL.sub("\ufffd", LINE_BREAK.sub(" ", text))


@pytest.mark.parametrize("text", NASTY)
def test_nasty_text_is_shown_as_it_is(text: str) -> None:
    page = Page(sample_table([make_sample(text, text, "other", text, source=text)], f"caption\n{text}"))
    assert page.attributes == []
    assert set(page.tags) <= TAGS
    assert [page.tags.count(tag) for tag in ("table", "tr", "th", "td", "pre", "code")] == [1, 2, 2, 2, 1, 5]
    # The lines of the source, the hypothesis, and the references.
    expected = [
        f"{label} \u2068{visible(line)}\u2069"
        for label, line in zip(["src", "hyp", "ref", "ref", "ref"], [text, text, text, "other", text])
    ]
    assert page.texts["td"][-1].split("\n") == expected
    (caption,) = page.texts["p"]
    assert caption.startswith("\u2068caption\u2069\n\u2068")


@given(TEXTS, TEXTS, TEXTS)
def test_no_text_yields_a_tag(hypothesis: str, reference: str, caption: str) -> None:
    tokens = ["", *hypothesis, *reference]  # in another order, they may not be in the text
    references = [split(reference), Line(reference, tokens)]
    sample = Sample(1, [0.0], Line(hypothesis, tokens[::-1]), references, caption)
    page = Page(sample_table([sample, sample], caption, {caption: 1}))
    assert page.attributes == []
    assert [page.tags.count(tag) for tag in ("table", "tr", "th", "td", "pre", "code")] == [1, 3, 3, 6, 5, 8]
    assert set(page.tags) <= TAGS


@given(st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), min_size=1).filter(str.strip))
def test_printable_text_is_shown_unchanged(text: str) -> None:
    page = Page(sample_table([make_sample(text, text)], text))
    assert page.texts["td"][-1] == f"hyp \u2068{text}\u2069\nref \u2068{text}\u2069"
    assert page.texts["p"] == [f"\u2068{text.strip()}\u2069"]


@given(TEXTS)
def test_no_text_leaves_its_isolate(text: str) -> None:
    table = sample_table([make_sample(text, text, source=text)], text)
    assert re.fullmatch("[^\u2066-\u2069]*(\u2068[^\u2066-\u2069]*\u2069[^\u2066-\u2069]*)*", table)
    assert not re.search("[\u202a-\u202e]", table)


def test_rows_have_a_number_a_column_for_each_score_and_labeled_lines() -> None:
    samples = [make_sample("a b", "a b", "b", source="c d"), make_sample("a", "b", number=1041)]
    page = Page(sample_table(samples, "BLEU = 1\nof process 0", {"bleu": 1, "a_b|c": 4}))
    assert page.texts["p"] == ["\u2068BLEU = 1\u2069\n\u2068of process 0\u2069\nBold: wrong or missing word."]
    assert page.texts["th"] == ["no.", "bleu", "a_b|c", "source, hypothesis, references"]
    assert page.texts["td"] == [
        *("   1", " 12.3", "0.5000"),
        "src \u2068c d\u2069\nhyp \u2068a b\u2069\nref \u2068a b\u2069\nref \u2068b\u2069",
        *("1041", " 12.3", "0.5000"),
        "hyp \u2068a\u2069\nref \u2068b\u2069",
    ]


def test_the_header_names_only_what_a_sentence_has() -> None:
    sample = make_sample("a", "a")
    assert "| no. | hypothesis, references |" in sample_table([sample], "")
    assert "| no. | source, hypothesis, references |" in sample_table([sample._replace(source="b")], "")
    table = sample_table([sample._replace(scores=[])], "")
    assert "| no. | hypothesis, references |" in table
    assert "<pre>   1</pre>" in table


def test_unmatched_words_are_bold_and_displaced_words_are_italic() -> None:
    # "b" matches, but no bigram does; nothing else matches.
    assert body("b <x>", "a b") == (
        "<code>hyp</code> <em>b</em> <strong>&#60;x&#62;</strong><br><code>ref</code> <strong>a</strong> b"
    )


BOLD = "<strong>Bold</strong>: wrong or missing word."
ITALIC = "<em>Italic</em>: right word, but both neighbors are wrong."


@pytest.mark.parametrize(
    ("hypothesis", "reference", "explanation"),
    [("a b", "a b", []), ("a b c", "a b", [BOLD]), ("b a", "a b", [ITALIC]), ("b c", "a b", [f"{BOLD} {ITALIC}"])],
)
def test_only_marks_that_appear_are_explained(hypothesis: str, reference: str, explanation: list[str]) -> None:
    table = sample_table([make_sample(hypothesis, reference)], "caption")
    assert table.splitlines()[0].split("<br>") == ["\u2068caption\u2069", *explanation]


def test_long_sentences_are_cut_after_500_characters_and_keep_their_marks() -> None:
    assert body("a" * 500, "a" * 500) == f"<code>hyp</code> {'a' * 500}<br><code>ref</code> {'a' * 500}"
    assert body("a" * 501, "b") == (
        f"<code>hyp</code> <strong>{'a' * 500}</strong> ...<br><code>ref</code> <strong>b</strong>"
    )
    # 500 characters are 250 times "<" and a blank: cut before they are escaped, and in the middle of what is bold.
    many = "< " * 260 + "a b"
    assert body(many, "a b").startswith(f"<code>hyp</code> <strong>{'&#60; ' * 250}</strong> ...<br>")
    # Cut where the mark changes, and before more than one change.
    assert body(f"b {'a' * 497} c", f"b {'a' * 497}").startswith(f"<code>hyp</code> b {'a' * 497}  ...<br>")
    assert body(f"{'a' * 501} b c d", "b c").startswith(f"<code>hyp</code> <strong>{'a' * 500}</strong> ...<br>")
    assert body("a", "a", source="s" * 501).startswith(f"<code>src</code> {'s' * 500} ...<br>")


def test_references_take_at_most_five_lines() -> None:
    references = ["a a", "a b", "a c", "a d", "a e", "a f", "a f"]
    more = "<code>2 more references</code>", "<code>3 more references</code>"
    for count, last in ((5, "<code>ref</code> a <strong>e</strong>"), (6, more[0]), (7, more[1])):
        lines = body("a f", *references[:count]).replace("\u2068", "").replace("\u2069", "").split("<br>")
        assert [line.startswith("<code>ref</code> a") for line in lines[:5]] == [False] + [True] * 4
        assert lines[5:] == [last]
    assert lines[0] == "<code>hyp</code> a f"  # which matches the last reference, although it isn't shown


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\u200b\u200e", "\u2068\u2069"])
def test_a_sentence_without_visible_characters_is_called_empty(text: str) -> None:
    assert body(text, text, source=text) == (
        "<code>src (empty)</code><br><code>hyp (empty)</code><br><code>ref (empty)</code>"
    )
    assert body("(empty)", text).startswith("<code>hyp</code> <strong>&#40;empty&#41;</strong><br>")
