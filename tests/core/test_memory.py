"""The memory and the steps of a call are proportional to its tokens, however they are distributed over sentences."""

from __future__ import annotations

import functools
import random
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
import torch

from lightning_bleu import corpus_bleu
from lightning_bleu.core import ngrams
from lightning_bleu.core.ngrams import count_matches
from lightning_bleu.core.tokens import clear_caches
from tests.helpers.counting import as_text, make_ragged

pytestmark = pytest.mark.slow

MEGABYTE = 10**6


def draw(rng: random.Random, length: int) -> list[int]:
    return rng.choices(range(1_000), k=length)


def peak_memory(preds: Any, target: Any) -> int:
    """The most bytes that are allocated at once while sentences are read and counted."""
    clear_caches()
    tracemalloc.start()
    try:
        corpus_bleu(preds, target, tokenizer="none")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def count_steps(call: Callable[[], Any]) -> int:
    """How many lines of the kernel are executed."""
    steps = 0

    def count_line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        steps += event == "line"
        return count_line

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        return count_line if frame.f_code.co_filename == ngrams.__file__ else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    finally:
        sys.settrace(before)
    return steps


@pytest.mark.parametrize("form", [as_text, torch.tensor])
def test_one_long_line_among_many_short_ones_takes_the_memory_of_its_own_words(
    form: Callable[[list[int]], Any], rng: random.Random
) -> None:
    """Padded to 100,000 words, 10,000 lines would take 8 GB."""
    hypotheses = [form(draw(rng, rng.randint(1, 8))) for _ in range(10_000)]
    references = [form(draw(rng, rng.randint(1, 8))) for _ in range(10_000)]
    without = peak_memory(hypotheses, references)
    for side in (hypotheses, references):
        side[5_000] = form(draw(rng, 100_000))
        assert peak_memory(hypotheses, references) < without + 100 * MEGABYTE


def test_the_memory_for_references_is_linear(rng: random.Random) -> None:
    """From 1,000 to 8,000 references of one sentence. Comparing each with all others would take 64 times as much."""
    references = [as_text(draw(rng, 20)) for _ in range(8_000)]
    few, many = (peak_memory([as_text(draw(rng, 20))], [references[:count]]) for count in (1_000, 8_000))
    assert many < 1.5 * 8 * few


def test_the_steps_of_the_kernel_do_not_depend_on_the_number_of_references(rng: random.Random) -> None:
    batches = [make_ragged([[draw(rng, 20) for _ in range(1 + count)]]) for count in (1_000, 8_000)]
    few, many = (count_steps(functools.partial(count_matches, *batch, 4)) for batch in batches)
    assert few == many > 30
