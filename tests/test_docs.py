"""The README and the documentation: Python blocks run, links lead somewhere, and the API reference is complete."""

from __future__ import annotations

import inspect
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import torch

import lightning_bleu
import lightning_bleu.compare
import lightning_bleu.hugging_face
import lightning_bleu.tasks
from lightning_bleu import BLEUCallback, Evaluator, FunctionMetric
from lightning_bleu.compare.command import parse_arguments
from lightning_bleu.evaluation.input.outputs import Output
from tests.helpers.examples import EXAMPLES, run_script
from tests.helpers.pages import blocks, outputs, parse, run_page

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
PAGES_RUN_ELSEWHERE = {"hugging_face.md"}
"""Pages whose Python blocks run in the test module of the same name, which also tests what they define."""
PAGES_THAT_TRAIN = {"first_dashboard.md"}
"""Pages whose models, and so their numbers, differ a little from processor to processor."""
PROGRAMS = [page for page in PAGES if blocks(page, "python") and page.name not in PAGES_RUN_ELSEWHERE]

LANGUAGES = {"python", "sh", "text", "yaml"}
DIRECTIVES = {"include", "toctree"}


def name(path: Path) -> str:
    """A file's path within the repository."""
    return path.relative_to(ROOT).as_posix()


def links(path: Path) -> Iterator[str]:
    """The targets of all links and images."""
    for token in parse(path):
        for child in token.children or []:
            target = child.attrGet("href") or child.attrGet("src")
            if target is not None:
                yield str(target)


def anchors(path: Path) -> set[str]:
    """The anchors of all headings, and those with a name."""
    tokens = parse(path)
    headings = [text.content for opening, text in pairwise(tokens) if opening.type == "heading_open"]
    named = re.findall(r"\]\{#([\w-]+)\}", path.read_text(encoding="utf-8"))
    return {*named, *(re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings)}


COMMANDS = sorted({line for page in PAGES for block in blocks(page, "sh") for line in block.content.splitlines()})


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.long] * (page.name in PAGES_THAT_TRAIN)) for page in PROGRAMS],
    ids=name,
)
def test_python_blocks_run_in_order(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In an empty folder, with the examples to import from, and with a fixed seed. They print what the page shows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)
    torch.manual_seed(0)
    run_page(page)
    printed = capsys.readouterr().out
    if page.name not in PAGES_THAT_TRAIN:
        for output in outputs(page):
            assert output in printed


def test_the_other_pages_run_in_the_test_modules_of_the_same_name() -> None:
    for page in PAGES_RUN_ELSEWHERE:
        (path,) = (ROOT / "tests").rglob(f"test_{Path(page).stem}.py")
        module = path.read_text(encoding="utf-8")
        assert "run_page(" in module
        assert f'"docs" / "{page}"' in module


def test_every_block_has_a_known_language() -> None:
    """So no Python block escapes the test above."""
    for page in PAGES:
        for token in parse(page):
            assert token.type != "code_block", f"{page}: indented code has no language: {token.content}"
            if token.type == "fence":
                directive = re.match(r"{(\w+)}", token.info)
                assert directive[1] in DIRECTIVES if directive else token.info in LANGUAGES, page
        assert len(blocks(page, "python")) == page.read_text(encoding="utf-8").count("```python"), page


def test_pages_have_no_roles() -> None:
    """Which are shown as they are where the code is hosted."""
    for page in PAGES:
        texts = (child.content for token in parse(page) for child in token.children or [] if child.type == "text")
        assert not [text for text in texts if re.search(r"\{\w+\}$", text)], page


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for link in links(page):
            if not link.startswith("https://"):
                target, _, anchor = link.partition("#")
                path = page.parent / target if target else page
                assert path.exists(), (page, link)
                assert not anchor or anchor in anchors(path), (page, link)


def is_long(command: str) -> bool:
    """Whether a command starts a process that imports or builds for seconds, or an example."""
    return command.removeprefix(".venv/bin/").split()[0] in ("pip", "tensorboard", "sacrebleu", "python")


@pytest.mark.slow
@pytest.mark.parametrize("command", [pytest.param(one, marks=[pytest.mark.long] * is_long(one)) for one in COMMANDS])
def test_commands_are_understood(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each as far as it goes without doing the work."""
    program, *arguments = shlex.split(command.removeprefix(".venv/bin/"), comments=True)
    options = {argument for argument in arguments if argument.startswith("-")}
    if program == "make":
        run = ["make", "--dry-run", *arguments]
    elif program == "pip":
        run = [sys.executable, "-m", "pip", *arguments, "--dry-run", "--no-deps", "--no-build-isolation", "--quiet"]
    elif program == "tensorboard":
        run = [sys.executable, "-m", "tensorboard.main", *arguments, "--version_tb"]
    elif program == "python":
        with pytest.raises(SystemExit, match=r"^0$"):
            run_script(ROOT / arguments[0], "--help")
        assert options <= option_names(capsys.readouterr().out)
        return
    elif program == "lightning-bleu":
        parse_arguments(arguments)  # exits after an error
        return
    elif program == "sacrebleu":
        run = [sys.executable, "-m", "sacrebleu", "--help"]
    else:
        assert program == "comet-score"
        pytest.skip("needs COMET, which is not a dependency")
    done = subprocess.run(run, cwd=ROOT, check=True, capture_output=True, text=True)
    if run[-1] == "--help":
        assert options <= option_names(done.stdout)


def option_names(text: str) -> set[str]:
    return set(re.findall(r"--?[\w-]+", text))


PUBLIC = {
    **{name: ("api", getattr(lightning_bleu, name)) for name in lightning_bleu.__all__},
    **{name: ("api_tasks", getattr(lightning_bleu.tasks, name)) for name in lightning_bleu.tasks.__all__},
    **{
        name: ("api_hugging_face", getattr(lightning_bleu.hugging_face, name))
        for name in lightning_bleu.hugging_face.__all__
    },
    **{name: ("api_compare", getattr(lightning_bleu.compare, name)) for name in lightning_bleu.compare.__all__},
}
"""The public names, each with its page of the reference and what it names."""


def test_the_api_reference_has_every_public_name() -> None:
    for public, (page, _) in PUBLIC.items():
        reference = (ROOT / "docs" / f"{page}.rst").read_text(encoding="utf-8")
        assert re.search(rf"^\.\. (autoclass|autofunction|data):: {public}(\(\))?$", reference, re.MULTILINE), public


SECTIONS = ["Example", "Args", "Attributes", "Returns", "Raises", "Notes"]


def test_the_sections_of_public_docstrings_have_one_order() -> None:
    """A line, an example, arguments, results, errors, and at the end everything else."""
    values = [value for _, value in PUBLIC.values() if callable(value)]
    members = [member for value in values if inspect.isclass(value) for member in vars(value).values()]
    for documented in [*values, *filter(inspect.isfunction, members)]:
        documentation = inspect.getdoc(documented) or ""
        sections = re.findall(rf"^({'|'.join(SECTIONS)}):$", documentation, re.MULTILINE)
        assert sections == sorted(sections, key=SECTIONS.index), documented
        paragraphs = [text for text in documentation.split("\n\n") if not text.startswith(" ")]
        if sections and not documented.__name__.startswith("_"):
            assert [text.partition(":\n")[0] for text in paragraphs[1:]] == sections, documented


def first_column(path: Path, heading: str) -> list[str]:
    """The code in the first column of the table below a heading."""
    section = re.split(rf"\n##+ {heading}\n", path.read_text(encoding="utf-8"))[1].split("\n#")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return [code for cell in cells for code in re.findall(r"`(.*?)`", cell)]


def test_what_a_step_may_return_is_said_everywhere() -> None:
    """The fields are those of `Output`."""
    arguments = [*inspect.signature(Evaluator.update).parameters][1:]
    *fields, columns = Output._fields  # columns are all other keys
    assert arguments == [*fields, "batch_idx", "dataloader_idx", columns]
    of_table = first_column(ROOT / "docs" / "callback.md", "What the step returns")
    assert {key.strip('"') for key in of_table} == {*fields} - {"preds", "target"}
    assert set(fields) <= set(re.findall(r'"(\w+)"', inspect.getdoc(BLEUCallback) or ""))


def test_the_table_of_options_of_a_function_has_all_of_them() -> None:
    options = first_column(ROOT / "docs" / "other_metrics.md", "Options of a function")
    names = {option.partition("=")[0] for option in options}
    assert names == inspect.signature(FunctionMetric).parameters.keys() - {"function"}


def test_the_citation_has_the_current_version() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", citation, re.MULTILINE)[1] == lightning_bleu.__version__  # type: ignore[index]
