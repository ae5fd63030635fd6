"""BLEU for any LightningModule, by one line in the Trainer."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch
from lightning_utilities.core.rank_zero import rank_zero_warn
from torch import Tensor

from lightning_bleu.dashboard import Dashboard, lay_out_intervals
from lightning_bleu.distributed import distributed_mask
from lightning_bleu.inputs import recognise
from lightning_bleu.metric import CorpusBLEU
from lightning_bleu.score import BLEUScore
from lightning_bleu.significance import Interval, PairedTest, check_share, paired_bootstrap

_WAITING = 256
"""Strings are counted so many at a time, as a call costs more than its sentences if there are only a few."""

Extract = Callable[[Any, Any], tuple[Any, Any]]


class BLEUCallback(pl.Callback):
    """Scores what ``validation_step`` and ``test_step`` return, and logs it.

    The step returns ``{"preds": ..., "target": ...}`` (other keys do no harm) or a pair of both, in any form that
    :meth:`CorpusBLEU.update` takes. The score of each epoch is logged as ``val_bleu`` (and on the progress bar), in
    ``trainer.test`` as ``test_bleu``, and its parts beside it: ``val_bleu/precision_1`` and so on, and
    ``brevity_penalty``, ``length_ratio``, ``hypothesis_length`` and ``reference_length``. ``EarlyStopping`` and
    ``ModelCheckpoint`` can monitor each of them; an epoch without a sentence scores 0. What the sanity check translates
    is not counted.

    With several processes every sentence counts exactly once, also where Lightning's sampler repeats some to share them
    equally, so the score is that of one process to the last bit.

    In TensorBoard there are sample translations as well, a histogram of sentence BLEU and two figures; W&B gets the
    samples as a table.

    Args:
        metric: what to score with; ``CorpusBLEU()`` when None. It is cloned for every stage and loader.
        name: the last part of the logged name.
        extract: takes what the step returned and the batch, and returns hypotheses and references.
        dataloader_names: the names of several loaders, logged as ``val_bleu/NAME``; by default it is
            ``val_bleu/dataloader_idx_0``, as Lightning has it.
        samples: how many sentences to show, besides the worst and the best; 0 for no samples, histogram and figures.
        confidence: logs a confidence interval of the score, ``val_bleu/low`` and ``val_bleu/high``: 0.95 for 95%.
        compare_to_best: compares each validation of a fit with the best one so far, on the same sentences (the loader
            must not shuffle). ``val_bleu/p_value`` is the p-value of :func:`lightning_bleu.paired_bootstrap` against
            it, 1 for the first, and small too for one that is clearly worse; ``val_bleu/best`` is the score of the
            best, this one included. The best goes with the checkpoint, so that a resumed run is compared with it, and
            stays with the callback: make a new one for another training.
        significance_level: only a gain with a p-value below it makes a new best: monitor ``val_bleu/best`` in
            ``EarlyStopping`` or ``ModelCheckpoint(save_top_k=1)``, and noise seldom keeps the training running or
            replaces a checkpoint. Includes `compare_to_best`.

    Raises:
        TypeError: for options of a wrong type, and in an epoch for a step that returns something else.
        ValueError: for options out of range.

    Example:
        >>> from lightning_bleu import BLEUCallback, CorpusBLEU
        >>> trainer = pl.Trainer(callbacks=[BLEUCallback(CorpusBLEU(percent=True))], logger=False, accelerator="cpu")
    """

    def __init__(
        self,
        metric: CorpusBLEU | None = None,
        *,
        name: str = "bleu",
        extract: Extract | None = None,
        dataloader_names: Sequence[str] | None = None,
        samples: int = 8,
        confidence: float | None = None,
        compare_to_best: bool = False,
        significance_level: float | None = None,
    ) -> None:
        if metric is not None and not isinstance(metric, CorpusBLEU):
            raise TypeError(f"'metric' must be a CorpusBLEU, got {metric!r} of type {type(metric).__name__}")
        if extract is not None and not callable(extract):
            raise TypeError(f"'extract' must take outputs and batch and return (preds, target), got {extract!r}")
        if isinstance(dataloader_names, str):
            raise TypeError(f"'dataloader_names' must be a list of names, got {dataloader_names!r}")
        if not isinstance(samples, int) or samples < 0:
            raise ValueError(f"'samples' must be an integer of 0 or more, got {samples!r}")
        for option, value in {"confidence": confidence, "significance_level": significance_level}.items():
            if value is not None:
                check_share(option, value)
        self.metric = CorpusBLEU() if metric is None else metric
        self.name = name
        self.extract = extract
        self.dataloader_names = dataloader_names
        self.samples = samples
        self.confidence = confidence
        self.compare_to_best = compare_to_best or significance_level is not None
        self.significance_level = significance_level
        self.reports: dict[str, BLEUScore] = {}
        """The last score of each logged name, with its parts."""
        self.intervals: dict[str, Interval] = {}
        """The confidence intervals of these scores."""
        self.comparisons: dict[str, PairedTest] = {}
        """How these scores compared with the best before."""
        self._best: dict[str, Tensor] = {}  # the statistics of the sentences
        self._laid_out = False
        self._parts: dict[tuple[str, int], _Part] = {}
        self._warned: set[tuple[str, int]] = set()

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Prepare for loggers that may be new."""
        self._laid_out = False

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Forget the last validation."""
        self._start("val")

    def on_test_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Forget the last test."""
        self._start("test")

    def on_validation_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Count the sentences of a batch."""
        self._update("val", trainer, pl_module, outputs, batch, batch_idx, dataloader_idx)

    def on_test_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Count the sentences of a batch."""
        self._update("test", trainer, pl_module, outputs, batch, batch_idx, dataloader_idx)

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the scores."""
        self._finish("val", trainer, pl_module)

    def on_test_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the scores."""
        self._finish("test", trainer, pl_module)

    def _start(self, stage: str) -> None:
        for key, part in self._parts.items():
            if key[0] == stage:
                part.metric.reset()
                part.dashboard.reset()
                part.forget()

    def _part(self, stage: str, dataloader_idx: int, device: torch.device) -> _Part:
        key = stage, dataloader_idx
        if key not in self._parts:
            metric = copy.deepcopy(self.metric)
            metric.reset()
            needed = self.confidence is not None or (self.compare_to_best and stage == "val")
            if needed and not metric.keep_sentences:
                metric._keep_sentences()
            self._parts[key] = _Part(metric, Dashboard(self.samples), [], [])
        part = self._parts[key]
        if part.metric.device != device:
            part.metric.to(device)
        return part

    def _update(
        self,
        stage: str,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int,
    ) -> None:
        preds, target = map(_sliceable, self._extract(stage, outputs, batch))
        mask = None
        if trainer.world_size > 1:
            mask = self._mask(stage, trainer, batch_idx, dataloader_idx, preds)
        part = self._part(stage, dataloader_idx, pl_module.device)
        if mask is None and isinstance(preds, list | tuple) and preds and isinstance(preds[0], str):
            recognise(preds, target)  # errors are for now
            part.preds.extend(preds)
            part.target.extend(entry if isinstance(entry, str) else list(entry) for entry in target)
            if len(part.preds) >= _WAITING:
                self._count_waiting(part, trainer)
            return
        self._count_waiting(part, trainer)
        self._count_batch(part, trainer, preds, target, mask)

    def _count_waiting(self, part: _Part, trainer: pl.Trainer) -> None:
        """Count the strings that wait."""
        if part.preds:
            self._count_batch(part, trainer, part.preds.copy(), part.target.copy())
            part.forget()

    def _count_batch(self, part: _Part, trainer: pl.Trainer, preds: Any, target: Any, mask: Any = None) -> None:
        metric = part.metric
        metric.update(preds, target, mask)
        if self.samples and trainer.is_global_zero and metric.batch_statistics is not None:
            part.dashboard.add(preds, target, metric.batch_statistics)

    def _extract(self, stage: str, outputs: Any, batch: Any) -> tuple[Any, Any]:
        step = {"val": "validation_step", "test": "test_step"}[stage]
        source, found = step, outputs
        if self.extract is not None:
            source, found = "extract", self.extract(outputs, batch)
        elif isinstance(outputs, Mapping) and {"preds", "target"} <= set(outputs):
            return outputs["preds"], outputs["target"]
        if isinstance(found, tuple | list) and len(found) == 2:
            return found[0], found[1]
        described = f"the keys {sorted(map(str, found))}" if isinstance(found, Mapping) else f"a {type(found).__name__}"
        raise TypeError(
            f"BLEUCallback got {described} from {source!r} and needs hypotheses and references. Either return "
            f"{{'preds': ..., 'target': ...}} (or a pair of both) from {step!r}, or give "
            "BLEUCallback(extract=lambda outputs, batch: (preds, target))"
        )

    def _mask(self, stage: str, trainer: pl.Trainer, batch_idx: int, dataloader_idx: int, preds: Any) -> Tensor | None:
        """Which sentences are there for the first time; a warning if that cannot be known."""
        loaders = _loaders(stage, trainer)
        mask = distributed_mask(loaders[dataloader_idx], batch_idx) if loaders else None
        if mask is None:
            reason = "its loader has no DistributedSampler, or a batch sampler other than PyTorch's"
        elif len(mask) == 1:
            return mask  # all sentences of an item come and go together
        elif len(mask) != len(preds):
            reason = f"a batch of {len(mask)} items became {len(preds)} sentences"
        else:
            return mask
        key = stage, dataloader_idx
        if key not in self._warned:
            self._warned.add(key)
            rank_zero_warn(
                f"BLEUCallback cannot tell which sentences of {self._key(stage, dataloader_idx, len(loaders))!r} the "
                f"processes have in common: {reason}. Those that several of them score count several times."
            )
        return None

    def _key(self, stage: str, dataloader_idx: int, loaders: int) -> str:
        key = f"{stage}_{self.name}"
        if self.dataloader_names is not None:
            if len(self.dataloader_names) != max(1, loaders):  # combined loaders are like one
                raise ValueError(
                    f"'dataloader_names' must name every loader of {stage!r}, got {len(self.dataloader_names)} names "
                    f"for {loaders} loaders"
                )
            return f"{key}/{self.dataloader_names[dataloader_idx]}"
        return key if loaders <= 1 else f"{key}/dataloader_idx_{dataloader_idx}"

    def _finish(self, stage: str, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        loaders = max(1, len(_loaders(stage, trainer)))
        distributed = trainer.world_size > 1
        shown = trainer.is_global_zero and not trainer.sanity_checking
        if shown and stage == "val":
            self._lay_out(trainer, loaders)
        for dataloader_idx in range(loaders):
            key = self._key(stage, dataloader_idx, loaders)
            part = self._part(stage, dataloader_idx, pl_module.device)
            self._count_waiting(part, trainer)
            metric = part.metric
            with metric.synchronised():
                report = self.reports[key] = metric.report()
                parts = _parts_of(report) | self._interval(key, metric, report)
                if self.compare_to_best and stage == "val":
                    if trainer.sanity_checking:  # a part of the set
                        parts |= {"p_value": 1.0, "best": report.bleu}
                    else:
                        parts |= self._compare(key, metric, report, trainer.state.fn == "fit")
            values = {key: report.bleu} | {f"{key}/{name}": value for name, value in parts.items()}
            for name, value in values.items():
                # all processes have the same values, so that any reduction will do that does not round
                pl_module.log(
                    name,
                    value,
                    prog_bar=name == key,
                    add_dataloader_idx=False,
                    sync_dist=distributed,
                    reduce_fx="max",
                )
            if shown:
                note = f"The sentences are those of process 0 of {trainer.world_size}." if distributed else ""
                interval = self.intervals.get(key)
                part.dashboard.show(trainer.loggers, key, report, metric.settings, note, trainer.global_step, interval)

    def _interval(self, key: str, metric: CorpusBLEU, report: BLEUScore) -> dict[str, float]:
        self.intervals.pop(key, None)
        if self.confidence is None:
            return {}
        if len(metric.sentence_statistics) < 2:  # nothing to choose from
            return {"low": report.bleu, "high": report.bleu}
        interval = self.intervals[key] = metric.interval(self.confidence)
        return {"low": interval.low, "high": interval.high}

    def _compare(self, key: str, metric: CorpusBLEU, report: BLEUScore, fitting: bool) -> dict[str, float]:
        """Compare with the best so far, which this one becomes if it is better."""
        self.comparisons.pop(key, None)
        sentences = metric.sentence_statistics
        best = self._best.get(key)
        if best is not None and len(sentences) > 1 and best.shape != sentences.shape:
            rank_zero_warn(
                f"The best epoch so far of {key!r} had statistics of shape {tuple(best.shape)}, this one has "
                f"{tuple(sentences.shape)}: they cannot be compared, so this one counts as the first"
            )
            best = None
        p_value, best_bleu, better = 1.0, report.bleu, best is None
        if best is not None:
            best_bleu = BLEUScore.from_statistics(best.long().sum(0), metric.settings, metric.signature).bleu
        if best is not None and len(sentences) > 1:
            # a p-value cannot be smaller than one in so many
            resamples = max(1000, math.ceil(10 / (self.significance_level or 1)))
            comparison = self.comparisons[key] = paired_bootstrap(metric, best, resamples)
            p_value = comparison.p_value
            better = report.bleu > best_bleu and p_value < (self.significance_level or math.inf)
        if better and fitting and len(sentences) > 1:
            self._best[key] = sentences.cpu()
        return {"p_value": p_value, "best": report.bleu if better else best_bleu}

    def _lay_out(self, trainer: pl.Trainer, loaders: int) -> None:
        """TensorBoard knows one layout for a run, so the first callback makes it for all."""
        callbacks: list[BLEUCallback] = [
            callback
            for callback in trainer.callbacks  # type: ignore[attr-defined]
            if isinstance(callback, BLEUCallback) and callback.confidence is not None
        ]
        if callbacks and callbacks[0] is self and not self._laid_out:
            tags = [callback._key("val", loader, loaders) for callback in callbacks for loader in range(loaders)]
            lay_out_intervals(trainer.loggers, tags)
            self._laid_out = True

    @property
    def state_key(self) -> str:
        """Tells the states of callbacks with different names apart."""
        return self._generate_state_key(name=self.name)

    def state_dict(self) -> dict[str, Any]:
        """The best epochs, for the checkpoint."""
        return {"best": dict(self._best)} if self._best else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Compare with the best epochs of a checkpoint from now on."""
        self._best = dict(state_dict["best"])


class _Part(NamedTuple):
    """What there is for one stage and loader: the metric, the dashboard, and strings that wait to be counted."""

    metric: CorpusBLEU
    dashboard: Dashboard
    preds: list[str]
    target: list[str | list[str]]

    def forget(self) -> None:
        """Let no strings wait any more."""
        self.preds.clear()
        self.target.clear()


def _parts_of(report: BLEUScore) -> dict[str, float]:
    return {
        **{f"precision_{n}": precision for n, precision in enumerate(report.precisions, 1)},
        "brevity_penalty": report.brevity_penalty,
        "length_ratio": report.length_ratio,
        "hypothesis_length": float(report.hypothesis_length),
        "reference_length": float(report.reference_length),
    }


def _sliceable(value: Any) -> Any:
    """A list in place of an iterator, which can be read only once."""
    return list(value) if isinstance(value, Iterator) else value


def _loaders(stage: str, trainer: pl.Trainer) -> list[Any]:
    """The loaders that are being evaluated one after the other; none if Lightning combines their batches."""
    if stage == "test":
        loop = trainer.test_loop
    else:
        loop = trainer.fit_loop.epoch_loop.val_loop if trainer.state.fn == "fit" else trainer.validate_loop
    combined = loop._combined_loader
    return [] if combined is None or combined._mode != "sequential" else list(combined.flattened)
