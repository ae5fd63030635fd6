"""Errors, warnings, and views that say what to do: the mistakes that users of 27 ported projects made."""

from __future__ import annotations

import datetime
import warnings
from pathlib import Path
from typing import Any

import pytest
from pytorch_lightning.callbacks import ModelCheckpoint

from lightning_bleu import BLEUCallback, CorpusBLEU, CorpusCHRF, Evaluator
from lightning_bleu.compare import compare_systems, read_run
from tests.helpers.files import read_validations
from tests.helpers.lightning import collect_warnings, fit, make_callback, read_events

LINES = [f"the cat number {number} sat on a mat of its own" for number in range(40)]
LOOPS = [f"{line}{' so it goes' * 20}" for line in LINES]


def score(metric: Any = None, hypotheses: Any = LINES, references: Any = LINES, **options: Any) -> Any:
    evaluator = Evaluator(metric or CorpusBLEU(percent=True), **options)
    evaluator.start()
    evaluator.update(hypotheses, references)
    return evaluator.finish(500)


def make_tokenizer() -> Any:
    tokenizers = pytest.importorskip("tokenizers")
    return tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, unk_token="a"))


def test_a_tokenizer_of_tokenizers_is_decoded_by_its_method() -> None:
    tokenizer = make_tokenizer()
    with pytest.raises(TypeError, match=r"^'decoder' is a Tokenizer: pass its method, decoder=tokenizer.decode_batch$"):
        CorpusBLEU(decoder=tokenizer)
    assert CorpusBLEU(decoder=tokenizer.decode_batch)([[0, 0]], [[0, 0]]) == 0


def test_a_decoder_that_takes_other_ids_is_named() -> None:
    message = r"^'decoder' must turn lists of ids into strings, but it failed: sequence item 0: expected str"
    with pytest.raises(TypeError, match=message):
        CorpusBLEU(decoder=lambda ids: [" ".join(ids)])([[0, 0]], [[0, 0]])


@pytest.mark.parametrize("hook", ["on_init_end", "on_train_begin", "on_prediction_step"])
def test_a_callback_of_lightning_in_a_trainer_of_transformers_names_the_mixin(hook: str) -> None:
    message = r"^BLEUCallback is for the Trainer of Lightning: for one of Transformers, use EvaluatorMixin of lightning"
    with pytest.raises(TypeError, match=message):
        getattr(BLEUCallback(), hook)(None, None, None, model=None)


def test_a_missing_name_of_a_score_says_which_there_are() -> None:
    results = score({"bleu": CorpusBLEU(), "chrf": CorpusCHRF()})
    with pytest.raises(KeyError, match=r"there is no score 'bleu', only val_bleu, val_chrf"):
        results["bleu"]


# Findings


def test_findings_are_in_results_pages_records_and_loggers(tmp_path: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(tmp_path)
    results = score(hypotheses=LOOPS, loggers=[writer], translations=tmp_path / "t")
    [finding] = results.findings
    assert finding.key == "loops"
    shown = f"{finding.message} [loops]"
    for text in (str(results), results.to_html(), results.to_text(examples=1)):
        assert f"What stands out:\n{shown}" in text.replace("<br>\n", "\n") or shown in text
    [validation] = read_validations(tmp_path / "t")
    assert validation["loaders"][0]["findings"] == [{"key": "loops", "message": finding.message}]
    run = read_run(tmp_path / "t")
    assert run.validations[0].findings == [finding]
    assert f"What stands out at step 500:\n{shown}" in str(run)
    events = read_events(tmp_path)
    tables = [str(events.Tensors(tag)[0].tensor_proto) for tag in events.Tags()["tensors"]]
    assert sum("40 of 40 hypotheses end in a repetition" in table for table in tables) == 2


def test_tables_of_loggers_begin_with_the_findings() -> None:
    tables: list[Any] = []

    class Tables:
        def log_metrics(self, numbers: Any, step: int) -> None: ...

        def save(self) -> None: ...

        def log_table(self, key: str, columns: Any, data: Any, step: int) -> None:
            tables.append((columns, data))

    for group in (None, ["de"] * 40):
        evaluator = Evaluator(CorpusBLEU(), loggers=[Tables()], samples=1)
        evaluator.start()
        evaluator.update(LOOPS, LINES, group=group)
        evaluator.finish(5)
    assert len(tables) == 2
    for columns, rows in tables:
        assert {len(row) for row in rows} == {len(columns)}
        first = dict(zip(columns, rows[0]))
        assert (first["step"], first["shown as"], first["signature"]) == (
            5,
            "finding",
            "loops",
        )
        assert first["hypothesis"].startswith("40 of 40 hypotheses end in a repetition")
        assert [row[2] for row in rows] == ["finding", "first", "worst"]


def test_a_comparison_has_the_findings_of_each_system() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        comparison = compare_systems(
            {"good": [f"so {line}" for line in LINES] * 5, "loops": LOOPS * 5}, references=LINES * 5
        )
    assert ("loops", "loops") in [(finding.key, finding.where) for finding in comparison.findings]
    assert "loops: 200 of 200 hypotheses end in a repetition" in str(comparison)
    assert comparison.to_dict()["findings"] == [finding.to_dict() for finding in comparison.findings]


def test_loaders_have_findings_of_their_own() -> None:
    evaluator = Evaluator(CorpusBLEU())
    evaluator.start({"a": None, "b": None})
    evaluator.update(LINES, LINES, dataloader_idx=0)
    evaluator.update(LOOPS, LINES, dataloader_idx=1)
    [finding] = evaluator.finish(0).findings
    assert finding.where == "b"
    assert str(finding).startswith("b: 40 of 40")


# Pages and tables


def test_a_page_of_results_has_a_title_with_run_step_and_date(tmp_path: Path) -> None:
    today = datetime.date.today()
    page = score(translations=tmp_path / "run" / "translations").to_html()
    assert f"<title>run, val at step 500, {today}</title>" in page
    assert f"<h1>run, val at step 500, {today}</h1>" in page
    assert f"<title>val at step 500, {today}</title>" in score().to_html()
    assert str(today) not in str(score())
    evaluator = Evaluator(CorpusBLEU())
    for stage, step in (("val", 1000), ("test", 900)):
        evaluator.start(stage=stage)
        evaluator.update(LINES, LINES)
        evaluator.finish(step)
    assert evaluator.results.title == f"val at step 1,000, {today}; test at step 900, {today}"


def test_a_verdict_is_beside_each_difference() -> None:
    evaluator = Evaluator(CorpusBLEU(percent=True), compare_to="best")
    for step, hypotheses in enumerate([[f"no {line}" for line in LINES], LINES, LINES]):
        evaluator.start()
        evaluator.update(hypotheses, LINES)
        evaluator.finish(step)
        verdict = evaluator.results["val_bleu"].verdict
        word = [None, "better", "unclear"][step]
        assert (None if verdict is None else verdict.word) == word
        assert word is None or f"  {word}  " in str(evaluator.results)


# What is watched


@pytest.mark.parametrize(("steps", "is_suspect"), [(1, True), (10_000_000, False)])
def test_a_checkpoint_that_is_saved_before_the_validation_warns(steps: int, is_suspect: bool, tmp_path: Path) -> None:
    checkpoint = ModelCheckpoint(tmp_path, monitor="val_bleu", mode="max", every_n_train_steps=steps)
    if not is_suspect:
        checkpoint._every_n_train_steps = 0
    message = "saves before the validation of a step"
    found = collect_warnings(fit, tmp_path, make_callback(), checkpoint, message=message, max_epochs=1)
    assert len(found) == is_suspect
