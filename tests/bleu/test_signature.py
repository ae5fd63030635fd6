"""Signatures of BLEU."""

from __future__ import annotations

from typing import Any

import pytest
import sacrebleu

from lightning_bleu import Convention, __version__, corpus_bleu
from tests.helpers.systems import TWO_ORDERS_MISSING

IDS, WORDS = TWO_ORDERS_MISSING, (["a", "b"], [["a", "b"], ["b"]])
ONE = (["a"], ["a"])


@pytest.mark.parametrize(
    ("corpus", "options", "expected"),
    [
        (IDS, {}, "nrefs:1|case:mixed|eff:no|tok:ids|smooth:exp|reflen:closest|version:"),
        (IDS, {"convention": "papineni"}, "nrefs:1|case:mixed|eff:no|tok:ids|smooth:none|reflen:closest|version:"),
        (IDS, {"smoothing": "floor", "effective_order": True}, "eff:yes|tok:ids|smooth:floor[0.10]|"),
        (IDS, {"convention": "nltk"}, "smooth:method0|reflen:closest|zero:leave-out|possible:1+|version:"),
        (IDS, {"convention": "gnmt", "smoothing": "epsilon"}, "epsilon[1e-13]|reflen:shortest|zero:as-smoothed|ver"),
        (IDS, {"max_order": 2, "weights": (0.7, 0.3), "unk_id": 3}, "|unk:unmatched|order:2|weights:0.7,0.3|version:"),
        (IDS, {"convention": Convention(zero_rule="leave-out")}, "|zero:leave-out|"),
        (IDS, {"decoder": lambda rows: ["a"] * len(rows), "unk_id": 3}, "|tok:13a|smooth:exp|reflen:closest|version:"),
        (([], []), {}, "nrefs:?|case:mixed|eff:no|tok:?|smooth:exp|reflen:closest|version:"),
        (WORDS, {"tokenizer": "intl", "lowercase": True}, "nrefs:var|case:lc|eff:no|tok:intl|"),
        ((["a"], [["a", "b"]]), {"tokenizer": str.split}, "nrefs:2|case:mixed|eff:no|tok:split|"),
        (([["a"]], [["a"]]), {"percent": True}, "|tok:tokens|"),
        (ONE, {"tokenizer": "ja-mecab"}, "|tok:ja-mecab-0.996-IPA|"),
        (ONE, {"percent": True}, corpus_bleu(*ONE).signature),  # the unit is no part of it
        (ONE, {}, f"|version:{sacrebleu.__version__}|lightning_bleu:{__version__}"),
    ],
)
def test_a_signature_names_everything_that_a_score_depends_on(
    corpus: Any, options: dict[str, Any], expected: str
) -> None:
    assert expected in corpus_bleu(*corpus, **options).signature
