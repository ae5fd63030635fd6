"""The memory of a call is proportional to its tokens, however unevenly they are spread over sentences."""

from __future__ import annotations

import random
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
import torch

from lightning_bleu.counting.token_cache import clear_caches
from lightning_bleu.functional import sentence_statistics
from lightning_bleu.settings.settings import Settings

pytestmark = pytest.mark.slow

MEGABYTE = 10**6
SETTINGS = Settings.from_options(tokenizer="none")


def as_text(ids: list[int]) -> str:
    return " ".join(map(str, ids))


def as_tokens(ids: list[int]) -> list[str]:
    return [str(id_) for id_ in ids]


def peak_memory(preds: Any, target: Any) -> int:
    """The most bytes that are allocated at once while sentences are read and counted."""
    clear_caches()
    tracemalloc.start()
    try:
        sentence_statistics(preds, target, SETTINGS)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def draw(rng: random.Random, length: int) -> list[int]:
    return rng.choices(range(1_000), k=length)


@pytest.mark.parametrize("form", [as_text, as_tokens, list, torch.tensor])
@pytest.mark.parametrize("long_hypothesis", [True, False])
@pytest.mark.parametrize("long_reference", [True, False])
def test_one_long_line_among_many_short_ones_takes_the_memory_of_its_own_words(
    form: Callable[[list[int]], Any], long_hypothesis: bool, long_reference: bool, rng: random.Random
) -> None:
    """Padded to 100,000 words, 10,000 lines would take 8 GB."""
    hypotheses = [form(draw(rng, rng.randint(1, 8))) for _ in range(10_000)]
    references = [form(draw(rng, rng.randint(1, 8))) for _ in range(10_000)]
    without = peak_memory(hypotheses, references)
    if long_hypothesis:
        hypotheses[5_000] = form(draw(rng, 100_000))
    if long_reference:
        references[5_000] = form(draw(rng, 100_000))
    assert peak_memory(hypotheses, references) < without + 100 * MEGABYTE


@pytest.mark.parametrize("form", [as_text, as_tokens, list, torch.tensor])
def test_many_references_take_the_memory_of_their_own_words(
    form: Callable[[list[int]], Any], rng: random.Random
) -> None:
    """Padded to 300 references of 20,000 words, two sentences would take 96 MB for each array of a few."""
    hypotheses = [form(draw(rng, 20)), form(draw(rng, 20))]
    many = [form(draw(rng, 20)) for _ in range(300)]
    without = peak_memory(hypotheses, [many, many[:1]])
    assert peak_memory(hypotheses, [many, [form(draw(rng, 20_000))]]) < without + 20 * MEGABYTE


@pytest.mark.parametrize("form", [as_text, as_tokens, list])
def test_the_memory_for_references_is_linear(form: Callable[[list[int]], Any], rng: random.Random) -> None:
    """From 1,000 to 8,000 references of one sentence; to compare each with all others would take 64 times as much."""
    references = [form(draw(rng, 20)) for _ in range(8_000)]
    few, many = (peak_memory([form(draw(rng, 20))], [references[:count]]) for count in (1_000, 8_000))
    assert many < 1.5 * 8 * few


SCRIPT = """
import random, resource, sys, torch
from lightning_bleu import corpus_bleu
form = {"text": lambda ids: " ".join(map(str, ids)), "tensors": torch.tensor}[sys.argv[1]]
rng = random.Random(0)
draw = lambda length: form(rng.choices(range(1_000), k=length))
hypotheses, references = [draw(8) for _ in range(10_000)], [draw(8) for _ in range(10_000)]
long = draw(100_000)
corpus_bleu(hypotheses, references, tokenizer="none")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
hypotheses[5_000] = references[5_000] = long
corpus_bleu(hypotheses, references, tokenizer="none")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("form", ["text", "tensors"])
def test_the_memory_of_the_process_grows_as_little(form: str) -> None:
    """Including what tracemalloc does not see, such as tensors."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, form], capture_output=True, text=True, check=True
    )
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(done.stdout) * unit < 100 * MEGABYTE
