"""Metrics of text beside BLEU, without Lightning."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from sacrebleu import BLEU
from sacrebleu.metrics.ter import TER
from torchmetrics import MetricCollection
from torchmetrics.text import (
    CharErrorRate,
    CHRFScore,
    EditDistance,
    ExtendedEditDistance,
    Perplexity,
    ROUGEScore,
    TranslationEditRate,
    WordErrorRate,
)
from torchmetrics.wrappers import MinMaxMetric

from lightning_bleu import CorpusBLEU, CorpusCHRF
from lightning_bleu.training.evaluation import Evaluation
from lightning_bleu.training.others import copy_other, is_higher_better, score_others, score_texts
from lightning_bleu.training.sentences import Sentence
from tests.helpers.others import MAKE, Fingerprint, Returns, corpus_of, score_alone
from tests.helpers.process_groups import ProcessPool, group_of_one

CORPUS = corpus_of(range(12))
SENTENCES = [Sentence(*pair) for pair in zip(*CORPUS)]
LOWERED = Sentence("The Cat Sat", ["the cat sat", "a dog"])


@pytest.mark.parametrize("name", MAKE)
def test_a_copy_scores_what_the_metric_would_again_and_again(name: str) -> None:
    metric = MAKE[name]()
    copied = copy_other(name, metric)
    expected = score_alone(MAKE[name](), *CORPUS)
    assert score_texts(copied, SENTENCES) == score_texts(copied, SENTENCES) == expected
    assert score_texts(copied, SENTENCES[:3]) == score_alone(MAKE[name](), *corpus_of(range(3)))
    assert score_texts(pickle.loads(pickle.dumps(copied)), SENTENCES) == expected
    assert type(copied) is type(metric)
    assert copied is not metric


@pytest.mark.parametrize("metric", [CorpusBLEU(lowercase=True), CorpusCHRF(beta=1)])
def test_a_metric_of_this_package_is_copied_as_it_is(metric: Any) -> None:
    metric.update(["a b"], ["a b"])
    copied = copy_other("name", metric)
    copied.update(["c"], ["d"])
    assert type(copied) is type(metric)
    assert (copied.settings, metric.input_counts.strings) == (metric.settings, 1)


def test_scores_are_of_hypotheses_alone_in_inference_mode() -> None:
    """As in a validation; then the metric is used elsewhere."""
    metric = copy_other("edit_rate", TranslationEditRate())
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
    metric = copy_other("both", make_both(kind))
    for sentence in first:
        agreed = score_texts(metric, [sentence])
        assert agreed["cased"] == agreed["lowered"]
    expected = score_alone(make_both(kind), [LOWERED.hypothesis], [LOWERED.references])
    assert expected["cased"] != expected["lowered"]
    assert score_texts(metric, [LOWERED]) == expected


@pytest.mark.parametrize(
    ("metric", "found"),
    [
        (5, "got 5 for 'other'"),
        (None, "got None for 'other'"),
        (TER, "got <class 'sacrebleu.metrics.ter.TER'> for 'other'"),
        ({"ter": TER()}, "for 'other'"),
        (torch.nn.Linear(1, 1), "got Linear"),
    ],
)
def test_what_is_no_metric_is_rejected(metric: Any, found: str) -> None:
    with pytest.raises(TypeError) as error:
        copy_other("other", metric)
    assert str(error.value).startswith("'others' must have metrics of lightning_bleu, torchmetrics, or sacreBLEU, got ")
    assert found in str(error.value)


NUMBERS = "TypeError: the result must be a number or a dict of numbers, got "


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        (WordErrorRate(), "it cannot score two sentences: AttributeError: "),
        (EditDistance(), "it cannot score two sentences: ValueError: "),
        (Perplexity(), "it cannot score two sentences: "),
        (MetricCollection([CHRFScore(), WordErrorRate()]), "it cannot score two sentences: AttributeError: "),
        (CharErrorRate(), "it gives right and wrong hypotheses the same score, "),
        (CHRFScore(return_sentence_level_score=True), f"it cannot score two sentences: {NUMBERS}(tensor(1.)"),
        (Returns(None), f"it cannot score two sentences: {NUMBERS}None"),
        (Returns(torch.tensor([0.5, 0.7])), f"it cannot score two sentences: {NUMBERS}tensor([0.5000, 0.7000])"),
        (Returns({"a": 0.5, "b": [1]}), f"it cannot score two sentences: {NUMBERS}{{'a': 0.5, 'b': [1]}}"),
        (Returns(0.5), "it gives right and wrong hypotheses the same score, 0.5"),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric")
def test_a_metric_of_something_else_is_rejected(metric: Any, reason: str) -> None:
    with pytest.raises(TypeError) as error:
        copy_other("other", metric)
    assert str(error.value).startswith(
        "the metric 'other' of 'others' must take a list of strings, and a list of references for each, but " + reason
    )


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
        (Fingerprint(), None),
        (MAKE["both"](), None),  # one of them is better if it is higher
    ],
)
def test_a_metric_tells_whether_higher_is_better(metric: Any, expected: bool | None) -> None:
    assert is_higher_better(metric) is expected


# Loaders


def evaluate(*loaders: tuple[str, range], masked: int | None = None) -> dict[str, Any]:
    """The sentences of loaders by name, from last to first."""
    found = {}
    for name, items in loaders:
        evaluation = Evaluation("val_bleu", name, CorpusBLEU(), max_texts=math.inf)
        for item in reversed(items):
            evaluation.update(*corpus_of([item]), [item != masked], [item])
        found[name] = evaluation.result().sentences
    return found


def test_a_single_loader_has_no_mean() -> None:
    metrics = {"val_ter": TER(), "val_rouge": ROUGEScore(rouge_keys=("rouge1",)), "val_order": Fingerprint()}
    scored = score_others(metrics, evaluate(("", range(12)), masked=3))
    corpus = corpus_of([*range(3), *range(4, 12)])
    expected = [score_alone(make(), *corpus) for make in (TER, MAKE["rouge"], Fingerprint)]
    assert scored["val_ter"] == expected[0]
    assert scored["val_rouge"].items() < expected[1].items()
    assert scored["val_order"] == expected[2]
    assert len(scored) == 3


@pytest.mark.parametrize("sizes", [(5, 7), (5, 0), (0, 7), (0, 0)])
def test_the_mean_is_that_of_the_loaders_with_sentences(sizes: tuple[int, int]) -> None:
    loaders = [("news", range(sizes[0])), ("talks", range(20, 20 + sizes[1]))]
    scored = score_others({"val_ter": TER()}, evaluate(*loaders))
    expected = {f"val_ter/{name}": score_alone(TER(), *corpus_of(items)) for name, items in loaders if items}
    scores = [one[""] for one in expected.values()]
    assert scored == expected | ({"val_ter": {"": sum(scores) / len(scores)}} if scores else {})


def test_without_metrics_no_text_is_read() -> None:
    assert score_others({}, evaluate(("news", range(5)))) == {}


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
    metric = copy_other(name, NEEDS_SYNC[name](dist_sync_fn=refuse))
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
    evaluation = Evaluation("val_bleu", "", CorpusBLEU(), max_texts=math.inf)
    for item in [3] if rank == 1 else [7, *range(3), *range(4, 12), 3]:  # item 7 has two positions, but one counts
        evaluation.update(*corpus_of([item]), index=[item])
    try:
        return score_others({"val": metric}, {"": evaluation.result().sentences})
    except RuntimeError as error:
        return str(error)


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKE)
def test_sentences_of_two_processes_are_scored_in_order(name: str, pool: ProcessPool) -> None:
    metric = copy_other(name, MAKE[name]())
    assert pool.run(2, score_share, metric) == [{"val": score_alone(MAKE[name](), *CORPUS)}] * 2


@pytest.mark.slow
def test_both_processes_raise_the_error_of_a_metric(pool: ProcessPool) -> None:
    expected = "the metric of 'val' failed: OSError: no answer"
    assert pool.run(2, score_share, copy_other("fails", Fails())) == [expected] * 2


def test_a_metric_that_cannot_be_copied_deeply_scores() -> None:
    metric = BLEU(tokenize="ja-mecab")
    assert score_texts(copy_other("ja", metric), SENTENCES) == score_texts(metric, SENTENCES)


@pytest.mark.parametrize("kind", [CorpusCHRF, TranslationEditRate, TER])
def test_a_class_is_not_a_metric(kind: Any) -> None:
    with pytest.raises(TypeError, match=r"got <class .*> for 'x': make an instance of it"):
        copy_other("x", kind)
