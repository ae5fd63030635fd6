"""Print the table in section 3 of the BLEU paper (Papineni et al. 2002): BLEU over blocks of sentences, and t-tests.

Takes about a minute on two CPU cores, or a few seconds with your own files. From a checkout::

    pip install ".[examples]"
    python examples/papineni_blocks.py

The paper divides 500 sentences into 20 blocks of 25 and scores each block. For each system it prints the mean and the
standard deviation of the 20 scores, and the t statistic of a paired test against the system to its left. A t of 1.7 or
more is significant at 95%.

Without options, the systems are checkpoints of one training run: the Transformer of ``train_translation.py``, saved
every 100 steps, translates numbers that it was not trained on. To compare your own systems, pass files with one
sentence per line::

    python examples/papineni_blocks.py --refs ref.A.de ref.B.de --systems one.de two.de three.de
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from scipy.stats import ttest_rel

from lightning_bleu import corpus_bleu


class System(NamedTuple):
    """The translations of a system, and the references of each."""

    translations: list[str]
    references: list[list[str]]


Systems = dict[str, System]


def read(path: Path, sentences: int) -> list[str]:
    """Read the first lines of a file."""
    lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    if len(lines) < sentences:
        raise SystemExit(f"{path} has {len(lines)} lines, but {sentences} are needed")
    return lines[:sentences]


def read_systems(paths: list[Path], references: list[Path], sentences: int) -> Systems:
    """Read systems whose translations are in files."""
    groups = [list(group) for group in zip(*(read(path, sentences) for path in references))]
    names = [path.stem.rpartition(".")[2] for path in paths]
    if len(set(names)) < len(names):
        names = list(map(str, paths))
    return {name: System(read(path, sentences), groups) for name, path in zip(names, paths)}


def train_systems(sentences: int, steps: int, logdir: Path) -> Systems:
    """Train the model of ``train_translation.py``, and translate with its checkpoints."""
    from train_translation import Translator, Vocabulary, frequent_words, make_batches, make_loader, number_pairs

    torch.set_num_threads(1)
    pl.seed_everything(1)
    # The batches are tensors in memory, so worker processes would not help.
    warnings.filterwarnings("ignore", ".*does not have many workers")
    warnings.filterwarnings("ignore", ".*Skipping val loop")
    # Lightning uses an API that recent versions of PyTorch deprecate.
    warnings.filterwarnings("ignore", ".*LeafSpec")
    pairs = number_pairs(10_000 + sentences)
    words = [frequent_words(lines, 1_000) for lines in zip(*pairs)]
    sizes = argparse.Namespace(max_len=64, batch_size=32)
    test, train = (
        make_batches(part, Vocabulary(words[0]), Vocabulary(words[1]), sizes)
        for part in (pairs[:sentences], pairs[sentences:])
    )
    checkpoints = ModelCheckpoint(logdir, filename="{step}", every_n_train_steps=100, save_top_k=-1)
    trainer = pl.Trainer(
        max_steps=steps,
        accelerator="cpu",
        callbacks=[checkpoints],
        logger=False,
        enable_model_summary=False,
        enable_progress_bar=False,
    )
    trainer.fit(Translator(words[0], words[1]), make_loader(train, shuffle=True))

    systems = {}
    for step in range(100, trainer.global_step + 1, 100):
        model = Translator.load_from_checkpoint(logdir / f"step={step}.ckpt").eval()
        with torch.inference_mode():
            translations = [line for batch in test for line in model.translate(batch.source)]
        systems[f"step {step}"] = System(translations, [[line] for batch in test for line in batch.references])
    return systems


def block_scores(system: System, blocks: int) -> list[float]:
    """The BLEU of each block of consecutive sentences. If the blocks cannot be equal, the first ones are longer."""
    scores = []
    for block in np.array_split(range(len(system.translations)), blocks):
        start, end = block[0], block[-1] + 1
        scores.append(corpus_bleu(system.translations[start:end], system.references[start:end]).bleu)
    return scores


def table(systems: Systems, blocks: int) -> str:
    """The paper's table, with the systems in ascending order of BLEU."""
    bleu = {name: corpus_bleu(*system).bleu for name, system in systems.items()}
    ordered = sorted(systems, key=bleu.__getitem__)
    scores = [block_scores(systems[name], blocks) for name in ordered]
    t = [f"{ttest_rel(right, left).statistic:.1f}" for left, right in itertools.pairwise(scores)]
    rows = {
        "": ordered,
        "BLEU": [f"{bleu[name]:.4f}" for name in ordered],
        "mean": [f"{statistics.fmean(own):.4f}" for own in scores],
        "standard deviation": [f"{statistics.stdev(own):.4f}" for own in scores],
        "t": ["-", *t],
    }
    width = max(len(cell) for cells in rows.values() for cell in cells)
    return "\n".join(f"{name:18}  " + "  ".join(f"{cell:>{width}}" for cell in cells) for name, cells in rows.items())


def main(argv: Sequence[str] | None = None) -> Systems:
    """Print the table, and return the systems."""
    parser = argparse.ArgumentParser(description="BLEU over blocks of sentences, as in the BLEU paper.")
    parser.add_argument("--systems", type=Path, nargs="+", metavar="FILE", help="translations, one file per system")
    parser.add_argument("--refs", type=Path, nargs="+", metavar="FILE", help="references")
    parser.add_argument("--sentences", type=int, default=500, metavar="N", help="score the first N (default: 500)")
    parser.add_argument("--blocks", type=int, default=20, metavar="N", help="divide them into N blocks (default: 20)")
    without_files = parser.add_argument_group("without files")
    without_files.add_argument("--max-steps", type=int, default=800, metavar="N", help="train N steps (default: 800)")
    without_files.add_argument("--logdir", type=Path, default="runs/blocks", help="checkpoints (default: runs/blocks)")
    args = parser.parse_args(argv)
    if bool(args.systems) != bool(args.refs):
        parser.error("--systems and --refs must be given together")
    if args.systems:
        systems = read_systems(args.systems, args.refs, args.sentences)
    else:
        systems = train_systems(args.sentences, args.max_steps, args.logdir)
    size = args.sentences // args.blocks
    print(f"{args.sentences} sentences, {args.blocks} blocks of {size}; t compares a system with the one to its left\n")
    print(table(systems, args.blocks))
    return systems


if __name__ == "__main__":
    main()
