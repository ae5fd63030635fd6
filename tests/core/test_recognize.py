"""What `preds`, `target`, `source`, and `sample_mask` may be, and every error about them."""

from __future__ import annotations

import math
import re
from collections import UserList, deque
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas  # type: ignore[import-untyped]
import pytest
import torch
from torch import Tensor
from transformers import BatchEncoding

from lightning_bleu import CorpusBLEU, corpus_bleu
from lightning_bleu.core.columns import read_sample_mask
from lightning_bleu.core.forms import Ids, Strings, Tokens, segment_count
from lightning_bleu.core.recognize import recognize, recognize_hypotheses, recognize_sources
from tests.helpers.counting import EXPECTED_FIRST, FIRST_REFERENCES, HYPOTHESES, REFERENCES, count, pad

ids = torch.zeros(2, 5, dtype=torch.long)
PADDED, PADDED_FIRST = pad(HYPOTHESES, 6), pad(FIRST_REFERENCES, 7)
PADDED_REFERENCES = torch.stack([pad(group, 8) for group in REFERENCES])


def make_object_array(items: list[Any]) -> npt.NDArray[Any]:
    """An array whose elements are the items, even if they are lists."""
    array = np.empty(len(items), object)
    array[:] = items
    return array


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


def test_the_references_of_all_sentences_become_one_list() -> None:
    assert references_of(["a", "b"], ["c", "d"]) == (["c", "d"], [1, 1])
    assert references_of([["a"], ["b"]], [[["c"], ["d"]], [["e"]]]) == ([["c"], ["d"], ["e"]], [2, 1])
    assert references_of([[1], [2]], [[3], [4]]) == ([[3], [4]], [1, 1])


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
    with pytest.raises(ValueError, match="got no reference for sentence 0"):
        recognize([[1], [2]], [[], [[3]]])


def test_a_tensor_of_references_has_the_same_number_for_each_sentence() -> None:
    for target, references in ((ids, 1), (ids[:, None], 1), (torch.zeros(2, 3, 5, dtype=torch.int16), 3)):
        assert references_of(ids, target) == ([[0] * 5] * 2 * references, [references] * 2)
    matrices = [torch.zeros(3, 5).long(), torch.zeros(1, 4).long()]
    assert references_of(ids, matrices) == ([[0] * 5] * 3 + [[0] * 4], [3, 1])


# Other containers than lists

LINES, GROUPS = ["a b c", "d e"], [["a b c", "a b d"], ["e d", "d"]]
IDS, ID_GROUPS = [[1, 2, 3], [4, 5]], [[[1, 2, 3], [1, 2, 4]], [[5, 4], [4]]]
TOKENS, TOKEN_GROUPS = [line.split() for line in LINES], [[line.split() for line in group] for group in GROUPS]

CONTAINERS: list[Callable[[Any], Any]] = [
    tuple,
    iter,
    deque,
    lambda items: (item for item in items),
    chain,
    lambda items: dict(enumerate(items)).values(),
    UserList,
    make_object_array,
    pandas.Series,
    lambda items: pandas.Series(items, index=range(7, 7 + len(items))),
]


@pytest.mark.parametrize("outer", CONTAINERS)
@pytest.mark.parametrize("inner", [list, *CONTAINERS])
def test_sentences_may_be_in_any_container(outer: Callable[[Any], Any], inner: Callable[[Any], Any]) -> None:
    """At every level."""
    assert corpus_bleu(outer(LINES), outer(LINES)) == corpus_bleu(LINES, LINES)
    assert corpus_bleu(outer(LINES), outer([inner(group) for group in GROUPS])) == corpus_bleu(LINES, GROUPS)
    for tokens, groups in ((TOKENS, TOKEN_GROUPS), (IDS, ID_GROUPS)):
        preds = outer([inner(row) for row in tokens])
        assert corpus_bleu(preds, outer([inner(row) for row in tokens])) == corpus_bleu(tokens, tokens)
        nested = outer([inner([inner(row) for row in group]) for group in groups])
        assert corpus_bleu(outer([inner(row) for row in tokens]), nested) == corpus_bleu(tokens, groups)


@pytest.mark.parametrize(
    "dtype", [str, object, *([np.dtypes.StringDType()] if hasattr(np.dtypes, "StringDType") else [])]
)
def test_text_may_be_in_arrays_of_strings(dtype: Any) -> None:
    lines, groups = np.array(LINES, dtype), np.array(GROUPS, dtype)
    assert corpus_bleu(lines, lines) == corpus_bleu(LINES, LINES)
    expected = corpus_bleu(LINES, GROUPS)
    for target in (groups, [*groups], groups.tolist(), groups[::-1][::-1]):
        assert corpus_bleu(lines, target) == corpus_bleu(LINES, target) == expected
    assert corpus_bleu([*lines], [[*group] for group in groups]) == expected  # np.str_ is a str
    tokens = np.array([["a", "b"], ["c", "d"]], dtype)
    assert corpus_bleu(tokens, tokens[:, None]) == corpus_bleu(tokens.tolist(), tokens.tolist())


@pytest.mark.parametrize("dtype", ["str", "string", "object", "category"])
def test_text_may_be_in_a_column_of_a_table(dtype: str) -> None:
    table = pandas.DataFrame(
        {"model": LINES, "one": [g[0] for g in GROUPS], "two": [g[1] for g in GROUPS]}, dtype=dtype
    )
    assert corpus_bleu(table["model"], table["one"]) == corpus_bleu(LINES, [group[0] for group in GROUPS])
    assert corpus_bleu(table["model"], table[["one", "two"]].to_numpy()) == corpus_bleu(LINES, GROUPS)
    kept = table[table["model"] == "d e"]  # whose index does not begin at 0
    assert corpus_bleu(kept["model"], kept["two"]) == corpus_bleu(["d e"], ["d"])


def test_the_keys_of_a_dict_and_ranges_are_iterables_with_an_order() -> None:
    corpus = {"a b c": "a b d", "c d": "d c"}
    assert count(corpus.keys(), corpus.values()) == count(["a b c", "c d"], ["a b d", "d c"])
    assert count([range(5, 10)], [[range(5, 8), range(6, 9)]]) == count([[5, 6, 7, 8, 9]], [[[5, 6, 7], [6, 7, 8]]])


def test_materialize_keeps_what_can_be_read_twice_and_what_has_no_order() -> None:
    kept: list[Any] = [
        "ab",
        b"ab",
        bytearray(b"ab"),
        ["a"],
        ("a",),
        {"a"},
        frozenset("a"),
        {"a": 1},
        np.zeros(1),
        torch.zeros(1),
        1,
    ]
    assert all(materialize(value) is value for value in kept)
    assert materialize(iter("ab")) == ["a", "b"]


# Arrays and tensors; those of all types and memory layouts: tests/fuzz/id_forms.py


def test_tensors_of_any_mode_count_the_same_and_do_not_change() -> None:
    preds, target = PADDED.clone(), PADDED_FIRST.clone()
    with torch.inference_mode():
        assert count(preds.clone(), target.clone(), pad_id=0) == EXPECTED_FIRST
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert count(preds, target, pad_id=0) == EXPECTED_FIRST
    count(preds, target, pad_id=0, eos_id=9)
    assert torch.equal(preds, PADDED)
    assert torch.equal(target, PADDED_FIRST)


# Errors


COUNTS = "'preds' has {} sentences, 'target' {}: both must have the same number of sentences"
TRANSPOSE = r"list\(zip\(\*target\)\)"
CANDIDATES = r"candidates .*\[one for one in target for _ in range\({}\)\].*preds\[::{}\]"
SPARSE = "must be a dense tensor, got a sparse tensor: pass tensor.to_dense"
NESTED = r"must be a dense tensor, got a nested tensor: pass a list of its rows, tensor.unbind\(\)$"
META = "has a tensor on the meta device, which has a shape but no values: pass a tensor on a real device$"
MISSING = "pass '' for an empty sentence, or leave the sentence out everywhere$"
DECODE = r"\['bytes'.*\]: decode bytes to strings, line.decode\(\)$"
BATCH = BatchEncoding({"input_ids": ids, "attention_mask": ids, "labels": ids})
ERRORS: list[tuple[Any, Any, type[Exception], str]] = [
    # numbers of sentences
    (
        ["a"],
        ["a", "b"],
        ValueError,
        "^'preds' has 1 sentence, 'target' 2: both must have the same number of sentences$",
    ),
    (["a", "b"], [["a", "b"]], ValueError, f"^{COUNTS.format(2, 1)}. .*sacreBLEU's layout.*{TRANSPOSE}"),
    (ids, ids[[0] * 3], ValueError, f"^{COUNTS.format(2, 3)}$"),
    (["a"], ids, ValueError, "^'preds' has 1 sentence, 'target' 2: "),
    (["a"] * 6, ["a", "b"], ValueError, rf"^{COUNTS.format(6, 2)}. If there are 3 {CANDIDATES.format(3, 3)}$"),
    (ids[[0] * 8], ids[:1], ValueError, rf"^{COUNTS.format(8, 1)}. If there are 8 {CANDIDATES.format(8, 8)}$"),
    (["a"] * 5, ["a", "b"], ValueError, f"^{COUNTS.format(5, 2)}$"),
    # a sentence by itself
    ("a b", ["a b"], TypeError, r"'preds' must be a list of sentences, got a str: wrap it in a list"),
    (["a b"], "a b", TypeError, r"'target' must be a list of sentences, got a str: wrap it in a list"),
    # missing references
    (["a", "b"], [["a"], []], ValueError, "got no reference for sentence 1"),
    (["a", "b"], ["a", None], ValueError, r"got a reference that is None \(leave it out\) for sentence 1"),
    (["a", "b"], [["a", None], ["b"]], ValueError, r"got a reference that is None \(leave it out\) for sentence 0"),
    ([["a"], ["b"]], [["a"], None], ValueError, r"got a reference that is None \(leave it out\) for sentence 1"),
    ([[1], [2]], [[[1]], []], ValueError, "got no reference for sentence 1"),
    ([[1], [2]], [[[1], None], [[2]]], ValueError, r"got a reference that is None \(leave it out\) for sentence 0"),
    (ids, torch.zeros(2, 0, 5, dtype=torch.long), ValueError, r"every sentence needs a reference.*\(2, 0, 5\)"),
    (ids, [ids[:0], ids], ValueError, "got no reference for sentence 0"),
    (["a", "b"], np.array(["a", None], object), ValueError, r"a reference that is None .* for sentence 1"),
    (["a", "b"], pandas.Series(["a", None], dtype=object), ValueError, r"a reference that is None .* for sentence 1"),
    # logits as for cross_entropy
    (torch.zeros(2, 9, 5), ids + 5, ValueError, r"of shape \(2, 9, 5\) .*cross_entropy, pass preds.transpose\(1, 2\)"),
    (torch.zeros(2, 7, 5), ids[:, None] + 6, ValueError, r"'target' of shape \(2, 1, 5\) with the label 6: "),
    (np.zeros((2, 9, 5)), (ids + 8).numpy(), ValueError, r"pass preds.transpose\(1, 2\). If it is not, pass ids"),
    # types of tensors
    (torch.zeros(2, 5), ids, TypeError, r"torch.float32 and shape \(2, 5\): ids must be integers .* logits"),
    (ids.bool(), ids, TypeError, "'preds' is a tensor of torch.bool .*: ids must be integers"),
    (ids, ids.to(torch.complex64), TypeError, "'target' is a tensor of torch.complex64"),
    (ids, torch.zeros(2, 5, 9), TypeError, "only 'preds' may be logits"),
    ([torch.zeros(3)], [torch.zeros(3)], TypeError, "'preds' holds a tensor of torch.float32"),
    (np.array([b"a"]), ["a"], TypeError, r"'preds' .*, got an array of \|S1: decode it, np.char.decode\(array\)$"),
    (["a"], np.array([0], "M8[s]"), TypeError, "got an array of datetime64"),
    ([np.array([1j])], [[1]], TypeError, "'preds' must hold integers, got an array of complex128"),
    (ids.to_sparse(), ids, TypeError, f"'preds' {SPARSE}"),
    (ids, ids.to_sparse(), TypeError, f"'target' {SPARSE}"),
    ([ids[0].to_sparse()], [ids[0]], TypeError, f"'preds' {SPARSE}"),
    # tensors without values
    (ids.to("meta"), ids, TypeError, f"^'preds' {META}"),
    (ids.to("meta"), ["a", "b"], TypeError, f"^'preds' {META}"),
    (ids.to("meta", torch.int32), ids, TypeError, f"^'preds' {META}"),
    (torch.zeros(2, 5, 7, device="meta"), ids, TypeError, f"^'preds' {META}"),
    ([*ids.to("meta")], ids, TypeError, f"^'preds' {META}"),
    (ids, ids.to("meta"), TypeError, f"^'target' {META}"),
    (ids, ids[:, None].to("meta"), TypeError, f"^'target' {META}"),
    (ids, [*ids.to("meta")], TypeError, f"^'target' {META}"),
    (ids, [[row, row] for row in ids.to("meta")], TypeError, f"^'target' {META}"),
    (ids, [ids.to("meta"), ids.to("meta")], TypeError, f"^'target' {META}"),
    # shapes
    (ids[0], ids, ValueError, r"'preds' must have shape \(sentences, tokens\).*\(5,\)"),
    (ids, ids[0], ValueError, r"'target' must have shape .*got a tensor of torch.int64 and shape \(5,\)"),
    ([ids], [ids], ValueError, r"'preds' must hold tensors of shape \(tokens,\).*\(2, 5\)"),
    ([torch.tensor(1)], [[1]], ValueError, r"'preds' must hold tensors of shape \(tokens,\).*\(\)"),
    (np.array(3), [[1]], ValueError, r"'preds' must have shape \(sentences, tokens\).*shape \(\)"),
    (torch.zeros(2, 5, 0), ids, ValueError, r"\(2, 5, 0\): logits need a vocabulary of at least one token"),
    # kinds
    (["a"], [[1]], TypeError, "tokens of 'target'|must hold sentences of one kind|strings"),
    (["a", "b"], ids, TypeError, "must be of one kind, got strings and ids"),
    (ids, ["a", "b"], TypeError, "must be of one kind, got ids and strings"),
    ([["a"]], ["a"], TypeError, "must be of one kind, got tokens and strings"),
    ([["a"]], [[1]], TypeError, "must be of one kind, got tokens and ids"),
    ([[]], ["a"], TypeError, "must be of one kind, got nothing and strings"),
    ([["a", 1]], [["a"]], TypeError, r"tokens of 'preds' must be all strings or all integers, got \['int', 'str'\]"),
    ([[True]], [[True]], TypeError, "tokens of 'preds' must be all strings or all integers"),
    ([[1.5]], [[1]], TypeError, "tokens of 'preds' must be all strings or all integers"),
    ([["a b", "a"], ["c"]], ["a b", "c"], TypeError, r"tokens and strings: .*; hypotheses come first: .* the best$"),
    ([[["a", "b"], ["a"]]], [["a"]], TypeError, r"got \['list'\]; hypotheses come first: are .* swapped\? Of"),
    ([[[1, 2], [1]]], [[1]], TypeError, r"got \['list'\]; hypotheses come first: are 'preds' and 'target' swapped\?"),
    (torch.ones(1, 2, 3, dtype=torch.int64), ids[:1], ValueError, r"got a .* shape \(1, 2, 3\); hypotheses come first"),
    ([ids], [ids[0]], ValueError, r"must hold tensors of shape \(tokens,\).*; hypotheses come first"),
    ([["a", None]], [["a"]], TypeError, r"tokens of 'preds' must be all strings or all integers, got \['NoneType'"),
    (
        [["a"], ["b", None]],
        ["a"] * 2,
        TypeError,
        r"tokens of 'preds' .*\]: sentence 1 has None at position 1; leave it out$",
    ),
    ([[None, 1]], [[1]], TypeError, r"tokens of 'preds' .*\]: sentence 0 has None at position 0; leave it out$"),
    ([["a"]], [[["b", "c", None]]], TypeError, "of 'target' .*: a reference has None at position 2; leave it out$"),
    (["a", ["b"]], ["a", "b"], TypeError, "'preds' must hold sentences of one kind"),
    ([ids[0], [1]], [[1], [1]], TypeError, r"'preds' must hold sentences of one kind .*\['Tensor', 'list'\]"),
    ([None], ["a"], TypeError, "'preds' must hold sentences of one kind .*NoneType"),
    (["a", None, None], ["a"] * 3, TypeError, rf"'preds' .* got \['NoneType', 'str'\]: sentence 1 is None; {MISSING}"),
    ([["a"], None], [["a"]] * 2, TypeError, rf"'preds' .* got \['NoneType', 'list'\]: sentence 1 is None; {MISSING}"),
    ([ids[0], None], ids, TypeError, rf"'preds' .* got \['NoneType', 'Tensor'\]: sentence 1 is None; {MISSING}"),
    (np.array([None, "a"], object), ["a"] * 2, TypeError, f"'preds' .*: sentence 0 is None; {MISSING}"),
    (["a", "b", math.nan], ["a"] * 3, TypeError, r"'preds' .* got \['float', 'str'\]: sentence 2 is nan$"),
    (["a"], [["a", math.nan]], TypeError, r"'target' .* got \['float', 'str'\]: a reference is nan$"),
    ([b"a"], ["a"], TypeError, f"'preds' must hold sentences of one kind .*{DECODE}"),
    (["a", b"b"], ["a"] * 2, TypeError, f"'preds' must hold sentences of one kind .*{DECODE}"),
    (["a"], [b"a"], TypeError, f"'target' must hold sentences of one kind .*{DECODE}"),
    (["a"], [["a", b"a"]], TypeError, f"'target' must hold sentences of one kind .*{DECODE}"),
    ([[b"a"]], [["a"]], TypeError, r"tokens of 'preds' .*\['bytes'\]: decode bytes to strings, token.decode\(\)$"),
    ([bytearray(b"a")], [bytearray(b"a")], TypeError, "'preds' .*'bytearray'.*: decode bytes to strings"),
    (b"ab", ["a"], TypeError, r"'preds' must be a list of strings, .* got bytes: decode it, .*, \[preds.decode\(\)\]$"),
    (["a"], bytearray(b"ab"), TypeError, r"got bytearray: decode it, and wrap it in a list, \[target.decode\(\)\]$"),
    (None, ["a"], TypeError, "'preds' must be a list of strings, .* got NoneType$"),
    ({"preds": 1}, ["a"], TypeError, r"'preds' must be a list of strings, .* got dict with the keys \['preds'\]: pass"),
    ({0: "a"}, ["a"], TypeError, r"dict with the keys \[0\]: pass one of its values, or list\(preds.values\(\)\)$"),
    (BATCH, ids, TypeError, r"'preds' .* got BatchEncoding with the keys \['input.*\]: pass preds\['input_ids'\]$"),
    (dict(BATCH), ids, TypeError, r"'preds' .* got dict with the keys .*: pass preds\['input_ids'\]$"),
    (ids, BATCH, TypeError, r"'target' .* got BatchEncoding with the keys .*: pass target\['labels'\]$"),
    ({"sequences": ids, "scores": ()}, ids, TypeError, r"'preds' .*: pass preds\['sequences'\]$"),
    ({"loss": 1, "logits": ids}, ids, TypeError, r"'preds' .*: pass preds\['logits'\]$"),
    (["a"], {"a"}, TypeError, "'target' must be a list of strings, .* got set"),
    (["a"], [{"a", "b"}], TypeError, "'target' must hold sentences of one kind .*set"),
    ([1, 2], [1, 2], TypeError, "'preds' must hold sentences of one kind .*int"),
    ([[2**70]], [[1]], ValueError, "the ids of 'preds' must fit in 64 bits"),
]


@pytest.mark.parametrize("target", [["a b c", "d e"], torch.tensor([[3, 4, 5], [6, 7, 0]])])
def test_several_candidates_are_scored_as_the_error_says(target: Any) -> None:
    preds = target[[0] * 3 + [1] * 3] if isinstance(target, torch.Tensor) else target[:1] * 3 + target[1:] * 3
    repeated = [one for one in target for _ in range(3)]
    assert corpus_bleu(preds, repeated, max_order=2, pad_id=0).possible_matches == (15, 9)
    assert corpus_bleu(preds[::3], target, max_order=2, pad_id=0).possible_matches == (5, 3)


@pytest.mark.parametrize(("preds", "target", "error", "message"), ERRORS)
def test_an_error_says_what_to_do_and_changes_no_state(
    preds: Any, target: Any, error: type[Exception], message: str
) -> None:
    metric = CorpusBLEU()
    metric.update(["a b c d e"], ["a b c d f"])
    before = metric.totals.clone()
    signature = metric.signature
    for call in (metric.update, metric.forward):
        with pytest.raises(error, match=message):
            call(preds, target)
        assert torch.equal(metric.totals, before)
        assert metric.update_count == 1
        assert metric.signature == signature


def make_nested(rows: list[Tensor], layout: torch.layout) -> Tensor:
    return torch.nested.nested_tensor(rows, layout=layout)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested")
@pytest.mark.parametrize(
    "layout",
    [
        torch.strided,
        pytest.param(torch.jagged, marks=pytest.mark.slow),  # torch imports its compiler for the first jagged tensor
    ],
)
def test_nested_tensors_are_refused(layout: torch.layout) -> None:
    metric = CorpusBLEU(pad_id=0, keep_sentences=True)
    rows = [torch.tensor([1, 2]), torch.tensor([1])]
    nested = make_nested(rows, layout)
    logits = make_nested([torch.rand(2, 3), torch.rand(1, 3)], layout)
    wrong: list[tuple[str, Any, Any]] = [
        ("preds", nested, ids),
        ("preds", logits, ids),
        ("preds", [nested, nested], ids),
        ("target", ids, nested),
        ("target", ids, [nested, nested]),
    ]
    for name, preds, target in wrong:
        for call in (metric.update, metric.forward):
            with pytest.raises(TypeError, match=f"^'{name}' {NESTED}"):
                call(preds, target)
    with pytest.raises(TypeError, match=f"^'source' {NESTED}"):
        recognize_sources(nested, 2)
    one_per_sentence = r"must be a dense tensor, got a nested tensor: pass a tensor of shape \(sentences,\)$"
    with pytest.raises(TypeError, match=f"^'sample_mask' {one_per_sentence}"):
        metric.update(ids, ids, sample_mask=make_nested([row > 0 for row in rows], layout))
    for index in (nested, nested.float()):
        with pytest.raises(TypeError, match=f"^'index' {one_per_sentence}"):
            metric.update(ids, ids, index=index)
    assert metric.update_count == 0
    metric.update([*nested.unbind()], [*nested.unbind()])  # as the errors say
    assert metric.hypothesis_length == 3


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor", "ignore:.*quantize")
def test_sparse_and_quantized_tensors_are_refused() -> None:
    with pytest.raises(TypeError, match=f"'target' {SPARSE}"):
        corpus_bleu(ids, ids.to_sparse_csr())
    with pytest.raises(TypeError, match=r"'preds' is a tensor of torch.quint8 .*: ids must be integers"):
        corpus_bleu(torch.quantize_per_tensor(torch.zeros(2, 5), 1.0, 0, torch.quint8), ids)


@pytest.mark.parametrize(
    ("field", "tensor"), [("sample_mask", torch.tensor([True, False])), ("index", torch.tensor([0, 1]))]
)
def test_a_tensor_beside_the_sentences_needs_values_and_no_layout(field: str, tensor: Tensor) -> None:
    metric = CorpusBLEU(keep_sentences=True)
    for wrong, message in ((tensor.to("meta"), META), (tensor.to_sparse(), SPARSE)):
        fields: Any = {field: wrong}
        with pytest.raises(TypeError, match=f"^'{field}' {message}"):
            metric.update(["a", "b"], ["a", "b"], **fields)
    assert metric.update_count == 0


@pytest.mark.parametrize("empty", [np.array([], dtype=str), np.array([], dtype=object), np.zeros((0, 3), np.int64)])
def test_an_empty_array_is_an_empty_batch(empty: npt.NDArray[Any]) -> None:
    metric = CorpusBLEU()
    for preds, target in ((empty, empty), (empty, []), ([], empty), (empty, ids[:0])):
        metric.update(preds, target)
    metric.update(["a b"], ["a b"])
    assert metric.hypothesis_length == 2
    assert segment_count(recognize_sources(empty, 0)) == 0


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


@pytest.mark.parametrize(
    ("sources", "sentences", "counts"),
    [
        (["a"], 2, "1 sentence, 'preds' 2"),
        (["a", "b", "c"], 2, "3 sentences, 'preds' 2"),
        (["a"] * 2, 6, "2 sentences, 'preds' 6"),
        ([], 1, "0 sentences, 'preds' 1"),
        ([[1, 2]], 2, "1 sentence, 'preds' 2"),
        (torch.zeros(3, 2).long(), 2, "3 sentences, 'preds' 2"),
        (torch.zeros(2, 5, 7), 5, "2 sentences, 'preds' 5"),
        ([torch.zeros(4).long()], 4, "1 sentence, 'preds' 4"),
    ],
)
def test_there_must_be_a_source_for_each_hypothesis(sources: Any, sentences: int, counts: str) -> None:
    with pytest.raises(ValueError, match=f"^'source' has {counts}: pass one source for each hypothesis$"):
        recognize_sources(sources, sentences)


@pytest.mark.parametrize(
    ("preds", "error", "message"),
    [
        (preds, error, message)
        for preds, _, error, message in ERRORS
        if re.match(r"\^?(tokens of )?'preds' (?!has \d)", message)
    ],
)
def test_an_error_names_the_argument(preds: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        recognize_sources(preds, 2)
    shown = str(raised.value)
    assert "'source'" in shown
    assert re.search(message, shown.replace("source", "preds"))


# Sample masks


@pytest.mark.parametrize("mask", [np.array([False, False, True])[::-1], [True, False, False], (True, False, np.False_)])
def test_a_mask_may_have_any_form(mask: Any) -> None:
    found = read_sample_mask(mask, 3)
    assert found is not None
    assert found.tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        (torch.tensor([1, 0]), TypeError, "'sample_mask' must hold booleans, got torch.int64"),
        (torch.tensor([1.0, 0.0]), TypeError, "'sample_mask' must hold booleans, got torch.float32"),
        (np.array([1, 0]), TypeError, "'sample_mask' must hold booleans, got .*int64"),
        (np.array(["yes", ""]), TypeError, "'sample_mask' must hold booleans, got"),
        (np.array([True, None]), TypeError, "'sample_mask' must hold booleans, got"),
        (["yes", ""], TypeError, r"'sample_mask' must hold booleans, got \['str'\]"),
        ([1, 0], TypeError, r"'sample_mask' must hold booleans, got \['int'\]"),
        ((True, None), TypeError, r"'sample_mask' must hold booleans, got \['NoneType'\]"),
        ([[True], [False]], TypeError, r"'sample_mask' must hold booleans, got \['list'\]"),
        ("ab", TypeError, "'sample_mask' must hold booleans, got str"),
        (1, TypeError, "'sample_mask' must hold booleans, got int"),
        (torch.tensor([True] * 3), ValueError, r"'sample_mask' must have one value .*, shape \(2,\).*got shape \(3,\)"),
        (torch.tensor(True), ValueError, r"'sample_mask' must have .*; got shape \(\)"),
        ([True] * 3, ValueError, r"'sample_mask' must have one value .*, shape \(2,\).*got shape \(3,\)"),
        (torch.ones(2, 1, dtype=torch.bool), ValueError, r"'sample_mask' must have .*; got shape \(2, 1\)"),
    ],
)
def test_a_mask_that_is_refused_changes_no_state(mask: Any, error: type[Exception], message: str) -> None:
    metric = CorpusBLEU()
    for call in (metric.update, metric.forward):
        with pytest.raises(error, match=message):
            call(["a", "b"], ["a", "b"], mask)
        assert not metric.totals.any()
        assert metric.update_count == 0
