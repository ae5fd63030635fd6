"""Translations as files: one sentence per line, to be scored later by any tool."""

from __future__ import annotations

import filecmp
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

from lightning_bleu.training.sentences import Sentence, Sentences

_CHUNK = 10_000
"""The number of sentences that process 0 receives from the others at a time."""

_SHARED_FILE = re.compile(r"src\.txt|ref(-\d+)?\.txt")
_TRANSLATION = re.compile(r"step-\d{7,}\.txt")


def name_folder(folder: Path, *names: str) -> Path:
    """A folder for the translations of one score, named after its key and its loader, if that has a name.

    Characters that could leave the folder, or that some file systems do not allow, are percent-encoded.

    Example:
        >>> name_folder(Path("translations"), "val_bleu", "../news").as_posix()
        'translations/val_bleu/..%2Fnews'
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


def read_all(sentences: Sentences) -> Iterator[Sentence]:
    """All sentences, in the order of the dataset. All processes must consume it, but only process 0 gets sentences."""
    for start in range(0, sentences.text_count, _CHUNK):
        yield from sentences.read(range(start, min(start + _CHUNK, sentences.text_count)))


def write_translations(sentences: Iterable[Sentence], folder: Path, step: int, keep: int | None = None) -> bool:
    """Write hypotheses to ``step-0000500.txt``, and references and sources to ``ref.txt`` and ``src.txt``.

    With several references, they go to ``ref-1.txt``, ``ref-2.txt``, and so on. A sentence with fewer references than
    others repeats its first one, which changes no score. (An empty line would be a reference of length 0.) Line breaks
    inside a sentence become spaces. A file appears only when it is complete.

    Args:
        sentences: the sentences, in order.
        folder: the folder, which is created.
        step: the training step.
        keep: delete all but this number of the latest translations in the folder; None to delete none.

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
    translation = folder / f"step-{step:07}.txt"
    with ExitStack() as stack:
        hypotheses, sources = _Draft(translation, stack), _Draft(folder / "src.txt", stack)
        references = [_Draft(folder / "ref-1.txt", stack)]
        has_sources = False
        for sentence in sentences:
            hypotheses.write(sentence.hypothesis)
            has_sources |= sentence.source is not None
            sources.write(sentence.source or "")
            while len(references) < len(sentence.references):
                references.append(references[0].copy(folder / f"ref-{len(references) + 1}.txt", stack))
            for number, draft in enumerate(references):
                draft.write(sentence.references[number if number < len(sentence.references) else 0])
        if len(references) == 1:
            references[0].path = folder / "ref.txt"
        given = [*references, *([sources] if has_sources else [])]
        old = {path for path in folder.iterdir() if _SHARED_FILE.fullmatch(path.name)}
        others = set(_find_translations(folder)) - {translation}
        changed = {draft.path for draft in given} != old or not all(draft.equals_file() for draft in given)
        for draft in (*given, hypotheses):
            draft.publish()
        for path in old - {draft.path for draft in given}:
            path.unlink()
    if keep is not None:
        latest = sorted(_find_translations(folder), key=lambda path: (path.stat().st_mtime_ns, path.name))
        for path in latest[:-keep]:
            path.unlink()
    return changed and bool(others)


class _Draft:
    """A file that is written under a temporary name, which is removed unless the file is published."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self.path = path
        self._temporary = path.with_name(f".{path.name}.part")
        stack.callback(self._temporary.unlink, missing_ok=True)
        # A lone surrogate cannot be encoded, so it is replaced.
        file = self._temporary.open("w", encoding="utf-8", errors="replace", newline="\n")
        self._file = stack.enter_context(file)

    def write(self, line: str) -> None:
        self._file.write(" ".join(line.splitlines()) + "\n")

    def copy(self, path: Path, stack: ExitStack) -> _Draft:
        """Another draft that begins with the lines of this one."""
        self._file.flush()
        draft = _Draft(path, stack)
        with open(self._temporary, encoding="utf-8", newline="\n") as lines:
            shutil.copyfileobj(lines, draft._file)
        return draft

    def equals_file(self) -> bool:
        """Whether the file exists with the same content."""
        self._file.flush()
        return self.path.exists() and filecmp.cmp(self._temporary, self.path, shallow=False)

    def publish(self) -> None:
        """Give the file its name."""
        self._file.close()
        os.replace(self._temporary, self.path)


def _find_translations(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if _TRANSLATION.fullmatch(path.name)]


def _encode(name: str) -> str:
    encoded = re.sub(
        r"[^\w .+@-]", lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode(errors="surrogatepass")), name
    )
    return encoded.replace(".", "%2E") if set(encoded) <= {".", " "} else encoded
