"""Stop training when the gains are noise: early stopping and checkpoints that react to clear gains in BLEU only.

Trains six models, one after another, for about a minute each on two CPU cores; ``--seeds 1`` trains two. From a
checkout::

    pip install ".[examples]"
    python examples/clear_gains.py
    tensorboard --logdir runs

The Transformer of ``train_translation.py`` learns to translate lists such as "three cars, two books" into French. Each
noun has two equally good translations, and the reference picks one of them at random. No model can guess which, so BLEU
soon fluctuates around a ceiling. Plain early stopping mistakes every lucky validation for progress and keeps going.

Each seed is trained twice. The first run monitors ``val_bleu``. The second run monitors ``val_bleu/clear_best``, which
changes only when a validation beats the last clear best by more than chance explains.
The best checkpoints of both runs are then scored on test sentences and compared with a paired test. There are several
seeds because one seed proves nothing.

In TensorBoard, the custom scalars page shows the score with its confidence interval.
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
from num2words import num2words  # type: ignore[import-untyped]
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from pytorch_lightning.loggers import TensorBoardLogger
from train_translation import Batch, Pairs, Translator, Vocabulary, frequent_words, make_batches, make_loader

from lightning_bleu import BLEUCallback, CorpusBLEU
from lightning_bleu.compare import compare_systems

NAMES = {
    "bikes": ("vélos", "bicyclettes"),
    "boats": ("bateaux", "navires"),
    "books": ("livres", "bouquins"),
    "cars": ("voitures", "autos"),
    "houses": ("maisons", "demeures"),
    "roads": ("routes", "chaussées"),
}


class Run(NamedTuple):
    """A training run: its number of validations, its best checkpoint, and its translations of the test sentences."""

    validations: int
    checkpoint: str
    translations: list[str]


def train(monitor: str, data: list[list[Batch]], model: Translator, args: argparse.Namespace) -> Run:
    """Train until `monitor` stops improving, and score the best checkpoint on the test sentences."""
    bleu = BLEUCallback(CorpusBLEU(percent=True), confidence=0.95, compare_to="clear_best")
    patience = EarlyStopping(monitor, mode="max", patience=args.patience)
    # The name leaves out the score: a slash in the key would create a folder.
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
    trainer.fit(model, make_loader(data[0], shuffle=True), make_loader(data[1]))

    best = Translator.load_from_checkpoint(checkpoint.best_model_path).eval()
    with torch.inference_mode():
        translations = [line for batch in data[2] for line in best.translate(batch.source)]
    return Run(trainer.global_step // args.val_every, checkpoint.best_model_path, translations)


def list_pairs(count: int) -> Pairs:
    """Lists of nouns in English and in French, with French nouns picked at random."""
    pairs = []
    for _ in range(count):
        items = [(random.randint(2, 9), random.choice(list(NAMES))) for _ in range(random.randint(2, 4))]
        source = ", ".join(f"{num2words(number)} {name}" for number, name in items)
        target = ", ".join(f"{num2words(number, lang='fr')} {random.choice(NAMES[name])}" for number, name in items)
        pairs.append((source, target))
    return pairs


def main(argv: Sequence[str] | None = None) -> list[Run]:
    """Train twice per seed, print the results, and return them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--logdir", type=Path, default="runs", help="TensorBoard logs and checkpoints (default: runs)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="random seeds (default: 1 2 3)")
    integers = {
        "sentences": (10_000, "training sentences"),
        "val-sentences": (500, "validation sentences"),
        "max-steps": (5_000, "maximum number of training steps"),
        "val-every": (25, "validate every N training steps"),
        "patience": (12, "stop after N validations without a gain"),
    }
    for name, (number, text) in integers.items():
        parser.add_argument(f"--{name}", type=int, default=number, metavar="N", help=f"{text} (default: {number})")
    args = parser.parse_args(argv)
    # The batches are tensors in memory, so worker processes would not help.
    warnings.filterwarnings("ignore", ".*does not have many workers")
    # Lightning uses an API that recent versions of PyTorch deprecate.
    warnings.filterwarnings("ignore", ".*LeafSpec")
    torch.set_num_threads(1)
    args.max_len, args.batch_size = 64, 32

    pl.seed_everything(0)
    parts = [list_pairs(count) for count in (args.sentences, args.val_sentences, 2_000)]
    words = [frequent_words(lines, 1_000) for lines in zip(*parts[0])]
    data = [make_batches(part, Vocabulary(words[0]), Vocabulary(words[1]), args) for part in parts]

    references = [reference for batch in data[2] for reference in batch.references]
    runs = []
    for seed in args.seeds:
        for monitor in ("val_bleu", "val_bleu/clear_best"):
            pl.seed_everything(seed)
            model = Translator(words[0], words[1], learning_rate=1e-3)
            runs.append(train(monitor, data, model, args))
        plain, clear = runs[-2:]
        print(f"seed {seed}")
        systems = {"any gain": plain.translations, "clear gains": clear.translations}
        comparison = compare_systems(systems, references=references)
        print(f"  validations: {plain.validations} for any gain, {clear.validations} for clear gains")
        print(comparison)
    validations = [sum(run.validations for run in runs[start::2]) for start in (0, 1)]
    print(f"total: {validations[0]} validations if any gain counts, {validations[1]} if only clear gains count")
    return runs


if __name__ == "__main__":
    main()
