"""What all tests share."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
import torch
from hypothesis import settings

os.environ.setdefault("MPLBACKEND", "Agg")

settings.register_profile("default", deadline=None)  # the first example of a test may wait for an import
settings.load_profile("default")

DATA = Path(__file__).parents[2] / "shared" / "data"
"""Real text to run against, where it is at hand."""


@pytest.fixture
def rng() -> random.Random:
    return random.Random(20)


@pytest.fixture
def wmt22() -> Path:
    return _folder("wmt22")


@pytest.fixture
def multi30k() -> Path:
    return _folder("multi30k")


def _folder(name: str) -> Path:
    if not (DATA / name).is_dir():
        pytest.skip(f"no {name} text here")
    return DATA / name


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def lines(path: Path) -> list[str]:
    """The lines of a file as sacreBLEU reads them: split at newlines only."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def random_corpus(
    rng: random.Random,
    sentences: int,
    *,
    references: int = 3,
    vocabulary: int = 12,
    longest: int = 14,
    ragged: bool = True,
) -> tuple[list[list[str]], list[list[list[str]]]]:
    """Sentences of words that are alike and unalike, long, short, empty and without any match."""
    words = [f"w{i}" for i in range(vocabulary)]
    hypotheses, targets = [], []
    for _ in range(sentences):
        base = rng.choices(words, k=rng.randint(0, longest))
        kind = rng.random()
        hypothesis = list(base)
        if kind < 0.1:
            hypothesis = []
        elif kind < 0.2:
            hypothesis = ["unlike"] * rng.randint(1, 6)
        elif kind < 0.8:
            for _ in range(rng.randint(0, 4)):
                if hypothesis:
                    hypothesis[rng.randrange(len(hypothesis))] = rng.choice(words)
        group = []
        for _ in range(rng.randint(1, references) if ragged else references):
            reference = list(base)
            for _ in range(rng.randint(0, 3)):
                reference.insert(rng.randint(0, len(reference)), rng.choice(words))
            if rng.random() < 0.3:
                reference = reference[: rng.randint(0, len(reference))]
            group.append(reference)
        hypotheses.append(hypothesis)
        targets.append(group)
    return hypotheses, targets
