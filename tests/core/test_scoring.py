"""Reports: a score that is a number with parts, whatever the metric."""

from __future__ import annotations

import copy
import json
import pickle
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.helpers.metrics import A, B, Kind


@pytest.fixture
def report(kind: Kind) -> Any:
    return kind.score(*A, percent=True)


def test_a_report_is_a_number(report: Any) -> None:
    assert float(report) == report.score == report
    assert f"{report:.1f}" == f"{report.score:.1f}"
    assert round(report, 2) == round(report.score, 2)
    assert 2 * report == 2 * report.score > 2
    assert (report != np.array([report.score, 0])).tolist() == [False, True]
    assert f"{report}" == str(report)
    assert hash(report) == hash(report.score)
    assert torch.tensor(report) == torch.tensor(report.score)
    assert json.dumps(report) == json.dumps(report.score)
    assert statistics.mean([report, report]) == report.score


@pytest.mark.parametrize("options", [{}, {"percent": np.True_}], ids=str)
@pytest.mark.parametrize("corpus", [A, ([], [])], ids=["sentences", "none"])
def test_a_report_becomes_a_dict_of_plain_values(corpus: Any, options: Any, kind: Kind) -> None:
    report = kind.score(*corpus, **options)
    values = report.to_dict()
    assert list(values) == list(type(report).__annotations__)
    assert {type(value) for value in values.values()} <= {int, float, bool, str, list}
    restored = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in json.loads(json.dumps(values, allow_nan=False)).items()
    }
    assert type(report)(**restored) == report
    before = copy.deepcopy(values)
    for value in values.values():
        if isinstance(value, list):
            value.append(5)
    assert report.to_dict() == before


def test_a_report_cannot_be_changed(report: Any) -> None:
    message = f"a {type(report).__name__} cannot be changed"
    with pytest.raises(AttributeError, match=message):
        report.score = 0
    with pytest.raises(AttributeError, match=message):
        del report.score


def test_a_report_is_no_metric(report: Any, kind: Kind) -> None:
    with pytest.raises(TypeError, match=f"^{type(report).__name__} is a result, not a metric: make a metric, such as"):
        type(report)(**kind.other_options)


def test_reports_are_equal_if_all_of_their_parts_are(kind: Kind) -> None:
    one, other = (kind.score(B[1][0][:1] * count, B[1][0][:1] * count) for count in (1, 2))
    assert one == kind.score(B[1][0][:1], B[1][0][:1])
    assert one != other  # both are perfect
    assert one.score == other.score == kind.perfect


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda report: pickle.loads(pickle.dumps(report))])
def test_a_report_can_be_copied(copied: Callable[[Any], Any], report: Any) -> None:
    assert copied(report) == report
    assert repr(copied(report)) == repr(report)
