"""Ids in every form, against the definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from lightning_bleu import CorpusBLEU
from lightning_bleu.bleu import BLEUSettings
from lightning_bleu.core import ngrams
from tests.fuzz.choices import Choices
from tests.fuzz.formulas import choose_length
from tests.fuzz.id_forms import Padding, make_preds, make_target, separate_layouts
from tests.fuzz.rounds import Target
from tests.fuzz.updates import COPIES, MANY_TOKENS, Batch, MetricCase
from tests.helpers.counting import EXTREME_IDS, Ids, remove_special_ids
from tests.reference import statistics

_SPREAD = [(number - 4) * 2**55 + number for number in range(9)]
_VOCABULARIES: Sequence[Sequence[int]] = [
    range(3),
    range(2),
    range(6),
    range(12),
    range(200),
    range(-3, 3),
    [-100, -99, -1, 0, 1, 2, 3],
    EXTREME_IDS,
    _SPREAD,
    [0, 1, 127, 128, 255],
    [2**22 - 1, 2**22, 2**22 - 2, 0, 5],
    [2**31 - 1, -(2**31), 2**31, 2**32 - 1, 7],
    [2**63 - 1, 2**63 - 2, 2**63 - 3],
    [-(2**63), 1 - 2**63, 2 - 2**63, -(2**62)],
]
"""The ids of an input."""
_CONVENTIONS = ["sacrebleu", "sacrebleu", "sacrebleu", "nltk", "gnmt", "torchmetrics"]
_ORDERS = [4, 1, 2, 3, *[4] * 20, 5, 6, 7, 9, 15, 40]
_LENGTH_RULES = [None, None, None, "closest", "closest-first", "shortest"]
_STRETCHES = [1] * 200 + [3] * 30 + [10] * 10 + [40] * 5 + [2000]
"""How many times each segment is repeated; the last makes sentences that are longer than a chunk."""
_LONG = 10_000
"""The number of tokens of a batch of long sentences."""
_UNKNOWN = 123_456_789
"""An id that no hypothesis has."""

_KERNEL_LIMITS: Sequence[Mapping[str, int]] = [
    {},
    {},
    {},
    {"_MAX_HYPOTHESIS_TOKENS": 6, "_MAX_TOKENS": 14},
    {"_MAX_HYPOTHESIS_TOKENS": 0, "_MAX_TOKENS": 0},
    {"_MAX_TABLE": 2},
    {"_MAX_CELLS": 4},
    {"_KEY_BITS": 0},
    {"_MAX_HYPOTHESIS_TOKENS": 20, "_MAX_TOKENS": 50, "_MAX_TABLE": 2, "_MAX_CELLS": 16, "_KEY_BITS": 0},
]
"""Limits of the kernel, so low that a small batch reaches them; see :func:`_lower`."""
_SMALL = 2_000
"""Batches with more tokens and segments reach the limits as they are."""


def make_case(choices: Choices) -> MetricCase:
    """Sentences of random ids, with random options."""
    vocabulary = choices.pick(_VOCABULARIES)
    sentences = [
        [[vocabulary[symbol % len(vocabulary)] for symbol in segment] for segment in segments]
        for segments in choices.sentences()
    ]
    options, padding = _make_options(choices, vocabulary)
    if choices.byte() % 4 == 1:
        sentences = [sentence[:2] for sentence in sentences]
    sentences = _repeat(sentences, choices.pick(_STRETCHES), choices.pick(COPIES))
    cut = choices.pick([0, 0, 0, 0, 1, 3])
    parts = [sentences[:cut], sentences[cut:]] if 0 < cut < len(sentences) else [sentences]
    batches = []
    for part in parts:
        preds = make_preds([hypothesis for hypothesis, *_ in part], padding, choices)
        target = make_target([references for _, *references in part], padding, choices)
        batches.append(Batch(separate_layouts(preds, target), target))
    lowered = _lower(choices.pick(_KERNEL_LIMITS), batches)
    masked = choices.byte() if choices.byte() % 12 == 1 else None
    expect = partial(_expected_row, BLEUSettings.from_options(**options))
    return MetricCase(CorpusBLEU, options, batches, expect, {ngrams: lowered}, masked)


def _lower(values: Mapping[str, int], batches: Sequence[Batch]) -> Mapping[str, int]:
    """Limits for some batches. A limit of 0 bits becomes what the kernel needs to count one or two orders per pass."""
    if not values:
        return values
    segments = [*chain.from_iterable([*batch.preds.rows, *chain(*batch.target.rows)] for batch in batches)]
    size = len(segments) + sum(map(len, segments))
    if size > _SMALL:
        return {}
    # The number of a sentence or a matched n-gram, one label, and the side.
    references = max((len(group) for batch in batches for group in batch.target.rows), default=1)
    needed = 2 * size.bit_length() + (2 * references).bit_length()
    return {name: needed if name == "_KEY_BITS" else value for name, value in values.items()}


def _make_options(choices: Choices, vocabulary: Sequence[int]) -> tuple[dict[str, Any], Padding]:
    some = [vocabulary[0], vocabulary[-1], vocabulary[len(vocabulary) // 2], vocabulary[1]]
    special = [None, None, None, None, *some, -1, 0, 999]
    options: dict[str, Any] = {"max_order": choices.pick(_ORDERS), "convention": choices.pick(_CONVENTIONS)}
    for name in ("pad_id", "bos_id", "eos_id", "unk_id"):
        options[name] = choices.pick(special)
    ignored = [(-100,), (-100,), None, (), some[0], some[1:3], (some[3], 999)]
    options["ignore_ids"] = choices.pick(ignored)
    options["reference_length"] = choices.pick(_LENGTH_RULES)
    removed = BLEUSettings.from_options(**options).removed_ids
    fill, left = choices.byte(), choices.pick([0, 0, 0, 1, 2])
    if removed and fill % 8 < 7:
        return options, Padding(removed[fill % len(removed)], True, left)
    return options, Padding(vocabulary[0], False, left)


def _repeat(sentences: list[list[Ids]], stretch: int, copies: int) -> list[list[Ids]]:
    """Repeat each segment, and then the sentences, with other references each time."""
    tokens = max(1, len([*chain.from_iterable(chain.from_iterable(sentences))]))
    stretch = min(stretch, 1 + _LONG // tokens)
    if stretch > 1:
        sentences = [[segment * stretch for segment in segments] for segments in sentences]
    copies = copies or 1 + MANY_TOKENS // max(tokens * stretch, 50)
    size = len(sentences)
    return [
        [sentences[index][0], *sentences[(index + copy) % size][1:]] for copy in range(copies) for index in range(size)
    ]


def _expected_row(settings: BLEUSettings, ids: Ids, group: list[Ids], drops_empty: bool) -> list[int]:
    """The statistics of a sentence by definition."""
    special = {name: getattr(settings, name) for name in ("pad_id", "bos_id", "eos_id", "ignore_ids")}
    hypothesis, *references = (remove_special_ids(segment, **special) for segment in (ids, *group))
    if drops_empty:
        references = [*filter(None, references)] or references[:1]
    if settings.unk_id is not None:
        references = [[_UNKNOWN if id_ == settings.unk_id else id_ for id_ in segment] for segment in references]
    order, least = settings.max_order, settings.min_possible_matches
    row = statistics(hypothesis, references, order)
    chosen = choose_length(settings.reference_length, len(hypothesis), [*map(len, references)])
    return [*row[:order], *(max(possible, least) for possible in row[order:-2]), len(hypothesis), chosen]


TARGET = Target("ids", make_case, round_size=1_000)
