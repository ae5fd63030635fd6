"""Reading: from sentences in any form to the tokens that are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lightning_bleu import CorpusBLEU, corpus_bleu, sentence_bleu
from lightning_bleu.counting import ngrams
from lightning_bleu.counting.devices import CPU
from lightning_bleu.counting.padded import Padded
from lightning_bleu.functional import sentence_statistics
from lightning_bleu.reading.batch import Batch, read_batch, read_padded
from lightning_bleu.reading.ragged import RaggedBatch
from lightning_bleu.reading.recognize import recognize
from lightning_bleu.scoring.signature import InputCounts
from lightning_bleu.settings.settings import Settings
from tests.helpers.counting import (
    BOTH_WAYS,
    EXPECTED,
    EXPECTED_FIRST,
    FIRST_REFERENCES,
    HYPOTHESES,
    REFERENCES,
    Count,
    Ids,
    as_text,
    as_words,
    count_padded,
    count_ragged,
    id_batches,
    pad,
    remove_special_ids,
)
from tests.reference import statistics

Form = Callable[[Ids], Any]


def read_padded_batch(preds: Any, target: Any, settings_: Settings) -> Batch:
    """Read ids as on an accelerator."""
    kind, hypotheses, references, counts = recognize(preds, target)
    return Batch(read_padded(hypotheses, references, counts, settings_.special_ids, CPU), kind, counts)


def count(preds: Any, target: Any, way: Count = count_ragged, **options: Any) -> list[list[int]]:
    rows: list[list[int]] = way(preds, target, Settings.from_options(**{"max_order": 3} | options)).tolist()
    return rows


def as_tensor(ids: Ids) -> Tensor:
    return torch.tensor(ids, dtype=torch.long)


def convert(form: Form) -> tuple[list[Any], list[list[Any]]]:
    """The hypotheses and their references in another form."""
    return [form(ids) for ids in HYPOTHESES], [[form(ids) for ids in group] for group in REFERENCES]


def convert_first(form: Form) -> tuple[list[Any], list[Any]]:
    """The hypotheses and their first references in another form."""
    return [form(ids) for ids in HYPOTHESES], [form(ids) for ids in FIRST_REFERENCES]


REFERENCE_TENSOR = torch.stack([pad(group, 8) for group in REFERENCES])

SEVERAL_REFERENCES: list[tuple[Any, Any, dict[str, Any]]] = [
    (*convert(list), {}),
    (*convert(tuple), {}),
    (*convert(as_tensor), {}),
    (convert(as_tensor)[0], REFERENCES, {}),
    (HYPOTHESES, [pad(group, 8) for group in REFERENCES], {"pad_id": 0}),
    (pad(HYPOTHESES, 6), REFERENCE_TENSOR, {"pad_id": 0}),
    (pad(HYPOTHESES, 6).numpy(), REFERENCE_TENSOR.numpy(), {"pad_id": 0}),
    (pad(HYPOTHESES, 6), REFERENCES, {"pad_id": 0}),
    (HYPOTHESES, REFERENCE_TENSOR, {"pad_id": 0}),
    (pad(HYPOTHESES, 6, -100), REFERENCE_TENSOR, {"pad_id": 0}),
]
ONE_REFERENCE: list[tuple[Any, Any, dict[str, Any]]] = [
    (*convert_first(list), {}),
    (*convert_first(as_tensor), {}),
    (pad(HYPOTHESES, 6), pad(FIRST_REFERENCES, 7), {"pad_id": 0}),
    (pad(HYPOTHESES, 6), pad(FIRST_REFERENCES, 7)[:, None], {"pad_id": 0}),
    (pad(HYPOTHESES, 6, left=3), pad(FIRST_REFERENCES, 7), {"pad_id": 0}),
    (pad(HYPOTHESES, 6), convert_first(as_tensor)[1], {"pad_id": 0}),
    (pad(HYPOTHESES, 6).numpy(), FIRST_REFERENCES, {"pad_id": 0}),
]
both_ways = pytest.mark.parametrize("way", BOTH_WAYS)


@both_ways
@pytest.mark.parametrize(("preds", "target", "options"), SEVERAL_REFERENCES)
def test_ids_with_several_references_count_the_same_in_every_form(
    preds: Any, target: Any, options: dict[str, Any], way: Count
) -> None:
    assert count(preds, target, way, **options) == EXPECTED


@both_ways
@pytest.mark.parametrize(("preds", "target", "options"), ONE_REFERENCE)
def test_ids_with_one_reference_count_the_same_in_every_form(
    preds: Any, target: Any, options: dict[str, Any], way: Count
) -> None:
    assert count(preds, target, way, **options) == EXPECTED_FIRST


@pytest.mark.parametrize("form", [as_text, as_words])
def test_text_and_tokens_count_as_ids_do(form: Form) -> None:
    preds, target = convert(form)
    assert count(preds, target, tokenizer="none") == EXPECTED
    assert count(tuple(preds), [tuple(group) for group in target], tokenizer="none") == EXPECTED
    assert count(iter(preds), iter(target), tokenizer="none") == EXPECTED
    assert count(*convert_first(form), tokenizer="none") == EXPECTED_FIRST


def test_many_sentences_count_as_few_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ngrams, "_MAX_HYPOTHESIS_TOKENS", 3)
    assert count(HYPOTHESES * 2, REFERENCES * 2) == EXPECTED * 2


@both_ways
def test_special_ids_are_not_tokens(way: Count) -> None:
    padding, bos, eos = 0, 1, 2
    hypotheses = [[bos, 5, padding, 6, -100, 7, 8, bos, 9, eos, 5, 5], [5, 6, eos], [eos, 5, 6], [padding, 9, 9, 9, 8]]
    ids, first = pad(hypotheses, 13), pad(FIRST_REFERENCES, 7)
    assert count(ids, first, way, pad_id=padding, bos_id=bos, eos_id=eos) == EXPECTED_FIRST
    assert count(hypotheses, FIRST_REFERENCES, way, pad_id=padding, bos_id=bos, eos_id=eos) == EXPECTED_FIRST
    assert count(ids, first, way, pad_id=1, ignore_ids=[-100, 0], eos_id=eos) == EXPECTED_FIRST
    assert count([[3, -100]], [[3]], way)[0][-2:] == [1, 1]
    assert count([[3, -100]], [[3]], way, ignore_ids=())[0][-2:] == [2, 1]
    assert count([[3, 4]], [[3]], way, ignore_ids=4)[0][-2:] == [1, 1]


@both_ways
@pytest.mark.parametrize("role", ["bos_id", "pad_id"])
def test_an_end_that_also_begins_or_pads_does_not_end_before_the_first_token(role: str, way: Count) -> None:
    """Decoders that start with the end token, and padding on the left with it."""
    hypotheses = [[2, *HYPOTHESES[0], 2, 5], [2, 2, *HYPOTHESES[1], 2], [2, 2], [*HYPOTHESES[3], 2, 2]]
    assert count(pad(hypotheses, 9, 2), FIRST_REFERENCES, way, eos_id=2, **{role: 2}) == EXPECTED_FIRST


@both_ways
@given(
    batch=id_batches(),
    pad_id=st.sampled_from([None, 0, 5]),
    bos_id=st.sampled_from([None, 1, 2]),
    eos_id=st.sampled_from([None, 0, 2]),
    ignore_ids=st.sampled_from([(), (-100,), (4, 7)]),
)
@settings(max_examples=200)
def test_ids_are_cleaned_as_the_arguments_are_described(
    way: Count,
    batch: tuple[Any, Any],
    pad_id: int | None,
    bos_id: int | None,
    eos_id: int | None,
    ignore_ids: tuple[int, ...],
) -> None:
    preds, target = batch
    options: dict[str, Any] = {"pad_id": pad_id, "bos_id": bos_id, "eos_id": eos_id, "ignore_ids": ignore_ids}
    expected = []
    for hypothesis, group in zip(preds, target):
        hypothesis, *references = (remove_special_ids(ids.tolist(), **options) for ids in (hypothesis, *group))
        if isinstance(target, Tensor) and any(references):
            references = [reference for reference in references if reference]
        expected.append(statistics(hypothesis, references, 3))
    assert count(preds, target, way, **options) == expected


@both_ways
def test_references_without_a_token_are_filler_in_a_tensor(way: Count) -> None:
    target = torch.tensor([[[5, 6, 7], [0, 0, 0]], [[0, 0, 0], [5, 0, 0]], [[0, 0, 0], [0, 0, 0]]])
    assert [row[-1] for row in count(pad([[5], [6, 7, 8], [5]], 3), target, way, pad_id=0)] == [3, 1, 0]
    assert [row[-1] for row in count([[5], [6, 7, 8], [5]], target, way, pad_id=0)] == [3, 1, 0]
    # Lists need no filler, so an empty reference is one.
    assert [row[-1] for row in count([[5]], [[[5, 6, 7], []]], way)] == [0]


@both_ways
def test_an_empty_batch_has_no_statistics(way: Count) -> None:
    assert count([], [], way) == []
    assert count(torch.zeros(0, 5, dtype=torch.long), torch.zeros(0, 2, 5, dtype=torch.long), way) == []
    assert count(torch.zeros(0, 5, dtype=torch.long), [], way) == []
    counted = sentence_statistics([], [], Settings.from_options())
    assert InputCounts.of(counted.batch) == InputCounts()


@both_ways
def test_empty_sentences_count_as_zeros(way: Count) -> None:
    assert count([[]], [[]], way) == [[0] * 8]
    assert count([""], [""]) == [[0] * 8]
    preds, target = torch.zeros(2, 0, dtype=torch.long), torch.zeros(2, 3, dtype=torch.long)
    assert count(preds, target, way, pad_id=0) == [[0] * 8] * 2


# Texts


def test_texts_are_what_a_person_reads() -> None:
    options = Settings.from_options(pad_id=0)
    assert read_batch(["A b", "c"], [["A  d", "e"], ["f"]], options).texts()[0] == ("A b", ["A  d", "e"])
    assert read_batch([["a", "b"], ["c"]], [[["d"]], [["e", "f"], ["g"]]], options).texts()[1] == ("c", ["e f", "g"])
    ids, references = pad([[5, 6], [7]], 3), torch.tensor([[[5, 0], [0, 0]], [[8, 9], [7, 0]]])
    for batch in (read_batch(ids, references, options), read_padded_batch(ids, references, options)):
        assert batch.texts() == [("5 6", ["5"]), ("7", ["8 9", "7"])]
        assert batch.sentence_count == 2
    decoded = read_batch(
        ids, references, Settings.from_options(pad_id=0, decoder=lambda rows: [f"<{r}>" for r in rows])
    )
    assert (decoded.texts()[0], decoded.kind) == (("<[5, 6]>", ["<[5]>"]), "strings")


def test_text_is_kept_as_it_was_before_lowercasing() -> None:
    assert read_batch(["A b"], ["C"], Settings.from_options(lowercase=True)).texts()[0] == ("A b", ["C"])


def test_hypotheses_and_references_without_a_token_have_empty_texts() -> None:
    options = Settings.from_options()

    def texts(preds: Any, target: Any) -> list[tuple[str, list[str]]]:
        return read_batch(preds, target, options).texts()

    assert texts([[], []], [[1, 2], [3]]) == [("", ["1 2"]), ("", ["3"])]
    assert texts([[], []], [["a", "b"], ["c"]]) == [("", ["a b"]), ("", ["c"])]
    assert texts([[5], [6]], [[], []]) == [("5", [""]), ("6", [""])]


@pytest.mark.parametrize("read", [read_batch, read_padded_batch])
def test_a_hypothesis_without_a_token_is_not_mistaken_for_filler(read: Callable[..., Batch]) -> None:
    target = torch.tensor([[[5, 6], [7, 0]]])
    assert read(torch.tensor([[0, 0]]), target, Settings.from_options(pad_id=0)).texts()[0] == ("", ["5 6", "7"])


def zero(value: Any) -> None:
    """Overwrite everything that can be overwritten."""
    if isinstance(value, Tensor | np.ndarray):
        value[...] = 0
    elif isinstance(value, list):
        for item in value:
            zero(item)
        value[:] = [0 if isinstance(item, int) else "z" if isinstance(item, str) else item for item in value]
        del value[-1:]


@pytest.mark.parametrize("read", [read_batch, read_padded_batch])
@pytest.mark.parametrize("ignore_ids", [(), (-100,)])
@pytest.mark.parametrize(
    ("preds", "target"),
    [
        (lambda: pad(HYPOTHESES, 5, 3), lambda: pad(FIRST_REFERENCES, 5, 3)),
        (lambda: pad(HYPOTHESES, 5, 3), lambda: torch.stack([pad(group, 6, 3) for group in REFERENCES])),
        (lambda: pad(HYPOTHESES, 5, 3).numpy(), lambda: pad(FIRST_REFERENCES, 5, 3).numpy()),
        (lambda: [as_tensor(ids) for ids in HYPOTHESES], lambda: [as_tensor(ids) for ids in FIRST_REFERENCES]),
        (lambda: convert(np.array)[0][:2], lambda: convert(np.array)[1][:2]),
        (lambda: [torch.tensor([5, 6])], lambda: [torch.tensor([5, 6])]),
        (lambda: [np.array([5, 6])], lambda: [[np.array([5, 6])]]),
        (lambda: torch.tensor([[5, 6]]), lambda: torch.tensor([[5, 6]])),
        (lambda: [[5, 6]], lambda: [[5, 6]]),
        (lambda: convert(list)[0], lambda: convert(list)[1]),
    ],
)
def test_what_is_counted_is_never_a_view_of_ids_that_were_passed_in(
    preds: Callable[[], Any], target: Callable[[], Any], ignore_ids: tuple[int, ...], read: Callable[..., Batch]
) -> None:
    """A training step may fill the same buffers again before anyone looks at the samples."""
    inputs, options = (preds(), target()), Settings.from_options(ignore_ids=ignore_ids)
    batch = read(*inputs, options)
    texts = batch.texts()
    assert texts == read(preds(), target(), options).texts()
    zero(inputs[0])
    zero(inputs[1])
    assert batch.texts() == texts


@pytest.mark.parametrize("form", [as_text, as_words])
def test_what_is_counted_is_never_a_view_of_text_or_tokens_that_were_passed_in(form: Form) -> None:
    inputs, options = convert(form), Settings.from_options()
    batch = read_batch(*inputs, options)
    texts = batch.texts()
    assert texts[0] == ("w5 w6 w7 w8 w9", ["w5 w6 w7 w9 w8", "w6 w7 w8 w9 w5 w5"])
    zero(inputs[0])
    zero(inputs[1])
    assert batch.texts() == texts


def test_the_texts_of_a_metrics_last_batch_outlive_the_buffers() -> None:
    metric = CorpusBLEU(max_order=2)
    preds = torch.tensor([[5, 6, 7]])
    metric.update(preds, preds)
    preds.fill_(9)
    assert metric.last_batch is not None
    assert metric.last_batch.texts()[0] == ("5 6 7", ["5 6 7"])


# Devices


def test_ids_on_the_cpu_are_read_without_padding_and_others_with_it() -> None:
    options = Settings.from_options(pad_id=0)
    ids = pad(HYPOTHESES, 6)
    assert isinstance(read_batch(ids, ids, options).tokens, RaggedBatch)
    on_device = ids.to("meta")
    for preds, target in (
        (on_device, on_device),
        (ids, on_device),
        (on_device, ids),
        (on_device, REFERENCES),
        (on_device, convert(as_tensor)[1]),
        (HYPOTHESES, on_device),
        (list(on_device), list(on_device)),
        (list(on_device), [[row, row] for row in on_device]),
    ):
        tokens = read_batch(preds, target, options).tokens
        assert isinstance(tokens, Padded)
        assert tokens.ids.device.type == tokens.is_token.device.type == tokens.lengths.device.type == "meta"


def test_an_update_looks_at_no_value_on_an_accelerator() -> None:
    """Tensors without data stand in for those on an accelerator: any operation that needs a value fails."""
    metric = CorpusBLEU(pad_id=0, eos_id=2, bos_id=1, unk_id=3, keep_sentences=True).to("meta")
    preds = torch.zeros(4, 7, dtype=torch.int32, device="meta")
    for target in (torch.zeros(4, 9, device="meta").long(), torch.zeros(4, 3, 5, device="meta").long()):
        metric.update(preds, target, torch.ones(4, dtype=torch.bool, device="meta"))
        assert metric.batch_statistics is not None
        assert metric.batch_statistics.shape == (4, 10)
        metric.update(preds[:0], [])
        assert {metric.statistics.device.type, *(rows.device.type for rows in metric.sentences)} == {"meta"}


@pytest.mark.parametrize(
    ("preds", "target"),
    [
        (["a b c d e"], ["a b c d f"]),
        ([["a", "b"], ["c"]], [["a"], ["c"]]),
        (HYPOTHESES, REFERENCES),
        (pad(HYPOTHESES, 6), pad(FIRST_REFERENCES, 7)),
        (pad(HYPOTHESES, 6), REFERENCES),
        (pad(HYPOTHESES, 6).numpy(), pad(FIRST_REFERENCES, 7).numpy()),
        (*convert(as_tensor),),
        (torch.nn.functional.one_hot(pad(HYPOTHESES, 6)).float(), REFERENCE_TENSOR),
    ],
)
def test_the_default_device_makes_no_difference(preds: Any, target: Any) -> None:
    """As in ``with torch.device("cuda")``, under which models are often made."""
    options: dict[str, Any] = {"pad_id": 0, "eos_id": 2, "unk_id": 3, "smoothing": "exp"}
    expected = corpus_bleu(preds, target, **options)
    expected_sentences = sentence_bleu(preds, target, **options)
    with torch.device("meta"):
        assert corpus_bleu(preds, target, **options) == expected
        assert torch.equal(sentence_bleu(preds, target, **options), expected_sentences)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("references", [1, 4])
def test_cuda_statistics_are_those_of_the_cpu_and_never_wait(references: int) -> None:
    torch.manual_seed(0)
    options = Settings.from_options(pad_id=0, eos_id=2, bos_id=1, unk_id=3)
    preds, target = torch.randint(0, 30, (64, 50)), torch.randint(0, 30, (64, references, 60))
    logits = torch.randn(64, 50, 30)
    on_device = preds.cuda(), target.cuda(), logits.cuda()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        from_ids = count_ragged(on_device[0], on_device[1], options)
        from_logits = count_ragged(on_device[2], on_device[1], options)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(from_ids.cpu(), count_ragged(preds, target, options))
    assert torch.equal(from_logits.cpu(), count_ragged(logits, target, options))
    assert torch.equal(from_ids.cpu(), count_padded(preds, target, options))
