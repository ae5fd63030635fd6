"""Real Trainers of Transformers, in one and in two processes: the score is that of sacreBLEU on the decoded text.

The programs are those of ``docs/hugging_face.md``.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from torch.utils.data import IterableDataset

from lightning_bleu import CorpusBLEU, CorpusCHRF, HuggingFaceBLEU, corpus_bleu
from tests.helpers.pages import run_page
from tests.helpers.process_groups import run_in_processes

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "hugging_face.md"

SIZES = [1, 5, 67]
"""The numbers of sentences: with batches of 32, two processes repeat some of each."""

MODES: dict[str, dict[str, Any]] = {
    "all at once": {},
    "by batch": {"batch_eval_metrics": True},
    "all at once, in a list": {"eval_do_concat_batches": False},
    "by batch, with inputs": {"batch_eval_metrics": True, "include_for_metrics": ["inputs"]},
}
DEFAULTS = {"batch_eval_metrics": False, "eval_do_concat_batches": True, "include_for_metrics": []}


# One process


class Stream(IterableDataset[dict[str, Any]]):
    """A dataset without a length."""

    def __init__(self, items: list[dict[str, Any]]) -> None:
        self.items = items

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.items)


class Case:
    """A trainer of the page, and sentences for it.

    Args:
        trainer: the trainer.
        generate: takes source sentences and returns what the model writes.
        encode: makes an item of a dataset from a source and a target.
    """

    def __init__(
        self,
        trainer: Any,
        generate: Callable[[list[str]], list[str]],
        encode: Callable[[str, str], Any],
        words: list[str],
    ) -> None:
        self.trainer, self.generate, self.encode, self.words = trainer, generate, encode, words
        self.texts = {size: self.make_texts(size) for size in SIZES}

    def make_texts(self, size: int) -> tuple[list[str], list[str], list[str]]:
        """Sources, hypotheses, and references: the hypotheses with some words replaced, or all scores would be 0."""
        chosen = random.Random(size)
        sources = [" ".join(chosen.choices(self.words, k=chosen.randint(3, 10))) for _ in range(size)]
        hypotheses = self.generate(sources)
        references = [
            " ".join(word if chosen.random() < 0.8 else chosen.choice(self.words) for word in line.split()) or "a"
            for line in hypotheses
        ]
        return sources, hypotheses, references

    def items(self, size: int) -> list[dict[str, Any]]:
        """A dataset for the trainer."""
        sources, _, references = self.texts[size]
        return [self.encode(*pair) for pair in zip(sources, references)]

    def set_mode(self, name: str) -> None:
        """Choose how the trainer calls the metric."""
        for option, value in (DEFAULTS | MODES[name]).items():
            setattr(self.trainer.args, option, value)

    def results(self) -> dict[str, Any]:
        """Everything that the trainer computes."""
        self.trainer.args.per_device_eval_batch_size = 32
        found: dict[str, Any] = {"texts": {size: texts[1:] for size, texts in self.texts.items()}}
        for mode in MODES:
            self.set_mode(mode)
            found[mode] = {size: self.trainer.evaluate(self.items(size)) for size in SIZES}
            found[f"predict {mode}"] = self.trainer.predict(self.items(5)).metrics
            found[f"stream {mode}"] = self.evaluate_stream()
            found[f"after an error {mode}"] = self.evaluate_after_an_error()
        self.set_mode("by batch")
        found["two datasets"] = self.trainer.evaluate({str(size): self.items(size) for size in (5, 67)})
        from transformers import Trainer  # slow to import

        found["logits"] = self.error_with("prediction_step", partial(Trainer.prediction_step, self.trainer))
        found["argmax"] = self.error_with("preprocess_logits_for_metrics", lambda ids, labels: ids.argmax(-1))
        return found

    def error_with(self, attribute: str, value: Any) -> str:
        """The error of an evaluation with another attribute of the trainer."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.trainer, attribute, value)
            with pytest.raises(TypeError) as error:
                self.trainer.evaluate(self.items(5))
        return str(error.value)

    def evaluate_stream(self) -> Any:
        """Evaluate a dataset without a length."""
        try:
            return self.trainer.evaluate(Stream(self.items(5)))
        except ValueError as error:
            return str(error)

    def evaluate_after_an_error(self) -> Any:
        """Evaluate again after an evaluation that stopped."""
        step, steps = self.trainer.prediction_step, iter(range(2))

        def stop(*args: Any, **kwargs: Any) -> Any:
            if next(steps) == 1:
                raise KeyboardInterrupt
            return step(*args, **kwargs)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.trainer, "prediction_step", stop)
            with pytest.raises(KeyboardInterrupt):
                self.trainer.evaluate(self.items(67))
        return self.trainer.evaluate(self.items(5))


def evaluate_all(folder: Path) -> dict[str, Any]:
    """Run the programs of the page, and evaluate more sentences with their trainers."""
    torch.manual_seed(0)
    os.chdir(folder)
    page = SimpleNamespace(**run_page(PAGE))
    for model in (
        page.translator,
        page.completer,
    ):  # as before they were trained, the same with one process and with two
        torch.manual_seed(0)
        model.load_state_dict(type(model)(model.config).state_dict())

    def translate(sources: list[str]) -> list[str]:
        batch = page.tokenizer(sources, return_tensors="pt", padding=True)
        ids = page.translator.eval().generate(**batch, max_length=20)
        return list(page.tokenizer.batch_decode(ids, skip_special_tokens=True))

    def complete(sources: list[str]) -> list[str]:
        batch = page.causal_tokenizer(sources, return_tensors="pt", padding=True, add_special_tokens=False)
        ids = page.completer.eval().generate(**batch, max_new_tokens=20)[:, batch["input_ids"].shape[1] :]
        return list(page.causal_tokenizer.batch_decode(ids, skip_special_tokens=True))

    cases = {
        "Seq2SeqTrainer": Case(page.trainer, translate, page.encode_pair, page.WORDS),
        "Trainer": Case(page.completion_trainer, complete, page.encode_prompt, page.WORDS),
    }
    return {name: case.results() for name, case in cases.items()}


# The tests


@pytest.fixture(scope="module", params=[1, 2])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each process found."""
    pytest.importorskip("transformers")
    return run_in_processes(request.param, evaluate_all, tmp_path_factory.mktemp("hugging_face"))


def check(scores: dict[str, float], texts: tuple[list[str], list[str]], prefix: str = "eval", *, chrf: bool) -> None:
    """Compare logged scores with those of sacreBLEU."""
    hypotheses, references = texts
    report = corpus_bleu(hypotheses, references, percent=True)
    expected = BLEU().corpus_score(hypotheses, [references])
    assert scores[f"{prefix}_bleu"] == report.bleu == pytest.approx(expected.score, abs=1e-9)
    assert scores[f"{prefix}_bleu_hypothesis_length"] == expected.sys_len
    assert scores[f"{prefix}_bleu_reference_length"] == expected.ref_len
    assert scores[f"{prefix}_bleu_brevity_penalty"] == pytest.approx(expected.bp, abs=1e-12)
    for order, precision in enumerate(expected.precisions, 1):
        assert scores[f"{prefix}_bleu_precision_{order}"] == pytest.approx(precision, abs=1e-9)
    if chrf:
        expected_chrf = CHRF().corpus_score(hypotheses, [references])
        assert scores[f"{prefix}_chrf"] == pytest.approx(expected_chrf.score, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("trainer", ["Seq2SeqTrainer", "Trainer"])
def test_every_sentence_counts_once_however_the_trainer_gathers_them(found: list[dict[str, Any]], trainer: str) -> None:
    for process in found:
        results = process[trainer]
        compare = partial(check, chrf=trainer == "Seq2SeqTrainer")
        texts = results["texts"]
        assert 0 < corpus_bleu(*texts[67]).bleu < 1
        assert texts == found[0][trainer]["texts"]
        for mode in MODES:
            for size in SIZES:
                compare(results[mode][size], texts[size])
            compare(results[f"predict {mode}"], texts[5], "test")
            compare(results[f"after an error {mode}"], texts[5])
            if len(found) == 1:
                compare(results[f"stream {mode}"], texts[5])
            else:
                assert "the evaluation dataset must have a length" in results[f"stream {mode}"]
        for error in (results["logits"], results["argmax"]):
            assert "HuggingFaceBLEU scores generated ids" in error
        for size in (5, 67):
            compare(results["two datasets"], texts[size], f"eval_{size}")


def evaluate(bleu: HuggingFaceBLEU, predictions: Any, labels: Any) -> dict[str, float]:
    """Call a metric like a Trainer."""
    bleu.on_prediction_step(None, None, None, eval_dataloader=SimpleNamespace(dataset=labels))
    return bleu(SimpleNamespace(predictions=predictions, label_ids=labels))


IDS = np.array([[5, 6, 7, 8], [5, 6, 7, -100]])


def test_metrics_are_copied_and_their_reports_are_kept() -> None:
    metric, other = CorpusBLEU(pad_id=0), CorpusBLEU(max_order=2, pad_id=0)
    bleu = HuggingFaceBLEU(metric, {"bigrams": other})
    for _ in range(2):  # nothing remains of the first evaluation
        scores = evaluate(bleu, IDS[:, :3], IDS)
        assert (scores["bleu_hypothesis_length"], scores["bigrams_reference_length"]) == (6, 7)
    assert scores["bigrams"] == bleu.reports["bigrams"].score
    assert metric.update_count == other.update_count == 0
    assert list(bleu.reports) == ["bleu", "bigrams"]


def test_a_metric_that_is_no_callback_is_an_error() -> None:
    bleu = HuggingFaceBLEU(CorpusBLEU(pad_id=0))
    with pytest.raises(RuntimeError, match=re.escape("Trainer(compute_metrics=bleu, callbacks=[bleu])")):
        bleu(SimpleNamespace(predictions=IDS, label_ids=IDS))


@pytest.mark.parametrize(
    ("predictions", "received"),
    [(np.zeros((2, 4, 9), np.float32), r"a ndarray of shape \(2, 4, 9\)"), ((IDS, IDS), r"a tuple \(logits\?\)")],
)
def test_logits_are_an_error_that_says_how_to_generate(predictions: Any, received: str) -> None:
    with pytest.raises(TypeError, match=rf"{received}.*predict_with_generate=True"):
        evaluate(HuggingFaceBLEU(), predictions, IDS)


def test_several_hypotheses_per_sentence_are_an_error() -> None:
    with pytest.raises(ValueError, match="the same number of sentences"):
        evaluate(HuggingFaceBLEU(CorpusBLEU(pad_id=0)), np.repeat(IDS, 2, 0), IDS)


def test_other_metrics_are_metrics_of_this_package_with_other_names() -> None:
    sacrebleu: Any = BLEU()
    with pytest.raises(TypeError, match=r"'ter' must be a metric of lightning_bleu, got .* of type BLEU"):
        HuggingFaceBLEU(others={"ter": sacrebleu})
    with pytest.raises(TypeError, match="'bleu' must be a metric of lightning_bleu"):
        HuggingFaceBLEU(sacrebleu)
    with pytest.raises(ValueError, match="'others' has the name 'bleu'"):
        HuggingFaceBLEU(others={"bleu": CorpusCHRF()})


def test_only_events_of_callbacks_are_ignored() -> None:
    bleu = HuggingFaceBLEU()
    bleu.on_train_begin(None, None, None, model=None)
    with pytest.raises(AttributeError, match="'HuggingFaceBLEU' object has no attribute 'report'"):
        bleu.report()
