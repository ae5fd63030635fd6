"""The metrics of this package by the names of their classes, as they are recorded."""

from __future__ import annotations

from lightning_bleu.bleu import CorpusBLEU
from lightning_bleu.chrf import CorpusCHRF

KNOWN_METRICS: dict[str, type[CorpusBLEU] | type[CorpusCHRF]] = {
    metric.__name__: metric for metric in (CorpusBLEU, CorpusCHRF)
}
"""The metrics by the names of their classes."""
