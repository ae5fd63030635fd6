"""Strings, tokens, and ids."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
import torch

from lightning_bleu.reading.forms import Ids, join
from lightning_bleu.reading.ragged import Ragged

CPU = torch.device("cpu")
CUDA = torch.device("cuda:1")


def make_ids(*rows: list[int], device: torch.device = CPU) -> Ids:
    ids, lengths = [*chain.from_iterable(rows)], [*map(len, rows)]
    return Ids(Ragged(np.array(ids, np.int64), np.array(lengths, np.int64)), device)


@pytest.mark.parametrize(("first", "second", "device"), [(CPU, CPU, CPU), (CPU, CUDA, CUDA), (CUDA, CPU, CUDA)])
def test_ids_belong_to_the_device_of_the_side_that_is_not_on_the_cpu(
    first: torch.device, second: torch.device, device: torch.device
) -> None:
    joined = join(make_ids([5], device=first), make_ids([6], device=second))
    assert isinstance(joined, Ids)
    assert joined.device == device
