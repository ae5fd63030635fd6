"""Times contestants in turn, and writes tables."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

OURS = "lightning_bleu"

Run = Callable[[], float]
Times = dict[str, float]


def seconds(run: Callable[[], Any], repeats: int) -> float:
    """The mean time of a run over several repeats."""
    gc.collect()
    gc.disable()
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    taken = time.perf_counter() - start
    gc.enable()
    return taken / repeats


def time_in_turns(
    runs: Mapping[str, Run],
    rounds: int,
    before: Callable[[], None] | None = None,
    other_scores: Mapping[str, float] | None = None,
) -> Times:
    """Median seconds of each run, over several rounds in which each has a turn of at least a quarter of a second.

    If there is a `before`, it is called before each turn, and a turn is a single run. All must compute our score; those
    in `other_scores` must compute the score given there.
    """
    scores = {name: run() for name, run in runs.items()}
    expected = dict.fromkeys(scores, scores[OURS]) | dict(other_scores or {})
    if not all(math.isclose(score, expected[name], abs_tol=1e-6) for name, score in scores.items()):
        raise SystemExit(f"expected the scores {expected}, got {scores}")
    repeats = {name: 1 if before else max(1, math.ceil(0.25 / seconds(run, 1))) for name, run in runs.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            if before is not None:
                before()
            times[name].append(seconds(run, repeats[name]))
    return {name: statistics.median(turns) for name, turns in times.items()}


def per(times: Times, count: float) -> Times:
    """The times divided by a number of sentences, updates, or tokens."""
    return {name: value / count for name, value in times.items()}


def table(title: str, unit: str, labels: list[str], rows: list[tuple[list[Any], Times]]) -> str:
    """Two Markdown tables: times in a unit (``"µs per sentence"``), and the same times relative to ours."""
    names = list(dict.fromkeys(name for _, times in rows for name in times))

    def lines(heading: str, columns: list[str], cell: Callable[[Times, str], str]) -> Iterator[str]:
        yield from (heading, "", f"| {' | '.join([*labels, *columns])} |")
        yield f"| {' | '.join(['---'] * len(labels) + ['---:'] * len(columns))} |"
        for work, times in rows:
            cells = [cell(times, name) if name in times else "" for name in columns]
            yield f"| {' | '.join([*map(str, work), *cells])} |"
        yield ""

    return "\n".join(
        [
            *lines(f"### {title}: {unit}", names, lambda times, name: f"{1e6 * times[name]:.2f}"),
            *lines(
                f"### {title}: relative to {OURS}",
                [name for name in names if name != OURS],
                lambda times, name: f"{times[name] / times[OURS]:.2f}",
            ),
        ]
    )
