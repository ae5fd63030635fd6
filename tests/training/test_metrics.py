"""The metrics of a callback, and their results, without Lightning."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from sacrebleu import BLEU
from sacrebleu.metrics.ter import TER
from torchmetrics import MetricCollection
from torchmetrics.text import (
    CHRFScore,
    ExtendedEditDistance,
    Perplexity,
    ROUGEScore,
    TranslationEditRate,
)
from torchmetrics.wrappers import MinMaxMetric

from lightning_bleu import CorpusBLEU, CorpusCHRF, corpus_bleu
from lightning_bleu.reading.batch import read_batch
from lightning_bleu.scoring.resampling import Interval, PairedTest
from lightning_bleu.settings.settings import Settings
from lightning_bleu.training.metrics import Counted, OfText, Result, mean_of, wrap_metric
from lightning_bleu.training.sentences import Sentence
from tests.helpers.others import MAKE, Fingerprint, Returns, corpus_of, score_alone
from tests.helpers.process_groups import ProcessPool, group_of_one
from tests.helpers.validations import count, make_validation

CORPUS = corpus_of(range(12))
SENTENCES = [Sentence(*pair) for pair in zip(*CORPUS)]
LOWERED = Sentence("The Cat Sat", ["the cat sat", "a dog"])


# Results


def test_a_result_has_a_score_unless_it_has_several() -> None:
    assert Result({"": 0.5}).score == 0.5
    several = Result({"rouge1": 0.5, "rouge2": 0.25})
    with pytest.raises(AttributeError, match=r"several scores: choose one of .scores, \['rouge1', 'rouge2'\]$"):
        several.score  # noqa: B018


def test_a_result_tells_what_is_logged_and_what_is_written() -> None:
    report = corpus_bleu(["a b c d e"], ["a b c d f"])
    interval, test = Interval(0.5, 0.4, 0.6, 0.95, ()), PairedTest("paired bootstrap", 0.5, 0.4, 0.01, 1000)
    bleu = Result({"": report.bleu}, report.parts(), report, interval, test, best=0.4)
    extras = {"low": 0.4, "high": 0.6, "p_value": 0.01, "best": 0.4}
    assert bleu.values() == {"": report.bleu} | report.parts() | extras
    assert bleu.to_dict() == {"score": report.bleu} | report.to_dict() | extras
    first = Result({"a": 0.5, "b": 0.25}, best=0.5)  # nothing to compare with
    assert first.values() == first.to_dict() == {"a": 0.5, "b": 0.25, "p_value": 1.0, "best": 0.5}


def test_a_mean_has_scores_and_nothing_else() -> None:
    first = Result({"a": 0.5, "b": 0.1}, {"part": 0.5}, "report", best=0.5)
    assert mean_of([first, Result({"b": 0.4, "a": 0.0})]) == Result({"a": 0.25, "b": 0.25})
    assert mean_of([Result({"": 0.1})] * 10).score == 0.1  # without an error of rounding


# Metrics of other packages


def score_texts(metric: OfText, sentences: Sequence[Sentence]) -> dict[str, float]:
    """What the copy of a metric scores."""
    return metric._score_texts(sentences)


@pytest.mark.parametrize("name", MAKE)
def test_a_copy_scores_what_the_metric_would_again_and_again(name: str) -> None:
    metric = MAKE[name]()
    copied = OfText(name, metric)
    expected = score_alone(MAKE[name](), *CORPUS)
    assert score_texts(copied, SENTENCES) == score_texts(copied, SENTENCES) == expected
    assert score_texts(copied, SENTENCES[:3]) == score_alone(MAKE[name](), *corpus_of(range(3)))
    assert score_texts(pickle.loads(pickle.dumps(copied)), SENTENCES) == expected
    assert type(copied.metric) is type(metric)
    assert copied.metric is not metric


def test_scores_are_of_hypotheses_alone_in_inference_mode() -> None:
    """As in a validation; then the metric is used elsewhere."""
    metric = OfText("edit_rate", TranslationEditRate())
    with torch.inference_mode():
        inferred = score_texts(metric, SENTENCES)
    assert score_texts(metric, SENTENCES) == inferred == score_alone(TranslationEditRate(), *CORPUS)


def make_both(kind: Any) -> Any:
    """Two metrics with scores that differ only for capital letters."""
    return MetricCollection({"cased": kind(lowercase=False), "lowered": kind(lowercase=True)})


@pytest.mark.parametrize("kind", [CHRFScore, TranslationEditRate])
@pytest.mark.parametrize(
    "first",
    [
        pytest.param([], id="at first"),
        pytest.param(
            [Sentence("a dog", ["a cat"])],
            id="after others",
        ),
    ],
)
def test_the_metrics_of_a_collection_are_not_merged(first: list[Sentence], kind: Any) -> None:
    """torchmetrics merges them for good if they agree on the first sentences, here those of a trial or an epoch."""
    metric = OfText("both", make_both(kind))
    for sentence in first:
        agreed = score_texts(metric, [sentence])
        assert agreed["cased"] == agreed["lowered"]
    expected = score_alone(make_both(kind), [LOWERED.hypothesis], [LOWERED.references])
    assert expected["cased"] != expected["lowered"]
    assert score_texts(metric, [LOWERED]) == expected


@pytest.mark.parametrize(
    ("metric", "found"),
    [
        (5, "got 5"),
        (None, "got None"),
        ([TranslationEditRate()], "got [TranslationEditRate()]"),
        (TER, "got <class 'sacrebleu.metrics.ter.TER'>: make an instance of it"),
        (TranslationEditRate, "got <class 'torchmetrics.text.ter.TranslationEditRate'>: make an instance of it"),
        (CorpusCHRF, "got <class 'lightning_bleu.chrf.CorpusCHRF'>: make an instance of it"),
    ],
    ids=str,
)
def test_what_is_no_metric_is_rejected(metric: Any, found: str) -> None:
    with pytest.raises(TypeError) as error:
        wrap_metric("name", metric)
    assert str(error.value).startswith(
        f"'name' must be a metric of lightning_bleu, torchmetrics, or sacreBLEU, or a function, {found}"
    )


NUMBERS = "TypeError: the result must be a number, a number per sentence, or a dict of these, got "


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        (Perplexity(), "it cannot score two sentences: "),
        (CHRFScore(return_sentence_level_score=True), f"it cannot score two sentences: {NUMBERS}(tensor(1.)"),
        (Returns(None), f"it cannot score two sentences: {NUMBERS}None"),
        (Returns({"a": 0.5, "b": ["1"]}), f"it cannot score two sentences: {NUMBERS}{{'a': 0.5, 'b': ['1']}}"),
        (Returns(0.5), "it gives right and wrong hypotheses the same score, 0.5"),
        (Returns(torch.tensor([0.25, 0.75])), "it gives right and wrong hypotheses the same score, 0.5"),
        (Returns({"a": 0.5, "b": [1]}), "it gives right and wrong hypotheses the same score, {'a': 0.5, 'b': 1.0}"),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric")
def test_a_metric_of_something_else_is_rejected(metric: Any, reason: str) -> None:
    with pytest.raises(TypeError) as error:
        wrap_metric("other", metric)
    needs = "the metric 'other' must take a list of strings, and a reference or a list of references for each"
    assert str(error.value).startswith(f"{needs}, but {reason}")


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (TER(), False),
        (MAKE["sacre_chrf"](), True),
        (MAKE["sacre_bleu"](), True),
        (TranslationEditRate(), False),
        (ExtendedEditDistance(), False),
        (CHRFScore(), True),
        (ROUGEScore(rouge_keys="rouge1"), True),
        (CorpusCHRF(), True),
        (MAKE["both"](), None),  # one of them is better if it is higher
    ],
)
def test_a_metric_tells_whether_higher_is_better(metric: Any, expected: bool | None) -> None:
    assert wrap_metric("name", metric).higher_is_better is expected


def test_a_metric_of_this_package_knows_its_scale_and_whether_it_needs_text() -> None:
    counted = [wrap_metric("name", metric) for metric in (CorpusBLEU(max_order=2), CorpusCHRF(percent=True), TER())]
    assert [type(one) for one in counted] == [Counted, Counted, OfText]
    assert [(one.columns, one.scale) for one in counted] == [(6, 1), (18, 100), (0, None)]
    ids = read_batch([[1, 2]], [[1, 2]], Settings())
    counted[0].check(ids, None, None)
    for one in counted[1:]:
        with pytest.raises(TypeError, match=r"^the metric 'name' needs text, got ids"):
            one.check(ids, None, None)


# Labels


def score_all(metrics: Any, loaders: dict[str, range], masked: int = -1) -> dict[str, dict[str, float]]:
    """The scores of loaders of these sentences, which are read from last to first."""
    validation = make_validation(metrics, [*loaders])
    for number, items in enumerate(loaders.values()):
        for item in reversed(items):
            count(validation, *corpus_of([item]), sample_mask=[item != masked], index=[item], dataloader_idx=number)
    validation.agree()
    return {tag: result.scores for tag, result in validation.finish()[0].items()}


def test_a_single_loader_has_no_mean() -> None:
    scored = score_all({"ter": TER(), "rouge": MAKE["rouge"](), "order": Fingerprint()}, {"": range(12)}, masked=3)
    corpus = corpus_of([*range(3), *range(4, 12)])
    kinds = {"val_ter": TER, "val_rouge": MAKE["rouge"], "val_order": Fingerprint}
    assert scored == {tag: score_alone(make(), *corpus) for tag, make in kinds.items()}


@pytest.mark.parametrize("metric", [TER, CorpusBLEU])
@pytest.mark.parametrize("sizes", [(5, 7), (5, 0), (0, 7), (0, 0)])
def test_the_mean_is_that_of_the_loaders_with_sentences(sizes: tuple[int, int], metric: Any) -> None:
    loaders = {"news": range(sizes[0]), "talks": range(20, 20 + sizes[1])}
    scored = score_all({"x": metric()}, loaders)
    expected = {
        f"val_x/{name}": score_alone(metric(), *corpus_of(items))[""] for name, items in loaders.items() if items
    }
    if expected:
        expected["val_x"] = sum(expected.values()) / len(expected)
    assert scored == {tag: {"": score} for tag, score in expected.items()}


# Processes


def refuse(*args: Any) -> Any:
    raise RuntimeError("torchmetrics synced")


NEEDS_SYNC: dict[str, Callable[..., Any]] = {
    "plain": TranslationEditRate,
    "collection": lambda **options: MetricCollection([TranslationEditRate(**options), CHRFScore(**options)]),
    "wrapped": lambda **options: MinMaxMetric(TranslationEditRate(**options)),
    "multiplied": lambda **options: 100 * TranslationEditRate(**options),
}


@pytest.mark.parametrize("name", NEEDS_SYNC)
def test_a_metric_that_one_process_computes_is_not_synced(name: str) -> None:
    """It would wait for the others."""
    metric = OfText(name, NEEDS_SYNC[name](dist_sync_fn=refuse))
    expected = score_texts(metric, SENTENCES)
    with group_of_one():
        assert score_texts(metric, SENTENCES) == expected


class Fails(Fingerprint):
    """A metric that can score two sentences, but not many."""

    def compute(self) -> Any:
        if len(self.texts) > 2:
            raise OSError("no answer")
        return super().compute()


def score_share(rank: int, world_size: int, metric: Any) -> Any:
    """What all processes get, of which one has one sentence, and the other one has all the others."""
    validation = make_validation({"x": metric})
    for item in [3] if rank == 1 else [7, *range(3), *range(4, 12), 3]:  # item 7 has two positions, but one counts
        count(validation, *corpus_of([item]), index=[item])
    validation.agree()
    try:
        return validation.finish()[0]["val_x"].scores
    except RuntimeError as error:
        return str(error)


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKE)
def test_sentences_of_two_processes_are_scored_in_order(name: str, pool: ProcessPool) -> None:
    assert pool.run(2, score_share, MAKE[name]()) == [score_alone(MAKE[name](), *CORPUS)] * 2


@pytest.mark.slow
def test_both_processes_raise_the_error_of_a_metric(pool: ProcessPool) -> None:
    assert pool.run(2, score_share, Fails()) == ["the metric 'x' failed: OSError: no answer"] * 2


def test_a_metric_that_cannot_be_copied_deeply_scores() -> None:
    metric = BLEU(tokenize="ja-mecab")
    assert score_texts(OfText("ja", metric), SENTENCES) == score_alone(metric, *CORPUS)
