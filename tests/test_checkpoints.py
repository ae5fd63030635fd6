"""The page about checkpoints: its program runs here, and what it says about files and averages is true."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from lightning_bleu import corpus_bleu
from tests.helpers.pages import run_page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(pl.callbacks, "EMAWeightAveraging"), reason="since Lightning 2.6"),
]

PAGE = Path(__file__).parents[1] / "docs" / "checkpoints.md"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The names that the program of the page defines. It runs in a folder of its own, where the tests stay."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("checkpoints"))
        yield run_page(PAGE)


def score(page: dict[str, Any], weights: dict[str, torch.Tensor]) -> float:
    """The score of weights on the validation set, without a Trainer."""
    model = page["Translator"]()
    model.load_state_dict(weights)
    preds, target = [], []
    for batch in page["val"]:
        outputs = model.validation_step(batch)
        preds += outputs["preds"]
        target += outputs["target"]
    return corpus_bleu(preds, target, percent=True).bleu


def load(path: str) -> dict[str, Any]:
    checkpoint: dict[str, Any] = torch.load(path, weights_only=True)
    return checkpoint


def test_the_files_reproduce_three_different_scores(page: dict[str, Any]) -> None:
    scores = page["checkpoints"].best_k_models
    assert [score(page, load(path)["state_dict"]) for path in page["best_first"]] == sorted(scores.values())[::-1]
    assert len(set(scores.values())) == 3


def test_the_average_is_that_of_the_weights_and_scores_higher(page: dict[str, Any]) -> None:
    weights = load("average.ckpt")["state_dict"]
    tables = [load(path)["state_dict"]["table.weight"] for path in page["best_first"]]
    assert torch.allclose(weights["table.weight"], sum(tables) / 3)
    assert score(page, weights) > page["checkpoints"].best_model_score


def test_the_callback_scores_the_weights_that_lightning_averages(page: dict[str, Any]) -> None:
    logged = page["averages"].best_model_score
    checkpoint = load(page["averages"].best_model_path)
    assert score(page, checkpoint["state_dict"]) == logged
    assert score(page, checkpoint["current_model_state"]) < logged
