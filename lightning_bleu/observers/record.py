"""The record of a run: translations as files, one sentence per line, and a line of scores per validation."""

from __future__ import annotations

import json
import os
import re
import tempfile
import uuid
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from lightning_bleu.core.batch import Sentence
from lightning_bleu.core.messages import WarnOnce
from lightning_bleu.core.processes import run_in_process_0
from lightning_bleu.evaluation.names import column_name
from lightning_bleu.evaluation.scores import Scored
from lightning_bleu.evaluation.sentences import Sentences
from lightning_bleu.evaluation.validation import ScoredLoader, Validation
from lightning_bleu.observers.scores_file import FORMAT, SHARED_FILE, parse_lines

_TRANSLATION = re.compile(r"step-(\d{7,})(?:-(\d+))?\.txt")
_ESCAPES = {"\\": "\\\\", "\t": "\\t"}
_ESCAPES |= {character: f"\\u{ord(character):04x}" for character in '"\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029'}
"""How the characters that separate or quote columns and lines are written in labels."""
_MAX_NAME = 100
"""The maximum number of bytes of the name of a folder; longer ones are cut, and get a checksum."""


class Record:
    """The folder of a run: the translations of each loader, and a line for each score of a validation.

    It is append-only: no translation and no line is replaced. All methods are collective, and so is the constructor.
    Process 0 reads and writes the files.

    Args:
        folder: the folder.
        warn: warns about replaced references.
    """

    def __init__(self, folder: str | os.PathLike[str], warn: WarnOnce | None = None) -> None:
        self.folder = Path(folder).expanduser()
        self._warn = warn or WarnOnce()
        self._has_written = False
        self._scores = self.folder / "scores.jsonl"
        # Asked once: later, half a line may be one that another run is writing.
        self._line_break = run_in_process_0(lambda: b"\n" if ends_in_half_a_line(self._scores) else b"")
        # The translations that lines point to, also deleted ones: their names are not given again.
        self._recorded_files: set[Path] = run_in_process_0(lambda: set(self._find_recorded_files()))

    def _find_recorded_files(self) -> Iterator[Path]:
        lines, _ = parse_lines(self._scores)  # a training keeps none of them
        for line in lines:
            if line["file"] is not None:
                yield self.folder / line["file"]

    def check_new(self, ways_out: str) -> None:
        """Check that a new run does not write among the translations of another one, unless this object wrote them.

        Collective.

        Raises:
            ValueError: if it does, with the ways out.
        """
        if not self._has_written and run_in_process_0(lambda: has_translations(self.folder)):
            raise ValueError(
                f"{str(self.folder)!r} has the translations of another training run: use another folder for each run, "
                f"{ways_out}"
            )

    def check_folder(self, *names: str) -> None:
        """Create the folder of a loader; see :func:`name_folder`. Collective.

        Raises:
            ValueError: if it cannot be created, or if files cannot be written there.
        """
        run_in_process_0(lambda: check_folder(name_folder(self.folder, *names)))

    def write(self, validation: Validation, *, step: int, epoch: float | None) -> None:
        """Write the sentences of a validation, a line for each score, and one for each file without any. Collective.

        Args:
            validation: the validation.
            step: the number of training steps before it.
            epoch: the epoch; None if it is unknown.
        """
        self._has_written = True
        naming = validation.naming
        files = {}
        for loader in validation.loaders:
            files[loader.name] = self._write_translations(
                name_folder(self.folder, *naming.folder, loader.name), loader, step
            )
        shared = {"format": FORMAT, "validation": uuid.uuid4().hex, "stage": naming.stage, "step": step, "epoch": epoch}
        lines: list[dict[str, Any]] = []
        for loader in validation.loaders:
            if not loader.results or not loader.sentences.has_references:
                lines.append(shared | to_line_of_file(loader.sentences, self._name(files[loader.name])))
        for score in validation.scored:
            is_of_file = not score.mean_of and not score.name.group
            file = self._name(files[score.name.loader]) if is_of_file else None
            class_name = validation.metrics[score.name.metric].class_name
            lines.append(shared | to_record_line(score, naming.render(score.name), class_name, file))
        if lines:
            run_in_process_0(lambda: self._append(lines))
        self._recorded_files.update(files.values())

    def _name(self, file: Path) -> str:
        """The name of a file in the lines."""
        return file.relative_to(self.folder).as_posix()

    def _append(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Append lines, in process 0. If that fails, the next line does not continue half a line."""
        start, self._line_break = self._line_break, b"\n"
        append_lines(self._scores, lines, start)
        self._line_break = b""

    def _write_translations(self, folder: Path, loader: ScoredLoader, step: int) -> Path:
        """Write the sentences of a loader, and return the file of the hypotheses."""
        sentences = loader.sentences
        texts = sentences.read_all()
        index = None if sentences.index is None else sentences.index.tolist()

        def write() -> tuple[Path, bool]:  # in process 0, which scores the sentences alone
            sentence_scores = {key: rows.score_sentences() for key, rows in loader.rows.items()}
            return write_translations(texts, folder, step, sentence_scores, index, self._recorded_files)

        file, has_changed = run_in_process_0(write)
        if has_changed:
            self._warn(
                f"The references or sources in {str(folder)!r} were replaced, because this validation has "
                "different ones, or the same in another order. Translations of other steps there no longer match "
                "them: use another folder for each dataset and each training run, or give the position of each "
                "sentence as 'index'."
            )
        return file


def to_record_line(score: Scored, logged: str, class_name: str, file: str | None) -> dict[str, Any]:
    """The line of a score in ``scores.jsonl``, without what all lines of its validation share.

    Args:
        score: the score.
        logged: its logged name.
        class_name: the name of the class of its metric.
        file: the file of the hypotheses, in the folder of the record; None for a mean and for a group.
    """
    rows = score.rows
    return {
        "key": logged,
        "file": file,
        "metric": score.name.metric,
        "class": class_name,
        "forms": [] if rows is None else rows.input_counts.kinds,
        **score.result.to_dict(),
        "settings": None if rows is None else rows.scorer.plain_settings(),
    }


def to_line_of_file(sentences: Sentences, file: str) -> dict[str, Any]:
    """The line of a file without a score, or without references; see :func:`to_record_line`.

    Args:
        sentences: its sentences.
        file: the file of the hypotheses, in the folder of the record.
    """
    return {
        "key": None,
        "file": file,
        "metric": None,
        "class": None,
        "forms": sentences.input_counts.kinds,
        "references": sentences.has_references,
        "score": None,
    }


def name_folder(folder: Path, *names: str) -> Path:
    """A folder for the translations of a loader, named after the stage and the loader, if they have names.

    Characters that could leave the folder, or that some file systems do not allow, are percent-encoded. Long names are
    shortened.

    Example:
        >>> name_folder(Path("translations"), "val", "../news").as_posix()
        'translations/val/..%2Fnews'
    """
    return folder.joinpath(*(_encode(name) for name in names if name))


def check_folder(folder: Path) -> None:
    """Create a folder for translations.

    Raises:
        ValueError: if it cannot be created, or if files cannot be written there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(f"'translations' must be a folder for files, got {str(folder)!r}: {error}") from error


def has_translations(folder: Path) -> bool:
    """Whether a folder, or a folder below it, has translations of a trained model (of a step after 0)."""
    return any(file.step > 0 for file in _find_translations(folder.rglob("step-*.txt")))


def write_translations(
    sentences: Sequence[Sentence],
    folder: Path,
    step: int,
    scores_by_name: Mapping[str, Tensor] | None = None,
    index: Sequence[int] | None = None,
    taken: Collection[Path] = (),
) -> tuple[Path, bool]:
    """Write hypotheses to ``step-0000500.txt``, and references and sources to ``ref.txt`` and ``src.txt``.

    Their index, if there is one, the labels of their groups, and their scores go to ``step-0000500.tsv``: a header,
    then a line per sentence. If the step has other translations or scores already, the new ones go to
    ``step-0000500-2``, and so on. The same ones write nothing.

    With several references, they go to ``ref-1.txt``, ``ref-2.txt``, and so on. A sentence with fewer references than
    others repeats its first one, which changes no score. (An empty line would be a reference of length 0.) Without
    references, the files of earlier translations stay as they are. Line breaks inside a sentence become spaces. A file
    appears only when it is complete.

    Args:
        sentences: the sentences, in order.
        folder: the folder, which is created.
        step: the training step.
        scores_by_name: the scores of each sentence, by the names of the metrics.
        index: the positions of the sentences; None if the step returned none.
        taken: files whose names are not given again, even if they were deleted.

    Returns:
        the file of the hypotheses, and whether references or sources have changed, so that other translations do not
        match them.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as name:
        ...     folder = Path(name)
        ...     _ = write_translations([Sentence("a b", ["a c", "d"]), Sentence("x", ["y"])], folder, 500)
        ...     {path.name: path.read_text() for path in sorted(folder.iterdir())}
        {'ref-1.txt': 'a c\\ny\\n', 'ref-2.txt': 'd\\ny\\n', 'step-0000500.txt': 'a b\\nx\\n'}
    """
    folder.mkdir(parents=True, exist_ok=True)
    shared_files = {folder / name: content for name, content in _shared_files(sentences).items()}
    old_shared_files = _find_shared_files(folder)
    lack_references = len(sentences) > 0 and not any(sentence.references for sentence in sentences)
    if lack_references:
        old_shared_files &= shared_files.keys()
    has_changed = shared_files.keys() != old_shared_files or not _are_written(shared_files)
    contents = {".txt": _to_text(sentence.hypothesis for sentence in sentences)}
    columns = _list_columns(sentences, scores_by_name or {}, index)
    if columns:
        contents[".tsv"] = _to_table(columns)
    while True:
        translation, is_new = _choose_file(folder, step, contents, taken)
        files = {translation.with_suffix(suffix): content for suffix, content in contents.items()}
        try:
            write_files(files | shared_files, new=translation if is_new else None)
            break
        except FileExistsError:  # another run has just taken this number
            continue
    for path in old_shared_files - shared_files.keys():
        path.unlink(missing_ok=True)
    has_others = any(file.path != translation for file in _find_translations(folder.iterdir()))
    return translation, has_changed and has_others


def _find_shared_files(folder: Path) -> set[Path]:
    """The files of references and sources in a folder."""
    return {path for path in folder.iterdir() if SHARED_FILE.fullmatch(path.name)}


def _are_written(contents: Mapping[Path, bytes]) -> bool:
    """Whether files have these contents."""
    return all(path.read_bytes() == content for path, content in contents.items())


class _Translation(NamedTuple):
    """A file of hypotheses.

    Attributes:
        step: its step.
        number: its number among those of the step, from 1.
        path: the file.
    """

    step: int
    number: int
    path: Path


def _find_translations(paths: Iterable[Path]) -> list[_Translation]:
    """The files of hypotheses, in order.

    Example:
        >>> paths = [Path("step-0000500-2.txt"), Path("step-0000500.txt"), Path("ref.txt")]
        >>> [(file.step, file.number) for file in _find_translations(paths)]
        [(500, 1), (500, 2)]
    """
    files = []
    for path in paths:
        match = _TRANSLATION.fullmatch(path.name)
        if match:
            files.append(_Translation(int(match[1]), int(match[2] or 1), path))
    return sorted(files)


def _choose_file(folder: Path, step: int, contents: Mapping[str, bytes], taken: Collection[Path]) -> tuple[Path, bool]:
    """The file of hypotheses of a step that has these contents by suffix, or else a new one; and whether it is new."""
    number = 1
    for file in _find_translations({*folder.iterdir(), *(path for path in taken if path.parent == folder)}):
        if file.step == step:
            if _has_contents(file.path, contents):
                return file.path, False
            number = file.number + 1
    return folder / (f"step-{step:07}-{number}.txt" if number > 1 else f"step-{step:07}.txt"), True


def _has_contents(path: Path, contents: Mapping[str, bytes]) -> bool:
    """Whether a file, and those beside it with other suffixes, have these contents."""
    for suffix, content in contents.items():
        file = path.with_suffix(suffix)
        if not file.exists() or file.read_bytes() != content:
            return False
    return True


def ends_in_half_a_line(path: Path) -> bool:
    """Whether a file has no line break at its end, because a run was killed while it wrote."""
    return path.exists() and path.read_bytes()[-1:] not in (b"", b"\n")


def append_lines(path: Path, lines: Iterable[Mapping[str, Any]], start: bytes = b"") -> None:
    """Append a line of JSON for each object. Numbers that are not finite become null.

    All lines are written at once, so several runs may append to a file. ``pandas.read_json(path, lines=True)`` reads
    them.

    Args:
        path: the file. It and its folder are created.
        lines: the objects.
        start: what to write first.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as name:
        ...     path = Path(name, "scores.jsonl")
        ...     append_lines(path, [{"key": "val_bleu", "step": 5, "bleu": 0.1}])
        ...     append_lines(path, [{"key": "val_bleu", "step": 9, "bleu": float("nan")}])
        ...     print(path.read_text(), end="")
        {"key": "val_bleu", "step": 5, "bleu": 0.1}
        {"key": "val_bleu", "step": 9, "bleu": null}
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{json.dumps(_without_infinity(line))}\n" for line in lines)
    with path.open("ab", buffering=0) as file:
        unwritten = memoryview(start + text.encode())
        while unwritten:  # a full disk takes some bytes, and then raises an error
            written = file.write(unwritten)
            unwritten = unwritten[written:]


def _without_infinity(line: Mapping[str, Any]) -> Any:
    """A line whose numbers are finite or None."""
    return json.loads(json.dumps(line), parse_constant=lambda name: None)


def _shared_files(sentences: Sequence[Sentence]) -> dict[str, bytes]:
    """The contents of the files that all translations share: references, and sources if there are any."""
    most = max((len(sentence.references) for sentence in sentences), default=1)
    files = {}
    for number in range(most):
        lines = []
        for sentence in sentences:
            # A sentence with fewer references than others repeats its first one.
            has_reference = number < len(sentence.references)
            lines.append(sentence.references[number if has_reference else 0])
        files["ref.txt" if most == 1 else f"ref-{number + 1}.txt"] = _to_text(lines)
    if any(sentence.source is not None for sentence in sentences):
        files["src.txt"] = _to_text(sentence.source or "" for sentence in sentences)
    return files


def _to_text(lines: Iterable[str]) -> bytes:
    # A lone surrogate cannot be encoded, so it is replaced.
    return "".join(" ".join(line.splitlines()) + "\n" for line in lines).encode(errors="replace")


def _list_columns(
    sentences: Sequence[Sentence], scores_by_name: Mapping[str, Tensor], index: Sequence[int] | None
) -> dict[str, list[str]]:
    """The columns of a table of sentences, as text. Numbers are read as the same numbers again."""
    columns = {}
    if index is not None:
        columns["index"] = list(map(str, index))
    if any(sentence.group is not None for sentence in sentences):
        columns["group"] = [escape_label(sentence.group or "") for sentence in sentences]
    for name, of_score in scores_by_name.items():
        columns[column_name(name)] = list(map(repr, of_score.tolist()))
    return columns


def escape_label(label: str) -> str:
    """A label without tabs, line breaks, and quotation marks. Different labels stay different.

    Example:
        >>> print(escape_label("a" + chr(9) + "b" + chr(92)))
        a\\tb\\\\
    """
    return "".join(_ESCAPES.get(character, character) for character in label)


def _to_table(columns: Mapping[str, Sequence[str]]) -> bytes:
    """Columns as lines that are separated by tabs.

    Example:
        >>> _to_table({"group": ["de", "fr"], "bleu": ["0.5", "1.0"]})
        b'group\\tbleu\\nde\\t0.5\\nfr\\t1.0\\n'
    """
    lines = ["\t".join(columns)]
    lines += map("\t".join, zip(*columns.values()))
    return "".join(f"{line}\n" for line in lines).encode(errors="replace")


def write_files(contents: Mapping[Path, bytes], new: Path | None = None) -> None:
    """Write all files under temporary names, and rename them when all are complete.

    Args:
        contents: the content of each file.
        new: a file that must not exist yet. It is put in place first.

    Raises:
        FileExistsError: if it exists. Then nothing is written.
    """
    # Another run may write to the same folder.
    temporary = {path: path.with_name(f".{path.name}.{uuid.uuid4().hex}.part") for path in contents}
    try:
        for path, content in contents.items():
            temporary[path].write_bytes(content)
        if new is not None:
            _put_in_place(temporary[new], new)
        for path in contents:
            if path != new:
                os.replace(temporary[path], path)
    finally:
        for part in temporary.values():
            part.unlink(missing_ok=True)


def _put_in_place(part: Path, path: Path) -> None:
    """Give a complete file its name, unless there is a file of that name."""
    try:
        os.link(part, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        with path.open("xb") as file:
            file.write(part.read_bytes())


def _encode(name: str) -> str:
    """The name of a folder, on any file system.

    Example:
        >>> _encode("../news"), _encode("aux."), len(_encode(1000 * "x"))
        ('..%2Fnews', 'aux%2E', 109)
    """
    encoded = re.sub(r"[^\w .+@-]|[. ]$", _percent, name)
    # Devices on Windows, and files that are written beside the folder.
    if re.fullmatch(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?|.*\.(txt|tsv|jsonl)", encoded):
        encoded = re.sub("^.", _percent, encoded)
    if len(encoded.encode()) > _MAX_NAME:
        checksum = zlib.crc32(name.encode(errors="surrogatepass"))
        encoded = f"{encoded.encode()[:_MAX_NAME].decode(errors='ignore')}-{checksum:08x}"
    return encoded


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode(errors="surrogatepass"))
