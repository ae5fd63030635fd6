"""Validate a decoder-only language model by the BLEU and chrF of its answers to prompts.

Takes about a minute on two CPU cores. From a checkout::

    pip install ".[examples]"
    python examples/language_model.py
    tensorboard --logdir runs

A small, randomly initialized Llama learns to translate number words from English to French. The tokenizer is trained
here too, so nothing is downloaded.

Prompts are padded on the left, so all answers begin in the same column. ``generate`` returns the prompts as well, and
``validation_step`` cuts them off by their width. Padding is the token that ends an answer, as in many models of this
kind, so labels are masked by position: the model has to learn where an answer ends. ``language_model_mistakes.py``
prints the scores if one of these is missing.
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
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from lightning_bleu import BLEUCallback, BLEUScore, CorpusBLEU, CorpusCHRF

PROMPT, END = "<|user|>{} in french<|assistant|>", "<|end|>"


class Translator(pl.LightningModule):
    """Trains any causal language model. The interesting part is ``validation_step``."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        super().__init__()
        self.model = model

    def training_step(self, batch: dict[str, Any]) -> Tensor:
        loss: Tensor = self.model(**batch["inputs"]).loss
        self.log("train_loss", loss, prog_bar=True, batch_size=len(batch["sources"]))
        return loss

    def validation_step(self, batch: dict[str, Any]) -> dict[str, Any]:
        prompts = batch["prompts"]
        ids = self.model.generate(**prompts, max_new_tokens=64)  # type: ignore[misc]
        answers = ids[:, prompts["input_ids"].shape[1] :]
        return {"preds": answers, "target": batch["references"], "source": batch["sources"]}

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), 3e-3)


def make_tokenizer(lines: Sequence[str], size: int = 300) -> PreTrainedTokenizerFast:
    """Train a subword tokenizer. In a real project, call ``AutoTokenizer.from_pretrained``."""
    bpe = Tokenizer(models.BPE(unk_token="<unk>"))
    bpe.pre_tokenizer = pre_tokenizers.Metaspace()
    bpe.decoder = decoders.Metaspace()
    special = [END, "<unk>", "<|user|>", "<|assistant|>"]
    bpe.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False))
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=bpe, pad_token=END, eos_token=END, unk_token="<unk>", padding_side="left"
    )


def make_model(tokenizer: PreTrainedTokenizerFast, size: int = 64) -> LlamaForCausalLM:
    """Make a small model. In a real project, call ``AutoModelForCausalLM.from_pretrained``."""
    shape = {"hidden_size": size, "intermediate_size": 4 * size, "num_hidden_layers": 2, "num_attention_heads": 4}
    special = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    options: dict[str, Any] = {"vocab_size": len(tokenizer), **shape, **special}
    return LlamaForCausalLM(LlamaConfig(**options))


def number_pairs(count: int) -> list[tuple[str, str]]:
    """Lists of two to five numbers below 1,000, spelled out in English and French."""

    def spell(numbers: list[int], lang: str) -> str:
        return ", ".join(num2words(number, lang=lang) for number in numbers)

    lists = [random.sample(range(1_000), random.randint(2, 5)) for _ in range(count)]
    return [(spell(numbers, "en"), spell(numbers, "fr")) for numbers in lists]


def collate(pairs: list[tuple[str, str]], tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    """Make a batch: the prompts to answer, and the same prompts with answers and labels to train on."""
    sources, references = map(list, zip(*pairs))
    encoded = tokenizer([PROMPT.format(source) for source in sources], padding=True, return_tensors="pt")
    prompts = {name: encoded[name] for name in ("input_ids", "attention_mask")}
    answers = [torch.tensor(ids) for ids in tokenizer([reference + END for reference in references]).input_ids]
    labels = pad_sequence(answers, batch_first=True, padding_value=-100)  # END stays, so the model learns to stop
    padding = labels == -100
    inputs = {
        "input_ids": torch.cat([prompts["input_ids"], labels.masked_fill(padding, tokenizer.pad_token_id)], 1),
        "attention_mask": torch.cat([prompts["attention_mask"], (~padding).long()], 1),
        "labels": torch.cat([torch.full_like(prompts["input_ids"], -100), labels], 1),
    }
    return {"inputs": inputs, "prompts": prompts, "references": references, "sources": sources}


def main(argv: Sequence[str] | None = None) -> BLEUScore:
    """Train the model, and return the score of the last validation."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--max-steps", type=int, default=900, metavar="N", help="training steps (default: %(default)s)")
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
    make_batch = partial(collate, tokenizer=tokenizer)
    callback = BLEUCallback({"bleu": CorpusBLEU(percent=True), "chrf": CorpusCHRF(percent=True)}, decoder=tokenizer)
    trainer = pl.Trainer(
        max_steps=args.max_steps,
        val_check_interval=min(300, args.max_steps),
        check_val_every_n_epoch=None,  # count steps across epochs
        gradient_clip_val=1.0,
        devices=1,
        logger=TensorBoardLogger(args.logdir, name="language_model"),
        enable_checkpointing=False,
        callbacks=[callback],
    )
    trainer.fit(
        Translator(make_model(tokenizer)),
        DataLoader(cast("Dataset[Any]", train), batch_size=32, shuffle=True, collate_fn=make_batch),
        DataLoader(cast("Dataset[Any]", val), batch_size=100, collate_fn=make_batch),
    )
    print(*(result.report for result in callback.results.values()), sep="\n")
    result = callback.results["val_bleu"].report
    assert isinstance(result, BLEUScore)  # for type checkers
    print(result.signature)
    return result


if __name__ == "__main__":
    main()
