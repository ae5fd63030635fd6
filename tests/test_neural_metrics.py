"""A metric in a process of another program: `examples/neural_metric.py` with its stand-in worker."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from lightning_bleu import BLEUCallback, CorpusBLEU
from tests.helpers.callback_metrics import references_of, return_sentences, return_single, source_of, translate
from tests.helpers.examples import EXAMPLES, load_example, run_script
from tests.helpers.lightning import make_loader, validate
from tests.helpers.pages import blocks, run_page

PAGE = Path(__file__).parents[1] / "docs" / "other_metrics.md"
SECTION = "COMET and other models"
STAND_IN = EXAMPLES / "stand_in_worker.py"
ITEMS = [*range(37)]


def make_worker(*command: Any) -> Any:
    """The metric of the example with a program, by default with the stand-in."""
    with pytest.MonkeyPatch.context() as patch:
        metric = load_example("neural_metric", patch).WorkerMetric
    return metric(*(str(part) for part in (sys.executable, *(command or [STAND_IN]))))


def shared_words(item: int) -> float:
    """What the stand-in gives to a sentence."""
    hypothesis, reference = ({*text.split()} for text in (translate(item), references_of(item)[0]))
    return len(hypothesis & reference) / len(reference)


def has_ended(process: int) -> bool:
    """Whether a process has ended, perhaps in a few seconds."""
    for _ in range(200):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def validate_with(folder: Path, function: Any, **options: Any) -> Any:
    """What a validation logs of a function beside BLEU."""
    bleu = BLEUCallback({"neural": function, "bleu": CorpusBLEU()})
    return validate(folder, bleu, step=return_sentences, loaders=make_loader(ITEMS), **options)


def test_the_example_prints_the_score_of_the_stand_in(capfd: pytest.CaptureFixture[str]) -> None:
    run_script(EXAMPLES / "neural_metric.py")

    assert re.search(r"^neural = 0\.\d{4} \(95% interval", capfd.readouterr().out, re.MULTILINE)


def test_a_worker_scores_the_sentences(tmp_path: Path) -> None:
    logged = validate_with(tmp_path, make_worker())

    assert logged["val_neural"] == pytest.approx(sum(map(shared_words, ITEMS)) / len(ITEMS), abs=1e-12)


def score_twice(metric: Any) -> list[int]:
    """The numbers of the processes that scored two calls of a metric."""
    processes = []
    for _ in range(2):
        assert metric(["a b", "c"], [["a x"], ["c", "d"]], ["A", "C"]) == [0.5, 1]
        processes += [worker.pid for worker in metric._workers.values()]
    return processes


def test_a_worker_starts_with_the_first_call_and_ends_with_its_metric() -> None:
    metric = make_worker()
    assert not metric._workers
    first, second = score_twice(metric)
    assert first == second != os.getpid()

    del metric

    assert has_ended(first)


def test_a_worker_ends_with_the_interpreter_however_that_ends() -> None:
    program = f"""
        import os, sys
        sys.path.insert(0, {str(EXAMPLES)!r})
        from neural_metric import WorkerMetric
        metric = WorkerMetric(sys.executable, {str(STAND_IN)!r})
        metric(["a"], [["a"]], ["A"])
        print(*(worker.pid for worker in metric._workers.values()), flush=True)
        os.kill(os.getpid(), 9)
    """
    printed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60
    ).stdout
    assert has_ended(int(printed))


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import os; input(); os._exit(4)", r"ended with status 4; see what it printed"),
        ('input(); print(\'{"error": "no memory"}\')', r"failed: no memory"),
        (
            "input(); print('{\"scores\": [1]}')",
            r"one number or pair per sentence, got the shape \(1,\) for 37 sentences",
        ),
    ],
)
def test_the_death_and_the_errors_of_a_worker_are_messages(code: str, message: str, tmp_path: Path) -> None:
    with pytest.raises((RuntimeError, ValueError), match=f"the metric 'neural' .*{message}"):
        validate_with(tmp_path, make_worker("-c", code))


def test_after_its_death_a_worker_starts_again() -> None:
    metric = make_worker()
    (process,) = {*score_twice(metric)}
    os.kill(process, signal.SIGKILL)

    with pytest.raises(RuntimeError, match="ended with status -9"):
        score_twice(metric)
    assert {*score_twice(metric)} != {process}


def test_an_interrupted_call_leaves_no_answer_for_the_next_one() -> None:
    slow = "import time\nfor line in open(0): time.sleep(1); print('{\"scores\": [7]}', flush=True)"
    metric = make_worker("-c", slow)

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            metric(["a"], [["a"]], ["A"])
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not metric._workers


COMET = """
import types


def download_model(name):
    print("downloading", name)
    return name


def load_from_checkpoint(path):
    return types.SimpleNamespace(predict=predict)


def predict(samples, batch_size, gpus, devices, progress_bar):
    print("predicting", len(samples))
    assert (gpus, devices) == (1, [0])
    scores = [len(one["src"]) + len(one["mt"]) / 64 + len(one["ref"]) / 4096 for one in samples]
    return types.SimpleNamespace(scores=scores)
"""
"""Stands in for the package, which cannot be installed here: what its worker imports and calls."""


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "comet.py").write_text(COMET)
    shutil.copy(EXAMPLES / "comet_worker.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    names = run_page(PAGE, SECTION)
    names["comet"]._command = (sys.executable, "comet_worker.py")

    logged = validate_with(tmp_path, names["comet"])
    lengths = [(len(source_of(item)), len(translate(item)), len(references_of(item)[0])) for item in ITEMS]
    assert logged["val_neural"] == pytest.approx(sum(a + b / 64 + c / 4096 for a, b, c in lengths) / len(ITEMS))


def test_a_model_of_the_page_is_loaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    names, loaded = run_page(PAGE, SECTION), []

    class Model(torch.nn.Module):
        def forward(self, hypotheses: list[str], sources: list[str]) -> torch.Tensor:
            assert not self.training
            return torch.tensor([float(len(one)) for one in sources])

    def load_model() -> torch.nn.Module:
        loaded.append(1)
        return Model()

    names["load_model"] = load_model
    metric = names["Neural"]()
    for _ in range(2):
        logged = validate_with(tmp_path, metric)
    assert logged["val_neural"] == pytest.approx(sum(len(source_of(item)) for item in ITEMS) / len(ITEMS))
    assert loaded == [1]


def test_the_files_that_the_page_names_have_a_line_per_sentence(tmp_path: Path) -> None:
    bleu = BLEUCallback(translations=tmp_path / "translations")
    validate(tmp_path, bleu, step=return_single, loaders=make_loader(ITEMS))

    (command,) = (block.content for block in blocks(PAGE, "sh", SECTION))
    names = [re.sub(r"-\d{7}", "-0000000", name) for name in re.findall(r"step-\S+", command)]
    folder = tmp_path / "translations" / "val"
    sources, references, *hypotheses = ((folder / name).read_text().splitlines() for name in names)
    assert sources == [source_of(item) for item in ITEMS]
    assert references == [references_of(item)[-1] for item in ITEMS]
    assert hypotheses == [[translate(item) for item in ITEMS]] * 2
