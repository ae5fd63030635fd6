"""Real Trainers of Transformers that pass on stored hypotheses, as if a model had generated them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import IterableDataset, get_worker_info

from lightning_bleu.hugging_face import EvaluatorMixin

EOS = 1
WIDTH = 12
"""The number of columns of every tensor: accelerate concatenates the batches of iterable datasets."""

Item = dict[str, list[int]]


def decode(rows: list[list[int]]) -> list[str]:
    """A decoder: a word per id, without padding and the end."""
    return [" ".join(f"w{number}" for number in row if number > EOS) for row in rows]


def make_items(count: int, seed: int = 0) -> list[Item]:
    """Sources, hypotheses, and references; some words of the references are replaced."""
    chosen = random.Random(f"{count} {seed}")
    items = []
    for _ in range(count):
        labels = [chosen.randint(2, 12) for _ in range(chosen.randint(1, WIDTH - 1))]
        generated = [number if chosen.random() < 0.8 else chosen.randint(2, 12) for number in labels]
        source = [chosen.randint(2, 30) for _ in range(chosen.randint(1, WIDTH))]
        items.append({"input_ids": source, "generated": [*generated, EOS], "labels": [*labels, EOS]})
    return items


def texts_of(items: Sequence[Item]) -> tuple[list[str], list[list[str]], list[str]]:
    """Hypotheses, references, and sources as text."""
    hypotheses, references, sources = (
        decode([item[key] for item in items]) for key in ("generated", "labels", "input_ids")
    )
    return hypotheses, [[line] for line in references], sources


class Stream(IterableDataset[Item]):
    """A dataset without a length, of which each worker reads a share."""

    def __init__(self, items: list[Item]) -> None:
        self.items = items

    def __iter__(self) -> Iterator[Item]:
        worker = get_worker_info()
        return iter(self.items if worker is None else self.items[worker.id :: worker.num_workers])


class SizedStream(Stream):
    """An iterable dataset with a length."""

    def __len__(self) -> int:
        return len(self.items)


DATASETS: dict[str, Any] = {"map-style": list, "sized stream": SizedStream, "stream": Stream}


def collate(items: Sequence[Item]) -> dict[str, torch.Tensor]:
    """A batch. Labels are padded with -100."""
    return {
        key: torch.tensor(
            [[*item[key], *[-100 if key == "labels" else 0] * (WIDTH - len(item[key]))] for item in items]
        )
        for key in items[0]
    }


class Model(torch.nn.Module):
    """A model that is not used, with what the Trainer asks for."""

    main_input_name = "input_ids"

    def __init__(self) -> None:
        from transformers import PretrainedConfig  # slow to import

        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.config: Any = PretrainedConfig(is_encoder_decoder=True)

    def forward(self, **inputs: Any) -> dict[str, torch.Tensor]:
        """A loss to train with."""
        return {"loss": self.weight.sum()}


def make_trainer(evaluator: Any, kind: str = "Seq2SeqTrainer", **options: Any) -> Any:
    """A Trainer with an evaluator.

    Args:
        evaluator: the evaluator.
        kind: ``"Trainer"`` or ``"Seq2SeqTrainer"``.
        options: arguments of the Trainer, and of its ``TrainingArguments``.

    Returns:
        the Trainer. If its attribute ``stop_at`` is set, that batch of an evaluation, counted from 1, is interrupted.
        From the training step ``worse_from`` on, each hypothesis lacks its first word.
    """
    import transformers

    class StoredTrainer(getattr(transformers, kind)):  # type: ignore[misc]
        """Generates what is stored in the dataset."""

        stop_at, worse_from = 0, 1000

        def prediction_step(self, model: Any, inputs: Any, prediction_loss_only: bool, ignore_keys: Any = None) -> Any:
            self.stop_at -= 1
            if self.stop_at == 0:
                raise KeyboardInterrupt
            inputs = self._prepare_inputs(inputs)
            preds = inputs["generated"][:, self.state.global_step >= self.worse_from :]
            return torch.zeros(1), preds, inputs["labels"]

    names = ("eval_dataset", "train_dataset", "processing_class", "compute_metrics", "callbacks")
    own = {name: options.pop(name) for name in names if name in options}
    defaults: Any = {"output_dir": "run", "per_device_eval_batch_size": 4, "save_strategy": "no"}
    defaults |= {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "remove_unused_columns": False}
    if kind == "Seq2SeqTrainer":
        defaults["predict_with_generate"] = True
    args = getattr(transformers, kind.replace("Trainer", "TrainingArguments"))(**defaults | options)
    make: Any = type("StoredEvaluator", (EvaluatorMixin, StoredTrainer), {})
    trainer = make(Model(), args, data_collator=collate, evaluator=evaluator, **own)
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer
