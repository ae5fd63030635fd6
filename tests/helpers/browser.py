"""A real browser."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
