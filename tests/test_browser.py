"""What a person sees: runs of the examples, in a real TensorBoard, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.helpers.browser import MARKS, TIMEOUT, open_browser, open_page, serve
from tests.helpers.examples import EXAMPLES, load_example, run_script
from tests.helpers.lightning import read_events

pytestmark = [*MARKS, pytest.mark.long]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logs of a short training with the callback."""
    folder = tmp_path_factory.mktemp("runs")
    options = ["--max-steps", "60", "--limit-train", "1000", "--vals-per-epoch", "2", "--layers", "1"]
    run_script(EXAMPLES / "train_translation.py", *options, "--logdir", str(folder))
    return folder


@pytest.fixture(scope="module")
def board(run: Path) -> Iterator[str]:
    with serve(run) as address:
        yield address


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with open_browser() as page:
        yield page


def check_scores(page: Page, board: str, run: Path) -> None:
    open_page(page, board, "#timeseries")
    page.locator("input[placeholder='Filter tags (regex)']").fill("val_bleu")
    page.keyboard.press("Escape")  # closes the list of suggestions
    for name in ("brevity_penalty", "by_length", "hypothesis_length"):
        page.locator("card-view").filter(has_text=f"/{name}").first.wait_for(timeout=TIMEOUT)
    page.locator("card-view").filter(has_text=re.compile("^val_bleu ?Alt.*Value")).first.wait_for(timeout=TIMEOUT)
    cards = [card.inner_text() for card in page.locator("card-view").all()]
    (card,) = [text for text in cards if text.startswith("val_bleu\nAlt")]
    events = read_events(next(run.rglob("events.out.tfevents.*")).parent)
    score = events.Scalars("val_bleu")[-1].value
    shown = [float(number) for number in re.findall(r"\d+\.\d+", card)]
    assert any(number == pytest.approx(score, abs=1e-4) for number in shown)


def check_sentences(page: Page, board: str) -> None:
    open_page(page, board, "#text")
    for name in ("samples", "worst"):
        page.get_by_text(f"val_{name}", exact=False).first.wait_for(timeout=TIMEOUT)
    table = page.locator("table").first
    table.wait_for(timeout=TIMEOUT)
    header = [cell.inner_text() for cell in table.locator("th").all()]
    assert header == ["index", "bleu", "chrf", "source, hypothesis, references"]
    first = page.locator("td:has(code):not(:has(td))").first  # TensorBoard puts the table into another one
    assert [label.inner_text() for label in first.locator("code").all()] == ["src", "hyp", "ref"]
    weights = first.locator("strong").evaluate_all("words => words.map(word => getComputedStyle(word).fontWeight)")
    assert set(weights) == {"700"}  # a model after 60 steps has words wrong
    page.get_by_text("wrong or missing", exact=False).first.wait_for(timeout=TIMEOUT)


def check_figures(page: Page, board: str) -> None:
    open_page(page, board, "#images")
    page.get_by_text("val_bleu/by_length", exact=True).first.wait_for(timeout=TIMEOUT)
    images = page.locator("img")
    images.first.wait_for(timeout=TIMEOUT)
    sizes = images.evaluate_all("images => images.map(image => [image.naturalWidth, image.width])")
    assert [700, 350] in sizes  # a whole number of pixels for each pixel of the card, so that text is crisp


def check_charts(page: Page, board: str) -> None:
    open_page(page, board, "#custom_scalars")
    for category in ("Scores", "Parts"):
        page.get_by_text(category, exact=True).first.wait_for(timeout=TIMEOUT)
    band = page.locator("tf-custom-scalar-margin-chart-card")
    band.first.get_by_text("val_bleu", exact=True).first.wait_for(timeout=TIMEOUT)
    for shape in ("area", "line"):
        band.locator(f"path.{shape}").first.wait_for(timeout=TIMEOUT)
    for title, lines in {"precisions (1 at the top to 4)": 4, "length ratio": 1, "brevity penalty": 1}.items():
        charts = page.locator("tf-custom-scalar-multi-line-chart-card").filter(has_text=f"val_bleu: {title}")
        charts.first.get_by_text(f"Matches ({lines})").first.wait_for(timeout=TIMEOUT)
        charts.first.locator("path.line").nth(lines - 1).wait_for(state="attached", timeout=TIMEOUT)


def check_addresses(page: Page, board: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The addresses that the example prints open pages with the score, its samples, and its figures, unsmoothed."""
    example = load_example("train_translation", monkeypatch)
    shown = {
        "Charts": page.locator("tf-custom-scalar-margin-chart-card").get_by_text("val_bleu", exact=True),
        "Scores": page.locator("card-view").filter(has_text=re.compile("^val_bleu")),
        "Samples": page.locator("tf-text-dashboard").get_by_text("val_samples", exact=False),
        "Figures": page.locator("tf-image-loader").get_by_text("val_bleu/by_length", exact=True),
    }
    smoothing = {"Charts": "tf-smoothing-input input", "Scores": ".scalars-smoothing input"}
    assert list(example.PAGES) == list(shown)
    for name, address in example.PAGES.items():
        open_page(page, board, address)
        shown[name].first.wait_for(timeout=TIMEOUT)
        if name in smoothing:
            assert page.locator(smoothing[name]).first.input_value() == "0"


def test_the_dashboard_is_on_its_pages(page: Page, board: str, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One test, so that the model is trained once."""
    check_scores(page, board, run)
    check_sentences(page, board)
    check_figures(page, board)
    check_charts(page, board)
    check_addresses(page, board, monkeypatch)
