"""The base class of the metrics with a state: statistics of sentences as state, synced and reset by torchmetrics."""

from __future__ import annotations

import copy
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from lightning_bleu.core.batch import eager, read_batch
from lightning_bleu.core.evaluator_metric import CorpusScorer
from lightning_bleu.core.forms import CPU, Hypotheses, Index, InputCounts, References, SampleMask
from lightning_bleu.core.kept import IDENTITY_COLUMNS, KeptSentences, append_rows, pack_rows, read_rows
from lightning_bleu.core.messages import WarnOnce
from lightning_bleu.core.processes import gather_state
from lightning_bleu.core.resampling import Interval, interval_from
from lightning_bleu.core.settings import Settings, check_bool, describe_options, unknown_options
from lightning_bleu.core.torchmetrics_fixes import AdditiveMetric, as_list


class TorchmetricsOptions(TypedDict, total=False):
    """The options of :class:`torchmetrics.Metric`."""

    compute_on_cpu: bool
    dist_sync_on_step: bool
    process_group: Any
    dist_sync_fn: Callable[..., Any] | None
    distributed_available_fn: Callable[..., Any] | None
    sync_on_compute: bool
    compute_with_cache: bool


class CorpusMetric(AdditiveMetric):
    """The score of a corpus: its sentences are counted in `update`, and scored in `compute`.

    It is the state around a scorer, which counts and scores. Subclasses make the scorer from their options, and have a
    `short_name`: the name of a metric that stands alone in an evaluator.

    Args:
        scorer: how sentences are counted and scored.
        options: the options by name, as the user passed them; for ``repr``.
        keep_sentences: keep the statistics of every sentence.
        kwargs: passed to :class:`torchmetrics.Metric`.
    """

    is_differentiable: bool = False

    scorer: CorpusScorer
    settings: Settings
    rows: list[Tensor]  # packed
    totals: Tensor  # the sums of the statistics, then the InputCounts

    def __init__(
        self, scorer: CorpusScorer, options: Mapping[str, Any], *, keep_sentences: bool, **kwargs: Any
    ) -> None:
        try:
            super().__init__(scorer.columns, **{"dist_sync_fn": gather_state} | kwargs)
        except ValueError as error:
            if "Unexpected keyword" not in str(error):
                raise
            unknown = re.findall(r"`(\w+)`", str(error))  # torchmetrics lists the names in backquotes
            raise unknown_options(unknown, [*options, "keep_sentences"]) from None
        self.scorer = scorer
        self.settings = scorer.settings
        self._given_options = describe_options(options, defaults_of=type(self))
        self._warn_once = WarnOnce()
        self.keep_sentences = check_bool("keep_sentences", keep_sentences)
        if self.keep_sentences:
            self.add_state("rows", [], dist_reduce_fx="cat")
        else:
            # A single vector, so that a sync takes one collective.
            size = scorer.columns + len(InputCounts())
            self.add_state("totals", torch.zeros(size, dtype=torch.int64), dist_reduce_fx="sum")

    @abstractmethod
    def report(self) -> Any:
        """The score and its components as plain numbers, synced like :meth:`compute`."""

    @property
    def higher_is_better(self) -> bool | None:  # type: ignore[override]
        """Whether a higher score is better."""
        return self.scorer.higher_is_better

    def update(
        self, preds: Hypotheses, target: References, sample_mask: SampleMask | None = None, index: Index | None = None
    ) -> None:
        """Count a batch of sentences. Inputs are copied, so you may modify them afterwards.

        Args:
            preds: the hypotheses, as

                - strings: ``list[str]``;
                - tokens (not for chrF): ``list[list[str]]``;
                - ids (for chrF, with a `decoder`): ``list[list[int]]``, a tensor of any integer type and shape
                  ``(sentences, tokens)``, or a list of 1-D tensors;
                - logits: a floating-point tensor of shape ``(sentences, tokens, vocabulary)``, of which the argmax is
                  scored. Set ``eos_id``, or everything after the end of a sentence counts too.

            target: the references, of the same kind as the hypotheses (with a `decoder`, also strings for ids): one
                reference or a list of references per hypothesis, or ids of shape ``(sentences, references, tokens)``,
                where a reference of padding alone is ignored if its sentence has others.
            sample_mask: booleans of shape ``(sentences,)``; sentences marked False are not counted. Use shape ``(1,)``
                if the whole batch is one dataset item (a loader with ``batch_size=None``).
            index: the position of each sentence in the dataset, integers from 0 of shape ``(sentences,)``. A position
                counts once, in however many batches and processes it appears. Requires ``keep_sentences=True``. Pass it
                with every batch, or with none.

        Raises:
            TypeError: for an unsupported input type, or if `preds` and `target` are of different kinds.
            ValueError: for different numbers of sentences, an unsupported shape, a sentence without a reference, or an
                `index` without ``keep_sentences=True`` or with only some of the batches. After an error, the state is
                unchanged. If different sentences have the same position, :meth:`compute` raises the error.
        """
        if index is not None and not self.keep_sentences:
            raise ValueError(
                f"'index' requires a metric that keeps sentences: {type(self).__name__}(keep_sentences=True)"
            )
        batch = read_batch(preds, target, self.settings, sample_mask, index)
        rows = self.scorer.count_batch("", batch)
        batch.warn(self._warn_once)
        if self.keep_sentences:
            packed = torch.from_numpy(pack_rows(batch, rows))
            device = CPU if self.compute_on_cpu else self.device
            self.rows = append_rows(self.rows, packed.to(device))
        else:
            sums = np.concatenate([rows.sum(0), batch.input_counts])
            if self.totals.is_cpu:
                totals = torch.from_numpy(self.totals.numpy() + sums)  # NumPy adds short vectors in less time
            else:
                totals = self.totals + torch.from_numpy(sums).to(self.totals.device)
            vars(self)["totals"] = totals  # without nn.Module.__setattr__, as in _state_changed

    @eager
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Count a batch like :meth:`update`, and return the score of that batch alone."""
        # torchmetrics loses the state if an error is raised: https://github.com/Lightning-AI/torchmetrics/issues/3487.
        # With dist_sync_on_step, it updates twice, and a generator is exhausted the second time (no issue yet).
        batch = copy.copy(self)
        batch.reset()
        batch.update(*args, **kwargs)
        self._reduce_states(batch.metric_state)
        batch._to_sync = self.dist_sync_on_step
        self._forward_cache = batch.compute()  # type: ignore[assignment]
        return self._forward_cache

    def compute(self) -> Tensor:
        """The score, a float64 scalar (float32 on devices without float64); 0 if there are no sentences."""
        return self.scorer.score(self.statistics)

    def _read_report(self) -> tuple[Tensor, InputCounts]:
        """The statistics of the corpus on the CPU, and the kinds of its sentences, synced like :meth:`compute`."""
        with self.sync_context(should_sync=self._to_sync):
            totals = self._read_totals().cpu()
        return totals[: self.columns], InputCounts(*totals[self.columns :].tolist())

    def kept_sentences(self) -> KeptSentences:
        """The sentences that count, synced like :meth:`compute`: statistics, positions, and checksums of references.

        Raises:
            ValueError: without ``keep_sentences=True``, or if sentences with different references have the same
                position.
        """
        if not self.keep_sentences:
            raise ValueError(f"this metric keeps sums only: make it with {type(self).__name__}(keep_sentences=True)")
        with self.sync_context(should_sync=self._to_sync):
            return self._read_rows()

    def interval(self, confidence: float = 0.95, resamples: int = 1000, seed: int = 0) -> Interval:
        """The score and its confidence interval by bootstrap resampling, synced like :meth:`compute`.

        Example:
            >>> from lightning_bleu import CorpusBLEU
            >>> bleu = CorpusBLEU(keep_sentences=True)
            >>> bleu.update(["a b c d e", "a b c d", "e d c b a"], ["a b c d e", "a b c d e f", "e d c b c"])
            >>> print(bleu.interval())
            BLEU = 76.00 (95% interval 60.65 to 100.00, 1000 resamples)

        Args:
            confidence: the fraction of resampled scores inside the interval, in 0..1.
            resamples: the number of bootstrap resamples (Koehn 2004, https://aclanthology.org/W04-3250).
            seed: the random seed.

        Raises:
            TypeError: for options of the wrong type.
            ValueError: without ``keep_sentences=True``, for fewer than two sentences, for a confidence that is not
                between 0 and 1, or for fewer than one resample.
        """
        return interval_from(self.kept_sentences().statistics.double(), self.scorer, confidence, resamples, seed)

    def _read_totals(self) -> Tensor:
        """The sums of the statistics, then the InputCounts."""
        if not self.keep_sentences:
            return self.totals
        sentences = self._read_rows()
        sums = sentences.statistics.numpy().sum(0, dtype=np.int64)
        return torch.from_numpy(np.concatenate([sums, sentences.input_counts])).to(self.device)

    def _read_rows(self) -> KeptSentences:
        packed = [torch.zeros(0, IDENTITY_COLUMNS + self.columns, dtype=torch.int32, device="cpu")]
        for rows in as_list(self.rows):
            if len(rows):  # torchmetrics syncs a list without rows as an empty vector
                packed.append(rows.cpu())
        return read_rows(torch.cat(packed))

    @property
    def statistics(self) -> Tensor:
        """The sums of the statistics of the sentences of this process, int64 of shape ``(columns,)``.

        In ``sync_context()``, the sums of all processes. :meth:`compute` and :meth:`report` always sync.
        """
        return self._read_totals()[: self.columns]

    @property
    def input_counts(self) -> InputCounts:
        """The number of sentences by kind (strings, tokens, ids) and of references; used in the signature."""
        return InputCounts(*self._read_totals()[self.columns :].tolist())

    @property
    def signature(self) -> str:
        """Everything the score depends on, in sacreBLEU's format; ``?`` for values that are unknown before the first
        sentence."""
        return str(self.scorer.report(self.statistics, self.input_counts).signature)

    def sentence_statistics(self) -> Tensor:
        """The statistics of every sentence that was not masked out, synced like :meth:`compute`.

        int32 of shape ``(sentences, columns)``, on the CPU, in the order of their `index`; without one, in the order of
        the processes and of their updates. Requires ``keep_sentences=True``.

        Example:
            >>> from lightning_bleu import CorpusBLEU
            >>> bleu = CorpusBLEU(max_order=2, keep_sentences=True)
            >>> bleu.update(["the cat", "a dog"], ["the cat sat", "a dog"])
            >>> bleu.sentence_statistics()
            tensor([[2, 1, 2, 1, 2, 3],
                    [2, 1, 2, 1, 2, 2]], dtype=torch.int32)
        """
        return self.kept_sentences().statistics

    @property
    def plot_lower_bound(self) -> float | None:  # type: ignore[override]
        """The lowest score."""
        return self.scorer.bounds[0]

    @property
    def plot_upper_bound(self) -> float | None:  # type: ignore[override]
        """The highest score."""
        return self.scorer.bounds[1]

    def plot(self, val: Tensor | Sequence[Tensor] | None = None, ax: Any = None) -> Any:
        """Plot one or more scores; see :meth:`torchmetrics.Metric.plot`.

        Args:
            val: one or more results of :meth:`compute` or :meth:`forward`; the current score when None.
            ax: a matplotlib axis; a new one when None.

        Returns:
            the figure and the axis.
        """
        return self._plot(val, ax)

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Add the sentences of another metric, or of its ``metric_state``, to this one.

        Raises:
            ValueError: if the metrics have different settings, if only one of them keeps sentences, or if the sentences
                of only one have an `index`.
        """
        if isinstance(incoming_state, CorpusMetric):
            names = self.settings.differences(incoming_state.settings)
            if names:
                raise ValueError(f"metrics with different settings cannot be merged; these differ: {', '.join(names)}")
            if self.keep_sentences != incoming_state.keep_sentences:
                name = type(self).__name__
                raise ValueError(f"only one of the metrics keeps sentences: make both with {name}(keep_sentences=True)")
        super().merge_state(incoming_state)

    def __repr__(self) -> str:
        options = list(self._given_options)
        if self.keep_sentences:
            options.append("keep_sentences=True")
        return f"{type(self).__name__}({', '.join(options)})"
