"""Prompts without references: what is generated is shown and written, and scored only by metrics that need none."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler
from torch.utils.tensorboard import SummaryWriter

from lightning_bleu import BLEUCallback, CorpusBLEU, CorpusCHRF, Evaluator
from lightning_bleu.compare import compare_systems
from lightning_bleu.tasks import TokenCount
from tests.helpers.files import read_files, read_scores
from tests.helpers.lightning import make_loader, read_events, validate
from tests.helpers.process_groups import ProcessPool

PAD, EOS = 0, 1
SIZE = 7


def decode(rows: list[list[int]]) -> list[str]:
    """A decoder: a word per id, without padding and the end."""
    return [" ".join(f"w{number}" for number in row if number > EOS) for row in rows]


def generate(prompts: Tensor) -> Tensor:
    """Answers of as many ids as the number of the prompt says, then the end, then padding."""
    width = int(prompts.max()) + 2
    rows = [[*range(2, 2 + number), EOS, *[PAD] * width][:width] for number in prompts.tolist()]
    return torch.tensor(rows)


def make_evaluator(**options: Any) -> Evaluator:
    metrics: Any = {"bleu": CorpusBLEU(), "fails": lambda hypotheses, references: 1 / 0, "gen_len": TokenCount(PAD)}
    return Evaluator(metrics, decoder=decode, **options)


def run_loop(rank: int, processes: int, folder: Path, has_some: bool = False) -> Any:
    """A validation without references; the results, or the error."""
    writer = SummaryWriter(folder / f"board-{rank}")
    evaluator = make_evaluator(
        translations=folder / "t", loggers=[writer], confidence=0.9, compare_to="best", samples=2
    )
    sampler: Any = DistributedSampler(range(SIZE), processes, rank, shuffle=False)  # type: ignore[arg-type]
    loader: Any = DataLoader(range(SIZE), batch_size=2, sampler=sampler)  # type: ignore[arg-type]
    evaluator.start(loader)
    for prompts in loader:
        target = generate(prompts) if has_some and rank == 0 else None
        evaluator.update(generate(prompts), target, source=[f"prompt {number}" for number in prompts.tolist()])
    try:
        results = evaluator.finish(step=5)
    except ValueError as error:
        return str(error)
    writer.close()
    return results, evaluator.state_dict()


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_translations_are_written_and_shown_and_ids_are_counted(
    processes: int, pool: ProcessPool, tmp_path: Path
) -> None:
    for results, state in pool.run(processes, run_loop, tmp_path):
        assert [*results] == ["val_gen_len"]
        assert results["val_gen_len"].score == sum(number + 1 for number in range(SIZE)) / SIZE
        assert results["val_gen_len"].interval is not None
        assert results["val_gen_len"].comparison is None
        assert state == {}
    files = read_files(tmp_path / "t")
    lines = files.pop("scores.jsonl").splitlines()
    table = "".join(f"{number + 1}.0\n" for number in range(SIZE))
    assert files == {
        "val/step-0000005.txt": "".join(f"{line}\n" for line in decode(generate(torch.arange(SIZE)).tolist())).encode(),
        "val/step-0000005.tsv": f"gen_len\n{table}".encode(),
        "val/src.txt": "".join(f"prompt {number}\n" for number in range(SIZE)).encode(),
    }
    of_file, of_score = read_scores(tmp_path / "t" / "scores.jsonl")
    assert len(lines) == 2
    assert (of_file["key"], of_file["score"], of_file["references"]) == (None, None, False)
    assert (of_score["key"], of_score["score"]) == ("val_gen_len", 4)
    assert {line["file"] for line in (of_file, of_score)} == {"val/step-0000005.txt"}
    events = read_events(tmp_path / "board-0")
    shown = events.Tensors("val_samples/text_summary")[0].tensor_proto.string_val[0].decode()
    text = re.sub("[\u2066-\u2069]", "", html.unescape(shown))
    assert "prompt 1<br><code>hyp</code> w2 |" in text  # no word is marked
    assert "source, hypothesis |" in text
    assert "ref" not in text
    assert "val_worst/text_summary" not in events.Tags()["tensors"]


@pytest.mark.slow
def test_processes_with_and_without_references_are_an_error(pool: ProcessPool, tmp_path: Path) -> None:
    messages = pool.run(2, run_loop, tmp_path, True)
    assert messages == ["'update' got 'target' in some processes only: pass it in all, or in none"] * 2


def test_batches_with_and_without_references_are_an_error_that_changes_nothing() -> None:
    message = "'update' got 'target' for some batches only: pass it for all, or for none"
    for batches in ((["a"], None), (None, ["a"])):
        evaluator = Evaluator(CorpusBLEU())
        evaluator.start()
        evaluator.update(["masked"], batches[1], sample_mask=[False])
        evaluator.update(["a"], batches[0])
        with pytest.raises(ValueError, match=message):
            evaluator.update(["a"], batches[1])
        assert [result.score for result in evaluator.finish(0).values()] == ([0] if batches[0] else [])


def test_some_loaders_may_have_references_and_groups_of_others_none() -> None:
    metrics: Any = {"bleu": CorpusBLEU(max_order=1), "sources": lambda hypotheses, references, sources: [1.0]}
    evaluator = Evaluator(metrics)
    evaluator.start({"news": None, "prompts": None})
    evaluator.update(["a b"], ["a c"], source=["x"], dataloader_idx=0, group=["de"])
    evaluator.update(["c"], None, dataloader_idx=1, group=["zh"])
    results = evaluator.finish(0)
    assert {name for name in results if "prompts" in name} == set()
    assert results["val_bleu"].score == results["val_bleu/news/de"].score == 0.5
    assert {name for name in results if "de" not in name and "mean" not in name} == {
        "val_bleu",
        "val_bleu/news",
        "val_sources",
        "val_sources/news",
    }


Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Validate in one folder, and return the file of the hypotheses."""

    def validate(step: int, preds: list[str], target: Any, **fields: Any) -> Path:
        evaluator = Evaluator({"chrf": CorpusCHRF()}, translations=tmp_path)
        evaluator.start()
        evaluator.update(preds, target, **fields)
        evaluator.finish(step)
        return tmp_path / "val" / f"step-{step:07}.txt"

    return validate


LINES = ["a b c", "d e", "f"]


def test_files_of_earlier_references_stay_and_are_not_paired(write: Write, tmp_path: Path) -> None:
    scored = write(1, LINES, ["a b", "d", "f"], source=["x", "y", "z"])
    files = read_files(tmp_path / "val")
    unscored = write(2, ["c", "d", "e"], None)
    assert read_files(tmp_path / "val") == files | {"step-0000002.txt": b"c\nd\ne\n"}
    for systems in ({"a": scored, "b": unscored}, {"a": unscored, "b": scored}, {"a": unscored}):
        with pytest.raises(ValueError, match=r"step-0000002.txt' was written without references, .*: pass references"):
            compare_systems(systems)
    comparison = compare_systems({"unscored": unscored}, references=LINES, metrics=CorpusCHRF())
    assert comparison.texts.hypotheses == {"unscored": ["c", "d", "e"]}
    assert compare_systems({"scored": scored}).texts.references[0] == ["a b"]
    with pytest.raises(ValueError, match=r"has no line about a score of it that can be read.*: pass metrics"):
        compare_systems({"unscored": unscored}, references=LINES)


def test_other_sources_beside_earlier_references_are_warned_about(write: Write) -> None:
    write(1, LINES, LINES, source=LINES)
    write(2, LINES, None, source=LINES)
    with pytest.warns(UserWarning, match=r"^The references or sources in '.*val' were replaced, because this"):
        write(3, LINES, None, source=LINES[::-1])
    assert (write(1, LINES, LINES, source=LINES[::-1]).parent / "ref.txt").read_text() == "a b c\nd e\nf\n"


def test_a_step_of_lightning_returns_none_as_the_target(tmp_path: Path) -> None:
    def step(batch: Tensor, epoch: int) -> dict[str, Any]:
        return {"preds": batch, "target": None, "source": batch}

    sentences = torch.tensor([[5, 6, EOS], [7, EOS, PAD], [8, EOS, PAD]])
    metrics: Any = {"bleu": CorpusBLEU(pad_id=PAD), "gen_len": TokenCount()}
    callback = BLEUCallback(metrics, translations=tmp_path / "t", decoder=decode)
    logged = validate(tmp_path, callback, step=step, loaders=make_loader(sentences))
    assert logged == {"val_gen_len": pytest.approx(7 / 3)}
    assert (tmp_path / "t" / "val" / "step-0000000.txt").read_text() == "w5 w6\nw7\nw8\n"
    with pytest.raises(TypeError, match=r"needs hypotheses and references, but got the keys \['preds'\]"):
        validate(tmp_path, BLEUCallback(metrics), step=lambda batch, epoch: {"preds": batch})


def test_hypotheses_that_begin_with_their_prompt_are_warned_about() -> None:
    evaluator = Evaluator(CorpusBLEU())
    evaluator.start()
    prompts = [f"translate sentence {number}" for number in range(5)]
    evaluator.update([f"{prompt}: and here is the answer" for prompt in prompts], None, source=prompts)
    with pytest.warns(UserWarning, match="5 of 5 hypotheses contain their source"):
        evaluator.finish(0)


def test_a_metric_alone_needs_references() -> None:
    for metric in (CorpusBLEU(), CorpusCHRF()):
        with pytest.raises(TypeError, match="'target'"):
            metric.update(["a"], None)  # type: ignore[arg-type]
