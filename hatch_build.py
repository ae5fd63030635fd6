"""Build step of hatchling: the README as a package index shows it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ReadmeHook(MetadataHookInterface):
    """Makes the README of the repository the description of the package."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the description; hatchling calls this."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": name_files(text)}


def name_files(text: str) -> str:
    """Replace links to files, and pictures, with the names of the files: a package index has only this text.

    Once the repository has a public address, it can be put in front of each path instead.

    Example:
        >>> name_files("[Quickstart](docs/quickstart.md#install), [torch](https://pytorch.org), [`LICENSE`](LICENSE)")
        'Quickstart (`docs/quickstart.md`), [torch](https://pytorch.org), `LICENSE`'
    """

    def name_file(link: re.Match[str]) -> str:
        label, path = link.groups()
        return label if label.strip("`") == path else f"{label} (`{path}`)"

    return re.sub(r"!?\[([^]]*)\]\((?!https:)([^)#]+)(?:#[^)]*)?\)", name_file, text)
