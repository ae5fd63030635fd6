"""Port BLEU code from fastai, torchmetrics, sacreBLEU, and NLTK to this library, and get the same numbers.

Takes a few seconds. From a checkout::

    pip install ".[examples]"
    python examples/coming_from.py

Each pair of functions below computes the same score, before and after the port. The script runs all of them, prints the
scores side by side, and checks that they agree.

Watch the layout of the references. sacreBLEU wants one list per stream of references: the first reference of every
sentence, then the second reference of every sentence, and so on. This library, torchmetrics, and NLTK want one list per
sentence. ``list(zip(*streams))`` converts one layout to the other.
"""

# The function names say it all.
# ruff: noqa: D103

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import torch
from nltk.translate.bleu_score import SmoothingFunction  # type: ignore[import-untyped]
from nltk.translate.bleu_score import corpus_bleu as nltk_corpus_bleu
from sacrebleu import BLEU
from sacrebleu import corpus_bleu as sacrebleu_corpus_bleu
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torchmetrics.text import BLEUScore, SacreBLEUScore

from lightning_bleu import CorpusBLEU, corpus_bleu

HYPOTHESES = [
    "The cat is sitting on the mat, isn't it?",
    "Two dogs are playing in the snow!",
    "A woman reads a book in the park.",
    "Children eat ice cream, because it is hot.",
]
STREAMS = [
    [
        "The cat sat on the mat, didn't it?",
        "Two dogs play in the snow!",
        "A woman is reading a book in the park.",
        "Children are eating ice cream because it is hot.",
    ],
    [
        "The cat is on the mat, isn't it?",
        "Two dogs are playing in the white snow.",
        "The woman reads a book in a park.",
        "The children eat ice cream, for it is hot.",
    ],
]
REFERENCES = list(zip(*STREAMS))
"""One list of references per hypothesis."""

PAD = 1


# fastai ---------------------------------------------------------------------------------------------------------------


class OldCallback:
    """The callback from fastai's notebooks: adds up counts over the batches and computes the score after the epoch."""

    def before_epoch(self) -> None:
        self.pred_len, self.targ_len = 0, 0
        self.corrects, self.counts = [0] * 4, [0] * 4

    def after_batch(self, preds: Tensor, targets: Tensor) -> None:
        for pred, targ in zip(preds.tolist(), targets.tolist()):
            self.pred_len += len(pred)
            self.targ_len += len(targ)
            for i in range(4):
                pred_ngrams, targ_ngrams = (
                    Counter(tuple(ids[j : j + i + 1]) for j in range(len(ids) - i)) for ids in (pred, targ)
                )
                self.corrects[i] += (pred_ngrams & targ_ngrams).total()
                self.counts[i] += pred_ngrams.total()

    def after_epoch(self) -> float:
        precisions = [correct / count for correct, count in zip(self.corrects, self.counts)]
        penalty = math.exp(1 - self.targ_len / self.pred_len) if self.pred_len < self.targ_len else 1
        return float(penalty * math.prod(precisions) ** 0.25)


def fastai_before() -> float:
    callback = OldCallback()
    callback.before_epoch()
    for preds, targets in id_batches():
        callback.after_batch(preds, targets)
    return callback.after_epoch()


def fastai_after() -> float:
    # The old code counts padding as words, and so does this: no id is -100. To exclude padding, set pad_id=PAD.
    metric = CorpusBLEU(convention="fastai", pad_id=-100)
    for preds, targets in id_batches():
        metric.update(preds, targets)
    return metric.compute().item()


def id_batches() -> list[tuple[Tensor, Tensor]]:
    """Two batches of hypotheses and references, each of shape ``(sentences, tokens)``."""
    lines = HYPOTHESES + STREAMS[0]
    ids = {
        word: number for number, word in enumerate(sorted({word for line in lines for word in line.split()}), PAD + 1)
    }
    encoded = [torch.tensor([ids[word] for word in line.split()]) for line in lines]
    preds, targets = pad_sequence(encoded, batch_first=True, padding_value=PAD).chunk(2)
    return list(zip(preds.chunk(2), targets.chunk(2)))


# torchmetrics ---------------------------------------------------------------------------------------------------------


def torchmetrics_before() -> float:
    metric = BLEUScore(n_gram=4)
    metric.update(HYPOTHESES, REFERENCES)
    return metric.compute().item()


def torchmetrics_after() -> float:
    metric = CorpusBLEU(max_order=4, convention="torchmetrics")
    metric.update(HYPOTHESES, REFERENCES)
    return metric.compute().item()


def torchmetrics_sacrebleu_before() -> float:
    metric = SacreBLEUScore(tokenize="13a", lowercase=True)
    metric.update(HYPOTHESES, REFERENCES)
    return metric.compute().item()


def torchmetrics_sacrebleu_after() -> float:
    metric = CorpusBLEU(convention="torchmetrics", tokenizer="13a", lowercase=True)
    metric.update(HYPOTHESES, REFERENCES)
    return metric.compute().item()


# sacreBLEU ------------------------------------------------------------------------------------------------------------


def sacrebleu_before() -> float:
    return sacrebleu_corpus_bleu(HYPOTHESES, STREAMS).score


def sacrebleu_after() -> float:
    return corpus_bleu(HYPOTHESES, list(zip(*STREAMS)), percent=True).bleu


def sacrebleu_options_before() -> float:
    metric = BLEU(lowercase=True, tokenize="intl")
    score: float = metric.corpus_score(HYPOTHESES, STREAMS).score
    return score


def sacrebleu_options_after() -> float:
    metric = CorpusBLEU(lowercase=True, tokenizer="intl", percent=True)
    metric.update(HYPOTHESES, list(zip(*STREAMS)))
    return metric.compute().item()


# NLTK -----------------------------------------------------------------------------------------------------------------


def nltk_before() -> float:
    # No 4-gram matches, so the smoothing makes a difference.
    hypotheses, references = [HYPOTHESES[0].split()], [[STREAMS[0][0].split()]]
    # NLTK takes the references first.
    return float(nltk_corpus_bleu(references, hypotheses, smoothing_function=SmoothingFunction().method1))


def nltk_after() -> float:
    # The "nltk" convention splits at whitespace. You can also pass lists of tokens.
    return corpus_bleu(HYPOTHESES[:1], STREAMS[0][:1], convention="nltk", smoothing="method1").bleu


def nltk_weights_before() -> float:
    references = [[reference.split() for reference in group] for group in REFERENCES]
    hypotheses = [hypothesis.split() for hypothesis in HYPOTHESES]
    return float(nltk_corpus_bleu(references, hypotheses, weights=(0.5, 0.5)))


def nltk_weights_after() -> float:
    return corpus_bleu(HYPOTHESES, REFERENCES, convention="nltk", max_order=2, weights=(0.5, 0.5)).bleu


PAIRS: dict[str, tuple[Callable[[], float], Callable[[], float]]] = {
    "fastai's notebook callback": (fastai_before, fastai_after),
    "torchmetrics BLEUScore": (torchmetrics_before, torchmetrics_after),
    "torchmetrics SacreBLEUScore": (torchmetrics_sacrebleu_before, torchmetrics_sacrebleu_after),
    "sacreBLEU corpus_bleu": (sacrebleu_before, sacrebleu_after),
    "sacreBLEU BLEU with options": (sacrebleu_options_before, sacrebleu_options_after),
    "NLTK corpus_bleu, method1": (nltk_before, nltk_after),
    "NLTK corpus_bleu, weights": (nltk_weights_before, nltk_weights_after),
}


def main(argv: Sequence[str] | None = None) -> dict[str, tuple[float, float]]:
    """Print all pairs of scores, and check that they agree."""
    scores = {name: (before(), after()) for name, (before, after) in PAIRS.items()}
    print(f"{'':30}{'before':>12}{'after':>12}")
    for name, (before, after) in scores.items():
        print(f"{name:30}{before:12.6f}{after:12.6f}")
        # torchmetrics computes in float32
        assert math.isclose(before, after, rel_tol=1e-6), name
    return scores


if __name__ == "__main__":
    main()
