"""The record of a run: translations as files, one sentence per line, and a line of scores per validation."""

from __future__ import annotations

import json
import os
import re
import tempfile
import uuid
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lightning_bleu.messages import WarnOnce
from lightning_bleu.processes import run_in_process_0
from lightning_bleu.training.metrics import Result
from lightning_bleu.training.sentences import Sentence
from lightning_bleu.training.validation import Naming, Subset

_SHARED_FILE = re.compile(r"src\.txt|ref(-\d+)?\.txt")
_TRANSLATION = re.compile(r"step-(\d{7,})(?:-(\d+))?\.txt")
_MAX_NAME = 100
"""The maximum number of bytes of the name of a folder; longer ones are cut, and get a checksum."""


class Record:
    """The folder of a run: the translations of each subset, and a line of scores for each name and validation.

    It is append-only: no translation and no line is replaced. All methods are collective, and so is the constructor.
    Process 0 reads and writes the files.

    Args:
        folder: the folder.
        keep: how many of the latest translations to keep for each subset; None for all.
        warn: warns about replaced references.
    """

    def __init__(self, folder: str | os.PathLike[str], keep: int | None = None, warn: WarnOnce | None = None) -> None:
        self.folder = Path(folder).expanduser()
        self._keep = keep
        self._warn = warn or WarnOnce()
        self._has_written = False
        self._scores = self.folder / "scores.jsonl"
        # Asked once: later, half a line may be one that another run is writing.
        self._line_break = run_in_process_0(lambda: b"\n" if ends_in_half_a_line(self._scores) else b"")

    def check_new(self, ways_out: str) -> None:
        """Check that a new run does not write among the translations of another one, unless this object wrote them.

        Raises:
            ValueError: if it does, with the ways out.
        """
        if not self._has_written and run_in_process_0(lambda: has_translations(self.folder)):
            raise ValueError(
                f"{str(self.folder)!r} has the translations of another training run: use another folder for each run, "
                f"{ways_out}"
            )

    def check_folder(self, *names: str) -> None:
        """Create the folder of a subset; see :func:`name_folder`.

        Raises:
            ValueError: if it cannot be created, or if files cannot be written there.
        """
        run_in_process_0(lambda: check_folder(name_folder(self.folder, *names)))

    def write(
        self,
        naming: Naming,
        subsets: Iterable[Subset],
        results: Mapping[str, Result],
        *,
        step: int,
        epoch: float | None,
    ) -> None:
        """Write the sentences of a validation, and a line for each result.

        Args:
            naming: the names of the scores, and of the folder of the validation, to which each subset adds its own.
            subsets: the scored sentences.
            results: the results by logged name.
            step: the number of training steps before the validation.
            epoch: the epoch; None if it is unknown.
        """
        self._has_written = True
        origins = {}
        for subset in subsets:
            file = self._write(name_folder(self.folder, *naming.folder, *subset.names), subset, step)
            for name in subset.metrics:
                own = {key: one.settings for key, one in subset.corpora.items() if f"{key}/".startswith(f"{name}/")}
                tag = subset.tag_below(naming.tag(name))
                origins[tag] = {"file": file, "metric": name, "settings": own}
        lines = []
        for tag, result in results.items():
            place = {"step": step, "epoch": epoch, "key": tag} | origins.get(tag, {"file": None})
            lines.append(place | result.to_dict() | place)  # a metric may have a score named "step"
        if lines:
            run_in_process_0(lambda: append_lines(self._scores, lines, self._line_break))
            self._line_break = b""

    def _write(self, folder: Path, subset: Subset, step: int) -> str:
        """Write the sentences of a subset, and return the name of their file in the folder of the run."""
        texts, corpora = subset.sentences.texts, subset.corpora.items()

        def write() -> tuple[Path, bool]:  # in process 0, which scores the sentences alone
            scores = {name: corpus.scoring.score_sentences(corpus.statistics) for name, corpus in corpora}
            return write_translations(texts, folder, step, self._keep, scores)

        file, changed = run_in_process_0(write)
        if changed:
            self._warn(
                f"The references or sources in {str(folder)!r} were replaced, because this validation has "
                "different ones, or the same in another order. Translations of other steps there no longer match "
                "them: use another folder for each dataset and each training run, or give the position of each "
                "sentence as 'index'."
            )
        return file.relative_to(self.folder).as_posix()


def name_folder(folder: Path, *names: str) -> Path:
    """A folder for the translations of a subset, named after the stage, the loader, and the group, if they have names.

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
    return any(step > 0 for step, *_ in _find_translations(folder.rglob("step-*.txt")))


def write_translations(
    sentences: Sequence[Sentence],
    folder: Path,
    step: int,
    keep: int | None = None,
    scores: Mapping[str, Tensor] | None = None,
) -> tuple[Path, bool]:
    """Write hypotheses to ``step-0000500.txt``, and references and sources to ``ref.txt`` and ``src.txt``.

    The scores of the sentences go to ``step-0000500.tsv``: a header, then a line per sentence. If the step has other
    translations or scores already, the new ones go to ``step-0000500-2``, and so on. The same ones write nothing.

    With several references, they go to ``ref-1.txt``, ``ref-2.txt``, and so on. A sentence with fewer references than
    others repeats its first one, which changes no score. (An empty line would be a reference of length 0.) Line breaks
    inside a sentence become spaces. A file appears only when it is complete.

    Args:
        sentences: the sentences, in order.
        folder: the folder, which is created.
        step: the training step.
        keep: delete all but this number of the latest files of hypotheses in the folder, by their steps; None to delete
            none. The new file is never deleted.
        scores: the scores of each sentence, by the names of the metrics.

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
    shared = {folder / name: text for name, text in _shared_files(sentences).items()}
    old = {path for path in folder.iterdir() if _SHARED_FILE.fullmatch(path.name)}
    changed = shared.keys() != old or any(path.read_bytes() != text for path, text in shared.items())
    contents = {".txt": _to_text(sentence.hypothesis for sentence in sentences)}
    if scores:
        contents[".tsv"] = _to_table(scores)
    translation = _choose_file(folder, step, contents)
    write_files(shared | {translation.with_suffix(kind): content for kind, content in contents.items()})
    for path in old - shared.keys():
        path.unlink(missing_ok=True)
    others = [path for *_, path in _find_translations(folder.iterdir()) if path != translation]
    if keep is not None:
        for path in others[: max(0, len(others) + 1 - keep)]:
            path.unlink(missing_ok=True)  # another run may write to the same folder
            path.with_suffix(".tsv").unlink(missing_ok=True)
    return translation, changed and bool(others)


def _find_translations(paths: Iterable[Path]) -> list[tuple[int, int, Path]]:
    """The files of hypotheses, in order: their steps, their numbers among those of the step, and the files.

    Example:
        >>> _find_translations([Path("step-0000500-2.txt"), Path("step-0000500.txt"), Path("ref.txt")])
        [(500, 1, PosixPath('step-0000500.txt')), (500, 2, PosixPath('step-0000500-2.txt'))]
    """
    found = ((_TRANSLATION.fullmatch(path.name), path) for path in paths)
    return sorted((int(name[1]), int(name[2] or 1), path) for name, path in found if name)


def _choose_file(folder: Path, step: int, contents: Mapping[str, bytes]) -> Path:
    """The file of hypotheses of a step that has these contents by suffix, or else a new one."""
    number = 1
    for _, last, path in [one for one in _find_translations(folder.iterdir()) if one[0] == step]:
        files = {path.with_suffix(kind): content for kind, content in contents.items()}
        if all(file.exists() and file.read_bytes() == content for file, content in files.items()):
            return path
        number = last + 1
    return folder / (f"step-{step:07}-{number}.txt" if number > 1 else f"step-{step:07}.txt")


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
    finite = [json.loads(json.dumps(line), parse_constant=lambda name: None) for line in lines]
    with path.open("ab", buffering=0) as file:
        file.write(start + "".join(f"{json.dumps(line)}\n" for line in finite).encode())


def _shared_files(sentences: Sequence[Sentence]) -> dict[str, bytes]:
    """The contents of the files that all translations share: references, and sources if there are any."""
    most = max((len(sentence.references) for sentence in sentences), default=1)
    files = {}
    for number in range(most):
        lines = [references[number if number < len(references) else 0] for _, references, *_ in sentences]
        files["ref.txt" if most == 1 else f"ref-{number + 1}.txt"] = _to_text(lines)
    if any(sentence.source is not None for sentence in sentences):
        files["src.txt"] = _to_text(sentence.source or "" for sentence in sentences)
    return files


def _to_text(lines: Iterable[str]) -> bytes:
    # A lone surrogate cannot be encoded, so it is replaced.
    return "".join(" ".join(line.splitlines()) + "\n" for line in lines).encode(errors="replace")


def column_name(name: str) -> str:
    """The name of a score in the header of a table.

    Example:
        >>> column_name('exact  "match"')
        'exact match'
    """
    return " ".join(name.replace('"', " ").split())


def _to_table(scores: Mapping[str, Tensor]) -> bytes:
    """Columns of numbers, which are read as the same numbers again.

    Example:
        >>> _to_table({"bleu": torch.tensor([0.5, 1]), "comet": torch.tensor([0.25, -1])})
        b'bleu\\tcomet\\n0.5\\t0.25\\n1.0\\t-1.0\\n'
    """
    names = "\t".join(map(column_name, scores))
    rows = torch.stack([*scores.values()], 1).tolist()
    return "".join(f"{line}\n" for line in [names, *("\t".join(map(repr, row)) for row in rows)]).encode()


def write_files(contents: Mapping[Path, bytes]) -> None:
    """Write all files under temporary names, and rename them when all are complete."""
    # Another run may write to the same folder.
    temporary = {path: path.with_name(f".{path.name}.{uuid.uuid4().hex}.part") for path in contents}
    try:
        for path, content in contents.items():
            temporary[path].write_bytes(content)
        for path in contents:
            os.replace(temporary[path], path)
    finally:
        for part in temporary.values():
            part.unlink(missing_ok=True)


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


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode(errors="surrogatepass"))
