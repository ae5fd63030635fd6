"""The examples, at a small size."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore:.*isinstance\\(treespec, LeafSpec\\)")
@pytest.mark.parametrize("text", [False, True])
def test_train_translation(text: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--max-steps", "4", "--limit-train", "200", "--vals-per-epoch", "3", "--logdir", str(tmp_path / "runs")]
    if text:
        for name, words in (("src", "eins zwei drei"), ("tgt", "one two three")):
            lines = [" ".join(words.split()[(i * j) % 3] for j in range(1, 8)) + f" {i}." for i in range(300)]
            (tmp_path / name).write_text("\n".join(lines))
            options += [f"--{name}", str(tmp_path / name)]
    result = load("train_translation").main(options)
    printed = capsys.readouterr().out
    assert str(result) in printed
    assert result.signature in printed
    assert "tensorboard --logdir" in printed
    assert list((tmp_path / "runs").rglob("events.out.tfevents.*"))
    assert list((tmp_path / "runs").rglob("*.ckpt"))
