"""Score the same translations in the ways of validation code, and print how far each is from sacreBLEU's score.

Takes seconds. From a checkout::

    pip install ".[examples]"
    python examples/ways_to_score.py hypotheses.txt references.txt

The files have one sentence per line. ``make demo`` writes such files, of its best model to
``runs/*/translations/test/step-*``.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

import sacrebleu
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch.utils.data import DistributedSampler

from lightning_bleu import CorpusBLEU, corpus_bleu, sentence_bleu

BATCH_SIZE = 32

Pairs = list[tuple[str, str]]


def read(path: Path) -> list[str]:
    """Read a file, line by line."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def batches(pairs: Pairs) -> Iterator[Pairs]:
    """Divide the sentences into batches."""
    for start in range(0, len(pairs), BATCH_SIZE):
        yield pairs[start : start + BATCH_SIZE]


def score(pairs: Pairs) -> float:
    """BLEU of a corpus, in 0..100."""
    hypotheses, references = zip(*pairs)
    return 100 * corpus_bleu(list(hypotheses), list(references)).bleu


def score_with_sacrebleu(pairs: Pairs) -> float:
    """What the command line of sacreBLEU prints."""
    hypotheses, references = zip(*pairs)
    return float(sacrebleu.corpus_bleu(list(hypotheses), [list(references)]).score)


def score_in_batches(pairs: Pairs) -> float:
    """The metric, updated with each batch."""
    metric = CorpusBLEU(percent=True)
    for batch in batches(pairs):
        hypotheses, references = zip(*batch)
        metric.update(list(hypotheses), list(references))
    return metric.compute().item()


def average_batches(pairs: Pairs) -> float:
    """The mean of the scores of the batches, as ``self.log("bleu", corpus_bleu(...))`` computes it."""
    return statistics.fmean(score(batch) for batch in batches(pairs))


def average_sentences(pairs: Pairs) -> float:
    """The mean of the scores of the sentences."""
    hypotheses, references = zip(*pairs)
    return 100 * sentence_bleu(list(hypotheses), list(references)).mean().item()


def score_subwords(pairs: Pairs, vocabulary: int) -> float:
    """BLEU of the ids of subwords. (The tokenizer learned its subwords from these references.)"""
    hypotheses, references = zip(*pairs)
    bpe = Tokenizer(models.BPE(unk_token="<unk>"))
    bpe.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=["<unk>"], show_progress=False)
    bpe.train_from_iterator(references, trainer)
    ids = [[encoding.ids for encoding in bpe.encode_batch(list(lines))] for lines in (hypotheses, references)]
    return 100 * corpus_bleu(ids[0], ids[1]).bleu


def score_split_words(pairs: Pairs) -> float:
    """BLEU of the words between spaces, as after ``line.split()``: punctuation is part of a word."""
    hypotheses, references = zip(*pairs)
    return 100 * corpus_bleu(list(hypotheses), list(references), tokenizer="none").bleu


def score_with_repeats(pairs: Pairs, processes: int) -> float:
    """BLEU of the sentences that PyTorch's sampler gives all processes, which repeats some."""
    positions: list[int] = []
    for rank in range(processes):
        positions += DistributedSampler(pairs, processes, rank, shuffle=False)  # type: ignore[arg-type]
    return score([pairs[position] for position in positions])


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Print the scores, and return them by name."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("hypotheses", type=Path, help="translations, one sentence per line")
    parser.add_argument("references", type=Path, help="their references")
    parser.add_argument("--vocabulary", type=int, default=8_000, help="the number of subwords")
    args = parser.parse_args(argv)
    pairs = list(zip(read(args.hypotheses), read(args.references), strict=True))
    published = score_with_sacrebleu(pairs)
    scores = {
        "sacreBLEU": published,
        "lightning_bleu, batch by batch": score_in_batches(pairs),
        f"mean of batches of {BATCH_SIZE}": average_batches(pairs),
        "mean of sentences": average_sentences(pairs),
        "ids of subwords": score_subwords(pairs, args.vocabulary),
        "words split at spaces": score_split_words(pairs),
        "with the repeats of 8 processes": score_with_repeats(pairs, 8),
        "with the repeats of 64 processes": score_with_repeats(pairs, 64),
    }
    print(f"{len(pairs)} sentences")
    for name, value in scores.items():
        difference = round(value - published, 2) + 0.0  # not -0.0
        print(f"{name:32} {value:6.2f} {difference:+6.2f}")
    return scores


if __name__ == "__main__":
    main()
