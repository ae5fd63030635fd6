"""What `preds`, `target`, and `sample_mask` may be, and every error about them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from lightning_bleu import CorpusBLEU, corpus_bleu
from lightning_bleu.counting.devices import CPU
from lightning_bleu.counting.forms import IdLists, IdTensor, IdTensors, Strings, TokenLists
from lightning_bleu.counting.inputs import read_sample_mask, recognize
from tests.helpers.counting import EXPECTED, HYPOTHESES, REFERENCES, as_text

ids = torch.zeros(2, 5, dtype=torch.long)


# What is recognized


def test_the_references_of_all_sentences_become_one_list() -> None:
    assert recognize(["a", "b"], ["c", "d"])[:3] == ("strings", Strings(["a", "b"]), Strings(["c", "d"]))
    kind, _, references, counts = recognize([["a"], ["b"]], [[["c"], ["d"]], [["e"]]])
    assert (kind, references, counts.tolist()) == ("tokens", TokenLists([["c"], ["d"], ["e"]]), [2, 1])
    kind, _, references, counts = recognize([[1], [2]], [[3], [4]])
    assert (kind, references, counts.tolist()) == ("ids", IdLists([[3], [4]]), [1, 1])


def test_sentences_with_one_and_with_several_references_can_be_mixed() -> None:
    # the second sentence has a single reference, which needs no list of its own
    for preds, target in (
        (["a", "b"], [["c", "d"], "e"]),
        ([["a"], ["b"]], [[["c"], ["d"]], ["e"]]),
        ([[1], [2]], [[[3], [4]], [5]]),
        (ids, [ids, ids[0]]),
    ):
        assert recognize(preds, target).counts.tolist() == [2, 1]  # type: ignore[arg-type]


def test_an_empty_list_is_an_empty_reference_unless_other_sentences_have_lists_of_references() -> None:
    assert recognize([[1], [2]], [[], [3]]).references == IdLists([[], [3]])
    with pytest.raises(ValueError, match="got no reference for sentence 0"):
        recognize([[1], [2]], [[], [[3]]])


def test_a_tensor_of_references_has_as_many_for_each_sentence() -> None:
    for target, references in ((ids, 1), (ids[:, None], 1), (torch.zeros(2, 3, 5, dtype=torch.int16), 3)):
        recognized = recognize(ids, target)
        assert isinstance(recognized.references, IdTensor)
        assert recognized.counts.tolist() == [references] * 2
    matrices = recognize(ids, [torch.zeros(3, 5).long(), torch.zeros(1, 4).long()])
    assert isinstance(matrices.references, IdTensors)
    assert matrices.counts.tolist() == [3, 1]


# Errors


ERRORS: list[tuple[Any, Any, type[Exception], str]] = [
    # numbers of sentences
    (["a"], ["a", "b"], ValueError, "same number of sentences, got 1 and 2$"),
    (["a", "b"], [["a", "b"]], ValueError, r"got 2 and 1; .*sacreBLEU's layout.*list\(zip\(\*target\)\)"),
    (ids, ids[:1], ValueError, r"got shapes \(2, 5\) and \(1, 5\)"),
    (["a"], ids, ValueError, r"got shapes \(1,\) and \(2, 5\)"),
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
    # types of tensors
    (torch.zeros(2, 5), ids, TypeError, r"torch.float32 and shape \(2, 5\): ids must be integers .* logits"),
    (ids.bool(), ids, TypeError, "'preds' is a tensor of torch.bool .*: ids must be integers"),
    (ids, ids.to(torch.complex64), TypeError, "'target' is a tensor of torch.complex64"),
    (ids, torch.zeros(2, 5, 9), TypeError, "only 'preds' may be logits"),
    ([torch.zeros(3)], [torch.zeros(3)], TypeError, "'preds' holds a tensor of torch.float32"),
    (np.array(["a"]), ["a"], TypeError, "use a list for strings"),
    (["a"], np.array(["a"], object), TypeError, "'target' must hold integers, got an array of object"),
    ([np.array(["a"])], [["a"]], TypeError, "'preds' must hold integers, got an array of <U1: use a list for strings"),
    (ids.to_sparse(), ids, TypeError, "'preds' is a sparse tensor: ids must be a dense tensor"),
    (ids, ids.to_sparse(), TypeError, "'target' is a sparse tensor: ids must be a dense tensor"),
    ([ids[0].to_sparse()], [ids[0]], TypeError, "'preds' is a sparse tensor: ids must be a dense tensor"),
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
    ([["a", None]], [["a"]], TypeError, r"tokens of 'preds' must be all strings or all integers, got \['NoneType'"),
    (["a", ["b"]], ["a", "b"], TypeError, "'preds' must hold sentences of one kind"),
    ([ids[0], [1]], [[1], [1]], TypeError, r"'preds' must hold sentences of one kind .*\['Tensor', 'list'\]"),
    ([None], ["a"], TypeError, "'preds' must hold sentences of one kind .*NoneType"),
    ([b"a"], ["a"], TypeError, "'preds' must hold sentences of one kind .*bytes"),
    (None, ["a"], TypeError, "'preds' must be a list of strings, .* got NoneType"),
    ({"preds": 1}, ["a"], TypeError, "'preds' must be a list of strings, .* got dict"),
    (["a"], {"a"}, TypeError, "'target' must be a list of strings, .* got set"),
    (["a"], [{"a", "b"}], TypeError, "'target' must hold sentences of one kind .*set"),
    ([1, 2], [1, 2], TypeError, "'preds' must hold sentences of one kind .*int"),
    ([[2**70]], [[1]], ValueError, "ids must fit in 64 bits"),
]


@pytest.mark.parametrize(("preds", "target", "error", "message"), ERRORS)
def test_an_error_says_what_to_do_and_changes_no_state(
    preds: Any, target: Any, error: type[Exception], message: str
) -> None:
    metric = CorpusBLEU()
    metric.update(["a b c d e"], ["a b c d f"])
    before = metric.totals.clone()
    signature = metric.signature
    last_batch = metric.last_batch
    for call in (metric.update, metric.forward):
        with pytest.raises(error, match=message):
            call(preds, target)
        assert torch.equal(metric.totals, before)
        assert metric.update_count == 1
        assert metric.signature == signature
        assert metric.last_batch is last_batch


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor", "ignore:The PyTorch API of nested", "ignore:.*quantize")
def test_sparse_nested_and_quantized_tensors_are_refused() -> None:
    with pytest.raises(TypeError, match="'preds' is a nested tensor: ids must be a dense tensor"):
        corpus_bleu(torch.nested.nested_tensor([torch.tensor([1, 2]), torch.tensor([1])]), ids)
    with pytest.raises(TypeError, match="'target' is a sparse tensor: ids must be a dense tensor"):
        corpus_bleu(ids, ids.to_sparse_csr())
    with pytest.raises(TypeError, match=r"'preds' is a tensor of torch.quint8 .*: ids must be integers"):
        corpus_bleu(torch.quantize_per_tensor(torch.zeros(2, 5), 1.0, 0, torch.quint8), ids)


@pytest.mark.slow  # torch imports its compiler for the first jagged tensor
def test_jagged_tensors_are_refused() -> None:
    jagged = torch.nested.nested_tensor([torch.tensor([1, 2]), torch.tensor([1])], layout=torch.jagged)
    with pytest.raises(TypeError, match="'preds' is a nested tensor: ids must be a dense tensor"):
        corpus_bleu(jagged, ids)


# Sample masks


@pytest.mark.parametrize(
    "mask", [[True, False, True, False], (True, False, True, False), torch.tensor([True, False, True, False])]
)
def test_sentences_that_are_masked_do_not_count(mask: Any) -> None:
    zeros = [0] * 8
    expected = [EXPECTED[0], zeros, EXPECTED[2], zeros]
    metric = CorpusBLEU(max_order=3, tokenizer="none", keep_sentences=True)
    texts = [as_text(h) for h in HYPOTHESES], [[as_text(r) for r in group] for group in REFERENCES]
    for preds, target in ((HYPOTHESES, REFERENCES), texts):
        metric.reset()
        metric.update(preds, target, mask)
        assert metric.batch_statistics is not None
        assert metric.batch_statistics.tolist() == expected
        assert metric.statistics.tolist() == [sum(column) for column in zip(*expected)]
        assert metric.sentence_statistics.tolist() == [EXPECTED[0], EXPECTED[2]]


@pytest.mark.parametrize("counted", [True, False])
def test_a_mask_of_one_value_is_for_the_whole_batch(counted: bool) -> None:
    metric = CorpusBLEU(max_order=3, keep_sentences=True)
    metric.update(HYPOTHESES, REFERENCES, torch.tensor([counted]))
    assert metric.sentence_statistics.tolist() == (EXPECTED if counted else [])
    assert metric.statistics.any() == counted


def backward(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """The same values, with a negative stride."""
    return mask[::-1].copy()[::-1]


def read_only(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    mask = mask.copy()
    mask.flags.writeable = False
    return mask


@pytest.mark.parametrize("change", [np.array, backward, read_only, list])
def test_a_mask_may_be_an_array_of_any_memory_layout(change: Any) -> None:
    mask = read_sample_mask(change(np.array([True, False, False])), 3, CPU)
    assert mask.tolist() == [True, False, False]


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
        (torch.tensor([True] * 3), ValueError, r"'sample_mask' must have shape \(2,\).*got \(3,\)"),
        (torch.tensor(True), ValueError, r"'sample_mask' must have shape \(2,\).*got \(\)"),
        ([True] * 3, ValueError, r"'sample_mask' must have shape \(2,\).*got \(3,\)"),
        (torch.ones(2, 1, dtype=torch.bool), ValueError, r"'sample_mask' must have shape \(2,\).*got \(2, 1\)"),
    ],
)
def test_a_mask_that_is_refused_changes_no_state(mask: Any, error: type[Exception], message: str) -> None:
    metric = CorpusBLEU()
    for call in (metric.update, metric.forward):
        with pytest.raises(error, match=message):
            call(["a", "b"], ["a", "b"], mask)
        assert not metric.totals.any()
        assert metric.update_count == 0
        assert metric.last_batch is None
