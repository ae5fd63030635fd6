"""What the callback asks of a trainer and its loaders. Lightning's private structure is used only in this module."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DistributedSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler

from lightning_bleu.messages import warn_user

Value = TypeVar("Value")

_LOWER_MAY_BE_WANTED = ("/p_value", "/hypothesis_length", "/reference_length")
"""Suffixes of logged names that a callback may legitimately minimize."""

_OTHER_UNITS = (*_LOWER_MAY_BE_WANTED, "/length_ratio", "/brevity_penalty")
"""Suffixes of logged names whose values are not in the unit of the score."""

_RESERVED = ("", "best", "low", "high", "p_value")
"""Names that no loader or group can have, because they are logged below the mean of all."""


def find_loaders(trainer: Any, stage: str) -> tuple[list[Any], Any]:
    """The loaders of a stage, ``"val"`` or ``"test"``.

    Returns:
        the loaders as Lightning prepared them, and as the user passed them, for example in a dict. An empty list and
        None if Lightning combines their batches.
    """
    if stage == "test":
        loop = trainer.test_loop
    else:
        loop = trainer.fit_loop.epoch_loop.val_loop if trainer.state.fn == "fit" else trainer.validate_loop
    combined = loop._combined_loader
    if combined is None or combined._mode != "sequential":
        return [], None
    return list(combined.flattened), combined.iterables


def run_folder(trainer: Any) -> Path:
    """The folder of a run, where Lightning puts the checkpoints as well.

    Raises:
        ValueError: if it is not on this machine.
    """
    logger = trainer.loggers[0] if trainer.loggers else None
    root = str((logger and logger.save_dir) or trainer.default_root_dir)
    if "://" in root:
        raise ValueError(f"translations=True needs a local folder for the run, got {root!r}: set translations='FOLDER'")
    if logger is None:
        return Path(root)
    version = logger.version if isinstance(logger.version, str) else f"version_{logger.version}"
    return Path(root, str(logger.name), version)


@contextlib.contextmanager
def in_own_hook(module: Any) -> Iterator[None]:
    """Within this context, Lightning takes what is logged for that of the hook that begins the epoch.

    Modules log their scores in steps and in the hook that ends the epoch. Lightning knows logged values by their hooks,
    so :func:`find_logged_twice` can tell those of the callback from those of the module.
    """
    hook = module._current_fx_name
    module._current_fx_name = hook.replace("_end", "_start")
    try:
        yield
    finally:
        module._current_fx_name = hook


def find_logged_twice(trainer: Any, names: Iterable[str]) -> str | None:
    """A name that the callback has logged (see :func:`in_own_hook`), and that the module logs as well, if any.

    Args:
        trainer: the trainer, when a validation or test ends.
        names: what the callback has logged.
    """
    logged = set(names)
    for key, item in trainer._results.items():
        name, _ = trainer._results._forked_name(item, on_step=False)
        own = key in (f"on_validation_epoch_start.{name}", f"on_test_epoch_start.{name}")
        if name in logged and (not own or item._update_count > 1):
            return str(name)
    return None


def logged_step(trainer: Any) -> int:
    """The step at which Lightning logs the scores, which is one less than the number of steps taken."""
    step: int = trainer.fit_loop.epoch_loop._batches_that_stepped
    return step


def monitored_wrongly(callbacks: Iterable[Any], scores: Mapping[str, bool | None]) -> Iterator[str]:
    """Warn about callbacks that prefer worse scores.

    Args:
        callbacks: the callbacks of a trainer; only those with ``monitor`` and ``mode`` matter.
        scores: the names of the scores, and whether higher is better; None if that is unknown. Names below them, such
            as ``val_bleu/news``, are checked too.
    """
    for callback, monitor, is_higher_better in _monitored(callbacks, scores, _LOWER_MAY_BE_WANTED):
        mode, right = getattr(callback, "mode", None), "max" if is_higher_better else "min"
        if mode in ("min", "max") and mode != right:
            worse, better = ("low", "higher") if is_higher_better else ("high", "lower")
            yield (
                f"{type(callback).__name__}(monitor={monitor!r}, mode={mode!r}) prefers a {worse} score, but "
                f"{better} is better: set mode={right!r}."
            )


def thresholds_of_other_scale(callbacks: Iterable[Any], scales: Mapping[str, float]) -> Iterator[str]:
    """Warn about thresholds for scores in 0..1 that are in 0..100, or the other way around.

    Args:
        callbacks: the callbacks of a trainer; only those with ``monitor`` and ``stopping_threshold`` matter.
        scales: the names of the scores, and the score of a perfect translation. Names below them are checked too.
    """
    for callback, monitor, scale in _monitored(callbacks, scales, _OTHER_UNITS):
        threshold = getattr(callback, "stopping_threshold", None)
        if isinstance(threshold, int | float) and threshold > 0 and (threshold <= 1) == (scale > 1):
            yield (
                f"{type(callback).__name__}(monitor={monitor!r}, stopping_threshold={threshold}): the score is in "
                f"0..{scale:g}, because percent={scale > 1}. Set stopping_threshold="
                f"{threshold * 100 if scale > 1 else threshold / 100:g}, or percent={scale == 1}."
            )


def _monitored(
    callbacks: Iterable[Any], known: Mapping[str, Value | None], excluded: tuple[str, ...]
) -> Iterator[tuple[Any, str, Value]]:
    """The callbacks that monitor a score or a name below it, with that name, and with what is known of the score.

    Args:
        callbacks: the callbacks of a trainer.
        known: something about each score, by its name; None if it is unknown.
        excluded: suffixes of names to skip.
    """
    for callback in callbacks:
        monitor = str(getattr(callback, "monitor", ""))
        for score, value in known.items():
            if value is not None and f"{monitor}/".startswith(f"{score}/") and not monitor.endswith(excluded):
                yield callback, monitor, value


def name_loaders(
    stage: str, loaders: Any, count: int, *, given: Sequence[str] | None = None, metrics: Sequence[str] | None = None
) -> list[str]:
    """Name the loaders of a stage.

    Args:
        stage: the name of the stage, for error messages.
        loaders: the loaders as the user passed them; the keys of a dict are names.
        count: the number of loaders.
        given: names that take precedence; ignored with a warning if there is another number of test loaders.
        metrics: the names of the metrics, if each loader has its own.

    Returns:
        a name per loader; ``""`` for a single loader without a name.

    Raises:
        ValueError: if a loader has no name or no metric, or if names clash.

    Example:
        >>> name_loaders("val", {"news": [...], "talks": [...]}, 2)
        ['news', 'talks']
        >>> name_loaders("val", [[...], [...]], 2)
        ['dataloader_idx_0', 'dataloader_idx_1']
        >>> name_loaders("val", [...], 1)
        ['']
    """
    if given is not None and len(given) != count and stage == "test":
        warn_user(f"'dataloader_names' has {len(given)} names, but there are {count} loaders of 'test': it is ignored")
        given = None
    if given is not None and len(given) != count:
        raise ValueError(
            f"'dataloader_names' must name every loader of {stage!r}, got {len(given)} names for {count} loaders"
        )
    names = given
    if names is None and isinstance(loaders, Mapping) and len(loaders) == count:
        names = [str(name) for name in loaders]
    if names is None and metrics is not None and len(metrics) == count:
        names = metrics
    if names is None and count > 1:
        names = [f"dataloader_idx_{index}" for index in range(count)]
    if names is not None:
        check_names(f"loaders of {stage!r}", names)
    if metrics is not None and (names is None or not set(names) <= set(metrics)):
        raise ValueError(
            f"'metric' has the names {list(metrics)}, but the loaders of {stage!r} are "
            f"{'without a name' if names is None else list(names)}: pass a dict of loaders with these names, or "
            "'dataloader_names'; or, for several languages in one loader, return 'group' from the step, a label per "
            "sentence"
        )
    return [""] if names is None else list(names)


def check_names(kind: str, names: Sequence[str]) -> None:
    """Check names that are logged below a score.

    Args:
        kind: what has the names, for error messages.
        names: the names.

    Raises:
        ValueError: if they clash with each other, or with what is logged beside them.
    """
    taken = set(names)
    if len(taken) < len(names):
        raise ValueError(f"the {kind} must have different names, got {list(names)}")
    for name in names:
        if name in _RESERVED:
            raise ValueError(f"the {kind} cannot have the name {name!r}, which is reserved")
        for above in accumulate(name.split("/"), "{}/{}".format):
            if above != name and above in taken:
                raise ValueError(f"the names {above!r} and {name!r} of the {kind} clash, because {above}/... is logged")


def shuffles(dataloader: Any) -> bool:
    """Whether a loader is known to shuffle, or not to keep the order of its workers.

    Example:
        >>> from torch.utils.data import DataLoader
        >>> shuffles(DataLoader(range(5), shuffle=True)), shuffles(DataLoader(range(5)))
        (True, False)
    """
    if not getattr(dataloader, "in_order", True) and dataloader.num_workers > 0:
        return True
    batches = getattr(dataloader, "batch_sampler", None)
    sampler = getattr(dataloader if batches is None else batches, "sampler", None)
    if isinstance(sampler, BatchSampler):  # with batch_size=None
        sampler = sampler.sampler
    if isinstance(sampler, DistributedSampler) and _is_lightnings_wrapper(sampler):
        sampler = getattr(sampler.dataset, "_sampler", sampler)
    random = isinstance(sampler, RandomSampler | SubsetRandomSampler | WeightedRandomSampler)
    return random or bool(getattr(sampler, "shuffle", False))


def distributed_index(dataloader: Any, batch_idx: int) -> Tensor | None:
    """The positions of the items of a batch in their dataset, as PyTorch's distributed sampler deals them.

    :class:`~torch.utils.data.DistributedSampler`, which Lightning adds to every loader, gives all replicas the same
    number of items. If the dataset cannot be divided evenly, it repeats the first items. Local item j of replica r out
    of R is item (j * R + r) modulo the size of the dataset.

    The positions are those in the order of the sampler. They are wrong if a ``collate_fn`` reorders or drops items of a
    batch: return the index of each item from the dataset instead.

    In a ``validation_step`` or ``test_step``, pass the result to :meth:`lightning_bleu.CorpusBLEU.update` as ``index``.

    Args:
        dataloader: the loader of the batch, as prepared by Lightning: ``self.trainer.val_dataloaders`` (or
            ``test_dataloaders``; with several loaders, the one at ``dataloader_idx``).
        batch_idx: the index of the batch in this process.

    Returns:
        integers on the CPU, one per item of the batch. A single value for a loader with ``batch_size=None``, where each
        dataset item is a batch (if it has n sentences, up to 1,000, ``1000 * index + torch.arange(n)`` are their
        positions). None if the order of the items is unknown: without a ``DistributedSampler``, with a subclass that
        has its own ``__iter__``, with a custom batch sampler, or with ``in_order=False``.

    Example:
        >>> from torch.utils.data import DataLoader, DistributedSampler
        >>> last_of_two = DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False)
        >>> loader = DataLoader(range(5), batch_size=2, sampler=last_of_two)
        >>> list(loader)
        [tensor([1, 3]), tensor([0])]
        >>> distributed_index(loader, 0), distributed_index(loader, 1)
        (tensor([1, 3]), tensor([0]))
    """
    dealt = _dealt(dataloader, batch_idx)
    return None if dealt is None else dealt[0] % dealt[1]


def distributed_mask(dataloader: Any, batch_idx: int) -> Tensor | None:
    """Mark which items of a batch are not repeats added by a distributed sampler; see :func:`distributed_index`.

    In a ``validation_step`` or ``test_step``, pass the result to :meth:`lightning_bleu.CorpusBLEU.update` as
    ``sample_mask``. With model parallelism, where several processes have the same items, a mask is not enough: pass
    :func:`distributed_index`.

    Args:
        dataloader: the loader of the batch, as prepared by Lightning.
        batch_idx: the index of the batch in this process.

    Returns:
        booleans on the CPU, one per item of the batch, True for items that count; None if that is unknown.

    Example:
        >>> from torch.utils.data import DataLoader, DistributedSampler
        >>> last_of_two = DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False)
        >>> loader = DataLoader(range(5), batch_size=2, sampler=last_of_two)
        >>> distributed_mask(loader, 0), distributed_mask(loader, 1)
        (tensor([True, True]), tensor([False]))
    """
    dealt = _dealt(dataloader, batch_idx)
    return None if dealt is None else dealt[0] < dealt[1]


def _dealt(dataloader: Any, batch_idx: int) -> tuple[Tensor, int] | None:
    """The numbers of the items of a batch as they are dealt, and the size of the dataset; None if they are unknown."""
    batches = getattr(dataloader, "batch_sampler", None)
    if type(batches) not in (BatchSampler, type(None)) or not getattr(dataloader, "in_order", True):
        return None
    sampler = getattr(dataloader if batches is None else batches, "sampler", None)
    if not isinstance(sampler, DistributedSampler):
        return None
    if not _is_lightnings_wrapper(sampler) and type(sampler).__iter__ is not DistributedSampler.__iter__:
        return None
    size = 1 if batches is None else batches.batch_size
    local = torch.arange(batch_idx * size, min((batch_idx + 1) * size, len(sampler)), device="cpu")
    return local * sampler.num_replicas + sampler.rank, len(sampler.dataset)  # type: ignore[arg-type]


def _is_lightnings_wrapper(sampler: Any) -> bool:
    """Whether this is Lightning's wrapper, which shards another sampler."""
    kind = type(sampler)
    return kind.__name__ == "DistributedSamplerWrapper" and kind.__module__.startswith("lightning")
