"""From the sentences of a call to the text or the ids that are counted. All forms of ids: tests/fuzz/id_forms.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from lightning_bleu import corpus_bleu, sentence_bleu
from lightning_bleu.bleu import BLEUSettings
from lightning_bleu.core.batch import InputCounts, read_batch, read_sources
from lightning_bleu.core.settings import Settings
from lightning_bleu.evaluation.input.outputs import Output, ReadOutput, read_output
from tests.helpers.counting import FIRST_REFERENCES, HYPOTHESES, REFERENCES, Ids, count, pad

Convert = Callable[[Ids], Any]


def as_tensor(ids: Ids) -> Tensor:
    return torch.tensor(ids, dtype=torch.long)


def convert(form: Convert) -> tuple[list[Any], list[list[Any]]]:
    """The hypotheses and their references in another form."""
    return [form(ids) for ids in HYPOTHESES], [[form(ids) for ids in group] for group in REFERENCES]


PADDED = pad(HYPOTHESES, 6)
PADDED_REFERENCES = torch.stack([pad(group, 8) for group in REFERENCES])
PADDED_FIRST = pad(FIRST_REFERENCES, 7)


def test_an_empty_batch_has_no_statistics() -> None:
    ids = torch.zeros(0, 5, dtype=torch.long)
    for preds, target in (([], []), (ids, ids), (ids, torch.zeros(0, 2, 5, dtype=torch.long)), (ids, []), ([], ids)):
        assert count(preds, target) == []
        assert read_batch(preds, target, BLEUSettings.from_options()).input_counts == InputCounts()


def test_empty_sentences_count_as_zeros() -> None:
    assert count([[]], [[]]) == [[0] * 8]
    assert count([""], [""]) == [[0] * 8]
    preds, target = torch.zeros(2, 0, dtype=torch.long), torch.zeros(2, 3, dtype=torch.long)
    assert count(preds, target, pad_id=0) == [[0] * 8] * 2


# Texts


def texts(preds: Any, target: Any, **options: Any) -> list[tuple[str, list[str]]]:
    return read_batch(preds, target, BLEUSettings.from_options(**options)).texts()


def test_texts_are_what_a_person_reads() -> None:
    assert texts(["A b", "c"], [["A  d", "e"], ["f"]], lowercase=True)[0] == ("A b", ["A  d", "e"])
    assert texts([["a", "b"], ["c"]], [[["d"]], [["e", "f"], ["g"]]])[1] == ("c", ["e f", "g"])
    ids, references = pad([[5, 6], [7]], 3), torch.tensor([[[5, 0], [0, 0]], [[8, 9], [7, 0]]])
    assert texts(ids, references, pad_id=0) == [("5 6", ["5"]), ("7", ["8 9", "7"])]
    ended = torch.tensor([[7, 0, 5, 2, 8]]), torch.tensor([[7, 2, 9]])
    assert texts(*ended, pad_id=0, eos_id=2) == [("7 5", ["7"])]
    decoded = texts(ids, references, pad_id=0, decoder=lambda rows: [f"<{row}>" for row in rows])
    assert decoded == [("<[5, 6]>", ["<[5]>"]), ("<[7]>", ["<[8, 9]>", "<[7]>"])]


def test_hypotheses_and_references_without_a_token_have_empty_texts() -> None:
    assert texts([[], []], [[1, 2], [3]]) == [("", ["1 2"]), ("", ["3"])]
    assert texts([[], []], [["a", "b"], ["c"]]) == [("", ["a b"]), ("", ["c"])]
    assert texts([[5], [6]], [[], []]) == [("5", [""]), ("6", [""])]
    # In a tensor of references, empty rows are dropped, but never those of the hypotheses.
    assert texts(torch.tensor([[0, 0]]), torch.tensor([[[5, 6], [7, 0]]]), pad_id=0) == [("", ["5 6", "7"])]


# Devices


@pytest.mark.parametrize(
    ("preds", "target"),
    [
        (["a b c d e"], ["a b c d f"]),
        (PADDED, REFERENCES),
        (PADDED.numpy(), PADDED_FIRST.numpy()),
        convert(as_tensor),
        (torch.nn.functional.one_hot(PADDED).float(), PADDED_REFERENCES),
    ],
)
def test_the_default_device_makes_no_difference(preds: Any, target: Any) -> None:
    """As in ``with torch.device("cuda")``, under which models are often made."""

    def read() -> list[Any]:
        options: dict[str, Any] = {"pad_id": 0, "eos_id": 2, "unk_id": 3, "smoothing": "exp"}
        settings = BLEUSettings.from_options(**options)
        sources = read_sources(preds, len(preds), settings).lines()
        report, scores = corpus_bleu(preds, target, **options), sentence_bleu(preds, target, **options)
        return [report, scores.tolist(), texts(preds, target, **options), sources]

    expected = read()
    with torch.device("meta"):
        assert read() == expected


class Elsewhere(torch.Tensor):
    """Ids that say that they are on an accelerator; see tests/test_gpu.py for real ones."""

    device = torch.device("cuda", 1)


def test_a_batch_has_the_device_of_the_side_that_is_not_on_the_cpu() -> None:
    there: Any = PADDED.as_subclass(Elsewhere)
    settings = BLEUSettings.from_options(decoder=lambda ids: ["x"] * len(ids))
    for preds, target in ((there, there), (PADDED, there), (there, PADDED), (there, ["x"] * len(PADDED))):
        assert read_batch(preds, target, settings).device == Elsewhere.device


# What a step returned


def read(**fields: Any) -> ReadOutput:
    """Five sentences, with other fields."""
    lines = [*"abcde"]
    return read_output(Output(**{"preds": lines, "target": [f"{line} x" for line in lines]} | fields), Settings())


def test_everything_that_a_step_returned_is_read_and_selected_together() -> None:
    fields = {"source": [*"ABCDE"], "index": [9, 8, 7, 6, 5], "group": ["de", "fr", "de", "zh", "fr"], "id": [*"vwxyz"]}
    everything = read(**fields)
    assert everything.mask is None
    assert everything.batch.positions is not None
    assert everything.batch.positions.tolist() == fields["index"]
    some = read(**fields, sample_mask=[True, False, False, True, True])
    for output, numbers in ((everything, range(5)), (some, [0, 3, 4])):
        assert output.has_sentences
        selected = output.select()
        batch, sources = selected.batch, selected.sources
        assert batch.texts() == [(line, [f"{line} x"]) for line in map("abcde".__getitem__, numbers)]
        assert batch.positions is not None
        assert batch.positions.tolist() == [9 - number for number in numbers]
        assert sources is not None
        assert sources.lines() == ["ABCDE"[number] for number in numbers]
        assert selected.groups == [fields["group"][number] for number in numbers]
        assert selected.ids == [fields["id"][number] for number in numbers]
        assert [sentence.id for sentence in selected.to_sentences()] == selected.ids
        # Nothing is selected yet.
        assert output.batch.sentence_count == len(output.groups or ()) == 5


def test_what_a_step_did_not_return_is_none() -> None:
    for output in (read(), read(sample_mask=[True] * 5)):
        selected = output.select()
        assert (selected.sources, selected.groups, selected.ids, selected.batch.positions) == (None,) * 4
        assert {(one.source, one.group, one.id) for one in selected.to_sentences()} == {(None, None, None)}
    assert not read(preds=[], target=[]).has_sentences
    assert not read(sample_mask=[False] * 5).has_sentences
    assert read(sample_mask=[False, True, False, False, False]).has_sentences


@pytest.mark.parametrize(
    ("mask", "labels", "expected"),
    [
        (None, ["de"], "ac"),
        (None, ["de", "fr"], "abce"),
        (None, ["other"], ""),
        (None, [], ""),
        ([True, True, False, True, False], ["de", "fr"], "ab"),
        ([False], ["de"], ""),  # of a batch that is one item
        ([True], ["de"], "ac"),
    ],
)
def test_the_sentences_of_other_groups_are_dropped_like_masked_ones(mask: Any, labels: Any, expected: str) -> None:
    groups = ["de", "fr", "de", "zh", "fr"]
    for chosen in (labels, {*labels}, dict.fromkeys(labels)):
        output = read(group=groups, sample_mask=mask).keep_groups(chosen)
        assert [sentence.hypothesis for sentence in output.select().to_sentences()] == [*expected]
        assert output.select().groups == [groups["abcde".index(line)] for line in expected]
        assert output.has_sentences == bool(expected)
    assert not read().keep_groups(["de"]).has_sentences  # without labels
