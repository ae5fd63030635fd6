"""One epoch of validation or testing: what its steps returned, and the evaluation of each loader."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from lightning_bleu.counting.kept import SamePosition
from lightning_bleu.processes import gather_objects, gather_state, process_count, run_in_process_0
from lightning_bleu.reading.recognize import materialize
from lightning_bleu.scoring.resampling import interval_of, resample_scores
from lightning_bleu.scoring.results import Interval
from lightning_bleu.training.best import BestSoFar, Comparison, Corpus
from lightning_bleu.training.evaluation import Evaluation, Result, has_sentences, read
from lightning_bleu.training.others import score_others
from lightning_bleu.training.trainer import check_names, distributed_index, shuffles

Extract: TypeAlias = Callable[..., Any]
"""``(outputs, batch)`` or ``(outputs, batch, dataloader_idx)`` → ``(preds, target)`` or a mapping with these keys."""

_RESAMPLES = 1000
_SENTENCE_BITS = 31
"""How many bits of a derived position number the sentences of an item."""


class Stage:
    """One epoch of validation or testing.

    Args:
        tag: the logged name of the score, such as ``"val_bleu"``.
        step: the name of the step that returns the sentences, for error messages.
        loaders: the loaders, if they are evaluated in turn.
        evaluations: an evaluation per loader.
        make_group: makes the evaluation of a group from the number of its loader and the label of the group.
        group_names: the labels of the groups that have their own metrics; empty if all have the same.
        ungrouped_error: the error if the step returns no ``"group"``.
        extract: finds the sentences in what a step returned; see :class:`lightning_bleu.BLEUCallback`.
        needs_order: the option of the callback that needs the order of the sentences, for error messages; empty if none
            does.
        text_metrics: metrics that score the text of all sentences, by the logged names of their scores; see
            :mod:`lightning_bleu.training.others`.

    Attributes:
        evaluations: an evaluation per loader; after :meth:`agree`, one per group if there are groups.
    """

    def __init__(
        self,
        tag: str,
        step: str,
        loaders: Sequence[Any],
        evaluations: Sequence[Evaluation],
        extract: Extract | None = None,
        needs_order: str = "",
        text_metrics: Mapping[str, Any] | None = None,
        *,
        make_group: Callable[[int, str], Evaluation] | None = None,
        group_names: Sequence[str] = (),
        ungrouped_error: Exception | None = None,
    ) -> None:
        self.tag = tag
        self.evaluations = evaluations
        self._step = step
        self._loaders = loaders
        self._extract = None if extract is None else with_dataloader_idx(extract)
        self._needs_order = needs_order
        self._text_metrics = text_metrics or {}
        self._needs_text = bool(text_metrics) or len(evaluations[0].metrics) > 1
        self._make_group = make_group
        self._group_names = group_names
        self._ungrouped_error = ungrouped_error
        self._groups: list[dict[str, Evaluation]] = [{} for _ in evaluations]
        self._is_grouped: bool | None = None
        self._loader_numbers = [*range(len(evaluations))]
        self._has_index: dict[int, bool] = {}
        self._unknown_positions: dict[str, str] = {}

    def update(self, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int) -> None:
        """Count the sentences of a batch."""
        found, origin = outputs, self._step
        if self._extract is not None:
            found, origin = self._extract(outputs, batch, dataloader_idx), "extract"
        output = read_output(found, self._step, origin)
        preds, index = materialize(output.preds), output.index
        is_empty = has_sentences(preds) and not len(preds)
        if is_empty:
            index = None
        elif self._has_index.setdefault(dataloader_idx, index is not None) != (index is not None):
            raise ValueError(f"{origin!r} returned an 'index' for some batches only: return it for all, or for none")
        elif index is None:
            self._check_order(dataloader_idx)
            index = self._dealt_index(batch_idx, dataloader_idx, preds) if process_count() > 1 else None
        evaluation, is_grouped = self.evaluations[dataloader_idx], output.group is not None
        if not is_empty:
            if not is_grouped and self._ungrouped_error is not None:
                raise self._ungrouped_error
            if self._is_grouped not in (None, is_grouped):
                raise ValueError(f"{origin!r} returned a 'group' for some batches only: return it for all, or for none")
            self._is_grouped = is_grouped
        if is_grouped:
            self._count_groups(output._replace(preds=preds, index=index), dataloader_idx)
        else:
            evaluation.update(
                preds, output.target, output.sample_mask, index, source=output.source, needs_text=self._needs_text
            )

    def _count_groups(self, output: Output, dataloader_idx: int) -> None:
        """Read the sentences of a batch once, and count each in the evaluation of its group."""
        preds, target, source, sample_mask, index, group = output
        metric, groups = self.evaluations[dataloader_idx].metric, self._groups[dataloader_idx]
        reading = read(preds, target, sample_mask, index, source=source, settings=metric.settings.for_reading)
        labels = np.array(read_labels(group, reading.batch.sentence_count), object)
        present = dict.fromkeys(labels if reading.mask is None else labels[reading.mask])
        for label in present:
            if label not in groups:
                groups[label] = self._make(dataloader_idx, label)
        metric.warn(reading.batch)
        for label in present:
            selected = reading.select(labels == label, groups[label].metric.settings)
            groups[label].count(selected, needs_text=self._needs_text)

    def _make(self, dataloader_idx: int, label: str) -> Evaluation:
        assert self._make_group is not None
        made = self._make_group(dataloader_idx, label)
        check_names("groups", [*(one.name for groups in self._groups for one in groups.values()), made.name])
        return made

    @property
    def has_mean(self) -> bool:
        """Whether loaders or groups have names, so that the score of the stage is the mean of theirs."""
        return bool(self.evaluations[0].name)

    def agree(self) -> None:
        """Find out which groups the sentences of all processes have. Collective.

        Groups are in the order of their metrics. If they all have the same metric, they are in alphabetical order.
        """
        own = self._is_grouped, [[*groups] for groups in self._groups]
        everyone = gather_objects(own)
        is_grouped, labels = run_in_process_0(lambda: self._merge(everyone))
        if is_grouped:
            numbered = [(number, label) for number, own_labels in enumerate(labels) for label in own_labels]
            for number, label in numbered:
                if label not in self._groups[number]:
                    self._groups[number][label] = self._make(number, label)
            self.evaluations = [self._groups[number][label] for number, label in numbered]
            self._loader_numbers = [number for number, _ in numbered]
        elif self._ungrouped_error is not None:
            raise self._ungrouped_error

    def _merge(self, everyone: Sequence[tuple[bool | None, list[list[str]]]]) -> tuple[bool, list[list[str]]]:
        found = {is_grouped for is_grouped, _ in everyone if is_grouped is not None}
        if len(found) > 1:
            raise ValueError(f"{self._step!r} returned a 'group' in some processes only: return it in all, or in none")
        seen: list[set[str]] = [
            set().union(*(own[number] for _, own in everyone)) for number in range(len(self._groups))
        ]
        if len(seen) == 1:  # a group with a metric but without sentences scores 0
            seen[0] |= {*self._group_names}
        labels = [[name for name in self._group_names or sorted(own) if name in own] for own in seen]
        return found == {True} or (not found and self._ungrouped_error is not None and len(seen) == 1), labels

    def _check_order(self, dataloader_idx: int) -> None:
        if self._needs_order and self._loaders and shuffles(self._loaders[dataloader_idx]):
            raise ValueError(
                f"{self._needs_order} needs to know which sentence is which, but a loader of {self.tag!r} shuffles "
                f"them: return the position of each sentence in the dataset as 'index' from {self._step!r}, or make "
                "the loader with shuffle=False"
            )

    def _dealt_index(self, batch_idx: int, dataloader_idx: int, preds: Any) -> Tensor | None:
        """The positions of sentences, derived from those of the items of the loader; None if they are unknown.

        An item may be several sentences, which are numbered below its position.
        """
        items = distributed_index(self._loaders[dataloader_idx], batch_idx) if self._loaders else None
        sentences = len(preds) if has_sentences(preds) else 0  # without any, update() raises an error
        if items is None:
            reason = (
                "its batches combine several loaders"
                if not self._loaders
                else (
                    "its loader has no DistributedSampler, or a sampler or a batch sampler other than PyTorch's, or "
                    "in_order=False"
                )
            )
        elif len(items) in (1, sentences):
            reason = ""
        else:
            reason = f"a batch of {len(items)} items became {sentences} sentences"
        if reason:
            self._unknown_positions.setdefault(self.evaluations[dataloader_idx].tag, reason)
        if items is None:
            return None
        first = items << _SENTENCE_BITS
        return first if len(items) == sentences else first[:1] + torch.arange(sentences, device="cpu")

    def finish(
        self, *, confidence: float | None = None, best: Mapping[str, BestSoFar] | None = None, keep_best: bool = True
    ) -> Outcome:
        """Score the sentences of all processes. Collective.

        Args:
            confidence: the confidence level of the intervals; None for no intervals.
            best: the best validation so far, to compare with, by the logged name of the score; None for no comparison.
            keep_best: whether this one becomes the new best if it is better.
        """
        outcome = Outcome({evaluation.tag: self._result(evaluation) for evaluation in self.evaluations})
        for stage_tag in self.evaluations[0].metrics:
            reports, corpora = {}, {}
            for evaluation, result in zip(self.evaluations, outcome.results.values()):
                tag = evaluation.tag_of(stage_tag)
                reports[tag], kept = result.counted[stage_tag]
                corpora[tag] = Corpus.of(evaluation.metrics[stage_tag], kept)
            if stage_tag != self.tag and not any(len(corpus.kept.rows) for corpus in corpora.values()):
                continue  # there is nothing to say about no sentences; but callbacks may monitor BLEU
            outcome.reports.update(reports)
            scores = {tag: report.score for tag, report in reports.items()}
            if confidence is not None:
                outcome.intervals.update(self._intervals(stage_tag, corpora, confidence))
            if best is not None:
                mean, comparisons = best[stage_tag].compare(corpora, keep=keep_best)
                outcome.comparisons.update(comparisons | ({stage_tag: mean} if self.has_mean else {}))
            outcome.scores.update(scores)
            if self.has_mean:
                outcome.scores[stage_tag] = math.fsum(scores.values()) / len(scores)
        for evaluation in self.evaluations:
            evaluation.reset()  # the results have all of it; frees memory before figures need some
        sentences = {one.name: outcome.results[one.tag].sentences for one in self.evaluations}
        outcome.others = score_others(self._text_metrics, sentences)
        return outcome

    def _result(self, evaluation: Evaluation) -> Result:
        try:
            return evaluation.result()
        except SamePosition:  # in all processes
            if self._is_indexed(evaluation):
                raise
            reason = "its collate_fn or its step reorders or drops the items of a batch"
            self._unknown_positions.setdefault(evaluation.tag, reason)
            evaluation.forget_positions()
            return evaluation.result()

    def _is_indexed(self, evaluation: Evaluation) -> bool:
        """Whether a step returned an index, in any process. Collective."""
        has_index = self._has_index.get(self._loader_numbers[self.evaluations.index(evaluation)], False)
        if process_count() == 1:
            return has_index
        metric = evaluation.metric
        flags = gather_state(torch.tensor([int(has_index)], device=metric.device), metric.process_group)
        return any(flag.item() for flag in flags)

    def _intervals(self, stage_tag: str, corpora: Mapping[str, Corpus], confidence: float) -> dict[str, Interval]:
        # Each loader has its own seed, so that loaders of the same size have different resamples.
        scores = {
            tag: resample_scores([corpus.kept.statistics.double()], corpus.scoring, _RESAMPLES, seed)[0]
            for seed, (tag, corpus) in enumerate(corpora.items())
        }
        if self.has_mean:
            scores[stage_tag] = torch.stack([*scores.values()]).mean(0)
        scoring = self.evaluations[0].metrics[stage_tag].scoring  # all loaders have one scale
        return {tag: interval_of(one, scoring, confidence) for tag, one in scores.items()}

    def warnings(self) -> Iterator[str]:
        """Warn about likely mistakes, and loaders whose repeated sentences are unknown to some process. Collective."""
        for evaluation in self.evaluations:
            yield from evaluation.suspect_prompts()
        for reasons in gather_objects(self._unknown_positions):
            for tag, reason in reasons.items():
                yield (
                    f"BLEUCallback cannot tell which sentences of {tag!r} are scored by more than one process: "
                    f"{reason}. If there are any, they are counted more than once; samples and files may not be in the "
                    "order of the dataset. Return the position of each sentence in the dataset as 'index' from "
                    f"{self._step!r}."
                )


@dataclass
class Outcome:
    """The results of a stage, by logged name. With several loaders, the name of the stage stands for their mean.

    Attributes:
        results: the sentences of each loader, and what was counted.
        reports: the scores of each loader with their components.
        scores: the scores, with that of the stage.
        intervals: their confidence intervals, if requested.
        comparisons: their comparisons with the best validation so far, if requested.
        others: the scores of metrics of text; see :func:`lightning_bleu.training.others.score_others`.
    """

    results: dict[str, Result]
    reports: dict[str, Any] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
    intervals: dict[str, Interval] = field(default_factory=dict)
    comparisons: dict[str, Comparison] = field(default_factory=dict)
    others: dict[str, dict[str, float]] = field(default_factory=dict)

    def shown(self) -> dict[str, float]:
        """What a progress bar shows, by name."""
        return self.scores | {tag: parts[""] for tag, parts in self.others.items() if "" in parts}

    def values(self) -> dict[str, float]:
        """All that is logged, by name."""
        values = self.shown()
        for tag, parts in self.others.items():
            values |= {f"{tag}/{part}": value for part, value in parts.items() if part}
        for tag in self.scores:
            parts = self.reports[tag].parts() if tag in self.reports else {}
            values |= {f"{tag}/{part}": value for part, value in (parts | self.uncertainty(tag)).items()}
        return values

    def uncertainty(self, tag: str) -> dict[str, float]:
        """The interval of a score and its comparison with the best, by the last part of the logged names."""
        parts: dict[str, float] = {}
        if interval := self.intervals.get(tag):
            parts |= {"low": interval.low, "high": interval.high}
        if comparison := self.comparisons.get(tag):
            parts |= {"p_value": comparison.p_value, "best": comparison.best}
        return parts


class Output(NamedTuple):
    """The sentences that a step returned; see :meth:`lightning_bleu.CorpusBLEU.update`."""

    preds: Any
    target: Any
    source: Any = None
    sample_mask: Any = None
    index: Any = None
    group: Any = None


def read_labels(labels: Any, sentences: int) -> list[str]:
    """Check the labels of the groups of sentences.

    Raises:
        TypeError: if they are not strings.
        ValueError: if there is not one per sentence.

    Example:
        >>> read_labels(("fr", "zh"), 2)
        ['fr', 'zh']
    """
    labels = materialize(labels)
    if not isinstance(labels, list | tuple) or not all(isinstance(label, str) for label in labels):
        found = sorted({type(label).__name__ for label in labels}) if isinstance(labels, list | tuple) else repr(labels)
        raise TypeError(f"'group' must hold a string per sentence, the label of its group, got {found}")
    if len(labels) != sentences:
        raise ValueError(f"'group' must hold one label per sentence, got {len(labels)} for {sentences} sentences")
    return [*map(str.__str__, labels)]  # plain strings: NumPy compares members of an Enum by another text


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
        "BLEUCallback(extract=lambda outputs, batch: (preds, target))"
    )


def with_dataloader_idx(extract: Extract) -> Extract:
    """A function of three parameters that passes the third one, the index of the loader, only if `extract` takes it.

    That is a parameter named ``dataloader_idx``, or a third parameter without a default.

    Example:
        >>> with_dataloader_idx(lambda outputs, batch, dataloader_idx: dataloader_idx)([], [], 7)
        7
        >>> with_dataloader_idx(lambda outputs, batch, tokenizer=None: tokenizer)([], [], 7) is None
        True
    """
    try:
        parameters = inspect.signature(extract).parameters
    except ValueError:  # some builtins have no signature
        parameters = inspect.signature(lambda outputs, batch: None).parameters
    named, empty = parameters.get("dataloader_idx"), inspect.Parameter.empty
    positional = [parameter for parameter in parameters.values() if parameter.kind <= parameter.POSITIONAL_OR_KEYWORD]
    if len(positional) > 2 and (positional[2].default is empty or positional[2] is named):
        return extract
    # A keyword with a default may be the work of functools.partial.
    if named is not None and (named in positional or named.default is empty):
        return lambda outputs, batch, dataloader_idx: extract(outputs, batch, dataloader_idx=dataloader_idx)
    return lambda outputs, batch, dataloader_idx: extract(outputs, batch)
