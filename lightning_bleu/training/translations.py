"""The record of a run: translations as files, one sentence per line, and a line of scores per validation."""

from __future__ import annotations

import json
import os
import re
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lightning_bleu.training.sentences import Sentence

_SHARED_FILE = re.compile(r"src\.txt|ref(-\d+)?\.txt")
_TRANSLATION = re.compile(r"step-\d{7,}(-\d+)?\.txt")


def name_folder(folder: Path, *names: str) -> Path:
    """A folder for the translations of one score, named after its key and its loader, if that has a name.

    Characters that could leave the folder, or that some file systems do not allow, are percent-encoded.

    Example:
        >>> name_folder(Path("translations"), "val_bleu", "../news").as_posix()
        'translations/val_bleu/..%2Fnews'
    """
    return folder.joinpath(*(_encode(name) for name in names if name))


def check_folders(*folders: Path) -> None:
    """Create folders for translations.

    Raises:
        ValueError: if one cannot be created, or if files cannot be written there.
    """
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise ValueError(f"'translations' must be a folder for files, got {str(folder)!r}: {error}") from error


def has_translations(folder: Path) -> bool:
    """Whether a folder, or a folder below it, has translations of a trained model (of a step after 0)."""
    return any(_step_and_number(path)[0] for path in folder.rglob("step-*.txt") if _TRANSLATION.fullmatch(path.name))


def write_translations(
    sentences: Sequence[Sentence], folder: Path, step: int, keep: int | None = None, *, replace: bool = True
) -> bool:
    """Write hypotheses to ``step-0000500.txt``, and references and sources to ``ref.txt`` and ``src.txt``.

    With several references, they go to ``ref-1.txt``, ``ref-2.txt``, and so on. A sentence with fewer references than
    others repeats its first one, which changes no score. (An empty line would be a reference of length 0.) Line breaks
    inside a sentence become spaces. A file appears only when it is complete.

    Args:
        sentences: the sentences, in order.
        folder: the folder, which is created.
        step: the training step.
        keep: delete all but this number of the latest translations in the folder, by their steps; None to delete none.
            The new file is never deleted.
        replace: whether to replace other translations of the same step. If not, the new file is
            ``step-0000500-2.txt``, and so on.

    Returns:
        whether references or sources have changed, so that translations of other steps do not match them.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as name:
        ...     folder = Path(name)
        ...     changed = write_translations([Sentence("a b", ["a c", "d"]), Sentence("x", ["y"])], folder, 500)
        ...     {path.name: path.read_text() for path in sorted(folder.iterdir())}
        {'ref-1.txt': 'a c\\ny\\n', 'ref-2.txt': 'd\\ny\\n', 'step-0000500.txt': 'a b\\nx\\n'}
    """
    folder.mkdir(parents=True, exist_ok=True)
    hypotheses = _to_text(sentence.hypothesis for sentence in sentences)
    translation = folder / f"step-{step:07}.txt"
    number = 1
    while not replace and translation.exists() and translation.read_bytes() != hypotheses:
        number += 1
        translation = folder / f"step-{step:07}-{number}.txt"
    shared = {folder / name: text for name, text in _shared_files(sentences).items()}
    old = {path for path in folder.iterdir() if _SHARED_FILE.fullmatch(path.name)}
    others = set(_find_translations(folder)) - {translation}
    changed = shared.keys() != old or any(path.read_bytes() != text for path, text in shared.items())
    write_files(shared | {translation: hypotheses})
    for path in old - shared.keys():
        path.unlink(missing_ok=True)
    if keep is not None:
        for path in sorted(others, key=_step_and_number)[: max(0, len(others) + 1 - keep)]:
            path.unlink(missing_ok=True)  # another run may write to the same folder
    return changed and bool(others)


def append_scores(path: Path, lines: Iterable[Mapping[str, Any]], *, replace: bool = True) -> None:
    """Add lines to a file of JSON objects, unless it has them already (perhaps of another epoch).

    ``pandas.read_json(path, lines=True)`` reads it.

    Args:
        path: the file.
        lines: the objects, with ``"key"``, ``"step"``, and ``"epoch"``.
        replace: whether a line replaces older ones with the same key and step.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as name:
        ...     path = Path(name, "scores.jsonl")
        ...     append_scores(path, [{"key": "val_bleu", "step": 5, "bleu": 0.1}])
        ...     append_scores(path, [{"key": "val_bleu", "step": 5, "bleu": 0.2}])
        ...     print(path.read_text(), end="")
        {"key": "val_bleu", "step": 5, "bleu": 0.2}
    """
    added = [dict(line) for line in lines]
    replaced = {(line["key"], line["step"]) for line in added} if replace else set()
    kept = [line for line in _read_lines(path) if (line["key"], line["step"]) not in replaced]
    known = [{**line, "epoch": None} for line in kept]
    kept += [line for line in added if {**line, "epoch": None} not in known]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_files({path: "".join(json.dumps(line) + "\n" for line in kept).encode()})


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines that are complete."""
    for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict) and isinstance(value.get("key"), str) and isinstance(value.get("step"), int):
            yield value


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


def _step_and_number(path: Path) -> list[int]:
    """The step of a translation, and its number if there are several.

    Example:
        >>> _step_and_number(Path("step-0000500.txt")), _step_and_number(Path("step-0000500-2.txt"))
        ([500], [500, 2])
    """
    return [int(number) for number in re.findall(r"\d+", path.name)]


def _find_translations(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if _TRANSLATION.fullmatch(path.name)]


def _encode(name: str) -> str:
    encoded = re.sub(
        r"[^\w .+@-]", lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode(errors="surrogatepass")), name
    )
    return encoded.replace(".", "%2E") if set(encoded) <= {".", " "} else encoded
