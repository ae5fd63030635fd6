from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lightning_bleu import CorpusBLEU, corpus_bleu, inputs
from lightning_bleu.scoring.settings import Settings
from lightning_bleu.functional import Seen, sentence_statistics
from tests.reference import statistics


@contextlib.contextmanager
def torch_for_the_cpu() -> Iterator[None]:
    """Take the CPU for an accelerator, so that what runs there runs here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inputs, "CPU", torch.device("meta"))
        yield


KINDS = [contextlib.nullcontext, torch_for_the_cpu]
HYPOTHESES = [[5, 6, 7, 8, 9], [5, 6], [], [9, 9, 9, 8]]
REFERENCES = [
    [[5, 6, 7, 9, 8], [6, 7, 8, 9, 5, 5]],
    [[5, 6, 7], [6, 5]],
    [[5], [4]],
    [[9, 8], [9, 9, 7, 9, 8]],
]
FIRST = [group[0] for group in REFERENCES]


def pad(sentences: list[list[int]], width: int, value: int = 0, left: int = 0) -> Tensor:
    rows = [[value] * left + s + [value] * (width - len(s)) for s in sentences]
    return torch.tensor(rows)


def counts(preds: Any, target: Any, **options: Any) -> list[list[int]]:
    options.setdefault("max_order", 3)
    return sentence_statistics(preds, target, Settings.from_options(**options))[0].tolist()


EXPECTED = [statistics(h, rs, 3) for h, rs in zip(HYPOTHESES, REFERENCES)]
EXPECTED_FIRST = [statistics(h, [r], 3) for h, r in zip(HYPOTHESES, FIRST)]


def words(value: Any) -> Any:
    return [words(v) for v in value] if isinstance(value, list) else f"w{value}"


def text(value: Any) -> Any:
    return " ".join(words(value)) if not value or isinstance(value[0], int) else [text(v) for v in value]


def tensors(value: Any) -> Any:
    flat = not value or isinstance(value[0], int)
    return torch.tensor(value, dtype=torch.long) if flat else [tensors(v) for v in value]


SEVERAL: list[Any] = [pad(group, 8).tolist() for group in REFERENCES]


@pytest.mark.parametrize(
    ("preds", "target", "options"),
    [
        (text(HYPOTHESES), text(REFERENCES), {"tokenizer": "none"}),
        (tuple(text(HYPOTHESES)), [tuple(group) for group in text(REFERENCES)], {"tokenizer": "none"}),
        (words(HYPOTHESES), words(REFERENCES), {}),
        (HYPOTHESES, REFERENCES, {}),
        ([tuple(h) for h in HYPOTHESES], REFERENCES, {}),
        (tensors(HYPOTHESES), tensors(REFERENCES), {}),
        (tensors(HYPOTHESES), REFERENCES, {}),
        (HYPOTHESES, [pad(group, 8) for group in REFERENCES], {"pad_id": 0}),
        (pad(HYPOTHESES, 6), torch.tensor(SEVERAL), {"pad_id": 0}),
        (pad(HYPOTHESES, 6).numpy(), np.array(SEVERAL), {"pad_id": 0}),
        (pad(HYPOTHESES, 6), REFERENCES, {"pad_id": 0}),
        (HYPOTHESES, torch.tensor(SEVERAL), {"pad_id": 0}),
        (pad(HYPOTHESES, 6, -100), torch.tensor(SEVERAL), {"pad_id": 0}),
        (iter(HYPOTHESES), iter(REFERENCES), {}),
    ],
)
def test_several_references(preds: Any, target: Any, options: dict[str, Any]) -> None:
    assert counts(preds, target, **options) == EXPECTED


@pytest.mark.parametrize(
    ("preds", "target", "options"),
    [
        (text(HYPOTHESES), text(FIRST), {"tokenizer": "none"}),
        (words(HYPOTHESES), words(FIRST), {}),
        (HYPOTHESES, FIRST, {}),
        (tensors(HYPOTHESES), tensors(FIRST), {}),
        (pad(HYPOTHESES, 6), pad(FIRST, 7), {"pad_id": 0}),
        (pad(HYPOTHESES, 6), pad(FIRST, 7)[:, None], {"pad_id": 0}),
        (pad(HYPOTHESES, 6, left=3), pad(FIRST, 7), {"pad_id": 0}),
        (pad(HYPOTHESES, 6), tensors(FIRST), {"pad_id": 0}),
        (pad(HYPOTHESES, 6).numpy(), FIRST, {"pad_id": 0}),
    ],
)
def test_one_reference(preds: Any, target: Any, options: dict[str, Any]) -> None:
    assert counts(preds, target, **options) == EXPECTED_FIRST


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64]
)
def test_integer_types(dtype: torch.dtype) -> None:
    assert counts(pad(HYPOTHESES, 6).to(dtype), pad(FIRST, 7).to(dtype), pad_id=0) == EXPECTED_FIRST


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_logits(dtype: torch.dtype) -> None:
    logits = torch.nn.functional.one_hot(pad(HYPOTHESES, 6), 10).to(dtype)
    logits.requires_grad_()
    assert counts(logits * 3 - 1, pad(FIRST, 7), pad_id=0) == EXPECTED_FIRST


def test_ids_that_are_no_tokens() -> None:
    pad_, bos, eos = 0, 1, 2
    hypotheses = [[bos, 5, pad_, 6, -100, 7, 8, bos, 9, eos, 5, 5], [5, 6, eos], [eos, 5, 6], [pad_, 9, 9, 9, 8]]
    assert counts(pad(hypotheses, 13), pad(FIRST, 7), pad_id=pad_, bos_id=bos, eos_id=eos) == EXPECTED_FIRST
    assert counts(hypotheses, FIRST, pad_id=pad_, bos_id=bos, eos_id=eos) == EXPECTED_FIRST
    assert counts(pad(hypotheses, 13), pad(FIRST, 7), pad_id=1, ignore_ids=[-100, 0], eos_id=eos) == EXPECTED_FIRST
    assert counts([[3, -100]], [[3]])[0][-2:] == [1, 1]
    assert counts([[3, -100]], [[3]], ignore_ids=())[0][-2:] == [2, 1]
    assert counts([[3, 4]], [[3]], ignore_ids=4)[0][-2:] == [1, 1]


@pytest.mark.parametrize("role", ["bos_id", "pad_id"])
def test_an_end_that_also_begins_or_pads(role: str) -> None:
    """Decoders that start with the end token, and padding on the left with it."""
    hypotheses = [[2, *HYPOTHESES[0], 2, 5], [2, 2, *HYPOTHESES[1], 2], [2, 2], [*HYPOTHESES[3], 2, 2]]
    assert counts(pad(hypotheses, 9, 2), FIRST, eos_id=2, **{role: 2}) == EXPECTED_FIRST


def test_unknown_words_in_references_match_nothing() -> None:
    # fairseq: "a unk b" against "a unk b" has two matches, and three tokens on both sides
    result = corpus_bleu([[5, 3, 6]], [[5, 3, 6]], convention="fairseq", unk_id=3)
    assert result.matches == (2, 0, 0, 0)
    assert result.possible_matches == (3, 2, 1, 0)
    assert (result.hypothesis_length, result.reference_length) == (3, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_excluded_ids_void_ngrams_in_allennlp(kind: Any) -> None:
    # AllenNLP: of "a b _ c d" the bigrams "a b" and "c d" count, no trigram; "_" is not part of the length
    with kind():
        result = corpus_bleu(
            torch.tensor([[5, 6, 0, 7, 8]]), torch.tensor([[5, 6, 7, 8, 0]]), convention="allennlp", pad_id=0
        )
    assert result.matches == (4, 2, 0, 0)
    assert result.possible_matches == (4, 2, 0, 0)
    assert result.hypothesis_length == 4


def test_references_without_a_token_fill_up_an_array() -> None:
    target = torch.tensor([[[5, 6, 7], [0, 0, 0]], [[0, 0, 0], [5, 0, 0]], [[0, 0, 0], [0, 0, 0]]])
    assert [row[-1] for row in counts(pad([[5], [6, 7, 8], [5]], 3), target, pad_id=0)] == [3, 1, 0]
    assert [row[-1] for row in counts([[5], [6, 7, 8], [5]], target, pad_id=0)] == [3, 1, 0]
    # in lists, where no filling is needed, they are references
    assert [row[-1] for row in counts([[5]], [[[5, 6, 7], []]])] == [0]


@pytest.mark.parametrize(
    ("reference_length", "expected"), [("closest", [2, 3]), ("closest-first", [4, 3]), ("shortest", [2, 1])]
)
def test_reference_lengths_skip_missing_references(reference_length: str, expected: list[int]) -> None:
    target = torch.tensor([[[0, 0, 0, 0], [1, 1, 1, 1], [1, 1, 0, 0]], [[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 1, 0]]])
    preds = torch.tensor([[1, 1, 1], [1, 1, 1]])
    rows = counts(preds, target, pad_id=0, reference_length=reference_length)
    assert [row[-1] for row in rows] == expected
    ragged = [[[1] * 4, [1] * 2], [[1], [1] * 3]]
    rows = counts([[1, 1, 1], [1, 1, 1]], ragged, reference_length=reference_length)
    assert [row[-1] for row in rows] == expected
    rows = counts([[1], [1], [1]], [[[1] * 9], [[1] * 7, [1] * 8], [[1] * 5]], reference_length=reference_length)
    assert [row[-1] for row in rows] == [9, 7, 5]


@pytest.mark.parametrize("mask", [[True, False, True, False], torch.tensor([True, False, True, False])])
def test_sample_mask(mask: Any) -> None:
    zeros = [0] * 8
    expected = [EXPECTED[0], zeros, EXPECTED[2], zeros]
    metric = CorpusBLEU(max_order=3, tokenizer="none", keep_sentences=True)
    for preds, target in ((HYPOTHESES, REFERENCES), (text(HYPOTHESES), text(REFERENCES))):
        metric.reset()
        metric.update(preds, target, mask)
        assert metric.batch_statistics is not None
        assert metric.batch_statistics.tolist() == expected
        assert metric.statistics.tolist() == [sum(column) for column in zip(*expected)]
        assert metric.sentence_statistics.tolist() == [EXPECTED[0], EXPECTED[2]]


@pytest.mark.parametrize("counted", [True, False])
def test_sample_mask_of_a_batch_that_is_one_item(counted: bool) -> None:
    metric = CorpusBLEU(max_order=3, keep_sentences=True)
    metric.update(HYPOTHESES, REFERENCES, torch.tensor([counted]))
    assert metric.sentence_statistics.tolist() == (EXPECTED if counted else [])
    assert metric.statistics.any() == counted


def test_tensors_of_all_kinds_of_layout_and_mode() -> None:
    preds, target = pad(HYPOTHESES, 6), pad(FIRST, 7)
    wide = torch.zeros(6, 8, dtype=torch.long)
    wide[:, ::2] = preds.T
    assert counts(wide[:, ::2].T, target, pad_id=0) == EXPECTED_FIRST
    with torch.inference_mode():
        assert counts(preds.clone(), target.clone(), pad_id=0) == EXPECTED_FIRST
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert counts(preds, target, pad_id=0) == EXPECTED_FIRST
    before = preds.clone(), target.clone()
    counts(preds, target, pad_id=0, eos_id=9)
    assert torch.equal(preds, before[0])
    assert torch.equal(target, before[1])


def test_long_lists_are_read_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lightning_bleu.inputs._BLOCK", 3)
    assert counts(HYPOTHESES * 2, REFERENCES * 2) == EXPECTED * 2


def test_nothing() -> None:
    assert counts([], []) == []
    assert counts(torch.zeros(0, 5, dtype=torch.long), torch.zeros(0, 2, 5, dtype=torch.long)) == []
    assert sentence_statistics([], [], Settings.from_options())[1] == Seen()
    assert counts([[]], [[]]) == [[0] * 8]
    assert counts([""], [""]) == [[0] * 8]
    assert counts(torch.zeros(2, 0, dtype=torch.long), torch.zeros(2, 3, dtype=torch.long), pad_id=0) == [[0] * 8] * 2


ids = torch.zeros(2, 5, dtype=torch.long)

ERRORS: list[tuple[Any, Any, type[Exception], str]] = [
    # numbers of sentences
    (["a"], ["a", "b"], ValueError, "same number of sentences, got 1 and 2$"),
    (["a", "b"], [["a", "b"]], ValueError, r"got 2 and 1; .*sacreBLEU's layout.*list\(zip\(\*target\)\)"),
    (ids, ids[:1], ValueError, r"got shapes \(2, 5\) and \(1, 5\)"),
    (["a"], ids, ValueError, r"got shapes \(1,\) and \(2, 5\)"),
    # a sentence by itself
    ("a b", ["a b"], TypeError, r"'preds' must be a list of sentences, got a str: wrap it in a list"),
    (["a b"], "a b", TypeError, r"'target' must be a list of sentences, got a str: wrap it in a list"),
    # references that are missing
    (["a", "b"], [["a"], []], ValueError, "got no reference for sentence 1"),
    (["a", "b"], ["a", None], ValueError, "got a reference that is None \\(leave it out\\) for sentence 1"),
    (["a", "b"], [["a", None], ["b"]], ValueError, "got a reference that is None \\(leave it out\\) for sentence 0"),
    ([[1], [2]], [[[1]], []], ValueError, "got no reference for sentence 1"),
    ([[1], [2]], [[[1], None], [[2]]], ValueError, "got a reference that is None \\(leave it out\\) for sentence 0"),
    (ids, torch.zeros(2, 0, 5, dtype=torch.long), ValueError, r"every sentence needs a reference.*\(2, 0, 5\)"),
    # types of tensors
    (torch.zeros(2, 5), ids, TypeError, r"torch.float32 and shape \(2, 5\): ids must be integers .* logits"),
    (ids.bool(), ids, TypeError, "'preds' is a tensor of torch.bool .*: ids must be integers"),
    (ids, ids.to(torch.complex64), TypeError, "'target' is a tensor of torch.complex64"),
    (ids, torch.zeros(2, 5, 9), TypeError, "only 'preds' may be logits"),
    ([torch.zeros(3)], [torch.zeros(3)], TypeError, "'preds' holds a tensor of torch.float32"),
    (np.array(["a"]), ["a"], TypeError, "use a list for strings"),
    # shapes
    (ids[0], ids, ValueError, r"'preds' must have shape \(sentences, tokens\).*\(5,\)"),
    (ids, ids[0], ValueError, r"'target' must have shape .*got a tensor of torch.int64 and shape \(5,\)"),
    ([ids], [ids], ValueError, r"'preds' must hold tensors of shape \(tokens,\).*\(2, 5\)"),
    # kinds
    (["a"], [[1]], TypeError, "tokens of 'target'|must hold sentences of one kind|strings"),
    (["a", "b"], ids, TypeError, "must be of one kind, got strings and ids"),
    (ids, ["a", "b"], TypeError, "must be of one kind, got ids and strings"),
    ([["a"]], ["a"], TypeError, "must be of one kind, got tokens and strings"),
    ([["a"]], [[1]], TypeError, "must be of one kind, got tokens and ids"),
    ([["a", 1]], [["a"]], TypeError, r"tokens of 'preds' must be all strings or all integers, got \['int', 'str'\]"),
    ([[True]], [[True]], TypeError, "tokens of 'preds' must be all strings or all integers"),
    ([[1.5]], [[1]], TypeError, "tokens of 'preds' must be all strings or all integers"),
    (["a", ["b"]], ["a", "b"], TypeError, "'preds' must hold sentences of one kind"),
    ([None], ["a"], TypeError, "'preds' must hold sentences of one kind .*NoneType"),
    (None, ["a"], TypeError, "'preds' must be a list of strings, .* got NoneType"),
    ({"preds": 1}, ["a"], TypeError, "'preds' must be a list of strings, .* got dict"),
    (["a"], {"a"}, TypeError, "'target' must be a list of strings, .* got set"),
    ([1, 2], [1, 2], TypeError, "'preds' must hold sentences of one kind .*int"),
    ([[2**70]], [[1]], ValueError, "ids must fit in 64 bits"),
]


@pytest.mark.parametrize(("preds", "target", "error", "message"), ERRORS)
def test_errors_say_what_to_do_and_leave_the_state_alone(
    preds: Any, target: Any, error: type[Exception], message: str
) -> None:
    metric = CorpusBLEU()
    metric.update(["a b c d e"], ["a b c d f"])
    before = metric.statistics.clone()
    signature = metric.signature
    for call in (metric.update, metric.forward):
        with pytest.raises(error, match=message):
            call(preds, target)
        assert torch.equal(metric.statistics, before)
        assert metric.update_count == 1
        assert metric.signature == signature


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        (torch.tensor([1, 0]), TypeError, "'sample_mask' must hold booleans, got torch.int64"),
        (torch.tensor([True] * 3), ValueError, r"'sample_mask' must have shape \(2,\).*got \(3,\)"),
    ],
)
def test_sample_mask_errors(mask: Tensor, error: type[Exception], message: str) -> None:
    metric = CorpusBLEU()
    with pytest.raises(error, match=message):
        metric.update(["a", "b"], ["a", "b"], mask)
    assert not metric.statistics.any()


def test_nothing_is_looked_at_on_an_accelerator() -> None:
    """Tensors without data stand in for it: whatever had to look at a value would fail."""
    metric = CorpusBLEU(pad_id=0, eos_id=2, bos_id=1, unk_id=3, keep_sentences=True).to("meta")
    preds = torch.zeros(4, 7, dtype=torch.int32, device="meta")
    for target in (torch.zeros(4, 9, device="meta").long(), torch.zeros(4, 3, 5, device="meta").long()):
        metric.update(preds, target, torch.ones(4, dtype=torch.bool, device="meta"))
        assert metric.batch_statistics is not None
        assert metric.batch_statistics.shape == (4, 10)
        metric.update(preds[:0], [])
        assert {metric.statistics.device.type, *(rows.device.type for rows in metric.sentences)} == {"meta"}


def test_the_texts_of_hypotheses_without_a_token() -> None:
    settings = Settings.from_options()
    assert inputs.sentence_texts([[], []], [[1, 2], [3]], settings) == [("", ["1 2"]), ("", ["3"])]
    assert inputs.sentence_texts([[], []], [["a", "b"], ["c"]], settings) == [("", ["a b"]), ("", ["c"])]
    assert inputs.sentence_texts([[5], [6]], [[], []], settings) == [("5", [""]), ("6", [""])]


@st.composite
def batches_of_ids(draw: st.DrawFn) -> tuple[Any, Any]:
    def ids(*shape: int) -> Tensor:
        size = math.prod(shape)
        return torch.tensor(draw(st.lists(st.integers(0, 7), min_size=size, max_size=size))).reshape(shape).long()

    sentences, references = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    widths = st.integers(0, 7)
    preds: Any = ids(sentences, draw(widths))
    target: Any = ids(sentences, references, draw(widths))
    if draw(st.booleans()):
        preds = [ids(draw(widths)) for _ in range(sentences)]
    if draw(st.booleans()):
        target = [[ids(draw(widths)) for _ in range(draw(st.integers(1, 3)))] for _ in range(sentences)]
    return preds, target


def tokens_of(ids: list[int], pad_id: int | None, bos_id: int | None, eos_id: int | None, ignore_ids: Any) -> list[int]:
    """What counts, word for word as the arguments are described."""
    tokens: list[int] = []
    for id_ in ids:
        ends = id_ == eos_id and (tokens or eos_id not in (bos_id, pad_id))
        if ends:
            break
        if id_ not in (pad_id, bos_id, *ignore_ids):
            tokens.append(id_)
    return tokens


@pytest.mark.parametrize("kind", KINDS)
@given(
    batches_of_ids(),
    st.sampled_from([None, 0, 5]),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, 0, 2]),
    st.sampled_from([(), (-100,), (4, 7)]),
)
@settings(max_examples=200)
def test_ids_are_cleaned_as_described(
    kind: Any, batch: tuple[Any, Any], pad_id: int | None, bos_id: int | None, eos_id: int | None, ignore_ids: Any
) -> None:
    preds, target = batch
    options: dict[str, Any] = {"pad_id": pad_id, "bos_id": bos_id, "eos_id": eos_id, "ignore_ids": ignore_ids}
    expected = []
    for hypothesis, group in zip(preds, target):
        hypothesis, *references = (tokens_of(ids.tolist(), **options) for ids in (hypothesis, *group))
        if isinstance(target, Tensor) and any(references):
            references = [reference for reference in references if reference]
        expected.append(statistics(hypothesis, references, 3))
    with kind():
        assert counts(preds, target, **options) == expected


@given(
    batches_of_ids(),
    st.fixed_dictionaries(
        {"convention": st.sampled_from(["papineni", "allennlp", "gnmt", "nltk", "torchmetrics"])},
        optional={
            "pad_id": st.just(0),
            "eos_id": st.integers(0, 2),
            "unk_id": st.just(3),
            "max_order": st.sampled_from([1, 2, 9]),
        },
    ),
)
@settings(max_examples=300)
def test_torch_counts_what_numpy_counts(batch: tuple[Any, Any], options: dict[str, Any]) -> None:
    expected, _ = sentence_statistics(*batch, Settings.from_options(**options))
    with torch_for_the_cpu():
        counted, _ = sentence_statistics(*batch, Settings.from_options(**options))
    assert torch.equal(counted, expected)


@pytest.mark.gpu
@pytest.mark.parametrize("references", [1, 4])
def test_cuda_statistics_are_those_of_the_cpu_and_never_wait(references: int) -> None:
    torch.manual_seed(0)
    convention = Settings.from_options(pad_id=0, eos_id=2, bos_id=1, unk_id=3)
    preds, target = torch.randint(0, 30, (64, 50)), torch.randint(0, 30, (64, references, 60))
    logits = torch.randn(64, 50, 30)
    on_device = preds.cuda(), target.cuda(), logits.cuda()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        ours, _ = sentence_statistics(on_device[0], on_device[1], convention)
        ours_logits, _ = sentence_statistics(on_device[2], on_device[1], convention)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(ours.cpu(), sentence_statistics(preds, target, convention)[0])
    assert torch.equal(ours_logits.cpu(), sentence_statistics(logits, target, convention)[0])
