"""Likely mistakes are warned of, and correct use never is."""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from lightning_bleu import CorpusBLEU, corpus_bleu, sentence_bleu
from lightning_bleu.reading.batch import read_batch
from lightning_bleu.settings.settings import Settings
from tests.helpers.corpora import random_corpus
from tests.helpers.counting import FIRST_REFERENCES, HYPOTHESES, REFERENCES, pad

PADDING = "The ids are in a tensor, but neither 'pad_id' nor 'eos_id' is set"
TOKENS = "the references look tokenized"

PADDED = pad(HYPOTHESES, 6)
LOGITS = torch.nn.functional.one_hot(PADDED).float()


def suspicions(preds: Any, target: Any, **options: Any) -> Sequence[str]:
    return read_batch(preds, target, Settings.from_options(**options)).suspicions


def spell(rows: list[list[int]]) -> list[str]:
    """A decoder: 1 → "b"."""
    return [" ".join("abcdefghij"[i] for i in row) for row in rows]


# Mistakes


@pytest.mark.parametrize(
    ("preds", "target"),
    [
        (PADDED, PADDED),
        (PADDED.numpy(), PADDED.numpy()),
        (PADDED, torch.stack([PADDED, PADDED], 1)),
        (PADDED, FIRST_REFERENCES),
        (FIRST_REFERENCES, PADDED),
        (LOGITS, PADDED),
        (LOGITS, REFERENCES),
        (PADDED.to("meta"), PADDED.to("meta")),
    ],
)
def test_ids_in_a_tensor_need_something_that_says_what_the_padding_is(preds: Any, target: Any) -> None:
    (message,) = suspicions(preds, target)
    assert message.startswith(PADDING)
    (message,) = suspicions(preds, target, bos_id=1, unk_id=3)  # neither of them is padding
    assert message.startswith(PADDING)


@pytest.mark.parametrize(
    ("preds", "target"),
    [
        (["the cat sat"], [["the", "cat", "sat"]]),
        (["the cat sat", "a dog"], [["the", "cat"], ["a", "dog", "ran"]]),
        (["the cat sat"], [("the", "cat", "sat")]),
        (np.array(["the cat sat"]), np.array([["the", "cat", "sat"]])),
        (["Die Straße ist naß"], [["Die", "Straße", "trocknet"]]),
    ],
)
def test_lists_of_words_in_place_of_lines_look_tokenized(preds: Any, target: Any) -> None:
    (message,) = suspicions(preds, target)
    assert TOKENS in message


def test_text_that_is_decoded_is_looked_at_as_any_other() -> None:
    (message,) = suspicions(torch.tensor([[1, 2, 1]]), [["b", "c", "b"]], decoder=spell)
    assert TOKENS in message


# Correct use


@pytest.mark.parametrize(
    "options",
    [{"pad_id": 0}, {"eos_id": 2}, {"pad_id": -1}, {"ignore_ids": 0}, {"decoder": spell}],
    ids=lambda options: next(iter(options)),
)
@pytest.mark.parametrize(
    ("preds", "target"),
    [
        (PADDED, PADDED),
        (LOGITS, REFERENCES),
        (PADDED.numpy(), torch.stack([PADDED, PADDED], 1)),
        (PADDED, PADDED[:, :0]),
    ],
)
def test_tensors_are_not_suspected_where_an_option_says_what_the_padding_is(
    preds: Any, target: Any, options: dict[str, Any]
) -> None:
    assert suspicions(preds, target, **options) == ()


@pytest.mark.parametrize(
    ("preds", "target"),
    [
        (PADDED[:1], PADDED[:1]),
        (LOGITS[:1], PADDED[:1, None]),
        (PADDED[:0], PADDED[:0]),
        (HYPOTHESES, REFERENCES),
        ([torch.tensor([1, 2]), torch.tensor([3])], [torch.tensor([1]), torch.tensor([2, 3])]),
    ],
)
def test_ids_that_need_no_padding_are_not_suspected(preds: Any, target: Any) -> None:
    assert suspicions(preds, target) == ()


@pytest.mark.parametrize(
    ("preds", "target"),
    [
        # one reference per sentence
        (["the cat sat"], ["cat"]),
        (["the cat sat"], [["cat"]]),
        (["the cat sat", "a dog"], [["the", "cat"], ["dog"]]),
        # sentences of one word
        (["cat"], [["the", "cat"]]),
        ([" cat "], [["the", "cat"]]),
        (["the cat sat", "no"], [["yes", "no"], ["yes", "no"]]),
        (["", " "], [["yes", "no"], ["yes", "no"]]),
        (["a b"], [["a b", "a"]]),
        # scripts without blanks between words
        (["猫坐在垫子上"], [["猫坐在垫子上面", "一只猫坐在垫子上"]]),
        (["猫がマットの上に座った。", "はい"], [["猫はマットに座った。", "猫が座った"], ["ええ", "はい"]]),
        (["แมวนั่งบนเสื่อ"], [["แมวนั่งบนพรม", "แมวอยู่บนเสื่อ"]]),
        # no sentence at all
        ([], []),
        # tokens on both sides
        ([["the", "cat"]], [[["the"], ["cat"]]]),
        ([["the", "cat"]], [["the", "cat"]]),
    ],
)
def test_references_that_are_no_list_of_words_are_not_suspected(preds: Any, target: Any) -> None:
    assert suspicions(preds, target) == ()


def test_a_corpus_never_makes_any_function_warn(rng: random.Random) -> None:
    """In any form, and batch by batch down to a single sentence."""
    hypotheses, references = random_corpus(rng, 40)
    words = sorted({word for group in references for line in group for word in line} | {"unlike"})
    number = {word: i for i, word in enumerate(words, 1)}

    def encode(line: list[str]) -> list[int]:
        return [number[word] for word in line]

    lines = [" ".join(line) for line in hypotheses], [[" ".join(line) for line in group] for group in references]
    ids = [encode(line) for line in hypotheses], [[encode(line) for line in group] for group in references]
    padded = pad(ids[0], 20), pad([group[0] for group in ids[1]], 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in (1, 7, 40):
            for start in range(0, 40, size):
                batch = slice(start, start + size)
                for preds, target in ((hypotheses, references), lines, ids, padded):
                    sentences: tuple[Any, Any] = preds[batch], target[batch]
                    corpus_bleu(*sentences, pad_id=0)
                    sentence_bleu(*sentences, pad_id=0)
                    CorpusBLEU(pad_id=0).update(*sentences)


def test_a_few_references_of_one_word_are_not_suspected() -> None:
    assert suspicions(["a red car", "two dogs"], [["car", "red"], ["dogs", "two"]]) == ()
    assert suspicions(["我 爱 你 们 我 爱 你 们"], [["我爱你们", "我爱你"]], tokenizer="zh") == ()


def test_tensors_without_a_column_are_not_suspected() -> None:
    assert suspicions(torch.zeros(2, 0).long(), [[1], [2]]) == ()
