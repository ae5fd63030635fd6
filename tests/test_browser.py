"""What a person sees: a run of the example, in a real TensorBoard, in a real browser."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

ROOT = Path(__file__).parents[1]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a short run of the example."""
    folder = tmp_path_factory.mktemp("runs")
    options = ["--callback", "--max-steps", "60", "--limit-train", "1000", "--vals-per-epoch", "4"]
    script = [sys.executable, str(ROOT / "examples" / "train_translation.py"), *options, "--logdir", str(folder)]
    subprocess.run(script, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def confident_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a short run with confidence intervals."""
    folder = tmp_path_factory.mktemp("confident")
    options = ["--sentences", "300", "--val-sentences", "40", "--max-steps", "40", "--val-every", "4", "--seeds", "1"]
    script = [sys.executable, str(ROOT / "examples" / "significant_gains.py"), *options, "--logdir", str(folder)]
    subprocess.run(script, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def board(run: Path) -> Iterator[str]:
    """The address of a TensorBoard that shows it."""
    yield from serve(run)


@pytest.fixture(scope="module")
def confident_board(confident_run: Path) -> Iterator[str]:
    yield from serve(confident_run)


def serve(run: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(run), "--port", str(port), "--load_fast=false"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(240):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.25)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    options = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    options += " --disable-component-update --disable-sync"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options.split())
        yield browser.new_page(viewport={"width": 1400, "height": 1000})
        browser.close()


def open_tab(page: Any, board: str, tab: str) -> None:
    page.goto("about:blank")
    page.goto(f"{board}/#{tab}")


def test_the_scores_are_on_the_page(page: Any, board: str, run: Path, tmp_path: Path) -> None:
    open_tab(page, board, "timeseries")
    page.locator("input[placeholder='Filter tags (regex)']").fill("val_bleu")
    for name in ("brevity_penalty", "by_length", "hypothesis_length"):
        page.locator("card-view").filter(has_text=f"/{name}").first.wait_for(timeout=60_000)
    page.locator("card-view").filter(has_text=re.compile("^val_bleu ?Alt.*Value")).first.wait_for(timeout=60_000)
    cards = [card.inner_text() for card in page.locator("card-view").all()]
    (card,) = [text for text in cards if text.startswith("val_bleu\nAlt")]
    events = EventAccumulator(str(next(run.rglob("events.out.tfevents.*")).parent))
    events.Reload()
    score = events.Scalars("val_bleu")[-1].value
    shown = [float(number) for number in re.findall(r"\d+\.\d+", card)]
    assert any(number == pytest.approx(score, abs=1e-4) for number in shown)
    page.screenshot(path=tmp_path / "timeseries.png")


def test_the_sentences_are_on_the_page(page: Any, board: str, tmp_path: Path) -> None:
    open_tab(page, board, "text")
    page.get_by_text("val_bleu/samples", exact=False).first.wait_for(timeout=60_000)
    table = page.locator("table").first
    table.wait_for(timeout=60_000)
    header = [cell.inner_text().replace("\n", "").replace(" ", "") for cell in table.locator("th").all()]
    assert header == ["no.", "sentenceBLEU", "hypothesis", "references"]
    labels = "".join(cell.inner_text() for cell in table.locator("td:first-child").all())
    assert "worst" in labels
    assert "best" in labels
    page.screenshot(path=tmp_path / "text.png")


def test_the_figures_are_on_the_page(page: Any, board: str, tmp_path: Path) -> None:
    open_tab(page, board, "images")
    for name in ("val_bleu/precisions", "val_bleu/by_length"):
        page.get_by_text(name, exact=True).first.wait_for(timeout=60_000)
    page.wait_for_function("() => true")
    images = page.locator("img")
    images.first.wait_for(timeout=60_000)
    widths = images.evaluate_all("images => images.map(image => image.naturalWidth)")
    assert 500 in widths
    page.screenshot(path=tmp_path / "images.png")


def test_the_intervals_are_on_the_page(page: Any, confident_board: str, tmp_path: Path) -> None:
    open_tab(page, confident_board, "custom_scalars")
    page.get_by_text("BLEU with its confidence interval").first.wait_for(timeout=60_000)
    chart = page.locator("tf-custom-scalar-margin-chart-card")
    chart.first.wait_for(timeout=60_000)
    chart.first.get_by_text("val_bleu", exact=True).first.wait_for(timeout=60_000)
    page.wait_for_function(
        """() => {
            const seen = (root) => [...root.querySelectorAll("*")].flatMap((e) => [
                ...(e.matches("path") && (e.getAttribute("d") || "").length > 40 ? [e] : []),
                ...(e.shadowRoot ? seen(e.shadowRoot) : []),
            ]);
            return seen(document).length > 0;
        }""",
        timeout=60_000,
    )
    page.screenshot(path=tmp_path / "custom_scalars.png")
