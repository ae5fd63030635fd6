"""The record of a run: a folder for each validation, with its sentences and its scores."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lightning_bleu.core.batch import Sentence
from lightning_bleu.core.packed_rows import count_inputs
from lightning_bleu.evaluation.scores.validation import Scored, ScoredLoader, Validation
from lightning_bleu.observers.recorded import (
    FORMAT,
    SCORES,
    SENTENCES,
    check_form,
    find_validations,
    name_folder,
    name_run,
    read_name,
)

_EPOCH = re.compile(rb'"epoch": [^,]*')
_PAUSES = (0.1, 0.3, 1.0)
"""How many seconds to wait before another try to rename a folder."""
_HIDDEN = re.compile(r"\.step-\d{7,}-[0-9a-f]{32}")


class Record:
    """The folder of a run, with a folder for each validation. Only process 0 calls its methods.

    A validation is written to a hidden folder, and gets its name when it is complete: ``val/step-0000500``, or
    ``val/step-0000500-2`` if the step was validated before, with other results. The same results write nothing.

    Args:
        folder: the folder.

    Attributes:
        folder: see above.
        run_name: the name of the run; see :func:`name_run`.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).expanduser()
        self.run_name = name_run(self.folder)
        self._has_written = False
        self._written: dict[Path, dict[str, Path]] = {}  # the last files of each stage by their names

    def check_new(self, ways_out: str) -> None:
        """Check that a new run does not write among the validations of another one, unless this object wrote them.

        Raises:
            ValueError: if it does, with the ways out.
        """
        has_trained = any(read_name(path)[0] > 0 for path in find_validations(self.folder))
        if has_trained and not self._has_written:
            has = f"{str(self.folder)!r} has the translations of another training run"
            raise ValueError(f"{has}: use another folder for each run, {ways_out}")

    def check_folder(self, *names: str) -> None:
        """Create the folder of a stage, and remove what killed runs have left there; see :func:`name_folder`.

        Raises:
            ValueError: if it cannot be created, if files cannot be written there, or for a record of another form.
        """
        check_form(self.folder)
        folder = name_folder(self.folder, *names)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
            _remove_unfinished(folder)
        except OSError as error:
            raise ValueError(f"'translations' must be a folder for files, got {str(folder)!r}: {error}") from error

    def write(self, validation: Validation, *, step: int, epoch: float | None) -> None:
        """Write the sentences and the scores of a validation, if it has any.

        Args:
            validation: the validation.
            step: the number of training steps before it.
            epoch: the epoch; None if it is unknown.

        Raises:
            OSError: if something cannot be written. Then the validation is not recorded.
        """
        self._has_written = True
        if not validation.loaders:
            return
        folder = name_folder(self.folder, *validation.naming.folder)
        contents = _list_contents(validation, step, epoch)
        written = self._written.setdefault(folder, {})
        try:
            folder.mkdir(parents=True, exist_ok=True)
            place = write_folder(folder, step, contents, written)
        except OSError as error:
            advice = "Nothing of this validation was recorded: make room, or set 'translations' to another folder"
            raise OSError(error.errno, f"{error.strerror}. {advice}", error.filename or str(folder)) from error
        written.update({name: place / name for name in contents})


def _remove_unfinished(folder: Path) -> None:
    """Remove the hidden folders of runs that were killed more than a day ago."""
    for path in folder.glob(".step-*"):
        with contextlib.suppress(FileNotFoundError):  # another run may remove it, too
            if _HIDDEN.fullmatch(path.name) and path.stat().st_mtime < time.time() - 24 * 60 * 60:
                shutil.rmtree(path, ignore_errors=True)


def write_folder(folder: Path, step: int, contents: Mapping[str, bytes], earlier: Mapping[str, Path]) -> Path:
    """Write the files of a validation, which appear when all are complete.

    Args:
        folder: the folder of the stage.
        step: the training step.
        contents: the contents of the files by their names.
        earlier: files of an earlier validation by these names. Equal ones become links to them, where there are links.

    Returns:
        the folder of the validation. If the last one of the step has the same results, it is that one.

    Example:
        >>> folder = Path(tempfile.mkdtemp())
        >>> [write_folder(folder, 500, {"scores.json": content}, {}).name for content in (b"a", b"b", b"b")]
        ['step-0000500', 'step-0000500-2', 'step-0000500-2']
    """
    last = _find_last(folder, step)
    place = _name_place(folder, step, last)
    if _has_results(place, contents):
        return place
    hidden = folder / f".step-{step:07}-{uuid.uuid4().hex}"
    try:
        for name, content in contents.items():
            _write_file(hidden / name, content, earlier.get(name))
    except BaseException:
        shutil.rmtree(hidden, ignore_errors=True)
        raise
    return _put_in_place(hidden, folder, step, last + 1)


def _find_last(folder: Path, step: int) -> int:
    """The number of the last validation of a step; 0 if there is none."""
    return max((number for of_step, number in map(read_name, folder.iterdir()) if of_step == step), default=0)


def _name_place(folder: Path, step: int, number: int) -> Path:
    return folder / (f"step-{step:07}-{number}" if number > 1 else f"step-{step:07}")


def _has_results(place: Path, contents: Mapping[str, bytes]) -> bool:
    """Whether a validation has these results. Its epoch may be another one."""
    path = place / SCORES
    if not path.is_file() or _EPOCH.sub(b"", path.read_bytes(), 1) != _EPOCH.sub(b"", contents[SCORES], 1):
        return False
    return all(_has_content(place / name, content) for name, content in contents.items() if name != SCORES)


def _has_content(path: Path, content: bytes) -> bool:
    return path.is_file() and path.stat().st_size == len(content) and path.read_bytes() == content


def _write_file(path: Path, content: bytes, earlier: Path | None) -> None:
    """Write a file, or make a link to an earlier one with the same content."""
    path.parent.mkdir(exist_ok=True, parents=True)
    if earlier is not None and _has_content(earlier, content):
        with contextlib.suppress(OSError):  # a file system without links
            os.link(earlier, path)
            return
    path.write_bytes(content)


def _put_in_place(hidden: Path, folder: Path, step: int, number: int) -> Path:
    """Give a complete folder its name, with this number or a higher one: another run may have just taken it."""
    pauses = iter(_PAUSES)
    while True:
        place = _name_place(folder, step, number)
        try:
            os.rename(hidden, place)
        except OSError as error:
            pause = next(pauses, None)
            if os.path.lexists(place):
                number += 1
            elif pause is not None:  # on Windows, a scanner may have a file open
                time.sleep(pause)
            else:
                reason = f"{error.strerror}: this folder is complete, but it cannot be renamed to {place.name}"
                raise OSError(error.errno, reason, str(hidden)) from error
        else:
            return place


# What the files have


def _list_contents(validation: Validation, step: int, epoch: float | None) -> dict[str, bytes]:
    """The files of a validation by their names in its folder."""
    contents: dict[str, bytes] = {}
    loaders = []
    for loader in validation.loaders:
        folder = name_folder(Path(), loader.name)
        texts = list_texts(loader.sentences.texts)
        has_changed_lines = any(_to_line(text) != text for lines in texts.values() for text in lines)
        findings = []
        for finding in validation.findings_in(loader.name):
            findings.append({"key": finding.key, "message": finding.message})
            if finding.where != loader.name:
                findings[-1]["group"] = finding.where.removeprefix(f"{loader.name}/")
        described = {"name": loader.name, "sentences": len(loader.sentences), "changed_lines": has_changed_lines}
        loaders.append({**described, "findings": findings})
        texts[SENTENCES] = [_to_json(line) for line in _list_sentences(loader)]
        for name, lines in texts.items():
            contents[(folder / name).as_posix()] = _to_text(lines)
    recorded: dict[str, Any] = {"format": FORMAT, "stage": validation.naming.stage, "step": step, "epoch": epoch}
    recorded["loaders"] = loaders
    recorded["scores"] = [_describe_score(validation, score) for score in validation.scored]
    contents[SCORES] = _to_text([_to_json(recorded)])
    return contents


def list_texts(sentences: Sequence[Sentence]) -> dict[str, list[str]]:
    """The lines of the files for sacreBLEU by their names.

    A sentence with fewer references than others repeats its first one. (An empty line would be a reference of length
    0.)

    Example:
        >>> list_texts([Sentence("a b", ["a c"]), Sentence("x", ["y", "z"])])
        {'hyp.txt': ['a b', 'x'], 'ref-1.txt': ['a c', 'y'], 'ref-2.txt': ['a c', 'z']}
    """
    texts = {"hyp.txt": [sentence.hypothesis for sentence in sentences]}
    references = [sentence.references for sentence in sentences]
    most = max(map(len, references))
    for number in range(most):
        name = "ref.txt" if most == 1 else f"ref-{number + 1}.txt"
        texts[name] = [row[number] if number < len(row) else row[0] for row in references]
    if any(sentence.source is not None for sentence in sentences):
        texts["src.txt"] = [sentence.source or "" for sentence in sentences]
    return texts


def _list_sentences(loader: ScoredLoader) -> Iterator[dict[str, Any]]:
    """Everything about each sentence, without what it does not have."""
    index = loader.sentences.index
    columns = {key: rows.score_sentences().tolist() for key, rows in loader.rows.items()}
    for number, sentence in enumerate(loader.sentences.texts):
        others = (sentence.columns or {}).items()
        line = {
            "id": sentence.id,
            "index": None if index is None else int(index[number]),
            "group": sentence.group,
            "source": sentence.source,
            "hypothesis": sentence.hypothesis,
            "references": sentence.references,
            "columns": {key: value for key, value in others if isinstance(value, str | int | float)} or None,
            "scores": {key: column[number] for key, column in columns.items()},
            "format": FORMAT,
        }
        yield {name: value for name, value in line.items() if value is not None}


def _describe_score(validation: Validation, score: Scored) -> dict[str, Any]:
    """What is recorded of a score. A mean of loaders is of no loader."""
    name, rows = score.name, score.rows
    return {
        "key": validation.naming.render(name),
        "loader": name.loader if name.group or not score.mean_of else None,
        "group": name.group or None,
        "mean_of": [validation.naming.render(member) for member in score.mean_of],
        "metric": name.metric,
        "class": validation.metrics[name.metric].class_name,
        "forms": [] if rows is None else count_inputs(rows.identity).kinds,
        **score.result.to_dict(),
        "settings": None if rows is None else rows.scorer.plain_settings(),
    }


def _to_json(value: Any) -> str:
    """JSON on a line. Numbers that are not finite become null.

    Example:
        >>> _to_json({"key": "val_bleu", "bleu": float("nan")})
        '{"key": "val_bleu", "bleu": null}'
    """
    return json.dumps(json.loads(json.dumps(value), parse_constant=lambda name: None))


def _to_text(lines: Sequence[str]) -> bytes:
    return "".join(f"{_to_line(line)}\n" for line in lines).encode()


def _to_line(text: str) -> str:
    """A text without line breaks, and without lone surrogates, which cannot be encoded."""
    return " ".join(text.splitlines()).encode(errors="replace").decode()
