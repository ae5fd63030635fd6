"""What a developer reads about skipped tests."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.helpers import fixtures

TESTS = """
import pytest
from tests.helpers.fixtures import wmt22

@pytest.mark.gpu
@pytest.mark.parametrize("number", range(3))
def test_gpu(number):
    assert False

def test_text(wmt22):
    assert False
"""


def test_the_summary_has_one_line_for_each_reason(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(fixtures, "DATA", tmp_path)
    pytester.makeconftest("from tests.conftest import pytest_collection_modifyitems, pytest_terminal_summary")
    pytester.makeini("[pytest]\nmarkers = gpu")
    pytester.makepyfile(TESTS)
    lines = pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider").outlines
    assert lines[-3:-1] == [
        "   3 skipped: needs a CUDA device",
        f"   1 skipped: needs wmt22 text in {tmp_path}, which is not part of the repository",
    ]
    assert lines[-1].startswith("4 skipped")
