"""Loaders, and the positions of sentences in their dataset, as PyTorch's samplers deal them.

With several processes, samplers repeat sentences to give all processes the same number. A mask tells which were added,
and positions tell which sentences are the same. Positions are derived from the sampler only if the step returns no
``index``. An item of the dataset may be several sentences, which are numbered below it: all of a batch with one item,
or the answers of a row in Transformers.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils import data

from lightning_bleu.core.forms import IntArray
from lightning_bleu.core.processes import process_count
from lightning_bleu.core.settings import Settings
from lightning_bleu.evaluation.input.outputs import CALL, Origin
from lightning_bleu.evaluation.lightning_internals import is_wrapped_sampler, unwrap_sampler

_SENTENCE_BITS = 31
"""How many bits of a derived position number the sentences of an item."""
_OTHER_LOADERS = {"gradient_state": "lightning_bleu.hugging_face.accelerate_loaders"}
"""Attributes of the loaders of other packages, and the module that knows these."""


class Dealt(NamedTuple):
    """The items of a batch, in the order in which a loader deals items to all processes.

    Attributes:
        numbers: the number of each item, int64 of shape ``(items,)``.
        item_count: the number of different items; items with this number or a larger one are the first ones again.
    """

    numbers: Tensor
    item_count: int


def find_module(dataloader: Any) -> Any:
    """The module that knows the loaders of another package; None for those of PyTorch, and without that module."""
    for attribute, module in _OTHER_LOADERS.items():
        if hasattr(dataloader, attribute):
            with contextlib.suppress(ImportError):
                return importlib.import_module(module)
    return None


def prepare_loader(dataloader: Any) -> None:
    """Let a loader of another package remember what it deals, before it deals the first batch to several processes."""
    module = find_module(dataloader)
    if module is not None:
        module.count_stream(dataloader)


def find_batches(dataloader: Any) -> Any:
    """The batch sampler of a loader; None if it has none. Of one that gives processes a share, what is shared."""
    batches = getattr(dataloader, "batch_sampler", None)
    return getattr(batches, "batch_sampler", batches)


def length_of(items: Any) -> int | None:
    """The length of a dataset or a sampler; None if it has none."""
    with contextlib.suppress(TypeError, NotImplementedError):
        return len(items)
    return None


def count_items(dataloader: Any) -> int | None:
    """The number of items of the dataset of a loader; None if that is unknown, as for a stream."""
    dataset = getattr(dataloader, "dataset", None)
    return None if isinstance(dataset, data.IterableDataset) else length_of(dataset)


def number_sentences(items: IntArray, rows: IntArray) -> IntArray:
    """The positions of sentences: that of the item of each, and below it, its number in its row.

    Args:
        items: the position of the item of each row of a batch.
        rows: the row of each sentence.

    Example:
        >>> positions = number_sentences(np.array([5, 9]), np.array([0, 0, 1]))
        >>> [divmod(position, 2**31) for position in positions.tolist()]
        [(5, 0), (5, 1), (9, 0)]
    """
    order = rows.argsort(kind="stable")
    in_order = rows[order]
    first_of_row = np.searchsorted(in_order, in_order)
    numbers = np.empty_like(rows)
    numbers[order] = np.arange(len(rows)) - first_of_row
    return (items[rows] << _SENTENCE_BITS) + numbers


def shuffles(dataloader: Any) -> bool:
    """Whether a loader is known to shuffle, or not to keep the order of its workers.

    Example:
        >>> from torch.utils.data import DataLoader
        >>> shuffles(DataLoader(range(5), shuffle=True)), shuffles(DataLoader(range(5)))
        (True, False)
    """
    if not getattr(dataloader, "in_order", True) and dataloader.num_workers > 0:
        return True
    batches = find_batches(dataloader)
    sampler = getattr(dataloader if batches is None else batches, "sampler", None)
    if isinstance(sampler, data.BatchSampler):  # with batch_size=None
        sampler = sampler.sampler
    if isinstance(sampler, data.DistributedSampler) and is_wrapped_sampler(sampler):
        sampler = unwrap_sampler(sampler)
    random = isinstance(sampler, data.RandomSampler | data.SubsetRandomSampler | data.WeightedRandomSampler)
    return random or bool(getattr(sampler, "shuffle", False))


def find_own_order(dataloader: Any) -> str:
    """The class of a sampler that may have an order of its own, such as that of the lengths; empty if it has none.

    Example:
        >>> from torch.utils.data import DataLoader
        >>> find_own_order(DataLoader(range(3), sampler=[2, 0, 1])), find_own_order(DataLoader(range(3)))
        ('list', '')
    """
    batches = find_batches(dataloader)
    sampler = getattr(dataloader if batches is None else batches, "sampler", None)
    is_known = sampler is None or type(sampler).__module__.startswith(("torch.", "lightning", "pytorch_lightning"))
    return "" if is_known else type(sampler).__name__


def distributed_mask(dataloader: Any, batch_idx: int) -> Tensor | None:
    """Which items of a batch count: all but those that the sampler added to make processes equal.

    Example:
        >>> from torch.utils.data import DataLoader, DistributedSampler
        >>> last_of_two = DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False)
        >>> loader = DataLoader(range(5), batch_size=2, sampler=last_of_two)
        >>> list(loader)
        [tensor([1, 3]), tensor([0])]
        >>> distributed_mask(loader, 0), distributed_mask(loader, 1)
        (tensor([True, True]), tensor([False]))

    Args:
        dataloader: the loader of the batch, as Lightning or accelerate prepared it, such as
            ``self.trainer.val_dataloaders``. Of several loaders, the one at ``dataloader_idx``.
        batch_idx: the index of the batch in this process.

    Returns:
        booleans on the CPU, shape ``(items,)``: False for the items of the batch that the sampler added. With
        ``batch_size=None``, a batch is a single item, so the shape is ``(1,)``.

        None if that is unknown: for an iterable dataset, for a sampler other than PyTorch's, for a custom batch
        sampler, and with ``in_order=False``. As a mask, None lets every sentence of the batch count. That is right in
        a single process. In several, sentences may count twice, unless the sampler adds none. Then validate in a single
        process, or use :class:`lightning_bleu.BLEUCallback` and return the ``"index"`` of each sentence.

    Notes:
        With several processes, a ``DistributedSampler`` repeats items so that each process gets the same number of
        them. With this mask, each item counts once in a metric that a module logs:
        ``self.bleu.update(preds, target, sample_mask=distributed_mask(self.trainer.val_dataloaders, batch_idx))``.

        The mask is in the order of the sampler: if a ``collate_fn`` or the step sorts, drops, or splits items, do the
        same to it. How the sampler adds items:
        https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
    """
    dealt = _find_dealt(dataloader, batch_idx)
    return None if dealt is None else dealt.numbers < dealt.item_count


def find_index(dataloader: Any, batch_idx: int) -> Tensor | None:
    """The positions of the items of a batch in their dataset, in the order of the sampler.

    Example:
        >>> from torch.utils.data import DataLoader, DistributedSampler
        >>> last_of_two = DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False)
        >>> find_index(DataLoader(range(5), batch_size=2, sampler=last_of_two), 1)
        tensor([0])

    Args:
        dataloader: the loader of the batch.
        batch_idx: the index of the batch in this process.

    Returns:
        integers on the CPU, shape ``(items,)``; None if they are unknown, see :func:`distributed_mask`.
    """
    dealt = _find_dealt(dataloader, batch_idx)
    return None if dealt is None else dealt.numbers % max(dealt.item_count, 1)


def _find_dealt(dataloader: Any, batch_idx: int) -> Dealt | None:
    """The items of a batch; None if the order of the loader is unknown."""
    if not getattr(dataloader, "in_order", True):
        return None
    module = find_module(dataloader)
    if module is not None:
        dealt: Dealt | None = module.find_dealt(dataloader, batch_idx)
        return dealt
    batches = getattr(dataloader, "batch_sampler", None)
    if type(batches) not in (data.BatchSampler, type(None)):
        return None
    sampler = getattr(dataloader if batches is None else batches, "sampler", None)
    size = 1 if batches is None else batches.batch_size
    if isinstance(sampler, data.DistributedSampler):
        return _find_dealt_by_sampler(sampler, batch_idx, size)
    item_count = length_of(sampler)
    if item_count is None or process_count() > 1:
        return None
    return Dealt(_number_batch(batch_idx, size, item_count), item_count)


def _find_dealt_by_sampler(sampler: data.DistributedSampler[Any], batch_idx: int, size: int) -> Dealt | None:
    """The items of a batch that a distributed sampler draws; None if it has an order of its own."""
    if not is_wrapped_sampler(sampler) and type(sampler).__iter__ is not data.DistributedSampler.__iter__:
        return None
    numbers = _number_batch(batch_idx, size, len(sampler)) * sampler.num_replicas + sampler.rank
    return Dealt(numbers, len(sampler.dataset))  # type: ignore[arg-type]


def _number_batch(batch_idx: int, size: int, item_count: int) -> Tensor:
    """The numbers of the items of a batch in its process, which has `item_count` items.

    Example:
        >>> _number_batch(1, size=3, item_count=5)
        tensor([3, 4])
    """
    first = min(batch_idx * size, item_count)
    return torch.arange(first, min(first + size, item_count), device="cpu")


class Positions(NamedTuple):
    """The positions of the sentences of a batch in their dataset.

    Attributes:
        values: shape ``(sentences,)``; None if they are unknown, or if nobody needs them.
        unknown: why repeated sentences cannot be found; empty if they can be.
    """

    values: IntArray | None
    unknown: str = ""


@dataclass(frozen=True, eq=False)
class Loader:
    """A loader of a validation: how to read and to identify its sentences.

    The position of a sentence in the dataset is the ``"index"`` that the step returns. Without one, several processes
    derive it from PyTorch's sampler, and a single process does not need it.

    Attributes:
        name: its name; empty if it has none.
        settings: how to read its sentences.
        dataloader: the loader itself; None if Lightning combines the batches of several.
        origin: where the sentences come from, for error messages.
        order_needed_by: the option that needs the order of the sentences, for error messages; empty if none does.
        labels: the labels of the groups that are scored; None for all sentences.
        is_recorded: whether its sentences are written to files.
        item_count: the number of items of its dataset; None if that is unknown.
    """

    name: str
    settings: Settings
    dataloader: Any = None
    origin: Origin = CALL
    order_needed_by: str = ""
    labels: Collection[str] | None = None
    is_recorded: bool = False
    item_count: int | None = None

    @property
    def is_ignored(self) -> bool:
        """Whether none of its sentences is scored, so that nothing of it is read."""
        return self.labels is not None and not self.labels

    def find_positions(self, index: IntArray | None, batch_idx: int, sentence_count: int) -> Positions:
        """The positions of the sentences of a batch.

        Args:
            index: the positions that the step returned; None if it returned none.
            batch_idx: the index of the batch in this process.
            sentence_count: the number of sentences, at least one, with masked ones.

        Raises:
            ValueError: if the order of the sentences is needed and the loader shuffles.
        """
        if index is not None:
            return Positions(index)
        if self.order_needed_by and shuffles(self.dataloader):
            origin = self.origin
            raise ValueError(
                f"{self.order_needed_by} needs to know which sentence is which, but a loader shuffles them: "
                f"{origin.give} the position of each sentence in the dataset as 'index' {origin.to} {origin.name!r}, "
                f"or {origin.unshuffle}"
            )
        if process_count() == 1:
            return Positions(None)
        if self.dataloader is None:
            is_call = self.origin is CALL
            return Positions(None, "start() got no loader" if is_call else "its batches combine several loaders")
        items = find_index(self.dataloader, batch_idx)
        if items is None:
            return Positions(
                None,
                "its loader has no DistributedSampler, or a sampler or a batch sampler other than PyTorch's, or "
                "in_order=False",
            )
        if not len(items):
            return Positions(None, "there were more batches than its loader has")
        if len(items) == sentence_count:
            return Positions(number_sentences(items.numpy(), np.arange(sentence_count)))
        rows = np.zeros(sentence_count, np.int64)  # all are of the first item
        is_single_item = len(items) == 1
        return Positions(
            number_sentences(items.numpy(), rows),
            "" if is_single_item else f"a batch of {len(items)} items became {sentence_count} sentences",
        )
