"""The notebook runs, and shows what it did when it was committed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

NOTEBOOK = Path(__file__).parents[1] / "examples" / "notebook.ipynb"


def read_outputs(notebook: Any) -> list[tuple[str, str]]:
    """The text of each output, and its HTML, without what depends on the versions of Matplotlib and sacreBLEU."""
    outputs = []
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            html = re.sub(r"<svg.*?</svg>", "<svg>", "".join(data.get("text/html", "")), flags=re.DOTALL)
            html = re.sub(r"version:[\d.]+", "version:", html)
            outputs.append((output.get("text") or data["text/plain"], html))
    return outputs


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_the_notebook_shows_its_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONWARNINGS", "ignore:IProgress not found")
    committed = nbformat.read(NOTEBOOK, as_version=4)
    executed = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(executed, timeout=120, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    assert read_outputs(executed) == read_outputs(committed)
    assert sum("<table>" in html for _, html in read_outputs(committed)) == 3
