"""An evaluation and the best one so far, without Lightning."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning_utilities.core.rank_zero import rank_zero_only

from lightning_bleu import CorpusBLEU, corpus_bleu, paired_bootstrap
from lightning_bleu.training import evaluation as evaluation_module
from lightning_bleu.training.evaluation import BestSoFar, Evaluation

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def without_lightning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lightning sets the rank of the process when it is imported, which other tests may have done."""
    monkeypatch.delattr(rank_zero_only, "rank", raising=False)


HYPOTHESES = ["the cat sat on the mat", "nothing in common", "all of this is right", "one more line here"]
REFERENCES = [
    ["the cat is on the mat", "a cat is on the mat"],
    ["these words differ entirely"],
    ["all of this is right"],
    ["one more row here"],
]
SENTENCES = torch.randint(3, 50, (60, 12), generator=torch.Generator().manual_seed(0))


def sentence_totals(hypothesis: str, references: list[str]) -> list[int]:
    """The statistics of one sentence."""
    report = corpus_bleu([hypothesis], [references])
    return [*report.matches, *report.possible_matches, report.hypothesis_length, report.reference_length]


ROWS = [sentence_totals(*pair) for pair in zip(HYPOTHESES, REFERENCES)]


def texts(evaluation: Evaluation) -> list[tuple[str, list[str]]]:
    return [evaluation.text(sentence) for sentence in range(evaluation.text_count)]


def make_metric(right: float, sentences: int = 60, *, seed: int = 1, **options: Any) -> CorpusBLEU:
    """A metric of sentences in which a share of the words, drawn by a seed, is right."""
    target = SENTENCES[:sentences]
    luck = torch.rand(target.shape, generator=torch.Generator().manual_seed(seed))
    metric = CorpusBLEU(**{"pad_id": 0, "keep_sentences": True} | options)
    metric.update(torch.where(luck < right, target, 99), target)
    return metric


def test_the_sentences_of_all_batches_are_kept_in_order() -> None:
    evaluation = Evaluation(CorpusBLEU())
    evaluation.update(HYPOTHESES[:1], REFERENCES[:1])
    evaluation.update([], [])
    evaluation.update(HYPOTHESES[1:], REFERENCES[1:])
    assert evaluation.statistics().tolist() == ROWS
    assert texts(evaluation) == list(zip(HYPOTHESES, REFERENCES))
    assert evaluation.metric.report() == corpus_bleu(HYPOTHESES, REFERENCES)


def test_the_given_metric_is_copied_without_its_sentences() -> None:
    metric = CorpusBLEU(max_order=2)
    metric.update(["a b"], ["a b"])
    evaluation = Evaluation(metric, keep_sentences=True)
    assert evaluation.metric.hypothesis_length == 0
    assert evaluation.metric.keep_sentences
    evaluation.update(HYPOTHESES, REFERENCES)
    assert metric.hypothesis_length == 2
    assert not metric.keep_sentences
    assert torch.equal(evaluation.statistics(), evaluation.metric.sentence_statistics.long())


@pytest.mark.parametrize("forms", [str.split, lambda line: [ord(letter) for letter in line], str])
def test_a_masked_sentence_has_a_text_but_does_not_count(forms: Any) -> None:
    hypotheses = [forms(line) for line in HYPOTHESES]
    references = [[forms(line) for line in group] for group in REFERENCES]
    evaluation, counted = Evaluation(CorpusBLEU(), keep_sentences=True), Evaluation(CorpusBLEU())
    evaluation.update(hypotheses, references, [True, False, True, False])
    counted.update([hypotheses[0], hypotheses[2]], [references[0], references[2]])
    first, third = counted.statistics().tolist()
    nothing = [0] * 10
    assert evaluation.statistics().tolist() == [first, nothing, third, nothing]
    assert evaluation.text_count == 4
    assert texts(evaluation)[::2] == texts(counted)
    assert evaluation.metric.report().matches == counted.metric.report().matches
    assert len(evaluation.metric.sentence_statistics) == 2


@pytest.mark.parametrize("keep", [True, False])
def test_one_value_masks_a_whole_batch(keep: bool) -> None:
    evaluation = Evaluation(CorpusBLEU())
    evaluation.update(HYPOTHESES, REFERENCES, [keep])
    assert evaluation.statistics().tolist() == (ROWS if keep else [[0] * 10] * 4)
    assert evaluation.text_count == 4


def test_texts_are_kept_up_to_a_limit_and_statistics_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation_module, "_MAX_TEXTS", 3)
    evaluation = Evaluation(CorpusBLEU())
    for start in (0, 2, 0, 2):
        evaluation.update(HYPOTHESES[start : start + 2], REFERENCES[start : start + 2])
    # The second batch reaches the limit, and is kept as a whole.
    assert texts(evaluation) == list(zip(HYPOTHESES, REFERENCES))
    with pytest.raises(IndexError, match="only 4 sentences have a text"):
        evaluation.text(4)
    assert evaluation.statistics().tolist() == [*ROWS, *ROWS]
    assert evaluation.metric.report() == corpus_bleu([*HYPOTHESES, *HYPOTHESES], [*REFERENCES, *REFERENCES])


def test_without_texts_only_the_metric_counts() -> None:
    evaluation = Evaluation(CorpusBLEU(max_order=2), keep_texts=False)
    evaluation.update(HYPOTHESES, REFERENCES)
    assert (evaluation.text_count, evaluation.statistics().shape) == (0, (0, 6))
    assert evaluation.metric.report() == corpus_bleu(HYPOTHESES, REFERENCES, max_order=2)


@pytest.mark.parametrize("keep_sentences", [False, True])
def test_reset_forgets_all_sentences(keep_sentences: bool) -> None:
    evaluation = Evaluation(CorpusBLEU(), keep_sentences=keep_sentences)
    evaluation.update(HYPOTHESES[:3], REFERENCES[:3])
    evaluation.reset()
    assert (evaluation.text_count, evaluation.statistics().shape) == (0, (0, 10))
    assert evaluation.metric.hypothesis_length == 0
    with pytest.raises(IndexError, match="only 0 sentences have a text"):
        evaluation.text(0)
    evaluation.update(HYPOTHESES[3:], REFERENCES[3:])
    assert evaluation.statistics().tolist() == ROWS[3:]
    assert texts(evaluation) == [(HYPOTHESES[3], REFERENCES[3])]
    assert evaluation.metric.report() == corpus_bleu(HYPOTHESES[3:], REFERENCES[3:])
    if keep_sentences:
        assert evaluation.metric.sentence_statistics.tolist() == ROWS[3:]


def test_a_batch_with_an_error_leaves_nothing_behind() -> None:
    evaluation = Evaluation(CorpusBLEU())
    evaluation.update(HYPOTHESES, REFERENCES)
    with pytest.raises(ValueError, match="the same number of sentences"):
        evaluation.update(["a", "b"], ["a"])
    assert evaluation.statistics().tolist() == ROWS
    assert texts(evaluation) == list(zip(HYPOTHESES, REFERENCES))


@pytest.mark.parametrize(
    ("options", "preds", "target", "expected"),
    [
        ({}, ["a b."], [["a  b", "<b>"]], ("a b.", ["a  b", "<b>"])),
        ({"lowercase": True}, ["A B"], ["a B"], ("A B", ["a B"])),
        ({}, [["a", "b c"]], [[["a"], []]], ("a b c", ["a", ""])),
        ({}, [[7, 5]], [[[7], []]], ("7 5", ["7", ""])),
        ({"pad_id": 0, "eos_id": 2}, torch.tensor([[7, 0, 5, 2, 8]]), torch.tensor([[7, 2, 9]]), ("7 5", ["7"])),
        ({"pad_id": 0}, torch.tensor([[7, 0]]), torch.tensor([[[7, 8], [0, 0], [9, 0]]]), ("7", ["7 8", "9"])),
        ({"decoder": lambda rows: ["+".join(map(str, row)) for row in rows]}, [[7, 5]], [[7]], ("7+5", ["7"])),
    ],
    ids=["strings", "lowercase", "tokens", "ids", "special ids", "fillers", "decoder"],
)
def test_texts_show_what_was_given_without_padding_and_markers(
    options: dict[str, Any], preds: Any, target: Any, expected: tuple[str, list[str]]
) -> None:
    evaluation = Evaluation(CorpusBLEU(**options))
    evaluation.update(preds, target)
    assert texts(evaluation) == [expected]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("ignore_ids", [None, -100])
def test_texts_are_not_views_of_what_was_given(ignore_ids: int | None, device: str) -> None:
    """Even without an id to remove, which needs no copy."""
    evaluation = Evaluation(CorpusBLEU(ignore_ids=ignore_ids))
    evaluation.metric.to(device)
    buffers = torch.empty(2, 1, 4, dtype=torch.int64, device=device)
    for number in range(3):
        evaluation.update(buffers[0].fill_(number), buffers[1].fill_(number + 1))
    assert texts(evaluation) == [("0 0 0 0", ["1 1 1 1"]), ("1 1 1 1", ["2 2 2 2"]), ("2 2 2 2", ["3 3 3 3"])]


def test_a_result_has_a_report_and_what_else_was_asked_for() -> None:
    evaluation = Evaluation(CorpusBLEU(), keep_sentences=True)
    evaluation.update(HYPOTHESES, REFERENCES)
    report, interval = evaluation.metric.report(), evaluation.metric.interval(0.9)
    parts = {f"precision_{n}": precision for n, precision in enumerate(report.precisions, 1)}
    parts |= {"brevity_penalty": report.brevity_penalty, "length_ratio": report.length_ratio}
    parts |= {"hypothesis_length": report.hypothesis_length, "reference_length": report.reference_length}

    plain = evaluation.result("bleu")
    assert (plain.report, plain.interval, plain.comparison) == (report, None, None)
    assert plain.parts() == parts

    best = BestSoFar()
    full = evaluation.result("bleu", confidence=0.9, best=best)
    assert full.interval == interval
    assert full.parts() == parts | {"low": interval.low, "high": interval.high, "p_value": 1, "best": report.bleu}
    assert list(best.state_dict()["best"]) == ["bleu"]


@pytest.mark.parametrize("percent", [False, True])
def test_the_interval_of_one_sentence_is_empty(percent: bool) -> None:
    evaluation = Evaluation(CorpusBLEU(percent=percent), keep_sentences=True)
    evaluation.update(HYPOTHESES[2:3], REFERENCES[2:3])
    interval = evaluation.result("bleu", confidence=0.9).interval
    assert interval is not None
    perfect = 100 if percent else 1
    assert (interval.low, interval.bleu, interval.high, interval.scores) == (perfect, perfect, perfect, ())
    assert (interval.percent, interval.confidence) == (percent, 0.9)


def test_the_first_evaluation_is_the_best() -> None:
    best, metric = BestSoFar(0.05), make_metric(0.6)
    assert best.state_dict() == {}
    assert best.compare("bleu", metric) == (1, metric.compute().item(), None)
    assert torch.equal(best.state_dict()["best"]["bleu"], metric.sentence_statistics)


def test_a_better_evaluation_becomes_the_best() -> None:
    best, metrics = BestSoFar(), [make_metric(right) for right in (0.6, 0.5, 0.7, 0.65)]
    scores = [metric.compute().item() for metric in metrics]
    assert scores[1] < scores[0] < scores[3] < scores[2]
    comparisons = [best.compare("bleu", metric) for metric in metrics]
    assert [comparison.best for comparison in comparisons] == [scores[0], scores[0], scores[2], scores[2]]
    tests = [paired_bootstrap(metrics[a], metrics[b]) for a, b in ((1, 0), (2, 0), (3, 2))]
    assert [comparison.test for comparison in comparisons] == [None, *tests]
    assert [comparison.p_value for comparison in comparisons] == [1, *(test.p_value for test in tests)]


def test_an_equal_evaluation_does_not_become_the_best() -> None:
    best, metric = BestSoFar(), make_metric(0.6)
    best.compare("bleu", metric)
    kept = best.state_dict()["best"]["bleu"]
    comparison = best.compare("bleu", make_metric(0.6))
    assert comparison.best == metric.compute().item()
    assert best.state_dict()["best"]["bleu"] is kept


def test_a_gain_must_be_significant_if_a_level_is_given() -> None:
    metrics = [make_metric(0.6), make_metric(0.6, seed=2), make_metric(0.8)]
    best = BestSoFar(0.05)
    scores = [metric.compute().item() for metric in metrics]
    comparisons = [best.compare("bleu", metric) for metric in metrics]
    assert scores[0] < scores[1] < scores[2]
    assert comparisons[1].p_value >= 0.05 > comparisons[2].p_value
    assert [comparison.best for comparison in comparisons] == [scores[0], scores[0], scores[2]]


@pytest.mark.parametrize("level", [0.05, 0.0005])
def test_a_p_value_can_be_smaller_than_the_level(level: float) -> None:
    best = BestSoFar(level)
    best.compare("bleu", make_metric(0.4))
    test = best.compare("bleu", make_metric(0.9)).test
    assert test is not None
    assert test.p_value < level
    assert test.trials == max(1000, round(10 / level))


def test_an_evaluation_that_must_not_become_the_best_is_compared_all_the_same() -> None:
    best, metrics = BestSoFar(), [make_metric(0.6), make_metric(0.8)]
    assert best.compare("bleu", metrics[0], keep=False).best == metrics[0].compute().item()
    assert best.state_dict() == {}
    best.compare("bleu", metrics[0])
    comparison = best.compare("bleu", metrics[1], keep=False)
    assert comparison.p_value < 0.05
    assert comparison.best == metrics[1].compute().item()
    assert torch.equal(best.state_dict()["best"]["bleu"], metrics[0].sentence_statistics)


@pytest.mark.parametrize("sentences", [0, 1])
def test_fewer_than_two_sentences_are_not_compared(sentences: int) -> None:
    best, metric = BestSoFar(), make_metric(0.6, sentences)
    assert best.compare("bleu", metric) == (1, metric.compute().item(), None)
    assert best.state_dict() == {}
    whole = make_metric(0.3)
    best.compare("bleu", whole)
    assert best.compare("bleu", make_metric(1, sentences)) == (1, whole.compute().item(), None)
    assert torch.equal(best.state_dict()["best"]["bleu"], whole.sentence_statistics)


@pytest.mark.parametrize("sentences", [2, 59])
def test_another_number_of_sentences_starts_over(sentences: int) -> None:
    best, other = BestSoFar(), make_metric(0.3, sentences)
    best.compare("bleu", make_metric(0.6))
    message = rf"of 'bleu' had statistics of shape \(60, 10\), but this one has \({sentences}, 10\).*as the first"
    with pytest.warns(UserWarning, match=message):
        comparison = best.compare("bleu", other)
    assert comparison == (1, other.compute().item(), None)
    assert best.compare("bleu", make_metric(0.3, sentences)).test is not None  # without a warning


@pytest.mark.parametrize(
    ("before", "now", "names"),
    [
        ({}, {"tokenizer": "intl"}, "tokenizer"),
        ({"tokenizer": str.split}, {"tokenizer": str.splitlines}, "tokenizer"),
        ({"smoothing": "floor"}, {"smoothing": "floor", "smoothing_value": 0.5}, "smoothing_value"),
        ({"smoothing": "floor"}, {"smoothing": "exp"}, "smoothing, smoothing_value"),
        ({}, {"lowercase": True, "reference_length": "shortest"}, "lowercase, reference_length"),
        ({}, {"max_order": 2}, "max_order, weights"),
        ({"pad_id": 0}, {"pad_id": 1}, "special_ids"),
    ],
)
def test_a_best_with_other_settings_is_not_compared(before: dict[str, Any], now: dict[str, Any], names: str) -> None:
    first, second = BestSoFar(), BestSoFar()
    first.compare("bleu", make_metric(0.6, **before))
    second.load_state_dict(first.state_dict())
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        comparison = second.compare("bleu", make_metric(0.3, **now))
        again = second.compare("bleu", make_metric(0.3, **now))
    (warning,) = warned
    assert str(warning.message) == (
        f"The best epoch so far of 'bleu' was scored with different settings ({names}): they cannot be compared, so "
        "this epoch counts as the first"
    )
    assert comparison == (1, make_metric(0.3, **now).compute().item(), None)
    assert again.test is not None


@pytest.mark.parametrize("options", [{"tokenizer": str.split}, {"eos_id": 2}, {"smoothing": "floor"}])
def test_a_best_with_equal_settings_or_another_unit_is_compared(options: dict[str, Any]) -> None:
    best, first, second = BestSoFar(), make_metric(0.6, **options), make_metric(0.5, percent=True, **options)
    best.compare("bleu", first)
    comparison = best.compare("bleu", second)
    assert comparison.best == pytest.approx(100 * first.compute().item())
    assert comparison.p_value == paired_bootstrap(make_metric(0.5), make_metric(0.6)).p_value


def test_scores_with_different_names_have_a_best_each() -> None:
    best, metrics = BestSoFar(), [make_metric(0.6), make_metric(0.3, 20)]
    for name, metric in zip(["news", "talks"], metrics):
        assert best.compare(name, metric) == (1, metric.compute().item(), None)
    assert [len(kept) for kept in best.state_dict()["best"].values()] == [60, 20]


def test_a_saved_best_is_plain_data_and_can_be_loaded(tmp_path: Path) -> None:
    saved, loaded = BestSoFar(), BestSoFar()
    options: dict[str, Any] = {"convention": "sacrebleu", "eos_id": 2, "tokenizer": str.split}
    saved.compare("bleu", make_metric(0.6, **options))
    torch.save(saved.state_dict(), tmp_path / "best.pt")
    loaded.load_state_dict(torch.load(tmp_path / "best.pt", weights_only=True))
    metric = make_metric(0.5, **options)
    assert loaded.compare("bleu", metric) == saved.compare("bleu", metric)
    loaded.load_state_dict({})
    assert loaded.state_dict() == {}


def test_a_state_does_not_change_with_a_new_best() -> None:
    saved, loaded = BestSoFar(), BestSoFar()
    saved.compare("bleu", make_metric(0.6))
    state = saved.state_dict()
    loaded.load_state_dict(state)
    for best in (saved, loaded):
        best.compare("bleu", make_metric(0.9))
        assert torch.equal(best.state_dict()["best"]["bleu"], make_metric(0.9).sentence_statistics)
        assert torch.equal(state["best"]["bleu"], make_metric(0.6).sentence_statistics)


def test_a_best_that_was_saved_without_settings_is_compared_by_its_shape() -> None:
    """Checkpoints of version 0.1 hold the statistics only."""
    best, first = BestSoFar(), make_metric(0.6)
    best.load_state_dict({"best": {"bleu": first.sentence_statistics}})
    assert best.compare("bleu", make_metric(0.5)).best == first.compute().item()
    best.load_state_dict({"best": {"bleu": first.sentence_statistics}})
    message = r"statistics of shape \(60, 10\), but this one has \(60, 6\)"
    with pytest.warns(UserWarning, match=message):
        assert best.compare("bleu", make_metric(0.5, max_order=2)).p_value == 1
