"""Stop when the gains are noise: early stopping and checkpoints that go by significant gains in BLEU only.

Trains the Transformer of ``train_translation.py`` to translate lists such as "three cars, two books" into French, where
every thing has two names that are equally good and chance decides which one the reference has. No model can know, so
that BLEU soon goes up and down around what can be reached. Plain patience takes every lucky validation for progress
and goes on. Then the same training again, from the same seed, stopped by ``val_bleu/best`` of a callback with a
significance level: that changes only when a validation is better than the best before by more than chance explains.
Both trainings end with their best checkpoint on test sentences, and with the paired test of one against the other. All
that for several seeds, since one proves nothing::

    python examples/significant_gains.py
    tensorboard --logdir runs

In TensorBoard, the page of custom scalars shows the score within its confidence interval.
"""

from __future__ import annotations

import argparse
import random
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytorch_lightning as pl
import torch
from num2words import num2words
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from pytorch_lightning.loggers import TensorBoardLogger
from torch.utils.data import DataLoader
from train_translation import Batch, Pairs, Translator, Vocabulary, frequent_words, make_batches

from lightning_bleu import BLEUCallback, CorpusBLEU, paired_bootstrap

NAMES = {
    "bikes": ("vélos", "bicyclettes"),
    "boats": ("bateaux", "navires"),
    "books": ("livres", "bouquins"),
    "cars": ("voitures", "autos"),
    "houses": ("maisons", "demeures"),
    "roads": ("routes", "chaussées"),
}


class Run(NamedTuple):
    """How a training went: its validations, and the BLEU of its best checkpoint on the test sentences."""

    validations: int
    checkpoint: str
    test: CorpusBLEU


def train(monitor: str, data: list[list[Batch]], model: Translator, args: argparse.Namespace) -> Run:
    """Train until `monitor` has not become better for some validations, and test what was best by it."""
    bleu = BLEUCallback(
        CorpusBLEU(convention="sacrebleu", percent=True), confidence=0.95, significance_level=args.significance_level
    )
    patience = EarlyStopping(monitor, mode="max", patience=args.patience)
    # a slash in a name would make a folder
    checkpoint = ModelCheckpoint(monitor=monitor, mode="max", filename="{step}", save_top_k=1)
    trainer = pl.Trainer(
        max_steps=args.max_steps,
        val_check_interval=args.val_every,
        check_val_every_n_epoch=None,
        accelerator="cpu",
        logger=TensorBoardLogger(args.logdir, name=monitor.replace("/", "-")),
        callbacks=[bleu, patience, checkpoint],
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=args.val_every,
    )
    train_loader, val_loader = DataLoader(data[0], batch_size=None, shuffle=True), DataLoader(data[1], batch_size=None)
    trainer.fit(model, train_loader, val_loader)

    test = CorpusBLEU(convention="sacrebleu", percent=True, keep_sentences=True)
    best = Translator.load_from_checkpoint(checkpoint.best_model_path).eval()
    with torch.inference_mode():
        for batch in data[2]:
            test.update(best.translate(batch.source), batch.references)
    return Run(trainer.global_step // args.val_every, checkpoint.best_model_path, test)


def list_pairs(count: int) -> Pairs:
    """Lists of things in English, and in French with names that chance chooses."""
    pairs = []
    for _ in range(count):
        items = [(random.randint(2, 9), random.choice(list(NAMES))) for _ in range(random.randint(2, 4))]
        source = ", ".join(f"{num2words(number)} {name}" for number, name in items)
        target = ", ".join(f"{num2words(number, lang='fr')} {random.choice(NAMES[name])}" for number, name in items)
        pairs.append((source, target))
    return pairs


def main(argv: Sequence[str] | None = None) -> list[Run]:
    """Train twice, print how both went, and return it."""
    parser = argparse.ArgumentParser(description="Early stopping that noise does not keep running.")
    parser.add_argument("--logdir", type=Path, default="runs", help="for TensorBoard and checkpoints (default: runs)")
    parser.add_argument("--significance-level", type=float, default=0.05, help="for a gain to count (default: 0.05)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="of everything random (default: 1 2 3)")
    integers = {
        "sentences": (10_000, "to train with"),
        "val-sentences": (500, "to validate with"),
        "max-steps": (5_000, "most steps"),
        "val-every": (25, "steps between validations"),
        "patience": (12, "validations without a gain before the training ends"),
    }
    for name, (number, text) in integers.items():
        parser.add_argument(f"--{name}", type=int, default=number, metavar="N", help=f"{text} (default: {number})")
    args = parser.parse_args(argv)
    # the batches are tensors in memory: there is nothing to do for workers
    warnings.filterwarnings("ignore", ".*does not have many workers")
    # a matter between some versions of Lightning and PyTorch
    warnings.filterwarnings("ignore", ".*LeafSpec")
    torch.set_num_threads(1)
    args.max_len, args.batch_size = 64, 32

    pl.seed_everything(0)
    parts = [list_pairs(count) for count in (args.sentences, args.val_sentences, 2_000)]
    words = [frequent_words(lines, 1_000) for lines in zip(*parts[0])]
    data = [make_batches(part, Vocabulary(words[0]), Vocabulary(words[1]), args) for part in parts]

    runs = []
    for seed in args.seeds:
        for monitor in ("val_bleu", "val_bleu/best"):
            pl.seed_everything(seed)
            model = Translator(words[0], words[1], learning_rate=1e-3, with_metric=False)
            runs.append(train(monitor, data, model, args))
        plain, significant = runs[-2:]
        print(f"seed {seed}")
        print(f"  every gain         {plain.validations:3} validations, test {plain.test.interval()}")
        print(f"  significant gains  {significant.validations:3} validations, test {significant.test.interval()}")
        print(f"  both checkpoints   {paired_bootstrap(plain.test, significant.test)}")
    validations = [sum(run.validations for run in runs[start::2]) for start in (0, 1)]
    print(f"in all {validations[0]} validations with every gain, {validations[1]} with significant gains")
    return runs


if __name__ == "__main__":
    main()
