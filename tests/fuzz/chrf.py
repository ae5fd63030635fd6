"""chrF of text, batch by batch, against sacreBLEU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

from sacrebleu.metrics.chrf import CHRF

from lightning_bleu import CorpusCHRF, sentence_chrf
from lightning_bleu.counting import ngrams, words
from tests.fuzz.choices import Choices
from tests.fuzz.rounds import Target, compare
from tests.fuzz.text import make_pieces
from tests.fuzz.updates import COPIES, MANY_TOKENS, limits
from tests.helpers.chrf import CHRF_PIECES

_CHAR_ORDERS = [6, 6, 6, 1, 2, 3, 4, 5, 7, 9, 0]
_WORD_ORDERS = [0, 2, 2, 1, 3, 0]
_BETAS = [2, 1, 3, 0, 0.5, 2]
_CACHE_LIMITS: Sequence[Mapping[str, int]] = [*[{}] * 6, {"_MAX_UNITS": 3}, {"_MAX_CHARACTERS": 30}, {"_MAX_UNITS": 0}]
_KERNEL_LIMITS: Sequence[Mapping[str, int]] = [
    *[{}] * 6,
    {"_KEY_BITS": 40},
    {"_MAX_HYPOTHESIS_TOKENS": 10},
    {"_MAX_HYPOTHESIS_TOKENS": 40, "_MAX_TOKENS": 60},
    {"_MAX_TABLE": 2},
    {"_MANY_ORDERS": 0},
]

Sentences = list[list[str]]
"""Each a hypothesis and its references."""


class CHRFCase(NamedTuple):
    """Sentences as text, with random options."""

    batches: list[Sentences]
    options: dict[str, Any]
    keep_sentences: bool
    limits: tuple[Mapping[str, int], Mapping[str, int]]

    @property
    def sentence_count(self) -> int:
        return sum(map(len, self.batches))

    def describe(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        updates = [f"  .update({preds},\n          {target})" for preds, target in map(_columns, self.batches)]
        others = [f"  keep_sentences: {self.keep_sentences}", f"  limits: {[*filter(None, self.limits)]}"]
        return "\n".join([f"CorpusCHRF({options})", *updates, *others])

    def check(self) -> None:
        peer = CHRF(**self.options)
        metric = CorpusCHRF(percent=True, keep_sentences=self.keep_sentences, **self.options)
        known: dict[str, list[int]] = {}  # equal sentences are counted once
        expected: list[list[int]] = []
        with limits(words, self.limits[0]), limits(ngrams, self.limits[1]):
            for batch in self.batches:
                rows = [_expected_row(peer, sentence, known) for sentence in batch]
                expected += rows
                metric.update(*_columns(batch))
                assert metric.batch_statistics is not None
                compare("sentence", metric.batch_statistics.tolist(), rows)
            scores = sentence_chrf(*_columns(batch), percent=True, **self.options).tolist()
            compare("sentence_chrf", scores, [peer._compute_f_score(row) for row in rows])
        totals = [sum(column) for column in zip(*expected)] or [0] * metric.columns
        compare("statistics", metric.statistics.tolist(), totals)
        theirs, report = peer._compute_score_from_stats(totals), metric.report()
        compare("score", [metric.compute().item(), report.score], [theirs.score] * 2)
        compare("line", str(report), theirs.format())
        if self.keep_sentences:
            compare("kept sentence", metric.sentence_statistics.tolist(), expected)


def _columns(batch: Sentences) -> tuple[list[str], list[list[str]]]:
    return [sentence[0] for sentence in batch], [sentence[1:] for sentence in batch]


def _expected_row(peer: CHRF, sentence: list[str], known: dict[str, list[int]]) -> list[int]:
    key = repr(sentence)
    if key not in known:
        hypothesis, *references = sentence
        (known[key],) = peer._extract_corpus_statistics([hypothesis], [[reference] for reference in references])
    return known[key]


def make_case(choices: Choices) -> CHRFCase:
    """Lines of random words and pieces, with one to three references."""
    sentences = choices.sentences()
    pieces = [*make_pieces(choices)]
    shift = choices.byte()
    if shift % 2:
        pieces[1::4] = [CHRF_PIECES[(shift + symbol) % len(CHRF_PIECES)] for symbol in range(1, 255, 4)]
    options: dict[str, Any] = {"char_order": choices.pick(_CHAR_ORDERS), "word_order": choices.pick(_WORD_ORDERS)}
    if not any(options.values()):
        options["word_order"] = 1
    options["beta"] = choices.pick(_BETAS)
    for name in ("lowercase", "whitespace", "eps_smoothing"):
        options[name] = choices.byte() % 3 == 1
    rows = [["".join(pieces[symbol] for symbol in segment) for segment in segments[:4]] for segments in sentences]
    copies = choices.pick(COPIES) or 1 + MANY_TOKENS // max(50, sum(map(len, chain.from_iterable(rows))))
    rows *= copies
    cuts = sorted([0, *(choices.byte() % (len(rows) + 1) for _ in range(choices.byte() % 3)), len(rows)])
    batches = [rows[start:stop] for start, stop in pairwise(cuts)]
    keep_sentences = choices.byte() % 4 == 1
    return CHRFCase(batches, options, keep_sentences, (choices.pick(_CACHE_LIMITS), choices.pick(_KERNEL_LIMITS)))


TARGET = Target("chrf", make_case, round_size=200)
