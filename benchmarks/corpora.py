"""The corpora of the benchmarks: the words of WMT22 and Multi30k, or made-up words in sentences of the same lengths.

`python benchmarks/corpora.py --data FOLDER` prints the distribution of the lengths in a folder with this text. It is
the source of :data:`LENGTHS`.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

Ids = list[list[int]]

VOCABULARY = 32_000
LENGTHS = {"WMT22": (2.60, 0.67), "Multi30k": (2.44, 0.30)}
"""The mean and the standard deviation of the logarithm of the words per line (German WMT22, English Multi30k)."""
SYSTEMS = [*(f"Online-{letter}" for letter in "WABGY"), "PROMT", "Lan-Bridge", "OpenNMT", "JDExploreAcademy"]
"""Systems of the WMT22 English-German task."""


@dataclass
class Corpus:
    """Hypotheses and their references as ids from 1, and in the other forms that contestants need."""

    name: str
    hypotheses: Ids
    references: list[Ids]
    batch_size: int

    def in_batches_of(self, batch_size: int, limit: int | None = None) -> Corpus:
        """The same sentences, or the first `limit` of them, in batches of another size."""
        return replace(
            self, hypotheses=self.hypotheses[:limit], references=self.references[:limit], batch_size=batch_size
        )

    def sorted_by_length(self) -> Corpus:
        """The same sentences, the shortest hypothesis first."""
        order = sorted(range(len(self.hypotheses)), key=lambda i: len(self.hypotheses[i]))
        return Corpus(
            f"{self.name}, sorted",
            [self.hypotheses[i] for i in order],
            [self.references[i] for i in order],
            self.batch_size,
        )

    def _batches(self, values: list[Any]) -> list[list[Any]]:
        return [values[first : first + self.batch_size] for first in range(0, len(values), self.batch_size)]

    @cached_property
    def tensors(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Batches padded with 0, of shapes ``(sentences, tokens)`` and ``(sentences, references, tokens)``."""
        return [
            (pad(hypotheses), pad([r for group in groups for r in group]).reshape(len(groups), len(groups[0]), -1))
            for hypotheses, groups in zip(self._batches(self.hypotheses), self._batches(self.references))
        ]

    @cached_property
    def words(self) -> list[tuple[Any, Any]]:
        """Batches of lists of words, one word per id."""
        as_words = [[str(i) for i in h] for h in self.hypotheses]
        groups = [[[str(i) for i in r] for r in group] for group in self.references]
        return list(zip(self._batches(as_words), self._batches(groups)))

    @cached_property
    def lines(self) -> list[tuple[Any, Any]]:
        """Batches of strings, the words joined with spaces."""
        return [
            ([" ".join(h) for h in hypotheses], [[" ".join(r) for r in group] for group in groups])
            for hypotheses, groups in self.words
        ]


@dataclass
class Text:
    """Lines of text and their references."""

    hypotheses: list[str]
    references: list[list[str]]
    batch_size: int

    @cached_property
    def lines(self) -> list[tuple[Any, Any]]:
        """Batches of lines."""
        starts = range(0, len(self.hypotheses), self.batch_size)
        return [(self.hypotheses[i : i + self.batch_size], self.references[i : i + self.batch_size]) for i in starts]


def pad(rows: Ids) -> torch.Tensor:
    """Pad with 0 on the right."""
    padded = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for row, ids in zip(padded, rows):
        row[: len(ids)] = ids
    return torch.from_numpy(padded)


def sample_lengths(name: str, sentences: int, generator: np.random.Generator) -> np.ndarray:
    """Numbers of words, log-normal like those of a real corpus."""
    return np.maximum(1, np.rint(generator.lognormal(*LENGTHS[name], sentences))).astype(np.int64)


def make_corpus(
    name: str,
    lengths: Sequence[int] | np.ndarray,
    references: int = 1,
    batch_size: int = 64,
    vocabulary: int = VOCABULARY,
) -> Corpus:
    """Random ids with the frequencies of words (Zipf). References have 40% of them replaced, and 5% removed."""
    generator = np.random.default_rng(0)
    weights = 1 / np.arange(1, vocabulary)
    cumulated = np.cumsum(weights / weights.sum())
    names = generator.permutation(vocabulary - 1) + 1  # 0 is padding

    def draw(count: int) -> np.ndarray:
        return names[np.minimum(np.searchsorted(cumulated, generator.random(count)), vocabulary - 2)]

    def change(hypothesis: np.ndarray) -> list[int]:
        reference = np.where(generator.random(len(hypothesis)) < 0.4, draw(len(hypothesis)), hypothesis)
        ids: list[int] = reference[generator.random(len(reference)) >= 0.05].tolist()
        return ids

    hypotheses = [draw(length) for length in lengths]
    groups = [[change(hypothesis) for _ in range(references)] for hypothesis in hypotheses]
    return Corpus(name, [hypothesis.tolist() for hypothesis in hypotheses], groups, batch_size)


def corpus(name: str, data: Path | None, references: int = 1) -> Corpus:
    """WMT22 or Multi30k: its words if there is a folder with it, else made-up words in sentences of its lengths.

    For WMT22, further references are the second reference and the outputs of other systems. Multi30k has no outputs, so
    its hypotheses are its references with 35% of the words replaced by random words of the same line.
    """
    if data is None:
        generator = np.random.default_rng(1)
        return make_corpus(f"{name} lengths", sample_lengths(name, 2_048, generator), references)
    if name == "WMT22":
        hypotheses = [line.split() for line in read_wmt22(data, "hyp.Online-W")]
        others = ["ref.A", "ref.B", "hyp.PROMT", "hyp.Online-G"][:references]
        groups = [[line.split() for line in lines] for lines in zip(*(read_wmt22(data, other) for other in others))]
    else:
        groups = [[line.split()] for line in read_lines(data / "multi30k" / "val.en")]
        rng = random.Random(0)
        hypotheses = [[rng.choice(line) if rng.random() < 0.35 else word for word in line] for (line,) in groups]
    names = iter(np.random.default_rng(0).permutation(VOCABULARY - 1) + 1)
    numbers: dict[str, int] = {}

    def ids(words: list[str]) -> list[int]:
        return [numbers[word] if word in numbers else numbers.setdefault(word, int(next(names))) for word in words]

    return Corpus(name, list(map(ids, hypotheses)), [list(map(ids, group)) for group in groups], 64)


def make_text(sentences: int, batch_size: int) -> Text:
    """Lines of made-up words, with the lengths of WMT22, and with commas and periods."""
    rng = random.Random(0)
    words = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9))) for _ in range(VOCABULARY)]

    def line(ids: list[int]) -> str:
        return " ".join(words[i] + ("," if i % 11 == 0 else "") for i in ids).capitalize() + "."

    made = corpus("WMT22", None, 2).in_batches_of(batch_size, sentences)
    return Text([line(h) for h in made.hypotheses], [[line(r) for r in group] for group in made.references], batch_size)


def read_lines(path: Path) -> list[str]:
    """The lines of a file."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def read_wmt22(data: Path, name: str) -> list[str]:
    """The lines of a system or a reference of the WMT22 English-German task."""
    return read_lines(data / "wmt22" / f"generaltest2022.en-de.{name}.de")


def read_systems(data: Path, batch_size: int) -> list[Text]:
    """The systems of the WMT22 English-German task, with both references."""
    groups = [list(pair) for pair in zip(read_wmt22(data, "ref.A"), read_wmt22(data, "ref.B"))]
    return [Text(read_wmt22(data, f"hyp.{system}"), groups, batch_size) for system in SYSTEMS]


def main() -> None:
    """Print the distribution of the lengths of real text."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a folder with WMT22 and Multi30k text")
    data = parser.parse_args().data
    for name, lines in (("WMT22", read_wmt22(data, "ref.A")), ("Multi30k", read_lines(data / "multi30k" / "val.en"))):
        lengths = np.array([len(line.split()) for line in lines])
        logs = np.log(lengths)
        print(
            f"{name}: {len(lines):,} lines of {lengths.mean():.1f} words, at most {lengths.max()}; "
            f"logarithm: mean {logs.mean():.2f}, standard deviation {logs.std():.2f}"
        )


if __name__ == "__main__":
    main()
