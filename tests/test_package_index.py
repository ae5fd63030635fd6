"""What a package index shows of the package: its description and its links, as the index renders them."""

from __future__ import annotations

import re
import shutil
import zipfile
from email import message_from_string
from email.message import Message
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from readme_renderer.markdown import render

import lightning_bleu

ROOT = Path(__file__).parents[1]
ADDRESS = "https://example.org/bleu-developers/lightning_bleu"


class Links(HTMLParser):
    """The targets of the links and pictures of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.pictures: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "a":
            self.links.append(attributes.get("href") or "")
        if tag == "img":
            self.pictures.append(attributes.get("src") or "")


def build(folder: Path, address: str) -> tuple[Message, list[str]]:
    """The metadata of a wheel that is built with a public address, and its files."""
    source = folder / "source"
    shutil.copytree(ROOT / "lightning_bleu", source / "lightning_bleu", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("LICENSE", "README.md", "hatch_build.py"):
        shutil.copy(ROOT / name, source)
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    settings, count = re.subn('^repository = ".*?"', f'repository = "{address}"', settings, flags=re.MULTILINE)
    assert count == 1
    (source / "pyproject.toml").write_text(settings, encoding="utf-8")
    (wheel,) = WheelBuilder(str(source)).build(directory=str(folder), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (name,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        return message_from_string(archive.read(name).decode("utf-8")), names


def description_of(metadata: Message) -> str:
    """The text below the headers."""
    text = metadata.get_payload()
    assert isinstance(text, str)
    return text


def targets_in_readme() -> list[str]:
    """The targets of all links and pictures of the README, as its Markdown has them."""
    return re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))


def render_links(description: str) -> Links:
    """The links and pictures of a description as the package index renders it."""
    page = render(description)
    assert page is not None
    links = Links(page)
    links.links = [link for link in links.links if not link.startswith("#")]  # headings and footnotes
    return links


def test_without_a_public_address_the_description_names_files(tmp_path: Path) -> None:
    metadata, names = build(tmp_path, address="")
    stubs = {f"lightning_bleu/{folder}__init__.pyi" for folder in ("", "tasks/", "hugging_face/", "compare/")}
    assert {"lightning_bleu/py.typed", "lightning_bleu/views/templates/page.html", *stubs} <= {*names}
    description = description_of(metadata)
    targets = targets_in_readme()
    websites = [target for target in targets if target.startswith("https://")]
    links = render_links(description)
    assert links.links == websites
    assert links.pictures == []
    files = {target.partition("#")[0] for target in targets} - {*websites}
    assert "docs/pictures/dashboard.png" in files
    assert [file for file in files if file not in description] == []
    assert "pip install .\n" in description
    assert all("aclanthology.org" in url for url in metadata.get_all("Project-URL", []))


def test_with_a_public_address_all_links_and_pictures_are_absolute(tmp_path: Path) -> None:
    metadata, _ = build(tmp_path, ADDRESS)
    description = description_of(metadata)
    links = render_links(description)
    assert len(links.links) + len(links.pictures) == len(targets_in_readme())
    tag = f"v{lightning_bleu.__version__}"
    prefixes = {"links": f"{ADDRESS}/blob/{tag}/", "pictures": f"{ADDRESS}/raw/{tag}/"}
    for kind, prefix in prefixes.items():
        targets = vars(links)[kind]
        assert [target for target in targets if not target.startswith("https://")] == []
        ours = [target.removeprefix(prefix) for target in targets if target.startswith(ADDRESS)]
        assert ours
        for target in ours:
            assert (ROOT / target.partition("#")[0]).is_file(), target
    assert "pip install lightning-bleu\n" in description
    assert "From a checkout" not in description
    urls = dict(url.split(", ") for url in metadata.get_all("Project-URL", []))
    assert urls["Source"] == ADDRESS
    assert urls["Changelog"] == f"{ADDRESS}/blob/{tag}/CHANGELOG.md"


def test_a_readme_that_installs_otherwise_is_an_error() -> None:
    from hatch_build import install_from_index

    with pytest.raises(ValueError, match=r"README.md must contain 'From a checkout, with' once, found it 0 times"):
        install_from_index("pip install lightning-bleu", "lightning-bleu")
