"""The arithmetic of the benchmark. What it measures is not tested."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.slow  # imports all contestants

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, ModuleType]:
    """`run.py`, which imports `contestants.py`, and `compare.py`."""
    monkeypatch.syspath_prepend(FOLDER)
    for name in ("run", "compare", "contestants"):  # another package may have modules with these names
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("run"), importlib.import_module("compare")


def test_compare_names_a_row_that_slowed_down_more_than_the_machine(
    modules: tuple[ModuleType, ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, compare = modules
    files = {}
    # The second machine takes twice as long for everything, and we take three times as long for one row.
    for name, machine, ours in (("old", 1.0, 1.0), ("new", 2.0, 1.5)):
        times = [{run.OURS: 4e-6 * machine * factor, "C": 3e-6 * machine} for factor in (1.0, ours)]
        rows = [([28, 1], times[0]), ([128, 1], times[1] | {"NLTK": 8e-5 * machine})]
        text = run.table("Ids", "µs per sentence", ["tokens", "references"], rows)
        files[name] = tmp_path / name
        files[name].write_text(text)
    # 4 µs × 2 × 1.5, 3 µs × 2, and 80 µs × 2
    assert compare.read(files["new"])["Ids: µs per sentence"]["128", "1"] == {"lightning_bleu": 12, "C": 6, "NLTK": 160}
    assert compare.main([str(files["old"]), str(files["new"])]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "1.50 times as long: Ids: µs per sentence (128, 1)"
    assert len(printed) == 2
    assert compare.main([str(files["new"]), str(files["old"])]) == 0


def test_all_contestants_agree_on_the_score(modules: tuple[ModuleType, ModuleType]) -> None:
    run, _ = modules
    contestants = run.contestants
    corpus = run.make_corpus(70, 12, 50, 2, 32)
    names = ["ours_ids", "sacrebleu_lines", "nltk_words", "counter_words", "ignite_words", "torchmetrics_lines"]
    scores = [getattr(contestants, name)(corpus) for name in names]
    if (c_loop := contestants.floor()) is not None:
        scores.append(c_loop(corpus))
    assert scores == pytest.approx([scores[0]] * len(scores), abs=1e-6)
    assert 0.1 < scores[0] < 0.9
    single = run.make_corpus(70, 12, 50, 1, 32)
    sentences = [getattr(contestants, f"{name}_sentences")(single) for name in ("ours", "sacrebleu", "nltk")]
    assert sentences == pytest.approx([sentences[0]] * 3, abs=1e-9)
    (text,) = run.make_text(40, 16)
    scores = [getattr(contestants, f"{name}_text")(text) for name in ("ours", "sacrebleu", "torchmetrics")]
    assert scores == pytest.approx([scores[0]] * 3, abs=1e-6)
