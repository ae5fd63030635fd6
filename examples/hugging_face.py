"""Validate a Hugging Face model by the BLEU of the text it generates, with no BLEU code in the LightningModule.

Takes about a minute on two CPU cores. From a checkout::

    pip install ".[examples]"
    python examples/hugging_face.py
    tensorboard --logdir runs

A small, randomly initialized Marian model learns to translate number words from English to French. The tokenizer is
trained here too, so nothing is downloaded.

``validation_step`` returns the generated ids and the labels as they are, with padding, special tokens, and -100. One
line in the Trainer does the rest: :class:`lightning_bleu.BLEUCallback` decodes both with the tokenizer and scores the
text the way sacreBLEU does.
"""

from __future__ import annotations

import argparse
import random
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import pytorch_lightning as pl
import torch
from num2words import num2words  # type: ignore[import-untyped]
from pytorch_lightning.loggers import TensorBoardLogger
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from transformers import DataCollatorForSeq2Seq, MarianConfig, MarianMTModel, PreTrainedTokenizerFast

from lightning_bleu import BLEUCallback, BLEUScore, CorpusBLEU

PAD, EOS, UNK = range(3)


class Translator(pl.LightningModule):
    """Trains any model that has ``generate``. The interesting part is ``validation_step``."""

    def __init__(self, model: MarianMTModel, learning_rate: float = 1e-3) -> None:
        super().__init__()
        self.model = model
        self.learning_rate = learning_rate

    def training_step(self, batch: dict[str, Tensor]) -> Tensor:
        loss: Tensor = self.model(**batch).loss
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: dict[str, Tensor]) -> dict[str, Any]:
        self.log("val_loss", self.model(**batch).loss, prog_bar=True)
        ids, mask = batch["input_ids"], batch["attention_mask"]
        preds = self.model.generate(input_ids=ids, attention_mask=mask)  # type: ignore[misc]
        return {"preds": preds, "target": batch["labels"]}  # both (sentences, tokens), with different numbers of tokens

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), self.learning_rate, betas=(0.9, 0.98))


def make_tokenizer(lines: Sequence[str], size: int = 300) -> PreTrainedTokenizerFast:
    """Train a subword tokenizer. In a real project, call ``AutoTokenizer.from_pretrained``."""
    bpe = Tokenizer(models.BPE(unk_token="<unk>"))
    bpe.pre_tokenizer = pre_tokenizers.Metaspace()
    bpe.decoder = decoders.Metaspace()
    bpe.post_processor = processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", EOS)])
    special = ["<pad>", "</s>", "<unk>"]
    bpe.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False))
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=bpe, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )


def make_model(tokenizer: PreTrainedTokenizerFast, d_model: int = 64, layers: int = 2) -> MarianMTModel:
    """Make a small model. In a real project, call ``MarianMTModel.from_pretrained``."""
    config = MarianConfig(
        vocab_size=len(tokenizer),
        d_model=d_model,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=4 * d_model,
        decoder_ffn_dim=4 * d_model,
        max_position_embeddings=64,
        scale_embedding=True,
        activation_function="relu",
        pad_token_id=PAD,
        eos_token_id=EOS,
        forced_eos_token_id=EOS,
        decoder_start_token_id=PAD,
    )
    model = MarianMTModel(config)
    model.generation_config.max_length = 48
    return model


def number_pairs(count: int) -> list[tuple[str, str]]:
    """Distinct numbers of three to five digits, spelled out in English and French."""
    numbers = random.sample(range(100, 100_000), count)
    return [(num2words(number), num2words(number, lang="fr")) for number in numbers]


def collate(
    pairs: list[tuple[str, str]], tokenizer: PreTrainedTokenizerFast, collator: DataCollatorForSeq2Seq
) -> dict[str, Tensor]:
    """Make a batch. The labels are padded with -100."""
    sources, targets = map(list, zip(*pairs))
    encoded = tokenizer(sources, text_target=targets, return_token_type_ids=False)
    batch: dict[str, Tensor] = collator([dict(zip(encoded, row)) for row in zip(*encoded.values())])
    return batch


def main(argv: Sequence[str] | None = None) -> BLEUScore:
    """Train the model, and return the score of the last validation."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--max-steps", type=int, default=1200, metavar="N", help="training steps (default: %(default)s)"
    )
    parser.add_argument("--logdir", default="runs", help="TensorBoard logs (default: %(default)s)")
    args = parser.parse_args(argv)
    # Making a batch is cheap, so worker processes would not help.
    warnings.filterwarnings("ignore", ".*does not have many workers")
    # Lightning uses an API that recent versions of PyTorch deprecate.
    warnings.filterwarnings("ignore", ".*LeafSpec")
    torch.set_num_threads(1)  # more threads make a model this small slower
    pl.seed_everything(1)

    pairs = number_pairs(8_000)
    train, val = pairs[200:], pairs[:200]
    tokenizer = make_tokenizer([line for pair in train for line in pair])
    model = make_model(tokenizer)
    make_batch = partial(collate, tokenizer=tokenizer, collator=DataCollatorForSeq2Seq(tokenizer, model))

    callback = BLEUCallback(CorpusBLEU(decoder=tokenizer, percent=True))
    trainer = pl.Trainer(
        max_steps=args.max_steps,
        val_check_interval=min(300, args.max_steps),
        check_val_every_n_epoch=None,  # count steps across epochs
        log_every_n_steps=min(20, args.max_steps),
        gradient_clip_val=1.0,
        devices=1,
        logger=TensorBoardLogger(args.logdir, name="hugging_face"),
        enable_checkpointing=False,
        callbacks=[callback],
    )
    trainer.fit(
        Translator(model),
        # any sequence works as a dataset
        DataLoader(cast("Dataset[Any]", train), batch_size=32, shuffle=True, collate_fn=make_batch),
        DataLoader(cast("Dataset[Any]", val), batch_size=100, collate_fn=make_batch),
    )

    result = callback.results["val_bleu"].report
    assert isinstance(result, BLEUScore)  # for type checkers
    print(result)
    print(result.signature)
    return result


if __name__ == "__main__":
    main()
