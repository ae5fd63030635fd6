"""Real Trainers of Transformers that pass on stored hypotheses, as if a model had generated them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils.data import IterableDataset, get_worker_info

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
    """A dataset without a length."""

    def __init__(self, items: list[Item]) -> None:
        self.items = items

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)


class SizedStream(Stream):
    """An iterable dataset with a length."""

    def __len__(self) -> int:
        return len(self.items)


class SharedStream(SizedStream):
    """A dataset of which each worker reads a share."""

    def __iter__(self) -> Iterator[Item]:
        worker = get_worker_info()
        return iter(self.items if worker is None else self.items[worker.id :: worker.num_workers])


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

    def __init__(self, is_encoder_decoder: bool = True) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.config = SimpleNamespace(is_encoder_decoder=is_encoder_decoder)

    def forward(self, **inputs: Any) -> dict[str, torch.Tensor]:
        """A loss to train with."""
        return {"loss": self.weight.sum()}


def make_trainer(bleu: Any, kind: str = "Seq2SeqTrainer", model: Any = None, **options: Any) -> Any:
    """A Trainer with a metric.

    Args:
        bleu: the metric.
        kind: ``"Trainer"`` or ``"Seq2SeqTrainer"``.
        model: a :class:`Model`.
        options: arguments of the Trainer, and of its ``TrainingArguments``.

    Returns:
        the Trainer. If its attribute ``stop_at`` is set, that batch of an evaluation, counted from 1, is interrupted.
    """
    import transformers  # slow to import

    class StoredTrainer(getattr(transformers, kind)):  # type: ignore[misc]
        """Generates what is stored in the dataset."""

        stop_at = 0

        def prediction_step(self, model: Any, inputs: Any, prediction_loss_only: bool, ignore_keys: Any = None) -> Any:
            self.stop_at -= 1
            if self.stop_at == 0:
                raise KeyboardInterrupt
            inputs = self._prepare_inputs(inputs)
            return torch.zeros(1), inputs["generated"], inputs["labels"]

    own = {name: options.pop(name) for name in ("eval_dataset", "train_dataset", "processing_class") if name in options}
    defaults: Any = {"output_dir": "run", "per_device_eval_batch_size": 4, "save_strategy": "no"}
    defaults |= {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "remove_unused_columns": False}
    if kind == "Seq2SeqTrainer":
        defaults["predict_with_generate"] = True
    make_args = getattr(transformers, kind.replace("Trainer", "TrainingArguments"))
    args = make_args(
        **{"output_dir": "run"} | defaults | {"per_device_eval_batch_size": 4, "save_strategy": "no"} | options
    )
    trainer = StoredTrainer(
        model or Model(), args, data_collator=collate, compute_metrics=bleu, callbacks=[bleu], **own
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer
