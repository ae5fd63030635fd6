"""Warnings name the line of the user's code and are given once; wrong names get a hint."""

from __future__ import annotations

import inspect
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import distributed
from torch.testing._internal.distributed.fake_pg import FakeStore
from torchmetrics import MetricCollection

from lightning_bleu import CONVENTIONS, CorpusBLEU, corpus_bleu, sentence_bleu
from lightning_bleu.bleu import BLEU_OPTIONS
from lightning_bleu.core.conventions import REFERENCE_LENGTHS, SMOOTHINGS
from lightning_bleu.core.messages import did_you_mean, warn_user
from lightning_bleu.core.tokens import TOKENIZERS
from tests.helpers.process_groups import group_of_one

IDS = torch.tensor([[1, 2, 3], [1, 2, 0]])
WORDS = (["the cat sat"], [["the", "cat", "sat"]])


def collect(call: Callable[..., Any], *args: Any) -> list[warnings.WarningMessage]:
    """The warnings of a call that this very function makes, in :data:`CALL_LINE`."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*args)  # the user's line
    return caught


CALL_LINE = inspect.getsourcelines(collect)[1] + next(
    number for number, line in enumerate(inspect.getsourcelines(collect)[0]) if "# the user's line" in line
)


@pytest.mark.parametrize(
    "make",
    [
        lambda: corpus_bleu,
        lambda: sentence_bleu,
        lambda: CorpusBLEU().update,
        lambda: CorpusBLEU(),
        lambda: CorpusBLEU().forward,
        lambda: CorpusBLEU().to("cpu"),
        lambda: MetricCollection([CorpusBLEU()]).update,
        lambda: MetricCollection([CorpusBLEU()]),
    ],
    ids=["corpus_bleu", "sentence_bleu", "update", "call", "forward", "moved", "collection update", "collection call"],
)
@pytest.mark.parametrize("inputs", [(IDS, IDS), WORDS], ids=["ids", "words"])
def test_a_warning_is_of_the_line_of_the_user_that_passed_the_sentences(
    make: Callable[[], Callable[..., Any]], inputs: Any
) -> None:
    (warning,) = collect(make(), *inputs)
    assert (warning.filename, warning.lineno, warning.category) == (__file__, CALL_LINE, UserWarning)


def test_a_metric_warns_once_of_each_mistake() -> None:
    metric = CorpusBLEU()
    assert len(collect(metric.update, IDS, IDS)) == 1
    assert collect(metric.update, IDS, IDS) == collect(metric, IDS, IDS) == []
    assert len(collect(metric, *WORDS)) == 1  # another mistake
    metric.reset()
    for copied in (metric, metric.clone(), pickle.loads(pickle.dumps(metric))):
        assert collect(copied.update, IDS, IDS) == collect(copied.update, *WORDS) == []
    assert len(collect(CorpusBLEU().update, IDS, IDS)) == 1  # another metric


def test_a_function_warns_at_each_call() -> None:
    for function in (corpus_bleu, sentence_bleu):
        assert [len(collect(function, IDS, IDS)) for _ in range(2)] == [1, 1]


def test_of_several_processes_only_the_first_warns() -> None:
    with group_of_one():
        assert [str(warning.message) for warning in collect(warn_user, "a mistake")] == ["a mistake"]
    # A group without the other process, as torch tests its own collectives.
    distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
    try:
        assert collect(warn_user, "a mistake") == []
    finally:
        distributed.destroy_process_group()


# Did you mean ...?

CHOICES = [list(CONVENTIONS), list(SMOOTHINGS), list(REFERENCE_LENGTHS), list(TOKENIZERS), list(BLEU_OPTIONS)]


@pytest.mark.parametrize("choices", CHOICES)
@pytest.mark.parametrize("change", [str, str.upper, str.title, str.swapcase])
def test_a_name_in_another_case_is_closest_to_itself(choices: list[str], change: Any) -> None:
    for name in choices:
        assert did_you_mean(change(name), choices) == f": did you mean {name!r}?"


@given(st.text(), st.lists(st.text(), unique_by=str.lower))
def test_the_closest_name_is_one_of_the_choices(name: str, choices: list[str]) -> None:
    assert did_you_mean(name, choices) in {"", *(f": did you mean {choice!r}?" for choice in choices)}
