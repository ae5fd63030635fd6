"""The validations in the record of a run, and the best of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightning_bleu.core.messages import WarnOnce
from lightning_bleu.evaluation.names import join_place
from lightning_bleu.evaluation.texts.findings import Finding
from lightning_bleu.observers.recorded import find_validations, read_validation


@dataclass(frozen=True)
class RecordedValidation:
    """A validation in the record of a run.

    Attributes:
        stage: ``"val"`` or ``"test"``; in Trainers of Transformers, ``"eval"``, or ``"eval_news"`` for a
            dataset with a name.
        step: the number of training steps before it.
        epoch: the epoch; None if it is unknown.
        scores: its scores in ``scores.json``, by logged name.
        folders: the folders of its sentences, by the names of the loaders.
        sentence_counts: the numbers of its sentences, by the same names.
        findings: what stands out in its texts.
    """

    stage: str
    step: int
    epoch: float | None
    scores: Mapping[str, dict[str, Any]]
    folders: Mapping[str, Path]
    sentence_counts: Mapping[str, int]
    findings: Sequence[Finding]

    def score(self, key: str) -> float | None:
        """The score with a logged name; None if there is none."""
        line = self.scores.get(key)
        return None if line is None else line["score"]

    def basis(self, key: str) -> Any:
        """What validations must share so that their scores can be compared: metric, settings, unit, sentences."""
        members = self.scores[key]["mean_of"] or [key]
        lines = [self.scores[member] for member in members if member in self.scores]
        basis = []
        for line in lines:
            basis += [line["key"], line["class"], line["settings"], line["percent"]]
            basis.append(self.sentence_counts.get(line["loader"] or ""))
        return basis


def read_validations(run: Path) -> list[RecordedValidation]:
    """The validations of a run, one per step: of each loader, the last one. Tests come last.

    Those that cannot be read are skipped with a warning.

    Raises:
        ValueError: if none can be read.
    """
    validations_by_step: dict[tuple[Path, int], RecordedValidation] = {}
    warn = WarnOnce()
    for path in find_validations(run):
        try:
            validation = read_validation(path)
        except (ValueError, OSError) as error:
            warn(f"{error}. This validation is skipped, and others that cannot be read", "unreadable")
            continue
        step = (path.parent, validation["step"])
        validations_by_step[step] = _merge(validations_by_step.get(step), validation)
    if not validations_by_step:
        raise ValueError(f"no validation in {str(run)!r} can be read")
    return sorted(validations_by_step.values(), key=lambda one: (is_test(one.stage), one.stage, one.step))


def _merge(earlier: RecordedValidation | None, later: Mapping[str, Any]) -> RecordedValidation:
    """A validation, with what the one before it has of other loaders at the same step."""
    folders = {loader["name"]: loader["folder"] for loader in later["loaders"]}
    sentence_counts = {loader["name"]: loader["sentences"] for loader in later["loaders"]}
    findings = []
    for loader in later["loaders"]:
        for finding in loader["findings"]:
            where = join_place(loader["name"], finding["group"])
            findings.append(Finding(finding["key"], finding["message"], where))
    lines = {line["key"]: line for line in later["scores"]}
    if earlier is not None:
        findings = [finding for finding in earlier.findings if not _is_of(finding, folders)] + findings
        lines = {**earlier.scores, **lines}
        folders = {**earlier.folders, **folders}
        sentence_counts = {**earlier.sentence_counts, **sentence_counts}
    return RecordedValidation(later["stage"], later["step"], later["epoch"], lines, folders, sentence_counts, findings)


def _is_of(finding: Finding, loaders: Iterable[str]) -> bool:
    """Whether a finding is of one of some loaders, or of a group in it; all are of a loader without a name.

    Example:
        >>> [_is_of(Finding("loops", "...", where), ["news"]) for where in ("news/de", "newsletter")]
        [True, False]
    """
    return any(not loader or f"{finding.where}/".startswith(f"{loader}/") for loader in loaders)


def is_test(stage: str) -> bool:
    """Whether a stage is a test, which Trainers of Transformers name after its dataset: ``"test_news"``."""
    return stage == "test" or stage.startswith("test_")


def find_main_key(validations: Sequence[RecordedValidation]) -> str:
    """The name of the score of all sentences of the first metric that has a direction; empty if there is none."""
    lines = [line for one in validations for line in one.scores.values() if line["higher_is_better"] is not None]
    keys = [line["key"] for line in lines if line["metric"] == lines[0]["metric"]]
    return min(keys, key=len, default="")  # those of loaders, groups, and scores are longer


def find_comparable(validations: Sequence[RecordedValidation], key: str) -> list[RecordedValidation]:
    """The validations whose scores can be compared with that of the latest one."""
    scored = [validation for validation in validations if validation.score(key) is not None]
    basis = scored[-1].basis(key) if scored else None
    return [validation for validation in scored if validation.basis(key) == basis]


def find_best(validations: Sequence[RecordedValidation], key: str) -> RecordedValidation | None:
    """The best of the validations that can be compared with the latest one; None for a score without a direction."""
    signs = {True: 1, False: -1, None: 0}
    comparable = [one for one in find_comparable(validations, key) if signs[one.scores[key]["higher_is_better"]]]
    gains = [one.scores[key]["score"] * signs[one.scores[key]["higher_is_better"]] for one in comparable]
    return comparable[gains.index(max(gains))] if gains else None


def choose_validation(validations: Sequence[RecordedValidation]) -> RecordedValidation:
    """The best validation by the main score; without one, the latest. Tests count only if there is nothing else."""
    candidates = [validation for validation in validations if not is_test(validation.stage)] or validations
    return find_best(candidates, find_main_key(candidates)) or candidates[-1]
