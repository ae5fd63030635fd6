"""How the resamples of an interval or a test are drawn, in plain code."""

from __future__ import annotations

import numpy as np
import torch


def draw_resamples(trials: int, sentences: int, seed: int) -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
    """The numbers of the sentences of each resample, shape ``(trials, sentences)``, if they fit into a chunk."""
    mixed = np.random.SeedSequence([seed % 2**64, 0]).generate_state(1, np.uint64)[0]
    generator = torch.Generator().manual_seed(int(mixed) // 2)
    return torch.randint(sentences, (trials, sentences), generator=generator, dtype=torch.int32).numpy()
