"""The arithmetic of the benchmark. What it measures is not tested."""

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


def test_all_contestants_agree_on_the_score(monkeypatch: pytest.MonkeyPatch) -> None:
    corpora, contestants = load("corpora", monkeypatch), load("contestants", monkeypatch)
    corpus = corpora.make_corpus("", range(4, 74), references=2, batch_size=32, vocabulary=50)
    names = ["ours_ids", "sacrebleu_lines", "nltk_words", "counter_words", "ignite_words", "torchmetrics_lines"]
    scores = [getattr(contestants, name)(corpus) for name in names]
    assert scores == pytest.approx([scores[0]] * len(scores), abs=1e-6)
    assert 0.1 < scores[0] < 0.9
    single = corpora.make_corpus("", range(4, 74), references=1, batch_size=32, vocabulary=50)
    sentences = [getattr(contestants, f"{name}_sentences")(single) for name in ("ours", "sacrebleu", "nltk")]
    assert sentences == pytest.approx([sentences[0]] * 3, abs=1e-9)
    text = corpora.make_text(40, 16)
    scores = [getattr(contestants, f"{name}_text")(text) for name in ("ours", "sacrebleu", "torchmetrics")]
    assert scores == pytest.approx([scores[0]] * 3, abs=1e-6)


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


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc to measure memory")
def test_the_benchmark_of_scale_finds_equal_results_in_all_processes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    load("scale", monkeypatch).main(["--quick"])
    printed = capsys.readouterr().out
    assert "Every process has the results of a single one" in printed
    assert "All processes have the same interval" in printed
