"""Copies between host and device."""

from __future__ import annotations

import torch
from torch import Tensor

CPU = torch.device("cpu")


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor without waiting for the device."""
    if tensor.device == device:
        return tensor
    if device.type == "cuda" and tensor.device == CPU:
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=device.type == "cuda")
