"""What a step may return."""

from __future__ import annotations

from collections import OrderedDict, UserDict
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import torch
from transformers.utils.generic import ModelOutput

from lightning_bleu.evaluation.input.outputs import Output, read_step, suspect_keys
from tests.helpers.lightning import (
    SENTENCES,
    collect_warnings,
    expected_score,
    fit,
    make_callback,
    make_loader,
    make_module,
    make_trainer,
    return_ids,
    validate,
)

PREDS, TARGET, SOURCE, MASK, INDEX = object(), object(), object(), object(), object()


def read(value: Any) -> Output:
    """The fields of an output; all other keys are columns."""
    output = read_step(value, "validation_step", origin="validation_step")
    assert not {*output.columns} & {*Output._fields}
    return output._replace(columns={})


@dataclass
class HuggingFaceOutput(ModelOutput):
    """An ordered dict that leaves out fields that are None."""

    loss: Any = None
    preds: Any = None
    target: Any = None
    source: Any = None
    index: Any = None


class Pair(NamedTuple):
    """Both names are the user's own."""

    hypotheses: Any
    references: Any


@pytest.mark.parametrize(
    "make", [dict, OrderedDict, UserDict, lambda items: MappingProxyType(dict(items)), lambda items: dict(items)]
)
def test_a_mapping_is_read_by_its_keys_in_any_order(make: Any) -> None:
    assert read(make({"preds": PREDS, "target": TARGET}.items())) == Output(PREDS, TARGET)
    assert read(make({"loss": 1.0, "target": TARGET, 5: 6, "preds": PREDS}.items())) == Output(PREDS, TARGET)
    everything = {"index": INDEX, "sample_mask": MASK, "source": SOURCE, "target": TARGET, "preds": PREDS}
    assert read(make(everything.items())) == Output(PREDS, TARGET, SOURCE, MASK, INDEX)
    for name in ("source", "sample_mask", "index"):
        one = {"preds": PREDS, "target": TARGET, name: everything[name]}
        assert read(make(one.items())) == Output(PREDS, TARGET, **{name: everything[name]})  # type: ignore[arg-type]
        assert read(make((one | {name: None}).items())) == Output(PREDS, TARGET)


def test_an_output_of_hugging_face_is_read_by_its_keys() -> None:
    make: Any = HuggingFaceOutput  # has no types
    assert read(make(preds=["a"], target=["b"])) == Output(["a"], ["b"])
    loss = torch.tensor(1.0)
    assert read(make(loss=loss, preds=["a"], target=["b"], index=[7])) == Output(["a"], ["b"], index=[7])


@pytest.mark.parametrize("value", [(PREDS, TARGET), [PREDS, TARGET], Pair(PREDS, TARGET)])
def test_two_values_are_hypotheses_and_references(value: Any) -> None:
    assert read(value) == Output(PREDS, TARGET)


def test_values_are_passed_on_as_they_are() -> None:
    preds = (line for line in ["a"])  # could be read only once
    assert read({"preds": preds, "target": TARGET}).preds is preds
    assert read({"preds": None, "target": None}) == Output(None, None)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, "None (no return statement?)"),
        (torch.tensor(1.0), "a Tensor"),
        ("ab", "a str"),
        ((PREDS,), "a tuple"),
        ((PREDS, TARGET, SOURCE), "a tuple"),
        ((torch.tensor(1.0), {}), "a pair that begins with a loss"),
        ({PREDS, TARGET}, "a set"),
        ({"loss": 1.0, "preds": PREDS}, "the keys ['loss', 'preds']"),
        ({"Preds": PREDS, "target": TARGET, 1: 2}, "the keys ['1', 'Preds', 'target']"),
        ({"predictions": PREDS, "target": TARGET}, "the keys ['predictions', 'target'] (did you mean 'preds'?)"),
        ({"preds": PREDS, "references": TARGET}, "the keys ['preds', 'references'] (did you mean 'target'?)"),
        ({"pred": PREDS, "targets": TARGET}, "the keys ['pred', 'targets'] (did you mean 'preds' and 'target'?)"),
    ],
)
def test_an_error_says_what_was_found_and_what_to_return(value: Any, found: str) -> None:
    with pytest.raises(TypeError) as error:
        read_step(value, "test_step", origin="extract", loader="news")
    assert str(error.value) == (
        f"BLEUCallback needs hypotheses and references, but got {found} from 'extract' for the loader 'news'. Either "
        "return {'preds': ..., 'target': ...} or (preds, target) from 'test_step', or pass "
        "BLEUCallback(extract=lambda outputs, batch: ...), which returns these. To score some batches only, return "
        "None for the others, as with extract=lambda outputs, batch: outputs if isinstance(outputs, dict) else None"
    )


def return_loss(batch: torch.Tensor, epoch: int) -> float:
    return 5.0


@pytest.mark.parametrize("sanity_steps", [0, 2])
def test_a_trainer_that_validates_a_loss_and_tests_texts_is_one_line_away_from_working(
    sanity_steps: int, tmp_path: Path
) -> None:
    module = make_module(step=return_loss)
    module.test_step = lambda batch, batch_idx: return_ids(batch, 0)

    def run(**options: Any) -> Any:
        bleu = make_callback(**options)
        trainer = make_trainer(tmp_path, bleu, max_epochs=1, num_sanity_val_steps=sanity_steps)
        module.train()
        trainer.fit(module, make_loader(), make_loader())
        trainer.test(module, make_loader(), verbose=False)
        return bleu

    with pytest.raises(TypeError, match="but got a float from 'validation_step'"):
        run()
    bleu = run(extract=lambda outputs, batch: outputs if isinstance(outputs, dict) else None)
    assert [*bleu.results] == ["test_bleu"]


def test_a_step_may_skip_batches_but_not_all_of_them(tmp_path: Path) -> None:
    def step(batch: torch.Tensor, epoch: int) -> Any:
        return return_ids(batch, epoch) if keeps_some and not torch.equal(batch, SENTENCES[:7]) else None

    keeps_some = True

    logged = validate(tmp_path, make_callback(), step=step)
    assert logged["val_bleu"] == expected_score(0, SENTENCES[7:]).bleu
    keeps_some = False
    with pytest.raises(TypeError, match=r"but got None \(no return statement\?\) from 'validation_step'\. Either"):
        validate(tmp_path, make_callback(), step=step)
    assert validate(tmp_path, make_callback(extract=lambda outputs, batch: outputs), step=step) == {}
    with pytest.warns(UserWarning, match=r"^'only' has 'de', but this validation had no sentence of it"):
        assert validate(tmp_path, make_callback(only=["de"]), step=step) == {}


@pytest.mark.parametrize(
    ("options", "count"), [({"max_epochs": 2}, 1), ({"limit_val_batches": 2}, 0), ({"fast_dev_run": True}, 0)]
)
def test_only_whole_validations_say_what_is_missing_of_only(
    options: dict[str, Any], count: int, tmp_path: Path
) -> None:
    callback, message = make_callback(only=["typo"]), "'only' has 'typo', but this validation had no sentence of it"
    assert len(collect_warnings(fit, tmp_path, callback, message=message, **options)) == count


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("sources", "source"),
        ("src", "source"),
        ("indices", "index"),
        ("groups", "group"),
        ("sample_masks", "sample_mask"),
    ],
)
def test_a_key_that_resembles_a_missing_one_is_warned_about(key: str, meant: str) -> None:
    output = {"preds": PREDS, "target": TARGET, key: SOURCE}
    message = f"'validation_step' returned {key!r}, which is ignored: did you mean {meant!r}?"
    assert list(suspect_keys(output, "validation_step")) == [message]
    assert list(suspect_keys(output | {meant: SOURCE}, "validation_step")) == []
    assert list(suspect_keys(output | {meant: None}, "validation_step")) == []


@pytest.mark.parametrize(
    "value",
    [
        (PREDS, TARGET),
        {"preds": PREDS, "target": TARGET, "loss": 1, 5: 6},
        {"preds": PREDS, "target": TARGET, "source_lang": "fr", "group_id": 7, "target_lengths": [3], "idx": 1},
        {"preds": PREDS, "target": TARGET, "predictions": PREDS, "references": TARGET, "targets": TARGET},
    ],
)
def test_other_keys_are_the_users_own(value: Any) -> None:
    assert list(suspect_keys(value, "validation_step")) == []


def test_a_training_warns_once_about_a_key_that_is_ignored(tmp_path: Path) -> None:
    def step(batch: torch.Tensor, epoch: int) -> dict[str, Any]:
        return return_ids(batch, epoch) | {"sources": batch, "source_lang": "fr"}

    message = "'validation_step' returned 'sources', which is ignored: did you mean 'source'?"
    callback = make_callback()
    for expected in (1, 0):  # in two validations of several batches
        assert len(collect_warnings(validate, tmp_path, callback, step=step, message=message)) == expected
    assert len(collect_warnings(validate, tmp_path, make_callback(), step=step, message="did you mean")) == 1
