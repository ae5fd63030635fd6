"""Print the BLEU of a decoder-only language model, measured the right way and with one mistake at a time.

Takes one to two minutes on two CPU cores. From a checkout::

    pip install ".[examples]"
    python examples/language_model_mistakes.py

Trains the model of ``language_model.py`` until it translates well, but not perfectly, and scores it many times. Only
one mistake needs a second model: it is trained on labels in which the end of each answer is masked. The page
"Decoder-only models" of the documentation explains the mistakes.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from typing import Any, cast

import pytorch_lightning as pl
import torch
from language_model import PROMPT, Translator, collate, make_model, make_tokenizer, number_pairs
from torch import Tensor
from torch.nn.functional import pad
from torch.utils.data import DataLoader, Dataset
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from lightning_bleu import corpus_bleu

Pairs = list[tuple[str, str]]


def train(pairs: Pairs, tokenizer: PreTrainedTokenizerFast, steps: int, mask_end: bool = False) -> LlamaForCausalLM:
    """Train a model. To mask padding in the labels by its id masks the end of the answers too."""

    def make_batch(pairs: Pairs) -> dict[str, Any]:
        batch = collate(pairs, tokenizer)
        if mask_end:
            batch["inputs"]["labels"][batch["inputs"]["input_ids"] == tokenizer.pad_token_id] = -100
        return batch

    pl.seed_everything(1, verbose=False)
    model = make_model(tokenizer)
    trainer = pl.Trainer(
        max_steps=steps,
        gradient_clip_val=1.0,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
    )
    dataset = cast("Dataset[Any]", pairs)
    trainer.fit(Translator(model), DataLoader(dataset, batch_size=32, shuffle=True, collate_fn=make_batch))
    model.eval()  # type: ignore[no-untyped-call]
    return model


@torch.inference_mode()
def score(
    model: LlamaForCausalLM, endless: LlamaForCausalLM, pairs: Pairs, tokenizer: PreTrainedTokenizerFast
) -> dict[str, float]:
    """The BLEU of each way to measure it, in percent. `endless` was trained with the ends masked in the labels."""
    batch = collate(pairs, tokenizer)
    inputs, prompts, references = batch["inputs"], batch["prompts"], batch["references"]
    prompt_width, width = prompts["input_ids"].shape[1], inputs["input_ids"].shape[1]
    tokenizer.padding_side = "right"
    padded_right = collate(pairs, tokenizer)["prompts"]
    tokenizer.padding_side = "left"

    def bleu(preds: Tensor, target: Any = references, **options: Any) -> float:
        return float(corpus_bleu(preds, target, percent=True, **({"decoder": tokenizer} | options)).bleu)

    def generate(model: Any = model, max_new_tokens: int = 64, **options: Any) -> Tensor:
        ids: Tensor = model.generate(max_new_tokens=max_new_tokens, **options)
        return ids

    ids = generate(**prompts)
    answers = ids[:, prompt_width:]
    not_stopped = generate(**prompts, eos_token_id=tokenizer.unk_token_id)[:, prompt_width:]
    continued = generate(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
    # as if the batch had another prompt that is 64 tokens longer
    padded_more = pad(prompts["input_ids"], (64, 0), value=tokenizer.pad_token_id)
    logits, labels = model(**inputs).logits, inputs["labels"]
    next_logits, next_labels = logits[:, :-1], labels[:, 1:]
    return {
        "the right way": bleu(answers),
        "prompts in the hypotheses": bleu(ids),
        "prompts in the references": bleu(answers, [PROMPT.format(source) + target for source, target in pairs]),
        "prompts in both": bleu(ids, inputs["input_ids"]),
        "`generate` gets the references, prompts cut off": bleu(continued[:, prompt_width:]),
        "`generate` gets the references, both cut off": bleu(continued[:, width:]),
        "prompts padded on the right": bleu(generate(**padded_right)[:, prompt_width:]),
        "no attention mask": bleu(generate(input_ids=prompts["input_ids"])[:, prompt_width:]),
        "no attention mask, 64 more tokens of padding": bleu(generate(input_ids=padded_more)[:, 64 + prompt_width :]),
        "`max_new_tokens=8`": bleu(generate(**prompts, max_new_tokens=8)[:, prompt_width:]),
        "no stop at `eos`": bleu(not_stopped),
        "no stop at `eos`, but `eos_id` is set": bleu(not_stopped, eos_id=tokenizer.eos_token_id),
        "trained with `eos` masked in the labels": bleu(generate(endless, **prompts)[:, prompt_width:]),
        "special tokens decoded as text": bleu(answers, decoder=lambda rows: tokenizer.batch_decode(rows)),
        "logits as they are": bleu(logits, labels),
        "logits masked, not shifted": bleu(logits.argmax(-1).masked_fill(labels == -100, -100), labels),
        "logits shifted, not masked": bleu(next_logits, next_labels),
        "logits masked and shifted": bleu(next_logits.argmax(-1).masked_fill(next_labels == -100, -100), next_labels),
    }


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Train both models, print the scores, and return them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--max-steps", type=int, default=400, metavar="N", help="training steps (default: %(default)s)")
    args = parser.parse_args(argv)
    warnings.simplefilter("ignore")  # the mistakes are on purpose
    torch.set_num_threads(1)
    pl.seed_everything(1)

    pairs = number_pairs(8_000)
    training, validation = pairs[200:], pairs[:200]
    tokenizer = make_tokenizer([line for pair in training for line in pair])
    model = train(training, tokenizer, args.max_steps)
    endless = train(training, tokenizer, args.max_steps, mask_end=True)
    scores = score(model, endless, validation, tokenizer)
    for name, bleu in scores.items():
        print(f"{round(bleu, -1):4.0f}  {name}")  # other rounding errors of a processor change up to 12 points
    return scores


if __name__ == "__main__":
    main()
