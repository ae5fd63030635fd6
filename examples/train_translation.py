r"""Train a small Transformer to translate, and watch its corpus BLEU climb as it learns.

Takes one to two minutes on two CPU cores. From a checkout::

    pip install ".[examples]"
    python examples/train_translation.py
    tensorboard --logdir runs

By default, the model learns to translate long numbers from English to French. Training ends while there are still
errors to look at.

The model does not use BLEU at all: :class:`Translator` returns translations, references, and source sentences from its
``validation_step``. The Trainer's :class:`lightning_bleu.BLEUCallback` scores the translations, writes them to files,
and passes the scores to the progress bar, early stopping, checkpoints, and TensorBoard, which also shows samples and a
figure. ``--devices 2`` trains in two processes.

To train on your own parallel text, pass files with one sentence per line::

    python examples/train_translation.py --src train.de --tgt train.en --val-src val.de --val-tgt val.en \
        --test-src test.de --test-tgt test.en --d-model 256 --layers 3 --batch-size 64 --max-epochs 10
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import random
import re
import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytorch_lightning as pl
import torch
from num2words import num2words  # type: ignore[import-untyped]
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint, RichProgressBar
from pytorch_lightning.loggers import TensorBoardLogger
from pytorch_lightning.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

from lightning_bleu import BLEUCallback, BLEUScore, CorpusBLEU, CorpusCHRF

PAD, BOS, EOS, UNK = range(4)

PAGES = {
    "Charts": "#custom_scalars&_smoothingWeight=0",
    "Scores": "?tagFilter=val&smoothing=0#timeseries",
    "Samples": "#text&tagFilter=val",
    "Figures": "#images&tagFilter=val",
}
"""The pages of TensorBoard to look at: what is logged of validations, because tests have single points only.

Smoothing is off: it would bend the curves, but not the intervals.
"""

Pairs = list[tuple[str, str]]


class Vocabulary:
    """Converts lines to ids and back; see :func:`split_words`."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = ["<pad>", "<bos>", "<eos>", "<unk>", *words]
        self.ids = {word: number for number, word in enumerate(self.words)}

    def encode(self, line: str, max_len: int) -> Tensor:
        words = split_words(line)[:max_len]
        return torch.tensor([BOS, *(self.ids.get(word, UNK) for word in words), EOS])

    def decode(self, ids: list[int]) -> str:
        ids = ids[: ids.index(EOS)] if EOS in ids else ids
        return re.sub(r" (?=[-'’]\w|[.,;:!?])", "", " ".join(self.words[number] for number in ids))


def split_words(line: str) -> list[str]:
    """Split a line into words and punctuation. Parts after a hyphen or an apostrophe keep it, so they can be rejoined.

    For example, "quatre-vingt, deux" becomes "quatre", "-vingt", ",", "deux".
    """
    return re.findall(r"(?<=\w)[-'’]\w+|\w+|[^\w\s]", line)


def frequent_words(lines: Iterable[str], size: int) -> list[str]:
    """The `size` most frequent words, most frequent first."""
    return [word for word, _ in Counter(word for line in lines for word in split_words(line)).most_common(size)]


class Batch(NamedTuple):
    """Padded ids of shape ``(sentences, tokens)``, and the same sentences as text."""

    source: Tensor
    target: Tensor
    sources: list[str]
    references: list[str]


class Translator(pl.LightningModule):
    """An encoder-decoder Transformer, validated by the BLEU of its own translations."""

    positions: Tensor

    def __init__(
        self,
        source_words: list[str],
        target_words: list[str],
        d_model: int = 64,
        layers: int = 2,
        max_len: int = 64,
        learning_rate: float = 5e-4,
    ) -> None:
        super().__init__()
        self.save_hyperparameters(logger=False)  # so that load_from_checkpoint needs only the path
        self.target_vocabulary = Vocabulary(target_words)
        self.max_len = max_len
        self.learning_rate = learning_rate

        shape: dict[str, Any] = {"d_model": d_model, "nhead": d_model // 32, "dim_feedforward": 4 * d_model}
        shape |= {"batch_first": True, "norm_first": True}
        encoder_layer, decoder_layer = nn.TransformerEncoderLayer(**shape), nn.TransformerDecoderLayer(**shape)
        self.encoder = nn.TransformerEncoder(encoder_layer, layers, nn.LayerNorm(d_model), enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(decoder_layer, layers, nn.LayerNorm(d_model))
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)  # PyTorch makes all layers copies of the same one
        self.source_embedding = nn.Embedding(len(source_words) + 4, d_model)
        self.target_embedding = nn.Embedding(len(target_words) + 4, d_model)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=d_model**-0.5)
        self.register_buffer("positions", sinusoids(max_len + 2, d_model), persistent=False)
        self.dropout = nn.Dropout(0.1)

    def embed(self, ids: Tensor, embedding: nn.Embedding) -> Tensor:
        scaled = embedding(ids) * math.sqrt(embedding.embedding_dim)
        embedded: Tensor = self.dropout(scaled + self.positions[: ids.shape[1]])
        return embedded

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        padding = source == PAD
        memory: Tensor = self.encoder(self.embed(source, self.source_embedding), src_key_padding_mask=padding)
        return memory, padding

    def decode(self, target: Tensor, memory: Tensor, padding: Tensor) -> Tensor:
        # Target padding comes last, so the causal mask already hides it.
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=target.device)
        embedded = self.embed(target, self.target_embedding)
        decoded: Tensor = self.decoder(embedded, memory, mask, memory_key_padding_mask=padding, tgt_is_causal=True)
        return decoded

    def logits(self, decoded: Tensor) -> Tensor:
        return decoded @ self.target_embedding.weight.T

    def loss(self, batch: Batch) -> Tensor:
        logits = self.logits(self.decode(batch.target[:, :-1], *self.encode(batch.source)))
        # cross_entropy takes (sentences, vocabulary, tokens)
        return cross_entropy(logits.transpose(1, 2), batch.target[:, 1:], ignore_index=PAD, label_smoothing=0.1)

    def translate(self, source: Tensor) -> list[str]:
        """Translate a batch with greedy decoding."""
        memory, padding = self.encode(source)
        ids = source.new_full((len(source), 1), BOS)
        ended = torch.zeros(len(source), dtype=torch.bool, device=source.device)
        for _ in range(min(self.max_len, 2 * source.shape[1])):
            logits = self.logits(self.decode(ids, memory, padding)[:, -1])
            logits[:, [PAD, BOS, UNK]] = -torch.inf
            words = logits.argmax(-1).masked_fill(ended, PAD)
            ids = torch.cat([ids, words[:, None]], 1)
            ended |= words == EOS
            if ended.all():
                break
        return [self.target_vocabulary.decode(row) for row in ids[:, 1:].tolist()]

    def training_step(self, batch: Batch) -> Tensor:
        loss = self.loss(batch)
        self.log("train_loss", loss, prog_bar=True, batch_size=len(batch.source))
        return loss

    def validation_step(self, batch: Batch) -> dict[str, Any]:
        self.log("val_loss", self.loss(batch), prog_bar=True, batch_size=len(batch.source), sync_dist=True)
        return self.test_step(batch)

    def test_step(self, batch: Batch) -> dict[str, Any]:
        return {"preds": self.translate(batch.source), "target": batch.references, "source": batch.sources}

    def configure_optimizers(self) -> OptimizerLRScheduler:
        optimizer = torch.optim.AdamW(self.parameters(), self.learning_rate, betas=(0.9, 0.98))
        steps = int(self.trainer.estimated_stepping_batches)
        warmup = max(1, steps // 10)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min((step + 1) / warmup, (steps - step) / max(1, steps - warmup))
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def sinusoids(length: int, d_model: int) -> Tensor:
    """Sinusoidal positional encodings of shape ``(length, d_model)``."""
    frequencies = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10_000) / d_model))
    angles = torch.arange(length)[:, None] * frequencies
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


class Progress(RichProgressBar):
    """A progress bar with a line above it for each validation."""

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        super().on_validation_end(trainer, pl_module)
        if not trainer.sanity_checking:
            names = ("val_loss", "val_bleu", "val_bleu/low", "val_bleu/high", "val_chrf")
            loss, bleu, low, high, chrf = (trainer.callback_metrics[name] for name in names)
            scores = f"BLEU {bleu:5.2f} (95% interval {low:5.2f} to {high:5.2f})  chrF {chrf:5.2f}"
            pl_module.print(f"step {trainer.global_step:5}  loss {loss:.3f}  {scores}")

    def _get_train_description(self, current_epoch: int) -> str:
        return f"Epoch {current_epoch + 1} of {self.trainer.max_epochs}"  # Lightning's own count starts from 0

    def get_metrics(self, *args: Any) -> dict[str, Any]:
        return {name: value for name, value in super().get_metrics(*args).items() if name != "v_num"}


def number_pairs(count: int) -> Pairs:
    """Distinct numbers of four to fifteen digits, spelled out in English and French."""
    numbers: dict[int, None] = {}  # unlike a set, keeps the order
    while len(numbers) < count:
        numbers[random.randrange(1_000, 10 ** random.randint(4, 15))] = None
    return [(num2words(number), num2words(number, lang="fr")) for number in numbers]


def read_lines(path: Path) -> list[str]:
    """Read a file, line by line."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def read_pairs(source: Path, target: Path) -> Pairs:
    """Read a file and its translation, line by line."""
    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        raise SystemExit(f"{source} has {len(sources)} lines, but {target} has {len(targets)}")
    return list(zip(sources, targets))


def load_pairs(args: argparse.Namespace) -> list[Pairs]:
    """Sentence pairs for training, validation, and test."""
    if not args.src:
        pairs = number_pairs((args.limit_train or 16_000) + 500)
        return [pairs[500:], pairs[:250], pairs[250:500]]
    train = list(dict.fromkeys(read_pairs(args.src, args.tgt)))
    random.shuffle(train)
    held_out = []
    for source, target in ((args.val_src, args.val_tgt), (args.test_src, args.test_tgt)):
        if source:
            held_out.append(read_pairs(source, target))
        else:
            size = min(1_000, len(train) // 10)
            held_out.append(train[:size])
            train = train[size:]
    return [train[: args.limit_train], *held_out]


def make_batches(pairs: Pairs, source: Vocabulary, target: Vocabulary, args: argparse.Namespace) -> list[Batch]:
    """Put sentences of similar length into the same batch, to keep padding low."""
    encoded = [(source.encode(s, args.max_len), target.encode(t, args.max_len), s, t) for s, t in pairs]
    encoded.sort(key=lambda sentence: (len(sentence[0]), len(sentence[1])))
    batches = []
    for start in range(0, len(encoded), args.batch_size):
        *sides, sources, references = map(list, zip(*encoded[start : start + args.batch_size]))
        padded = [pad_sequence(ids, batch_first=True, padding_value=PAD) for ids in sides]
        batches.append(Batch(padded[0], padded[1], sources, references))
    return batches


def make_loader(batches: list[Batch], shuffle: bool = False) -> DataLoader[Batch]:
    """Make a loader of finished batches."""
    dataset = cast("Dataset[Batch]", batches)  # any sequence works as a dataset
    return DataLoader(dataset, batch_size=None, shuffle=shuffle)


def tensorboard_command(folder: str) -> str:
    """The command that shows the logs, also if the environment of this program is not activated."""
    program = "tensorboard"
    if not shutil.which(program):
        program = os.path.relpath(Path(sys.executable).with_name(program))
    return f"{program} --logdir {folder}"


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    for kind in ("", "val-", "test-"):
        default = "held-out lines of --src and --tgt" if kind else "number words"
        parser.add_argument(f"--{kind}src", type=Path, metavar="FILE", help=f"source sentences (default: {default})")
        parser.add_argument(f"--{kind}tgt", type=Path, metavar="FILE", help="their translations")
    parser.add_argument("--limit-train", type=int, metavar="N", help="train on at most N sentence pairs")
    parser.add_argument("--learning-rate", type=float, default=5e-4, help="peak learning rate (default: %(default)s)")
    parser.add_argument("--logdir", default="runs", help="TensorBoard logs and checkpoints (default: %(default)s)")
    integers = {
        "vocabulary": (8_000, "maximum number of words per language; the most frequent ones are kept"),
        "max-len": (64, "maximum number of words per sentence; the rest is cut off"),
        "batch-size": (32, "sentences per batch"),
        "d-model": (64, "width of the model, a multiple of 32"),
        "layers": (2, "number of layers, in the encoder and in the decoder"),
        "max-epochs": (2, "maximum number of epochs"),
        "max-steps": (-1, "maximum number of training steps; -1 for no limit"),
        "vals-per-epoch": (5, "validations per epoch"),
        "patience": (4, "stop after N validations without a better BLEU"),
        "devices": (1, "number of processes"),
        "threads": (1, "CPU threads; more than one helps large models, but is much slower if the cores are busy"),
        "seed": (1, "random seed"),
    }
    for name, (number, text) in integers.items():
        parser.add_argument(f"--{name}", type=int, default=number, metavar="N", help=f"{text} (default: {number})")
    args = parser.parse_args(argv)
    for source, target in ((args.src, args.tgt), (args.val_src, args.val_tgt), (args.test_src, args.test_tgt)):
        if (source is None) != (target is None):
            parser.error(f"source and target files come in pairs, but {source or target} is given alone")
    return args


def main(argv: Sequence[str] | None = None) -> BLEUScore:
    """Train the model, test its best checkpoint, and return the test score."""
    args = parse(argv)
    # Lightning reports the hardware that it found, and recommends other packages.
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    # The batches are tensors in memory, so worker processes would not help.
    warnings.filterwarnings("ignore", ".*does not have many workers")
    # Lightning uses an API that recent versions of PyTorch deprecate.
    warnings.filterwarnings("ignore", ".*LeafSpec")
    torch.set_num_threads(args.threads)
    pl.seed_everything(args.seed, verbose=False)

    parts = load_pairs(args)
    words = [frequent_words(lines, args.vocabulary) for lines in zip(*parts[0])]
    source, target = map(Vocabulary, words)
    train, val, test = (make_batches(pairs, source, target, args) for pairs in parts)
    model = Translator(words[0], words[1], args.d_model, args.layers, args.max_len, args.learning_rate)

    metrics = {"bleu": CorpusBLEU(percent=True), "chrf": CorpusCHRF(percent=True)}
    bleu = BLEUCallback(metrics, confidence=0.95, parts=True, translations=True)
    early_stopping = EarlyStopping(monitor="val_bleu", mode="max", patience=args.patience)
    checkpoint = ModelCheckpoint(monitor="val_bleu", mode="max", filename="{step}-{val_bleu:.2f}")
    # Without default_hp_metric, TensorBoard has a chart less that means nothing.
    logger = TensorBoardLogger(args.logdir, name="translation", default_hp_metric=False)
    interval = max(1, len(train) // args.devices // args.vals_per_epoch)
    trainer = pl.Trainer(
        max_epochs=args.max_epochs,
        max_steps=args.max_steps,
        accelerator="cpu" if args.devices > 1 else "auto",
        devices=args.devices,
        val_check_interval=interval if args.max_steps < 0 else min(interval, args.max_steps),
        log_every_n_steps=min(10, len(train)),
        gradient_clip_val=1.0,
        logger=logger,
        callbacks=[bleu, early_stopping, checkpoint, Progress(refresh_rate=10)],
        enable_model_summary=False,
    )
    if trainer.is_global_zero:
        sizes = " / ".join(f"{len(pairs):,}" for pairs in parts)
        text = f"{args.src} and {args.tgt}" if args.src else "number words, English to French"
        print(f"Data: {text}; {sizes} sentence pairs for training / validation / test")
    trainer.fit(model, make_loader(train, shuffle=True), make_loader(val))
    trainer.test(model, make_loader(test), ckpt_path=checkpoint.best_model_path, verbose=False)
    result = bleu.results["test_bleu"].report
    assert isinstance(result, BLEUScore)  # for type checkers
    if trainer.is_global_zero:
        folder = Path(logger.log_dir, "translations")
        print("\nThe worst test translations for their length")
        for sample in bleu.results.samples["test"].worst[:2]:
            print(sample)
        saved_page = Path(logger.log_dir, "results.html")
        bleu.results.to_html(saved_page)
        print(f"\nTest score  {bleu.results['test_bleu'].interval}")
        print(f"            {bleu.results['test_chrf'].interval}")
        print(f"            {result}")
        print(f"Signature   {result.signature}")
        print(f"Checkpoint  {checkpoint.best_model_path}")
        print(f"Page        {saved_page}")
        print(f"Files       {folder}")
        print(f"TensorBoard {tensorboard_command(args.logdir)}")
        print(f"            (counts steps from 0: step {interval} above is step {interval - 1} there)")
        for name, page in PAGES.items():
            print(f"  {name:9} http://localhost:6006/{page}")
        print("Read next   docs/callback.md: what the charts, samples, and the figure show")
    return result


if __name__ == "__main__":
    main()
