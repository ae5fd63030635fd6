"""Draw the pictures of the README and of the site anew, in about three minutes.

    python -m docs.draw_pictures

Runs the tutorial in a folder of its own, and takes screenshots of TensorBoard and of a comparison. Run it in the root
of the repository. It needs Chromium, like the tests of pages; see CONTRIBUTING.md.
"""

from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import FloatRect, Locator, Page

from lightning_bleu.compare import compare_systems
from tests.helpers.browser import TIMEOUT, open_browser, open_page, serve
from tests.helpers.pages import run_page

DOCS = Path(__file__).parent
CHARTS = "#custom_scalars&_smoothingWeight=0"
WIDTH, HEIGHT = 345, 217
"""The size of a chart: two of them beside each other can be read on a phone."""


def draw_charts(page: Page, board: str, titles: list[str], file: str) -> None:
    """Charts of TensorBoard in two columns, without their buttons."""
    open_page(page, board, CHARTS)
    shown = []
    for title in titles:
        kind = "multi-line" if ":" in title else "margin"
        cards = page.locator(f"tf-custom-scalar-{kind}-chart-card").filter(has_text=title)
        cards.first.locator("path.line").first.wait_for(state="attached", timeout=TIMEOUT)
        shown.append(cards.first)
    page.wait_for_timeout(3000)  # for lines that move into place
    images = [take(page, card) for card in shown]
    columns = min(2, len(images))
    picture = Image.new("RGB", (WIDTH * columns, HEIGHT * -(-len(images) // columns)), "white")
    for number, image in enumerate(images):
        picture.paste(image, (WIDTH * (number % columns), HEIGHT * (number // columns)))
    save(picture, file)


def take(page: Page, element: Locator, width: int = WIDTH, height: int = HEIGHT) -> Image.Image:
    """A screenshot of the upper left part of an element."""
    element.scroll_into_view_if_needed()
    box = element.bounding_box()
    assert box is not None
    part: FloatRect = {"x": box["x"], "y": box["y"], "width": width, "height": height}
    return Image.open(io.BytesIO(page.screenshot(clip=part)))


def save(picture: Image.Image, file: str) -> None:
    """Write a picture in few colors."""
    picture.convert("P", palette=Image.Palette.ADAPTIVE, colors=64).save(DOCS / "pictures" / file, optimize=True)


def draw_board(page: Page, logs: Path) -> None:
    """What TensorBoard shows of the runs of the tutorial."""
    scores = ["val_bleu", "val_chrf"]
    parts = ["val_bleu: precisions", "val_bleu: brevity penalty"]
    with serve(logs / "first") as board:
        draw_charts(page, board, [*scores, *parts], "first_charts.png")
    with serve(logs / "limited") as board:
        open_page(page, board, "#text")
        table = page.locator("tf-markdown-view").first
        table.locator("strong").first.wait_for(timeout=TIMEOUT)
        save(take(page, table, 980, 420), "samples.png")
    with serve(logs) as board:
        draw_charts(page, board, ["val_bleu"], "dashboard.png")
        draw_charts(page, board, [*scores, *parts], "limited_charts.png")


def draw_comparison(page: Page, record: Path) -> None:
    """Three validations of a run of the tutorial, as a page."""
    folders = {f"step {step}": record / f"val/step-{step:07}" for step in (200, 225, 300)}
    compare_systems(folders).to_html("comparison.html", examples=2)
    page.set_viewport_size({"width": 700, "height": 900})
    page.goto(Path("comparison.html").absolute().as_uri())
    save(Image.open(io.BytesIO(page.screenshot())), "comparison.png")


def main() -> None:
    """Draw all of them."""
    with tempfile.TemporaryDirectory() as folder, open_browser() as page:
        os.chdir(folder)
        run_page(DOCS / "first_dashboard.md")
        draw_board(page, Path("runs"))
        draw_comparison(page, Path("runs/first/translations"))


if __name__ == "__main__":
    main()
