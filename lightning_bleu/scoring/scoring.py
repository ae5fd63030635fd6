"""What intervals, tests, and callbacks need to know about a metric: its name, and how rows become scores."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Scoring(NamedTuple):
    """How statistics become scores.

    Attributes:
        name: the name of the score, such as ``"BLEU"``.
        score: takes statistics of shape ``(..., columns)``, which may be sums over sentences, and returns scores of
            shape ``(...)``.
        percent: whether scores are in 0..100 rather than in 0..1.
    """

    name: str
    score: Callable[[Tensor], Tensor]
    percent: bool


def to_plain_dict(score: Any) -> dict[str, Any]:
    """The attributes of a score, a dataclass, as plain values that :mod:`json` can serialize."""
    values = dataclasses.asdict(score)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def float_type(device: torch.device) -> torch.dtype:
    """The floating-point type of scores: float64, or float32 on devices without float64."""
    return torch.float32 if device.type == "mps" else torch.float64
