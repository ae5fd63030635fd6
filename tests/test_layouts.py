"""Rows of every layout in real Trainers: the scores are those of texts that are generated one prompt at a time."""

from __future__ import annotations

import copy
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from lightning_bleu import CorpusBLEU, Evaluator
from lightning_bleu.hugging_face import EvaluatorMixin, Prompts
from lightning_bleu.tasks import TokenCount
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


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Trainers write to their current folder."""
    pytest.importorskip("transformers")
    before, after = Path.cwd(), tmp_path_factory.mktemp("layouts")
    os.chdir(after)
    yield after
    os.chdir(before)


def make_trainer(items: Any, side: str = "left", base: str = "Trainer", **options: Any) -> Any:
    """A trainer of a decoder-only model.

    Args:
        items: its evaluation dataset.
        side: the side of the padding.
        base: the name of its base class.
        options: attributes of the class, classes ``before`` the mixin, ``args`` of the TrainingArguments, and other
            arguments of the Trainer.
    """
    import transformers

    tokenizer = make_tokenizer(side)
    args = {"per_device_eval_batch_size": 4, "use_cpu": True, "report_to": "none", "output_dir": "runs"}
    args |= {"disable_tqdm": True} | options.pop("args", {})
    own = {name: options.pop(name) for name in ("evaluator", "compute_metrics", "model") if name in options}
    bases = (*options.pop("before", ()), EvaluatorMixin, getattr(transformers, base))
    kind: Any = type("Completer", bases, options)
    trainer = kind(
        **{"model": make_model(), "evaluator": Evaluator(CorpusBLEU())} | own,
        args=getattr(transformers, base.replace("Trainer", "TrainingArguments"))(**args),
        data_collator=transformers.DataCollatorForSeq2Seq(tokenizer),
        eval_dataset=items,
        processing_class=tokenizer,
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


CHATS = 9
"""With batches of 4, the last one is smaller, and two processes repeat rows."""


def evaluate_layouts(folder: Path, chats: list[list[Turn]]) -> dict[str, float]:
    """The scores of all layouts. The first row has no answer, where that is allowed."""
    os.chdir(folder)
    items = [encode(chat) for chat in chats]
    unanswered = {"input_ids": [3, 4], "labels": [-100, -100]}
    apart = [{"input_ids": chat[0].prompt, "labels": chat[0].answer} for chat in chats]
    scores = {}
    for side in ("left", "right"):
        for layout in ("last", "every"):
            rows = [unanswered, *items] if layout == "every" else items
            scores[f"{layout}, {side}"] = make_trainer(rows, side, answers=layout).evaluate()["eval_bleu"]
        for base in ("Trainer", "Seq2SeqTrainer"):
            trainer = make_trainer(apart, side, base, answers="apart")
            scores[f"apart, {side}, {base}"] = trainer.evaluate()["eval_bleu"]
    return scores


@pytest.mark.parametrize("processes", [1, 2])
def test_scores_of_all_layouts_are_those_of_one_prompt_at_a_time(processes: int, folder: Path) -> None:
    chats = make_chats(CHATS, 3)
    expected = {
        "last": score_of([chat[-1] for chat in chats]),
        "every": score_of([turn for chat in chats for turn in chat]),
        "apart": score_of([chat[0] for chat in chats]),
    }
    assert len({*expected.values()}) == 3
    assert all(0.2 < score < 0.9 for score in expected.values())
    for scores in run_in_processes(processes, evaluate_layouts, folder, chats):
        for name, score in scores.items():
            assert score == pytest.approx(expected[name.partition(",")[0]], abs=1e-12), name


@pytest.fixture(scope="module")
def turns() -> list[Turn]:
    """Prompts with one answer each."""
    return [chat[0] for chat in make_chats(CHATS, 1)]


@pytest.fixture
def items(turns: list[Turn]) -> list[dict[str, list[int]]]:
    return [encode([turn]) for turn in turns]


def test_padding_that_is_also_the_end(turns: list[Turn]) -> None:
    trainer = make_trainer([encode([turn]) for turn in turns], "right", gen_kwargs={"pad_token_id": EOS})
    trainer.processing_class.pad_token = trainer.processing_class.eos_token
    assert trainer.evaluate()["eval_bleu"] == pytest.approx(score_of(turns))


def test_the_mask_of_the_prompts_changes_the_score(turns: list[Turn]) -> None:
    def complete_unmasked(self: Any, prompts: Prompts) -> Any:
        unmasked = torch.ones_like(prompts.inputs["attention_mask"])
        return EvaluatorMixin.complete(self, prompts._replace(inputs={**prompts.inputs, "attention_mask": unmasked}))

    trainer = make_trainer([encode([turn]) for turn in turns], complete=complete_unmasked)
    assert trainer.evaluate()["eval_bleu"] < score_of(turns) - 0.1


OPTIONS: Any = {
    "the call": ({"num_beams": 2, "max_new_tokens": 5}, {"num_beams": 3, "max_length": 40}, {}, {}),
    "gen_kwargs": ({}, {"num_beams": 2, "max_new_tokens": 5}, {"generation_num_beams": 3}, {"max_new_tokens": 9}),
    "a limit that is not of new tokens": ({"max_length": 9}, {"max_new_tokens": 9}, {}, {"max_new_tokens": 7}),
    "Seq2SeqTrainer": ({}, {}, {"generation_num_beams": 2, "generation_max_length": 9}, {"max_new_tokens": 7}),
    "None": ({"num_beams": None, "max_length": None}, {}, {"generation_num_beams": 2}, {}),
    "the model": ({}, {}, {}, {"num_beams": 2, "max_new_tokens": 5}),
}
"""Arguments of the call, gen_kwargs, those of Seq2SeqTrainer, and of the model."""
STRONGEST: Any = {
    "the call": {"num_beams": 2, "max_new_tokens": 5},
    "gen_kwargs": {"num_beams": 2, "max_new_tokens": 5},
    "a limit that is not of new tokens": {"max_length": 9, "max_new_tokens": None},
    "Seq2SeqTrainer": {"num_beams": 2, "max_length": 9, "max_new_tokens": None},
    "None": {"num_beams": 2},
    "the model": {"num_beams": 2, "max_new_tokens": 5},
}


@pytest.mark.filterwarnings("ignore:generate stopped after")
@pytest.mark.parametrize("name", OPTIONS)
def test_the_strongest_argument_counts(name: str) -> None:
    call, gen_kwargs, args, config = OPTIONS[name]
    turns = [turn for [turn] in make_chats(CHATS, 1) if len(turn.prompt) < 7]
    model = make_model()
    for option, value in config.items():
        setattr(model.generation_config, option, value)
    datasets = {"one": [encode([turn]) for turn in turns]}
    args = {"per_device_eval_batch_size": 1} | args  # max_length counts the padding of a batch
    trainer = make_trainer(datasets, base="Seq2SeqTrainer", model=model, gen_kwargs=gen_kwargs, args=args)
    expected = score_of(complete_again(turns, make_model(), **STRONGEST[name]))
    assert 0 < expected != score_of(turns)
    assert trainer.evaluate(**call)["eval_one_bleu"] == pytest.approx(expected)
    predicted = trainer.predict(datasets["one"], **call)
    assert predicted.metrics["test_bleu"] == pytest.approx(expected)


@pytest.mark.parametrize("event", ["on_prediction_step", "on_evaluate"])
def test_an_evaluation_inside_another_one_has_arguments_of_its_own(event: str, turns: list[Turn]) -> None:
    from transformers import TrainerCallback

    inner: list[float] = []

    def evaluate_once(self: Any, *args: Any, **kwargs: Any) -> None:
        if not inner:
            inner.append(0)
            inner.append(trainer.evaluate(items, metric_key_prefix="inner")["inner_bleu"])

    items = [encode([turn]) for turn in turns]
    trainer = make_trainer({"one": items, "two": items})
    trainer.add_callback(type("Inside", (TrainerCallback,), {event: evaluate_once})())
    outer = trainer.evaluate(num_beams=2)
    expected = score_of(complete_again(turns, make_model(), num_beams=2))
    assert [outer["eval_one_bleu"], outer["eval_two_bleu"]] == pytest.approx([expected, expected])
    assert inner == [0, pytest.approx(score_of(turns))]


def test_the_config_of_the_call_is_stronger_than_weaker_arguments(turns: list[Turn]) -> None:
    config = copy.deepcopy(make_model().generation_config)
    config.num_beams = 2
    trainer = make_trainer(
        [encode([turn]) for turn in turns],
        base="Seq2SeqTrainer",
        gen_kwargs={"max_new_tokens": 3},
        args={"generation_num_beams": 3},
    )
    expected = score_of(complete_again(turns, make_model(), num_beams=2))
    assert trainer.evaluate(generation_config=config)["eval_bleu"] == pytest.approx(expected)


def test_labels_may_have_another_name(turns: list[Turn]) -> None:
    items = [encode([turn]) for turn in turns]
    trainer = make_trainer(items, args={"label_names": ["answer"], "remove_unused_columns": False})
    collate = trainer.data_collator

    def rename(rows: Any) -> Any:
        batch = dict(collate(rows))
        return {"answer": batch.pop("labels"), **batch}

    trainer.data_collator = rename
    trainer.compute_loss = lambda model, inputs, **kwargs: (torch.zeros(1), {"logits": torch.zeros(1)})
    assert trainer.evaluate()["eval_bleu"] == pytest.approx(score_of(turns))


def test_apart_and_every_return_what_the_trainer_can_take(turns: list[Turn]) -> None:
    apart = [{"input_ids": turn.prompt, "labels": turn.answer} for turn in turns]
    predicted = make_trainer(apart, answers="apart").predict(apart)
    assert "test_loss" not in predicted.metrics
    for turn, ids, labels in zip(turns, predicted.predictions, predicted.label_ids, strict=True):
        assert [one for one in ids if one not in (PAD, EOS, -100)] == turn.generated
        assert labels[labels != -100].tolist() == turn.answer
    chats = [encode(chat) for chat in make_chats(CHATS, 3)]
    every = make_trainer(chats, answers="every").predict(chats)
    assert (every.predictions, every.label_ids) == (None, None)
    assert {"test_loss", "test_bleu"} <= every.metrics.keys()


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


@pytest.mark.parametrize(("skipped", "is_error"), [({0, 1, 2}, False), ({1}, True)])
def test_a_dataset_without_prompts_has_only_a_loss(skipped: set[int], is_error: bool, turns: list[Turn]) -> None:
    batches = iter(range(9))

    def split(self: Any, inputs: Any) -> Prompts | None:
        return None if next(batches) in skipped else EvaluatorMixin.split(self, inputs)

    trainer = make_trainer([encode([turn]) for turn in turns], split=split)
    if is_error:
        with pytest.raises(ValueError, match="split returned None for some batches only"):
            trainer.evaluate()
        return
    scores = trainer.evaluate()
    assert "eval_loss" in scores
    assert "eval_bleu" not in scores


def collate_packed(rows: Any) -> dict[str, torch.Tensor]:
    """Two sequences in one row, as positions say."""
    ids = torch.tensor([[3, 4, 1, 5, 6, 1]])
    labels = torch.tensor([[-100, 4, 1, -100, -100, -100]])
    positions = torch.tensor([[0, 1, 2, 0, 1, 2]])
    return {"input_ids": ids, "labels": labels, "position_ids": positions, "attention_mask": torch.ones_like(ids)}


def split_without_target(self: Any, inputs: Any) -> Prompts:
    prompts = EvaluatorMixin.split(self, inputs)
    assert prompts is not None
    return prompts._replace(target=None)


def complete_as_text(self: Any, prompts: Prompts) -> list[str]:
    return ["word3"] * len(prompts.inputs["input_ids"])


class RemovesLabels:
    """A class before the mixin."""

    def prediction_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        del inputs["labels"]
        return super().prediction_step(model, inputs, *args, **kwargs)  # type: ignore[misc]


UNLABELED = "evaluate needs references, but a batch has no 'labels', only input_ids, attention_mask: set label_names"
REMOVED = "and RemovesLabels.prediction_step, which runs before that of EvaluatorMixin, may have removed them: put Eval"
ERRORS: Any = {
    "unknown": ({"answers": "all"}, "'answers' must be one of ['one', 'last', 'every', 'apart'], got 'all'"),
    "metrics": ({"answers": "every", "compute_metrics": dict}, "pass the Evaluator a function of hypotheses"),
    "metrics of text": (
        {"complete": complete_as_text, "compute_metrics": dict},
        "compute_metrics needs a row of ids for each label, but complete returned text or split returned 'row'",
    ),
    "several": ({"gen_kwargs": {"num_return_sequences": 2}}, "num_return_sequences=2 generates several answers"),
    "packed": ({"collate": collate_packed}, "set eval_packing=False in SFTConfig"),
    "unlabeled": ({"remove": "labels"}, UNLABELED),
    "split": ({"split": split_without_target}, "but split returned Prompts without a target: return the references"),
    "removed": ({"before": (RemovesLabels,)}, REMOVED),
    "removed in predict": ({"before": (RemovesLabels,), "method": "predict"}, REMOVED),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_contradicts_the_settings_is_an_error(name: str, turns: list[Turn]) -> None:
    options, message = ERRORS[name]
    options = dict(options)
    method, remove, collate = (options.pop(key, None) for key in ("method", "remove", "collate"))
    items = [encode([turn]) for turn in turns]
    rows = [{key: value for key, value in item.items() if key != remove} for item in items]
    trainer = make_trainer(rows, **options)
    trainer.data_collator = collate or trainer.data_collator
    with pytest.raises(ValueError) as error:  # noqa: PT011
        getattr(trainer, method or "evaluate")(rows)
    assert message in str(error.value)


def end_with(ids: list[int], turns: list[Turn]) -> list[dict[str, list[int]]]:
    """Rows whose answers end with some ids instead of EOS."""
    return [encode([turn._replace(answer=[*turn.answer[:-1], *ids])]) for turn in turns]


SAMPLING = "generation_config.do_sample is True, so answers are random"
NO_END = r"An answer has none of the ids at which this generation stops, eos_token_id=\[1\]; its last id is 39"
LIMIT = r"generate stopped after \d+ new tokens because of {}, but a reference has"
DEFAULT_LIMIT = LIMIT.format("(its default|max_length=20, which counts the prompt)")  # the latter in Transformers 4
SUSPECTS: Any = {
    "sampling": ({}, {"do_sample": True}, [EOS], SAMPLING),
    "sampling on purpose": ({"do_sample": True}, {"do_sample": True}, [EOS], None),
    "an end after which a line breaks": ({}, {}, [EOS, 39], None),
    "no end": ({}, {}, [39], NO_END),
    "an end of a chat template": ({"eos_token_id": [EOS, 39]}, {}, [39], None),
    "another end": ({"stopping_criteria": [lambda ids, scores: ids[:, -1] == 39]}, {}, [39], None),
    "a limit with the prompt": ({"max_length": 11}, {}, [EOS], LIMIT.format("max_length=11, which counts the prompt")),
    "the limit of new tokens": ({"max_new_tokens": 2}, {}, [EOS], None),
    "the default limit": (
        {},
        {"max_new_tokens": None},
        [3] * 20 + [EOS],
        LIMIT.format("(its default|max_length=20, which counts the prompt)"),
    ),
}
"""Arguments of the call, and of the model; the end of answers; the warning."""


@pytest.mark.filterwarnings("ignore:Using the model-agnostic default")  # Transformers itself
@pytest.mark.parametrize("name", SUSPECTS)
def test_likely_mistakes_warn_once(name: str, turns: list[Turn]) -> None:
    arguments, config, end, message = SUSPECTS[name]
    model = make_model()
    for option, value in config.items():
        setattr(model.generation_config, option, value)
    trainer = make_trainer(end_with(end, turns), model=model, gen_kwargs=arguments)
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


def test_rows_that_the_trainer_has_cut_warn(turns: list[Turn]) -> None:
    items = [encode([turn]) for turn in turns]
    longest = max(items, key=lambda item: len(item["input_ids"]))
    cut = {name: ids[:-1] for name, ids in longest.items()}
    trainer = make_trainer([cut])
    trainer.args.max_length = len(cut["input_ids"])
    with pytest.warns(UserWarning, match=r"Rows of max_length=\d+ tokens have answers without an end"):
        trainer.evaluate()


def test_prompts_without_references_are_answered_and_not_scored(turns: list[Turn], folder: Path) -> None:
    unlabeled = [{"input_ids": turn.prompt} for turn in turns]
    for number, base in enumerate(("Trainer", "Seq2SeqTrainer")):
        metrics: Any = {"bleu": CorpusBLEU(), "gen_len": TokenCount()}
        evaluator = Evaluator(metrics, translations=folder / f"unlabeled-{number}")
        predicted = make_trainer(unlabeled, "right", base, evaluator=evaluator).predict(unlabeled)
        written = folder / f"unlabeled-{number}" / "test"
        assert (written / "step-0000000.txt").read_text().splitlines() == [to_text(turn.generated) for turn in turns]
        assert (written / "src.txt").read_text().splitlines() == [to_text(turn.prompt) for turn in turns]
        assert not (written / "ref.txt").exists()
        assert {"test_bleu", "test_loss"}.isdisjoint(predicted.metrics)
        lengths = [sum(token not in (PAD, -100) for token in ids) for ids in predicted.predictions]
        assert predicted.metrics["test_gen_len"] == pytest.approx(sum(lengths) / len(turns))
        assert predicted.label_ids is None


def test_a_dataset_that_is_not_scored_is_not_generated(turns: list[Turn]) -> None:
    items = [encode([turn]) for turn in turns]
    evaluator = Evaluator(CorpusBLEU(), only=["some"])
    trainer = make_trainer({"all": items, "some": items[:2]}, evaluator=evaluator)
    prompt_counts = []

    def complete(prompts: Prompts) -> Any:
        prompt_counts.append(len(prompts.inputs["input_ids"]))
        return EvaluatorMixin.complete(trainer, prompts)

    trainer.complete = complete
    scores = trainer.evaluate()
    assert prompt_counts == [2]
    assert {"eval_all_loss", "eval_some_loss", "eval_some_bleu"} <= scores.keys()
    assert "eval_all_bleu" not in scores


def test_some_batches_without_references_are_an_error(turns: list[Turn]) -> None:
    items = [encode([turn]) for turn in turns]
    trainer = make_trainer(items)
    batches = iter(range(9))

    def split(inputs: Any) -> Any:
        prompts = EvaluatorMixin.split(trainer, inputs)
        return prompts._replace(target=None) if prompts and next(batches) == 1 else prompts

    trainer.split = split
    with pytest.raises(ValueError, match="'target' for some batches only"):
        trainer.predict(items)
