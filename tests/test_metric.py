"""What every metric does, whatever it counts: state, masks, errors, copies, saving, merging, syncing, collections."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle
import random
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib import pyplot
from torch import Tensor
from torchmetrics import MetricCollection

from lightning_bleu import CorpusBLEU, CorpusCHRF, Evaluator, Result
from lightning_bleu.core.batch import InputCounts
from lightning_bleu.core.scoring import count_sentences
from lightning_bleu.observers.samples import find_worst
from tests.helpers.corpora import random_text
from tests.helpers.error_rate import CorpusErrorRate
from tests.helpers.metrics import BLEU, BOTH, CHRF, KINDS, A, B, Kind, check_unchanged_by, contents, gather_with
from tests.helpers.process_groups import group_of_one
from tests.helpers.text import Speller

# State and score


def test_the_state_is_one_vector_of_sums(make: Any, kind: Kind) -> None:
    metric, rows = make(A, B), kind.rows(*BOTH)
    assert list(metric.metric_state) == ["totals"]
    assert (metric.statistics.dtype, metric.statistics.tolist()) == (torch.int64, np.sum(rows, 0).tolist())
    # 3 strings with 1, 2, and 2 references
    assert metric.input_counts == InputCounts(strings=3, references=5, squared_references=9)
    with pytest.raises(AttributeError):
        metric.statistics = torch.zeros(10)
    assert metric.totals.tolist() == [*metric.statistics.tolist(), *metric.input_counts]


def test_of_several_references_the_right_one_counts(kind: Kind, rng: random.Random) -> None:
    preds, target = random_text(rng, 300, vocabulary=5)
    rows, _ = count_sentences(preds, target, kind.metric().scorer)
    assert rows.tolist() == kind.rows(preds, target)


def test_forward_scores_the_batch_compute_everything_and_reset_forgets_it(make: Any, kind: Kind) -> None:
    metric = make()
    assert [metric(*batch).item() for batch in (A, B)] == [kind.score(*batch).score for batch in (A, B)]
    assert metric._forward_cache == kind.score(*B).score  # which Lightning logs in every step
    assert (metric.compute().shape, metric.update_count) == ((), 2)
    assert metric.compute().item() == float(metric.report())
    assert metric.report() == kind.score(*BOTH)
    assert metric.signature == metric.report().signature
    metric.update(*B)
    assert metric.compute().item() == kind.score(BOTH[0] + B[0], BOTH[1] + B[1]).score
    metric.reset()
    assert metric._forward_cache is None
    assert not metric.statistics.any()
    assert metric.signature.startswith("nrefs:?|")
    metric.update(*B)
    assert metric.report() == kind.score(*B)


def test_a_score_in_percent_is_100_times_as_large(make: Any, kind: Kind) -> None:
    one, hundred = make(A, B), make(A, B, percent=True)
    assert hundred.compute().item() == pytest.approx(100 * one.compute().item(), abs=1e-12)
    assert hundred.report() == kind.score(*BOTH, percent=True)
    assert str(hundred.report()) == str(one.report())
    assert (hundred.signature, hundred.report().counts()) == (one.signature, one.report().counts())
    assert kind.score_sentences(*BOTH, percent=True).tolist() == pytest.approx(
        (100 * kind.score_sentences(*BOTH)).tolist()
    )


def test_a_metric_without_sentences_or_words_has_the_score_of_its_kind(make: Any, kind: Kind) -> None:
    with pytest.warns(UserWarning, match="before the ``update`` method"):
        assert make().compute().item() == kind.empty
    for batch, expected in (
        (([], []), kind.empty),
        (([""], ["a b"]), kind.without_hypothesis),
        ((["a b c d e"], [""]), kind.without_reference),
    ):
        assert make(batch).compute().item() == make(batch).report().score == expected
    assert make(([""], ["a"])).signature.startswith("nrefs:1|")


@pytest.mark.parametrize("form", [list, np.array, torch.tensor])
def test_masked_sentences_count_nowhere(form: Callable[..., Any], make: Any, kind: Kind) -> None:
    expected = kind.score(*([side[0], side[2]] for side in BOTH))
    metric = make((*BOTH, form([True, False, True])))
    metric.update(*A, form([False]))  # of a batch that is a single item
    assert metric.report() == expected  # with the number of references of those that count
    assert metric.input_counts == InputCounts(strings=2, references=3, squared_references=5)
    assert make((*B, form([False]))).signature.startswith("nrefs:?|")


def test_counts_are_exact_beyond_what_floats_and_32_bits_hold(kind: Kind) -> None:
    metric, row = kind.metric(), np.sum(kind.rows(*B), 0)
    for exponent in (24, 31, 40):
        metric.totals = torch.full_like(metric.totals, 2**exponent)
        metric.update(*B)
        assert metric.statistics.tolist() == (2**exponent + row).tolist()


@pytest.mark.parametrize("convert", [list, tuple, iter])
def test_the_functions_score_what_the_metric_does(
    convert: Callable[[Any], Any], make: Any, kind: Kind, rng: random.Random
) -> None:
    """An iterator is read once."""
    preds, target = random_text(rng, 30)
    report = make((preds, target), **kind.other_options).report()
    assert report == kind.score(convert(preds), convert(target), **kind.other_options)
    alone = [kind.score_sentences([line], [group]).item() for line, group in zip(preds, target)]
    assert kind.score_sentences(preds, target).tolist() == alone


def test_a_metric_counts_the_same_in_and_after_inference_mode(make: Any, kind: Kind) -> None:
    """Lightning validates in inference mode."""
    metric = make(A)
    with torch.inference_mode():
        metric.reset()
        metric.update(*A)
        metric(*B)
    assert metric.report() == copy.deepcopy(metric).report() == kind.score(*BOTH)
    with torch.inference_mode():
        metric.reset()
    metric.update(*A)
    assert metric(*B) == kind.score(*B).score
    metric.merge_state(make(A))
    assert contents(metric) == contents(make(A, B, A))


def test_a_metric_counts_the_same_under_any_default_device(make: Any, kind: Kind) -> None:
    """As in ``with torch.device("cuda")``, under which models are often made."""
    expected, (metric, merged) = contents(make(A, B)), (make(), make(B))
    with torch.device("meta"):
        metric.update(*A, [True, True])
        assert metric(*B).item() == kind.score(*B).score
        assert contents(metric) == expected
        assert metric.compute().item() == metric.report().score == kind.score(*BOTH).score
        merged.reset()
        merged.merge_state(metric)
        assert contents(merged) == expected


def test_an_update_replaces_the_sums_and_leaves_those_before_alone(kind: Kind) -> None:
    """Which copies, a synced metric, and the state before an error share."""
    metric = kind.metric()
    metric.update(*A)
    sums, twin = metric.totals, copy.copy(metric)
    before = sums.clone()
    for _ in range(2):
        metric.update(*B)
        assert torch.equal(sums, before)
        assert torch.equal(twin.totals, before)
    assert metric.statistics.tolist() == np.sum(kind.rows(*A) + 2 * kind.rows(*B), 0).tolist()
    assert torch.equal(metric.metric_state["totals"], metric.totals)


def test_sums_stay_on_the_device_that_they_were_moved_to(kind: Kind) -> None:
    """The meta device stands for an accelerator: it has no values, so NumPy cannot add there."""
    metric = kind.metric().to("meta")
    metric.update(*A)
    metric.update(*B)
    assert (metric.totals.device.type, metric.totals.dtype) == ("meta", torch.int64)
    assert metric.totals.shape == kind.metric().totals.shape


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_precision_of_a_model_leaves_counts_alone(dtype: torch.dtype, make: Any) -> None:
    metric = make(A, B)
    before = contents(metric)
    assert metric.set_dtype(dtype) is metric
    metric.to(dtype).half().float().double()
    assert contents(metric) == before
    metric.reset()
    assert metric.statistics.dtype == torch.int64


@pytest.mark.parametrize("val", [None, torch.tensor(0.5), [torch.tensor(0.5), torch.tensor(0.7)]], ids=str)
def test_one_or_several_scores_can_be_plotted_between_the_bounds(val: Any, make: Any, kind: Kind) -> None:
    figure, axis = make(A).plot(val)
    (bottom, top), (lowest, highest) = axis.get_ylim(), kind.bounds
    assert lowest is None or bottom <= lowest
    assert highest is None or top >= highest
    pyplot.close(figure)


@pytest.mark.parametrize(
    ("metric", "options", "expected"),
    [
        (CorpusBLEU, {}, ""),
        (CorpusBLEU, {"pad_id": 0, "convention": "nltk"}, "convention='nltk', pad_id=0"),
        (CorpusBLEU, {"max_order": 2, "weights": (0.7, 0.3)}, "max_order=2, weights=(0.7, 0.3)"),
        (CorpusBLEU, {"max_order": 4, "percent": False, "ignore_ids": (-100,)}, ""),
        (CorpusBLEU, {"ignore_ids": None, "percent": True}, "ignore_ids=None, percent=True"),
        (CorpusBLEU, {"sync_on_compute": False}, ""),  # an option of torchmetrics
        (CorpusBLEU, {"tokenizer": str.split}, "tokenizer=split"),
        (CorpusCHRF, {"decoder": Speller()}, "decoder=Speller"),
        (CorpusCHRF, {"char_order": 6, "beta": 2}, ""),
        (CorpusCHRF, {"beta": 0.5}, "beta=0.5"),
        (CorpusErrorRate, {"characters": True, "percent": False}, "characters=True"),
    ],
)
def test_a_metric_is_represented_by_the_options_that_differ_from_the_defaults(
    metric: Any, options: dict[str, Any], expected: str
) -> None:
    made = metric(**options)
    shown = f"{metric.__name__}({expected})"
    assert [repr(made), str(made), repr(made.clone()), repr(pickle.loads(pickle.dumps(made)))] == [shown] * 4
    if not {*options} & {"tokenizer", "decoder"}:
        assert eval(shown).settings == made.settings
    assert repr(torch.nn.ModuleList([made])).splitlines()[1] == f"  (0): {shown}"


# What a score means


UNITS = pytest.mark.parametrize(("percent", "unit"), [(False, 1), (True, 100)], ids=["share", "percent"])
PERFECT = ["the cat sat on the mat", "hello there world ok"]


@UNITS
def test_a_metric_says_once_what_its_scores_mean(percent: bool, unit: int, kind: Kind) -> None:
    """Its direction, its unit, the score of what is perfect, and the bounds."""
    metric = kind.metric(percent=percent)
    scoring = metric.scorer
    assert metric.higher_is_better == scoring.higher_is_better == kind.higher_is_better
    assert (scoring.sign, scoring.percent, scoring.unit) == (kind.sign, percent, unit)
    assert scoring.perfect == unit * kind.perfect
    assert scoring.bounds == tuple(None if bound is None else unit * bound for bound in kind.bounds)
    assert (metric.plot_lower_bound, metric.plot_upper_bound) == scoring.bounds
    assert kind.bounds[kind.higher_is_better] in (kind.perfect, None)


@UNITS
def test_nothing_is_better_than_perfect_or_out_of_bounds(percent: bool, unit: int, kind: Kind) -> None:
    assert kind.score(PERFECT, PERFECT, percent=percent).score == pytest.approx(unit * kind.perfect)
    assert kind.score_sentences(PERFECT, PERFECT, percent=percent).tolist() == pytest.approx([unit * kind.perfect] * 2)
    lowest, highest = kind.metric(percent=percent).scorer.bounds
    for preds, target in (BOTH, (["x"] * 2, PERFECT), ([f"{line} and more" * 9 for line in PERFECT], PERFECT)):
        scores = [kind.score(preds, target, percent=percent).score]
        scores += kind.score_sentences(preds, target, percent=percent).tolist()
        assert all(kind.sign * score < kind.sign * unit * kind.perfect for score in scores)
        assert lowest is None or min(scores) >= lowest
        assert highest is None or max(scores) <= highest


def test_a_metric_counts_tokens_or_says_that_it_needs_text(kind: Kind) -> None:
    """As its class says, on which the reading of recorded tokens depends."""
    tokens = [["a", "b"]], [[["a", "c"]]]
    metric = kind.metric()
    if metric.scorer.counts_tokens:
        metric.update(*tokens)
        assert metric.report().signature.startswith("nrefs:1|")
    else:
        with pytest.raises(TypeError, match="pass strings"):
            metric.update(*tokens)


def test_an_option_that_changes_the_score_is_what_its_kind_says(kind: Kind) -> None:
    """Or the tests with other options would show nothing."""
    default, other = kind.score(*BOTH), kind.score(*BOTH, **kind.other_options)
    assert default.score != other.score
    assert (default.signature, str(default).split(" = ")[0]) != (other.signature, str(other).split(" = ")[0])
    columns = kind.metric().scorer.columns
    assert kind.as_wide().scorer.columns == columns
    assert kind.make_with_other_columns().scorer.columns != columns
    assert kind.as_wide().settings != kind.metric().settings


@pytest.mark.parametrize("percent", [False, True])
@pytest.mark.parametrize("saved", [dict, lambda plain: json.loads(json.dumps(plain))], ids=["plain", "JSON"])
def test_a_scorer_is_made_again_from_its_plain_settings(saved: Callable[[Any], Any], percent: bool, kind: Kind) -> None:
    given: list[dict[str, Any]] = [{}, {**kind.other_options}, {**(kind.other_columns or {})}]
    for options in [*given, {"lowercase": True, "pad_id": 0, "eos_id": 2, "ignore_ids": [5, 6]}, {"percent": True}]:
        settings = kind.metric(**options).settings
        expected = kind.metric(**options | {"percent": percent}).scorer
        assert type(expected).from_plain(saved(settings.plain()), percent=percent) == expected
    decoding, text = kind.metric(decoder=Speller()).scorer, kind.metric(percent=percent).scorer
    assert type(decoding).from_plain(saved(decoding.settings.plain()), percent=percent) == text  # as it was decoded


@pytest.mark.parametrize("corpus", [A, BOTH, ([""], ["a b"]), (["a b c d e"], [""]), ([], [])])
def test_components_are_finite_and_those_in_the_unit_of_the_score_are_in_percent_with_it(
    corpus: Any, kind: Kind
) -> None:
    of_unit = []
    for percent in (False, True):
        metric = kind.metric(percent=percent)
        metric.update(*corpus)
        of_unit.append(metric.scorer.components(metric.report()))
    assert len({component.name for component in of_unit[0]}) == len(of_unit[0]) > 0
    for share, hundred in zip(*of_unit, strict=True):
        assert math.isfinite(share.value)
        assert (share.unit, hundred.unit) in ((1, 100), (None, None))
        assert hundred.value == pytest.approx(share.value if share.unit is None else 100 * share.value)
        assert dataclasses.replace(hundred, value=share.value, unit=share.unit) == share


# In evaluators and comparisons

REFERENCES = ["a b c d e f g h", "i j k l m n o p", "q r s t u v w x", "y z a c e g i k"]
WORSE = ["a b c d e f g h", "i j k l m n o x", "q r s t u v x w", "1 2 3 4 5 6 7 8"]
"""From one without errors to one where all is wrong."""
BETTER = ["a b c d e f g y", "i j k l m n o p", "q r s t u v w x", "y z a c e g i k"]
"""Only the first sentence is worse than in :data:`WORSE`."""


def run(metrics: dict[str, Any], *validations: list[str], **options: Any) -> dict[str, Result]:
    """The last results of a run with some validations."""
    evaluator = Evaluator(metrics, **options)
    for step, preds in enumerate(validations):
        evaluator.start()
        evaluator.update(preds, REFERENCES)
        evaluator.finish(step)
    return evaluator.results


@UNITS
@pytest.mark.parametrize("is_better", [True, False], ids=["better", "worse"])
def test_the_better_validation_becomes_the_best(is_better: bool, percent: bool, unit: int) -> None:
    """In the direction of each metric of one evaluator."""
    first, second = (WORSE, BETTER) if is_better else (BETTER, WORSE)
    metrics = {name: kind.metric(percent=percent) for name, kind in KINDS.items()}
    results = run(metrics, first, second, compare_to="best")
    for name, kind in KINDS.items():
        result = results[f"val_{name}"]
        score_of_first, score_of_second = (unit * kind.score(preds, REFERENCES) for preds in (first, second))
        assert result.higher_is_better == kind.higher_is_better
        assert result.comparison is not None
        assert (result.score, result.comparison.score_b) == pytest.approx((score_of_second, score_of_first))
        assert (kind.sign * result.comparison.difference > 0) == is_better
        assert result.best == pytest.approx(score_of_second if is_better else score_of_first)


def test_the_worst_sentences_are_the_worst(kind: Kind) -> None:
    scorer = kind.metric().scorer
    rows, _ = count_sentences(WORSE, REFERENCES, scorer)
    assert find_worst(rows, scorer, 3) == [3, 2, 1]
    assert kind.score_sentences(WORSE, REFERENCES).argsort(descending=kind.higher_is_better).tolist() == [0, 1, 2, 3]


# Errors change nothing


NOT_TEXT: dict[str, Any] = {
    "tokens": ([["a", "b"]], [[["a"], ["b"]]]),
    "ids": ([[1, 2]], [[1]]),
    "logits": (torch.zeros(1, 2, 3), torch.tensor([[1]])),
    "empty lists": ([[]], [[[]]]),
}


def test_an_update_that_fails_changes_nothing(make: Any, kind: Kind) -> None:
    metric = make(A)
    for call in (metric.update, metric):
        check_unchanged_by(ValueError, "same number of sentences", metric, call, ["a", "b"], ["a"])
        check_unchanged_by(ValueError, "'sample_mask' must have one value", metric, call, *A, [True] * 3)
        check_unchanged_by((TypeError, ValueError), "'target'", metric, call, ["a"], [[1]])
        check_unchanged_by(KeyboardInterrupt, "by the user", metric, call, interrupt(), B[1])
    untouched = make()
    with pytest.raises(ValueError, match="same number"):
        untouched.update([], ["a"])
    assert not untouched.update_called
    metric.update(*B)
    assert metric.report() == kind.score(*BOTH)


def interrupt() -> Iterator[str]:
    """A sentence, and an interruption before the next one."""
    yield "a b c d e"
    raise KeyboardInterrupt("by the user")


def test_a_warning_that_the_user_makes_an_error_changes_nothing(make: Any, kind: Kind) -> None:
    metric, words = make(A), (["the cat sat"], [["the", "cat", "sat"]])
    collection = MetricCollection({"one": metric, "other": make(A, **kind.other_options)})
    for call in (metric.update, metric, collection.update, collection.update):  # as often as it is tried
        for one in collection.values():
            check_unchanged_by(UserWarning, "single word", one, call, *words)  # warnings are errors here


@pytest.mark.parametrize("batch", NOT_TEXT.values(), ids=NOT_TEXT)
def test_chrf_needs_text(batch: Any) -> None:
    metric, message = CorpusCHRF(), r"are \w+: pass strings \(join tokens with spaces\), or set dec"
    metric.update(*A)
    for call in (metric.update, metric, CHRF.score, CHRF.score_sentences):
        check_unchanged_by(TypeError, message, metric, call, *batch)


def test_a_score_that_fails_in_forward_changes_nothing(make: Any, kind: Kind) -> None:
    def fail(state: Tensor, group: Any) -> Any:
        raise OSError("no network")

    metric = make(A, dist_sync_on_step=True, sync_on_compute=False, dist_sync_fn=fail)
    with group_of_one():
        check_unchanged_by(OSError, "no network", metric, metric, *B)
    assert metric.update_count == 1
    metric.update(*B)
    assert metric.report() == kind.score(*BOTH)


# Copying, saving, merging


REPLICATE: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "clone": lambda metric: metric.clone(),
    "pickle": lambda metric: pickle.loads(pickle.dumps(metric)),
}


@pytest.mark.parametrize("replicate", REPLICATE.values(), ids=REPLICATE)
def test_copies_are_independent(replicate: Callable[[Any], Any], make: Any, kind: Kind) -> None:
    options = {"percent": True, **kind.other_options}
    metric = make(A, **options)
    twin = replicate(metric)
    assert (type(twin), twin.settings, repr(twin)) == (kind.metric, metric.settings, repr(metric))
    twin.update(*B)
    check_unchanged_by(ValueError, "same number", twin, twin.update, [], ["a"])
    metric.update(*A)
    assert contents(metric) == contents(make(A, A, **options))
    metric.reset()
    assert contents(twin) == contents(make(A, B, **options))
    assert twin(*A) == kind.score(*A, **options)


def test_a_state_is_saved_if_it_is_persistent_and_replaces_another_one(make: Any, kind: Kind) -> None:
    metric = make(A)
    assert metric.state_dict() == {}
    restored, fresh, other_columns = make(B, B), make(), kind.make_with_other_columns()
    for one in (metric, restored, fresh, other_columns):
        one.persistent(True)
    message = "is of a metric with other options, or of another version: it has"
    check_unchanged_by(ValueError, message, restored, restored.load_state_dict, other_columns.state_dict())
    saved = metric.state_dict()
    metric.update(*B)  # the saved state does not change
    for loaded in (restored, fresh):
        loaded.load_state_dict(saved)
        assert loaded.compute() == kind.score(*A).score  # without the warning that nothing was updated
        loaded.update(*B)
        assert contents(loaded) == contents(make(A, B))
        loaded.load_state_dict({}, strict=False)
        assert loaded.report() == kind.score(*BOTH)


def test_merging_adds_the_sentences_of_another_metric_or_state(make: Any, kind: Kind) -> None:
    other = make(B)
    state = other.metric_state
    for incoming in (other, state):
        metric = make(A)
        assert metric.compute() == kind.score(*A).score
        handed_out = metric.metric_state
        metric.merge_state(incoming)
        assert metric.compute() == kind.score(*BOTH).score
        assert contents(metric) == contents(make(A, B))
        metric.merge_state(make())
        assert contents(metric) == contents(make(A, B))
        late = make()
        late.merge_state(handed_out)
        assert late.update_count == 1
        assert late.compute() == kind.score(*A).score  # without the warning that nothing was updated
    other.update(*A)
    metric.reset()
    assert contents(other) == contents(make(B, A))
    metric.merge_state(state)
    assert contents(metric) == contents(make(B))


def test_metrics_that_differ_cannot_be_merged(make: Any, kind: Kind) -> None:
    metric, message = make(A), "different settings cannot be merged; these differ: "
    (option,) = kind.other_options
    check_unchanged_by(ValueError, message + option, metric, metric.merge_state, make(**kind.other_options))
    other = make(lowercase=True, pad_id=0)
    check_unchanged_by(ValueError, f"{message}lowercase, pad_id$", metric, metric.merge_state, other)
    others = [kind.as_wide(), *(other.metric() for other in KINDS.values() if other is not kind)]
    for other in others:
        check_unchanged_by(ValueError, message, metric, metric.merge_state, other)
    check_unchanged_by(ValueError, "to be present in incoming state", metric, metric.merge_state, {})
    state = kind.make_with_other_columns().metric_state
    check_unchanged_by(RuntimeError, "size of tensor", metric, metric.merge_state, state)


# Syncing; several processes: test_distributed.py


def test_a_synced_metric_has_the_sentences_of_all_processes(make: Any, kind: Kind) -> None:
    calls: list[Any] = []
    metric = make(A, dist_sync_fn=gather_with(make(B), calls))
    before, both = contents(metric), kind.score(*BOTH)
    with group_of_one():
        assert (metric.compute(), metric.report()) == (both.score, both)
        assert (contents(metric), len(calls)) == (before, 2)
        with metric.sync_context(gather_with(make(B))):
            assert metric.report() == both
            assert contents(metric) == contents(make(A, B))
        assert contents(metric) == before
        metric.sync(gather_with(make(B)))
        metric.reset()
    assert contents(metric) == contents(make())


def test_a_metric_that_does_not_sync_has_its_own_sentences_only(make: Any, kind: Kind) -> None:
    metric = make(A, dist_sync_fn=gather_with(make(B)), sync_on_compute=False)
    with group_of_one():
        assert (metric.compute(), metric.report()) == (kind.score(*A).score, kind.score(*A))


# Collections, trackers


def test_metrics_of_a_collection_share_no_state(kind: Kind) -> None:
    """All agree on the first batch, so torchmetrics alone would let all share one state."""
    options: dict[str, dict[str, Any]] = {"one": {}, "same": {}, "percent": {"percent": True}}
    options |= {"lowercase": {"lowercase": True}, "other": {**kind.other_options}}
    metrics = {name: kind.metric(**some) for name, some in options.items()}
    metrics["as wide"] = kind.as_wide()
    if kind is BLEU:  # a smoothing is an option of BLEU
        options |= {"smoothing": {"convention": "papineni"}, "equal": {"convention": "papineni", "smoothing": "exp"}}
        metrics |= {name: kind.metric(**options[name]) for name in ("smoothing", "equal")}
    collection: Any = MetricCollection(metrics)
    batches: list[Any] = [([""], [[""]]), (["The Cat, sat."], [["the cat, sat", "The cat"]]), A, B]
    for step, batch in zip((collection.update, collection, collection, collection.update), batches):
        step(*batch)
    corpus = [[*chain(*(batch[side] for batch in batches))] for side in (0, 1)]
    scores = collection.compute()
    for name, some in options.items():
        expected = kind.score(*corpus, **some)
        assert scores[name].item() == expected.score
        assert (collection[name].report(), collection[name].signature) == (expected, expected.signature)
    assert len(collection.compute_groups) == len(metrics)
    collection.reset()
    collection.update(*B)
    assert [collection[name].report() for name in ("one", "same")] == [kind.score(*B)] * 2


# Subclasses


class OwnBLEU(CorpusBLEU):
    """A subclass with an option, a name of an option, a state, and an update of its own."""

    longest: Tensor

    def __init__(self, *args: Any, cut: int = 99, pad: int | None = None, **kwargs: Any) -> None:
        super().__init__(*args, pad_id=pad, **kwargs)
        self.cut = cut
        self.add_state("longest", torch.tensor(0), dist_reduce_fx="max")

    def update(self, outputs: tuple[list[str], Any]) -> None:  # type: ignore[override]
        """Count the first characters of the hypotheses."""
        preds, target = outputs
        super().update([line[: self.cut] for line in preds], target)
        self.longest = self.longest.maximum(torch.tensor([*map(len, preds)]).max())


@pytest.mark.parametrize("replicate", REPLICATE.values(), ids=REPLICATE)
def test_a_subclass_may_have_options_states_and_an_update_of_its_own(replicate: Callable[[Any], Any]) -> None:
    first, both = (BLEU.score([line[:16] for line in preds], target, max_order=2) for preds, target in (A, BOTH))
    metric = OwnBLEU(2, pad=0, cut=16)
    assert metric(A) == first.bleu
    twin = replicate(metric)
    assert repr(twin) == repr(metric) == "OwnBLEU(max_order=2, pad_id=0)"
    restored, merged = (OwnBLEU(2, pad=0) for _ in range(2))
    for one in (twin, restored):
        one.persistent(True)
    restored.load_state_dict(twin.state_dict())
    merged.merge_state(twin)
    assert restored.report() == merged.report() == first
    twin(B)
    for one, expected in ((metric, first), (twin, both)):
        with group_of_one(), one.sync_context():
            assert (type(one), one.report(), one.longest) == (OwnBLEU, expected, len(A[0][0]))


def test_subclasses_in_a_collection_share_no_state_even_if_only_their_own_options_differ() -> None:
    collection: Any = MetricCollection({f"{cut}": OwnBLEU(cut=cut) for cut in (10, 99)})
    for batch in (B, A):  # in the first, no line is cut
        collection.update(batch)
    expected = {cut: BLEU.score([line[: int(cut)] for line in BOTH[0]], BOTH[1]).score for cut in ("10", "99")}
    assert collection.compute() == collection.clone().compute() == expected


def test_the_defaults_of_a_subclass_may_be_its_own() -> None:
    class Bigrams(CorpusBLEU):
        """A metric with another default."""

        def __init__(self, max_order: int = 2, **kwargs: Any) -> None:
            super().__init__(max_order, **kwargs)

    class Named(Bigrams):
        """A metric without arguments."""

        def __init__(self) -> None:
            super().__init__(percent=True)

    assert list(map(repr, [Bigrams(), Bigrams(4), Named()])) == [
        "Bigrams()",
        "Bigrams(max_order=4)",
        "Named(percent=True)",
    ]
    with pytest.raises(TypeError, match="unknown option 'tokenise': did you mean 'tokenizer'"):
        Bigrams(tokenise="zh")


def test_an_unknown_option_gets_a_hint_also_if_it_is_one_of_torchmetrics(kind: Kind) -> None:
    for name, meant in (("lower_case", "lowercase"), ("sync_on_computes", "sync_on_compute")):
        with pytest.raises(TypeError, match=f"unknown option '{name}': did you mean '{meant}'"):
            kind.metric(**{name: True})
