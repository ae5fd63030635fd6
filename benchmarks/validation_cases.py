"""Part of benchmarks/versions.py: validations, in a loop, and in the Trainers of Lightning and of Transformers.

Each has two times: that of a batch, and that of the beginning and the end of a validation. What the Trainers take for
themselves does not count.
"""

from __future__ import annotations

import functools
import itertools
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
import transformers
from corpora import Corpus, pad
from counting_cases import EOS_ID, PAD_ID, Batches, corpus_label, ended_sentences, text, text_label
from pytorch_lightning.loggers import TensorBoardLogger
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter
from turns import Case, Heading, Measurement, Pass, clock
from validation import Batches as BatchDataset
from validation import Model

from lightning_bleu import BLEUCallback, CorpusBLEU, Evaluator
from lightning_bleu.hugging_face import EvaluatorMixin

UNITS = ["µs per batch", "ms per validation"]
SAMPLES = 8
"""How many samples there are, if there are any."""


def validation_cases(data: Path | None) -> Iterator[Case]:
    """All cases of this module: with TensorBoard, which shows samples and a figure, and for ids without loggers, too.

    Text has no case without samples: what stands out in it is looked for all the same, which earlier versions did not.
    """
    of_text = f"{text_label(data)}, batches of 64"
    of_ids = f"{corpus_label('WMT22', data)} with eos_id, batches of 64"
    yield validation_case(f"Evaluator with a SummaryWriter, {of_text}", partial(loop, data))
    yield validation_case(f"BLEUCallback with a TensorBoardLogger, {of_text}", partial(lightning, data))
    yield validation_case(f"EvaluatorMixin, samples=0, {of_ids}", partial(hugging_face, data, shows=False))
    yield validation_case(f"EvaluatorMixin with TensorBoard, {of_ids}", partial(hugging_face, data, shows=True))


def validation_case(name: str, prepare: Callable[[Path], Pass]) -> Case:
    """A case with two times."""
    return Case(Heading(name, UNITS), prepare)


def warm(run: Pass) -> Pass:
    """A pass that was made before."""
    run()
    return run


def measurement(in_batches: float, batches: int, in_ends: float, score: float) -> Measurement:
    """What a validation has taken, from seconds."""
    return Measurement([1e6 * in_batches / batches, 1e3 * in_ends], score)


# A loop


def loop(data: Path | None, folder: Path) -> Pass:
    """Validations in a loop."""
    evaluator = Evaluator(loggers=[SummaryWriter(folder)], samples=SAMPLES, parts=True)
    return warm(partial(validate, evaluator, text(data).lines))


def validate(evaluator: Evaluator, batches: Batches) -> Measurement:
    """Validate once."""
    times = [clock()]
    evaluator.start()
    times.append(clock())
    for batch in batches:
        evaluator.update(*batch)
    times.append(clock())
    results = evaluator.finish(0)
    times.append(clock())
    in_start, in_batches, in_finish = (end - start for start, end in itertools.pairwise(times))
    return measurement(in_batches, len(batches), in_start + in_finish, results["val_bleu"].score)


# Lightning


class TimedCallback(BLEUCallback):
    """Adds up the time of its hooks by their names."""

    def __init__(self) -> None:
        super().__init__(samples=SAMPLES, parts=True)
        self.seconds = defaultdict[str, float](float)


def timed_hook(name: str) -> Callable[..., None]:
    """A hook of the callback that is timed."""
    hook = getattr(BLEUCallback, name)

    @functools.wraps(hook)
    def run(self: TimedCallback, *args: Any, **kwargs: Any) -> None:
        start = clock()
        hook(self, *args, **kwargs)
        self.seconds[name] += clock() - start

    return run


HOOKS = [name for name in dir(pl.Callback) if name.startswith("on_validation_")]
for _name in HOOKS:  # all of them, because another version may use others
    setattr(TimedCallback, _name, timed_hook(_name))


def lightning(data: Path | None, folder: Path) -> Pass:
    """Validations in Lightning."""
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    callback, batches = TimedCallback(), text(data).lines
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=1,
        logger=TensorBoardLogger(folder),
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[callback],
    )
    loader = DataLoader(BatchDataset(batches, len(batches)), batch_size=None)
    model = Model()

    def run() -> Measurement:
        callback.seconds.clear()
        trainer.validate(model, loader, verbose=False)
        in_batches = sum(seconds for name, seconds in callback.seconds.items() if "batch" in name)
        in_ends = sum(callback.seconds.values()) - in_batches
        return measurement(in_batches, len(batches), in_ends, callback.results["val_bleu"].score)

    return warm(run)


# Transformers


class StoredModel(torch.nn.Module):
    """A model that is not used, with what the Trainer asks for."""

    main_input_name = "input_ids"

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.config: Any = transformers.PretrainedConfig(is_encoder_decoder=True)


class StoredTrainer(transformers.Seq2SeqTrainer):
    """Passes on hypotheses of the dataset, and adds up the time that it takes itself."""

    seconds: defaultdict[str, float]

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate."""
        return self.timed("own evaluation", super().evaluation_loop, *args, **kwargs)

    def prediction_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Return what is stored."""
        return self.timed("own batch", self.stored, inputs)

    def stored(self, inputs: Any) -> Any:
        """A loss, hypotheses, and references."""
        inputs = self._prepare_inputs(inputs)
        return torch.zeros(1), inputs["generated"], inputs["labels"]

    def timed(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function, and add up its time."""
        start = clock()
        result = function(*args, **kwargs)
        self.seconds[name] += clock() - start
        return result


class TimedTrainer(EvaluatorMixin, StoredTrainer):
    """Adds up the time that the Trainer and the mixin take together."""

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate."""
        return self.timed("evaluation", super().evaluation_loop, *args, **kwargs)

    def prediction_step(self, *args: Any, **kwargs: Any) -> Any:
        """Count a batch."""
        return self.timed("batch", super().prediction_step, *args, **kwargs)


Item = dict[str, list[int]]


def items(sentences: Corpus) -> list[Item]:
    """A dataset."""
    pairs = zip(sentences.hypotheses, sentences.references)
    return [{"input_ids": hypothesis, "generated": hypothesis, "labels": group[0]} for hypothesis, group in pairs]


def collate(rows: Sequence[Item]) -> dict[str, torch.Tensor]:
    """A batch. Labels are padded with -100."""
    batch = {key: pad([row[key] for row in rows]) for key in rows[0]}
    batch["labels"][batch["labels"] == PAD_ID] = -100
    return batch


def hugging_face(data: Path | None, folder: Path, *, shows: bool) -> Pass:
    """Evaluations in Transformers."""
    dataset: Any = items(ended_sentences(data, 64))
    trainer = TimedTrainer(
        StoredModel(),
        transformers.Seq2SeqTrainingArguments(
            output_dir=str(folder),
            per_device_eval_batch_size=64,
            predict_with_generate=True,
            use_cpu=True,
            report_to="tensorboard" if shows else "none",
            disable_tqdm=True,
            remove_unused_columns=False,
        ),
        data_collator=collate,
        evaluator=Evaluator(CorpusBLEU(pad_id=PAD_ID, eos_id=EOS_ID), samples=SAMPLES if shows else 0, parts=True),
    )
    trainer.remove_callback(transformers.PrinterCallback)

    def run() -> Measurement:
        trainer.seconds = defaultdict(float)
        scores = trainer.evaluate(dataset)
        seconds = trainer.seconds
        in_batches = seconds["batch"] - seconds["own batch"]
        in_ends = seconds["evaluation"] - seconds["own evaluation"]
        return measurement(in_batches, len(dataset) // 64, in_ends, scores["eval_bleu"])

    return warm(run)
