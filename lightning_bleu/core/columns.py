"""What stands beside the sentences of a batch, one value per sentence: masks, positions, and labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lightning_bleu.core.forms import (
    BoolArray,
    Index,
    IntArray,
    SampleMask,
)
from lightning_bleu.core.recognize import (
    ONE_PER_SENTENCE,
    SEQUENCES,
    check_dense,
    check_has_values,
    dtype_or_type,
    is_integer_type,
    materialize,
    type_names,
)


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
    mask = _as_booleans(sample_mask)
    if mask.shape not in ((sentence_count,), (1,)):
        raise ValueError(
            f"'sample_mask' must have one value per sentence, shape ({sentence_count},), or one for the whole batch, "
            f"shape (1,); got shape {mask.shape}"
        )
    return np.broadcast_to(mask, sentence_count)


def _as_booleans(sample_mask: SampleMask) -> BoolArray:
    """A copy of a mask as an array."""
    if isinstance(sample_mask, SEQUENCES):
        wrong_types = {type(value) for value in sample_mask} - {bool, np.bool_}
        if wrong_types:
            raise TypeError(f"'sample_mask' must hold booleans, got {type_names(wrong_types)}")
        return np.array(sample_mask, bool)
    if getattr(sample_mask, "dtype", None) not in (torch.bool, np.bool_):
        raise TypeError(f"'sample_mask' must hold booleans, got {dtype_or_type(sample_mask)}")
    if isinstance(sample_mask, Tensor):
        check_dense("sample_mask", sample_mask, instead=ONE_PER_SENTENCE)
        check_has_values("sample_mask", sample_mask)
        sample_mask = sample_mask.numpy(force=True)
    return np.array(sample_mask)


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
    positions = _as_integers(index)
    if positions.shape != (sentence_count,):
        raise ValueError(
            f"'index' must have shape ({sentence_count},), one position per sentence, got {positions.shape}"
        )
    out_of_range = positions[(positions < 0) | (positions >= 2**63)]
    if out_of_range.size:
        raise ValueError(f"'index' must hold positions in the dataset, from 0 and below 2**63, got {out_of_range[0]}")
    return positions.astype(np.int64)


def _as_integers(values: Index) -> npt.NDArray[Any]:
    """An index as an array of integers, or of objects that are integers."""
    if isinstance(values, SEQUENCES):
        wrong_types = [type_ for type_ in set(map(type, values)) if not is_integer_type(type_)]
        if wrong_types:
            raise _not_integers(type_names(wrong_types))
        return np.array(values, object)
    if isinstance(values, Tensor):
        check_dense("index", values, instead=ONE_PER_SENTENCE)
    if isinstance(values, Tensor) and not values.is_floating_point():
        check_has_values("index", values)
        array = values.numpy(force=True)
    elif isinstance(values, Tensor):
        array = np.zeros(values.shape)  # not all floating-point types are known to NumPy
    else:
        array = np.asarray(values)
    if array.size and array.dtype.kind not in "iuO":
        raise _not_integers(dtype_or_type(values))
    return array


def _not_integers(description: object) -> TypeError:
    return TypeError(f"'index' must hold integers, the positions of sentences in their dataset, got {description}")


def read_groups(labels: Any, sentence_count: int) -> list[str]:
    """Check the labels of the groups of sentences.

    Raises:
        TypeError: if they are not strings.
        ValueError: if there is not one label per sentence.

    Example:
        >>> read_groups(("fr", "zh"), 2)
        ['fr', 'zh']
    """
    labels = materialize(labels)
    message = "'group' must hold a string per sentence, the label of its group, got "
    if not isinstance(labels, SEQUENCES):
        raise TypeError(message + repr(labels))
    if not all(isinstance(label, str) for label in labels):
        raise TypeError(f"{message}{type_names(set(map(type, labels)))}")
    if len(labels) != sentence_count:
        raise ValueError(f"'group' must hold one label per sentence, got {len(labels)} for {sentence_count} sentences")
    return list(map(str.__str__, labels))  # members of an Enum become plain strings
