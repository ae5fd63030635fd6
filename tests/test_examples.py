"""The examples, at a small size."""

from __future__ import annotations

import contextlib
import io
import logging
import math
import random
import re
import shutil
import statistics
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
import torch

from lightning_bleu import corpus_bleu
from tests.helpers.examples import EXAMPLES, load_example, run_script
from tests.helpers.lightning import read_events
from tests.helpers.process_groups import run_in_processes

ROOT = Path(__file__).parents[1]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Loads an example whose functions that make sentence pairs make at most so many."""

    def limited(make: Callable[[int], Any], limit: int) -> Callable[[int], Any]:
        return lambda count: make(min(count, limit))

    def load(name: str, **limits: int) -> Any:
        example = load_example(name, monkeypatch)
        for function, limit in limits.items():
            monkeypatch.setattr(example, function, limited(getattr(example, function), limit))
        return example

    return load


def logged_names(folder: Path) -> set[str]:
    """The names of the scalars in the only TensorBoard file below a folder."""
    (events,) = folder.rglob("events.out.tfevents.*")
    return set(read_events(events.parent).Tags()["scalars"])


@pytest.mark.slow
@pytest.mark.long
def test_train_translation_prints_its_score_and_writes_logs_and_checkpoints(
    tmp_path: Path,
    load: Any,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    options = ["--max-steps", "4", "--limit-train", "200", "--vals-per-epoch", "3", "--logdir", str(tmp_path / "runs")]
    for name, words in (("src", "eins zwei drei"), ("tgt", "one two three")):
        lines = [" ".join(words.split()[(i * j) % 3] for j in range(1, 8)) + f" {i}." for i in range(300)]
        (tmp_path / name).write_text("\n".join(lines))
        options += [f"--{name}", str(tmp_path / name)]
    result = load("train_translation").main(options)
    printed, errors = capsys.readouterr()
    assert printed.startswith("Data: ")
    assert "Epoch 1 of 2" in printed
    assert "v_num" not in printed
    assert errors == ""
    # Lightning's messages have another logger if both of its packages are loaded.
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert str(result) in printed
    assert result.signature in printed
    for score in ("BLEU", "chrF2"):
        assert re.search(rf"{score} = \d+\.\d\d \(95% interval", printed)
    command = re.search(r"^TensorBoard (\S+) --logdir", printed, re.MULTILINE)
    assert command is not None
    assert shutil.which(command[1])
    page = re.search(r"^Read next +(\S+):", printed, re.MULTILINE)
    assert page is not None
    assert (ROOT / page[1]).is_file()
    events = next((tmp_path / "runs").rglob("events.out.tfevents.*"))
    (table,) = read_events(events.parent).Tensors("test_worst/text_summary")
    in_tensorboard = re.findall(r"<pre> *(\d+)</pre>", table.tensor_proto.string_val[0].decode())
    assert re.findall(r"^ +#(\d+) ", printed, re.MULTILINE) == in_tensorboard[:2]
    assert list((tmp_path / "runs").rglob("*.ckpt"))
    assert list((tmp_path / "runs").rglob("results.html"))


def run_and_read(path: Path, *arguments: str) -> str:
    """Run a script, and return what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        run_script(path, *arguments)
    return printed.getvalue()


@pytest.mark.long
def test_train_translation_in_two_processes_counts_each_sentence_once(tmp_path: Path) -> None:
    options = ["--devices", "2", "--max-steps", "4", "--limit-train", "200", "--vals-per-epoch", "3"]
    script = EXAMPLES / "train_translation.py"
    first, second = run_in_processes(2, run_and_read, script, *options, "--logdir", str(tmp_path))
    assert first.count("Test score  BLEU = ") == 1
    # The 250 test sentences have 2,871 tokens, as a run in one process prints.
    assert "ref_len = 2871)" in first
    assert second == ""


@pytest.mark.long
@pytest.mark.slow
def test_fabric_in_two_processes_counts_each_sentence_once(tmp_path: Path) -> None:
    options = ["--epochs", "2", "--logdir", str(tmp_path)]
    first, second = run_in_processes(2, run_and_read, EXAMPLES / "fabric.py", *options)
    assert re.match(r"BLEU = .* ref_len = 1032\)\nchrF2 = \S+\n$", first)  # 129 sentences of 8 words
    assert second == ""
    assert {"val_bleu", "val_bleu/low", "val_chrf"} <= logged_names(tmp_path)
    assert len(next((tmp_path / "translations" / "val").glob("*/ref.txt")).read_text().splitlines()) == 129
    assert torch.load(tmp_path / "last.ckpt")["evaluator"]["best"].keys() == {"val_bleu", "val_chrf"}


@pytest.mark.slow
@pytest.mark.long
def test_train_translation_shows_nothing_but_its_own_output(tmp_path: Path) -> None:
    options = ["--max-steps", "1", "--limit-train", "200", "--logdir", str(tmp_path)]
    script = [sys.executable, str(EXAMPLES / "train_translation.py"), *options]
    done = subprocess.run(script, check=True, capture_output=True, text=True)
    assert done.stdout.startswith("Data: ")
    assert done.stdout.count("Test score  BLEU = ") == 1
    assert "v_num" not in done.stdout
    assert done.stderr == ""


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "limit", "scores", "printed"),
    [
        ("hugging_face", 320, {"val_bleu"}, r"BLEU = .*\n.*nrefs:1\|.*\|tok:13a\|"),
        ("language_model", 2_000, {"val_bleu", "val_chrf"}, r"^BLEU = .*\nchrF2 = .*\nnrefs:1\|.*\|tok:13a\|"),
    ],
)
def test_an_example_is_short_and_logs_and_prints_scores_of_text_without_a_warning(
    name: str, limit: int, scores: set[str], printed: str, load: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= 170
    load(name, number_pairs=limit).main(["--max-steps", "4", "--logdir", str(tmp_path)])
    output, errors = capsys.readouterr()
    assert re.search(printed, output, re.MULTILINE)
    assert "warn" not in (output + errors).lower()
    assert scores <= logged_names(tmp_path)


@pytest.mark.slow
def test_hugging_face_labels_are_the_ids_of_the_targets(load: Any) -> None:
    example = load("hugging_face")
    pairs = example.number_pairs(40)
    tokenizer = example.make_tokenizer([line for pair in pairs for line in pair])
    collator = example.DataCollatorForSeq2Seq(tokenizer, example.make_model(tokenizer))
    batch = example.collate(pairs, tokenizer, collator)
    assert (batch["labels"] == -100).any()
    assert corpus_bleu(batch["labels"], [target for _, target in pairs], decoder=tokenizer) == 1


@pytest.mark.slow
def test_language_model_learns_the_answers_and_their_ends_and_nothing_else(load: Any) -> None:
    example = load("language_model")
    pairs = example.number_pairs(40)
    tokenizer = example.make_tokenizer([line for pair in pairs for line in pair])
    batch = example.collate(pairs, tokenizer)
    prompts, inputs, labels = batch["prompts"]["input_ids"], batch["inputs"]["input_ids"], batch["inputs"]["labels"]
    width = prompts.shape[1]
    assert torch.equal(inputs[:, :width], prompts)
    assert (prompts[:, -1] != tokenizer.pad_token_id).all()
    assert (prompts[:, 0] == tokenizer.pad_token_id).any()
    assert (labels[:, :width] == -100).all()
    learned = labels != -100
    assert torch.equal(inputs[learned], labels[learned])
    assert ((labels == tokenizer.eos_token_id).sum(1) == 1).all()
    answers = [row[row != -100].tolist() for row in labels]
    assert tokenizer.batch_decode(answers) == [target + example.END for _, target in pairs]
    # Everything that is not padding is attended to, and so is the end of each answer.
    attended = (inputs != tokenizer.pad_token_id) | (labels == tokenizer.eos_token_id)
    assert torch.equal(batch["inputs"]["attention_mask"].bool(), attended)


def documented_scores() -> dict[str, int]:
    """The table of mistakes in the documentation."""
    page = (ROOT / "docs" / "decoder_only.md").read_text(encoding="utf-8")
    return {row: int(score) for row, score in re.findall(r"^\| (\S.*?) \| (\d+) \|", page, re.MULTILINE)}


@pytest.mark.slow
@pytest.mark.long
def test_language_model_mistakes_score_as_the_documentation_says(load: Any) -> None:
    scores, documented = load("language_model_mistakes").main([]), documented_scores()
    # Training ends differently on another processor, and the page rounds to tens.
    assert {row: scores[row] for row in documented} == pytest.approx(documented, abs=25)
    right, teacher_forced = scores["the right way"], scores["logits masked and shifted"]
    not_far_below = {
        "the right way",
        "prompts in both",
        "`generate` gets the references, prompts cut off",
        "no attention mask",
        "no stop at `eos`, but `eos_id` is set",
        "logits masked, not shifted",
        "logits masked and shifted",
    }
    assert {row for row, score in scores.items() if score > right - 20} == not_far_below
    assert scores["no stop at `eos`, but `eos_id` is set"] == right
    assert scores["prompts in both"] > right + 3
    assert scores["no attention mask, 64 more tokens of padding"] < scores["no attention mask"] - 10
    assert scores["logits masked, not shifted"] < teacher_forced - 3


def test_papineni_blocks_prints_the_table_of_systems_in_files(
    tmp_path: Path, load: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    example = load("papineni_blocks")
    sentences = [" ".join("abcdefgh"[(i * j) % 8] for j in range(1, 9)) for i in range(60)]
    texts = {"ref": sentences, "sys.good": sentences[:50] + ["?"] * 10, "sys.bad": ["?"] * 10 + sentences[:50]}
    for name, text in texts.items():
        (tmp_path / f"{name}.de").write_text("\n".join(text))
    files = [str(tmp_path / f"{name}.de") for name in texts]
    # "good" equals the reference in the first 50 sentences, so its score is 1 in every block.
    example.main(["--sentences", "50", "--blocks", "10", "--refs", files[0], "--systems", *files[1:]])
    rows = {line[:18].strip(): line[18:].split() for line in capsys.readouterr().out.splitlines()[2:]}
    assert rows[""] == ["bad", "good"]
    assert rows["BLEU"][1] == rows["mean"][1] == "1.0000"
    # the mean, the sample standard deviation, and t of the paper: the mean difference divided by its standard error
    bad = [corpus_bleu(texts["sys.bad"][i : i + 5], sentences[i : i + 5]).bleu for i in range(0, 50, 5)]
    assert 0 < statistics.fmean(bad) < 0.9
    assert rows["mean"][0] == f"{statistics.fmean(bad):.4f}"
    assert rows["standard deviation"] == [f"{statistics.stdev(bad):.4f}", "0.0000"]
    assert rows["t"] == ["-", f"{(1 - statistics.fmean(bad)) / (statistics.stdev(bad) / 10**0.5):.1f}"]


@pytest.mark.long
def test_papineni_blocks_trains_and_scores_a_checkpoint_every_100_steps(tmp_path: Path, load: Any) -> None:
    load("train_translation", number_pairs=56)
    options = ["--sentences", "40", "--blocks", "4", "--max-steps", "200", "--logdir", str(tmp_path / "run")]
    assert list(load("papineni_blocks").main(options)) == ["step 100", "step 200"]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Lightning calls what jsonargparse deprecates
def test_lightning_cli_scores_and_saves_checkpoints_as_its_config_says(tmp_path: Path) -> None:
    options = ["--trainer.max_epochs=1", f"--trainer.default_root_dir={tmp_path}", "--trainer.accelerator=cpu"]
    options += ["--data.size=200", "--trainer.log_every_n_steps=4"]
    run_script(EXAMPLES / "lightning_cli.py", "fit", "--config", str(EXAMPLES / "lightning_cli.yaml"), *options)
    assert {"val_bleu", "val_unigram"} <= logged_names(tmp_path)
    assert list(tmp_path.rglob("*val_bleu=*.ckpt"))
    (saved,) = tmp_path.rglob("config.yaml")  # can be used again
    assert saved.read_text(encoding="utf-8").count("class_path: lightning_bleu.CorpusBLEU") == 2


@pytest.mark.slow
def test_minimal_is_short_and_logs_the_score_without_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = EXAMPLES / "minimal.py"
    assert len(script.read_text(encoding="utf-8").splitlines()) <= 40
    monkeypatch.chdir(tmp_path)
    run_script(script)
    output, errors = capsys.readouterr()
    assert any(shown in output for shown in ("val_bleu: 1.000", "val_bleu=1.000"))  # Rich or tqdm
    assert "warn" not in (output + errors).lower()
    assert "val_bleu" in logged_names(tmp_path)


def test_mistakes_prints_the_table_of_its_docstring(load: Any, capsys: pytest.CaptureFixture[str]) -> None:
    example = load("mistakes")
    example.main([])
    assert textwrap.indent(capsys.readouterr().out, "    ") in example.__doc__


def test_captioning_prints_cider_and_bleu_1_to_4(load: Any, capsys: pytest.CaptureFixture[str]) -> None:
    scores = load("captioning").main([])
    # The images share no n-gram, so all n-grams have the same weight, and each cosine is that of their counts. First
    # image: 1 for n = 1 to 4 with the reference that is equal; with the other, 4 of 5 words and 1 of 4 pairs. Second
    # image: 1 of 2 words with "boys play"; with "two boys", 1 for n = 1 and 2.
    first = (4 + 4 / math.sqrt(5 * 5) + 1 / math.sqrt(4 * 4)) / 8
    second = (1 / 2 + 2) / 8
    assert scores["val_cider"] == pytest.approx(10 * (first + second) / 2)
    assert re.search(r"bleu_1.*bleu_2.*bleu_3.*bleu_4", capsys.readouterr().out)


def test_rouge_l_of_captions_is_that_of_pycocoevalcap(load: Any) -> None:
    """Of 4 words, 3 are in the first reference, in order, and 1 is all of the second: precision 3/4, and recall 1."""
    hypotheses, references = ["a bowl in snow", ""], [["the bowl in the snow", "snow"], ["a cat"]]
    precision, recall = 3 / 4, 1
    expected = (1 + 1.2**2) * precision * recall / (recall + 1.2**2 * precision)
    assert load("captioning").rouge_l(hypotheses, references) == pytest.approx([expected, 0])


def test_ways_to_score_prints_how_far_each_is_from_sacrebleu(
    tmp_path: Path, load: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(1)
    references = [
        " ".join(rng.choices(["the", "cat,", "sat", "on", "a", "mat."], k=rng.randint(4, 20))) for _ in range(70)
    ]
    hypotheses = [line.replace("cat", "dog") if rng.random() < 0.5 else line for line in references]
    files = [tmp_path / "hypotheses.txt", tmp_path / "references.txt"]
    for file, lines in zip(files, (hypotheses, references)):
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    scores = load("ways_to_score").main([str(file) for file in files])
    published = sacrebleu.corpus_bleu(hypotheses, [references]).score
    assert scores["sacreBLEU"] == published
    assert scores["lightning_bleu, batch by batch"] == pytest.approx(published, abs=1e-9)
    # PyTorch's sampler repeats the first sentences until all processes have the same number.
    repeated = [*range(70), *range(58)]
    expected = sacrebleu.corpus_bleu([hypotheses[i] for i in repeated], [[references[i] for i in repeated]]).score
    assert scores["with the repeats of 64 processes"] == pytest.approx(expected, abs=1e-9)
    batches = [sacrebleu.corpus_bleu(hypotheses[i : i + 32], [references[i : i + 32]]).score for i in range(0, 70, 32)]
    assert scores["mean of batches of 32"] == pytest.approx(statistics.fmean(batches), abs=1e-9)
    assert len({round(score, 6) for score in scores.values()}) == len(scores) - 1
    printed = capsys.readouterr().out
    assert re.search(rf"^mean of sentences +{scores['mean of sentences']:.2f} ", printed, re.MULTILINE)
    assert re.search(rf"^lightning_bleu, batch by batch +{published:.2f}  \+0.00$", printed, re.MULTILINE)


@pytest.mark.long
def test_ways_to_score_gives_the_numbers_of_the_readme_and_of_subwords(load: Any, wmt22: Path) -> None:
    files = [str(wmt22 / f"generaltest2022.en-de.{name}.de") for name in ("hyp.Online-W", "ref.A")]
    main = load("ways_to_score").main
    scores = main(files)
    names = ["sacreBLEU", "lightning_bleu, batch by batch", "mean of sentences", "mean of batches of 32"]
    names.append("words split at spaces")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = readme.split("| BLEU of |")[1].split("\n\n")[0]
    assert re.findall(r"\d\d\.\d\d", rows) == [f"{scores[name]:.2f}" for name in names]
    page = (ROOT / "docs" / "text_and_ids.md").read_text(encoding="utf-8")
    assert f"{scores['ids of subwords']:.2f} with 8,000" in page
    assert f"{main([*files, '--vocabulary', '2000'])['ids of subwords']:.2f} with 2,000" in page
