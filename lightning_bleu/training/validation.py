"""One epoch of validation or testing: collects the sentences of each label, and scores them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, compress, pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch

from lightning_bleu.counting.kept import (
    IDENTITY_COLUMNS,
    SamePosition,
    append_rows,
    forget_positions,
    pack_rows,
    read_rows,
)
from lightning_bleu.messages import WarnOnce
from lightning_bleu.processes import gather_objects, gather_state, process_count, run_in_process_0
from lightning_bleu.reading.batch import Batch, read_batch, read_sources, select_sentences
from lightning_bleu.reading.mistakes import suspect_prompts
from lightning_bleu.reading.ragged import BoolArray, IntArray
from lightning_bleu.reading.recognize import materialize, read_index, read_sample_mask
from lightning_bleu.scoring.resampling import Interval, interval_of
from lightning_bleu.settings.settings import Settings
from lightning_bleu.training.best import BestSoFar, Corpus, resample_labels
from lightning_bleu.training.loaders import Loader, check_names
from lightning_bleu.training.metrics import AnyMetric, Result, Scored, Uncounted, mean_of
from lightning_bleu.training.options import check_labels, find_metric, labels_of, shared_reading
from lightning_bleu.training.sentences import Sentence, Sentences, Table, find_owners, to_sentences

Extract: TypeAlias = Callable[..., Any]
"""``(outputs, batch)`` or ``(outputs, batch, dataloader_idx)`` → ``(preds, target)`` or a mapping with these keys."""
Label: TypeAlias = tuple[int, str | None]
"""What a sentence counts for: the number of its loader, and its group, if the step returns groups."""

_EXAMINED = 64
"""How many sentences are examined for likely mistakes."""


class Output(NamedTuple):
    """The sentences that a step returned; see :meth:`lightning_bleu.CorpusBLEU.update`."""

    preds: Any
    target: Any
    source: Any = None
    sample_mask: Any = None
    index: Any = None
    group: Any = None


class Reading(NamedTuple):
    """A batch that was read; see :meth:`lightning_bleu.CorpusBLEU.update`.

    Attributes:
        batch: the sentences.
        mask: which sentences count; all when None.
        positions: the position of each sentence in the dataset; None if it is unknown.
        sources: their sources as text, if they are needed.
    """

    batch: Batch
    mask: BoolArray | None = None
    positions: IntArray | None = None
    sources: list[str] | None = None

    def select(self, members: BoolArray) -> Reading:
        """Some of the sentences, such as those of a group."""
        return Reading(
            select_sentences(self.batch, members),
            None if self.mask is None else self.mask[members],
            None if self.positions is None else self.positions[members],
            None if self.sources is None else [*compress(self.sources, members)],
        )


@dataclass(eq=False)
class Evaluation:
    """The sentences of a label: of a loader, or of one of its groups.

    Args:
        names: the names of the loader and of the group, without those that have none.
        metrics: the metrics by name.
        max_texts: how many sentences to keep as text, to score, show, or write them; 0 for none.
        warn: warns about likely mistakes.

    Example:
        >>> from lightning_bleu import CorpusBLEU, CorpusCHRF
        >>> from lightning_bleu.reading.batch import read_batch
        >>> from lightning_bleu.training.metrics import Counted
        >>> metrics = {"bleu": CorpusBLEU(max_order=1), "chrf": CorpusCHRF()}
        >>> counted = {name: Counted(name, metric) for name, metric in metrics.items()}
        >>> evaluation = Evaluation([], counted, max_texts=10)
        >>> batch = read_batch(["a b", "x y"], ["a c", "x z"], metrics["bleu"].settings)
        >>> evaluation.count(Reading(batch, sources=["A B", "X Y"]))
        >>> table = evaluation.gather()
        >>> table.statistics("bleu").tolist(), table.sentences.read([1])
        ([[1, 2, 2, 2], [1, 2, 2, 2]], [Sentence(hypothesis='x y', references=['x z'], source='X Y', tokenized=False)])
    """

    names: Sequence[str]
    metrics: Mapping[str, AnyMetric]
    max_texts: float = 0
    warn: WarnOnce = field(default_factory=WarnOnce)
    _rows: list[torch.Tensor] = field(default_factory=list, init=False)
    _texts: list[Sentence] = field(default_factory=list, init=False)

    def tag_below(self, tag: str) -> str:
        """The logged name of a score of this label, below that of the stage."""
        return "/".join([tag, *self.names])

    @property
    def keeps_texts(self) -> bool:
        """Whether the texts of the next sentences will be kept."""
        return len(self._texts) < max(self.max_texts, _EXAMINED)

    def count(self, reading: Reading) -> None:
        """Count the sentences of a batch.

        Raises:
            TypeError: if a metric needs text, and they are not text.
        """
        batch, mask, positions, sources = reading
        for metric in self.metrics.values():
            metric.check(batch, sources, mask)
            self.warn.mistakes(metric.suspect(batch))
        rows = np.concatenate([metric.count_rows(batch) for metric in self.metrics.values()], 1)
        self._rows = append_rows(self._rows, torch.from_numpy(pack_rows(batch, rows, mask, positions)))
        if self.keeps_texts:
            self._texts += to_sentences(batch, sources, mask)

    def suspect_prompts(self) -> Iterator[str]:
        """Warn about hypotheses of this process that contain their source."""
        texts = [text for text in self._texts[:_EXAMINED] if text.source]
        yield from suspect_prompts(
            [text.hypothesis for text in texts],
            [text.references for text in texts],
            [text.source or "" for text in texts],
        )

    def forget_positions(self) -> None:
        """Count all sentences, even if they have the same position."""
        self._rows = [forget_positions(rows) for rows in self._rows]

    def gather(self, device: Any = "cpu") -> Table:
        """The sentences of all processes. Collective.

        Args:
            device: the device for communication.

        Raises:
            SamePosition: if different sentences have the same position.
        """
        ends = [*accumulate((metric.columns for metric in self.metrics.values()), initial=IDENTITY_COLUMNS)]
        own = torch.cat([torch.zeros(0, ends[-1], dtype=torch.int32, device="cpu"), *self._rows])
        shares = [share.cpu() for share in gather_state(own.to(device))] if process_count() > 1 else [own]
        kept = read_rows(torch.cat(shares))
        owners = find_owners(kept.order, [len(share) for share in shares])
        columns = {name: slice(*own) for name, own in zip(self.metrics, pairwise(ends))}
        return Table(kept, columns, Sentences(self._texts, owners, self.max_texts))


@dataclass(eq=False)
class Validation:
    """One epoch of validation or testing.

    Args:
        loaders: the loaders.
        metrics: the metrics of each name by label; the one of ``""`` is for all other labels.
        tags: the logged names of the scores, by the names of the metrics.
        origin: what returns the sentences, for error messages.
        max_texts: how many sentences of each label to keep as text; all if a metric scores text.
        device: the device for communication.
        warn: warns about likely mistakes.

    Attributes:
        evaluations: the sentences by label. Labels without sentences are missing. After :meth:`agree`, all processes
            have the same labels, in the order of the loaders, then of the metrics or the alphabet.
    """

    loaders: Sequence[Loader]
    metrics: Mapping[str, Mapping[str, AnyMetric]]
    tags: Mapping[str, str]
    origin: str = "validation_step"
    max_texts: float = 0
    device: Any = "cpu"
    warn: WarnOnce = field(default_factory=WarnOnce)
    evaluations: dict[Label, Evaluation] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if any(isinstance(metric, Uncounted) for own in self.metrics.values() for metric in own.values()):
            self.max_texts = math.inf

    def update(self, output: Output, batch_idx: int = 0, dataloader_idx: int = 0) -> None:
        """Count the sentences of a batch.

        Args:
            output: the sentences.
            batch_idx: the index of the batch in this process.
            dataloader_idx: the number of the loader.
        """
        preds, target, source, sample_mask, index, group = output
        loader, preds = self.loaders[dataloader_idx], materialize(preds)
        if count := len(preds) if has_sentences(preds) else 0:  # without any, read_batch finds the error
            index = loader.find_positions(index, batch_idx, count)
        batch = read_batch(preds, target, loader.settings)
        reading = Reading(
            batch,
            read_sample_mask(sample_mask, batch.sentence_count),
            read_index(index, batch.sentence_count),
        )
        groups = None if group is None else read_groups(group, batch.sentence_count)
        own = self._find_evaluations(dataloader_idx, groups, reading)
        if source is not None and any(evaluation.keeps_texts for evaluation, _ in own):
            needed_by = [name for one, _ in own for name, metric in one.metrics.items() if metric.takes_sources]
            sources = read_sources(source, batch.sentence_count, loader.settings, needed_by)
            reading = reading._replace(sources=sources)
        self.warn.mistakes(batch.warnings)
        for evaluation, members in own:
            evaluation.count(reading if members is None else reading.select(members))

    def _find_evaluations(
        self, loader: int, groups: Sequence[str] | None, reading: Reading
    ) -> list[tuple[Evaluation, BoolArray | None]]:
        """The evaluations of the labels of a batch, and which sentences each has; None for all."""
        count = reading.batch.sentence_count
        counting = range(count) if reading.mask is None else reading.mask.nonzero()[0].tolist()
        if groups is None:
            return [(self._find(loader, None), None)] if counting else []
        present = dict.fromkeys(groups[number] for number in counting)
        if len(present) == 1:
            return [(self._find(loader, one), None) for one in present]
        return [(self._find(loader, one), np.array([other == one for other in groups])) for one in present]

    def _find(self, number: int, group: str | None) -> Evaluation:
        """The evaluation of a label, which is made when it is first seen."""
        if (number, group) not in self.evaluations:
            if any((group is None) != (other is None) for _, other in self.evaluations):
                raise ValueError(
                    f"{self.origin!r} returned a 'group' for some sentences only: return it for all, or for none"
                )
            self.evaluations[number, group] = self._make(number, group)
        return self.evaluations[number, group]

    def _make(self, number: int, group: str | None) -> Evaluation:
        loader = self.loaders[number]
        if group is not None:
            check_names("groups", [group])
        metrics = {name: find_metric(name, own, loader.name, group) for name, own in self.metrics.items()}
        readings = {name: metric.reading for name, metric in metrics.items() if metric.reading != Settings()}
        if readings and shared_reading(readings, loader.settings.decoder) != loader.settings:
            raise ValueError(
                f"the metrics of {group!r} must read ids in the same way as those of its loader {loader.name!r}"
            )
        return Evaluation([*filter(None, (loader.name, group))], metrics, self.max_texts, self.warn)

    def agree(self) -> None:
        """Agree on the labels of all processes. Collective."""
        everyone = gather_objects(([*self.evaluations], [loader.has_index for loader in self.loaders]))
        labels, given = run_in_process_0(lambda: self._merge(everyone))
        for loader, is_given in zip(self.loaders, given):
            loader.has_index = is_given
        self.evaluations = {label: self.evaluations.get(label) or self._make(*label) for label in labels}

    def _merge(self, everyone: Sequence[tuple[list[Label], list[bool | None]]]) -> tuple[list[Label], list[Any]]:
        found = {label for labels, _ in everyone for label in labels}
        given = [{own[number] for _, own in everyone} - {None} for number in range(len(self.loaders))]
        is_grouped = {group is not None for _, group in found}
        for key, disagree in ("group", len(is_grouped) > 1), ("index", any(len(own) > 1 for own in given)):
            if disagree:
                raise ValueError(
                    f"{self.origin!r} returned {key!r} in some processes only: return it in all, or in none"
                )
        groups = {group for _, group in found if group is not None}
        check_labels(self.metrics, groups)
        order = {group: place for place, group in enumerate(labels_of(self.metrics))}
        labels = sorted(found, key=lambda label: (label[0], order.get(label[1] or "", len(order)), label[1] or ""))
        if groups:
            check_names("groups", ["/".join(filter(None, (self.loaders[n].name, group))) for n, group in labels])
        return labels, [next(iter(values), None) for values in given]

    @property
    def has_mean(self) -> bool:
        """Whether labels have names, so that the score of the validation is the mean of theirs."""
        return any(evaluation.names for evaluation in self.evaluations.values())

    def finish(
        self, *, confidence: float | None = None, best: Mapping[str, BestSoFar] | None = None, keep_best: bool = True
    ) -> tuple[dict[str, Result], dict[Label, Table], dict[Label, dict[str, Corpus]]]:
        """Score the sentences of all processes. Collective.

        Args:
            confidence: the confidence level of the intervals; None for no intervals.
            best: the best validation so far of each metric, by name, to compare with; None for no comparison.
            keep_best: whether this one becomes the new best if it is better.

        Returns:
            the results by logged name, for each metric those of the labels, then that of their mean; the sentences of
            each label; and their statistics, by the names of the metrics that have statistics of sentences.
        """
        tables = {label: self._gather(label, evaluation) for label, evaluation in self.evaluations.items()}
        results: dict[str, Result] = {}
        corpora: dict[Label, dict[str, Corpus]] = {label: {} for label in tables}
        for name, tag in self.tags.items():
            own: dict[str, Result] = {}
            resampled: dict[str, Corpus] = {}
            for label, scored in self._score(name, tables).items():
                logged = self.evaluations[label].tag_below(tag)
                own[logged] = scored.result
                if scored.corpus is not None:
                    resampled[logged] = corpora[label][name] = scored.corpus
            mean = tag if self.has_mean else ""
            if mean and own and (result := mean_of([*own.values()])).scores:
                own[mean] = result
            if resampled and confidence is not None:
                for logged, interval in find_intervals(resampled, mean, confidence).items():
                    own[logged] = replace(own[logged], interval=interval)
            if resampled and best is not None:
                for logged, (test, score) in best[name].compare(resampled, mean, keep=keep_best).items():
                    own[logged] = replace(own[logged], comparison=test, best=score)
            results |= own
        self._warn_about_mistakes()
        return results, tables, corpora

    def _score(self, name: str, tables: Mapping[Label, Table]) -> dict[Label, Scored]:
        """What the metrics of a name say about each label, in order. Collective."""
        metrics = {label: self.evaluations[label].metrics[name] for label in tables}
        found: dict[Label, Scored | None] = {}
        for metric in dict.fromkeys(metrics.values()):
            labels = [label for label in metrics if metrics[label] is metric]
            found.update(zip(labels, metric.score([tables[label] for label in labels])))
        return {label: scored for label in tables if (scored := found[label]) is not None}

    def _gather(self, label: Label, evaluation: Evaluation) -> Table:
        loader = self.loaders[label[0]]
        try:
            return evaluation.gather(self.device)
        except SamePosition:  # in all processes
            if loader.has_index:
                raise
            loader.unknown = loader.unknown or ("its collate_fn or its step reorders or drops the items of a batch")
            evaluation.forget_positions()
            return evaluation.gather(self.device)

    def _warn_about_mistakes(self) -> None:
        """Warn about prompts, and about loaders whose repeated sentences are unknown to some process. Collective."""
        for evaluation in self.evaluations.values():
            for message in evaluation.suspect_prompts():
                self.warn(message)
        for reasons in gather_objects({loader.name: loader.unknown for loader in self.loaders}):
            for name, reason in reasons.items():
                if reason:
                    self.warn(
                        f"BLEUCallback cannot tell which sentences of {name or self.origin!r} are scored by more than "
                        f"one process: {reason}. If there are any, they are counted more than once; samples and files "
                        "may not be in the order of the dataset. Return the position of each sentence in the dataset "
                        f"as 'index' from {self.origin!r}."
                    )


def find_intervals(corpora: Mapping[str, Corpus], mean: str, confidence: float) -> dict[str, Interval]:
    """The confidence intervals of scores.

    Args:
        corpora: the sentences of each label, by the logged name of its score.
        mean: the logged name of the mean of the scores; empty for no mean.
        confidence: the confidence level.
    """
    scores = resample_labels({name: [corpus.statistics] for name, corpus in corpora.items()}, corpora)
    scoring = next(iter(corpora.values())).scoring  # all labels have one scale
    shown = {name: scores[name] for name in corpora} | ({mean: scores[""]} if mean else {})
    return {name: interval_of(one[0], scoring, confidence) for name, one in shown.items()}


def has_sentences(preds: Any) -> bool:
    """Whether hypotheses can be counted; if not, they are of the wrong type."""
    return isinstance(preds, list | tuple) or bool(getattr(preds, "ndim", 0))


def read_groups(labels: Any, sentences: int) -> list[str]:
    """Check the labels of the groups of sentences.

    Raises:
        TypeError: if they are not strings.
        ValueError: if there is not one per sentence.

    Example:
        >>> read_groups(("fr", "zh"), 2)
        ['fr', 'zh']
    """
    labels = materialize(labels)
    if not isinstance(labels, list | tuple) or not all(isinstance(label, str) for label in labels):
        found = sorted({type(label).__name__ for label in labels}) if isinstance(labels, list | tuple) else repr(labels)
        raise TypeError(f"'group' must hold a string per sentence, the label of its group, got {found}")
    if len(labels) != sentences:
        raise ValueError(f"'group' must hold one label per sentence, got {len(labels)} for {sentences} sentences")
    return [*map(str.__str__, labels)]  # members of an Enum become plain strings


def read_output(value: Any, step: str, origin: str) -> Output:
    """Find the sentences in what a step, or `extract`, returned.

    Args:
        value: ``{"preds": ..., "target": ...}``, perhaps with other fields of :class:`Output`, or ``(preds, target)``.
        step: the name of the step, for error messages.
        origin: what returned the value, for error messages.

    Raises:
        TypeError: if the value is neither.

    Example:
        >>> read_output({"preds": ["a"], "target": ["b"], "loss": 1.0}, "validation_step", "validation_step")
        Output(preds=['a'], target=['b'], source=None, sample_mask=None, index=None, group=None)
    """
    if isinstance(value, Mapping) and {"preds", "target"} <= set(value):
        return Output(**{name: value[name] for name in Output._fields if name in value})
    if isinstance(value, tuple | list) and len(value) == 2:
        return Output(*value)
    found = f"the keys {sorted(map(str, value))}" if isinstance(value, Mapping) else f"a {type(value).__name__}"
    raise TypeError(
        f"BLEUCallback needs hypotheses and references, but got {found} from {origin!r}. Either return "
        f"{{'preds': ..., 'target': ...}} or (preds, target) from {step!r}, or use "
        "BLEUCallback(extract=lambda outputs, batch: (preds, target)). To skip a validation, return "
        "{'preds': [], 'target': []}: nothing is logged then"
    )
