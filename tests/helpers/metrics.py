"""The metrics that the tests of their contract run on, and what each of them should count and score."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lightning_bleu import CorpusBLEU, CorpusCHRF, corpus_bleu, corpus_chrf, sentence_bleu, sentence_chrf
from lightning_bleu.bleu import BLEUOptions, BLEUSettings
from lightning_bleu.chrf import CHRFOptions, CHRFSettings
from tests.helpers.chrf import Groups, peer_rows
from tests.reference import statistics


@dataclass(frozen=True, eq=False)
class Kind:
    """A metric, its options, and its functions.

    Attributes:
        metric: the class.
        settings: the class of its settings.
        options: the types of its options by name.
        score: scores a corpus.
        score_sentences: scores each sentence.
        rows: the statistics of each sentence by definition.
        other_orders: an option with which rows have another width.
    """

    metric: Any
    settings: Any
    options: Mapping[str, str]
    score: Callable[..., Any]
    score_sentences: Callable[..., Tensor]
    rows: Callable[[list[str], Groups], list[list[int]]]
    other_orders: dict[str, int]

    @property
    def name(self) -> str:
        """The name of the class."""
        return str(self.metric.__name__)


def _bleu_rows(preds: list[str], target: Groups) -> list[list[int]]:
    return [statistics(line.split(), [other.split() for other in group]) for line, group in zip(preds, target)]


def _types(options: Any) -> dict[str, str]:
    return {name: annotation.__forward_arg__ for name, annotation in options.__annotations__.items()}


BLEU = Kind(CorpusBLEU, BLEUSettings, _types(BLEUOptions), corpus_bleu, sentence_bleu, _bleu_rows, {"max_order": 2})
CHRF = Kind(CorpusCHRF, CHRFSettings, _types(CHRFOptions), corpus_chrf, sentence_chrf, peer_rows, {"word_order": 1})
KINDS = {"bleu": BLEU, "chrf": CHRF}

A = (["the cat sat on the mat", "hello there world ok"], [["the cat sat on a mat"], ["hello there world", "ok ok"]])
B = (["a b c d e"], [["a b c d f", "a b c"]])
BOTH = (A[0] + B[0], A[1] + B[1])
"""Two batches, and the corpus that they make."""


def gather_with(other: Any, calls: list[Any] | None = None) -> Callable[..., list[Tensor]]:
    """A ``dist_sync_fn`` of two processes, of which the second has counted what another metric has.

    Args:
        other: the other metric.
        calls: gets an item for each call.
    """
    (state,) = other.metric_state.values()

    def gather(own: Tensor, group: Any = None) -> list[Tensor]:
        if calls is not None:
            calls.append(own)
        return [own, torch.cat(state) if isinstance(state, list) else state]

    return gather
