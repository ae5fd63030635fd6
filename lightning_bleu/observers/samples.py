"""Sample sentences of a validation: how the first ones and the worst are chosen, and what is shown of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from lightning_bleu.bleu import BLEUScorer, BLEUSettings
from lightning_bleu.core.batch import Sentence
from lightning_bleu.core.clean import to_line
from lightning_bleu.core.scoring import Scorer
from lightning_bleu.core.tokens import load_tokenizer, tokenize_line
from lightning_bleu.evaluation.metrics.functions import FunctionScorer
from lightning_bleu.evaluation.scores.sentences import SentenceRows
from lightning_bleu.evaluation.scores.validation import ScoredLoader
from lightning_bleu.views.blocks import Block, Example, ExampleLine, Examples, Note, Span, View
from lightning_bleu.views.marks import Line, mark_words
from lightning_bleu.views.text import to_text
from lightning_bleu.views.viewable import Viewable

TextsT = TypeVar("TextsT")
_CANDIDATES = 4
"""The number of candidates per sentence that is shown, because repeats are dropped."""
_ROUNDING = 1e-9
"""How far from perfect a perfect score may be, relatively."""


def find_worst(statistics: Tensor, scorer: Scorer, count: int) -> list[int]:
    """The sentences with the worst scores; of BLEU, the worst for their length. Perfect sentences are not among them.

    Args:
        statistics: the statistics of each sentence, shape ``(sentences, columns)``.
        scorer: how to score them.
        count: the number of sentences.

    Returns:
        the numbers of the sentences, from 0, the worst first; an empty list for a score without a direction.

    Example:
        >>> from lightning_bleu import CorpusBLEU
        >>> from lightning_bleu.core.scoring import count_sentences
        >>> bleu = CorpusBLEU()
        >>> rows, _ = count_sentences(["a b c d", "a b x y", "a b c x"], ["a b c d"] * 3, bleu.scorer)
        >>> find_worst(rows, bleu.scorer, 2)
        [1, 2]
    """
    if scorer.higher_is_better is None:
        return []
    ranks = scorer.rank_sentences(statistics)
    order = ranks.argsort(stable=True, descending=not scorer.higher_is_better)
    is_shown = ~(_find_perfect(scorer, statistics) | ranks.isnan())  # NaN: a metric has skipped the sentence
    numbers: list[int] = order[is_shown[order]][:count].tolist()
    return numbers


def _find_perfect(scorer: Scorer, statistics: Tensor) -> Tensor:
    """Which sentences have the best possible score; none if that is unknown. Shape ``(sentences,)``."""
    if scorer.perfect is None:
        return torch.zeros(len(statistics), dtype=torch.bool, device="cpu")
    scores = scorer.score_sentences(statistics).double()
    missing = scorer.sign * (scorer.perfect - scores)
    return missing <= _ROUNDING * max(1.0, abs(scorer.perfect))


def find_changed(a: SentenceRows, b: SentenceRows, count: int) -> tuple[list[int], list[int]]:
    """The sentences that the first system translates worse, and those that it translates better.

    Returns:
        the numbers of the sentences, from 0, at most `count` of each, those that changed most first.
    """
    gains = find_gains(a, b)
    order = gains.argsort(stable=True)
    worse_in_a = order[gains[order] < 0]
    order = gains.argsort(stable=True, descending=True)
    better_in_a = order[gains[order] > 0]
    return worse_in_a[:count].tolist(), better_in_a[:count].tolist()


def find_gains(a: SentenceRows, b: SentenceRows) -> Tensor:
    """How much better the first system translates each sentence; below 0 if it translates it worse.

    Returns:
        shape ``(sentences,)``. BLEU ranks with averages, here those of both systems.
    """
    ranks = a.scorer.rank_sentences(torch.cat([a.statistics, b.statistics]))
    ranks_a, ranks_b = ranks.chunk(2)
    return (ranks_a - ranks_b) * a.scorer.sign


class ChosenSentences(NamedTuple):
    """The sentences to show, by their numbers, from 0.

    Attributes:
        ranked_by: the name of the score that ranks them; empty if none does.
        first: the first sentences of the dataset.
        worst: the worst sentences, the worst first.
    """

    ranked_by: str
    first: Mapping[int, Sentence]
    worst: Mapping[int, Sentence]


def choose_sentences(loader: ScoredLoader, count: int) -> ChosenSentences:
    """The first sentences, and the worst by the first score that ranks sentences.

    Args:
        loader: the scored sentences.
        count: how many sentences to choose of each, at most.
    """
    texts = loader.sentences.texts
    ranked_by = next((key for key, rows in loader.rows.items() if rows.scorer.sign), "")
    worst: dict[int, Sentence] = {}
    if ranked_by:
        rows = loader.rows[ranked_by]
        for number in find_worst(rows.statistics[: len(texts)], rows.scorer, _CANDIDATES * count):
            worst[number] = texts[number]._replace(group=None, id=None, columns=None)
    return ChosenSentences(
        ranked_by,
        first=dict(enumerate(texts[:count])),
        worst={number: texts[number] for number in drop_repeats(worst, count)},
    )


def drop_repeats(texts: Mapping[int, TextsT], count: int) -> dict[int, TextsT]:
    """The first sentences with different texts: test sets of chats have the same sentence many times.

    Args:
        texts: the texts of sentences by their numbers.
        count: how many sentences to keep, at most.

    Example:
        >>> drop_repeats({7: ("a", "b"), 3: ("a", "b"), 5: ("a", "c")}, 2).keys()
        dict_keys([7, 5])
    """
    distinct: dict[int, TextsT] = {}
    for number, texts_of_sentence in texts.items():
        if len(distinct) < count and texts_of_sentence not in distinct.values():
            distinct[number] = texts_of_sentence
    return distinct


_MAX_CHARACTERS = 20_000
"""The maximum number of characters of a sample; a hypothesis that never ends would take seconds to mark."""
_MAX_REFERENCES = 5
"""The maximum number of references that a page shows per sentence."""
_REPR_TEXT = 40
"""The number of characters of a sentence in the ``repr`` of a sample."""
_REPR_SCORES = 50
"""The number of characters of its scores there."""


@dataclass(frozen=True, repr=False)
class Sample:
    """A sentence of a validation. ``print`` shows its texts.

    Example:
        >>> from lightning_bleu import CorpusBLEU, Evaluator
        >>> evaluator = Evaluator(CorpusBLEU(percent=True))
        >>> evaluator.start()
        >>> evaluator.update(["the cat sat on the mat", "it is"], ["the cat sat on a mat", "it is"])
        >>> evaluator.finish(step=500).samples["val"].worst[0].references
        ['the cat sat on a mat']

    Attributes:
        index: its index in the dataset, from 0: what the step returned as ``"index"``, or else its number among the
            scored ones. In comparisons and the page of a run, its line in the files.
        lines: the hypothesis and then its references, with their tokens. Of very long texts, they have the beginning.
        source: the source sentence; None if the step returned none.
        scores: its scores by name, in the unit of the score of the corpus.
        percent: the `percent` of each of these scores; see :class:`lightning_bleu.Result`.
        group: the label of its group; None if the step returned no labels.
        id: what the step calls it; None if the step returned no ids.
    """

    index: int
    lines: Sequence[Line]
    source: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    percent: Mapping[str, bool | None] = field(default_factory=dict)
    group: str | None = None
    id: str | int | None = None

    @property
    def labels(self) -> dict[str, str]:
        """Its id and its group, if it has them."""
        labels = {"id": self.id, "group": self.group}
        return {name: str(label) for name, label in labels.items() if label is not None}

    @property
    def hypothesis(self) -> str:
        """The hypothesis."""
        return self.lines[0].text

    @property
    def references(self) -> list[str]:
        """Its references."""
        return [line.text for line in self.lines[1:]]

    def mark_words(self) -> tuple[list[Span], list[list[Span]]]:
        """The hypothesis and each reference in parts; see :func:`lightning_bleu.views.marks.mark_words`."""
        return mark_words(self.lines[0], self.lines[1:])

    def shown_scores(self) -> list[float]:
        """The scores, in percent unless they have a scale of their own: for loggers."""
        return [100 * score if self.percent[name] is False else score for name, score in self.scores.items()]

    def to_dict(self) -> dict[str, Any]:
        """The index, the id, the group, the scores, and the texts."""
        texts = {"source": self.source, "hypothesis": self.hypothesis, "references": self.references}
        return {"index": self.index, "id": self.id, "group": self.group, **self.scores, **texts}

    def describe_scores(self) -> list[str]:
        """Each score with its name: ``"bleu 43.2"``."""
        scores = {name: score for name, score in self.scores.items() if not math.isnan(score)}  # NaN: skipped
        return [f"{name} {score:.{1 if self.percent[name] else 4}f}" for name, score in scores.items()]

    def to_example(self) -> Example:
        """What a page shows of it."""
        hypothesis, references = self.mark_words()
        lines = []
        if self.source is not None:
            lines.append(ExampleLine("source", [Span(self.source)]))
        lines.append(ExampleLine("hypothesis", hypothesis))
        lines += label_references(references)
        labels = [to_line(label, _REPR_TEXT) for label in self.labels.values()]
        return Example(self.index, lines, "  ".join([*labels, *self.describe_scores()]))

    def __str__(self) -> str:
        return to_text(View("", [Examples("", [self.to_example()])]))

    def __repr__(self) -> str:
        scores = to_line(", ".join(self.describe_scores()), _REPR_SCORES)
        text = to_line(repr(self.hypothesis[:_REPR_TEXT]), _REPR_TEXT)
        return f"Sample(#{self.index}, {scores}, {text})"


@dataclass(frozen=True, repr=False)
class Samples(Viewable):
    """Sentences of a loader to look at. ``print`` them, or end a cell of a notebook with them.

    Example:
        >>> from lightning_bleu import CorpusBLEU, Evaluator
        >>> evaluator = Evaluator(CorpusBLEU(percent=True))
        >>> evaluator.start()
        >>> evaluator.update(["the cat sat on the mat", "it is"], ["the cat sat on a mat", "it is"])
        >>> evaluator.finish(step=500).samples["val"].worst
        [Sample(#0, bleu 53.7, 'the cat sat on the mat')]

    Attributes:
        name: whose they are, such as ``"val"`` or ``"val/news"``.
        first: the first sentences of the dataset, which are the same in each validation.
        worst: the worst sentences, the worst first. Perfect ones are not among them.
        order: what the worst ones are the worst by.
        score: the line that the score prints by which they are ranked.
        signature: its signature.

    Notes:
        In other processes than process 0, there are none.
    """

    name: str
    first: list[Sample]
    worst: list[Sample]
    order: str = ""
    score: str = ""
    signature: str = ""

    @property
    def caption(self) -> str:
        """The score and its signature."""
        return f"{self.score}\n{self.signature}".rstrip()

    def to_dicts(self) -> list[dict[str, Any]]:
        """All of them as plain values, for ``pandas.DataFrame(samples.to_dicts())``.

        ``"kind"`` is the name of the list that a sentence is in; the others are those of :meth:`Sample.to_dict`.
        """
        kinds = {"worst": self.worst, "first": self.first}
        return [{"kind": kind} | sample.to_dict() for kind, samples in kinds.items() for sample in samples]

    def describe(self, examples: int) -> View:
        """What there is to see; see :class:`lightning_bleu.views.viewable.Viewable`."""
        return View(f"Samples of {self.name}", self.blocks(examples))

    def blocks(self, examples: int) -> list[Block]:
        """What there is to see, without a title."""
        return [
            Note(self.caption, quiet=True),
            _to_examples(f"Worst {{}}{self.order}", self.worst[:examples]),
            _to_examples("First {}", self.first[:examples], folded=bool(self.worst)),
        ]

    def __str__(self) -> str:
        return self.to_text(examples=8)

    def __repr__(self) -> str:
        return f"Samples({to_line(self.name, _REPR_TEXT)!r}, {len(self.first)} first, {len(self.worst)} worst)"


def _to_examples(title: str, samples: Sequence[Sample], *, folded: bool = False) -> Examples:
    """Sentences below a title with their number."""
    return Examples(title.format(len(samples)), [sample.to_example() for sample in samples], folded=folded)


def make_samples(loader: ScoredLoader, chosen: ChosenSentences, name: str) -> Samples:
    """The chosen sentences of a loader with their scores, tokenized so that their words can be marked.

    Args:
        loader: the scored sentences.
        chosen: the sentences; none in other processes than process 0.
        name: the name of the loader.
    """
    chosen_texts = {**chosen.first, **chosen.worst}
    by_number = {sample.index: sample for sample in score_samples(chosen_texts, loader.rows)}
    index = loader.sentences.index
    if index is not None:
        by_number = {number: replace(sample, index=int(index[number])) for number, sample in by_number.items()}
    first = [by_number[number] for number in chosen.first]
    worst = [by_number[number] for number in chosen.worst]
    if not chosen.ranked_by:
        return Samples(name, first, worst)
    order, report = loader.rows[chosen.ranked_by].scorer.order, loader.results[chosen.ranked_by].report
    return Samples(name, first, worst, order, str(report), getattr(report, "signature", None) or "")


def find_bleu(rows_by_score: Mapping[str, SentenceRows]) -> tuple[str, BLEUScorer] | None:
    """The name and the scorer of the first BLEU among the rows of scores; None if there is none."""
    for name, of_score in rows_by_score.items():
        if isinstance(of_score.scorer, BLEUScorer):
            return name, of_score.scorer
    return None


def find_marking(rows_by_score: Mapping[str, SentenceRows]) -> Scorer | None:
    """The scorer whose tokens are marked: that of the first BLEU, else the first one; None without any rows."""
    bleu = find_bleu(rows_by_score)
    return bleu[1] if bleu else next((of_score.scorer for of_score in rows_by_score.values()), None)


def label_references(references: Sequence[Sequence[Span]]) -> list[ExampleLine]:
    """The references of a sentence, as a page shows them."""
    if len(references) == 1:
        return [ExampleLine("reference", references[0])]
    return [ExampleLine(f"reference {number}", line) for number, line in enumerate(references[:_MAX_REFERENCES], 1)]


def score_samples(by_number: Mapping[int, Sentence], rows_by_score: Mapping[str, SentenceRows]) -> list[Sample]:
    """Samples of sentences with their scores.

    Args:
        by_number: the sentences by their numbers, from 0.
        rows_by_score: the rows of all sentences, for each score.
    """
    numbers = list(by_number)
    scores_by_name = {name: rows.select(numbers).score_sentences().tolist() for name, rows in rows_by_score.items()}
    percent = {name: of_score.scorer.percent for name, of_score in rows_by_score.items()}
    marking = find_marking(rows_by_score)
    samples = []
    for place, (number, sentence) in enumerate(by_number.items()):
        lines = [split_line(text, sentence.tokenized, marking) for text in (sentence.hypothesis, *sentence.references)]
        scores_of_sentence = {name: of_score[place] for name, of_score in scores_by_name.items()}
        sample = Sample(number, lines, sentence.source, scores_of_sentence, percent, sentence.group, sentence.id)
        samples.append(sample)
    return samples


def name_labels(samples: Iterable[Sample]) -> list[str]:
    """The names of the labels that some samples have."""
    return list(dict.fromkeys(name for sample in samples for name in sample.labels))


def split_line(text: str, is_tokenized: bool, scorer: Scorer | None) -> Line:
    """The beginning of a text, with its tokens: those that an error rate aligns, or those of BLEU.

    Example:
        >>> split_line("Hi!", False, BLEUScorer(BLEUSettings.from_options()))
        Line(text='Hi!', tokens=['Hi', '!'], is_ordered=False)
    """
    if isinstance(scorer, FunctionScorer) and scorer.metric.split_units and len(text) <= _MAX_CHARACTERS:
        return Line(text, scorer.metric.split_units(text), is_ordered=True)
    text = text[:_MAX_CHARACTERS]
    if is_tokenized:
        return Line(text, text.split())
    settings = scorer.settings if isinstance(scorer, BLEUScorer) else BLEUSettings.from_options()
    tokens = tokenize_line(text.lower() if settings.lowercase else text, load_tokenizer(settings.tokenizer))
    return Line(text, list(map(str, tokens)))
