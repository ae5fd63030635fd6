"""Tiny decoder-only models and their tokenizers. What they should score is generated one prompt at a time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from sacrebleu.metrics.bleu import BLEU

PAD, EOS, UNK, FIRST_WORD, SIZE = 0, 1, 2, 3, 40

Ids = list[int]


class Turn(NamedTuple):
    """A prompt with everything before it, what a model generates from it alone, and the reference."""

    prompt: Ids
    generated: Ids
    answer: Ids


def make_tokenizer(padding_side: str) -> Any:
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    make: Any = transformers.PreTrainedTokenizerFast  # has no types

    words = ["<pad>", "</s>", "<unk>", *(f"word{i}" for i in range(FIRST_WORD, SIZE))]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    names = ["input_ids", "attention_mask"]
    return make(tokenizer_object=tokenizer, padding_side=padding_side, model_input_names=names, **special)


def make_model() -> Any:
    """A Llama that ends sentences early, late, and not at all."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=SIZE,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        pad_token_id=PAD,
        bos_token_id=None,
        eos_token_id=EOS,
        initializer_range=0.5,
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        model.lm_head.weight[EOS] *= 1.5
    model.generation_config.max_new_tokens = 12
    return model


def complete(model: Any, prompt: Ids, **options: Any) -> Ids:
    """Generate from one prompt, without padding."""
    model.eval()
    ids = model.generate(input_ids=torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt)).long(), **options)
    return [one for one in ids[0, len(prompt) :].tolist() if one not in (PAD, EOS)]


def replace_words(words: Ids, chosen: random.Random) -> Ids:
    """Replace a fifth of the words, so that scores are between those of other words and of the same."""
    return [word if chosen.random() < 0.8 else chosen.randrange(FIRST_WORD, SIZE) for word in words]


@cache
def make_chats(count: int, most_turns: int) -> list[list[Turn]]:
    """Chats whose answers are those of the model, with some words replaced."""
    model, chosen, chats = make_model(), random.Random(0), []
    for _ in range(count):
        chat: list[Turn] = []
        history: Ids = []
        for _ in range(chosen.randint(1, most_turns)):
            question = [chosen.randrange(FIRST_WORD, SIZE) for _ in range(chosen.randint(1, 9))]
            prompt = history + question
            generated = complete(model, prompt)
            answer = [*replace_words(generated, chosen), EOS]
            chat.append(Turn(prompt, generated, answer))
            history = prompt + answer
        chats.append(chat)
    return chats


def encode(chat: Sequence[Turn]) -> dict[str, Ids]:
    """The row of a chat, which may have a single turn; labels are -100 outside the answers."""
    labels: Ids = []
    for turn in chat:
        labels += [-100] * (len(turn.prompt) - len(labels)) + turn.answer
    last = chat[-1]
    return {"input_ids": last.prompt + last.answer, "labels": labels}


def to_text(ids: Ids) -> str:
    text: str = make_tokenizer("left").decode(ids, skip_special_tokens=True)
    return text


def bleu_of(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """The score of sacreBLEU, from 0 to 1."""
    score: float = BLEU().corpus_score(hypotheses, [references]).score
    return score / 100


def score_of(turns: Sequence[Turn]) -> float:
    """BLEU of what the model generates from one prompt at a time."""
    return bleu_of([to_text(turn.generated) for turn in turns], [to_text(turn.answer) for turn in turns])


def complete_again(turns: Sequence[Turn], model: Any, **options: Any) -> list[Turn]:
    """The same prompts, completed by another model or with other options."""
    return [turn._replace(generated=complete(model, turn.prompt, **options)) for turn in turns]
