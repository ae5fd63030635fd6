r"""Train a small Transformer to translate, and watch its corpus BLEU climb as it learns.

Takes two to three minutes on two CPU cores. From a checkout::

    pip install ".[examples]"
    python examples/train_translation.py
    tensorboard --logdir runs

By default, the model learns to translate number words from English to French.

The model does not use BLEU at all: :class:`Translator` returns translations, references, and source sentences from its
``validation_step``. A :class:`lightning_bleu.BLEUCallback` scores them and passes the score to the progress bar, early
stopping, checkpoints, and TensorBoard, which also shows sample translations and figures. ``--translations FOLDER``
writes the translations of each validation to files, and ``--devices 2`` trains in two processes.

With ``--metric``, the model owns a :class:`lightning_bleu.CorpusBLEU` instead. It updates the metric with its
translations and logs the metric itself. At the end of each validation, Lightning computes the score of the whole
corpus and resets the metric.

To train on your own parallel text, pass files with one sentence per line::

    python examples/train_translation.py --src train.de --tgt train.en --val-src val.de --val-tgt val.en \
        --test-src test.de --test-tgt test.en --d-model 256 --layers 3 --batch-size 64 --max-epochs 10
"""

from __future__ import annotations

import argparse
import json
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
from urllib.parse import quote

import pytorch_lightning as pl
import torch
from num2words import num2words  # type: ignore[import-untyped]
from pytorch_lightning.callbacks import Callback, EarlyStopping, ModelCheckpoint, RichProgressBar
from pytorch_lightning.loggers import TensorBoardLogger
from pytorch_lightning.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

from lightning_bleu import BLEUCallback, BLEUScore, CorpusBLEU, CorpusCHRF

PAD, BOS, EOS, UNK = range(4)

TARGET = 99.5
"""Training ends when the validation BLEU reaches this."""

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
        with_metric: bool = False,
    ) -> None:
        super().__init__()
        self.save_hyperparameters(logger=False)  # so that load_from_checkpoint needs only the path
        self.target_vocabulary = Vocabulary(target_words)
        self.max_len = max_len
        self.learning_rate = learning_rate
        self.bleu = CorpusBLEU(percent=True) if with_metric else None
        self.result: BLEUScore | None = None

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
        return self.evaluate("val_bleu", batch)

    def test_step(self, batch: Batch) -> dict[str, Any]:
        return self.evaluate("test_bleu", batch)

    def evaluate(self, name: str, batch: Batch) -> dict[str, Any]:
        translations = self.translate(batch.source)
        if self.bleu is not None:
            self.bleu.update(translations, batch.references)
            self.log(name, self.bleu, prog_bar=True, batch_size=len(batch.source))
        return {"preds": translations, "target": batch.references, "source": batch.sources}  # for BLEUCallback

    def on_test_epoch_end(self) -> None:
        if self.bleu is not None:
            self.result = self.bleu.report()  # before Lightning resets the metric

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


class Curve(Callback):
    """Prints the loss and the BLEU of each validation."""

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not trainer.sanity_checking:
            bleu, loss = (trainer.callback_metrics[name].item() for name in ("val_bleu", "val_loss"))
            pl_module.print(f"step {trainer.global_step:5}  val_loss {loss:6.3f}  val_bleu {bleu:6.2f}")


def number_pairs(count: int) -> Pairs:
    """Distinct numbers of four to nine digits, spelled out in English and French."""
    numbers: dict[int, None] = {}  # unlike a set, keeps the order
    while len(numbers) < count:
        numbers[random.randrange(1_000, 10 ** random.randint(4, 9))] = None
    return [(num2words(number), num2words(number, lang="fr")) for number in numbers]


def read_pairs(source: Path, target: Path) -> Pairs:
    """Read a file and its translation, line by line."""
    sources, targets = (path.read_text(encoding="utf-8").rstrip("\n").split("\n") for path in (source, target))
    if len(sources) != len(targets):
        raise SystemExit(f"{source} has {len(sources)} lines, but {target} has {len(targets)}")
    return list(zip(sources, targets))


def load_pairs(args: argparse.Namespace) -> list[Pairs]:
    """Sentence pairs for training, validation, and test."""
    if not args.src:
        pairs = number_pairs((args.limit_train or 20_000) + 500)
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


def make_trainer(args: argparse.Namespace, batches: int, *callbacks: Callback) -> pl.Trainer:
    """Make a trainer for so many batches per epoch."""
    interval = max(1, batches // args.devices // args.vals_per_epoch)
    return pl.Trainer(
        max_epochs=args.max_epochs,
        max_steps=args.max_steps,
        accelerator="cpu" if args.devices > 1 else "auto",
        devices=args.devices,
        val_check_interval=interval if args.max_steps < 0 else min(interval, args.max_steps),
        log_every_n_steps=min(10, batches),
        gradient_clip_val=1.0,
        # Without default_hp_metric, TensorBoard has a chart less that means nothing.
        logger=TensorBoardLogger(args.logdir, name="translation", default_hp_metric=False),
        callbacks=[*callbacks, RichProgressBar(refresh_rate=10)],
    )


def tensorboard_command(folder: str) -> str:
    """The command that shows the logs, also if the environment of this program is not activated."""
    program = "tensorboard"
    if not shutil.which(program):
        program = os.path.relpath(Path(sys.executable).with_name(program))
    return f"{program} --logdir {folder}"


def tensorboard_link(tag: str) -> str:
    """The address of a local TensorBoard with one chart pinned to the top, and without smoothing."""
    cards = json.dumps([{"plugin": "scalars", "tag": tag}], separators=(",", ":"))
    return f"http://localhost:6006/?pinnedCards={quote(cards)}&smoothing=0#timeseries"


def describe_end(trainer: pl.Trainer, early_stopping: EarlyStopping) -> str:
    """Why training ended."""
    if trainer.callback_metrics["val_bleu"] >= TARGET:
        return f"the validation BLEU reached {TARGET}"
    if early_stopping.wait_count >= early_stopping.patience:
        return f"{early_stopping.patience} validations without a better BLEU"
    return f"{trainer.global_step} steps, the limit"


def print_samples(model: Translator, pairs: Pairs, vocabulary: Vocabulary) -> None:
    """Print some sentences with their translations."""
    for source, reference in pairs:
        ids = vocabulary.encode(source, model.max_len)[None].to(model.device)
        with torch.no_grad():
            (translation,) = model.eval().translate(ids)
        print(f"\nsource      {source}\nreference   {reference}\ntranslation {translation}")


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
        "max-epochs": (6, "maximum number of epochs"),
        "max-steps": (-1, "maximum number of training steps; -1 for no limit"),
        "vals-per-epoch": (3, "validations per epoch"),
        "patience": (4, "stop after N validations without a better BLEU"),
        "devices": (1, "number of processes"),
        "threads": (1, "CPU threads; more than one helps large models, but is much slower if the cores are busy"),
        "seed": (1, "random seed"),
    }
    for name, (number, text) in integers.items():
        parser.add_argument(f"--{name}", type=int, default=number, metavar="N", help=f"{text} (default: {number})")
    parser.add_argument("--translations", metavar="FOLDER", help="write the translations of each validation to files")
    parser.add_argument("--metric", action="store_true", help="let the model compute BLEU, instead of BLEUCallback")
    args = parser.parse_args(argv)
    if args.metric and (args.devices > 1 or args.translations):
        parser.error("--devices and --translations need BLEUCallback: leave out --metric")
    for source, target in ((args.src, args.tgt), (args.val_src, args.val_tgt), (args.test_src, args.test_tgt)):
        if (source is None) != (target is None):
            parser.error(f"source and target files come in pairs, but {source or target} is given alone")
    return args


def main(argv: Sequence[str] | None = None) -> BLEUScore:
    """Train the model, test its best checkpoint, and return the test score."""
    args = parse(argv)
    # The batches are tensors in memory, so worker processes would not help.
    warnings.filterwarnings("ignore", ".*does not have many workers")
    # Lightning uses an API that recent versions of PyTorch deprecate.
    warnings.filterwarnings("ignore", ".*LeafSpec")
    torch.set_num_threads(args.threads)
    pl.seed_everything(args.seed)

    parts = load_pairs(args)
    words = [frequent_words(lines, args.vocabulary) for lines in zip(*parts[0])]
    source, target = map(Vocabulary, words)
    train, val, test = (make_batches(pairs, source, target, args) for pairs in parts)
    model = Translator(words[0], words[1], args.d_model, args.layers, args.max_len, args.learning_rate, args.metric)

    checkpoint = ModelCheckpoint(monitor="val_bleu", mode="max", filename="{step}-{val_bleu:.2f}")
    early_stopping = EarlyStopping(monitor="val_bleu", mode="max", patience=args.patience, stopping_threshold=TARGET)
    others = {"chrf": CorpusCHRF(percent=True)}
    bleu = BLEUCallback(CorpusBLEU(percent=True), others, confidence=0.95, translations=args.translations)
    trainer = make_trainer(args, len(train), *([] if args.metric else [bleu]), checkpoint, early_stopping, Curve())
    if trainer.is_global_zero:
        sizes = " / ".join(f"{len(pairs):,}" for pairs in parts)
        text = f"{args.src} and {args.tgt}" if args.src else "number words, English to French"
        print(f"Data: {text}; {sizes} sentence pairs for training / validation / test")
        print(
            f"Training ends at a validation BLEU of {TARGET}, after {args.patience} validations without a better one, "
            f"or after {args.max_epochs} epochs"
        )
    trainer.fit(model, make_loader(train, shuffle=True), make_loader(val))
    end = describe_end(trainer, early_stopping)
    trainer.test(model, make_loader(test), ckpt_path=checkpoint.best_model_path, verbose=False)
    result = model.result or bleu.reports["test_bleu"]
    if not trainer.is_global_zero:
        return result

    print(f"\nTraining ended: {end}")
    print_samples(model, parts[2][:3], source)
    print(f"\nTest score  {result}")
    print(f"Signature   {result.signature}")
    print(f"Checkpoint  {checkpoint.best_model_path}")
    print(f"TensorBoard {tensorboard_command(args.logdir)}")
    print(f"            {tensorboard_link('val_bleu')}")
    return result


if __name__ == "__main__":
    main()
