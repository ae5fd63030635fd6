"""The pages of the documentation: their code blocks, and how the Python blocks run."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

OPTIONAL_PACKAGES = {"MeCab", "accelerate", "datasets", "mlflow", "sentencepiece", "transformers", "trl", "wandb"}


def parse(page: Path) -> list[Token]:
    return MarkdownIt().parse(page.read_text(encoding="utf-8"))


def blocks(page: Path, language: str, section: str | None = None) -> list[Token]:
    """The code blocks of a language, on a page or in one of its sections."""
    tokens = parse(page) if section is None else find_section(parse(page), section)
    return [token for token in tokens if token.type == "fence" and token.info == language]


def outputs(page: Path) -> Iterator[str]:
    """The text blocks that directly follow a Python block: what it prints."""
    fences = [token for token in parse(page) if token.type in ("fence", "heading_open", "paragraph_open")]
    for code, output in pairwise(fences):
        if code.info == "python" and output.info == "text":
            yield output.content.removesuffix("...\n")


def find_section(tokens: list[Token], title: str) -> list[Token]:
    """What stands below a heading, up to the next heading of its level or above."""
    headings = [i for i, token in enumerate(tokens) if token.type == "heading_open"]
    (start,) = (i for i in headings if tokens[i + 1].content == title)
    ends = (i for i in headings if i > start and tokens[i].tag <= tokens[start].tag)
    return tokens[start : next(ends, len(tokens))]


def run_page(page: Path, section: str | None = None) -> dict[str, Any]:
    """Run the Python blocks in order, in one namespace and without the network, and return what they define."""
    names: dict[str, Any] = {"__name__": page.stem}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", _find_local_address)
        for block in blocks(page, "python", section):
            imported = set(re.findall(r"^\s*(?:import|from) (\w+)", block.content, re.MULTILINE))
            for package in OPTIONAL_PACKAGES & imported:
                pytest.importorskip(package)
            assert block.map is not None
            code = "\n" * (block.map[0] + 1) + block.content  # so tracebacks show the line of the page
            exec(compile(code, page, "exec"), names)
    return names


_find_address = socket.getaddrinfo


def _find_local_address(host: Any, *args: Any, **kwargs: Any) -> Any:
    assert host in (None, "", "localhost", "127.0.0.1", "::1", socket.gethostname()), f"needs the network: {host}"
    return _find_address(host, *args, **kwargs)
