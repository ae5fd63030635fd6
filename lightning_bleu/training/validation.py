"""One epoch of validation or testing: collects the sentences of each subset, and scores them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, compress, pairwise, zip_longest
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch

from lightning_bleu.counting import kept
from lightning_bleu.messages import WarnOnce
from lightning_bleu.processes import gather_objects, gather_state, process_count, run_in_process_0
from lightning_bleu.reading.batch import Batch, read_batch, read_sources, select_sentences
from lightning_bleu.reading.mistakes import Mistake, suspect_prompts
from lightning_bleu.reading.recognize import read_groups, read_index, read_sample_mask
from lightning_bleu.settings.settings import Decoder, Settings
from lightning_bleu.training.functions import name_score
from lightning_bleu.training.loaders import CALL, Loader, Origin, check_names, length_of
from lightning_bleu.training.metrics import AnyMetric, Result, Scored, merge_results
from lightning_bleu.training.options import check_labels, find_metric, labels_of, shared_reading
from lightning_bleu.training.sentences import Corpus, Opponent, Sentence, Sentences, find_uncertainty, to_sentences

Key: TypeAlias = tuple[int, str | None]
"""What identifies a subset: the number of its loader, and its group, if the sentences have groups."""

STEPS = {"val": "validation_step", "test": "test_step"}
"""The step of each stage."""
_EXAMINED = 64
"""How many sentences are examined for likely mistakes."""
_MAX_DETAILED = 20
"""The number of loaders or groups up to which more than their scores is logged and shown."""


class Naming(NamedTuple):
    """The logged names of a validation.

    Attributes:
        stage: how the names begin: ``"val"``, or, in Transformers, ``"eval_news"``.
        log_name: the names of the scores, with placeholders for the stage and for the name of the metric.
        separator: what separates the name of a score from that of a part of it.
        shown_as: the name that the loggers of a trainer give to a logged name.

    Example:
        >>> naming = Naming("val", "{stage}/{metric}")
        >>> naming.tag("bleu"), naming.join("val/bleu", "low"), naming.folder
        ('val/bleu', 'val/bleu/low', ['val'])
    """

    stage: str = "val"
    log_name: str = "{stage}_{metric}"
    separator: str = "/"
    shown_as: Callable[[str], str] = str

    def tag(self, name: str) -> str:
        """The logged name of a metric; of the sentences, for ``"samples"`` and ``"worst"``."""
        return self.log_name.format(stage=self.stage, metric=name)

    def join(self, tag: str, part: str) -> str:
        """The logged name of a part of a score, or of a part of that; ``""`` for the score itself."""
        return self.separator.join([tag, *part.split("/")]) if part else tag

    @property
    def folder(self) -> list[str]:
        """The folder of the translations, which do not depend on a metric, below that of the run."""
        return [part for part in (part.strip("_-. ") for part in self.tag("").split("/")) if part]


class Output(NamedTuple):
    """The sentences that a step returned; see :meth:`lightning_bleu.CorpusBLEU.update`."""

    preds: Any
    target: Any
    source: Any = None
    sample_mask: Any = None
    index: Any = None
    group: Any = None


@dataclass(eq=False)
class Subset:
    """Sentences with a score of their own: those of a loader, or of one of its groups.

    Args:
        names: the names of the loader and of the group, without those that have none.
        metrics: the metrics by name.
        max_texts: how many sentences to keep as text, to score, show, or write them. A few are kept to find mistakes.
        warn: warns about likely mistakes.

    Attributes:
        sentences: the sentences of all processes; see :meth:`gather`.
        scored: the results by the names of the scores; see :meth:`Validation.finish`.

    Example:
        >>> from lightning_bleu import CorpusBLEU, CorpusCHRF
        >>> from lightning_bleu.reading.batch import read_batch
        >>> from lightning_bleu.training.metrics import Counted
        >>> metrics = {"bleu": CorpusBLEU(max_order=1), "chrf": CorpusCHRF()}
        >>> counted = {name: Counted(name, metric) for name, metric in metrics.items()}
        >>> subset = Subset([], counted, max_texts=10)
        >>> batch = read_batch(["a b", "x y"], ["a c", "x z"], metrics["bleu"].settings)
        >>> subset.keep(*subset.count(batch, sources=["A B", "X Y"]))
        >>> subset.gather()
        >>> subset.sentences.statistics("bleu").tolist(), subset.sentences.read([1])
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
        """The statistics of the sentences, by the names of the scores that sentences have."""
        return {name: one.corpus for name, one in self.scored.items() if one.corpus is not None}

    @property
    def keeps_texts(self) -> bool:
        """Whether the texts of the next sentences will be kept."""
        return len(self._texts) < max(self.max_texts, _EXAMINED)

    def count(self, batch: Batch, sources: Sequence[str] | None = None) -> tuple[torch.Tensor, list[Sentence]]:
        """Count the sentences of a batch.

        Args:
            batch: the sentences.
            sources: their sources as text, if they are needed.

        Returns:
            their packed rows, and their texts, if they are kept.

        Raises:
            TypeError: if a metric needs text, and they are not text.
        """
        for metric in self.metrics.values():
            metric.check(batch, sources)
            for key, message in metric.suspect(batch):
                self.warn(message, key)
        rows = np.concatenate([metric.count_rows(batch) for metric in self.metrics.values()], 1)
        return torch.from_numpy(kept.pack_rows(batch, rows)), to_sentences(batch, sources) if self.keeps_texts else []

    def keep(self, rows: torch.Tensor, texts: Sequence[Sentence]) -> None:
        """Keep what was counted."""
        self._rows = kept.append_rows(self._rows, rows)
        self._texts += texts

    def suspect_prompts(self) -> Iterator[Mistake]:
        """Warn about hypotheses of this process that contain their source."""
        examined = self._texts[:_EXAMINED]
        return suspect_prompts((one.hypothesis, one.references, one.source) for one in examined if one.source)

    def forget_positions(self) -> None:
        """Count all sentences, even if they have the same position."""
        self._rows = [kept.forget_positions(rows) for rows in self._rows]

    def gather(self, device: Any = "cpu") -> None:
        """Gather the sentences of all processes. Collective.

        Args:
            device: the device for communication.

        Raises:
            SamePosition: if different sentences have the same position.
        """
        ends = [*accumulate((metric.columns for metric in self.metrics.values()), initial=kept.IDENTITY_COLUMNS)]
        own = torch.cat([torch.zeros(0, ends[-1], dtype=torch.int32, device="cpu"), *self._rows])
        shares = [share.cpu() for share in gather_state(own.to(device))] if process_count() > 1 else [own]
        columns = {name: slice(*span) for name, span in zip(self.metrics, pairwise(ends))}
        counts = [len(share) for share in shares]
        self.sentences = Sentences(kept.read_rows(torch.cat(shares)), columns, counts, self._texts, self.max_texts)


@dataclass(eq=False)
class Validation:
    """One epoch of validation or testing.

    Args:
        metrics: the metrics of each name by label; a metric for all loaders and groups has the label ``""``, and stands
            alone.
        names: the names of the loaders; ``""`` for one without a name.
        dataloaders: the loaders themselves, where they are known.
        decoder: the decoder of metrics that set none.
        stage: ``"val"`` or ``"test"``.
        naming: the logged names.
        origin: where the sentences come from, for error messages.
        needed_by: the option that needs the order of the sentences, for error messages; empty if none
            does.
        max_texts: how many sentences of each subset to keep as text; all if a metric scores text.
        device: the device for communication.
        loggers: loggers that get the numbers, in process 0.
        displays: loggers that show more than numbers, in process 0.
        shows_samples: whether process 0 shows samples.
        warn: warns about likely mistakes.

    Attributes:
        loaders: the loaders.
        subsets: the subsets that have sentences. After :meth:`agree`, they are the same in all processes, in the order
            of the loaders, then of the metrics or the alphabet.
        results: the results by logged name, for each metric those of the subsets, then that of their mean; see
            :meth:`finish`.
        detailed: the results of which more than the scores is logged and shown.
        returned: whether steps returned something; after :meth:`agree`, those of all processes.
    """

    metrics: Mapping[str, Mapping[str, AnyMetric]]
    names: Sequence[str] = ("",)
    dataloaders: Sequence[Any] = ()
    decoder: Decoder | None = None
    stage: str = "val"
    naming: Naming = field(default_factory=Naming)
    origin: Origin = CALL
    needed_by: str = ""
    max_texts: float = 0
    device: Any = "cpu"
    loggers: Sequence[Any] = ()
    displays: Sequence[Any] = ()
    shows_samples: bool = False
    warn: WarnOnce = field(default_factory=WarnOnce)
    loaders: list[Loader] = field(default_factory=list, init=False)
    subsets: dict[Key, Subset] = field(default_factory=dict, init=False)
    results: dict[str, Result] = field(default_factory=dict, init=False)
    detailed: dict[str, Result] = field(default_factory=dict, init=False)
    returned: set[bool] = field(default_factory=set, init=False)
    _batches: Counter[int] = field(default_factory=Counter, init=False)

    def __post_init__(self) -> None:
        check_labels(self.metrics, self.names)
        for name, dataloader in zip_longest(self.names, self.dataloaders):
            settings = shared_reading(self.metrics, self.decoder, name, self.names)
            self.loaders.append(Loader(name, settings, dataloader, self.origin, self.needed_by))
        if any(metric.needs_texts for own in self.metrics.values() for metric in own.values()):
            self.max_texts = math.inf

    @property
    def totals(self) -> list[str]:
        """The logged names of the scores of the whole validation."""
        return [self.naming.tag(name) for name in self.metrics]

    @property
    def is_detailed(self) -> bool:
        """Whether more than the scores of the subsets is logged and shown."""
        return len(self.subsets) <= _MAX_DETAILED

    def numbers(self) -> dict[str, float]:
        """All that is logged, by logged name.

        Raises:
            ValueError: if two numbers have the same name.
        """
        numbers: dict[str, float] = {}
        for tag, result in self.results.items():
            for part, value in (result.values() if tag in self.detailed else result.scores).items():
                if (name := self.naming.join(tag, part)) in numbers:
                    raise ValueError(f"two scores would be logged as {name!r}: rename a metric")
                numbers[name] = value
        return numbers

    def update(self, output: Output, batch_idx: int | None = None, dataloader_idx: int = 0) -> None:
        """Count the sentences of a batch.

        Args:
            output: the sentences.
            batch_idx: the index of the batch in this process; counted when None.
            dataloader_idx: the number of the loader.
        """
        preds, target, source, sample_mask, index, group = output
        loader = self.loaders[dataloader_idx]
        if batch_idx is None:
            batch_idx = self._batches[dataloader_idx]
            if len(self.loaders) > 1 and batch_idx == length_of(loader.dataloader):
                raise ValueError(
                    f"the loader {loader.name!r} has {batch_idx} batches, but {self.origin.name!r} got more: pass the "
                    "number of the loader of each batch as 'dataloader_idx'"
                )
        batch = read_batch(preds, target, loader.settings)
        mask, positions = read_sample_mask(sample_mask, batch.sentence_count), index
        if batch.sentence_count and (mask is None or mask.any()):
            positions = loader.find_positions(index, batch_idx, batch.sentence_count)
        batch = batch._replace(positions=read_index(positions, batch.sentence_count))
        groups = [None] * batch.sentence_count if group is None else read_groups(group, batch.sentence_count)
        present = dict.fromkeys(groups if mask is None else compress(groups, mask))
        subsets = {one: self._find(dataloader_idx, one) for one in present}
        sources = None
        if source is not None and any(subset.keeps_texts for subset in subsets.values()):
            metrics = [metric for subset in subsets.values() for metric in subset.metrics.values()]
            needed_by = [metric.name for metric in metrics if metric.takes_sources]
            sources = read_sources(source, batch.sentence_count, loader.settings, needed_by)
        batch.warn(self.warn)
        counted = []  # nothing is kept before all subsets are counted, because there may be an error
        for one, subset in subsets.items():
            members = np.array([other == one for other in groups]) & (True if mask is None else mask)
            own = batch if members.all() else select_sentences(batch, members)
            counted.append((subset, *subset.count(own, sources and [*compress(sources, members)])))
        if counted:
            loader.check_given("source", source)
            loader.given |= {"index": index is not None, "source": source is not None}
        for subset, rows, texts in counted:
            subset.keep(rows, texts)
        self.subsets |= {(dataloader_idx, one): subset for one, subset in subsets.items()}
        self._batches[dataloader_idx] += 1

    def _find(self, number: int, group: str | None) -> Subset:
        """The subset of a loader and a group, a new one if it is first seen."""
        if (number, group) in self.subsets:
            return self.subsets[number, group]
        if any((group is None) != (other is None) for _, other in self.subsets):
            raise ValueError(
                f"{self.origin.name!r} {self.origin.got} a 'group' for some sentences only: {self.origin.give} it for "
                "all, or for none"
            )
        if group is not None:
            check_names("groups", [group])
        loader = self.loaders[number]
        metrics = {name: find_metric(name, own, loader.name, group, self.names) for name, own in self.metrics.items()}
        # Its sentences are read with the settings of their loader.
        allowed = (Settings(), loader.settings, replace(loader.settings, decoder=None))
        if any(metric.reading not in allowed for metric in metrics.values()):
            raise ValueError(
                f"the metrics of {group!r} must read ids in the same way as those of its loader {loader.name!r}"
            )
        return Subset([*filter(None, (loader.name, group))], metrics, self.max_texts, self.warn)

    def agree(self) -> None:
        """Agree on the subsets of all processes. Collective."""
        everyone = gather_objects(([*self.subsets], [loader.given for loader in self.loaders], self.returned))
        keys, given, self.returned = run_in_process_0(lambda: self._merge(everyone))
        for loader, merged in zip(self.loaders, given):
            loader.given = merged
        self.subsets = {key: self._find(*key) for key in keys}

    def _merge(self, everyone: Sequence[tuple[list[Key], list[Any], set[bool]]]) -> tuple[list[Key], list[Any], Any]:
        found = {key for keys, _, _ in everyone for key in keys}
        given = [{what for own in one for what in own.items()} for one in zip(*(own for _, own, _ in everyone))]
        mixed = {name for own in given for name, is_given in own if (name, not is_given) in own}
        mixed |= {"group"} if len({group is None for _, group in found}) > 1 else set()
        where, known = "in some processes", {what for own in given for what in own}
        needs_all = any(metric.takes_sources for own in self.metrics.values() for metric in own.values())
        if not mixed and needs_all and {("source", True), ("source", False)} <= known:
            where, mixed = "for some loaders", {"source"}
        name, got, give, _ = self.origin
        if mixed:
            raise ValueError(f"{name!r} {got} {min(mixed)!r} {where} only: {give} it in all, or in none")
        groups = {group for _, group in found if group is not None}
        check_labels(self.metrics, groups)
        order = {label: place for place, label in enumerate(labels_of(self.metrics))}
        keys = sorted(found, key=lambda one: (one[0], order.get(one[1] or "", len(order)), one[1] or ""))
        if groups:
            check_names("groups", ["/".join(filter(None, (self.loaders[n].name, group))) for n, group in keys])
        return keys, [*map(dict, given)], set().union(*(returned for _, _, returned in everyone))

    @property
    def has_mean(self) -> bool:
        """Whether subsets have names, so that the score of the validation is the mean of theirs."""
        return any(subset.names for subset in self.subsets.values())

    def finish(
        self,
        confidence: float | None = None,
        find_opponent: Callable[[str], Opponent] | None = None,
        *,
        keep: bool = True,
    ) -> dict[str, Result]:
        """Score the sentences of all processes, and keep them in the subsets. Collective.

        Args:
            confidence: the confidence level of the intervals; None for no intervals.
            find_opponent: what to compare each score with, by its logged name; None for no comparison.
            keep: whether this validation may replace it.

        Returns:
            the results by logged name, for each metric those of the subsets, then that of their mean.
        """
        for (number, _), subset in self.subsets.items():
            self._gather(self.loaders[number], subset)
        for name in self.metrics:
            tag = self.naming.tag(name)
            named: dict[str, dict[str, Result]] = {}
            for part in self._score(name):
                key = name_score(name, part)
                scored = {one.tag_below(tag): one.scored[key] for one in self.subsets.values() if key in one.scored}
                own = {logged: one.result for logged, one in scored.items()}
                corpora = {logged: one.corpus for logged, one in scored.items() if one.corpus is not None}
                if self.has_mean:
                    own[tag] = Result({"": math.fsum(one.score for one in own.values()) / len(own)})
                if len(corpora) == len(scored):
                    opponent = find_opponent and find_opponent(self.naming.join(tag, part))
                    for logged, found in find_uncertainty(corpora, tag, confidence, opponent, keep=keep).items():
                        own[logged] = replace(own[logged], **found)
                for logged, result in own.items():
                    named.setdefault(logged, {})[part] = result
            self.results |= {logged: merge_results(one) for logged, one in named.items()}
        self.detailed = {tag: one for tag, one in self.results.items() if self.is_detailed or tag in self.totals}
        self._warn_about_mistakes()
        return self.results

    def _score(self, name: str) -> list[str]:
        """Score all subsets with the metrics of a name; the last parts of the names of the scores. Collective."""
        subsets = self.subsets.values()
        parts: dict[str, Any] = {}
        for metric in dict.fromkeys(one.metrics[name] for one in subsets):
            own = [one for one in subsets if one.metrics[name] is metric]
            for subset, scored in zip(own, metric.score([one.sentences for one in own])):
                subset.scored |= {name_score(name, part): one for part, one in scored.items()}
                parts |= scored
        return [*parts]

    def _gather(self, loader: Loader, subset: Subset) -> None:
        try:
            subset.gather(self.device)
        except kept.SamePosition:  # in all processes
            if loader.given.get("index"):
                raise
            loader.unknown = loader.unknown or "its collate_fn or its step reorders or drops the items of a batch"
            subset.forget_positions()
            subset.gather(self.device)

    def _warn_about_mistakes(self) -> None:
        """Warn about prompts, and about loaders whose repeated sentences are unknown to some process. Collective."""
        for subset in self.subsets.values():
            for key, message in subset.suspect_prompts():
                self.warn(message, key)
        origin, _, give, to = self.origin
        for reasons in gather_objects({loader.name: loader.unknown for loader in self.loaders}):
            for name, reason in reasons.items():
                if reason:
                    self.warn(
                        f"It is unknown which sentences of {name or origin!r} are scored by more than one process: "
                        f"{reason}. If there are any, they are counted more than once; samples and files may not be in "
                        f"the order of the dataset. {give.title()} the position of each sentence in the dataset as "
                        f"'index' {to} {origin!r}."
                    )
