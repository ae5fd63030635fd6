"""Sphinx settings. `make docs` builds the site in docs/_build."""

from __future__ import annotations

import logging
import re
import sys
import typing
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.domains.python import PyObject, PythonDomain

import lightning_bleu
import lightning_bleu.compare
import lightning_bleu.hugging_face
import lightning_bleu.tasks

project = "lightning_bleu"
author = "The lightning_bleu developers"
copyright = author
version = release = lightning_bleu.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]
nitpicky = True

# -- Theme ---------------------------------------------------------------------

html_theme = "furo"
html_title = f"lightning_bleu {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(Path(__file__).with_name("search_scorer.js"))
html_show_sourcelink = False
html_copy_source = False
copybutton_exclude = ".linenos, .gp, .go"  # prompts and output of examples

# -- Markdown ------------------------------------------------------------------

myst_enable_extensions = ["attrs_inline", "colon_fence"]
myst_heading_anchors = 3

# -- API reference -------------------------------------------------------------

default_role = "code"  # `preds` in a docstring is an argument
add_module_names = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # one list of attributes instead of an entry for each
for field in PyObject.doc_field_types:
    field.label = "Attributes" if field.name == "variable" else field.label

# Show type aliases by their names, not by the long unions that they stand for. (`autodoc_type_aliases` cannot be used:
# Sphinx 8 fails to evaluate `Tokenizer | None` with it.) The classes below take their place while annotations are read.
TYPE_ALIASES = {
    "Decoder": "lightning_bleu.core.settings",
    "Hypotheses": "lightning_bleu.core.forms",
    "MetricsByName": "lightning_bleu.evaluator",
    "References": "lightning_bleu.core.forms",
    "SampleMask": "lightning_bleu.core.forms",
    "TextFile": "lightning_bleu.compare.texts",
    "Tokenizer": "lightning_bleu.core.tokens",
    "Translations": "lightning_bleu.compare.texts",
}
for module in (lightning_bleu, lightning_bleu.tasks, lightning_bleu.hugging_face, lightning_bleu.compare):
    for name in module.__all__:
        getattr(module, name)  # imports its module
placeholders = {name: type(name, (), {"__module__": module}) for name, module in TYPE_ALIASES.items()}
for name, module in list(sys.modules.items()):
    if name.startswith("lightning_bleu."):
        vars(module).update({name: alias for name, alias in placeholders.items() if name in vars(module)})
        # Imported for type checkers only. This is how `Unpack[BLEUOptions]` becomes `BLEUOptions`.
        vars(module)["Never"] = typing.Never
        vars(module)["Unpack"] = {value: value for value in vars(module).values() if typing.is_typeddict(value)}
PythonDomain.object_types["type"].roles += ("class",)  # annotations refer to all types as classes

# -- Links to other projects ---------------------------------------------------

intersphinx_mapping = {
    "python": ("https://docs.python.org/3", None),
    "numpy": ("https://numpy.org/doc/stable", None),
    "torch": ("https://docs.pytorch.org/docs/stable", None),
    "torchmetrics": ("https://lightning.ai/docs/torchmetrics/stable", None),
    "lightning": ("https://lightning.ai/docs/pytorch/stable", None),
}
intersphinx_timeout = 5

# Warnings are errors, but the build must pass without a network, and other projects may rename what they document. So
# an inventory that cannot be downloaded is no warning (it has no type that `suppress_warnings` could name), and a
# reference to another package that cannot be resolved becomes plain text. References to this package are checked.
logging.getLogger("sphinx.sphinx.ext.intersphinx").addFilter(
    lambda record: "failed to reach any of the inventories" not in record.getMessage()
)
OTHER_PACKAGES = ["lightning", "numpy", "pytorch_lightning", "sacrebleu", "torch", "torchmetrics"]
OTHER_PACKAGES += sys.stdlib_module_names
# The checked options of a metric and the rows of sentences have no page.
nitpick_ignore_regex = [
    ("py:class", r"lightning_bleu\.[\w.]+\.(\w+Settings|sentences\.SentenceRows|marks\.Line)"),
    ("py:.*", rf"({'|'.join(OTHER_PACKAGES)})(\..*)?"),
]

# -- The landing page ----------------------------------------------------------


def prepend_readme(_: Sphinx, page: str, source: list[str]) -> None:
    """Begin the landing page with the README, up to the list of pages, which the sidebar has."""
    if page == "index":
        readme = Path(__file__).parents[1].joinpath("README.md").read_text(encoding="utf-8")
        text, _, _ = readme.partition("\n## Documentation\n")
        source[0] = text.replace("](docs/", "](") + source[0]


# -- Search --------------------------------------------------------------------


def index_search_words(_: Sphinx, page: str, source: list[str]) -> None:
    """Make entries of the index, and keywords, from comments such as ``<!-- search: 0.3, two GPUs -->``.

    The search finds entries in full. Of texts, it drops numbers and short words, and wants all of the others: those of
    the keywords count, too.
    """

    def write_directives(comment: re.Match[str]) -> str:
        main_entries = ", ".join(f"!{entry.strip()}" for entry in comment[1].split(","))
        keywords = ", ".join(dict.fromkeys(re.findall(r"\w+", comment[1])))
        meta = f"```{{eval-rst}}\n.. meta::\n   :keywords: {keywords}\n```"
        return f"```{{index}} {main_entries}\n```\n\n{meta}"

    source[0] = re.sub(r"<!-- search: (.*?) -->", write_directives, source[0])


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", prepend_readme)
    app.connect("source-read", index_search_words)
