"""Lines to show, and what loggers show of them."""

from __future__ import annotations

from typing import Any

from lightning_bleu import corpus_bleu, sentence_bleu
from lightning_bleu.evaluation.scores.validation import ScoredLoader
from lightning_bleu.observers.loader_view import LoaderView, make_view
from lightning_bleu.observers.samples import Samples, choose_sentences, make_samples
from tests.helpers.validations import Counting, count, score

LINES = [
    ("the cat sat on the mat", ["the cat is on the mat", "a cat is on the mat"]),
    ("nothing in common", ["these words differ entirely"]),
    ("all of this is right", ["all of this is right"]),
    ("<b>bold</b> | pipe here now", ["<i>so</i> | pipe here now"]),
    ("one more line for the table", ["one more row for the table"]),
]
HYPOTHESES, REFERENCES = [hypothesis for hypothesis, _ in LINES], [references for _, references in LINES]
BLEU = sentence_bleu(HYPOTHESES, REFERENCES, percent=True).tolist()
SIGNATURE = corpus_bleu(HYPOTHESES, REFERENCES).signature


def view(
    samples: int, metrics: Any = None, preds: Any = HYPOTHESES, target: Any = REFERENCES, **fields: Any
) -> LoaderView:
    """A view of the sentences of the loader ``news``."""
    validation = score(count(Counting(metrics, ["news"]), preds, target, **fields))
    (loader,) = validation.loaders
    return make_view(loader, samples_of(loader, samples), validation.naming)


def samples_of(loader: ScoredLoader, count: int) -> Samples:
    """The samples of a loader."""
    return make_samples(loader, choose_sentences(loader, count), "val")
