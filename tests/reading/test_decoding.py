"""Ids → text, and source sentences, which are shown but not counted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas  # type: ignore[import-untyped]
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightning_bleu.reading.decoding import Sources, decode
from lightning_bleu.settings.special_ids import SpecialIds
from tests.helpers.counting import pad, remove_special_ids

NO_SPECIAL_IDS = SpecialIds(ignore_ids=())
IDS = [[7, 8, 9], [5]]


def spell(rows: list[list[int]]) -> list[str]:
    """Ids as letters: 1 → "b". The last one, "j", stands for -1 too."""
    return ["".join("abcdefghij"[id_] for id_ in row) for row in rows]


class Recorder:
    """A decoder that records what it is called with."""

    def __init__(self) -> None:
        self.calls: list[list[list[int]]] = []

    def __call__(self, rows: list[list[int]]) -> list[str]:
        self.calls.append(rows)
        return spell(rows)


def read(sources: Any, special_ids: SpecialIds = NO_SPECIAL_IDS, decoder: Any = None) -> list[str]:
    """The text of sources, as many as there are."""
    return Sources(sources, len(sources)).lines(special_ids, decoder)


# Decoding


class HuggingFace:
    """Like a tokenizer of Hugging Face: it is callable too, but encodes then."""

    def __call__(self, text: str) -> list[int]:
        raise AssertionError("called")

    def batch_decode(self, sequences: list[list[int]], *, skip_special_tokens: bool = False) -> list[str]:
        return [f"{line}{'' if skip_special_tokens else '</s>'}" for line in spell(sequences)]


@pytest.mark.parametrize(
    "decoder",
    [
        spell,
        HuggingFace(),
        HuggingFace().batch_decode,
        lambda rows: tuple(spell(rows)),
        lambda rows: iter(spell(rows)),
        lambda rows: np.array(spell(rows)),
    ],
)
def test_a_decoder_may_be_a_tokenizer_or_its_method_or_any_callable(decoder: Any) -> None:
    assert decode([[1, 2], [], [0]], decoder) == ["bc", "", "a"]


@pytest.mark.parametrize(
    "decoder",
    [lambda rows: ["a"], lambda rows: ["a"] * 3, lambda rows: "ab" * 3, lambda rows: rows, lambda rows: [None, "a"]],
)
def test_a_decoder_must_return_one_string_per_list(decoder: Any) -> None:
    with pytest.raises(TypeError, match="'decoder' must return one string for each list of ids"):
        decode([[1], [2]], decoder)
    with pytest.raises(TypeError, match="'decoder' must return one string for each list of ids"):
        read([[1], [2]], decoder=decoder)


# Forms of sources


@pytest.mark.parametrize(
    "sources",
    [
        ["a b", "ä"],
        ("a b", "ä"),
        deque(["a b", "ä"]),
        np.array(["a b", "ä"]),
        np.array(["a b", "ä"], object),
        pandas.Series(["a b", "ä"]),
        {"a b": 1, "ä": 2}.keys(),
        [["a", "b"], ["ä"]],
        [("a", "b"), ("ä",)],
        [iter(["a", "b"]), np.array(["ä"])],
    ],
)
def test_strings_stay_and_tokens_are_joined(sources: Any) -> None:
    recorder = Recorder()
    assert read(sources, decoder=recorder) == ["a b", "ä"]
    assert recorder.calls == []


def test_a_generator_is_read_once() -> None:
    assert Sources((line for line in ["a", "b"]), 2).lines(NO_SPECIAL_IDS, None) == ["a", "b"]
    sources: Any = (iter(ids) for ids in IDS)
    assert Sources(sources, 2).lines(NO_SPECIAL_IDS, None) == ["7 8 9", "5"]


_backwards = np.array([[9, 8, 7], [0, 0, 5]])[:, ::-1]
_read_only = np.array([[7, 8, 9], [5, 0, 0]])
_read_only.flags.writeable = False
PADDED: list[Any] = [
    *(pad(IDS, 3).to(dtype) for dtype in (torch.int8, torch.int16, torch.int32, torch.int64)),
    *(pad(IDS, 3).to(dtype) for dtype in (torch.uint8, torch.uint16, torch.uint32, torch.uint64)),
    *(pad(IDS, 3).numpy().astype(dtype) for dtype in ("int8", "int32", "int64", "uint64", ">i4", "<i2")),
    pad(IDS, 3).T.contiguous().T,  # not contiguous
    torch.stack([pad(IDS, 3), pad(IDS, 3)], -1)[..., 0],
    np.asfortranarray(pad(IDS, 3).numpy()),
    _backwards,
    _read_only,
    [[7, 8, 9], [5, 0, 0]],
    [np.array([7, 8, 9]), np.array([5, 0, 0])],
    [torch.tensor([7, 8, 9]), torch.tensor([5, 0])],
]


@pytest.mark.parametrize("sources", PADDED)
def test_padded_ids_of_any_kind_are_read(sources: Any) -> None:
    assert read(sources, SpecialIds(pad_id=0)) == ["7 8 9", "5"]


@pytest.mark.parametrize(
    "sources",
    [
        IDS,
        tuple(map(tuple, IDS)),
        [*map(deque, IDS)],
        [range(7, 10), range(5, 6)],
        [*map(torch.tensor, IDS)],
        [*map(np.array, IDS)],
        [torch.tensor(IDS[0], dtype=torch.int32), np.array(IDS[1], np.uint8)],
        [[*map(np.int64, row)] for row in IDS],
        [np.array([9, 8, 7])[::-1], np.array([5])],
    ],
)
def test_ids_of_different_lengths_are_read(sources: Any) -> None:
    assert read(sources) == ["7 8 9", "5"]


def test_logits_are_read_as_their_most_likely_ids() -> None:
    logits = torch.nn.functional.one_hot(pad(IDS, 3))
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        assert read(logits.to(dtype), SpecialIds(pad_id=0)) == ["7 8 9", "5"]
    assert read(logits.numpy().astype("float32"), SpecialIds(pad_id=0)) == ["7 8 9", "5"]


def test_sources_may_be_empty() -> None:
    decoder: Any = Recorder()
    assert read(["", "a"]) == ["", "a"]
    assert read([[], ["a"]]) == ["", "a"]
    assert read([[], [5]], decoder=decoder) == ["", "f"]
    assert read([[], []], decoder=decoder) == ["", ""]
    assert read(torch.zeros(2, 3).long(), SpecialIds(pad_id=0), decoder) == ["", ""]
    assert read(torch.zeros(2, 0).long(), decoder=decoder) == ["", ""]
    assert read([torch.tensor([]).long(), torch.tensor([5])], decoder=decoder) == ["", "f"]


@pytest.mark.parametrize("sources", [[], (), torch.zeros(0, 3).long(), np.zeros((0, 2), int), torch.zeros(0, 3, 4)])
def test_there_may_be_no_sources(sources: Any) -> None:
    assert read(sources) == []
    assert read(sources, decoder=spell) == []


# Special ids


def test_special_ids_are_not_shown() -> None:
    special_ids = SpecialIds(pad_id=0, bos_id=1, eos_id=2, unk_id=3)
    ids = [[1, 7, 0, 3, -100, 8, 2, 9, 2, 0], [2, 5, 5, 5, 5, 5, 5, 5, 5, 5]]
    for sources in (ids, torch.tensor(ids), [*map(torch.tensor, ids)]):
        assert read(sources, special_ids) == ["7 3 8", ""]
        assert read(sources, special_ids, spell) == ["hdi", ""]


def test_ignored_ids_are_not_shown_even_by_default() -> None:
    assert read([[5, -100, 6]], SpecialIds()) == ["5 6"]
    assert read([[5, -100, 6]], SpecialIds(ignore_ids=(5, 6))) == ["-100"]
    assert read([[5, -100, 6]], NO_SPECIAL_IDS) == ["5 -100 6"]


def test_an_end_that_also_begins_does_not_end_before_the_first_token() -> None:
    assert read([[2, 2, 5, 6, 2, 7]], SpecialIds(bos_id=2, eos_id=2)) == ["5 6"]


def test_a_removed_id_does_not_split_a_source_even_if_no_ngram_spans_it() -> None:
    assert read([[5, 0, 6], [0, 7]], SpecialIds(pad_id=0, break_ngrams=True)) == ["5 6", "7"]


@given(
    rows=st.lists(st.lists(st.integers(-1, 7), max_size=6), min_size=1, max_size=4),
    pad_id=st.sampled_from([None, 0, 5]),
    bos_id=st.sampled_from([None, 1, 2]),
    eos_id=st.sampled_from([None, 0, 2]),
    ignore_ids=st.sampled_from([(), (-1,), (4, 7)]),
)
def test_sources_are_cleaned_as_hypotheses_are(
    rows: list[list[int]], pad_id: int | None, bos_id: int | None, eos_id: int | None, ignore_ids: tuple[int, ...]
) -> None:
    options: dict[str, Any] = {"pad_id": pad_id, "bos_id": bos_id, "eos_id": eos_id, "ignore_ids": ignore_ids}
    expected = [remove_special_ids(row, **options) for row in rows]
    recorder = Recorder()
    for sources in (rows, [torch.tensor(row).long() for row in rows]):
        assert read(sources, SpecialIds(**options)) == [" ".join(map(str, row)) for row in expected]
        assert read(sources, SpecialIds(**options), recorder) == spell(expected)
    assert recorder.calls == [expected, expected]


# When ids are decoded


@pytest.mark.parametrize("sources", [IDS, [*map(torch.tensor, IDS)], pad(IDS, 3), pad(IDS, 3).numpy()])
def test_ids_are_decoded_only_when_they_are_shown(sources: Any) -> None:
    recorder, special_ids = Recorder(), SpecialIds(pad_id=0)
    kept = Sources(sources, 2)
    assert recorder.calls == []
    assert kept.lines(special_ids, recorder) == ["hij", "f"]
    assert recorder.calls == [IDS]
    # The same sources can be shown again, and in another way.
    assert kept.lines(special_ids, None) == ["7 8 9", "5"]
    assert kept.lines(SpecialIds(pad_id=0, eos_id=8), recorder) == ["h", "f"]


def test_nothing_waits_for_ids_on_an_accelerator_until_they_are_shown() -> None:
    """Tensors without data stand in for those on an accelerator: any operation that needs a value fails."""
    on_device = torch.zeros(2, 3, dtype=torch.long, device="meta")
    sources: list[Any] = [on_device, list(on_device), on_device.to(torch.int32), torch.zeros(2, 3, 9, device="meta")]
    for ids in sources:
        kept = Sources(ids, 2)
        with pytest.raises(NotImplementedError, match="meta"):
            kept.lines(NO_SPECIAL_IDS, None)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("make", [lambda ids: ids, list, lambda ids: torch.nn.functional.one_hot(ids).float()])
def test_sources_on_cuda_are_copied_there_without_waiting(make: Callable[[torch.Tensor], Any]) -> None:
    ids = pad(IDS, 3).cuda()
    sources = make(ids)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        kept = Sources(sources, 2)
        ids.fill_(1)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert kept.lines(SpecialIds(pad_id=0), None) == ["7 8 9", "5"]


# Copies


def overwrite(value: Any) -> None:
    """Overwrite everything that can be overwritten."""
    if isinstance(value, torch.Tensor | np.ndarray):
        value[...] = value.flatten()[0]
    elif isinstance(value, list):
        for item in value:
            overwrite(item)
        value[:] = [item if isinstance(item, list | torch.Tensor | np.ndarray) else value[0] for item in value][:1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: ["a b", "c"],
        lambda: [["a", "b"], ["c"]],
        lambda: [[7, 8, 9], [5]],
        lambda: [torch.tensor([7, 8, 9]), torch.tensor([5, 6])],
        lambda: [np.array([7, 8, 9]), np.array([5, 6])],
        lambda: pad(IDS, 3),
        lambda: pad(IDS, 3).numpy(),
        lambda: pad(IDS, 3).to(torch.int32),
        lambda: pad(IDS, 3).to(torch.int32).numpy(),
        lambda: torch.nn.functional.one_hot(pad(IDS, 3)).float(),
    ],
    ids=["strings", "tokens", "lists", "tensors", "arrays", "tensor", "array", "int32", "int32 array", "logits"],
)
def test_sources_do_not_change_with_what_was_passed_in(make: Callable[[], Any]) -> None:
    """A training step may fill the same buffers again before anyone looks at the samples."""
    sources = make()
    kept = Sources(sources, 2)
    overwrite(sources)
    assert kept.lines(NO_SPECIAL_IDS, None) == read(make())


# Errors


@pytest.mark.parametrize(
    ("sources", "sentences", "found"),
    [
        (["a"], 2, 1),
        (["a", "b", "c"], 2, 3),
        ([], 1, 0),
        ([[1, 2]], 2, 1),
        (torch.zeros(3, 2).long(), 2, 3),
        (torch.zeros(2, 5, 7), 5, 2),
        ([torch.zeros(4).long()], 4, 1),
    ],
)
def test_there_must_be_a_source_for_each_hypothesis(sources: Any, sentences: int, found: int) -> None:
    message = f"'source' and 'preds' must have the same number of sentences, got {found} and {sentences}"
    with pytest.raises(ValueError, match=f"^{message}$"):
        Sources(sources, sentences)


@pytest.mark.parametrize(
    ("sources", "error", "message"),
    [
        ("ab", TypeError, "'source' must be a list of sentences, got a str: wrap it in a list, ['ab']"),
        (5, TypeError, "'source' must be a list of strings, lists of tokens, or tensors of ids, or a single tensor"),
        (b"ab", TypeError, "'source' must be a list of strings"),
        ({"a", "b"}, TypeError, "'source' must be a list of strings"),
        ({"a": 1, "b": 2}, TypeError, "'source' must be a list of strings"),
        (pandas.DataFrame({"a": [1, 2]}), TypeError, "'source' must be a list of strings"),
        ([None, None], TypeError, "'source' must hold sentences of one kind"),
        ([5, 6], TypeError, "'source' must hold sentences of one kind"),
        (["a", ["b"]], TypeError, "'source' must hold sentences of one kind"),
        ([["a"], [5]], TypeError, "tokens of 'source' must be all strings or all integers, got ['int', 'str']"),
        ([[True], [False]], TypeError, "tokens of 'source' must be all strings or all integers, got ['bool']"),
        ([[0.5], [1.5]], TypeError, "tokens of 'source' must be all strings or all integers, got ['float']"),
        ([torch.zeros(2, 2).long()] * 2, ValueError, "'source' must hold tensors of shape (tokens,)"),
        ([torch.zeros(2)] * 2, TypeError, "'source' holds a tensor of torch.float32"),
        (torch.zeros(2), TypeError, "'source' is a tensor of torch.float32 and shape (2,): ids must be integers"),
        (torch.zeros(2).long(), ValueError, "'source' must have shape (sentences, tokens) as ids"),
        (torch.zeros(2, 3, 4).long(), ValueError, "'source' must have shape (sentences, tokens) as ids"),
        (torch.zeros(2, 3), TypeError, "'source' is a tensor of torch.float32 and shape (2, 3): ids must be integers"),
        (torch.zeros(2, 3, 0), ValueError, "logits need a vocabulary of at least one token"),
        (torch.zeros(2, 3).bool(), TypeError, "'source' is a tensor of torch.bool"),
        (torch.zeros(2, 3).to(torch.complex64), TypeError, "'source' is a tensor of torch.complex64"),
        (torch.zeros(2, 3).long().to_sparse(), TypeError, "'source' is a sparse tensor"),
        (np.zeros((2, 3), "M8[s]"), TypeError, "'source' must hold integers, got an array of datetime64[s]"),
    ],
)
def test_an_error_names_the_argument(sources: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        Sources(sources, 2)
    assert message in str(raised.value)
