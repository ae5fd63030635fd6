"""BLEU in a training loop of your own: Lightning Fabric with two processes on the CPU.

Takes about twenty seconds. From a checkout::

    pip install ".[examples]"
    python examples/fabric.py
    tensorboard --logdir runs

The model learns to write the French words of digits. Each process translates its share of the validation sentences.
The evaluator counts each of them once, although the sampler repeats one, and has the scores of all processes.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import torch
from lightning_fabric import Fabric
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.tensorboard import SummaryWriter

from lightning_bleu import CorpusBLEU, CorpusCHRF, Evaluator

WORDS = ["zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf"]


def to_text(ids: Tensor) -> list[str]:
    """The words of each row."""
    return [" ".join(WORDS[i] for i in row) for row in ids]


def train(fabric: Fabric, logdir: str, epochs: int) -> None:
    """Train, validate after each epoch, and print the last scores."""
    torch.set_num_threads(1)
    digits = torch.randint(10, (513, 8), generator=torch.Generator().manual_seed(1))
    train_set, val_set = TensorDataset(digits[129:]), TensorDataset(digits[:129])
    loader, val_loader = fabric.setup_dataloaders(
        DataLoader(train_set, batch_size=16, shuffle=True), DataLoader(val_set, batch_size=16)
    )
    model = torch.nn.Embedding(10, 10)
    model, optimizer = fabric.setup(model, torch.optim.Adam(model.parameters(), 0.05))
    evaluator = Evaluator(
        {"bleu": CorpusBLEU(percent=True), "chrf": CorpusCHRF(percent=True)},
        confidence=0.95,
        compare_to="best",
        translations=f"{logdir}/translations",
        loggers=[SummaryWriter(logdir)] if fabric.is_global_zero else [],
    )
    step = 0
    for epoch in range(epochs):
        for (batch,) in loader:
            loss = torch.nn.functional.cross_entropy(model(batch).transpose(1, 2), batch)
            optimizer.zero_grad()
            fabric.backward(loss)
            optimizer.step()
            step += 1
        evaluator.start(val_loader)  # in all processes, like finish
        with torch.no_grad():
            for (batch,) in val_loader:
                evaluator.update(
                    to_text(model(batch).argmax(-1)), to_text(batch), source=[str(row.tolist()) for row in batch]
                )
        evaluator.finish(step, epoch)
    fabric.save(f"{logdir}/last.ckpt", {"model": model, "optimizer": optimizer, "evaluator": evaluator.state_dict()})
    for result in evaluator.results.values():
        fabric.print(result.report)


def main(argv: Sequence[str] | None = None) -> None:
    """Start the processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=2, help="the number of processes")
    parser.add_argument("--epochs", type=int, default=4, help="the number of epochs")
    parser.add_argument(
        "--logdir", default="runs/fabric", help="a folder for TensorBoard, translations, and a checkpoint"
    )
    options = parser.parse_args(argv)
    fabric = Fabric(accelerator="cpu", devices=options.devices, strategy="ddp" if options.devices > 1 else "auto")
    fabric.launch()
    train(fabric, options.logdir, options.epochs)


if __name__ == "__main__":
    main()
