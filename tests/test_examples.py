"""The examples, at a small size."""

from __future__ import annotations

import importlib.util
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from sacrebleu.metrics import BLEU as SacreBLEU
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lightning_bleu import BLEUScore, CorpusBLEU, block_t_test

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


@pytest.mark.filterwarnings("ignore:.*isinstance\\(treespec, LeafSpec\\)")
def test_hugging_face(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = load("hugging_face").main(["--max-steps", "4", "--logdir", str(tmp_path)])
    printed = capsys.readouterr().out
    assert isinstance(result, BLEUScore)
    assert "|tok:13a|" in result.signature
    assert str(result) in printed
    assert result.signature in printed
    assert "val_bleu" in logged(tmp_path)


def test_hugging_face_scores_what_its_tokenizer_decodes() -> None:
    example = load("hugging_face")
    pairs = example.number_pairs(40)
    tokenizer = example.make_tokenizer([line for pair in pairs for line in pair])
    model = example.make_model(tokenizer).eval()
    collator = example.DataCollatorForSeq2Seq(tokenizer, model)
    batches = [example.collate(part, tokenizer, collator) for part in (pairs[:20], pairs[20:])]
    # the model knows nothing, so the second half gets the translations of other numbers
    generated = model.generate(input_ids=batches[0]["input_ids"], attention_mask=batches[0]["attention_mask"])
    copied = batches[1]["decoder_input_ids"].roll(1, 0)
    metric = CorpusBLEU(convention="sacrebleu", decoder=tokenizer, percent=True)
    hypotheses, references = [], []
    for preds, batch in zip((generated, copied), batches):
        assert (batch["labels"] == -100).any()
        metric.update(preds, batch["labels"])
        labels = torch.where(batch["labels"] == -100, tokenizer.pad_token_id, batch["labels"])
        hypotheses += tokenizer.batch_decode(preds, skip_special_tokens=True)
        references += tokenizer.batch_decode(labels, skip_special_tokens=True)
    assert references == [target for _, target in pairs]
    expected = SacreBLEU().corpus_score(hypotheses, [references])
    report = metric.report()
    assert list(report.matches) == expected.counts
    assert list(report.possible_matches) == expected.totals
    assert metric.compute().item() == pytest.approx(expected.score, abs=1e-9)
    assert expected.score > 0


@pytest.mark.filterwarnings("ignore:.*isinstance\\(treespec, LeafSpec\\)")
@pytest.mark.filterwarnings("ignore:The number of training batches")
def test_significant_gains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    sizes = ["--sentences", "300", "--val-sentences", "40", "--max-steps", "24", "--val-every", "4", "--patience", "2"]
    runs = load("significant_gains").main([*sizes, "--seeds", "3", "--logdir", str(tmp_path)])
    printed = capsys.readouterr().out
    assert f"in all {runs[0].validations} validations with every gain, {runs[1].validations} with" in printed
    assert printed.count(" interval ") == 2
    assert all(len(run.test.sentence_statistics) == 2_000 for run in runs)
    assert list(tmp_path.rglob("*.ckpt"))


@pytest.mark.filterwarnings("ignore:.*isinstance\\(treespec, LeafSpec\\)")
def test_papineni_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    example = load("papineni_blocks")
    sentences = [" ".join("abcdefgh"[(i * j) % 8] for j in range(1, 9)) for i in range(60)]
    texts = {"ref": sentences, "sys.good": sentences[:50] + ["?"] * 10, "sys.bad": ["?"] * 10 + sentences[:50]}
    for name, text in texts.items():
        (tmp_path / f"{name}.de").write_text("\n".join(text))
    files = [str(tmp_path / f"{name}.de") for name in texts]
    sizes = ["--sentences", "50", "--blocks", "10"]
    systems = example.main([*sizes, "--refs", files[0], "--systems", *files[1:]])
    rows = {line[:18].strip(): line[18:].split() for line in capsys.readouterr().out.splitlines()[2:]}
    assert rows[""] == ["bad", "good"]
    assert rows["BLEU"][1] == rows["mean"][1] == "1.0000"
    assert rows["t"] == ["-", f"{block_t_test(systems['good'], systems['bad'], 10).t:.1f}"]

    assert list(example.read_systems([tmp_path / "ref.de"] * 2, [tmp_path / "ref.de"], 5)) == [str(tmp_path / "ref.de")]
    trained = example.main(
        ["--sentences", "40", "--blocks", "4", "--max-steps", "200", "--logdir", str(tmp_path / "run")]
    )
    assert list(trained) == ["step 100", "step 200"]


def test_lightning_cli(tmp_path: Path) -> None:
    config = EXAMPLES / "lightning_cli.yaml"
    command = [sys.executable, EXAMPLES / "lightning_cli.py", "fit", "--config", config]
    options = ["--trainer.max_epochs=1", f"--trainer.default_root_dir={tmp_path}", "--data.size=200"]
    done = subprocess.run(
        [*command, *options],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=EXAMPLES.parent,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 0, done.stderr
    assert {"val_bleu", "val_bleu/precision_1"} <= logged(tmp_path)
    assert list(tmp_path.rglob("*val_bleu=*.ckpt"))


def test_coming_from(capsys: pytest.CaptureFixture[str]) -> None:
    scores = load("coming_from").main([])
    printed = capsys.readouterr().out
    for name, (before, after) in scores.items():
        assert name in printed
        assert math.isclose(before, after, rel_tol=1e-6)
        assert after > 0


def logged(folder: Path) -> set[str]:
    """The names of the numbers in the one TensorBoard file below a folder."""
    (events,) = folder.rglob("events.out.tfevents.*")
    accumulator = EventAccumulator(str(events))
    accumulator.Reload()
    return set(accumulator.Tags()["scalars"])


def test_train_translation_with_the_callback_in_two_processes(tmp_path: Path) -> None:
    options = ["--callback", "--devices", "2", "--max-steps", "4", "--limit-train", "200", "--vals-per-epoch", "3"]
    script = [sys.executable, str(EXAMPLES / "train_translation.py"), *options, "--logdir", str(tmp_path)]
    done = subprocess.run(script, check=True, capture_output=True, text=True)
    assert done.stdout.count("test       BLEU = ") == 1
    assert "ref_len = 1888)" in done.stdout  # of all 250 sentences, each of them once
