"""Build step of hatchling: the description and the links that a package index shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^]]*)\]\((?!https:)([^)#]+)(#[^)]*)?\)")
"""A link to a file of the repository, or a picture: `!`, label, path, anchor."""


class PackageIndexHook(MetadataHookInterface):
    """Makes the README the description of the package.

    The setting `repository` in pyproject.toml has the public address of the repository. If it is empty, the description
    names files instead of linking to them, and installs from a checkout.
    """

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the description and the links; hatchling calls this."""
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        urls = dict(self.config["urls"])
        repository = self.config["repository"]
        if repository:
            tag = f"v{metadata['version']}"
            description = link_files(install_from_index(readme, metadata["name"]), repository, tag)
            urls["Source"] = repository
            urls["Issues"] = f"{repository}/issues"
            urls["Changelog"] = f"{repository}/blob/{tag}/CHANGELOG.md"
        else:
            description = name_files(readme)
        metadata["readme"] = {"content-type": "text/markdown", "text": description}
        metadata["urls"] = urls


def name_files(text: str) -> str:
    """Replace links to files, and pictures, with the names of the files.

    Example:
        >>> name_files("[Quickstart](docs/quickstart.md#install), [torch](https://pytorch.org), [`LICENSE`](LICENSE)")
        'Quickstart (`docs/quickstart.md`), [torch](https://pytorch.org), `LICENSE`'
    """

    def name_file(link: re.Match[str]) -> str:
        _, label, path, _ = link.groups()
        if label.strip("`") == path:
            return label
        return f"{label} (`{path}`)"

    return LINK.sub(name_file, text)


def link_files(text: str, repository: str, tag: str) -> str:
    """Replace links to files, and pictures, with their public addresses at a tag.

    Example:
        >>> link_files("[Why 0?](docs/scores.md#why-0), ![Charts](charts.png)", "https://example.org/bleu", "v1.0.0")
        '[Why 0?](https://example.org/bleu/blob/v1.0.0/docs/scores.md#why-0),
        ![Charts](https://example.org/bleu/raw/v1.0.0/charts.png)'
    """

    def link_file(link: re.Match[str]) -> str:
        mark, label, path, anchor = link.groups(default="")
        view = "raw" if mark else "blob"
        return f"{mark}[{label}]({repository}/{view}/{tag}/{path}{anchor})"

    return LINK.sub(link_file, text)


def install_from_index(text: str, package: str) -> str:
    """Replace the installation from a checkout.

    Example:
        >>> install_from_index("From a checkout, with Python 3:\\n\\n    pip install .\\n", "lightning-bleu")
        'With Python 3:\\n\\n    pip install lightning-bleu\\n'
    """
    for checkout, index in {"From a checkout, with": "With", "pip install .\n": f"pip install {package}\n"}.items():
        if text.count(checkout) != 1:
            raise ValueError(f"README.md must contain {checkout!r} once, found it {text.count(checkout)} times")
        text = text.replace(checkout, index)
    return text
