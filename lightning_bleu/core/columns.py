"""What stands beside the sentences of a batch, one value per sentence: masks, positions, and labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from lightning_bleu.core.forms import BoolArray, Index, IntArray, SampleMask


def read_sample_mask(sample_mask: SampleMask | None, sentence_count: int) -> BoolArray | None:
    """Check a mask, and copy it to the CPU.

    Args:
        sample_mask: True for sentences that count.
        sentence_count: the number of sentences.

    Returns:
        shape ``(sentences,)``; True for sentences that count. None if there is no mask.

    Raises:
        TypeError: if the mask does not hold booleans.
        ValueError: if the shape is wrong.
    """
    if sample_mask is None:
        return None
    mask = _to_array("sample_mask", sample_mask)
    if mask.size and mask.dtype != bool:
        raise TypeError(f"'sample_mask' must hold booleans, got {mask.dtype}")
    if mask.shape not in ((sentence_count,), (1,)):
        needs = f"one value per sentence, shape ({sentence_count},), or one for the whole batch, shape (1,)"
        raise ValueError(f"'sample_mask' must have {needs}; got shape {mask.shape}")
    return np.broadcast_to(mask.astype(bool), sentence_count)


def read_index(index: Index | None, sentence_count: int) -> IntArray | None:
    """Check the positions of sentences in their dataset, and copy them to the CPU.

    Args:
        index: the positions.
        sentence_count: the number of sentences.

    Returns:
        shape ``(sentences,)``; None if there is no index.

    Raises:
        TypeError: if they are not integers.
        ValueError: if there is not one position per sentence, or if a position is negative.
    """
    if index is None:
        return None
    positions = _to_array("index", index)
    if positions.size and positions.dtype.kind not in "iu":
        raise TypeError(f"'index' must hold integers, the positions in the dataset, got {positions.dtype}")
    if positions.shape != (sentence_count,):
        raise ValueError(f"'index' must have shape ({sentence_count},), a position per sentence, got {positions.shape}")
    out_of_range = positions[(positions < 0) | (positions >= 2**63)]
    if out_of_range.size:
        raise ValueError(f"'index' must hold positions in the dataset, from 0 and below 2**63, got {out_of_range[0]}")
    return positions.astype(np.int64)


def _to_array(name: str, values: Any) -> npt.NDArray[Any]:
    """A copy as an array."""
    try:
        if isinstance(values, Tensor):
            values = values.numpy(force=True)
        return np.array(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name!r} must be an array, or a dense tensor with values: {error}") from error


def read_groups(labels: Any, sentence_count: int) -> list[str]:
    """Check the labels of the groups of sentences.

    Raises:
        TypeError: if they are not strings.
        ValueError: if there is not one label per sentence.

    Example:
        >>> read_groups(("fr", "zh"), 2)
        ['fr', 'zh']
    """
    return _read_values("group", labels, sentence_count, str, "a string per sentence, the label of its group")


def read_ids(ids: Any, sentence_count: int) -> list[str | int]:
    """Check what sentences are called.

    Raises:
        TypeError: if these are neither strings nor integers.
        ValueError: if there is not one per sentence.

    Example:
        >>> read_ids(np.array([3, 5]), 2), read_ids(["en-3", 5], 2)
        ([3, 5], ['en-3', 5])
    """
    return _read_values("id", ids, sentence_count, str | int, "a string or an integer per sentence")


def _read_values(name: str, values: Any, sentence_count: int, kind: Any, what: str) -> list[Any]:
    """Check a value per sentence, of a kind. Those of tensors, arrays, and enumerations become plain values."""
    if hasattr(values, "tolist"):  # at once, also from a GPU
        values = values.tolist()
    is_list = isinstance(values, Iterable) and not isinstance(values, str)
    plain = [_to_plain(value) for value in values] if is_list else [None]
    if not all(isinstance(value, kind) for value in plain):
        raise TypeError(f"{name!r} must hold {what}, got {repr(values)[:80]}")
    if len(plain) != sentence_count:
        raise ValueError(f"{name!r} must hold {what}, got {len(plain)} for {sentence_count} sentences")
    return plain


def _to_plain(value: Any) -> Any:
    """A number or a string of a tensor, of an array, or of an enumeration as a plain one; None for a boolean."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, str):
        return str.__str__(value)
    return None if isinstance(value, bool) else value
