"""What objects that can be looked at have in common."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import overload

from lightning_bleu.views.blocks import View
from lightning_bleu.views.html import to_fragment, to_page
from lightning_bleu.views.text import to_text

_MAX_BYTES = 2**20
"""The maximum size of a page."""


def _write_whole(path: Path, page: str) -> None:
    """Write a page. What cannot be written as a whole, as on a full disk, leaves the file as it was."""
    if path.exists() and not path.is_file():  # such as /dev/stdout
        path.write_text(page, encoding="utf-8")
        return
    place = path.resolve()  # a link stays one
    new = place.with_name(f".{place.name[:100]}-{uuid.uuid4().hex}")
    try:
        new.write_text(page, encoding="utf-8")
        new.replace(place)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


class Viewable:
    """Something to look at, such as results: ``print`` it, end a notebook cell with it, or save it as a page.

    Subclasses implement ``describe``.
    """

    def describe(self, examples: int) -> View:
        """What there is to see.

        Args:
            examples: how many sentences to show of each kind, at most.
        """
        raise NotImplementedError

    @overload
    def to_html(self, path: None = None, *, examples: int = 20) -> str: ...
    @overload
    def to_html(self, path: str | os.PathLike[str], *, examples: int = 20) -> None: ...
    def to_html(self, path: str | os.PathLike[str] | None = None, *, examples: int = 20) -> str | None:
        """Write a page to look at in a browser, to send, or to print. It has no scripts, and is a single file.

        Args:
            path: the file, which is replaced. When None, the page is returned.
            examples: how many sentences to show of each kind, at most; fewer if the page would be larger than 1 MiB.

        Returns:
            the page, if there is no `path`.
        """
        page = to_page(self.describe(examples))
        while examples > 0 and len(page.encode()) > _MAX_BYTES:
            examples //= 2
            page = to_page(self.describe(examples))
        if path is None:
            return page
        _write_whole(Path(path).expanduser(), page)
        return None

    def to_text(self, *, examples: int = 0) -> str:
        """Text for a terminal or a log.

        Args:
            examples: how many sentences to show of each kind, at most.
        """
        return to_text(self.describe(examples))

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return to_fragment(self.describe(examples=3))
