"""Sample sentences: which ones a dashboard shows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from lightning_bleu.scoring.bleu import score
from lightning_bleu.settings.bleu import BLEUSettings
from lightning_bleu.settings.tokenizers import load_tokenizer
from lightning_bleu.training.sentences import Sentence

_CHUNK = 2**14
"""The number of sentences that are scored at a time, so that intermediate results need little memory."""
_MAX_CHARACTERS = 20_000
"""The maximum number of characters of a sample; a hypothesis that never ends would take seconds to mark."""


class Line(NamedTuple):
    """A hypothesis or a reference.

    Attributes:
        text: the text as the model or the dataset has it.
        tokens: its tokens, as they are counted.
    """

    text: str
    tokens: Sequence[str]


class Sample(NamedTuple):
    """A sentence to show.

    Attributes:
        number: the position in the dataset, starting from 1.
        bleu: sentence BLEU, in percent.
        hypothesis: the hypothesis.
        references: its references.
        source: the source sentence, if the step returned one.
    """

    number: int
    bleu: float
    hypothesis: Line
    references: Sequence[Line]
    source: str | None = None


def score_sentences(statistics: Tensor, settings: BLEUSettings) -> Tensor:
    """The BLEU of each sentence, in percent, as sacreBLEU scores sentences: with smoothing and effective order.

    Args:
        statistics: numbers of shape ``(sentences, 2 * max_order + 2)``.
        settings: the settings of the corpus.

    Example:
        >>> statistics = torch.tensor([[6, 5, 4, 3, 6, 5, 4, 3, 6, 6], [2, 0, 0, 0, 4, 3, 2, 1, 4, 4]])
        >>> score_sentences(statistics, BLEUSettings.from_options())
        tensor([100.0000,  18.9959], dtype=torch.float64)
    """
    for_sentences = dataclasses.replace(
        settings, smoothing="exp", smoothing_value=None, effective_order=True, zero_rule="no-match"
    )
    return torch.cat([100 * score(chunk, for_sentences).bleu for chunk in torch.split(statistics, _CHUNK)])


def find_worst(statistics: Tensor, settings: BLEUSettings, count: int) -> list[int]:
    """The sentences most worth reading: those that are bad even for their length.

    While a model is weak, the lowest sentence BLEU is that of short sentences without a long match. So each sentence is
    scored together with two tokens' worth of the statistics of the corpus, which matter more the shorter it is.

    Args:
        statistics: integers of shape ``(sentences, 2 * max_order + 2)``.
        settings: the settings of the corpus.
        count: the number of sentences.

    Returns:
        their positions, the worst first.
    """
    total = statistics.sum(0).double()
    smoothed = statistics + 2 * total / total[-1].clamp(min=1)
    worst: list[int] = score_sentences(smoothed, settings).argsort(stable=True)[:count].tolist()
    return worst


def make_samples(
    sentences: Sequence[Sentence], positions: Sequence[int], scores: Tensor, settings: BLEUSettings
) -> list[Sample]:
    """Tokenize sentences so that their words can be marked.

    Args:
        sentences: the texts.
        positions: their positions in the dataset, from 0.
        scores: the sentence BLEU of all sentences of the dataset, in percent.
        settings: how to tokenize.

    Example:
        >>> settings = BLEUSettings.from_options()
        >>> make_samples([Sentence("Hi!", ["Hello!"])], [4], torch.zeros(5), settings)
        [Sample(number=5, bleu=0.0, hypothesis=Line(text='Hi!', tokens=['Hi', '!']), \
references=[Line(text='Hello!', tokens=['Hello', '!'])], source=None)]
    """
    split = _splitter(settings)
    samples = []
    for position, (hypothesis, references, source, tokenized) in zip(positions, sentences):
        texts = [text[:_MAX_CHARACTERS] for text in (hypothesis, *references)]
        lines = [Line(text, (str.split if tokenized else split)(text)) for text in texts]
        samples.append(Sample(position + 1, scores[position].item(), lines[0], lines[1:], source))
    return samples


def _splitter(settings: BLEUSettings) -> Callable[[str], list[str]]:
    tokenize = load_tokenizer(settings.tokenizer)

    def split(text: str) -> list[str]:
        tokens = tokenize((text.lower() if settings.lowercase else text).rstrip())
        return tokens.split() if isinstance(tokens, str) else [str(token) for token in tokens]

    return split
