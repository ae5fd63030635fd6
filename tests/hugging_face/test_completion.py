"""Decoder-only models in real Trainers of Transformers: the scores are those of one prompt at a time."""

from __future__ import annotations

import copy
import os
import re
import sqlite3
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

from lightning_bleu import CorpusBLEU, Evaluator
from lightning_bleu.hugging_face import EvaluatorMixin, Prompts
from tests.helpers.files import read_files
from tests.helpers.language_models import (
    EOS,
    PAD,
    Turn,
    bleu_of,
    complete_again,
    encode,
    make_chats,
    make_model,
    make_tokenizer,
    score_of,
    to_text,
)
from tests.helpers.process_groups import run_in_processes

pytestmark = pytest.mark.slow

SENTENCES = 7
"""With batches of 4, the last batch is smaller, and two processes repeat sentences."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainers write to their current folder."""
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)


def make_trainer(items: Any, side: str = "left", base: str = "Trainer", **options: Any) -> Any:
    """A trainer of a decoder-only model.

    Args:
        items: its datasets.
        side: the side of the padding.
        base: the name of its base class.
        options: attributes of the class, ``args`` of the TrainingArguments, and arguments of the Trainer.
    """
    import transformers

    tokenizer = make_tokenizer(side)
    args = {"per_device_eval_batch_size": 4, "use_cpu": True, "report_to": "none", "output_dir": "runs"}
    args |= {"disable_tqdm": True, "save_strategy": "no"} | options.pop("args", {})
    own = {name: options.pop(name) for name in ("evaluator", "model") if name in options}
    kind: Any = type("Completer", (EvaluatorMixin, getattr(transformers, base)), options)
    trainer = kind(
        **{"model": make_model(), "evaluator": Evaluator(CorpusBLEU())} | own,
        args=getattr(transformers, base.replace("Trainer", "TrainingArguments"))(**args),
        data_collator=transformers.DataCollatorForSeq2Seq(tokenizer),
        train_dataset=items,
        eval_dataset=items,
        processing_class=tokenizer,
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def make_turns() -> list[Turn]:
    """Prompts with one answer each."""
    return [turn for [turn] in make_chats(SENTENCES, 1)]


def make_items() -> list[dict[str, list[int]]]:
    return [encode([turn]) for turn in make_turns()]


def prompt_length(hypotheses: list[str], references: list[list[str]], sources: list[str]) -> list[float]:
    """A metric that needs the prompts."""
    return [len(source.split()) for source in sources]


def evaluate_all(folder: Path) -> dict[str, Any]:
    """Evaluate in the ways of users."""
    os.chdir(folder)
    found: dict[str, Any] = {"chats": []}
    for side, base in (("left", "Trainer"), ("right", "Trainer"), ("left", "Seq2SeqTrainer")):
        evaluator = Evaluator({"bleu": CorpusBLEU(), "prompt": prompt_length})
        chats = [encode(chat) for chat in make_chats(SENTENCES, 3)]
        scores = make_trainer(chats, side, base, evaluator=evaluator).evaluate()
        found["chats"].append((scores["eval_bleu"], scores["eval_prompt"]))
    found["trained"] = list(train_and_evaluate())
    items = make_items()
    found["predict"] = make_trainer(items).predict(items)
    plain = make_trainer(items, evaluator=None)
    found["losses"] = {found["predict"].metrics["test_loss"], plain.evaluate()["eval_loss"]}
    return found


def train_and_evaluate() -> Iterator[tuple[float, float]]:
    """Scores while a model trains, and those that it should have."""
    trainer = make_trainer(make_items(), args={"max_steps": 1, "learning_rate": 1e-2})
    for _ in range(2):
        trainer.train()
        yield trainer.evaluate()["eval_bleu"], score_of(complete_again(make_turns(), copy.deepcopy(trainer.model)))


@pytest.mark.promise("6: what a model generates is what it does for one prompt")
def test_scores_are_those_of_one_prompt_at_a_time(tmp_path: Path) -> None:
    turns, last = make_turns(), [chat[-1] for chat in make_chats(SENTENCES, 3)]
    expected = score_of(last)
    assert 0.2 < expected < 0.9
    length = sum(len(to_text(turn.prompt).split()) for turn in last) / SENTENCES
    for found in run_in_processes(2, evaluate_all, tmp_path):
        assert found["chats"] == [(pytest.approx(expected, abs=1e-12), pytest.approx(length))] * 3
        assert all(score == pytest.approx(expected, abs=1e-12) for score, expected in found["trained"])
        assert len({score_of(turns), *(score for score, _ in found["trained"])}) == 3, "training changes the model"
        predicted = found["predict"]
        assert predicted.metrics["test_bleu"] == pytest.approx(score_of(turns), abs=1e-12)
        for turn, ids, labels in zip(turns, predicted.predictions, predicted.label_ids, strict=True):
            assert [token for token in ids if token not in (PAD, EOS, -100)] == turn.generated
            assert labels[labels != -100].tolist() == turn.answer
        assert len(found["losses"]) == 1, "the loss is that of Trainer"


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
    # A Trainer that shards the model itself, which accelerate does on accelerators only, finds its columns before.
    # One sentence at a time, so that the processes end at different steps.
    args = {"remove_unused_columns": False, "per_device_eval_batch_size": 1}
    return {
        name: make_trainer(make_items(), model=model, args=args).evaluate()["eval_bleu"]
        for name, model in sharded.items()
    }


@pytest.mark.long
def test_a_sharded_model_generates_until_all_processes_are_done(tmp_path: Path) -> None:
    expected = pytest.approx(score_of(make_turns()), abs=1e-12)
    for scores in run_in_processes(2, evaluate_sharded, tmp_path):
        assert scores == dict.fromkeys(scores, expected)


def test_padding_may_also_be_the_end_and_has_to_be_known() -> None:
    trainer = make_trainer(make_items(), "right")
    trainer.processing_class.pad_token = trainer.processing_class.eos_token
    trainer.gen_kwargs = {"pad_token_id": EOS}
    assert trainer.evaluate()["eval_bleu"] == pytest.approx(score_of(make_turns()))
    trainer.processing_class, trainer.gen_kwargs = None, {}
    trainer.evaluator = Evaluator(decoder=make_tokenizer("left"))
    trainer.model.generation_config.pad_token_id = None
    with pytest.raises(ValueError, match="there is no padding token: pass processing_class=tokenizer to the Trainer"):
        trainer.evaluate()


ARGUMENTS: Any = {
    "the call": [
        ({"num_beams": 2, "max_new_tokens": 5}, {"num_beams": 3, "max_length": 40}, {}, {}),
        {"num_beams": 2, "max_new_tokens": 5},
    ],
    "gen_kwargs": [
        ({}, {"num_beams": 2, "max_new_tokens": 5}, {"generation_num_beams": 3}, {"max_new_tokens": 9}),
        {"num_beams": 2, "max_new_tokens": 5},
    ],
    "Seq2SeqTrainer": [
        ({"num_beams": None}, {}, {"generation_num_beams": 2, "generation_max_length": 9}, {"max_new_tokens": 7}),
        {"num_beams": 2, "max_length": 9, "max_new_tokens": None},
    ],
}
"""Arguments of the call, gen_kwargs, those of Seq2SeqTrainer, and of the model; those that count."""


@pytest.mark.filterwarnings("ignore:generate stopped at its limit")
@pytest.mark.parametrize("name", ARGUMENTS)
def test_the_strongest_argument_counts(name: str) -> None:
    (call, gen_kwargs, args, config), strongest = ARGUMENTS[name]
    turns = [turn for turn in make_turns() if len(turn.prompt) < 7]
    model = make_model()
    for option, value in config.items():
        setattr(model.generation_config, option, value)
    datasets = {"one": [encode([turn]) for turn in turns]}
    args = {"per_device_eval_batch_size": 1} | args  # max_length counts the padding of a batch
    trainer = make_trainer(datasets, base="Seq2SeqTrainer", model=model, gen_kwargs=gen_kwargs, args=args)
    expected = score_of(complete_again(turns, make_model(), **strongest))
    assert 0 < expected != score_of(turns)
    assert trainer.evaluate(**call)["eval_one_bleu"] == pytest.approx(expected)
    assert trainer.predict(datasets["one"], **call).metrics["test_bleu"] == pytest.approx(expected)


def test_labels_may_have_another_name() -> None:
    trainer = make_trainer(make_items(), args={"label_names": ["answer"], "remove_unused_columns": False})
    collate = trainer.data_collator

    def rename(rows: Any) -> Any:
        batch = dict(collate(rows))
        return {"answer": batch.pop("labels"), **batch}

    trainer.data_collator = rename
    trainer.compute_loss = lambda model, inputs, **kwargs: (torch.zeros(1), {"logits": torch.zeros(1)})
    assert trainer.evaluate()["eval_bleu"] == pytest.approx(score_of(make_turns()))


def test_prompts_and_answers_apart_need_a_split() -> None:
    def split(self: Any, inputs: Any) -> Prompts:
        labels = inputs.pop("labels")  # which the loss cannot take
        return Prompts(inputs, labels)

    items = [{"input_ids": turn.prompt, "labels": turn.answer} for turn in make_turns()]
    scores = make_trainer(items, split=split).evaluate()
    assert scores["eval_bleu"] == pytest.approx(score_of(make_turns()))
    assert "eval_loss" not in scores


def test_an_engine_that_returns_strings_for_rows_of_its_own() -> None:
    rows = [f"text {number}" for number in range(9)]

    def split(self: Any, inputs: Any) -> Prompts:
        texts = inputs.pop("texts")
        references = [[text.upper(), f"{text} a b c d"] for text in texts]
        return Prompts(
            {"texts": texts}, references, texts, group=["odd" if text[-1] in "13579" else "even" for text in texts]
        )

    def complete(self: Any, prompts: Prompts) -> list[str]:
        return [f"{text} a b c {text[-1]}" for text in prompts.inputs["texts"]]

    trainer = make_trainer(rows, args={"remove_unused_columns": False}, split=split, complete=complete)
    trainer.data_collator = lambda texts: {"texts": list(texts)}
    scores = trainer.evaluate()
    odd = [(f"{text} a b c {text[-1]}", f"{text} a b c d") for text in rows[1::2]]
    assert scores["eval_bleu_odd"] == pytest.approx(bleu_of(*map(list, zip(*odd))))
    assert "eval_loss" not in scores


def evaluate_text_to_sql(folder: Path) -> float:
    """The score of answers to nine questions about databases with 0 to 2 rows. The first answer is wrong."""
    os.chdir(folder)
    databases = {}
    for size in range(3):
        databases[f"db {size}"] = sqlite3.connect(":memory:")
        databases[f"db {size}"].execute("CREATE TABLE pet (name)")
        databases[f"db {size}"].executemany("INSERT INTO pet VALUES (?)", [("cat",)] * size)

    def execution(hypotheses: list[str], references: list[list[str]], db_id: list[str]) -> list[float]:
        scores = []
        for hypothesis, [reference], name in zip(hypotheses, references, db_id, strict=True):
            rows, expected = (databases[name].execute(query).fetchall() for query in (hypothesis, reference))
            scores.append(float(rows == expected))
        return scores

    def split(self: Any, inputs: Any) -> Prompts:
        names = [f"db {number % 3}" for number in inputs["db_id"]]
        target = ["SELECT count(*) FROM pet"] * len(names)
        return Prompts({"texts": inputs["texts"]}, target, columns={"db_id": names})

    def complete(self: Any, prompts: Prompts) -> list[str]:
        return [f"SELECT {number % 3 if number else 1}" for number in prompts.inputs["texts"]]

    evaluator, args = Evaluator({"execution": execution}), {"remove_unused_columns": False}
    trainer = make_trainer([*range(9)], evaluator=evaluator, args=args, split=split, complete=complete)
    trainer.data_collator = lambda numbers: {"texts": numbers, "db_id": numbers}
    score: float = trainer.evaluate()["eval_execution"]
    for database in databases.values():
        database.close()
    return score


def test_a_metric_of_text_to_sql_gets_the_database_of_each_question(tmp_path: Path) -> None:
    assert evaluate_text_to_sql(tmp_path) == pytest.approx(8 / 9)


@pytest.mark.long
def test_a_metric_of_text_to_sql_gets_the_databases_in_two_processes(tmp_path: Path) -> None:
    assert run_in_processes(2, evaluate_text_to_sql, tmp_path) == [pytest.approx(8 / 9)] * 2


@pytest.mark.parametrize("skipped", [{0, 1, 2, 3}, {1}])
def test_a_dataset_without_prompts_has_only_a_loss(skipped: set[int]) -> None:
    batches = iter(range(9))

    def split(self: Any, inputs: Any) -> Prompts | None:
        return None if next(batches) in skipped else EvaluatorMixin.split(self, inputs)

    trainer = make_trainer(make_items(), split=split)
    if len(skipped) == 1:
        with pytest.raises(ValueError, match="split returned None or Prompts without target for some batches only"):
            trainer.evaluate()
        return
    scores = trainer.evaluate()
    assert "eval_loss" in scores
    assert "eval_bleu" not in scores


@pytest.mark.parametrize("base", ["Trainer", "Seq2SeqTrainer"])
def test_predict_without_labels_returns_ids_and_scores_shows_and_writes_nothing(base: str, tmp_path: Path) -> None:
    unlabeled = [{"input_ids": turn.prompt} for turn in make_turns()]
    evaluator = Evaluator(CorpusBLEU(), translations="t", confidence=0.9, compare_to="best")
    trainer = make_trainer(make_items(), "right", base, evaluator=evaluator, args={"report_to": "tensorboard"})
    trainer.predict(make_items())
    files, results = read_files(tmp_path), dict(evaluator.results)
    assert [*results] == ["test_bleu"]
    predicted = trainer.predict(unlabeled)
    for turn, ids in zip(make_turns(), predicted.predictions, strict=True):
        assert [token for token in ids if token not in (PAD, EOS, -100)] == turn.generated
    assert predicted.label_ids is None
    assert {"test_bleu", "test_loss"}.isdisjoint(predicted.metrics)
    assert read_files(tmp_path) == files
    assert dict(evaluator.results) == results
    message = r"needs references, but split found none in a batch with \['input_ids', 'attention_mask'\]: set label_na"
    with pytest.raises(ValueError, match=message):
        trainer.evaluate(unlabeled)


SAMPLING = "generation_config.do_sample is True, so answers are random"
LIMIT = r"generate stopped at its limit, after \d+ new tokens, but a reference has \d+: set gen_kwargs"
LONG = [3] * 20
SUSPECTS: Any = {
    "sampling": ({}, {"do_sample": True}, [], SAMPLING),
    "sampling on purpose": ({"do_sample": True}, {"do_sample": True}, [], None),
    "the default limit": ({}, {"max_new_tokens": None}, LONG, LIMIT),
    "another end": ({"stopping_criteria": [lambda *args: torch.tensor([True])]}, {"max_new_tokens": None}, LONG, None),
}
"""Arguments of the call, and of the model; words to add to references; the warning."""


@pytest.mark.filterwarnings("ignore:Using the model-agnostic default")  # Transformers itself
@pytest.mark.parametrize("name", SUSPECTS)
def test_likely_mistakes_warn_once(name: str) -> None:
    arguments, config, words, message = SUSPECTS[name]
    model = make_model()
    for option, value in config.items():
        setattr(model.generation_config, option, value)
    items = [encode([turn._replace(answer=[*words, *turn.answer])]) for turn in make_turns()]
    trainer = make_trainer(items, model=model, gen_kwargs=arguments)
    if message is None:
        trainer.evaluate()  # warnings are errors
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            trainer.evaluate()
    ours = [str(warning.message) for warning in caught if "`" not in str(warning.message)]
    assert len(ours) == 1
    assert re.match(message, ours[0])
