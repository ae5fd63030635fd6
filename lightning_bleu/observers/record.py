"""The record of a run: translations as files, one sentence per line, and a line of scores per validation."""

from __future__ import annotations

import json
import os
import re
import tempfile
import uuid
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from torch import Tensor

from lightning_bleu.core.batch import Sentence
from lightning_bleu.core.messages import WarnOnce
from lightning_bleu.evaluation.findings import Finding
from lightning_bleu.evaluation.names import column_name
from lightning_bleu.evaluation.scores import Scored
from lightning_bleu.evaluation.sentences import Sentences
from lightning_bleu.evaluation.validation import ScoredLoader, Validation
from lightning_bleu.observers.scores_file import FORMAT, SHARED_FILE, name_run, parse_lines

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

    Attributes:
        folder: see above.
        run_name: the name of the run; see :func:`name_run`.
    """

    def __init__(self, folder: str | os.PathLike[str], warn: WarnOnce | None = None) -> None:
        self.folder = Path(folder).expanduser()
        self.run_name = name_run(self.folder)
        self._warn = warn or WarnOnce()
        self._has_written = False
        self._scores = self.folder / "scores.jsonl"
        # Asked once: later, half a line may be one that another run is writing.
        self._line_break = b"\n" if ends_in_half_a_line(self._scores) else b""
        # The translations that lines point to, also deleted ones: their names are not given again.
        self._recorded_files: set[Path] = set(self._find_recorded_files())

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
        if not self._has_written and has_translations(self.folder):
            raise ValueError(
                f"{str(self.folder)!r} has the translations of another training run: use another folder for each run, "
                f"{ways_out}"
            )

    def check_folder(self, *names: str) -> None:
        """Create the folder of a loader; see :func:`name_folder`. Collective.

        Raises:
            ValueError: if it cannot be created, or if files cannot be written there.
        """
        check_folder(name_folder(self.folder, *names))

    def write(self, validation: Validation, *, step: int, epoch: float | None) -> None:
        """Write the sentences of a validation, a line for each score, and one for each file without any. Collective.

        Args:
            validation: the validation.
            step: the number of training steps before it.
            epoch: the epoch; None if it is unknown.

        Raises:
            OSError: if something cannot be written. Then no file and no line of the validation is kept.
        """
        self._has_written = True
        folders = {
            loader.name: name_folder(self.folder, *validation.naming.folder, loader.name)
            for loader in validation.loaders
        }
        try:
            with TranslationFiles(self.folder) as files:  # only process 0 adds some
                for loader in validation.loaders:
                    _add(files, loader, folders[loader.name], step)
                placed = files.place(self._recorded_files)
                names = {name: placed[folder].relative_to(self.folder).as_posix() for name, folder in folders.items()}
                lines = list(_list_lines(validation, names, step, epoch))
                changed = self._complete(files, lines)
        except OSError as error:
            advice = "Nothing of this validation was recorded: make room, or set 'translations' to another folder"
            raise OSError(error.errno, f"{error.strerror}. {advice}", error.filename) from error
        self._recorded_files.update(placed.values())
        for folder in changed:
            self._warn(
                f"The references or sources in {str(folder)!r} were replaced, because this validation has "
                "different ones, or the same in another order. Translations of other steps there no longer match "
                "them: use another folder for each dataset and each training run, or give the position of each "
                "sentence as 'index'."
            )

    def _complete(self, files: TranslationFiles, lines: Sequence[Mapping[str, Any]]) -> list[Path]:
        """Append lines, and then replace the references and sources, in process 0."""
        if lines:
            try:
                append_lines(self._scores, lines, self._line_break)
            except OSError:
                self._line_break = b"\n" if ends_in_half_a_line(self._scores) else b""
                raise
            self._line_break = b""
        return files.replace_shared()


def _add(files: TranslationFiles, loader: ScoredLoader, folder: Path, step: int) -> None:
    """Prepare the files of a loader. Collective."""
    sentences = loader.sentences
    texts = sentences.texts
    index = None if sentences.index is None else sentences.index.tolist()

    def add() -> None:  # in process 0, which scores the sentences alone
        sentence_scores = {key: rows.score_sentences() for key, rows in loader.rows.items()}
        files.add(texts, folder, step, sentence_scores, index)

    add()


def _list_lines(
    validation: Validation, files: Mapping[str, str], step: int, epoch: float | None
) -> Iterator[dict[str, Any]]:
    """The lines of a validation, given the file of the hypotheses of each loader, in the folder of the record."""
    naming = validation.naming
    shared = {"format": FORMAT, "validation": uuid.uuid4().hex, "stage": naming.stage, "step": step, "epoch": epoch}
    for loader in validation.loaders:
        if not loader.results:
            yield shared | to_line_of_file(loader.sentences, files[loader.name])
    for score in validation.scored:
        is_of_file = not score.mean_of and not score.name.group
        file = files[score.name.loader] if is_of_file else None
        class_name = validation.metrics[score.name.metric].class_name
        findings = validation.findings_in(score.name.loader) if is_of_file else []
        yield shared | to_record_line(score, naming.render(score.name), class_name, file, findings)


def to_record_line(
    score: Scored, logged: str, class_name: str, file: str | None, findings: Iterable[Finding] = ()
) -> dict[str, Any]:
    """The line of a score in ``scores.jsonl``, without what all lines of its validation share.

    Args:
        score: the score.
        logged: its logged name.
        class_name: the name of the class of its metric.
        file: the file of the hypotheses, in the folder of the record; None for a mean and for a group.
        findings: what stands out in the texts of that file.
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
        "findings": [[finding.key, finding.message] for finding in findings],
    }


def to_line_of_file(sentences: Sentences, file: str) -> dict[str, Any]:
    """The line of a file without a score; see :func:`to_record_line`.

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


class TranslationFiles:
    """The files of a validation, which appear when all are complete, or, if an error is raised, not at all.

    Each folder has the hypotheses in ``step-0000500.txt``, and the references and sources in ``ref.txt`` and
    ``src.txt``. The index of the sentences, if there is one, the labels of their groups, their numbers of references if
    these differ, and their scores go to ``step-0000500.tsv``: a header, then a line per sentence. If the step has other
    translations or scores already, the new ones go to ``step-0000500-2``, and so on. The same ones write nothing.

    With several references, they go to ``ref-1.txt``, ``ref-2.txt``, and so on. A sentence with fewer references than
    others repeats its first one. (An empty line would be a reference of length 0.) Line breaks inside a sentence become
    spaces.

    Until they are complete, files have hidden names. What a killed process has left of them is removed by the next one
    that writes to the folder.

    Args:
        folder: the folder that all files are in.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as name:
        ...     folder = Path(name)
        ...     with TranslationFiles(folder) as files:
        ...         files.add([Sentence("a b", ["a c"]), Sentence("x", ["y"])], folder, step=500)
        ...         _ = files.place()
        ...         _ = files.replace_shared()
        ...     {path.name: path.read_text() for path in sorted(folder.iterdir())}
        {'ref.txt': 'a c\\ny\\n', 'step-0000500.txt': 'a b\\nx\\n'}
    """

    def __init__(self, folder: Path) -> None:
        self._key = uuid.uuid4().hex
        self._lock = folder / f".{self._key}.part"
        self._prepared: dict[Path, _Prepared] = {}
        self._translations: dict[Path, Path] = {}
        self._parts: list[Path] = []
        self._new: list[Path] = []
        self._lock_file: BinaryIO | None = None

    def __enter__(self) -> TranslationFiles:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            for path in self._new:
                path.unlink(missing_ok=True)
        for part in self._parts:
            part.unlink(missing_ok=True)
        if self._lock_file is not None:
            self._lock.unlink(missing_ok=True)
            self._lock_file.close()

    def add(
        self,
        sentences: Sequence[Sentence],
        folder: Path,
        step: int,
        scores_by_name: Mapping[str, Tensor] | None = None,
        index: Sequence[int] | None = None,
    ) -> None:
        """Write the files of a loader under hidden names.

        Args:
            sentences: the sentences, in order.
            folder: their folder, which is created.
            step: the training step.
            scores_by_name: the scores of each sentence, by the names of the metrics.
            index: the positions of the sentences; None if the step returned none.
        """
        folder.mkdir(parents=True, exist_ok=True)
        if self._lock_file is None:
            self._lock_file = _create_locked(self._lock)
        _remove_unfinished(folder, self._lock.parent)
        contents = {".txt": _to_text(sentence.hypothesis for sentence in sentences)}
        columns = _list_columns(sentences, scores_by_name or {}, index)
        if columns:
            contents[".tsv"] = _to_table(columns)
        shared = {folder / name: content for name, content in _shared_files(sentences).items()}
        outdated = [path for path in folder.iterdir() if SHARED_FILE.fullmatch(path.name) and path not in shared]
        self._prepared[folder] = _Prepared(
            step,
            contents={
                suffix: self._write_part(folder / f"step-{step:07}{suffix}", content)
                for suffix, content in contents.items()
            },
            shared={
                path: self._write_part(path, content)
                for path, content in shared.items()
                if not _has_content(path, content)
            },
            outdated=outdated,
        )

    def _write_part(self, path: Path, content: bytes) -> Path:
        part = path.with_name(f".{path.name}.{self._key}.part")
        self._parts.append(part)
        with naming_file(path):
            part.write_bytes(content)
        return part

    def place(self, taken: Collection[Path] = ()) -> dict[Path, Path]:
        """Give new files their names.

        Args:
            taken: files whose names are not given again, even if they were deleted.

        Returns:
            the file of the hypotheses of each folder.
        """
        for folder, prepared in self._prepared.items():
            is_placed = False
            while not is_placed:
                translation, is_new = _choose_file(folder, prepared, taken)
                is_placed = not is_new or _put_in_place(prepared.contents[".txt"], translation)
            self._translations[folder] = translation
            if is_new:
                self._new.append(translation)
                if ".tsv" in prepared.contents:
                    self._move(prepared.contents[".tsv"], translation.with_suffix(".tsv"))
            for path, part in prepared.shared.items():
                if not path.exists():
                    self._move(part, path)
        return self._translations

    def _move(self, part: Path, path: Path) -> None:
        self._new.append(path)
        os.replace(part, path)

    def replace_shared(self) -> list[Path]:
        """Replace references and sources that differ. This comes last, because it cannot be undone.

        Returns:
            the folders where they have changed, so that other translations do not match them.
        """
        changed = []
        for folder, translation in self._translations.items():
            prepared = self._prepared[folder]
            for path, part in prepared.shared.items():
                if path not in self._new:
                    os.replace(part, path)
            for path in prepared.outdated:
                path.unlink(missing_ok=True)
            has_others = any(file.path != translation for file in _find_translations(folder.iterdir()))
            if has_others and (prepared.shared or prepared.outdated):
                changed.append(folder)
        return changed


class _Prepared(NamedTuple):
    """The files of a folder, under hidden names.

    Attributes:
        step: the training step.
        contents: the hypotheses and the table, by suffix.
        shared: the references and sources that are new or differ, by the names that they will have.
        outdated: references and sources that will be removed.
    """

    step: int
    contents: dict[str, Path]
    shared: dict[Path, Path]
    outdated: list[Path]


def _has_content(path: Path, content: bytes) -> bool:
    return path.exists() and path.read_bytes() == content


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Within this context, an OSError names this file: that of a full disk names none."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def _create_locked(path: Path) -> BinaryIO:
    """Create a file and lock it. It gets its name then, or another process could find it unlocked, and remove it."""
    if os.name == "nt":  # where files are not locked, and open files keep their names
        return path.open("xb")
    hidden = path.with_suffix(".lock")
    file = hidden.open("xb")
    try:
        _try_lock(file)
        hidden.rename(path)
    except OSError:
        file.close()
        hidden.unlink(missing_ok=True)
        raise
    return file


def _try_lock(file: BinaryIO) -> bool:
    """Lock a file until it is closed or this process ends, and return whether that worked.

    It does not work while another process has the lock, on Windows, and on some network file systems.
    """
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def _remove_unfinished(folder: Path, lock_folder: Path) -> None:
    """Remove the hidden files of processes that were killed while they wrote."""
    for part in {*folder.glob(".*.part"), *lock_folder.glob(".*.part")}:
        key = re.search(r"\.([0-9a-f]{32})\.part$", part.name)
        if key and not _is_locked(lock_folder / f".{key[1]}.part"):
            part.unlink(missing_ok=True)


def _is_locked(lock: Path) -> bool:
    try:
        with lock.open("rb") as file:
            return not _try_lock(file)
    except FileNotFoundError:
        return False


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


def _choose_file(folder: Path, prepared: _Prepared, taken: Collection[Path]) -> tuple[Path, bool]:
    """The file of hypotheses of a step that has these contents, or else a new one; and whether it is new."""
    number = 1
    for file in _find_translations({*folder.iterdir(), *(path for path in taken if path.parent == folder)}):
        if file.step == prepared.step:
            parts = prepared.contents.items()
            if all(_has_content(file.path.with_suffix(suffix), part.read_bytes()) for suffix, part in parts):
                return file.path, False
            number = file.number + 1
    step = f"step-{prepared.step:07}"
    return folder / (f"{step}-{number}.txt" if number > 1 else f"{step}.txt"), True


def _put_in_place(part: Path, path: Path) -> bool:
    """Give a complete file its name, and return whether that worked: another run may have just taken the name."""
    try:
        os.link(part, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without links: take the name with an empty file
        try:
            path.open("xb").close()
        except FileExistsError:
            return False
        os.replace(part, path)
    return True


def ends_in_half_a_line(path: Path) -> bool:
    """Whether a file has no line break at its end, because a run was killed while it wrote."""
    if not path.exists() or path.stat().st_size == 0:
        return False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() != b"\n"


def append_lines(path: Path, lines: Iterable[Mapping[str, Any]], start: bytes = b"") -> None:
    """Append a line of JSON for each object. Numbers that are not finite become null.

    All lines are written at once, so several runs may append to a file. If the disk is full, what it took of them is
    cut off again. ``pandas.read_json(path, lines=True)`` reads them.

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
    unwritten = memoryview(start + text.encode())
    written = 0
    with naming_file(path), path.open("ab", buffering=0) as file:
        try:
            while unwritten:  # a full disk takes some bytes, and then raises an error
                count = file.write(unwritten)
                written += count
                unwritten = unwritten[count:]
        except OSError:
            if path.stat().st_size == file.tell():  # else another run has appended
                file.truncate(file.tell() - written)
            raise


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
    counts = [len(sentence.references) for sentence in sentences]
    if len({*counts}) > 1:
        columns["references"] = list(map(str, counts))
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
