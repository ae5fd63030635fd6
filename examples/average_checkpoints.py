"""Keep the checkpoints with the best BLEU, average their weights, and score the average.

    python examples/average_checkpoints.py FOLDER

The model translates word by word. Its data is noisy and its learning rate too high, so averaging gains a lot: expect
less from a real model.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EMAWeightAveraging, ModelCheckpoint
from torch import Tensor
from torch.utils.data import DataLoader

from lightning_bleu import BLEUCallback, CorpusBLEU

WORDS = [f"word{i}" for i in range(200)]


def make_loader(sentences: int, noise: float, seed: int) -> Any:
    """Sentences of ten words, and translations in which a share of the words is wrong."""
    rng = random.Random(seed)
    pairs = []
    for _ in range(sentences):
        source = rng.choices(range(200), k=10)
        target = [rng.randrange(200) if rng.random() < noise else word for word in source]
        pairs.append((torch.tensor(source), torch.tensor(target)))
    return DataLoader(pairs, batch_size=20)  # type: ignore[arg-type]


class Translator(pl.LightningModule):
    """A table with a translation of each word."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(200, 200)

    def training_step(self, batch: list[Tensor]) -> Tensor:
        source, target = batch
        return torch.nn.functional.cross_entropy(self.table(source).flatten(0, 1), target.flatten())

    def validation_step(self, batch: list[Tensor]) -> dict[str, list[str]]:
        source, target = batch
        return {"preds": decode(self.table(source).argmax(-1)), "target": decode(target)}

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=200)


def decode(ids: Tensor) -> list[str]:
    """Ids of words to text."""
    return [" ".join(WORDS[i] for i in row) for row in ids.tolist()]


def make_trainer(*callbacks: pl.Callback, **options: Any) -> pl.Trainer:
    """A Trainer on the CPU, without a logger and progress bars."""
    quiet: dict[str, Any] = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    return pl.Trainer(accelerator="cpu", callbacks=[*callbacks], **quiet, **options)


def fit(folder: Path, *callbacks: pl.Callback, save_top_k: int) -> ModelCheckpoint:
    """Train, and keep the best checkpoints."""
    pl.seed_everything(1, verbose=False)
    name = "{step}-{val_bleu:.2f}"
    checkpoints = ModelCheckpoint(folder, name, monitor="val_bleu", mode="max", save_top_k=save_top_k)
    bleu = BLEUCallback(CorpusBLEU(percent=True))
    trainer = make_trainer(bleu, checkpoints, *callbacks, max_epochs=2, val_check_interval=25)
    trainer.fit(Translator(), make_loader(1000, noise=0.85, seed=1), make_loader(200, noise=0, seed=2))
    return checkpoints


def average(paths: Sequence[str]) -> dict[str, Any]:
    """The first checkpoint, with the average weights of all."""
    loaded = [torch.load(path, map_location="cpu", weights_only=True) for path in paths]
    for name, weights in loaded[0]["state_dict"].items():
        if weights.is_floating_point():
            stacked = torch.stack([checkpoint["state_dict"][name].float() for checkpoint in loaded])
            loaded[0]["state_dict"][name] = stacked.mean(0).to(weights.dtype)
    checkpoint: dict[str, Any] = loaded[0]
    return checkpoint


def score(path: str | Path) -> float:
    """The BLEU of a checkpoint, by a Trainer without `ModelCheckpoint`, whose state the checkpoint would replace."""
    bleu = BLEUCallback(CorpusBLEU(percent=True))
    val = make_loader(200, noise=0, seed=2)
    make_trainer(bleu).validate(Translator(), val, ckpt_path=str(path), verbose=False)
    print(f"{Path(path).name:28}", bleu.results["val_bleu"].report)
    return bleu.results["val_bleu"].score


def main(arguments: Sequence[str] | None = None) -> tuple[ModelCheckpoint, ModelCheckpoint]:
    """Print the BLEU of the best three checkpoints, of their average, and of Lightning's moving average."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/average"), help="where to save checkpoints")
    folder = parser.parse_args(arguments).folder
    best = fit(folder / "best", save_top_k=3)
    for path in sorted(best.best_k_models, key=best.best_k_models.__getitem__, reverse=True):
        score(path)
    torch.save(average([*best.best_k_models]), folder / "average.ckpt")
    score(folder / "average.ckpt")
    moving = fit(folder / "moving", EMAWeightAveraging(decay=0.95), save_top_k=1)  # since Lightning 2.6
    score(moving.best_model_path)
    return best, moving


if __name__ == "__main__":
    main()
