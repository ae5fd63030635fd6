"""Real Trainers of Transformers, in one and in two processes: every sentence counts once, with every metric."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from torchmetrics.text import WordErrorRate

from lightning_bleu import CorpusBLEU, CorpusCHRF, HuggingFaceBLEU, corpus_bleu, corpus_chrf
from tests.helpers.files import read_scores
from tests.helpers.hugging_face import (
    DATASETS,
    Model,
    SharedStream,
    collate,
    decode,
    make_items,
    make_trainer,
    texts_of,
)
from tests.helpers.pages import run_page
from tests.helpers.process_groups import run_in_processes

ROOT = Path(__file__).parents[1]
TRAINERS = ["Trainer", "Seq2SeqTrainer"]
Scores = dict[str, Any]


def share_of_source(hypotheses: list[str], references: list[list[str]], sources: list[str]) -> list[float]:
    """A metric that a sentence passed with another source or reference would change."""
    return [
        len(source) + 100 * len(set(hypothesis.split()) & set(own[0].split()))
        for hypothesis, own, source in zip(hypotheses, references, sources)
    ]


def length_of_sources(hypotheses: list[str], references: list[list[str]], sources: list[str]) -> list[float]:
    return [len(source.split()) for source in sources]


def size_of_share(hypotheses: list[str], references: list[list[str]]) -> list[float]:
    return [len(hypotheses)] * len(hypotheses)


def nothing(hypotheses: list[str], references: list[list[str]]) -> None:
    return None


METRICS: dict[str, Any] = {"bleu": CorpusBLEU(), "chrf": CorpusCHRF(), "source": share_of_source}


def expected_scores(items: Any, prefix: str = "eval") -> Scores:
    """The scores of METRICS."""
    texts = texts_of(items)
    return {
        f"{prefix}_bleu": corpus_bleu(*texts[:2]).bleu,
        f"{prefix}_chrf": corpus_chrf(*texts[:2]).score,
        f"{prefix}_source": sum(share_of_source(*texts)) / len(items),
    }


def evaluate_or_say_why(trainer: Any, dataset: Any, items: Any) -> str:
    """Whether an evaluation has the scores of its sentences; empty if so."""
    try:
        scores = trainer.evaluate(dataset)
    except ValueError as error:
        return str(error)
    return "".join(
        f"{key} {scores.get(key)} {one} " for key, one in expected_scores(items).items() if scores[key] != one
    )


def evaluate_matrix(folder: Path, sizes: list[int]) -> dict[str, str]:
    """What is wrong with the scores of all ways in which a Trainer can gather sentences."""
    os.chdir(folder)
    found = {}
    for kind, dispatch, split, by_batch in itertools.product(TRAINERS, (None, False), (False, True), (False, True)):
        trainer = make_trainer(
            HuggingFaceBLEU(METRICS, decoder=decode),
            kind,
            batch_eval_metrics=by_batch,
            include_for_metrics=["inputs"],
            accelerator_config={"dispatch_batches": dispatch, "split_batches": split},
            per_device_eval_batch_size=8 if split else 4,
        )
        for style, size in itertools.product(DATASETS, sizes):
            items = make_items(size)
            name = f"{kind}, {style} of {size}, {dispatch=}, {split=}, {by_batch=}"
            found[name] = evaluate_or_say_why(trainer, DATASETS[style](items), items)
            if size > 16:  # a third batch, also in two processes
                found[f"{name}, after an interruption"] = evaluate_after_interruption(trainer, style, items)
    return found


def evaluate_after_interruption(trainer: Any, style: str, items: Any) -> str:
    """Interrupt an evaluation of other sentences in its third batch, and evaluate with the same loader again."""
    other = make_items(len(items), seed=1)
    dataset = DATASETS[style](other)
    loader = trainer.get_eval_dataloader(dataset)
    trainer.get_eval_dataloader = lambda dataset: loader
    trainer.stop_at = 3
    with pytest.raises(KeyboardInterrupt):
        trainer.evaluate(dataset)
    for _ in loader:  # ends an iteration that is no evaluation
        pass
    other[:] = items  # the list that the loader reads
    (dataset if isinstance(dataset, list) else dataset.items)[:] = items
    found = evaluate_or_say_why(trainer, dataset, items)
    del trainer.get_eval_dataloader
    return found


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param([3, 21], id="some"),
        pytest.param([1, 3, 7, 21, 80], marks=pytest.mark.long, id="all"),
    ],
)
def test_every_sentence_counts_once_however_the_trainer_gathers_them(
    processes: int, sizes: list[int], tmp_path: Path
) -> None:
    pytest.importorskip("transformers")
    for found in run_in_processes(processes, evaluate_matrix, tmp_path, sizes):
        # What two processes read from a stream of unknown length, each for itself, may have been repeated.
        unknown = {name for name in found if processes == 2 and ", stream of" in name and "dispatch=False" in name}
        wrong = {name: reason for name, reason in found.items() if reason}
        assert wrong.keys() == unknown, wrong
        assert all("or let one process read it" in reason for reason in wrong.values())


def use_trainers(folder: Path) -> dict[str, Any]:
    """What users do with real Trainers."""
    from accelerate.data_loader import prepare_data_loader  # type: ignore[import-untyped]

    os.chdir(folder)
    items, others = make_items(21), make_items(5, seed=1)
    found: dict[str, Any] = {}

    # Loaders that live on, with worker processes: evaluate, interrupted, evaluate, predict.
    bleu = HuggingFaceBLEU(METRICS, decoder=decode)
    options: Any = {"include_for_metrics": ["inputs"], "batch_eval_metrics": True}
    workers: Any = {"dataloader_num_workers": 1, "dataloader_persistent_workers": True}
    trainer = make_trainer(bleu, eval_dataset={"news": items, "talks": others}, **options, **workers)
    trainer.stop_at = 3
    with pytest.raises(KeyboardInterrupt):
        trainer.evaluate()
    found["two datasets"] = trainer.evaluate()
    found["results of two datasets"] = {name: result.score for name, result in bleu.results.items()}
    found["predict"] = trainer.predict(others).metrics

    # Every kind of metric, intervals, and files.
    metrics: Any = {
        "bleu": CorpusBLEU(percent=True),
        "ter": TER(),
        "wer": WordErrorRate(),
        "source": share_of_source,
        "share": size_of_share,
        "none": nothing,
    }
    bleu = HuggingFaceBLEU(metrics, decoder=decode, confidence=0.9, translations="files")
    trainer = make_trainer(
        bleu, eval_dataset=items, train_dataset=items, max_steps=4, eval_strategy="steps", eval_steps=2, **options
    )
    trainer.train()
    found["kinds"] = trainer.evaluate()
    trainer.predict(others)
    found["results of kinds"] = {name: result.to_dict() for name, result in bleu.results.items()}
    found["same run again"] = error_of(ValueError, make_trainer(bleu, train_dataset=items, max_steps=1).train)

    # Sources of a decoder-only model.
    prompted = [item | {"labels": [-100, -100, *item["labels"]][:12]} for item in items]
    aligned = [item | {"input_ids": [7, 7, *item["labels"][2:]]} for item in prompted]
    for by_batch in (False, True):
        bleu = HuggingFaceBLEU({"length": length_of_sources}, decoder=decode)
        trainer = make_trainer(bleu, "Trainer", Model(False), **options | {"batch_eval_metrics": by_batch})
        found[f"prompts, {by_batch}"] = trainer.evaluate(aligned)["eval_length"]

    without = HuggingFaceBLEU({"source": share_of_source}, decoder=decode)
    found["no inputs"] = error_of(ValueError, lambda: make_trainer(without).evaluate(others))
    tokenizer = SimpleNamespace(batch_decode=lambda rows, **_: decode(rows))
    own = make_trainer(HuggingFaceBLEU(CorpusCHRF()), processing_class=tokenizer)
    found["tokenizer"] = own.evaluate(items)
    dropping = make_trainer(HuggingFaceBLEU(METRICS, decoder=decode), dataloader_drop_last=True, **options)
    found["all of a stream"] = dropping.evaluate(DATASETS["stream"](items))
    found["without the last"] = dropping.evaluate(items)["eval_bleu_reference_length"]
    split: Any = {"dataloader_num_workers": 2, "accelerator_config": {"dispatch_batches": False}}
    workers_share = make_trainer(HuggingFaceBLEU(METRICS, decoder=decode), **options, **split)
    found["workers"] = evaluate_or_say_why(workers_share, SharedStream(items), items)
    # Sentences chosen by a sampler, a loader of the user, an evaluation inside another one, another folder.
    some = make_trainer(HuggingFaceBLEU(METRICS, decoder=decode), include_for_metrics=["inputs"])
    some._get_eval_sampler = lambda dataset: torch.utils.data.SubsetRandomSampler(range(19))
    found["sampler"] = some.evaluate(items)["eval_bleu_reference_length"]
    some.args.batch_eval_metrics = True
    some.get_eval_dataloader = lambda dataset: torch.utils.data.DataLoader(dataset, 4, collate_fn=collate)
    found["own loader"] = error_of(ValueError, lambda: some.evaluate(items))
    bleu = HuggingFaceBLEU({"eval_bleu": CorpusBLEU()}, decoder=decode, translations=True)
    for folder_name in ("first", "second"):
        outer = make_trainer(bleu, output_dir=folder_name)
        outer.pop_callback(bleu)
        outer.add_callback(evaluate_once(outer, others))
        outer.add_callback(bleu)
        found["nested"] = outer.evaluate(items), bleu.results["eval_bleu"].score, bleu.results["inner_eval_bleu"].score

    undivided = make_trainer(HuggingFaceBLEU(METRICS, decoder=decode), **options)
    loader = torch.utils.data.DataLoader(items, 4, collate_fn=collate)  # type: ignore[var-annotated, arg-type]
    undivided.get_eval_dataloader = lambda dataset: prepare_data_loader(loader, num_processes=1, process_index=0)
    found["undivided"] = evaluate_or_say_why(undivided, items, items)

    found["in lists"] = make_trainer(
        HuggingFaceBLEU(METRICS, decoder=decode), eval_do_concat_batches=False, include_for_metrics=["inputs"]
    ).evaluate(items)
    return found


def evaluate_once(trainer: Any, dataset: Any) -> Any:
    """A callback that evaluates another dataset after an evaluation."""
    from transformers import TrainerCallback

    class EvaluatesOnce(TrainerCallback):
        """Evaluates once."""

        is_inside = False

        def on_evaluate(self, *args: Any, **kwargs: Any) -> None:
            if not self.is_inside:
                self.is_inside = True
                trainer.evaluate(dataset, metric_key_prefix="inner")

    return EvaluatesOnce()


def error_of(kind: type[Exception], call: Callable[[], Any]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


@pytest.fixture(scope="module", params=[1, 2])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Scores], Path]:
    """What each process found, and their folder."""
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("hugging_face")
    return run_in_processes(request.param, use_trainers, folder), folder


def contains(scores: Scores, expected: Scores) -> bool:
    return {key: scores[key] for key in expected} == expected


@pytest.mark.slow
def test_a_trainer_logs_the_scores_of_each_dataset(found: tuple[list[Scores], Path]) -> None:
    items, others = make_items(21), make_items(5, seed=1)
    expected = expected_scores(items, "eval_news") | expected_scores(others, "eval_talks")
    for process in found[0]:
        assert contains(process["two datasets"], expected)
        assert process["results of two datasets"] == expected
        assert contains(process["predict"], expected_scores(others, "test"))
        assert contains(process["in lists"], expected_scores(items))


@pytest.mark.slow
def test_every_kind_of_metric_and_its_interval_is_logged(found: tuple[list[Scores], Path]) -> None:
    items = make_items(21)
    hypotheses, references, _ = texts_of(items)
    lines = [[own[0] for own in references]]
    for process in found[0]:
        scores = process["kinds"]
        assert scores["eval_bleu"] == pytest.approx(BLEU().corpus_score(hypotheses, lines).score, abs=1e-9)
        assert scores["eval_ter"] == TER().corpus_score(hypotheses, lines).score
        assert scores["eval_wer"] == WordErrorRate()(hypotheses, lines[0]).item()
        assert contains(scores, {"eval_source": expected_scores(items)["eval_source"]})
        metric = CorpusBLEU(percent=True, keep_sentences=True)
        metric.update(hypotheses, references)
        interval = metric.interval(0.9)
        assert (scores["eval_bleu_low"], scores["eval_bleu_high"]) == (interval.low, interval.high)
        assert scores["eval_source_low"] < scores["eval_source"] < scores["eval_source_high"]
        assert scores["eval_share"] == {1: 21, 2: (12 * 12 + 9 * 9) / 21}[len(found[0])]  # 12 and 9 of 21 sentences
        assert "eval_none" not in scores
        assert not {"eval_ter_low", "eval_wer_low"} & scores.keys()
        assert process["results of kinds"]["eval_bleu"]["hypothesis_length"] == scores["eval_bleu_hypothesis_length"]


@pytest.mark.slow
def test_translations_are_written_once_for_each_dataset(found: tuple[list[Scores], Path]) -> None:
    hypotheses, references, sources = texts_of(make_items(21))
    folder = found[1] / "files"
    assert sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")) == [
        "eval",
        "scores.jsonl",
        "test",
    ]
    files = sorted((folder / "eval").iterdir())
    assert [path.name for path in files] == [
        "ref.txt",
        "src.txt",
        "step-0000002.tsv",
        "step-0000002.txt",
        "step-0000004.tsv",
        "step-0000004.txt",
    ]
    texts = [path.read_text().splitlines() for path in files if path.suffix == ".txt"]
    assert texts == [[own[0] for own in references], sources, hypotheses, hypotheses]
    header, *rows = (line.split("\t") for line in files[2].read_text().splitlines())
    assert header == ["bleu", "source", "share"]
    assert [float(row[1]) for row in rows] == share_of_source(hypotheses, references, sources)
    lines = read_scores(folder / "scores.jsonl")
    names = ["bleu", "ter", "wer", "source", "share"]
    assert [(line["key"], line["step"]) for line in lines] == [
        *((f"eval_{name}", step) for step in (2, 4, 4) for name in names),  # the last is evaluated again
        *((f"test_{name}", 4) for name in names),
    ]
    for process in found[0]:
        assert "or resume that run with trainer.train(resume_from_checkpoint=...)" in process["same run again"]
        assert lines[0]["signature"] == process["results of kinds"]["eval_bleu"]["signature"]


@pytest.mark.slow
def test_sources_are_the_inputs_or_the_prompts_of_a_decoder_only_model(found: tuple[list[Scores], Path]) -> None:
    for process in found[0]:
        assert process["prompts, False"] == process["prompts, True"] == 2
        assert "need include_for_metrics=['inputs']" in process["no inputs"]


@pytest.mark.slow
def test_the_tokenizer_of_the_trainer_decodes(found: tuple[list[Scores], Path]) -> None:
    hypotheses, references, _ = texts_of(make_items(21))
    expected = CHRF().corpus_score(hypotheses, [[own[0] for own in references]]).score / 100
    for process in found[0]:
        assert process["tokenizer"]["eval_chrf"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.slow
def test_samplers_loaders_and_evaluations_of_users_are_respected(found: tuple[list[Scores], Path]) -> None:
    items, others = make_items(21), make_items(5, seed=1)
    for process in found[0]:
        assert process["sampler"] == sum(len(line.split()) for [line] in texts_of(items[:19])[1])
        assert "return self.accelerator.prepare(loader) from get_eval_dataloader" in process["own loader"]
        scores, outer, inner = process["nested"]
        assert scores["eval_bleu"] == outer == expected_scores(items)["eval_bleu"]
        assert inner == expected_scores(others)["eval_bleu"]
        assert contains(process["all of a stream"], expected_scores(items))
        complete = items[: {1: 20, 2: 16}[len(found[0])]]
        assert process["without the last"] == sum(len(line.split()) for [line] in texts_of(complete)[1])
        is_alone = len(found[0]) == 1
        assert is_alone or "evaluate without tensor or context parallelism" in process["undivided"]
        assert not is_alone or not process["undivided"]
        assert ("at most one worker" in process["workers"]) if len(found[0]) == 2 else not process["workers"]
    for name in ("first", "second"):
        assert (found[1] / name / "translations" / "inner" / "step-0000000.txt").exists()


def run_page_of_docs(folder: Path) -> Scores:
    """Run the programs of the page, and evaluate more sentences with the first of their trainers."""
    os.chdir(folder)
    torch.manual_seed(0)
    page = SimpleNamespace(**run_page(ROOT / "docs" / "hugging_face.md"))
    sources = [" ".join(page.WORDS[(3 * number + word) % 12] for word in range(number % 9 + 1)) for number in range(37)]
    batch = page.tokenizer(sources, return_tensors="pt", padding=True)
    ids = page.translator.eval().generate(**batch, max_length=20)
    generated = page.tokenizer.batch_decode(ids, skip_special_tokens=True)
    references = [" ".join(["a", *line.split()[1:]]) for line in generated]
    scores = page.trainer.evaluate([page.encode_pair(*pair) for pair in zip(sources, references)])
    return {"scores": scores, "texts": (generated, references)}


@pytest.mark.slow
def test_the_page_generates_what_is_scored(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    [found] = run_in_processes(1, run_page_of_docs, tmp_path)
    hypotheses, references = found["texts"]
    expected = BLEU().corpus_score(hypotheses, [references])
    assert 0 < expected.score < 100
    assert found["scores"]["eval_bleu"] == pytest.approx(expected.score, abs=1e-9)
    assert found["scores"]["eval_bleu_hypothesis_length"] == expected.sys_len


IDS = np.array([[5, 6, 7, 8], [5, 6, 7, -100]])


def evaluate(bleu: HuggingFaceBLEU, predictions: Any, labels: Any = IDS) -> Scores:
    """Call a metric like a Trainer."""
    args: Any = SimpleNamespace(device="cpu", batch_eval_metrics=False, dataloader_drop_last=False)
    bleu.on_prediction_step(args, None, None, eval_dataloader=SimpleNamespace(dataset=labels))
    return bleu(SimpleNamespace(predictions=predictions, label_ids=labels))


def test_nothing_remains_of_an_evaluation_or_in_the_metric() -> None:
    metric = CorpusBLEU(pad_id=0)
    bleu = HuggingFaceBLEU({"one": metric, "two": CorpusBLEU(max_order=2, pad_id=0)})
    for _ in range(2):
        scores = evaluate(bleu, IDS[:, :3])
        assert (scores["one_hypothesis_length"], scores["two_reference_length"]) == (6, 7)
    assert metric.update_count == 0


def test_a_metric_that_stands_alone_has_its_own_name() -> None:
    scores = evaluate(HuggingFaceBLEU(CorpusCHRF(), decoder=decode), IDS)
    assert scores["chrf"] == 1
    assert "bleu" not in scores


def test_ids_without_a_tokenizer_warn() -> None:
    with pytest.warns(UserWarning, match="neither 'pad_id'"), pytest.warns(UserWarning, match="no tokenizer .*ids are"):
        evaluate(HuggingFaceBLEU(), IDS)


def test_without_sentences_nothing_is_logged() -> None:
    assert evaluate(HuggingFaceBLEU(CorpusBLEU(pad_id=0)), IDS[:0], IDS[:0]) == {}


def test_results_are_those_of_the_evaluation_that_the_trainer_names() -> None:
    bleu = HuggingFaceBLEU({"bleu": CorpusBLEU(pad_id=0)})
    scores = evaluate(bleu, IDS)
    state: Any = SimpleNamespace(global_step=0, epoch=0)
    bleu.on_predict(None, state, None, metrics={"test_loss": 1.0, "test_runtime": 1.0})
    assert not bleu.results
    named = {f"test_{key}": score for key, score in scores.items()}
    bleu.on_predict(None, state, None, metrics=named | {"test_runtime": 1.0})
    assert bleu.results["test_bleu"].score == 1


@pytest.mark.parametrize("name", ["ter", "eval_ter", "eval_news_ter"])
def test_a_best_model_with_the_worst_score_warns(name: str) -> None:
    bleu = HuggingFaceBLEU({"ter": TER()})
    args: Any = SimpleNamespace(metric_for_best_model=name, greater_is_better=True)
    with pytest.warns(UserWarning, match=f"metric_for_best_model='{name}' needs greater_is_better=False"):
        bleu.on_train_begin(args, SimpleNamespace(global_step=0), None)


def test_names_of_scores_must_differ() -> None:
    bleu = HuggingFaceBLEU({"bleu": CorpusBLEU(), "bleu_length_ratio": CorpusCHRF()}, decoder=decode)
    with pytest.raises(ValueError, match="two scores would be logged with one name, rename a metric"):
        evaluate(bleu, IDS)


def test_a_metric_that_is_no_callback_is_an_error() -> None:
    bleu = HuggingFaceBLEU(CorpusBLEU(pad_id=0))
    with pytest.raises(RuntimeError, match=re.escape("Trainer(compute_metrics=bleu, callbacks=[bleu])")):
        bleu(SimpleNamespace(predictions=IDS, label_ids=IDS))


@pytest.mark.parametrize(
    ("predictions", "received"),
    [
        (np.zeros((2, 4, 9), np.float32), r"of 2 labels, got a ndarray of shape \(2, 4, 9\) \(logits"),
        ((IDS, IDS), r"got a tuple \(logits"),
        (np.repeat(IDS, 2, 0), r"of 2 labels, got a ndarray of shape \(4, 4\) \(logits\? several per label"),
    ],
)
def test_predictions_that_are_no_ids_are_an_error(predictions: Any, received: str) -> None:
    with pytest.raises(TypeError, match=rf"{received}.*predict_with_generate=True"):
        evaluate(HuggingFaceBLEU(decoder=decode), predictions)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"metrics": TER()}, TypeError, "TER needs a name: pass {'ter': ...}"),
        ({"metrics": {"bleu": {"news": CorpusBLEU()}}}, ValueError, r"one metric per name, .*, got \['news'\]"),
        ({"metrics": {"loss": CorpusBLEU()}}, ValueError, "cannot have the name 'loss', which is reserved"),
        ({"confidence": 95}, ValueError, "'confidence' must lie between 0 and 1"),
        ({"translations": 5}, TypeError, "'translations' must be a folder or True, got 5"),
        ({"decoder": 5}, TypeError, "'decoder' must be"),
    ],
)
def test_options_are_checked(options: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        HuggingFaceBLEU(**options)


def test_only_events_of_callbacks_are_ignored() -> None:
    bleu = HuggingFaceBLEU()
    bleu.on_step_begin(None, None, None, model=None)
    with pytest.raises(AttributeError, match="'HuggingFaceBLEU' object has no attribute 'report'"):
        bleu.report()
