r"""Configure BLEU in a YAML file: LightningCLI with the callback, early stopping, and checkpoints in its config.

Takes about ten seconds. From a checkout::

    pip install ".[examples]"
    python examples/lightning_cli.py fit --config examples/lightning_cli.yaml
    tensorboard --logdir runs

The Python code contains nothing about BLEU. ``lightning_cli.yaml`` says what is scored and how: by BLEU, and by BLEU of
single tokens, which ignores their order. You can also change every option of the callback and of its metrics on the
command line::

    python examples/lightning_cli.py fit --config examples/lightning_cli.yaml --data.longest 20 \
        --trainer.callbacks.metrics.bleu.init_args.max_order 2

The task is to add the previous digit to each digit, modulo 10. Each sum depends on the source alone, so the model
predicts all of them at once. The validation scores real predictions: the model never sees the reference.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import pytorch_lightning as pl
import torch
from pytorch_lightning.cli import LightningCLI
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

PAD = 0
"""Padding. The ids 1 to 10 stand for the digits 0 to 9."""


class Adder(pl.LightningModule):
    """A recurrent network that outputs one token per input token.

    Args:
        width: size of the hidden state.
        learning_rate: Adam's learning rate.
    """

    def __init__(self, width: int = 64, learning_rate: float = 5e-3) -> None:
        super().__init__()
        self.learning_rate = learning_rate
        self.embedding = nn.Embedding(11, width, padding_idx=PAD)
        self.recurrent = nn.GRU(width, width, batch_first=True)
        self.output = nn.Linear(width, 11)

    def forward(self, source: Tensor) -> Tensor:
        logits: Tensor = self.output(self.recurrent(self.embedding(source))[0])
        return logits  # (sentences, tokens, vocabulary)

    def training_step(self, batch: list[Tensor]) -> Tensor:
        source, target = batch
        loss = cross_entropy(self(source).transpose(1, 2), target, ignore_index=PAD)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: list[Tensor]) -> dict[str, Tensor]:
        source, target = batch
        return {"preds": self(source).argmax(-1).masked_fill(source == PAD, PAD), "target": target}

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), self.learning_rate)


class Digits(pl.LightningDataModule):
    """Random digits and their sums.

    Args:
        size: number of training sentences.
        longest: maximum number of tokens per sentence.
        batch_size: sentences per batch.
    """

    def __init__(self, size: int = 4_000, longest: int = 12, batch_size: int = 64) -> None:
        super().__init__()
        self.size = size
        self.longest = longest
        self.batch_size = batch_size

    def setup(self, stage: str) -> None:
        self.train, self.val = self.sentences(self.size), self.sentences(200)

    def sentences(self, count: int) -> TensorDataset:
        digits = torch.randint(10, (count, self.longest))
        sums = (digits + digits.roll(1, 1) * (torch.arange(self.longest) > 0)) % 10
        padding = torch.arange(self.longest) >= torch.randint(4, self.longest + 1, (count, 1))
        return TensorDataset(*((ids + 1).masked_fill(padding, PAD) for ids in (digits, sums)))

    def train_dataloader(self) -> DataLoader[tuple[Tensor, ...]]:
        return DataLoader(self.train, self.batch_size, shuffle=True)

    def val_dataloader(self) -> DataLoader[tuple[Tensor, ...]]:
        return DataLoader(self.val, self.batch_size)


def main(argv: Sequence[str] | None = None) -> LightningCLI:
    """Run the subcommand with the options from the command line and the YAML file."""
    # Lightning uses an API that recent versions of PyTorch deprecate.
    warnings.filterwarnings("ignore", ".*LeafSpec")
    torch.set_num_threads(1)  # more threads make a model this small slower
    return LightningCLI(Adder, Digits, args=None if argv is None else list(argv))


if __name__ == "__main__":
    main()
