"""The targets by name. Importing this module is fast; loading a target imports the peers."""

from __future__ import annotations

import faulthandler
import gc
import importlib
import math
import time
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.fuzz.rounds import Round, Target

TURNS = ["ids", "text", "scores", "chrf", "record", *["ids", "text"] * 3]
"""The order in which targets are fuzzed, again and again. The module of a target has its name."""
TARGETS = [*dict.fromkeys(TURNS)]
"""The targets by name."""

_PATIENCE = 120
"""For how many seconds after the end a process may still shrink a failure."""

_EXPECTED_WARNINGS = [
    "The ids are in a tensor, but neither 'pad_id' nor 'eos_id' is set",
    "Every reference in 'target' is a single word",
    r"(The|\d+ of \d+) references are Chinese or Japanese",
    "'preds' is a list of lists of strings",
    "The labels in 'target' are -100",
    "\nThe hypothesis contains 0 counts of",  # NLTK
    ".torch.jit",
]
"""How the warnings begin that random inputs cause."""


def load(name: str) -> Target:
    """Load a target."""
    target: Target = importlib.import_module(f"tests.fuzz.{name}").TARGET
    return target


def prepare() -> None:
    """Set up a process that runs rounds."""
    import torch

    torch.set_num_threads(1)
    gc.freeze()  # so that garbage collections do not search everything that was imported
    filter_warnings()


def filter_warnings() -> None:
    """Turn warnings into errors, except those that random inputs cause."""
    from tests.helpers.warnings import IGNORED_WARNINGS

    warnings.simplefilter("error")
    for message in _EXPECTED_WARNINGS:
        warnings.filterwarnings("ignore", message)
    for warning in IGNORED_WARNINGS:
        warnings.filterwarnings("ignore", warning.removeprefix("ignore:"))


def run(name: str, seed: int, number: int, deadline: float) -> Round:
    """Run a round of a target; see :func:`tests.fuzz.rounds.run_round`. A process that hangs shows where, and ends."""
    from tests.fuzz.rounds import run_round

    if deadline < math.inf:
        faulthandler.dump_traceback_later(max(0.0, deadline - time.time()) + _PATIENCE, exit=True)
    try:
        return run_round(load(name), seed, number, deadline=deadline)
    finally:
        faulthandler.cancel_dump_traceback_later()
