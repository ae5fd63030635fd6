"""chrF of text, batch by batch, against sacreBLEU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from typing import Any

from sacrebleu.metrics.chrf import CHRF

from lightning_bleu import CorpusCHRF, sentence_chrf
from lightning_bleu.core import ngrams
from lightning_bleu.core import tokens as words
from tests.fuzz.choices import Choices
from tests.fuzz.rounds import Target, compare
from tests.fuzz.text import CACHE_LIMITS, make_batch, make_pieces
from tests.fuzz.updates import COPIES, MANY_TOKENS, MetricCase
from tests.helpers.chrf import CHRF_PIECES

_CHAR_ORDERS = [6, 6, 6, 1, 2, 3, 4, 5, 7, 9, 0]
_WORD_ORDERS = [0, 2, 2, 1, 3, 0]
_BETAS = [2, 1, 3, 0, 0.5, 2]
_KERNEL_LIMITS: Sequence[Mapping[str, int]] = [
    *[{}] * 6,
    {"_KEY_BITS": 40},
    {"_MAX_HYPOTHESIS_TOKENS": 10},
    {"_MAX_HYPOTHESIS_TOKENS": 40, "_MAX_TOKENS": 60},
    {"_MAX_TABLE": 2},
    {"_MANY_ORDERS": 0},
]


@dataclass
class CHRFCase(MetricCase):
    """Sentences as text, with random options. Scores are compared as well."""

    def check_metrics(self, expected: Sequence[list[list[int]]]) -> Any:
        metric, peer = super().check_metrics(expected), CHRF(**self.options)
        theirs, report = peer._compute_score_from_stats(metric.statistics.tolist()), metric.report()
        compare("score", [metric.compute().item(), str(report)], [theirs.score / 100, theirs.format()])
        preds, target = self.batches[-1]
        scores = sentence_chrf(preds.value, target.value, percent=True, **self.options).tolist()
        compare("sentence_chrf", scores, [peer._compute_f_score(row) for row in expected[-1]])
        return metric


def _expected_row(peer: CHRF, hypothesis: str, references: list[str], _: bool) -> list[int]:
    """sacreBLEU's statistics of a sentence."""
    (row,) = peer._extract_corpus_statistics([hypothesis], [[reference] for reference in references])
    return [*row]


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
    as_tuples, is_flat = choices.byte() % 2 == 1, choices.byte() % 2 == 1
    batches = [make_batch(rows[start:stop], as_tuples, is_flat) for start, stop in pairwise(cuts)]
    masked = choices.byte() if choices.byte() % 4 == 1 else None
    lowered = {words: choices.pick(CACHE_LIMITS), ngrams: choices.pick(_KERNEL_LIMITS)}
    return CHRFCase(CorpusCHRF, options, batches, partial(_expected_row, CHRF(**options)), lowered, masked)


TARGET = Target("chrf", make_case, round_size=200)
