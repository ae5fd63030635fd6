"""The benchmark. What it measures is not tested; that all contestants have the same score, it checks itself."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from lightning_bleu import CorpusBLEU

pytestmark = pytest.mark.slow  # imports all contestants

FOLDER = Path(__file__).parents[1] / "benchmarks"


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of the benchmarks."""
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.delitem(sys.modules, name, raising=False)  # another package may have a module with this name
    return importlib.import_module(name)


@pytest.mark.parametrize("references", [1, 3])
@pytest.mark.parametrize("vocabulary", [3, 100])
def test_the_c_program_counts_the_same_integers(
    references: int, vocabulary: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = load("contestants", monkeypatch).c_statistics()
    if count is None:
        pytest.skip("needs a C compiler")
    lengths = [0, 1, 2, 3, 4, 5, 90, 7, 8, 300]
    corpus = load("corpora", monkeypatch).make_corpus("", lengths, references, batch_size=4, vocabulary=vocabulary)
    metric = CorpusBLEU(pad_id=0)
    for batch in corpus.tensors:
        metric.update(*batch)
    assert count(corpus).tolist() == metric.statistics.tolist()
    assert metric.statistics[0] > 10
