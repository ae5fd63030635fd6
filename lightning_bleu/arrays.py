"""What numpy arrays and torch tensors have in common, so that the same lines run on both."""

from __future__ import annotations

from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

Array: TypeAlias = Any
"""A :class:`numpy.ndarray` (on the CPU) or a :class:`torch.Tensor`; all arrays of one call are of one kind."""

CPU = torch.device("cpu")


def namespace(array: Array) -> ModuleType:
    """The module whose functions work on this array: numpy or torch."""
    return torch if isinstance(array, Tensor) else np


def arange(start: int, stop: int, like: Array) -> Array:
    """The integers from `start` to below `stop`, in 64 bits, where the other array lives."""
    if isinstance(like, Tensor):
        return torch.arange(start, stop, device=like.device)
    return np.arange(start, stop, dtype=np.int64)


def full(shape: tuple[int, ...], value: int, like: Array) -> Array:
    """One value everywhere, in 64-bit integers where the other array lives."""
    if isinstance(like, Tensor):
        return like.new_full(shape, value, dtype=torch.int64)
    return np.full(shape, value, np.int64)


def not_negative(array: Array) -> Array:
    """The array, with 0 in place of what is less."""
    return array.clamp(min=0) if isinstance(array, Tensor) else np.maximum(array, 0)


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor without waiting for the device."""
    if device.type == "cuda" and tensor.device == CPU:
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=device.type == "cuda")
