"""BLEU in a LightningModule, as short as it gets: `python examples/minimal.py` trains for a few seconds."""

import warnings

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

from lightning_bleu import CorpusBLEU

WORDS = ["zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf"]


class Translator(pl.LightningModule):
    """Translates digits into French words."""

    def __init__(self) -> None:
        super().__init__()
        self.model = torch.nn.Embedding(10, 10)
        self.bleu = CorpusBLEU()  # 1. make the metric

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self.model(batch[0]).transpose(1, 2), batch[1])

    def validation_step(self, batch: list[torch.Tensor]) -> None:
        translations = [" ".join(WORDS[i] for i in row) for row in self.model(batch[0]).argmax(-1)]
        references = [" ".join(WORDS[i] for i in row) for row in batch[1]]
        self.bleu.update(translations, references)  # 2. count a batch: two lists of strings
        self.log("val_bleu", self.bleu, prog_bar=True)  # 3. log the metric itself, and Lightning does the rest

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), 0.03)


warnings.filterwarnings("ignore", ".*LeafSpec")  # Lightning uses an API that recent versions of PyTorch deprecate
digits = torch.randint(10, (640, 8))
train, val = (DataLoader(TensorDataset(part, part), 16) for part in (digits[64:], digits[:64]))
pl.Trainer(max_epochs=3, log_every_n_steps=10, accelerator="cpu").fit(Translator(), train, val)
