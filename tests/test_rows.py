"""Rows of a batch that give several sentences or none, in a loop and in a step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from sacrebleu.metrics.bleu import BLEU
from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler

from lightning_bleu import BLEUCallback, CorpusBLEU, Evaluator
from tests.helpers.lightning import validate
from tests.helpers.process_groups import ProcessPool

ITEMS = 11
WORDS = ["a", "cat", "sat", "on", "the", "red", "mat", "and", "ran", "home"]


def answers_of(item: int) -> list[tuple[str, str]]:
    """None, one, or two hypotheses with their references."""
    answers = []
    for turn in range(item % 3):
        words = [WORDS[(item + turn + place) % len(WORDS)] for place in range(5 + turn)]
        answers.append((" ".join([*words[:4], f"{item}-{turn}"]), " ".join(words)))
    return answers


def return_rows(batch: Tensor, how: str) -> dict[str, Any]:
    """What a step knows of a batch. The answers of a row need not be together."""
    numbered = [
        (turn, row, answer) for row, item in enumerate(batch.tolist()) for turn, answer in enumerate(answers_of(item))
    ]
    in_turns = sorted(numbered, key=lambda answer: answer[0])
    output: dict[str, Any] = {
        "preds": [hypothesis for _, _, (hypothesis, _) in in_turns],
        "target": [reference for _, _, (_, reference) in in_turns],
        "row": torch.tensor([row for _, row, _ in in_turns], dtype=torch.long),
    }
    if how == "mask":
        output["sample_mask"] = batch != 5
    if how == "index":
        output["index"] = batch
    return output


def run_loop(rank: int, processes: int, folder: Path, how: str) -> float:
    sampler: Any = DistributedSampler(range(ITEMS), processes, rank, shuffle=False)  # type: ignore[arg-type]
    loader: Any = DataLoader(range(ITEMS), batch_size=3, sampler=sampler)  # type: ignore[arg-type]
    evaluator = Evaluator(CorpusBLEU(percent=True), translations=folder)
    evaluator.start(loader)
    for batch in loader:
        evaluator.update(**return_rows(batch, how))
    return evaluator.finish(step=0)["val_bleu"].score


@pytest.mark.slow
@pytest.mark.parametrize("how", ["sampler", "mask", "index"])
def test_each_answer_counts_once_and_in_order(how: str, pool: ProcessPool, tmp_path: Path) -> None:
    items = [item for item in range(ITEMS) if how != "mask" or item != 5]
    answers = [answer for item in items for answer in answers_of(item)]
    hypotheses, references = map(list, zip(*answers))
    expected = BLEU().corpus_score(hypotheses, [references]).score
    assert 20 < expected < 90
    for processes in (1, 2):
        folder = tmp_path / str(processes)
        scores = pool.run(processes, run_loop, folder, how)
        assert scores == pytest.approx([expected] * processes, abs=1e-9)
        written = (folder / "val" / "step-0000000.txt").read_text().splitlines()
        assert sorted(written) == sorted(hypotheses)
        if processes > 1 or how == "index":
            assert written == hypotheses


def test_a_step_may_return_rows(tmp_path: Path) -> None:
    loader: Any = DataLoader(range(ITEMS), batch_size=3)  # type: ignore[arg-type]
    callback = BLEUCallback(CorpusBLEU(percent=True))
    scores = validate(tmp_path, callback, step=lambda batch, epoch: return_rows(batch, "mask"), loaders=loader)
    answers = [answer for item in range(ITEMS) for answer in answers_of(item) if item != 5]
    hypotheses, references = map(list, zip(*answers))
    assert scores["val_bleu"] == pytest.approx(BLEU().corpus_score(hypotheses, [references]).score)


ROWS: Any = {"preds": ["a b", "c d"], "target": ["a b", "c e"]}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"row": [0]}, ValueError, r"'row' must have shape \(2,\), the row of the batch of each sentence, got \(1,\)"),
        ({"row": [0, -1]}, ValueError, r"'row' must hold rows of the batch, from 0, got -1"),
        (
            {"row": ["a", "b"]},
            TypeError,
            r"'row' must hold integers, .* got \['str'\]",
        ),
        ({"row": [0, 3], "index": [7, 8]}, ValueError, r"'index' must have one value per row .* \(2,\), .* up to 3"),
        ({"row": [0, 3], "sample_mask": [True, False]}, ValueError, r"'sample_mask' must have one value per row"),
        ({"row": [0, 0], "index": [2**32]}, ValueError, r"from 0 and below 2\*\*32, got 4294967296"),
    ],
)
def test_wrong_rows_are_errors(options: Any, error: type[Exception], message: str) -> None:
    evaluator = Evaluator()
    evaluator.start()
    with pytest.raises(error, match=message):
        evaluator.update(**ROWS, **options)


def test_rows_of_some_batches_only_are_an_error() -> None:
    evaluator = Evaluator()
    evaluator.start()
    evaluator.update(**ROWS, row=[0, 0])
    with pytest.raises(ValueError, match="'update' got 'row' for some batches only: pass it for all, or for none"):
        evaluator.update(**ROWS)


def test_an_index_of_several_rows_is_an_error() -> None:
    evaluator = Evaluator()
    evaluator.start()
    evaluator.update(**ROWS, row=[0, 1], index=[5, 5])
    with pytest.raises(ValueError, match="different rows have the same 'index': the references of their sentences"):
        evaluator.finish(0)
