"""What `preds`, `target`, `source`, and what is beside them may be, and every error about them."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas  # type: ignore[import-untyped]
import pytest
import torch

from lightning_bleu import CorpusBLEU, corpus_bleu
from lightning_bleu.core.batch import read_groups, read_ids, read_index, read_sample_mask, read_sources
from lightning_bleu.core.forms import Ids, Strings, Tokens, segment_count
from lightning_bleu.core.recognize import recognize, recognize_hypotheses
from lightning_bleu.core.settings import Settings
from tests.helpers.counting import EXPECTED_FIRST, FIRST_REFERENCES, HYPOTHESES, count, pad

ids = torch.zeros(2, 5, dtype=torch.long)
PADDED, PADDED_FIRST = pad(HYPOTHESES, 6), pad(FIRST_REFERENCES, 7)


def references_of(preds: Any, target: Any) -> tuple[list[Any], list[int]]:
    """The references of all sentences, and how many each sentence has."""
    _, references, counts = recognize(preds, target)
    return references.ragged.to_lists() if isinstance(references, Ids) else references[0], counts.tolist()


# What is recognized


def test_a_list_is_recognized_by_what_it_holds() -> None:
    assert recognize_hypotheses(["a b", ""]) == Strings(["a b", ""])
    assert recognize_hypotheses([["a"], [], ("b",)]) == Tokens([["a"], [], ["b"]])
    assert recognize_hypotheses([]) == Tokens([])
    arrays: list[Any] = [torch.tensor([1, 2]), np.zeros(0, int), np.array([3], np.int8)]
    for form in (recognize_hypotheses([[1, 2], [], [3]]), recognize_hypotheses(arrays)):
        assert isinstance(form, Ids)
        assert form.ragged.to_lists() == [[1, 2], [], [3]]


def test_lists_without_a_token_go_with_tokens_and_with_ids() -> None:
    assert count([[], []], [["a"], ["b", "c"]]) == [[0] * 7 + [1], [0] * 7 + [2]]
    assert count([[], []], [[1], [2, 3]]) == [[0] * 7 + [1], [0] * 7 + [2]]
    assert count([["a"], ["b", "c"]], [[], []]) == count([[1], [2, 3]], [[], []])


def test_sentences_with_one_and_with_several_references_can_be_mixed() -> None:
    # the second sentence has a single reference, which needs no list of its own
    for preds, target in (
        (["a", "b"], [["c", "d"], "e"]),
        ([["a"], ["b"]], [[["c"], ["d"]], ["e"]]),
        ([[1], [2]], [[[3], [4]], [5]]),
        (ids, [ids, ids[0]]),
    ):
        assert references_of(preds, target)[1] == [2, 1]


def test_an_empty_list_is_an_empty_reference_unless_other_sentences_have_lists_of_references() -> None:
    assert references_of([[1], [2]], [[], [3]]) == ([[], [3]], [1, 1])
    with pytest.raises(ValueError, match="got none for sentence 0"):
        recognize([[1], [2]], [[], [[3]]])


def test_a_tensor_of_references_has_the_same_number_for_each_sentence() -> None:
    for target, references in ((ids, 1), (ids[:, None], 1), (torch.zeros(2, 3, 5, dtype=torch.int16), 3)):
        assert references_of(ids, target) == ([[0] * 5] * 2 * references, [references] * 2)
    matrices = [torch.zeros(3, 5).long(), torch.zeros(1, 4).long()]
    assert references_of(ids, matrices) == ([[0] * 5] * 3 + [[0] * 4], [3, 1])


# Other containers than lists

LINES, GROUPS = ["a b c", "d e"], [["a b c", "a b d"], ["e d", "d"]]
TOKENS, TOKEN_GROUPS = [line.split() for line in LINES], [[line.split() for line in group] for group in GROUPS]
IDS, ID_GROUPS = [[1, 2, 3], [4, 5]], [[[1, 2, 3], [1, 2, 4]], [[5, 4], [4]]]

CONTAINERS: list[Callable[[Any], Any]] = [
    tuple,
    iter,
    lambda items: dict(enumerate(items)).values(),
    lambda items: pandas.Series(items, index=range(7, 7 + len(items))),
]


@pytest.mark.parametrize("outer", CONTAINERS)
@pytest.mark.parametrize("inner", [list, tuple])
def test_an_argument_may_be_any_iterable_of_sentences(outer: Callable[[Any], Any], inner: type) -> None:
    assert corpus_bleu(outer(LINES), outer(LINES)) == corpus_bleu(LINES, LINES)
    assert corpus_bleu(outer(LINES), outer([inner(group) for group in GROUPS])) == corpus_bleu(LINES, GROUPS)
    for tokens, groups in ((TOKENS, TOKEN_GROUPS), (IDS, ID_GROUPS)):
        preds = [inner(row) for row in tokens]
        nested = [inner([inner(row) for row in group]) for group in groups]
        assert corpus_bleu(outer(preds), outer(preds)) == corpus_bleu(tokens, tokens)
        assert corpus_bleu(outer(preds), outer(nested)) == corpus_bleu(tokens, groups)


@pytest.mark.parametrize("dtype", [str, object])
def test_an_argument_may_be_an_array_of_strings(dtype: type) -> None:
    lines: Any = np.array(LINES, dtype)
    assert corpus_bleu(lines, lines) == corpus_bleu([*lines], LINES) == corpus_bleu(LINES, LINES)
    assert corpus_bleu(lines, np.array(GROUPS, dtype)) == corpus_bleu(LINES, GROUPS)


def test_tensors_of_any_mode_count_the_same_and_do_not_change() -> None:
    """Arrays and tensors of all types and memory layouts: tests/fuzz/id_forms.py."""
    preds, target = PADDED.clone(), PADDED_FIRST.clone()
    with torch.inference_mode():
        assert count(preds.clone(), target.clone(), pad_id=0) == EXPECTED_FIRST
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert count(preds, target, pad_id=0) == EXPECTED_FIRST
    assert torch.equal(preds, PADDED)
    assert torch.equal(target, PADDED_FIRST)


# Errors

COUNTS = "'preds' and 'target' must have the same number of sentences, got {} and {}"
NO_LIST = "must be a list of strings, lists of tokens, or tensors of ids, or a single tensor, got "
KIND = r"must hold sentences of one kind \(strings, lists of tokens, or tensors of ids\), got "
SHAPE = r"must hold integer ids of shape \(sentences, tokens\) or .*, got a tensor of "
TARGET_SHAPE = r"must hold integer ids of shape .* or \(sentences, references, tokens\), got a tensor of "
DENSE = "must be a dense tensor with values, or a list of its rows, got a tensor with "
SWAPPED = "hypotheses come first: are 'preds' and 'target' swapped"
ERRORS: list[tuple[Any, Any, type[Exception], str]] = [
    # numbers of sentences
    (["a"], ["a", "b"], ValueError, f"^{COUNTS.format(1, 2)}$"),
    (ids, ids[[0] * 3], ValueError, f"^{COUNTS.format(2, 3)}$"),
    (["a", "b"], [["a", "b"]], ValueError, rf"^{COUNTS.format(2, 1)}. .*sacreBLEU's layout.*list\(zip\(\*target\)\)"),
    # missing references
    (["a", "b"], [["a"], []], ValueError, "got none for sentence 1 of 'target'"),
    (["a", "b"], [[], []], ValueError, "got none for sentence 0"),
    ([[1], [2]], [[[1]], []], ValueError, "got none for sentence 1"),
    (ids, [ids[:0], ids], ValueError, "got none for sentence 0"),
    (ids, torch.zeros(2, 0, 5, dtype=torch.long), ValueError, r"every sentence needs a reference.*\(2, 0, 5\)"),
    # logits as for cross_entropy
    (torch.zeros(2, 9, 5), ids + 5, ValueError, r"of shape \(2, 9, 5\) .*cross_entropy, pass preds.transpose\(1, 2\)"),
    (torch.zeros(2, 7, 5), ids[:, None] + 6, ValueError, r"'target' of shape \(2, 1, 5\) with the label 6: "),
    # types and shapes of tensors
    (torch.zeros(2, 5), ids, ValueError, rf"'preds' {SHAPE}torch.float32 and shape \(2, 5\)$"),
    (ids[0], ids, ValueError, rf"'preds' {SHAPE}torch.int64 and shape \(5,\)$"),
    (np.array(3), [[1]], ValueError, rf"'preds' {SHAPE}torch.int64 and shape \(\)$"),
    (torch.zeros(2, 5, 0), ids, ValueError, rf"'preds' {SHAPE}torch.float32 and shape \(2, 5, 0\)$"),
    (ids, torch.zeros(2, 5, 9), ValueError, f"'target' {TARGET_SHAPE}torch.float32"),
    (ids, ids[0], ValueError, rf"'target' {TARGET_SHAPE}torch.int64 and shape \(5,\)$"),
    ([ids], [ids], ValueError, r"'preds' must hold tensors of integer ids of shape \(tokens,\), .* shape \(2, 5\)"),
    ([torch.zeros(3)], [ids[0]], ValueError, "'preds' must hold tensors of integer ids .* torch.float32"),
    (ids.bool(), ids, TypeError, "'preds' is a tensor of torch.bool .*: ids must be integers"),
    (ids, ids.to(torch.complex64), TypeError, "'target' is a tensor of torch.complex64"),
    (np.array([b"a"]), ["a"], TypeError, r"'preds' must hold integers, got an array of \|S1: pass text in lists$"),
    (["a"], np.array([0], "M8[s]"), TypeError, "'target' must hold integers, got an array of datetime64"),
    (np.zeros((1, 2, 3), np.longdouble), [[1]], TypeError, "'preds' must hold integers, got an array of "),
    (["a"], [np.array(["a", "b"])], TypeError, "'target' must hold integers, got an array of <U1: pass text in lists"),
    # tensors without values
    (ids.to_sparse(), ids, TypeError, f"^'preds' {DENSE}layout=torch.sparse_coo"),
    (ids, [ids[0].to_sparse()] * 2, TypeError, f"^'target' {DENSE}layout=torch.sparse_coo"),
    (ids.to("meta"), ids, TypeError, f"^'preds' {DENSE}layout=torch.strided, device=meta"),
    (torch.zeros(2, 5, 7, device="meta"), ids, TypeError, f"^'preds' {DENSE}"),
    (ids, [[row, row] for row in ids.to("meta")], TypeError, f"^'target' {DENSE}"),
    # kinds
    (["a"], [[1]], TypeError, "must be of one kind, got strings and ids: .* or set decoder= to score ids"),
    (ids, ["a", "b"], TypeError, "must be of one kind, got ids and strings"),
    ([["a"]], [[1]], TypeError, "must be of one kind, got tokens and ids"),
    ([["a b", "a"], ["c"]], ["a b", "c"], TypeError, f"of one kind, got tokens and strings: .*; {SWAPPED}"),
    ([[["a", "b"], ["a"]]], [["a"]], TypeError, rf"^tokens of 'preds' .* got \['list'\]; {SWAPPED}"),
    (torch.ones(1, 2, 3, dtype=torch.int64), ids[:1], ValueError, rf"'preds' {SHAPE}.* shape \(1, 2, 3\); {SWAPPED}"),
    ([["a", 1]], [["a"]], TypeError, r"tokens of 'preds' must be all strings or all integers, got \['int', 'str'\]$"),
    ([[True]], [[True]], TypeError, r"tokens of 'preds' must be all strings or all integers, got \['bool'\]$"),
    ([["a", None]], [["a"]], TypeError, r"tokens of 'preds' .* got \['NoneType', 'str'\]$"),
    ([[2**70]], [[1]], ValueError, "the ids of 'preds' must fit in 64 bits"),
    (["a", ["b"]], ["a", "b"], TypeError, rf"'preds' {KIND}\['list', 'str'\]$"),
    (["a", None], ["a", "b"], TypeError, rf"'preds' {KIND}\['NoneType', 'str'\]$"),
    (["a"], [["a", math.nan]], TypeError, rf"'target' {KIND}\['float', 'str'\]$"),
    ([b"a"], ["a"], TypeError, rf"'preds' {KIND}\['bytes'\]$"),
    ([iter(["a"])], [["a"]], TypeError, rf"'preds' {KIND}\['list_iterator'\]"),
    # no lists of sentences
    ("a b", ["a b"], TypeError, f"^'preds' {NO_LIST}'a b' of type str$"),
    (["a b"], b"a b", TypeError, f"^'target' {NO_LIST}b'a b' of type bytes$"),
    (None, ["a"], TypeError, f"^'preds' {NO_LIST}None of type NoneType$"),
    ({"input_ids": 1}, ids, TypeError, f"^'preds' {NO_LIST}{{'input_ids': 1}} of type dict$"),
    (["a"], {"a"}, TypeError, f"^'target' {NO_LIST}{{'a'}} of type set$"),
]


@pytest.mark.parametrize(("preds", "target", "error", "message"), ERRORS)
def test_an_error_says_what_to_do_and_changes_no_state(
    preds: Any, target: Any, error: type[Exception], message: str
) -> None:
    metric = CorpusBLEU()
    metric.update(["a b c d e"], ["a b c d f"])
    before = metric.totals.clone()
    with pytest.raises(error, match=message):
        metric.update(preds, target)
    assert torch.equal(metric.totals, before)
    assert metric.update_count == 1


@pytest.mark.filterwarnings("ignore:.*quantize", "ignore:The PyTorch API of nested")
def test_nested_and_quantized_tensors_are_refused() -> None:
    nested: Any = torch.nested.nested_tensor([torch.tensor([1, 2]), torch.tensor([1])])
    for preds, target in ((nested, ids), (ids, [nested, nested])):
        with pytest.raises(TypeError, match=f"{DENSE}.*is_nested=True$"):
            corpus_bleu(preds, target)
    with pytest.raises(TypeError, match=r"'preds' is a tensor of torch.quint8 .*: ids must be integers"):
        corpus_bleu(torch.quantize_per_tensor(torch.zeros(2, 5), 1.0, 0, torch.quint8), ids)


@pytest.mark.parametrize("empty", [np.array([], dtype=str), np.array([], dtype=object), np.zeros((0, 3), np.int64)])
def test_an_empty_array_is_an_empty_batch(empty: npt.NDArray[Any]) -> None:
    metric = CorpusBLEU()
    for preds, target in ((empty, empty), (empty, []), ([], empty), (empty, ids[:0])):
        metric.update(preds, target)
    metric.update(["a b"], ["a b"])
    assert metric.hypothesis_length == 2
    assert segment_count(recognize_hypotheses(empty, "source")) == 0


def test_logits_in_their_own_layout_are_not_taken_for_the_other_one() -> None:
    for shape in ((2, 5, 9), (2, 5, 5), (2, 4, 9), (2, 6, 9)):
        corpus_bleu(torch.zeros(shape), ids, pad_id=-1)
    corpus_bleu(torch.zeros(2, 9, 12), torch.arange(12).repeat(2, 1), pad_id=-1)  # a vocabulary as wide as the labels
    corpus_bleu(torch.zeros(2, 9, 5), [[0] * 5] * 2, pad_id=-1)  # lists are as long as they are by chance
    swapped = torch.nn.functional.one_hot(torch.tensor([[1, 2, 3, 4, 5]]), 9).float().transpose(1, 2)
    target = torch.tensor([[1, 2, 3, 4, 6]])
    with pytest.raises(ValueError, match="cross_entropy"):
        corpus_bleu(swapped, target)
    # 4 of 5, 3 of 4, 2 of 3, and 1 of 2 n-grams match
    assert corpus_bleu(swapped.transpose(1, 2), target).matches == (4, 3, 2, 1)


# Sources


def test_there_must_be_a_source_for_each_hypothesis() -> None:
    for sources, counts in ((["a"], "1 and 2"), (torch.zeros(3, 2).long(), "3 and 2")):
        with pytest.raises(ValueError, match=f"^'source' and 'preds' must have .* number of sentences, got {counts}$"):
            read_sources(sources, 2, Settings())


OF_PREDS = [case for case in ERRORS if re.match(r"\^?(tokens of )?'preds' (?!and)", case[3])]


@pytest.mark.parametrize(("preds", "_", "error", "message"), OF_PREDS)
def test_an_error_names_the_argument(preds: Any, _: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        recognize_hypotheses(preds, "source")
    shown = str(raised.value)
    assert "'source'" in shown
    assert re.search(message.partition("; hypotheses come first")[0], shown.replace("'source'", "'preds'"))


# What is beside the sentences


@pytest.mark.parametrize("mask", [np.array([False, False, True])[::-1], [True, False, False], (True, False, np.False_)])
def test_a_mask_may_have_any_form(mask: Any) -> None:
    read = read_sample_mask(mask, 3)
    assert read is not None
    assert read.tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        (torch.tensor([1, 0]), TypeError, "must hold booleans, got int64"),
        (["yes", ""], TypeError, "must hold booleans, got <U3"),
        ([True, None], TypeError, "must hold booleans, got object"),
        (1, TypeError, "must hold booleans, got int64"),
        ([[True], [True, False]], TypeError, "must be an array, or a dense tensor with values: "),
        (torch.tensor([True, False]).to_sparse(), TypeError, "must be an array, or a dense tensor with values: "),
        (torch.tensor([True, False], device="meta"), TypeError, "must be an array, or a dense tensor with values: "),
        ([True] * 3, ValueError, r"must have one value .*, shape \(2,\), .*; got shape \(3,\)"),
        (torch.tensor(True), ValueError, r"must have one value .*; got shape \(\)"),
        (torch.ones(2, 1, dtype=torch.bool), ValueError, r"must have one value .*; got shape \(2, 1\)"),
    ],
)
def test_a_mask_that_is_refused_changes_no_state(mask: Any, error: type[Exception], message: str) -> None:
    metric = CorpusBLEU()
    with pytest.raises(error, match=f"^'sample_mask' {message}"):
        metric.update(["a", "b"], ["a", "b"], mask)
    assert not metric.totals.any()
    assert metric.update_count == 0


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (torch.tensor([0.0, 1.0]), TypeError, "must hold integers, the positions in the dataset, got float32"),
        ([True, False], TypeError, "must hold integers, .*, got bool"),
        (torch.tensor([0, 1]).to_sparse(), TypeError, "must be an array, or a dense tensor with values: "),
        ([0], ValueError, r"must have shape \(2,\), a position per sentence, got \(1,\)"),
        ([5, -1], ValueError, r"must hold positions in the dataset, from 0 and below 2\*\*63, got -1"),
        (np.array([0, 2**63], np.uint64), ValueError, f"must hold positions .*, got {2**63}"),
    ],
)
def test_an_index_has_a_position_for_each_sentence(index: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^'index' {message}"):
        read_index(index, 2)


def test_labels_may_be_an_iterator() -> None:
    for labels in (iter(["fr", "de"]), np.array(["fr", "de"]), ("fr", "de")):
        assert read_groups(labels, 2) == ["fr", "de"]
    for wrong in ("fr", 5, torch.tensor([1, 2]), ["fr", None]):
        with pytest.raises(TypeError, match=r"^'group' must hold a string per sentence, the label of its group, got "):
            read_groups(wrong, 2)
    with pytest.raises(ValueError, match=r"^'group' must hold a string per sentence, .*, got 1 for 2 sentences$"):
        read_groups(["fr"], 2)


class Key(str, enum.Enum):
    A = "a"


def test_ids_are_strings_or_integers_in_any_container() -> None:
    for ids in (["a", 5], np.array(["a", 5], object), iter(["a", np.int64(5)]), [np.str_("a"), torch.tensor(5)]):
        found = read_ids(ids, 2)
        assert found == ["a", 5]
        assert [type(one) for one in found] == [str, int]
    assert read_ids(torch.tensor([3, 2**62]), 2) == [3, 2**62]
    assert [type(one) for one in read_ids([Key.A], 1)] == [str]
    for wrong in ("ab", 5, None, [None, "a"], [0.5, 1], [True, False], torch.tensor([0.5, 1.0]), {"a": 1}["a"]):
        with pytest.raises(TypeError, match=r"^'id' must hold a string or an integer per sentence, got "):
            read_ids(wrong, 2)
    with pytest.raises(
        ValueError, match=r"^'id' must hold a string or an integer per sentence, got 1 for 2 sentences$"
    ):
        read_ids([5], 2)
