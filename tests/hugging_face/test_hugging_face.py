"""Real Trainers of Transformers, in one and in several processes: every sentence counts once, with every metric."""

from __future__ import annotations

import contextlib
import inspect
import io
import itertools
import json
import multiprocessing
import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sacrebleu.metrics.ter import TER
from torch.utils.data import DataLoader, SubsetRandomSampler
from torch.utils.tensorboard import SummaryWriter

from lightning_bleu import CorpusBLEU, CorpusCHRF, Evaluator, corpus_bleu, corpus_chrf
from lightning_bleu.hugging_face import EvaluatorMixin
from lightning_bleu.hugging_face.arguments import GenerationSettings, suspect_limit
from lightning_bleu.hugging_face.generator import GeneratorMixin
from lightning_bleu.hugging_face.mixin import _check_ids
from tests.helpers.files import read_files, read_scores
from tests.helpers.hugging_face import DATASETS, collate, decode, make_items, make_trainer, texts_of
from tests.helpers.lightning import read_events
from tests.helpers.pages import outputs, run_page
from tests.helpers.process_groups import run_in_processes
from tests.helpers.validations import begin

PAGE = Path(__file__).parents[2] / "docs" / "hugging_face.md"
ITEMS, OTHERS = make_items(21), make_items(5, seed=1)
Scores = dict[str, Any]


def share_of_source(hypotheses: list[str], references: list[list[str]], sources: list[str]) -> list[float]:
    """A metric that a sentence passed with another source or reference would change."""
    return [
        len(source) + 100 * len(set(hypothesis.split()) & set(own[0].split()))
        for hypothesis, own, source in zip(hypotheses, references, sources)
    ]


METRICS: dict[str, Any] = {"bleu": CorpusBLEU(), "chrf": CorpusCHRF(), "source": share_of_source}


def expected_scores(items: Any, prefix: str = "eval") -> Scores:
    """The scores of METRICS."""
    texts = texts_of(items)
    return {
        f"{prefix}_bleu": corpus_bleu(*texts[:2]).bleu,
        f"{prefix}_chrf": corpus_chrf(*texts[:2]).score,
        f"{prefix}_source": sum(share_of_source(*texts)) / len(items),
    }


def make_evaluator(**options: Any) -> Evaluator:
    return Evaluator(METRICS, decoder=decode, **options)


def contains(scores: Scores, expected: Scores) -> bool:
    return {key: scores.get(key) for key in expected} == expected


def error_of(kind: type[Exception], call: Callable[[], Any]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def evaluate_matrix(folder: Path, kinds: list[str], workers: list[int], sizes: list[int]) -> dict[str, str]:
    """What is wrong with the scores and files of all ways in which accelerate deals sentences."""
    os.chdir(folder)
    multiprocessing.set_start_method("fork", force=True)  # workers import nothing
    processes = int(os.environ.get("WORLD_SIZE", 1))
    found: dict[str, str] = {}
    for kind, dispatch, split, count in itertools.product(kinds, (None, True, False), (False, True), workers):
        options: Any = {"accelerator_config": {"dispatch_batches": dispatch, "split_batches": split}}
        options["per_device_eval_batch_size"] = 4 * processes if split else 4
        trainer = make_trainer(make_evaluator(), kind, dataloader_num_workers=count, **options)
        for style, size in itertools.product(DATASETS, sizes):
            items, files = make_items(size), Path(f"files/{len(found)}")
            trainer.evaluator = make_evaluator(translations=files)
            name = f"{kind}, {style} of {size}, {dispatch=}, {split=}, workers={count}"
            if processes > 1 and count == 2 and "stream" in style and split and dispatch is not False:
                continue  # accelerate loses sentences of a small batch that is not the last one
            in_order = not (count == 2 and "stream" in style)  # workers that share a stream change the order
            try:
                scores = trainer.evaluate(DATASETS[style](items))
            except ValueError as error:
                found[name] = str(error)
            else:
                found[name] = "" if contains(scores, expected_scores(items)) else f"{scores}"
                if in_order and trainer.is_world_process_zero():
                    lines = (files / "eval" / "step-0000000" / "hyp.txt").read_text().splitlines()
                    found[name] += "" if lines == texts_of(items)[0] else "order"
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processes", "kinds", "workers", "sizes"),
    [
        pytest.param(
            *(2, ["Seq2SeqTrainer"], [0], [21]),
            id="some in 2",
            marks=pytest.mark.promise("6: a sentence counts once, however accelerate deals it"),
        ),
        pytest.param(3, ["Trainer"], [0, 1, 2], [1, 7, 21], marks=pytest.mark.long, id="all in 3"),
    ],
)
def test_every_sentence_counts_once_however_accelerate_deals_them(
    processes: int, kinds: list[str], workers: list[int], sizes: list[int], tmp_path: Path
) -> None:
    pytest.importorskip("transformers")
    for found in run_in_processes(processes, evaluate_matrix, tmp_path, kinds, workers, sizes):
        # What workers read in each process for itself may have been repeated, and nothing tells what.
        pattern = "(, stream of .*dispatch=False.*workers=[12]|stream of .*dispatch=False.*workers=2)$"
        unknown = {name for name in found if processes > 1 and re.search(pattern, name)}
        wrong = {name: reason for name, reason in found.items() if reason}
        assert wrong.keys() == unknown, wrong
        assert all("or let one process read it" in reason for reason in wrong.values())


def use_trainers(folder: Path) -> Scores:
    """What users do with real Trainers."""
    from accelerate import Accelerator  # type: ignore[import-untyped]
    from accelerate.data_loader import prepare_data_loader  # type: ignore[import-untyped]

    os.chdir(folder)
    multiprocessing.set_start_method("fork", force=True)
    transformers: Any = pytest.importorskip("transformers")
    found: Scores = {}

    # Datasets with names, and loaders that live on, with worker processes: an interruption, then all.
    evaluator = Evaluator(METRICS, decoder=decode)
    workers: Any = {"dataloader_num_workers": 1, "dataloader_persistent_workers": True}
    trainer = make_trainer(evaluator, eval_dataset={"news": ITEMS, "talks": OTHERS}, **workers)
    trainer.stop_at = 3
    with pytest.raises(KeyboardInterrupt):
        trainer.evaluate()
    found["two datasets"] = trainer.evaluate()
    found["results of two datasets"] = {name: result.score for name, result in evaluator.results.items()}
    found["samples of two datasets"] = {
        name: [sample.index for sample in samples.first] for name, samples in evaluator.results.samples.items()
    }
    found["predict"] = trainer.predict(OTHERS, metric_key_prefix="test_talks")

    # Intervals, files, and a metric of the Trainer's.
    evaluator = make_evaluator(confidence=0.9, translations="files")
    trainer = make_trainer(
        evaluator, compute_metrics=lambda output: {"of_user": len({*map(bytes, output.predictions)})}
    )
    found["files"] = trainer.evaluate(ITEMS)

    copied = [item | {"generated": item["labels"], "input_ids": [5, 6]} for item in ITEMS]
    found["copied"] = make_trainer(make_evaluator()).evaluate(copied)

    # A key of the batch that a function takes.
    of_key: Any = {"first": lambda hypotheses, references, *, input_ids: [float(row[0]) for row in input_ids]}
    found["key"] = make_trainer(Evaluator(of_key, decoder=decode)).evaluate(ITEMS)["eval_first"]

    # An evaluation inside an evaluation.
    evaluator = make_evaluator(translations=True)
    inner: list[Scores] = []
    nested = make_trainer(
        evaluator, callbacks=[evaluate_inside(lambda: inner.append(nested.evaluate(OTHERS, metric_key_prefix="inner")))]
    )
    found["outer"], found["inner"] = nested.evaluate(ITEMS), inner[0]
    found["results of both"] = sorted({name.partition("_")[0] for name in evaluator.results})

    # Trials of a search for hyperparameters.
    for module in (transformers.integrations, transformers.trainer):  # as if Optuna were installed
        module.hp_params = lambda trial: trial.params
    for folder_or_true, number in itertools.product((True, "own"), range(2)):
        evaluator = make_evaluator(translations=folder_or_true)
        trainer = make_trainer(evaluator, train_dataset=ITEMS, max_steps=1, output_dir="search")
        trainer.hp_search_backend, trainer.hp_name, trainer.hp_space = "optuna", None, lambda trial: {}
        trainer.train(trial=SimpleNamespace(number=number, params={}))
        trainer.evaluate(ITEMS)

    # Sentences chosen by a sampler, loaders of the user.
    trainer = make_trainer(make_evaluator())
    trainer._get_eval_sampler = lambda dataset: SubsetRandomSampler(range(19))
    found["sampler"] = trainer.evaluate(ITEMS)["eval_bleu_reference_length"]
    loader: Any = DataLoader(ITEMS, 4, collate_fn=collate)  # type: ignore[arg-type]
    trainer.get_eval_dataloader = lambda dataset: prepare_data_loader(loader, num_processes=1, process_index=0)
    found["undivided"] = trainer.evaluate(ITEMS)
    found["in lists"] = make_trainer(make_evaluator(), eval_do_concat_batches=False).evaluate(ITEMS)
    found["only the loss"] = make_trainer(make_evaluator(), prediction_loss_only=True).evaluate(ITEMS)
    found["without evaluator"] = make_trainer(None).evaluate(ITEMS)
    trainer.get_eval_dataloader = lambda dataset: loader
    found["own loader"] = error_of(ValueError, lambda: trainer.evaluate(ITEMS))
    metrics: Any = {"bleu": CorpusBLEU(), "bleu_length_ratio": CorpusCHRF()}
    twice = make_trainer(Evaluator(metrics, decoder=decode, parts=["length_ratio"]))
    found["one name"] = error_of(ValueError, lambda: twice.evaluate(ITEMS))

    # A loop with accelerate.
    evaluator, prepared = make_evaluator(), Accelerator(cpu=True).prepare(loader)
    evaluator.start(prepared)
    for batch in prepared:
        evaluator.update(batch["generated"], batch["labels"], source=batch["input_ids"])
    found["loop"] = {f"eval_{name[4:]}": result.score for name, result in evaluator.finish(step=0).items()}
    return found


def evaluate_inside(evaluate: Callable[[], Any]) -> Any:
    """A callback that evaluates after the second batch of an evaluation."""
    from transformers import TrainerCallback

    batches = itertools.count(1)
    step = lambda *args, **kwargs: evaluate() if next(batches) == 2 else None  # noqa: E731
    return type("EvaluatesInside", (TrainerCallback,), {"on_prediction_step": step})()


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Scores], Path]:
    """What each process found, and their folder."""
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("hugging_face")
    return run_in_processes(2, use_trainers, folder), folder


@pytest.mark.slow
def test_datasets_have_their_scores_and_metrics_get_keys_of_the_batch(found: tuple[list[Scores], Path]) -> None:
    expected = expected_scores(ITEMS, "eval_news") | expected_scores(OTHERS, "eval_talks")
    for process in found[0]:
        assert process["key"] == sum(item["input_ids"][0] for item in ITEMS) / len(ITEMS)
        assert contains(process["two datasets"], expected)
        assert process["results of two datasets"] == expected
        shown = [*range(8)]
        samples = {"eval_news": shown, "eval_talks": shown[: len(OTHERS)]}
        assert process["samples of two datasets"] == (samples if process is found[0][0] else {})  # in process 0 only
        assert contains(process["predict"].metrics, expected_scores(OTHERS, "test_talks"))
        assert len(process["predict"].predictions) >= len(OTHERS)


@pytest.mark.slow
def test_a_dataset_that_is_not_scored_has_only_a_loss(tmp_path: Path) -> None:
    evaluator = Evaluator(CorpusBLEU(), only=["news"], decoder=decode, translations=tmp_path / "t")
    trainer = make_trainer(evaluator, output_dir=str(tmp_path), eval_dataset={"news": ITEMS, "talks": OTHERS})
    asked_for_loss_only = set()
    predict = trainer.prediction_step

    def prediction_step(model: Any, inputs: Any, prediction_loss_only: bool, **kwargs: Any) -> Any:
        asked_for_loss_only.add((trainer._started is None, prediction_loss_only))
        return predict(model, inputs, prediction_loss_only, **kwargs)

    trainer.prediction_step = prediction_step
    scores = trainer.evaluate()
    assert asked_for_loss_only == {(False, True), (True, True)}
    assert {name for name in scores if name.endswith(("bleu", "chrf"))} == {"eval_news_bleu"}
    assert scores["eval_news_bleu"] == expected_scores(ITEMS)["eval_bleu"]
    assert scores["eval_talks_loss"] == 0
    assert [path.name for path in (tmp_path / "t").iterdir() if path.is_dir()] == ["eval_news"]


def test_a_finding_says_of_which_dataset_it_is(tmp_path: Path) -> None:
    evaluator = Evaluator(CorpusBLEU(), decoder=lambda rows: ["a dog</s>"] * len(rows))
    trainer = make_trainer(evaluator, output_dir=str(tmp_path), eval_dataset={"news": ITEMS, "talks": OTHERS})
    with pytest.warns(UserWarning, match="(news|talks): .* hypotheses end with '</s>'"):
        trainer.evaluate()
    assert [finding.where for finding in evaluator.results.findings] == ["news", "talks"]


@pytest.mark.slow
def test_intervals_and_files_are_those_of_one_process(found: tuple[list[Scores], Path]) -> None:
    hypotheses, references, sources = texts_of(ITEMS)
    evaluator = make_evaluator(confidence=0.9)
    evaluator.start()
    evaluator.update(hypotheses, references, source=sources)
    expected: Scores = {"eval_of_user": 21}
    for name, result in evaluator.finish(step=0).items():
        assert result.interval is not None
        low, high = result.interval.low, result.interval.high
        expected |= {f"eval_{name[4:]}_low": low, f"eval_{name[4:]}_high": high}
    assert all(contains(process["files"], expected | expected_scores(ITEMS)) for process in found[0])
    files = read_files(found[1] / "files")
    assert b'"scores": {"bleu": ' in files["eval/step-0000000/sentences.jsonl"]
    texts = [files[f"eval/step-0000000/{name}.txt"].decode().splitlines() for name in ("hyp", "ref", "src")]
    assert texts == [hypotheses, [line for [line] in references], sources]


@pytest.mark.slow
def test_evaluations_lose_nothing(found: tuple[list[Scores], Path]) -> None:
    expected = expected_scores(ITEMS)
    for process in found[0]:
        assert process["copied"]["eval_source"] == sum(5 + 100 * len({*row["labels"]} - {1}) for row in ITEMS) / 21
        assert contains(process["outer"], expected)
        assert contains(process["inner"], expected_scores(OTHERS, "inner"))
        assert process["results of both"] == ["eval", "inner"]
        assert process["sampler"] == sum(len(line.split()) for [line] in texts_of(ITEMS[:19])[1])
        assert all(contains(process[name], expected) for name in ("undivided", "in lists", "loop"))
        assert not any("bleu" in key for name in ("only the loss", "without evaluator") for key in process[name])
        assert "must return self.accelerator.prepare(loader)" in process["own loader"]
        assert "two scores would be logged as 'eval_bleu_length_ratio': rename a metric" in process["one name"]
    # The evaluation inside the other has a folder of its own, and so has each trial of a search.
    paths = (path.relative_to(found[1]).as_posix() for path in found[1].glob("*/**/step-*[01]"))
    assert {path for path in paths if not path.startswith("files/")} == {
        *(f"run/translations/{name}/step-0000000" for name in ("eval", "inner")),
        *(f"search/{trial}/translations/eval/step-0000001" for trial in ("run-0", "run-1")),
        *(f"own/{trial}/eval/step-0000001" for trial in ("run-0", "run-1")),
    }


SAVED: Any = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1}


def train(folder: Path) -> Scores:
    """Train and resume. The best translations are those of the first step, and the last ones are worse."""
    os.chdir(folder)
    found: Scores = {}
    same = [item | {"generated": other["generated"]} for item, other in zip(ITEMS, make_items(21, seed=2))]

    def make(evaluator: Evaluator, **options: Any) -> Any:
        options = {"max_steps": 3, "report_to": "none", "metric_for_best_model": "one_bleu"} | SAVED | options
        options |= {"train_dataset": ITEMS, "eval_dataset": {"one": ITEMS, "two": same}}
        trainer = make_trainer(evaluator, load_best_model_at_end=True, **options)
        trainer.worse_from = 2
        return trainer

    own = SummaryWriter("own")
    trainer = make(make_evaluator(translations=True, compare_to="best", loggers=[own]), report_to="tensorboard")
    trainer.train()
    found["event files"] = len([*Path("run").rglob("events.out.*")])
    found["log"] = [line for line in trainer.state.log_history if "eval_one_bleu" in line]
    trainer.evaluate()
    trainer.predict(OTHERS)
    found["files"] = sorted(path.name for path in Path("run/translations/eval_one").iterdir())
    found["same run again"] = error_of(ValueError, make(make_evaluator(translations=True)).train)

    resumed = make(make_evaluator(translations=True, compare_to="best"), max_steps=4)
    resumed.train(resume_from_checkpoint="run/checkpoint-2")
    found["resumed"] = {name: result.best for name, result in resumed.evaluator.results.items()}
    without = make(make_evaluator(compare_to="best"))
    Path("run/checkpoint-2/lightning_bleu.pt").unlink(missing_ok=True)  # by the first process that comes here
    with warnings.catch_warnings(record=True) as caught:
        without.train(resume_from_checkpoint="run/checkpoint-2")
    found["warned"] = [str(warning.message) for warning in caught]

    evaluator = make_evaluator(translations=True, compare_to="best")
    stopped = make(evaluator, output_dir="stopped")
    stopped.stop_at = 8  # after the second step
    with pytest.raises(KeyboardInterrupt):
        stopped.train()
    before = read_files(Path("stopped/translations"))
    stopped.worse_from, best = 1000, evaluator.state_dict()
    found["after an interruption"] = stopped.evaluate(ITEMS, metric_key_prefix="eval_one")
    stopped.evaluate([item | {"generated": item["labels"]} for item in ITEMS], metric_key_prefix="eval_one")
    after = read_files(Path("stopped/translations"))
    found["overwritten"] = [name for name in before if not after[name].startswith(before[name])]
    found["new"] = sorted(name for name in after.keys() - before.keys() if name.endswith("hyp.txt"))
    found["same best"] = json.dumps(best, default=str) == json.dumps(evaluator.state_dict(), default=str)
    return found


@pytest.mark.slow
@pytest.mark.promise("6: process 0 compares and decides, in a Trainer of Transformers")
def test_the_best_weights_have_their_step_and_a_resumed_run_is_compared(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    best = expected_scores(ITEMS)["eval_bleu"]
    everyone = run_in_processes(2, train, tmp_path)
    assert any("so the next evaluation counts as the first" in message for message in everyone[0]["warned"])
    check_events(tmp_path / "run", everyone[0])
    for found in everyone:
        scores = [line["eval_one_bleu"] for line in found["log"]]
        assert not any("precision" in name for line in found["log"] for name in line), "evaluate returns parts"
        assert scores[0] == best > scores[1] == scores[2]
        assert [line["eval_one_bleu_best"] for line in found["log"]] == [best] * 3
        assert [line["eval_one_bleu_p_value"] < 0.1 for line in found["log"]] == [False, True, True]
        # The best weights are from step 1; here, they translate like those of step 3, and nothing is overwritten.
        names = ["step-0000001", "step-0000001-2", "step-0000002", "step-0000003"]
        assert found["files"] == names
        assert "or resume that run with trainer.train(resume_from_checkpoint=...)" in found["same run again"]
        assert found["resumed"]["eval_one_bleu"] == best != found["resumed"]["eval_two_bleu"]
        assert contains(found["after an interruption"], expected_scores(ITEMS, "eval_one"))
        assert not found["overwritten"]
        assert found["new"] == ["eval_one/step-0000002-2/hyp.txt", "eval_one/step-0000002/hyp.txt"]
        assert found["same best"]
    lines = read_scores(tmp_path / "run" / "translations")
    evaluated, tested = ([line for line in lines if line["key"] == key] for key in ("eval_one_bleu", "test_bleu"))
    assert [line["step"] for line in evaluated] == [1, 1, 2, 3, 4]  # step 3 has the same results when resumed
    assert [line["step"] for line in tested] == [1]
    assert (evaluated[0]["epoch"], evaluated[-1]["epoch"]) == (found["log"][0]["epoch"], 4 * found["log"][0]["epoch"])


def check_events(folder: Path, found: Scores) -> None:
    """Check that the writer of the Trainer shows everything, in its only file."""
    assert found["event files"] == 1
    [events] = [read_events(path) for path in {path.parent for path in folder.rglob("events.out.*")}]
    assert any(tag.startswith("eval/one_bleu/") for tag in events.Tags()["images"])
    texts = {f"eval/one_{name}/text_summary" for name in ("samples", "worst")}
    assert texts | {"custom_scalars__config__"} <= {*events.Tags()["tensors"]}
    steps = [event.step for event in events.Tensors("eval/one_samples/text_summary")]
    assert steps == [1, 2, 3, 3], "the Trainer opens its writer again after the training"
    [layout] = events.Tensors("custom_scalars__config__")[:1]
    assert b"eval/one_bleu_difference" in layout.tensor_proto.string_val[0]
    for scalars in (events.Tags()["scalars"], read_events(folder.parent / "own").Tags()["scalars"]):
        assert "eval/one_bleu_best" in scalars


@pytest.mark.slow
def test_trainers_have_what_the_mixin_overrides_or_calls() -> None:
    transformers = pytest.importorskip("transformers")
    for name, value in (vars(GeneratorMixin) | vars(EvaluatorMixin)).items():
        if callable(value) and "super()." in inspect.getsource(value) and name != "__init__":
            own, theirs = (inspect.signature(getattr(kind, name)) for kind in (EvaluatorMixin, transformers.Trainer))
            assert [*theirs.parameters][: len(own.parameters) - 2] == [*own.parameters][: len(own.parameters) - 2]
    for name in ("_get_output_dir", "_prepare_inputs", "_hp_search_setup"):
        assert callable(getattr(transformers.Trainer, name))
    assert "_trial" in transformers.Trainer._hp_search_setup.__code__.co_names
    assert "tb_writer" in transformers.integrations.TensorBoardCallback._init_summary_writer.__code__.co_names
    assert "_wandb" in transformers.integrations.WandbCallback.__init__.__code__.co_names


def run_page_of_docs(folder: Path) -> None:
    os.chdir(folder)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        run_page(PAGE)
    for output in outputs(PAGE):
        assert output in printed.getvalue()


@pytest.mark.slow
@pytest.mark.long
def test_the_programs_of_the_page_run(tmp_path: Path) -> None:
    pytest.importorskip("transformers", minversion="5.0")
    pytest.importorskip("trl", minversion="1.0")
    run_in_processes(1, run_page_of_docs, tmp_path)


class StandIn:
    """What the mixin needs of a Trainer that predicts `preds`."""

    label_names, model, eval_dataset = (), None, {"news": ITEMS}

    def __init__(self, preds: Any = None, **args: Any) -> None:
        self.args = SimpleNamespace(metric_for_best_model=args.pop("best", None), **{"greater_is_better": None} | args)
        self.preds = preds

    def prediction_step(self, *args: Any) -> Any:
        return None, self.preds, None

    def evaluation_loop(self, *args: Any) -> str:
        return "evaluated"


class Evaluating(EvaluatorMixin, StandIn):  # type: ignore[misc]
    pass


@pytest.mark.parametrize("name", ["ter", "eval_ter", "eval_news_ter"])
def test_a_best_model_with_the_worst_score_warns(name: str) -> None:
    evaluator = Evaluator({"ter": TER()})
    message = rf"metric_for_best_model='{name}' needs greater_is_better=False\. .*FunctionMetric\(function, higher"
    with pytest.warns(UserWarning, match=message):
        Evaluating(evaluator=evaluator, best=name, greater_is_better=True)
    evaluator = Evaluator({"ter": TER()})  # which is an attribute of the class here
    trainer = type("Own", (Evaluating,), {"evaluator": evaluator})(best=name, greater_is_better=False)
    assert trainer.evaluator is evaluator


def test_a_scheduler_that_lowers_the_learning_rate_while_the_score_rises_warns() -> None:
    plateau = {"best": "news_bleu", "greater_is_better": True, "lr_scheduler_type": "reduce_lr_on_plateau"}
    Evaluating(evaluator=Evaluator(), **plateau, lr_scheduler_kwargs={"mode": "max"})
    message = "lowers the learning rate while 'news_bleu' rises: set lr_scheduler_kwargs={'mode': 'max'}"
    with pytest.warns(UserWarning, match=message):
        Evaluating(evaluator=Evaluator(), **plateau, lr_scheduler_kwargs=None)


def test_the_run_of_wandb_is_a_logger() -> None:
    trainer, run = Evaluating(evaluator=Evaluator()), object()
    trainer.state = SimpleNamespace(is_world_process_zero=True)
    trainer.callback_handler = SimpleNamespace(callbacks=[SimpleNamespace(_wandb=SimpleNamespace(run=run))])
    assert trainer._find_loggers("val") == [run]


def test_entries_of_only_that_are_no_dataset_warn() -> None:
    Evaluating(evaluator=Evaluator(only=["news", "news/de"]))
    message = r"^'only' has 'newstest', but the evaluation datasets are \['news'\]\. An entry is the name of a dataset"
    with pytest.warns(UserWarning, match=message):
        Evaluating(evaluator=Evaluator(only=["news", "newstest"]))


IDS = np.array([[5, 6, 7, 8], [5, 6, 7, -100]])


@pytest.mark.parametrize(
    ("predictions", "received"),
    [
        (np.zeros((2, 4, 9), np.float32), r"a row per label, got a ndarray of shape \(2, 4, 9\) \(logits"),
        ((IDS, IDS), r"got a tuple of shape \(\) \(logits"),
        (np.repeat(IDS, 2, 0), r"a row per label, got a ndarray of shape \(4, 4\) \(logits\? several per label"),
    ],
)
def test_predictions_that_are_no_ids_are_an_error(predictions: Any, received: str) -> None:
    evaluator = Evaluator(decoder=decode)
    trainer = Evaluating(predictions, evaluator=evaluator)
    trainer._started = begin(evaluator)
    with pytest.raises(TypeError, match=rf"{received}.*predict_with_generate=True"):
        trainer.prediction_step(None, {"labels": IDS}, prediction_loss_only=False)


def test_predictions_without_labels_are_checked_too() -> None:
    _check_ids(IDS, None)
    with pytest.raises(TypeError, match=r"a ndarray of shape \(2, 4, 9\) \(logits"):
        _check_ids(np.zeros((2, 4, 9), np.float32), None)


@pytest.mark.parametrize(
    ("ids", "limited", "is_cut"),
    [
        ([[5, 6, 1]], {}, False),
        ([[5, 6, 1]], {"forced_eos_token_id": 1}, True),  # which is the last id
        ([[5, 1, 0]], {"forced_eos_token_id": 1}, False),
        ([[5, 6, 7], [5, 1, 0]], {}, True),
        ([[5, 6, 7]], {"max_new_tokens": 3}, False),
        ([[5, 6, 7]], {"stop_strings": ["."]}, False),
    ],
)
def test_a_limit_that_cuts_a_hypothesis_is_suspected(ids: list[list[int]], limited: Any, is_cut: bool) -> None:
    settings = GenerationSettings({"eos_token_id": 1} | limited, None)
    for labels, is_longer in (([[5, 6, 7, 8]], True), ([[5, 6, 7, -100]], False)):
        found = [*suspect_limit(torch.tensor(ids), torch.tensor(labels), settings)]
        assert bool(found) == (is_cut and is_longer)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"evaluator": CorpusBLEU()}, TypeError, r"'evaluator' must be an Evaluator, such as .*, got CorpusBLEU\("),
        ({"evaluator": Evaluator(log_name="{metric}_{stage}")}, ValueError, "'log_name' must begin with '{stage}_'"),
        ({"evaluator": Evaluator({"loss": CorpusBLEU()})}, ValueError, "the name 'loss', which is reserved"),
        ({"use_legacy_prediction_loop": True}, ValueError, "set use_legacy_prediction_loop=False"),
    ],
)
def test_options_are_checked(options: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        Evaluating(**{"evaluator": Evaluator()} | options)


def test_a_mixin_without_an_evaluator_warns_at_its_first_evaluation() -> None:
    message = r"^Evaluating has an EvaluatorMixin, but no evaluator, so nothing is scored: .* evaluator=None if that is"
    trainer = Evaluating()
    with pytest.warns(UserWarning, match=message) as caught:
        assert trainer.evaluation_loop([], "Evaluation") == "evaluated"
    assert [warning.filename for warning in caught] == [__file__]
    assert trainer.evaluation_loop([], "Evaluation") == "evaluated"  # warnings are errors


def test_no_evaluator_on_purpose_is_silent() -> None:
    has_one: Any = type("HasOne", (Evaluating,), {"evaluator": Evaluator()})
    for trainer in (Evaluating(evaluator=None), has_one(evaluator=None)):
        assert trainer.evaluator is None
        assert trainer.evaluation_loop([], "Evaluation") == "evaluated"
    assert isinstance(has_one().evaluator, Evaluator)


def test_a_trainer_with_an_evaluator_of_its_own_is_an_error() -> None:
    class SentenceTransformerTrainer(StandIn):
        def __init__(self, evaluator: Any = None) -> None:
            super().__init__()

    with pytest.raises(TypeError, match=r"SentenceTransformerTrainer.__init__ has an 'evaluator' of its own"):
        type("Mixed", (EvaluatorMixin, type("Derived", (SentenceTransformerTrainer,), {})), {})()
