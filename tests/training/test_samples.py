"""Which sentences a dashboard shows, their scores, and their tokens."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU as SacreBLEU
from torch import Tensor

from lightning_bleu.counting.bleu import count_rows
from lightning_bleu.reading.batch import read_batch
from lightning_bleu.settings.bleu import BLEUSettings
from lightning_bleu.settings.conventions import CONVENTIONS
from lightning_bleu.training import samples
from lightning_bleu.training.samples import Line, Sample, find_worst, make_samples, score_sentences
from lightning_bleu.training.sentences import Sentence
from tests.helpers.corpora import random_corpus, read_lines
from tests.helpers.text import WORDWISE, fuzz_line, sacrebleu_tokens

SETTINGS = BLEUSettings.from_options()


def count(hypotheses: Sequence[Any], references: Sequence[Any], settings: BLEUSettings = SETTINGS) -> Tensor:
    return torch.from_numpy(count_rows(read_batch(hypotheses, references, settings), settings))


def random_text(rng: random.Random, sentences: int = 200, **options: Any) -> tuple[list[str], list[list[str]]]:
    hypotheses, references = random_corpus(rng, sentences, **options)
    return [*map(" ".join, hypotheses)], [[*map(" ".join, group)] for group in references]


# Sentence BLEU


def score_live(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], max_order: int = 4, **options: Any
) -> list[float]:
    """The sentence BLEU of sacreBLEU, with its defaults for sentences."""
    bleu = SacreBLEU(effective_order=True, max_ngram_order=max_order, **options)
    return [bleu.sentence_score(*pair).score for pair in zip(hypotheses, references)]


@pytest.mark.parametrize("max_order", [1, 2, 4, 6])
def test_sentences_score_as_in_sacrebleu(max_order: int, rng: random.Random) -> None:
    hypotheses, references = random_text(rng)
    settings = BLEUSettings.from_options(max_order=max_order)
    scores = score_sentences(count(hypotheses, references, settings), settings)
    assert (scores.dtype, scores.shape) == (torch.float64, (200,))
    assert scores.tolist() == pytest.approx(score_live(hypotheses, references, max_order), abs=1e-9)
    # All kinds of sentences are among them.
    assert scores.min() == 0
    assert scores.max() == pytest.approx(100)
    assert len({*scores.tolist()}) > 50


@pytest.mark.parametrize("tokenizer", WORDWISE)
@pytest.mark.parametrize("lowercase", [False, True])
def test_hard_text_scores_as_in_sacrebleu(tokenizer: str, lowercase: bool, rng: random.Random) -> None:
    references = [fuzz_line(rng) for _ in range(200)]
    hypotheses = [line + fuzz_line(rng)[:10] for line in references]
    settings = BLEUSettings.from_options(tokenizer=tokenizer, lowercase=lowercase)
    scores = score_sentences(count(hypotheses, references, settings), settings)
    live = score_live(hypotheses, [[line] for line in references], tokenize=tokenizer, lowercase=lowercase)
    assert scores.tolist() == pytest.approx(live, abs=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"percent": True},
        {"smoothing": "none"},
        {"smoothing": "floor", "smoothing_value": 0.5},
        {"smoothing": "add-k"},
        {"effective_order": True},
        # The others of nltk are counted in another way.
        *({"convention": name, "tokenizer": "13a", "lowercase": False} for name in CONVENTIONS if name != "nltk"),
    ],
    ids=str,
)
def test_how_a_corpus_is_smoothed_does_not_matter_for_sentences(options: dict[str, Any], rng: random.Random) -> None:
    hypotheses, references = random_text(rng, references=1)
    settings = BLEUSettings.from_options(**options)
    scores = score_sentences(count(hypotheses, references, settings), settings)
    assert scores.tolist() == pytest.approx(score_live(hypotheses, references), abs=1e-9)


@pytest.mark.parametrize("chunk", [1, 99, 100, 199, 200])
def test_many_sentences_score_as_few_do(chunk: int, monkeypatch: pytest.MonkeyPatch, rng: random.Random) -> None:
    statistics = count(*random_text(rng))
    expected = score_sentences(statistics, SETTINGS)
    monkeypatch.setattr(samples, "_CHUNK", chunk)
    assert torch.equal(score_sentences(statistics, SETTINGS), expected)


def test_sentences_without_tokens_score_0() -> None:
    statistics = count(["", "", "a"], ["", "a", ""])
    assert score_sentences(statistics, SETTINGS).tolist() == [0, 0, 0]
    assert score_sentences(statistics[:0], SETTINGS).shape == (0,)


# The worst sentences

BROKEN = 8


def repeat_words(words: list[str], other: str) -> str:
    """A loop."""
    return " ".join((words[:3] * len(words))[: 2 * len(words)])


def truncate(words: list[str], other: str) -> str:
    return " ".join(words[:3])


def empty(words: list[str], other: str) -> str:
    return ""


def copy_other(words: list[str], other: str) -> str:
    """The translation of another sentence."""
    return other


WAYS_TO_BREAK: list[Callable[[list[str], str], str]] = [repeat_words, truncate, empty, copy_other]


def break_some(rng: random.Random, hypotheses: Sequence[str], references: Sequence[str]) -> tuple[list[str], set[int]]:
    """Break sentences that are long enough for a mistake to matter, each way as often as the others.

    Returns:
        all hypotheses, and which of them are broken.
    """
    chosen = rng.sample([row for row, line in enumerate(references) if len(line.split()) >= 12], BROKEN)
    broken = list(hypotheses)
    for number, row in enumerate(chosen):
        way = WAYS_TO_BREAK[number % len(WAYS_TO_BREAK)]
        broken[row] = way(hypotheses[row].split(), hypotheses[(row + 1) % len(hypotheses)])
    return broken, {*chosen}


def weaken(rng: random.Random, lines: Sequence[str], share: float, vocabulary: Sequence[str]) -> list[str]:
    """Replace all but a share of the words, as a model does that is not yet trained."""
    return [
        " ".join(word if rng.random() < share else rng.choice(vocabulary) for word in line.split()) for line in lines
    ]


def count_found(hypotheses: Sequence[str], references: Sequence[str], broken: set[int]) -> tuple[int, int]:
    """How many of the broken sentences are found, and how many have the lowest sentence BLEU."""
    statistics = count(hypotheses, references)
    lowest: list[int] = score_sentences(statistics, SETTINGS).argsort(stable=True)[: len(broken)].tolist()
    return len(broken & {*find_worst(statistics, SETTINGS, len(broken))}), len(broken & {*lowest})


@pytest.mark.parametrize("share", [0.3, 0.4, 0.5])
def test_most_broken_sentences_are_found_and_more_than_by_the_lowest_sentence_bleu(share: float) -> None:
    vocabulary = [f"w{number}" for number in range(300) for _ in range(300 // (number + 1))]  # some words are frequent
    found = lowest = 0
    for seed in range(10):
        rng = random.Random(seed)
        references = [" ".join(rng.choices(vocabulary, k=rng.randint(2, 40))) for _ in range(400)]
        hypotheses, broken = break_some(rng, weaken(rng, references, share, vocabulary), references)
        both = count_found(hypotheses, references, broken)
        assert both[0] >= 5
        found, lowest = found + both[0], lowest + both[1]
    assert found >= 0.75 * 10 * BROKEN
    assert found > 1.2 * lowest


@pytest.mark.parametrize("share", [0.4, 0.6, 0.8])
@pytest.mark.parametrize("system", ["Online-W", "OpenNMT", "PROMT"])
def test_most_broken_sentences_of_real_text_are_found(system: str, share: float, wmt22: Path) -> None:
    references = read_lines(wmt22 / "generaltest2022.en-de.ref.A.de")
    lines = read_lines(wmt22 / f"generaltest2022.en-de.hyp.{system}.de")
    found = lowest = 0
    for seed in range(3):
        rng = random.Random(seed)
        weak = weaken(rng, lines, share, " ".join(lines).split())
        hypotheses, broken = break_some(rng, weak, references)
        both = count_found(hypotheses, references, broken)
        found, lowest = found + both[0], lowest + both[1]
    # The lowest scores are mostly those of short sentences, of which weak models get no word right.
    assert found > 3 * BROKEN / 2
    assert lowest < 3 * BROKEN / 4


def test_of_two_sentences_without_a_match_the_longer_one_is_worse() -> None:
    references = ["a b c", "d e f g h i j k l m", "n o p q r s t u v w x y", "z"]
    hypotheses = ["a b c", "- - - - - - - - - -", references[2], "-"]
    assert find_worst(count(hypotheses, references), SETTINGS, 2) == [1, 3]


def test_equally_bad_sentences_come_in_the_order_of_the_dataset() -> None:
    statistics = count(["a b", "x y", "a b", "x z"], ["a b", "a b", "a b", "a b"])
    assert find_worst(statistics, SETTINGS, 4) == [1, 3, 0, 2]


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
    worst = find_worst(statistics, SETTINGS, number)
    assert len({*worst}) == len(worst) == min(number, len(rows))
    assert {*worst} <= {*range(len(rows))}
    assert worst == find_worst(statistics, SETTINGS, len(rows))[:number]


@pytest.mark.parametrize("references", [[""] * 3, ["", "", "a"]])
def test_sentences_without_references_have_a_worst_one_too(references: list[str]) -> None:
    assert sorted(find_worst(count(["a b", "", "c"], references), SETTINGS, 3)) == [0, 1, 2]


# Samples


def tokenize_samples(sentences: Sequence[Sentence], **options: Any) -> list[tuple[Line, list[Line]]]:
    """The hypothesis and the references of each sample."""
    rows = range(len(sentences))
    made = make_samples(sentences, rows, torch.zeros(len(sentences)), BLEUSettings.from_options(**options))
    return [(sample.hypothesis, [*sample.references]) for sample in made]


def tokenize(text: str, *, tokenized: bool = False, **options: Any) -> list[str]:
    ((hypothesis, references),) = tokenize_samples([Sentence(text, [text], tokenized=tokenized)], **options)
    assert references == [hypothesis]
    assert hypothesis.text == text
    return [*hypothesis.tokens]


def test_a_sample_has_the_number_and_the_score_of_its_row() -> None:
    sentences = [Sentence("a b", ["c", "d e"], "f"), Sentence("", [""])]
    scores = torch.tensor([0.0, 25.5, 50.0, 12.25])
    assert make_samples(sentences, [3, 1], scores, SETTINGS) == [
        Sample(4, 12.25, Line("a b", ["a", "b"]), [Line("c", ["c"]), Line("d e", ["d", "e"])], "f"),
        Sample(2, 25.5, Line("", []), [Line("", [])], None),
    ]
    assert make_samples([], [], scores, SETTINGS) == []


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
    ],
)
def test_text_is_tokenized_as_it_is_counted(text: str, options: dict[str, Any], expected: list[str]) -> None:
    assert tokenize(text, **options) == expected
    assert count([text], [text], BLEUSettings.from_options(**options))[0, -1] == len(expected)


@pytest.mark.parametrize("options", [{}, {"tokenizer": "char"}, {"lowercase": True}, {"tokenizer": len}])
def test_tokens_and_ids_are_not_tokenized_again(options: dict[str, Any]) -> None:
    assert tokenize("Hi, 5 you!", tokenized=True, **options) == ["Hi,", "5", "you!"]
    assert tokenize("", tokenized=True, **options) == []


def test_text_and_tokens_may_be_mixed() -> None:
    sentences = [Sentence("a, b", ["c,"]), Sentence("a, b", ["c,"], tokenized=True)]
    assert tokenize_samples(sentences) == [
        (Line("a, b", ["a", ",", "b"]), [Line("c,", ["c", ","])]),
        (Line("a, b", ["a,", "b"]), [Line("c,", ["c,"])]),
    ]


@pytest.mark.parametrize("tokenizer", WORDWISE)
@pytest.mark.parametrize("lowercase", [False, True])
def test_hard_text_has_the_tokens_of_sacrebleu(tokenizer: str, lowercase: bool, rng: random.Random) -> None:
    lines = [fuzz_line(rng) for _ in range(300)]
    samples = tokenize_samples([Sentence(line, [line]) for line in lines], tokenizer=tokenizer, lowercase=lowercase)
    for line, (hypothesis, _) in zip(lines, samples):
        assert hypothesis.text == line
        assert hypothesis.tokens == sacrebleu_tokens(tokenizer, line.lower() if lowercase else line)


@pytest.mark.parametrize(
    ("text", "tokenizer"),
    [("trans-\n", "13a"), ("a b ", lambda line: line.split(" "))],  # "trans" instead of "trans-"; "a", "b", and ""
    ids=["13a", "callable"],
)
def test_whitespace_at_the_end_makes_no_token(text: str, tokenizer: Any) -> None:
    settings = BLEUSettings.from_options(tokenizer=tokenizer, max_order=1)
    tokens = tokenize(text, tokenizer=tokenizer, max_order=1)
    # As text and as tokens, all match.
    assert count([text], [" ".join(tokens)], settings).tolist() == [[len(tokens)] * 4]
