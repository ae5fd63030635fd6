"""A real browser."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from playwright.sync_api import Page, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
MARKS = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: see CONTRIBUTING.md"),
]

TIMEOUT = 60_000
"""Milliseconds to wait for something to appear on a page."""

TestT = TypeVar("TestT", bound=Callable[..., None])


def needs_browser(test: TestT) -> TestT:
    """Mark a test that needs a browser."""
    for mark in MARKS:
        test = mark(test)
    return test


@contextmanager
def open_browser() -> Iterator[Page]:
    """A page of a new browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_FLAGS)
        yield browser.new_page(viewport={"width": 1400, "height": 1000})
        browser.close()


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """The address of a TensorBoard that shows the logs in a folder."""
    options = ["--logdir", str(folder), "--port", "0", "--load_fast=false"]
    command = [sys.executable, "-m", "tensorboard.main", *options]
    # Not a pipe: TensorBoard would wait for a reader, also to stop.
    with tempfile.NamedTemporaryFile() as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            while not (found := re.search(r"http://\S+?:\d+", Path(log.name).read_text())):
                assert process.poll() is None, Path(log.name).read_text()
                time.sleep(0.25)
            yield found[0]
        finally:
            process.terminate()


def open_page(page: Page, board: str, address: str) -> None:
    """Open an address of a TensorBoard."""
    page.goto("about:blank")  # another hash alone would not load the page again
    page.goto(f"{board}/{address}")
