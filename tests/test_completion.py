"""Decoder-only models in real Trainers of Transformers: the scores are those of one prompt at a time."""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

from lightning_bleu import CorpusBLEU, Evaluator, EvaluatorMixin, corpus_bleu
from tests.helpers.process_groups import run_in_processes

PAD, EOS, UNK, FIRST_WORD, SIZE = 0, 1, 2, 3, 40
SENTENCES = 13
"""With batches of 4, the last batch is smaller, and two processes repeat sentences."""

ERRORS = {
    "no padding": "a batch must have labels and attention_mask, got input_ids, labels, position_ids: use a",
    "no labels": "a batch must have labels and attention_mask, got input_ids, attention_mask: use",
    "unmasked": "a prompt, where labels are -100, and one answer, got no prompt in row 0",
    "no answer": "got 0 answers (truncated, several turns, or packed?) in row 1",
    "two answers": "got 2 answers (truncated, several turns, or packed?) in row 2",
    "no padding token": "there is no padding token: pass processing_class=tokenizer to the Trainer, or set",
}


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


def complete(model: Any, prompt: list[int], **options: Any) -> list[int]:
    """Generate from one prompt, without padding."""
    model.eval()
    ids = model.generate(input_ids=torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt)).long(), **options)
    return [one for one in ids[0, len(prompt) :].tolist() if one not in (PAD, EOS)]


@cache
def make_pairs() -> list[tuple[list[int], list[int]]]:
    """Prompts and answers: what the model generates, with some words replaced, or all scores would be 0."""
    model, chosen = make_model(), random.Random(0)
    prompts = [[chosen.randrange(FIRST_WORD, SIZE) for _ in range(chosen.randint(1, 9))] for _ in range(SENTENCES)]
    answers = [
        [word if chosen.random() < 0.8 else chosen.randrange(FIRST_WORD, SIZE) for word in complete(model, prompt)]
        for prompt in prompts
    ]
    return [(prompt, [*answer, EOS]) for prompt, answer in zip(prompts, answers)]


def expected_score(model: Any, **options: Any) -> float:
    """BLEU of the text that the model generates from one prompt at a time."""
    tokenizer = make_tokenizer("left")
    pairs = [(complete(model, prompt, **options), answer[:-1]) for prompt, answer in make_pairs()]
    hypotheses, references = zip(*(tokenizer.batch_decode(pair, skip_special_tokens=True) for pair in pairs))
    return corpus_bleu(list(hypotheses), list(references)).bleu


def encode(prompt: list[int], answer: list[int]) -> dict[str, list[int]]:
    return {"input_ids": prompt + answer, "labels": [-100] * len(prompt) + answer}


class CompletionMaskCollator:
    """Labels from ``completion_mask``, like the collators of TRL, which have no tokenizer and pad on the right."""

    def __call__(self, items: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
        width = max(len(item["input_ids"]) for item in items)
        rows: dict[str, list[list[int]]] = {"input_ids": [], "attention_mask": [], "labels": []}
        for item in items:
            ids, padding = item["input_ids"], width - len(item["input_ids"])
            labels = [one if mask else -100 for one, mask in zip(ids, item["completion_mask"])]
            rows["input_ids"].append(ids + [PAD] * padding)
            rows["attention_mask"].append([1] * len(ids) + [0] * padding)
            rows["labels"].append(labels + [-100] * padding)
        return {name: torch.tensor(one) for name, one in rows.items()}


def make_trainer_class(kind: str) -> Any:
    from transformers import Trainer

    if kind == "plain":
        return Trainer

    class MaskTrainer(Trainer):
        """What TRL's SFTTrainer overrides: the columns, the loss with its statistics, and the step."""

        tokens = 0

        def _set_signature_columns_if_needed(self) -> None:
            self._signature_columns: Any = ["input_ids", "completion_mask"]

        def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, *args: Any, **kwargs: Any) -> Any:
            assert not return_outputs, "the logits are never needed"
            inputs["use_cache"] = False
            self.tokens += int((inputs["labels"] != -100).sum())
            return super().compute_loss(model, inputs, *args, **kwargs)

        def prediction_step(self, model: Any, inputs: Any, prediction_loss_only: bool, ignore_keys: Any = None) -> Any:
            with torch.no_grad():
                return self.compute_loss(model, self._prepare_inputs(inputs), not prediction_loss_only), None, None

    if kind == "completion":
        return type("CompletionTrainer", (EvaluatorMixin, Trainer), {})
    return type("CompletionMaskTrainer", (EvaluatorMixin, MaskTrainer), {"gen_kwargs": {"pad_token_id": EOS}})


def prompt_length(hypotheses: list[str], references: list[list[str]], sources: list[str]) -> list[float]:
    """A metric that needs the prompts."""
    return [len(source.split()) for source in sources]


def make_trainer(kind: str, model: Any, *, padding_side: str = "right", **options: Any) -> Any:
    """A trainer whose datasets are the sentences."""
    from transformers import DataCollatorForSeq2Seq, TrainingArguments

    tokenizer = make_tokenizer(padding_side)
    items = [encode(*pair) for pair in make_pairs()]
    if kind == "like TRL":
        items = [{**item, "completion_mask": [label != -100 for label in item.pop("labels")]} for item in items]
    evaluator = Evaluator({"bleu": CorpusBLEU(), "prompt": prompt_length}, decoder=tokenizer)
    defaults: Any = {"save_strategy": "no", "per_device_eval_batch_size": 4, "use_cpu": True, "report_to": "none"}
    return make_trainer_class(kind)(
        model,
        TrainingArguments("runs", **defaults | options),
        data_collator=CompletionMaskCollator() if kind == "like TRL" else DataCollatorForSeq2Seq(tokenizer),
        train_dataset=items,
        eval_dataset=items,
        **{} if kind == "plain" else {"evaluator": evaluator},
    )


def evaluate_all(folder: Path) -> dict[str, Any]:
    """Evaluate with trainers of all kinds."""
    os.chdir(folder)
    scores: dict[str, tuple[float, float]] = {}
    for kind, side in (("completion", "left"), ("completion", "right"), ("like TRL", "right")):
        found = make_trainer(kind, make_model(), padding_side=side).evaluate()
        scores[f"{kind}, padding {side}"] = found["eval_bleu"], found["eval_prompt"]
    found = {"scores": scores, "trained": list(train_and_evaluate())}
    trainer = make_trainer("completion", make_model())
    found["predict"] = trainer.predict(trainer.eval_dataset)
    trainer.gen_kwargs = {"num_beams": 2, "max_new_tokens": 6}
    found["beams"] = trainer.evaluate()["eval_bleu"]
    found["losses"] = {
        found["predict"].metrics["test_loss"],
        *(make_trainer(kind, make_model()).evaluate()["eval_loss"] for kind in ("plain", "completion")),
    }
    found["errors"] = find_errors()
    return found


def find_errors() -> dict[str, str]:
    """The errors of batches in which prompts and answers can't be found."""
    from transformers import DataCollatorForLanguageModeling, DataCollatorForSeq2Seq, DataCollatorWithFlattening

    flatten: Any = DataCollatorWithFlattening  # has no types
    trainer = make_trainer("completion", make_model())
    pad = DataCollatorForSeq2Seq(make_tokenizer("left"))
    item, ids = encode([4, 5], [6, EOS]), {"input_ids": [4, 5]}
    turns = {"input_ids": [4, 5, 6, 7], "labels": [-100, 5, -100, 7]}
    batches = {
        "no padding": flatten()([item, item]),
        "no labels": pad([ids]),
        "unmasked": DataCollatorForLanguageModeling(make_tokenizer("left"), mlm=False)([ids, ids]),
        "no answer": pad([item, encode([4, 5], [])]),
        "two answers": pad([item, item, turns]),
        "no padding token": pad([item]),
    }
    found = {}
    for name, batch in batches.items():
        trainer.model.generation_config.pad_token_id = None if name == "no padding token" else PAD
        with pytest.raises(ValueError) as error:  # noqa: PT011
            trainer.complete(batch)
        found[name] = str(error.value)
    trainer.gen_kwargs = {"pad_token_id": PAD}
    assert trainer.evaluate()["eval_bleu"] > 0
    return found


def train_and_evaluate() -> Iterator[tuple[float, float]]:
    """Scores while a model trains, and those that it should have."""
    trainer = make_trainer("like TRL", make_model(), max_steps=1, learning_rate=1e-2)
    for _ in range(2):
        trainer.train()
        yield trainer.evaluate()["eval_bleu"], expected_score(copy.deepcopy(trainer.model))


def evaluate_sharded(folder: Path) -> dict[str, float]:
    """Evaluate models whose parameters are sharded over the processes."""
    os.chdir(folder)
    torch.distributed.init_process_group("gloo")
    model = make_model()
    layers = ModuleWrapPolicy({type(model.model.layers[0])})
    options: Any = {"auto_wrap_policy": layers, "use_orig_params": True, "device_id": torch.device("cpu")}
    sharded = {"FSDP 1": FullyShardedDataParallel(model, **options)}
    if hasattr(torch.distributed.fsdp, "fully_shard"):  # since torch 2.6
        model, mesh = make_model(), init_device_mesh("cpu", (2,))
        for part in (*model.model.layers, model):
            torch.distributed.fsdp.fully_shard(part, mesh=mesh)
        sharded["FSDP 2"] = model
    scores = {}
    for name, model in sharded.items():
        # A Trainer that shards the model itself, which accelerate does on accelerators only, finds its columns before.
        # One sentence at a time, so that the processes end at different steps.
        trainer = make_trainer("completion", model, remove_unused_columns=False, per_device_eval_batch_size=1)
        scores[name] = trainer.evaluate()["eval_bleu"]
    return scores


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_scores_are_those_of_one_prompt_at_a_time(processes: int, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    expected = expected_score(make_model())
    assert 0.2 < expected < 0.9
    length = sum(len(prompt) for prompt, _ in make_pairs()) / SENTENCES
    for found in run_in_processes(processes, evaluate_all, tmp_path):
        assert found["scores"] == dict.fromkeys(found["scores"], (expected, length))
        assert found["beams"] == expected_score(make_model(), num_beams=2, max_new_tokens=6) != expected
        assert all(score == expected for score, expected in found["trained"])
        assert len({expected, *found["trained"]}) == 3, "training changes the model"
        predicted = found["predict"]
        for (prompt, answer), ids, labels in zip(make_pairs(), predicted.predictions, predicted.label_ids, strict=True):
            assert [one for one in ids if one not in (PAD, EOS, -100)] == complete(make_model(), prompt)
            assert labels[labels != -100].tolist() == answer
        assert len(found["losses"]) == 1, "the loss is that of Trainer"
        for name, message in ERRORS.items():
            assert message in found["errors"].pop(name)
        assert not found["errors"]


@pytest.mark.slow
def test_a_sharded_model_generates_until_all_processes_are_done(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    for found in run_in_processes(2, evaluate_sharded, tmp_path):
        assert found == dict.fromkeys(found, expected_score(make_model()))
