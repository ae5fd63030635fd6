"""Views as HTML: a page, or a part of a notebook. Neither has scripts, nor loads anything.

The templates are in ``templates/``. Jinja2 escapes all that they insert, except for charts.
"""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from lightning_bleu.core.clean import clean, is_visible, to_line
from lightning_bleu.version import __version__
from lightning_bleu.views.blocks import View, describe_marks
from lightning_bleu.views.drawing import draw_chart
from lightning_bleu.views.marks import shorten

MAX_ROWS_OF_PAGE = 500
"""The maximum number of rows of a table."""


def to_page(view: View) -> str:
    """A view as a page."""
    return _environment().get_template("page.html").render(view=view, version=__version__)


def to_fragment(view: View) -> str:
    """A view as a part of a page, for a notebook.

    Example:
        >>> html = to_fragment(View("a < b"))
        >>> html[html.index("<h1>"):].split()
        ['<h1>a', '&lt;', 'b</h1>', '</div>']
    """
    return _environment().get_template("fragment.html").render(view=view)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("lightning_bleu.views"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(clean=clean, shorten=shorten, to_line=to_line)
    environment.globals.update(draw=draw_chart, describe_marks=describe_marks, max_rows=MAX_ROWS_OF_PAGE)
    environment.tests.update(visible=is_visible)
    return environment
