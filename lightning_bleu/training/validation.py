"""One epoch of validation or testing: collects the sentences of each subset, and scores them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, compress, pairwise, zip_longest
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
from lightning_bleu.reading.mistakes import Mistake, suspect_prompts
from lightning_bleu.reading.ragged import BoolArray, IntArray
from lightning_bleu.reading.recognize import materialize, read_index, read_sample_mask
from lightning_bleu.settings.settings import Decoder, Settings
from lightning_bleu.training.loaders import Loader, check_names
from lightning_bleu.training.metrics import AnyMetric, Result, Scored, mean_of
from lightning_bleu.training.options import check_labels, find_metric, labels_of, shared_reading
from lightning_bleu.training.sentences import BestSoFar, Corpus, Sentence, Sentences, find_intervals, to_sentences

Extract: TypeAlias = Callable[..., Any]
"""``(outputs, batch)`` or ``(outputs, batch, dataloader_idx)`` → ``(preds, target)`` or a mapping with these keys."""
Subset: TypeAlias = tuple[int, str | None]
"""Sentences with a score of their own: the number of their loader, and their group, if the step returns groups."""

STEPS = {"val": "validation_step", "test": "test_step"}
"""The step of each stage."""
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


class ReadBatch(NamedTuple):
    """What a step returned, when it was read; see :meth:`lightning_bleu.CorpusBLEU.update`.

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

    def select(self, members: BoolArray) -> ReadBatch:
        """Some of the sentences, such as those of a group."""
        return ReadBatch(
            select_sentences(self.batch, members),
            None if self.mask is None else self.mask[members],
            None if self.positions is None else self.positions[members],
            None if self.sources is None else [*compress(self.sources, members)],
        )


@dataclass(eq=False)
class Evaluation:
    """The sentences of a subset, and what the metrics say about them.

    Args:
        names: the names of the loader and of the group, without those that have none.
        metrics: the metrics by name.
        max_texts: how many sentences to keep as text, to score, show, or write them. A few are kept to find mistakes.
        warn: warns about likely mistakes.

    Attributes:
        sentences: the sentences of all processes; see :meth:`gather`.
        scored: the results by the names of the metrics; see :meth:`Validation.finish`.

    Example:
        >>> from lightning_bleu import CorpusBLEU, CorpusCHRF
        >>> from lightning_bleu.reading.batch import read_batch
        >>> from lightning_bleu.training.metrics import Counted
        >>> metrics = {"bleu": CorpusBLEU(max_order=1), "chrf": CorpusCHRF()}
        >>> counted = {name: Counted(name, metric) for name, metric in metrics.items()}
        >>> evaluation = Evaluation([], counted, max_texts=10)
        >>> batch = read_batch(["a b", "x y"], ["a c", "x z"], metrics["bleu"].settings)
        >>> evaluation.count(ReadBatch(batch, sources=["A B", "X Y"]))
        >>> evaluation.gather()
        >>> evaluation.sentences.statistics("bleu").tolist(), evaluation.sentences.read([1])
        ([[1, 2, 2, 2], [1, 2, 2, 2]], [Sentence(hypothesis='x y', references=['x z'], source='X Y', tokenized=False)])
    """

    names: Sequence[str]
    metrics: Mapping[str, AnyMetric]
    max_texts: float = 0
    warn: WarnOnce = field(default_factory=WarnOnce)
    sentences: Sentences = field(init=False)
    scored: dict[str, Scored] = field(default_factory=dict, init=False)
    _rows: list[torch.Tensor] = field(default_factory=list, init=False)
    _texts: list[Sentence] = field(default_factory=list, init=False)

    def tag_below(self, tag: str) -> str:
        """The logged name of a score of this subset, below that of the stage."""
        return "/".join([tag, *self.names])

    @property
    def corpora(self) -> dict[str, Corpus]:
        """The statistics of the sentences, by the names of the metrics that score sentences."""
        return {name: one.corpus for name, one in self.scored.items() if one.corpus is not None}

    @property
    def keeps_texts(self) -> bool:
        """Whether the texts of the next sentences will be kept."""
        return len(self._texts) < max(self.max_texts, _EXAMINED)

    def count(self, read: ReadBatch) -> None:
        """Count the sentences of a batch.

        Raises:
            TypeError: if a metric needs text, and they are not text.
        """
        batch, mask, positions, sources = read
        for metric in self.metrics.values():
            metric.check(batch, sources, mask)
            for key, message in metric.suspect(batch):
                self.warn(message, key)
        rows = np.concatenate([metric.count_rows(batch) for metric in self.metrics.values()], 1)
        packed = pack_rows(batch._replace(positions=positions), rows)
        self._rows = append_rows(self._rows, torch.from_numpy(packed if mask is None else packed[mask]))
        if self.keeps_texts:
            self._texts += to_sentences(batch, sources, mask)

    def suspect_prompts(self) -> Iterator[Mistake]:
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

    def gather(self, device: Any = "cpu") -> None:
        """Gather the sentences of all processes. Collective.

        Args:
            device: the device for communication.

        Raises:
            SamePosition: if different sentences have the same position.
        """
        ends = [*accumulate((metric.columns for metric in self.metrics.values()), initial=IDENTITY_COLUMNS)]
        own = torch.cat([torch.zeros(0, ends[-1], dtype=torch.int32, device="cpu"), *self._rows])
        shares = [share.cpu() for share in gather_state(own.to(device))] if process_count() > 1 else [own]
        columns = {name: slice(*span) for name, span in zip(self.metrics, pairwise(ends))}
        counts = [len(share) for share in shares]
        self.sentences = Sentences(read_rows(torch.cat(shares)), columns, counts, self._texts, self.max_texts)


@dataclass(eq=False)
class Validation:
    """One epoch of validation or testing.

    Args:
        metrics: the metrics of each name by label; the one of ``""`` is for all other labels.
        names: the names of the loaders; ``""`` for one without a name.
        dataloaders: the loaders themselves, where they are known.
        decoder: the decoder of metrics that set none.
        stage: ``"val"`` or ``"test"``.
        log_name: the logged names of the scores, with placeholders for the stage and for the name of the metric.
        origin: what returns the sentences, for error messages.
        needed_by: the option of the callback that needs the order of the sentences, for error messages; empty if none
            does.
        max_texts: how many sentences of each subset to keep as text; all if a metric scores text.
        device: the device for communication.
        warn: warns about likely mistakes.

    Attributes:
        loaders: the loaders.
        evaluations: the sentences by subset. Subsets without sentences are missing. After :meth:`agree`, all processes
            have the same subsets, in the order of the loaders, then of the metrics or the alphabet.
    """

    metrics: Mapping[str, Mapping[str, AnyMetric]]
    names: Sequence[str] = ("",)
    dataloaders: Sequence[Any] = ()
    decoder: Decoder | None = None
    stage: str = "val"
    log_name: str = "{stage}_{metric}"
    origin: str = "validation_step"
    needed_by: str = ""
    max_texts: float = 0
    device: Any = "cpu"
    warn: WarnOnce = field(default_factory=WarnOnce)
    loaders: list[Loader] = field(default_factory=list, init=False)
    evaluations: dict[Subset, Evaluation] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        check_labels(self.metrics, self.names)
        for name, dataloader in zip_longest(self.names, self.dataloaders):
            settings = shared_reading(self.metrics, self.decoder, name, self.names)
            self.loaders.append(Loader(name, settings, dataloader, self.origin, self.needed_by))
        if any(metric.needs_texts for own in self.metrics.values() for metric in own.values()):
            self.max_texts = math.inf

    def tag(self, name: str) -> str:
        """The logged name of a metric; of the sentences, for ``"samples"`` and ``"worst"``."""
        return self.log_name.format(stage=self.stage, metric=name)

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
        read = ReadBatch(
            batch,
            read_sample_mask(sample_mask, batch.sentence_count),
            read_index(index, batch.sentence_count),
        )
        groups = [None] * batch.sentence_count if group is None else read_groups(group, batch.sentence_count)
        own = self._find_evaluations(dataloader_idx, groups, read.mask)
        if source is not None and any(evaluation.keeps_texts for evaluation, _ in own):
            needed_by = [name for one, _ in own for name, metric in one.metrics.items() if metric.takes_sources]
            read = read._replace(sources=read_sources(source, batch.sentence_count, loader.settings, needed_by))
        for key, message in batch.mistakes:
            self.warn(message, key)
        for evaluation, members in own:
            evaluation.count(read if members is None else read.select(members))

    def _find_evaluations(
        self, loader: int, groups: Sequence[str | None], mask: BoolArray | None
    ) -> list[tuple[Evaluation, BoolArray | None]]:
        """The evaluations of the subsets of a batch, and which sentences each has; None for all."""
        present = dict.fromkeys(groups if mask is None else compress(groups, mask))
        if len(present) == 1:
            return [(self._find(loader, one), None) for one in present]
        return [(self._find(loader, one), np.array([other == one for other in groups])) for one in present]

    def _find(self, number: int, group: str | None) -> Evaluation:
        """The evaluation of a subset, which is made when it is first seen."""
        if (number, group) in self.evaluations:
            return self.evaluations[number, group]
        if any((group is None) != (other is None) for _, other in self.evaluations):
            raise ValueError(
                f"{self.origin!r} returned a 'group' for some sentences only: return it for all, or for none"
            )
        if group is not None:
            check_names("groups", [group])
        loader = self.loaders[number]
        metrics = {name: find_metric(name, own, loader.name, group) for name, own in self.metrics.items()}
        # Its sentences are read with the settings of their loader.
        allowed = (Settings(), loader.settings, replace(loader.settings, decoder=None))
        if any(metric.reading not in allowed for metric in metrics.values()):
            raise ValueError(
                f"the metrics of {group!r} must read ids in the same way as those of its loader {loader.name!r}"
            )
        evaluation = Evaluation([*filter(None, (loader.name, group))], metrics, self.max_texts, self.warn)
        self.evaluations[number, group] = evaluation
        return evaluation

    def agree(self) -> None:
        """Agree on the subsets of all processes. Collective."""
        everyone = gather_objects(([*self.evaluations], [loader.has_index for loader in self.loaders]))
        subsets, given = run_in_process_0(lambda: self._merge(everyone))
        for loader, is_given in zip(self.loaders, given):
            loader.has_index = is_given
        self.evaluations = {subset: self._find(*subset) for subset in subsets}

    def _merge(self, everyone: Sequence[tuple[list[Subset], list[bool | None]]]) -> tuple[list[Subset], list[Any]]:
        found = {subset for subsets, _ in everyone for subset in subsets}
        given = [{own[number] for _, own in everyone} - {None} for number in range(len(self.loaders))]
        is_grouped = {group is not None for _, group in found}
        for key, disagree in ("group", len(is_grouped) > 1), ("index", any(len(own) > 1 for own in given)):
            if disagree:
                raise ValueError(
                    f"{self.origin!r} returned {key!r} in some processes only: return it in all, or in none"
                )
        groups = {group for _, group in found if group is not None}
        check_labels(self.metrics, groups)
        order = {label: place for place, label in enumerate(labels_of(self.metrics))}
        subsets = sorted(found, key=lambda one: (one[0], order.get(one[1] or "", len(order)), one[1] or ""))
        if groups:
            check_names("groups", ["/".join(filter(None, (self.loaders[n].name, group))) for n, group in subsets])
        return subsets, [next(iter(values), None) for values in given]

    @property
    def has_mean(self) -> bool:
        """Whether subsets have names, so that the score of the validation is the mean of theirs."""
        return any(evaluation.names for evaluation in self.evaluations.values())

    def finish(
        self, *, confidence: float | None = None, best: Mapping[str, BestSoFar] | None = None, keep_best: bool = True
    ) -> dict[str, Result]:
        """Score the sentences of all processes, and keep them in the evaluations. Collective.

        Args:
            confidence: the confidence level of the intervals; None for no intervals.
            best: the best validation so far of each metric, by name, to compare with; None for no comparison.
            keep_best: whether this one becomes the new best if it is better.

        Returns:
            the results by logged name, for each metric those of the subsets, then that of their mean.
        """
        for (number, _), evaluation in self.evaluations.items():
            self._gather(self.loaders[number], evaluation)
        results: dict[str, Result] = {}
        for name in self.metrics:
            self._score(name)
            tag = self.tag(name)
            scored = {one.tag_below(tag): one.scored[name] for one in self.evaluations.values() if name in one.scored}
            own = {logged: one.result for logged, one in scored.items()}
            corpora = {logged: one.corpus for logged, one in scored.items() if one.corpus is not None}
            if self.has_mean and own and (mean := mean_of([*own.values()])).scores:
                own[tag] = mean
            if corpora and confidence is not None:
                for logged, interval in find_intervals(corpora, tag, confidence).items():
                    own[logged] = replace(own[logged], interval=interval)
            if corpora and best is not None:
                for logged, (test, score) in best[name].compare(corpora, tag, keep=keep_best).items():
                    own[logged] = replace(own[logged], comparison=test, best=score)
            results |= own
        self._warn_about_mistakes()
        return results

    def _score(self, name: str) -> None:
        """Score all subsets with the metrics of a name. Collective."""
        evaluations = self.evaluations.values()
        for metric in dict.fromkeys(one.metrics[name] for one in evaluations):
            own = [one for one in evaluations if one.metrics[name] is metric]
            for evaluation, scored in zip(own, metric.score([one.sentences for one in own])):
                if scored is not None:
                    evaluation.scored[name] = scored

    def _gather(self, loader: Loader, evaluation: Evaluation) -> None:
        try:
            evaluation.gather(self.device)
        except SamePosition:  # in all processes
            if loader.has_index:
                raise
            loader.unknown = loader.unknown or ("its collate_fn or its step reorders or drops the items of a batch")
            evaluation.forget_positions()
            evaluation.gather(self.device)

    def _warn_about_mistakes(self) -> None:
        """Warn about prompts, and about loaders whose repeated sentences are unknown to some process. Collective."""
        for evaluation in self.evaluations.values():
            for key, message in evaluation.suspect_prompts():
                self.warn(message, key)
        for reasons in gather_objects({loader.name: loader.unknown for loader in self.loaders}):
            for name, reason in reasons.items():
                if reason:
                    self.warn(
                        f"BLEUCallback cannot tell which sentences of {name or self.origin!r} are scored by more than "
                        f"one process: {reason}. If there are any, they are counted more than once; samples and files "
                        "may not be in the order of the dataset. Return the position of each sentence in the dataset "
                        f"as 'index' from {self.origin!r}."
                    )


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
