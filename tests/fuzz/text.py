"""Text for sacreBLEU's tokenizers against sacreBLEU itself, and tokens against the definition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import chain
from typing import Any

from sacrebleu.metrics.bleu import BLEU as SacreBLEU

from lightning_bleu import CorpusBLEU
from lightning_bleu.core import tokens as words
from tests.fuzz.choices import Choices
from tests.fuzz.id_forms import Argument
from tests.fuzz.rounds import Target
from tests.fuzz.updates import COPIES, MANY_TOKENS, Batch, MetricCase
from tests.helpers.text import PIECES, WORDWISE
from tests.reference import statistics

_WORDS = [
    *("the ", "a ", "cat ", "sat ", "on ", "The ", "mat. ", "it's ", "well, ", "3.5 "),
    *("«x» ", "foo-bar ", "(yes) ", "猫 ", "猫は", "U.S. ", "$5 ", "10-3 ", "İ ", "STRASSE ", "straße "),
]
_ORDERS = [4, 1, 2, *[4] * 12, 3, 5, 6, 9]
CACHE_LIMITS: Sequence[Mapping[str, int]] = [*[{}] * 12, {"_MAX_BYTES": 999}, {"_MAX_BYTES": 9_999}, {"_MAX_BYTES": 0}]
_CALLABLES: Sequence[Callable[[str], Any]] = [str.split, list, str.lower]


def make_case(choices: Choices) -> MetricCase:
    """Sentences of random characters and words, as text or as tokens."""
    sentences = choices.sentences()
    pieces = make_pieces(choices)
    as_tokens = choices.byte() % 5 == 4
    tokenizers = [*WORDWISE, *WORDWISE, "13a", "13a", choices.pick(_CALLABLES)]
    options: dict[str, Any] = {"tokenizer": choices.pick(tokenizers), "max_order": choices.pick(_ORDERS)}
    options["lowercase"] = choices.byte() % 4 == 1
    make = list if as_tokens else "".join
    rows: list[list[Any]] = [
        [make([pieces[symbol] for symbol in segment]) for segment in segments] for segments in sentences
    ]
    symbols = len([*chain.from_iterable(chain.from_iterable(sentences))])
    copies = choices.pick(COPIES) or 1 + MANY_TOKENS // max(symbols, 50)
    rows *= copies
    if choices.byte() % 4 == 1:
        rows = [sentence[:2] for sentence in rows]
    cut = choices.pick([0, 0, 1, 2, 4])
    parts = [rows[:cut], rows[cut:]] if 0 < cut < len(rows) else [rows]
    as_tuples, is_flat = choices.byte() % 2 == 1, choices.byte() % 2 == 1
    batches = [make_batch(part, as_tuples, is_flat) for part in parts]
    masked = choices.byte() if choices.byte() % 16 == 1 else None
    expect = partial(_expected_row, **options)
    return MetricCase(CorpusBLEU, options, batches, expect, {words: choices.pick(CACHE_LIMITS)}, masked)


def make_pieces(choices: Choices) -> Sequence[str]:
    """What each symbol stands for: words, pieces that are hard to tokenize, and a range of Unicode."""
    kind, first = choices.pick(["words", "few words", "pieces", "characters"]), choices.byte() << 8 | choices.byte()
    if kind == "words":
        return [_WORDS[symbol % len(_WORDS)] for symbol in range(255)]
    if kind == "few words":
        return [_WORDS[(first + symbol % 3) % len(_WORDS)] for symbol in range(255)]
    pieces = [PIECES[symbol % len(PIECES)] for symbol in range(255)]
    if kind == "characters":
        first = first * 16 if first * 16 + 255 < 0xD800 or first * 16 > 0xDFFF else 0  # without surrogates
        pieces[::2] = [chr(first + symbol) for symbol in range(0, 255, 2)]
    return pieces


def make_batch(rows: list[list[Any]], as_tuples: bool, is_flat: bool) -> Batch:
    """Sentences, each a hypothesis and its references, as the arguments of an update."""
    hypotheses, groups = [row[0] for row in rows], [row[1:] for row in rows]
    values: list[Any] = [hypotheses, groups]
    if is_flat and all(len(group) == 1 for group in groups):
        values[1] = [group[0] for group in groups]
    if as_tuples:
        values = [_as_tuples(value) for value in values]
    return Batch(Argument(values[0], hypotheses), Argument(values[1], groups))


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def _expected_row(
    hypothesis: Any, references: list[Any], _: bool, *, tokenizer: Any, max_order: int, lowercase: bool
) -> list[int]:
    """The statistics of a sentence by definition, or those of sacreBLEU."""
    if isinstance(hypothesis, list):
        return statistics(hypothesis, references, max_order)
    if callable(tokenizer):
        lines = [line.lower() if lowercase else line for line in (hypothesis, *references)]
        tokens = [tokenizer(line.rstrip()) for line in lines]
        split = [row.split() if isinstance(row, str) else row for row in tokens]
        return statistics(split[0], split[1:], max_order)
    (row,) = _peer(tokenizer, lowercase, max_order)._extract_corpus_statistics(
        [hypothesis], [[reference] for reference in references]
    )
    return [*row[2:], *row[:2]]


@cache
def _peer(tokenizer: str, lowercase: bool, max_order: int) -> SacreBLEU:
    return SacreBLEU(tokenize=tokenizer, lowercase=lowercase, max_ngram_order=max_order, force=True)


TARGET = Target("text", make_case, round_size=1_000)
