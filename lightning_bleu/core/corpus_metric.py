"""The base class of the metrics with a state: sums of statistics as state, synced and reset by torchmetrics."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from lightning_bleu.core.batch import InputCounts, eager, read_batch
from lightning_bleu.core.forms import Hypotheses, References, SampleMask
from lightning_bleu.core.messages import WarnOnce
from lightning_bleu.core.scoring import CorpusScorer
from lightning_bleu.core.settings import Settings, describe_options, unknown_options


class TorchmetricsOptions(TypedDict, total=False):
    """The options of :class:`torchmetrics.Metric`."""

    compute_on_cpu: bool
    dist_sync_on_step: bool
    process_group: Any
    dist_sync_fn: Callable[..., Any] | None
    distributed_available_fn: Callable[..., Any] | None
    sync_on_compute: bool
    compute_with_cache: bool


class CorpusMetric(Metric):
    """The score of a corpus: its sentences are counted in `update`, and scored in `compute`.

    It is the state around a scorer, which counts and scores. Subclasses make the scorer from their options, and have a
    `short_name`: the name of a metric that stands alone in an evaluator.

    The state is replaced, never changed, so copies may share it.

    Args:
        scorer: how sentences are counted and scored.
        options: the options by name, as the user passed them; for ``repr``.
        kwargs: passed to :class:`torchmetrics.Metric`.
    """

    is_differentiable: bool = False
    full_state_update: bool = False

    scorer: CorpusScorer
    settings: Settings
    totals: Tensor
    """The sums of the statistics, then the InputCounts: a single vector, so that a sync takes one collective."""

    def __init__(self, scorer: CorpusScorer, options: Mapping[str, Any], **kwargs: Any) -> None:
        try:
            super().__init__(**kwargs)
        except ValueError:
            of_torchmetrics = TorchmetricsOptions.__annotations__
            unknown = kwargs.keys() - of_torchmetrics.keys()
            if not unknown:
                raise
            raise unknown_options(unknown, [*options, *of_torchmetrics]) from None
        self._defaults = _Defaults()
        self.scorer = scorer
        self.settings = scorer.settings
        self._given_options = describe_options(options, defaults_of=type(self))
        self._warn_once = WarnOnce()
        size = scorer.columns + len(InputCounts())
        self.add_state("totals", torch.zeros(size, dtype=torch.int64), dist_reduce_fx="sum")

    @abstractmethod
    def report(self) -> Any:
        """The score and its components as plain numbers, synced like :meth:`compute`."""

    @property
    def higher_is_better(self) -> bool | None:  # type: ignore[override]
        """Whether a higher score is better."""
        return self.scorer.higher_is_better

    def update(self, preds: Hypotheses, target: References, sample_mask: SampleMask | None = None) -> None:
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

        Raises:
            TypeError: for an unsupported input type, or if `preds` and `target` are of different kinds.
            ValueError: for different numbers of sentences, an unsupported shape, or a sentence without a reference.
                After an error, the state is unchanged.
        """
        batch = read_batch(preds, target, self.settings, sample_mask)
        rows = self.scorer.count_batch("", batch)
        self._warn_once.about_all(batch.mistakes)
        sums = np.concatenate([rows.sum(0), batch.input_counts])
        if self.totals.is_cpu:
            totals = torch.from_numpy(self.totals.numpy() + sums)  # NumPy adds short vectors in less time
        else:
            totals = self.totals + torch.from_numpy(sums).to(self.totals.device)
        vars(self)["totals"] = totals  # without nn.Module.__setattr__, as in _count_change

    def compute(self) -> Tensor:
        """The score, a float64 scalar (float32 on devices without float64); 0 if there are no sentences."""
        return self.scorer.score(self.statistics)

    def _read_report(self) -> tuple[Tensor, InputCounts]:
        """The statistics of the corpus on the CPU, and the kinds of its sentences, synced like :meth:`compute`."""
        should_sync = self._to_sync and not self._is_synced
        with self.sync_context(self.dist_sync_fn, should_sync=should_sync, should_unsync=should_sync):
            return self.statistics.cpu(), self.input_counts

    @property
    def statistics(self) -> Tensor:
        """The sums of the statistics of the sentences of this process, int64 of shape ``(columns,)``.

        In ``sync_context()``, the sums of all processes. :meth:`compute` and :meth:`report` always sync.
        """
        return self.totals[: self.scorer.columns]

    @property
    def input_counts(self) -> InputCounts:
        """The number of sentences by kind (strings, tokens, ids) and of references; used in the signature."""
        return InputCounts(*self.totals[self.scorer.columns :].tolist())

    @property
    def signature(self) -> str:
        """Everything the score depends on, in sacreBLEU's format; ``?`` for values that are unknown before the first
        sentence."""
        return str(self.scorer.report(self.statistics, self.input_counts).signature)

    @property
    def plot_lower_bound(self) -> float | None:  # type: ignore[override]
        """The lowest score."""
        return self.scorer.bounds[0]

    @property
    def plot_upper_bound(self) -> float | None:  # type: ignore[override]
        """The highest score."""
        return self.scorer.bounds[1]

    def plot(self, val: Tensor | Sequence[Tensor] | None = None, ax: Any = None) -> Any:
        """Plot one or more scores; see :meth:`torchmetrics.Metric.plot`."""
        return self._plot(val, ax)

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Add the sentences of another metric, or of its ``metric_state``, to this one.

        Raises:
            ValueError: if the metrics have different settings.
        """
        if isinstance(incoming_state, CorpusMetric):
            names = self.settings.differences(incoming_state.settings)
            if names:
                raise ValueError(f"metrics with different settings cannot be merged; these differ: {', '.join(names)}")
        super().merge_state(incoming_state)
        self._count_change()

    def set_dtype(self, dst_type: str | torch.dtype) -> CorpusMetric:
        """Do nothing: counts stay integers, regardless of the precision of the model."""
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._given_options)})"

    # torchmetrics 1.9.0

    def _count_change(self) -> None:
        """Count an update, and forget the cached score."""
        # Without nn.Module.__setattr__, which takes as long as counting a sentence.
        vars(self).update(_computed=None, _update_count=self._update_count + 1)

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        # torchmetrics gives the cached score the precision of the model.
        self._computed = None
        return super()._apply(*args, **kwargs)

    def _wrap_update(self, update: Callable[..., None]) -> Callable[..., None]:
        # torchmetrics counts an update, and forgets the cached score, before it knows that the update succeeds.
        @functools.wraps(update)
        @eager
        def wrapped(*args: Any, **kwargs: Any) -> None:
            update(*args, **kwargs)
            self._count_change()

        return wrapped

    @eager
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Count a batch like :meth:`update`, and return the score of that batch alone."""
        # torchmetrics loses the state if an error is raised: https://github.com/Lightning-AI/torchmetrics/issues/3487
        before = vars(self).copy()
        try:
            return super().forward(*args, **kwargs)
        except BaseException:
            vars(self).update(before)
            raise

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        # torchmetrics loads a state of any shape, and keeps the cached score. It also removes it from the dictionary.
        loaded = state_dict.get(f"{prefix}totals")
        if loaded is not None and loaded.shape != self.totals.shape:
            sizes = f"it has {len(loaded)} numbers, not {len(self.totals)}"
            raise ValueError(f"the state 'totals' is of a metric with other options, or of another version: {sizes}")
        super()._load_from_state_dict(state_dict, prefix, *args)
        if loaded is not None:
            self._count_change()


class _Defaults(dict[str, Any]):
    """The default states, with their own identity as an extra key.

    :class:`torchmetrics.MetricCollection` lets metrics share one state if their keys are equal and their states are
    equal after the first batch: https://github.com/Lightning-AI/torchmetrics/issues/2596 and 2916 (closed). But two
    tokenizers, or a subclass with two options, may agree on the first batch and differ on the next.
    """

    def keys(self) -> Any:
        """The names of the states, and a key that no other metric has."""
        return [*self, id(self)]
