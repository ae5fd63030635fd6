"""TRL's SFTTrainer: the scores are those of texts that are generated one prompt at a time."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from lightning_bleu import CorpusBLEU, Evaluator
from lightning_bleu.hugging_face import EvaluatorMixin
from tests.helpers.language_models import (
    FIRST_WORD,
    SIZE,
    bleu_of,
    complete,
    make_chats,
    make_model,
    make_tokenizer,
    replace_words,
    score_of,
    to_text,
)
from tests.helpers.process_groups import run_in_processes

pytestmark = [pytest.mark.slow, pytest.mark.long]

TEMPLATE = """
{%- for message in messages -%}
    {%- if message.role == 'assistant' -%}
        {{ 'word3 ' }}{% generation %}{{ (message.content + ' </s>') | trim }}{% endgeneration %}{{ ' ' }}
    {%- else -%}
        {{ {'system': 'word4', 'user': 'word5', 'tool': 'word6'}[message.role] }} {{ message.content }}{{ ' ' }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ 'word3 ' }}{%- endif -%}
"""
ROLES = [
    ["user", "assistant"],
    ["system", "user", "assistant", "user", "assistant"],
    ["user", "assistant", "tool", "assistant", "assistant"],
    ["system", "user", "assistant", "assistant"],
    ["user", "assistant", "user", "tool", "assistant"],
]
"""With system and tool messages, and adjacent messages of the assistant."""


def make_chat_tokenizer() -> Any:
    tokenizer = make_tokenizer("right")
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def make_messages() -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """Chats as rows of a dataset, and the last answer of each, which is generated, and its reference."""
    tokenizer, model, chosen = make_chat_tokenizer(), make_model(), random.Random(0)
    rows, answers = [], []
    for roles in ROLES:
        messages: list[dict[str, str]] = []
        for role in roles:
            content = " ".join(f"word{chosen.randrange(FIRST_WORD, SIZE)}" for _ in range(3))
            if role == "assistant":
                prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
                generated = complete(model, tokenizer(prompt).input_ids)
                content = to_text(replace_words(generated, chosen))
                answer = to_text(generated), content
            messages.append({"role": role, "content": content})
        rows.append({"messages": messages})
        answers.append(answer)
    return rows, answers


def make_trainer(rows: Any, **options: Any) -> Any:
    datasets, trl = pytest.importorskip("datasets"), pytest.importorskip("trl")
    datasets.disable_progress_bars()
    dataset = datasets.Dataset.from_list(rows)
    args: Any = {
        "per_device_eval_batch_size": 2,
        "use_cpu": True,
        "bf16": False,
        "report_to": "none",
        "disable_tqdm": True,
    }
    args |= {"gradient_checkpointing": False} | options
    return type("Tuned", (EvaluatorMixin, trl.SFTTrainer), {})(
        make_model(),
        trl.SFTConfig("runs", **args),
        train_dataset=dataset,
        eval_dataset=dataset,
        processing_class=make_chat_tokenizer(),
        evaluator=Evaluator(CorpusBLEU()),
    )


def make_completions() -> list[dict[str, str]]:
    turns = [turn for [turn] in make_chats(9, 1)]
    return [{"prompt": f"{to_text(turn.prompt)} ", "completion": to_text(turn.answer)} for turn in turns]


def evaluate_all(folder: Path, chats: Any) -> list[float]:
    """Scores of completions and of chats; each trainer also has a loss."""
    os.chdir(folder)
    trainers = [make_trainer(make_completions()), make_trainer(chats, assistant_only_loss=True)]
    scores = [trainer.evaluate() for trainer in trainers]
    assert all("eval_loss" in of_trainer for of_trainer in scores)
    return [of_trainer["eval_bleu"] for of_trainer in scores]


def test_scores_are_those_of_one_prompt_at_a_time(tmp_path: Path) -> None:
    pytest.importorskip("trl", minversion="1.0")
    rows, answers = make_messages()
    expected = [score_of([turn for [turn] in make_chats(9, 1)]), bleu_of(*map(list, zip(*answers)))]
    assert all(0.2 < score < 0.9 for score in expected)
    for scores in run_in_processes(2, evaluate_all, tmp_path, rows):
        assert scores == pytest.approx(expected, abs=1e-12)
