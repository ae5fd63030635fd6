"""Checkpoints of `examples/average_checkpoints.py`: what is saved, averaged, and scored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from lightning_bleu import corpus_bleu
from tests.helpers.examples import load_example

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.skipif(not hasattr(pl.callbacks, "EMAWeightAveraging"), reason="since Lightning 2.6"),
]


def load(path: Path | str) -> dict[str, Any]:
    checkpoint: dict[str, Any] = torch.load(path, weights_only=True)
    return checkpoint


def score(example: Any, weights: dict[str, torch.Tensor]) -> float:
    """The score of weights on the validation set, without a Trainer."""
    model = example.Translator()
    model.load_state_dict(weights)
    preds, target = [], []
    for batch in example.make_loader(200, noise=0, seed=2):
        outputs = model.validation_step(batch)
        preds += outputs["preds"]
        target += outputs["target"]
    return corpus_bleu(preds, target, percent=True).bleu


def test_checkpoints_reproduce_their_scores_and_averages_score_higher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example = load_example("average_checkpoints", monkeypatch)
    best, moving = example.main([str(tmp_path)])
    printed = [float(line.split("BLEU = ")[1].split()[0]) for line in capsys.readouterr().out.splitlines()]
    # The files have three scores, which their weights reproduce.
    scores = {path: float(logged) for path, logged in best.best_k_models.items()}
    assert len(set(scores.values())) == 3
    assert {path: score(example, load(path)["state_dict"]) for path in scores} == scores
    assert printed[:3] == [round(logged, 2) for logged in sorted(scores.values(), reverse=True)]
    # The average is that of their weights.
    tables = [load(path)["state_dict"]["table.weight"] for path in scores]
    averaged = load(tmp_path / "average.ckpt")["state_dict"]
    assert torch.allclose(averaged["table.weight"], sum(tables) / 3)
    assert printed[3] == round(score(example, averaged), 2) > max(scores.values())
    # The callback scores the weights that Lightning averages, and they are saved.
    checkpoint = load(moving.best_model_path)
    assert score(example, checkpoint["state_dict"]) == moving.best_model_score
    assert score(example, checkpoint["current_model_state"]) < moving.best_model_score
    assert printed[4] == round(float(moving.best_model_score), 2)
