"""Other keys of a step, whose values functions take."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from lightning_bleu import Evaluator, FunctionMetric
from lightning_bleu.tasks import WER
from tests.helpers.process_groups import ProcessPool


def execution(
    hypotheses: list[str], references: list[list[str]], db_id: list[str], *, limit: Sequence[int] = (0,)
) -> list[float]:
    """Text-to-SQL: whether a query gives the rows of the right one, in the database of its question."""
    limits = [*limit] * len(hypotheses) if len(limit) == 1 else [*limit]
    right = [line == f"{name}:{most}" for line, name, most in zip(hypotheses, db_id, limits, strict=True)]
    return [float(is_right) for is_right in right]


def test_a_function_gets_the_values_of_the_keys_that_its_parameters_name(tmp_path: Path) -> None:
    evaluator = Evaluator({"ex": execution}, translations=tmp_path)
    evaluator.start()
    evaluator.update(["a:0", "b:0", "x"], ["", "", ""], db_id=["a", "c", "x"], sample_mask=[True, True, False])
    evaluator.update(["d:0"], [""], db_id=["d"])
    assert evaluator.finish(1)["val_ex"].score == 2 / 3
    (path,) = tmp_path.rglob("sentences.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["columns"] for line in lines] == [{"db_id": "a"}, {"db_id": "c"}, {"db_id": "d"}]
    evaluator.start()
    evaluator.update(["a:5", "a:6"], ["", ""], db_id=["a", "a"], limit=torch.tensor([5, 7]))
    assert evaluator.finish(2)["val_ex"].score == 0.5


def test_a_third_parameter_is_a_key_of_the_step_if_there_is_one_and_else_the_sources() -> None:
    def take(hypotheses: list[str], references: list[list[str]], table: list[str]) -> list[float]:
        return [float(line == value) for line, value in zip(hypotheses, table)]

    choices: list[Any] = [{"source": ["a"]}, {"table": ["a"]}, {"source": ["b"], "table": ["a"]}]
    for fields in choices:
        evaluator = Evaluator({"take": take})
        evaluator.start()
        evaluator.update(["a"], [""], **fields)
        assert evaluator.finish(1)["val_take"].score == 1


def test_a_key_that_a_function_needs_is_required_in_the_first_batch() -> None:
    def parent(hypotheses: list[str], references: list[list[str]], *, table: list[Any]) -> list[float]:
        return [float(len(rows)) for rows in table]

    evaluator = Evaluator({"parent": parent})
    evaluator.start()
    with pytest.raises(ValueError, match=r"^the metric 'parent' takes 'table', and the batch has none"):
        evaluator.update(["a"], ["a"])
    with pytest.raises(ValueError, match=r"^'table' must hold a value per sentence, got 1 for 2 sentences"):
        evaluator.update(["a", "b"], ["a", "b"], table=[[1]])
    evaluator.update(["a", "b"], ["a", "b"], table=[[1, 2], []])
    assert evaluator.finish(1)["val_parent"].score == 1


def test_a_function_may_take_a_field_that_the_evaluator_reads_as_well() -> None:
    def of_group(hypotheses: list[str], references: list[list[str]], *, group: list[str]) -> list[float]:
        return [float(label == "x") for label in group]

    evaluator = Evaluator({"m": of_group})
    evaluator.start()
    evaluator.update(["a", "b"], ["a", "c"], group=["x", "y"])
    assert [result.score for result in evaluator.finish(1).values()] == [0.5, 1, 0, 0.5]


def test_a_key_that_no_metric_takes_is_an_error_of_a_loop_of_ones_own() -> None:
    evaluator = Evaluator()
    evaluator.start()
    with pytest.raises(TypeError, match=r"^update\(\) got 'groups', which no metric takes: did you mean 'group'\?"):
        evaluator.update(["a"], ["a"], groups=["x"])


def count_rows_of_tables(rank: int, processes: int) -> list[float]:
    """A function of the whole corpus gets the values of all processes, in order; one reference is empty."""

    def first(hypotheses: list[str], references: list[list[str]], *, table: list[Any]) -> float:
        return float(sum(10**number * len(rows) for number, rows in enumerate(table)))

    evaluator = Evaluator({"first": FunctionMetric(first, corpus_level=True), "wer": WER(skip_empty=True)})
    evaluator.start()
    evaluator.update(["a"], ["b" if rank else ""], index=[rank], table=[{"rows": 1} if rank else {}])
    return [result.score for result in evaluator.finish(1).values()]


@pytest.mark.slow
def test_a_function_of_the_whole_corpus_gets_the_values_of_all_processes_and_empty_references_count_in_none(
    pool: ProcessPool,
) -> None:
    assert pool.run(2, count_rows_of_tables) == [[10.0, 1.0]] * 2


def test_a_function_that_takes_a_list_of_references_for_one_is_told_so() -> None:
    evaluator = Evaluator(
        {"same": lambda hypotheses, references: [float(h == r) for h, r in zip(hypotheses, references)]}
    )
    evaluator.start()
    evaluator.update(["a", "b"], ["a", "c"])
    with pytest.warns(UserWarning, match=r"'same' is 0 for all sentences.*compare with references\[0\]"):
        evaluator.finish(1)
    others = Evaluator({"empty": lambda hypotheses, references: [float(line == "") for line in hypotheses]})
    others.start()
    others.update(["a", "b"], ["a", "c"])
    others.finish(1)  # a 0 that is right: no warning
