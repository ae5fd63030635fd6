"""What names hold while the package runs: ``python -m tests.helpers.words [NAME ...]`` prints it.

Annotations alone do not show that a word has one meaning: they are in many functions, and each reads well by itself.
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from pathlib import Path
from types import FrameType
from typing import Any

import lightning_bleu
from lightning_bleu import CorpusBLEU, CorpusCHRF, Evaluator
from lightning_bleu.compare import compare_systems, read_run

MEANINGS = {
    "sentences": {"Sentences", "list[Sentence]"},
    "scores": {"Tensor", "list[float]"},
    "score": {"Scored", "float"},
    "metric": {"BLEUScorer", "CHRFScorer", "FunctionMetric"},
    "rows": {"SentenceRows", "Tensor", "ndarray"},
    "counts": {"ndarray", "list[int]", "Statistics"},
    "name": {"str", "Name"},
}
"""What these words hold, all over the package."""
_FOLDER = str(Path(lightning_bleu.__file__).parent)

Types = dict[str, dict[str, set[str]]]
"""By name, the functions by the type of what it held in them."""


def describe_type(value: Any) -> str:
    """The type of a value, and of the first item in it."""
    kind = type(value).__name__
    if isinstance(value, Mapping) and value:
        key = next(iter(value))
        return f"{kind}[{describe_type(key)}, {describe_type(value[key])}]"
    if isinstance(value, Sequence | Set) and not isinstance(value, str) and not hasattr(value, "_fields") and value:
        return f"{kind}[{describe_type(next(iter(value)))}]"
    return kind


def record_types(work: Callable[[], object], names: Collection[str] = MEANINGS.keys()) -> Types:
    """Do some work, and record what these names hold at the end of each function of the package."""
    found: Types = defaultdict(lambda: defaultdict(set))

    def record(frame: FrameType, event: str, _: Any) -> None:
        if event != "return" or not frame.f_code.co_filename.startswith(_FOLDER):
            return
        for name in names:
            if name in frame.f_code.co_varnames and frame.f_locals.get(name) is not None:
                function = f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}"
                found[name][describe_type(frame.f_locals[name])].add(function)

    before = sys.getprofile()
    sys.setprofile(record)
    try:
        work()
    finally:
        sys.setprofile(before)
    return found


def evaluate_compare_and_read() -> None:
    """Score validations of an evaluator with two metrics and a function, read their record, and compare their files."""
    preds = ["the cat sat on the mat", "a dog barks", "it rains"]
    target = ["the cat is on the mat", "a dog barks loudly", "it rains again"]

    def share_of_length(hypotheses: list[str], references: list[list[str]]) -> list[float]:
        return [len(one) / len(many[0]) for one, many in zip(hypotheses, references)]

    metrics: dict[str, Any] = {"bleu": CorpusBLEU(), "chrf": CorpusCHRF(), "length": share_of_length}
    with tempfile.TemporaryDirectory() as folder:
        evaluator = Evaluator(metrics, translations=folder, samples=2, confidence=0.95, compare_to="best")
        for hypotheses in (preds, target):
            evaluator.start({"news": None, "talks": None})
            evaluator.update(hypotheses, target, dataloader_idx=0, group=["cats", "dogs", "rain"])
            evaluator.update(hypotheses, target, dataloader_idx=1)
            evaluator.finish(step=len(evaluator.results))
        read_run(folder)
        systems = {path.parent.name: str(path.parent) for path in Path(folder).rglob("hyp.txt")}
        compare_systems(dict([*systems.items()][:2]))
    compare_systems({"one": preds, "two": target}, references=target, metrics=metrics)


if __name__ == "__main__":
    for name, types in record_types(evaluate_compare_and_read, sys.argv[1:] or MEANINGS).items():
        for kind, functions in sorted(types.items(), key=lambda item: -len(item[1])):
            print(f"{name}: {kind} in {len(functions)}: {', '.join(sorted(functions))}")
