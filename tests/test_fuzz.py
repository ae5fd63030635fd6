"""The fuzzer: it counts what it checks, repeats itself, stops in time, and shrinks what fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from lightning_bleu import bleu
from lightning_bleu.core import ngrams
from tests.fuzz import ids
from tests.fuzz.__main__ import main
from tests.fuzz.choices import Choices
from tests.fuzz.rounds import Target, run_round
from tests.fuzz.targets import TARGETS, filter_warnings, load


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Undo the settings of a process that runs rounds."""
    threads = torch.get_num_threads()
    filter_warnings()
    yield
    torch.set_num_threads(threads)


class FakeCase:
    """Sentences that are checked by a function."""

    def __init__(self, sentences: list[Any], check: Callable[[list[Any]], None]) -> None:
        self.sentences = sentences
        self._check = check

    @property
    def sentence_count(self) -> int:
        return len(self.sentences)

    def check(self) -> None:
        self._check(self.sentences)

    def describe(self) -> str:
        return f"{self.sentences}"


def make_target(check: Callable[[list[Any]], None]) -> Target:
    return Target("own", lambda choices: FakeCase(choices.sentences(), check), round_size=50)


def break_clipping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count each n-gram of a hypothesis at most once."""
    count = ngrams.count_matches
    monkeypatch.setattr(bleu, "count_matches", lambda *args, **options: count(*args, **options).clip(max=1))


@pytest.mark.parametrize("name", TARGETS)
def test_a_round_finds_no_mistake_and_counts_its_inputs_and_sentences(name: str) -> None:
    """This is also how `make test` compares random inputs with slow, obvious code and with other programs.

    A fifth of a round, because `make fuzz` runs whole rounds before anything lands.
    """
    sentences = 0
    target = load(name)
    target = target._replace(round_size=target.round_size // 5)

    def make(choices: Choices) -> Any:
        nonlocal sentences
        case = target.make(choices)
        sentences += case.sentence_count
        return case

    done = run_round(target._replace(make=make), seed=0, number=0)
    assert done.failure is None
    assert (done.inputs, done.sentences) == (target.round_size, sentences)
    assert sentences > target.round_size


def test_a_round_is_determined_by_its_seed_and_number() -> None:
    def draw(seed: int, number: int) -> list[Any]:
        drawn: list[Any] = []
        assert run_round(make_target(drawn.append), seed, number).inputs == 50
        return drawn

    assert draw(0, 0) == draw(0, 0)
    assert len({str(draw(seed, number)) for seed in range(3) for number in range(3)}) == 9


def test_a_round_stops_when_the_time_is_up() -> None:
    def wait(sentences: list[Any]) -> None:
        time.sleep(0.05)

    done = run_round(make_target(wait), 0, 0, inputs=10_000, deadline=time.time() + 0.5)
    assert 0 < done.inputs <= 10


@pytest.mark.long
def test_the_command_prints_a_failure_that_is_shrunk_and_how_to_reproduce_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ids, "TARGET", ids.TARGET._replace(round_size=30))
    arguments = ["--seed", "0", "--target", "ids", "--round", "0"]
    assert main(arguments) == 0
    output = capsys.readouterr().out
    assert "failed" not in output
    assert "30 inputs in" in output
    break_clipping(monkeypatch)
    assert main(arguments) == 1
    output = capsys.readouterr().out
    assert "ids failed:\n\nCorpusBLEU(" in output
    for shown in (".update([[0, 0]],\n          [[[0, 0]]])", "found    [1, 1, 0, 0, 2,", "expected [2, 1, 0, 0, 2,"):
        assert shown in output
    assert "Reproduce it with: python -m tests.fuzz --seed 0 --target ids --round 0" in output
