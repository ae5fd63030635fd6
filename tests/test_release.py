"""What a release promises, and how it is made: workflows, templates of issues, classifiers, the changelog."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

import lightning_bleu

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def load(path: Path) -> dict[str, Any]:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


def jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    """The jobs of all workflows by their names."""
    for path in WORKFLOWS:
        yield from load(path)["jobs"].items()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit_and_say_their_version(path: Path) -> None:
    lines = [
        line for line in path.read_text(encoding="utf-8").splitlines() if "uses: " in line and "uses: ./" not in line
    ]
    assert lines
    for line in lines:
        assert re.search(r"uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


def test_only_the_job_that_publishes_may_write_and_it_runs_no_code_of_the_repository() -> None:
    for path in WORKFLOWS:
        assert load(path)["permissions"] in ({}, {"contents": "read"}), path
    for name, job in jobs():
        expected = {"id-token": "write"} if name == "publish" else {"contents": "read"}
        assert job.get("permissions", {"contents": "read"}) == expected, name
        for step in job.get("steps", []):
            if "actions/checkout" in step.get("uses", ""):
                assert name != "publish"
                assert step["with"] == {"persist-credentials": False}
            assert name != "publish" or "run" not in step


def test_what_is_published_was_tested() -> None:
    release = load(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    assert release["publish"]["needs"] == "build"
    assert release["build"]["needs"] == "test"
    assert release["test"]["uses"] == "./.github/workflows/ci.yml"


def test_what_builds_a_release_is_pinned_with_hashes() -> None:
    lines = (ROOT / ".ci" / "build.txt").read_text(encoding="utf-8").replace("\\\n", "").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    for pin in pins:
        assert re.fullmatch(r"[\w-]+==\S+( ; [^#]+?)?( +--hash=sha256:[0-9a-f]{64})+", pin), pin
    assert {"build", "hatchling", "twine"} <= {pin.partition("==")[0] for pin in pins}
    script = (ROOT / ".ci" / "build").read_text(encoding="utf-8")
    assert re.findall(r"install .*", script) == [
        "install --quiet --require-hashes --no-deps --only-binary :all: --requirement .ci/build.txt"
    ]
    assert "build --no-isolation" in script


def test_what_is_published_is_uploaded_before_packages_that_are_not_pinned_run() -> None:
    steps = load(ROOT / ".github" / "workflows" / "release.yml")["jobs"]["build"]["steps"]
    build, upload, test = steps[-3:]
    assert build["run"] == "PYTHON=python bash .ci/build"
    assert upload["uses"].startswith("actions/upload-artifact@")
    assert test["run"] == "PYTHON=python bash .ci/release"
    assert not [step for step in steps[:-1] if "install" in step.get("run", "")]


def test_the_classifiers_name_the_pythons_whose_jobs_block() -> None:
    classifiers = ProjectMetadata(str(ROOT), PluginManager()).core.classifiers
    named = set(re.findall(r"Python :: (3\.\d+)$", "\n".join(classifiers), re.MULTILINE))
    blocking = set()
    others = set()
    for _, job in jobs():
        matrix = job.get("strategy", {}).get("matrix", {})
        pythons = {*matrix.get("python", []), *(entry["python"] for entry in matrix.get("include", []))}
        if job.get("continue-on-error"):
            others |= pythons
        else:
            assert job.get("runs-on", "ubuntu-latest") == "ubuntu-latest"
            blocking |= pythons
    assert named == blocking
    assert others
    assert [name for name in classifiers if name.startswith("Operating")] == ["Operating System :: POSIX :: Linux"]


def test_the_changelog_has_the_form_of_keep_a_changelog() -> None:
    versions = re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)
    for version in versions:
        assert re.fullmatch(r"\d+\.\d+\.\d+ - (\d{4}-\d{2}-\d{2}|unreleased)", version)
    assert versions[0].startswith(f"{lightning_bleu.__version__} - ")
    assert not [version for version in versions[1:] if version.endswith("unreleased")]
    kinds = set(re.findall(r"^### (.*)$", CHANGELOG, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_citation_has_the_date_of_the_newest_release() -> None:
    date = re.findall(r"^## \S+ - (\S+)$", CHANGELOG, re.MULTILINE)[0]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    released = re.findall(r"^date-released: (.*)$", citation, re.MULTILINE)
    assert released == ([] if date == "unreleased" else [date])
