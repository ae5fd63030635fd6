"""A metric that runs in the Python of another environment, such as COMET, while you train.

`python examples/neural_metric.py` runs it with `stand_in_worker.py`; `docs/other_metrics.md` has a worker for COMET.
"""

from __future__ import annotations

import json
import os
import subprocess
import weakref
from typing import Any


class WorkerMetric:
    """Scores sentences in a process of another program, which starts with the first sentences.

    Each call writes a line of JSON, a list of {"src": ..., "mt": ..., "ref": ...}, and reads one: {"scores": [...]} or
    {"error": "..."}. The worker ends when its input ends: with this object, or with this process, however that ends.
    """

    def __init__(self, *command: str) -> None:
        self._command = command
        self._workers: dict[int, subprocess.Popen[str]] = {}  # by process: one that is forked starts its own

    def __call__(self, hypotheses: list[str], references: list[list[str]], sources: list[str]) -> list[float]:
        worker = self._workers.get(os.getpid()) or self._start()
        rows = [{"src": src, "mt": mt, "ref": ref[0]} for src, mt, ref in zip(sources, hypotheses, references)]
        try:
            print(json.dumps(rows), file=worker.stdin, flush=True)
            line = worker.stdout.readline() if worker.stdout else ""
        except BrokenPipeError:
            line = ""
        except BaseException:  # such as an interrupt: the next call must not read this answer
            del self._workers[os.getpid()]
            worker.kill()
            raise
        if not line:
            del self._workers[os.getpid()]
            raise RuntimeError(f"{self._command} ended with status {worker.wait()}; see what it printed")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{self._command} failed: {answer['error']}")
        return list(answer["scores"])

    def _start(self) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        worker = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, text=True, encoding="utf-8")
        weakref.finalize(self, lambda owner: os.getpid() == owner and worker.communicate(), os.getpid())
        self._workers[os.getpid()] = worker
        return worker

    def __reduce__(self) -> tuple[Any, ...]:
        return WorkerMetric, self._command  # a copy, perhaps in another process, starts its own


if __name__ == "__main__":
    import sys
    import warnings
    from pathlib import Path

    import pytorch_lightning as pl
    import torch
    from torch.utils.data import DataLoader

    from lightning_bleu import BLEUCallback, CorpusBLEU

    class Translator(pl.LightningModule):
        """Translates numbers, the small ones badly."""

        def validation_step(self, batch: torch.Tensor) -> dict[str, list[str]]:
            numbers = batch.tolist()
            references = [f"this is number {n}" for n in numbers]
            hypotheses = [text[: 15 + n] for n, text in zip(numbers, references)]
            return {"preds": hypotheses, "target": references, "source": [f"das ist Nummer {n}" for n in numbers]}

    warnings.filterwarnings("ignore", ".*(LeafSpec|many workers)")
    worker = WorkerMetric(sys.executable, str(Path(__file__).with_name("stand_in_worker.py")))
    bleu = BLEUCallback({"bleu": CorpusBLEU(percent=True), "neural": worker}, confidence=0.95)
    trainer = pl.Trainer(callbacks=[bleu], accelerator="cpu", logger=False)
    trainer.validate(Translator(), DataLoader(torch.arange(30), 10))  # type: ignore[arg-type]
    print(bleu.results["val_neural"].interval)
