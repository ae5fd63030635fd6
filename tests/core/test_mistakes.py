"""Likely mistakes that are not errors, and correct use that is no mistake."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lightning_bleu import corpus_bleu, corpus_chrf
from lightning_bleu.bleu import BLEUSettings
from lightning_bleu.core.batch import read_batch
from tests.helpers.corpora import read_lines
from tests.helpers.counting import FIRST_REFERENCES, HYPOTHESES, REFERENCES, pad

PADDED = pad(HYPOTHESES, 6)

NO_PADDING = "The ids are in a tensor, but neither 'pad_id' nor 'eos_id' is set"
LOOK_TOKENIZED = "the references look tokenized"

LOGITS = torch.nn.functional.one_hot(PADDED).float()


def find_warnings(preds: Any, target: Any, **options: Any) -> list[str]:
    return [message for _, message in read_batch(preds, target, BLEUSettings.from_options(**options)).mistakes]


def spell(rows: list[list[int]]) -> list[str]:
    """A decoder: 1 → "b"."""
    return [" ".join("abcdefghij"[i] for i in row) for row in rows]


@pytest.mark.parametrize(
    ("preds", "target"),
    [
        (PADDED.numpy(), PADDED.numpy()),
        (PADDED, torch.stack([PADDED, PADDED], 1)),
        (PADDED, FIRST_REFERENCES),
        (FIRST_REFERENCES, PADDED),
        (LOGITS, REFERENCES),
    ],
)
def test_ids_in_a_tensor_need_an_option_that_says_what_the_padding_is(preds: Any, target: Any) -> None:
    for options in ({}, {"bos_id": 1, "unk_id": 3}):  # neither of them is padding
        (message,) = find_warnings(preds, target, **options)
        assert message.startswith(NO_PADDING)


@pytest.mark.parametrize(
    ("preds", "target"),
    [
        (["the cat sat"], [["the", "cat", "sat"]]),
        (["the cat sat", "a dog"], [["the", "cat"], ["a", "dog", "ran"]]),
        (["the cat sat"], [("the", "cat", "sat")]),
        (np.array(["the cat sat"]), np.array([["the", "cat", "sat"]])),
        (["Die Straße ist naß"], [["Die", "Straße", "trocknet"]]),
        (torch.tensor([[1, 2, 1]]), [["b", "c", "b"]]),
    ],
)
def test_lists_of_words_in_place_of_lines_look_tokenized(preds: Any, target: Any) -> None:
    (message,) = find_warnings(preds, target, decoder=spell)
    assert LOOK_TOKENIZED in message


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
    ],
)
def test_an_option_that_says_what_the_padding_is_prevents_the_warning(
    preds: Any, target: Any, options: dict[str, Any]
) -> None:
    assert find_warnings(preds, target, **options) == []


@pytest.mark.parametrize(
    ("preds", "target"),
    [
        # ids that need no padding
        (PADDED[:1], PADDED[:1]),
        (LOGITS[:1], PADDED[:1, None]),
        (PADDED[:0], PADDED[:0]),
        (torch.zeros(2, 0).long(), [[1], [2]]),
        (HYPOTHESES, REFERENCES),
        ([torch.tensor([1, 2]), torch.tensor([3])], [torch.tensor([1]), torch.tensor([2, 3])]),
        # one reference per sentence
        (["the cat sat"], ["cat"]),
        (["the cat sat"], [["cat"]]),
        (["the cat sat", "a dog"], [["the", "cat"], ["dog"]]),
        # a few references of one word
        (["a red car", "two dogs"], [["car", "red"], ["dogs", "two"]]),
        # answers of one word beside sentences
        (["the man wears a red hat on his head"], [["red"] * 7 + ["maroon", "dark", "red"]]),
        (["no there is not", "it is a dog"], [["no"] * 2 + ["yes"] + ["no"] * 7, ["dog", "puppy"] * 5]),
        # sentences of one word
        (["cat"], [["the", "cat"]]),
        ([" cat "], [["the", "cat"]]),
        (["the cat sat", "no"], [["yes", "no"], ["yes", "no"]]),
        (["", " "], [["yes", "no"], ["yes", "no"]]),
        (["a b"], [["a b", "a"]]),
        # a script without spaces between words, for which there is no tokenizer
        (["แมวนั่งบนเสื่อ"], [["แมวนั่งบนพรม", "แมวอยู่บนเสื่อ"]]),
        # no sentences
        ([], []),
        # tokens on both sides
        ([["the", "cat"]], [[["the"], ["cat"]]]),
        ([["the", "cat"]], [["the", "cat"]]),
    ],
)
def test_correct_use_gives_no_warning(preds: Any, target: Any) -> None:
    assert find_warnings(preds, target) == []


CHINESE, JAPANESE = ["猫坐在垫子上。", "今天我们用 Python 写了一个很好的程序。"], ["猫がマットの上に座った。", "はい"]


@pytest.mark.parametrize("lines", [CHINESE, JAPANESE])
def test_text_without_spaces_needs_a_tokenizer(lines: list[str]) -> None:
    for name in ("13a", "intl"):
        (message,) = find_warnings(lines, [[line] for line in lines], tokenizer=name)
        assert message.startswith(f"The references are Chinese or Japanese, but tokenizer={name!r} splits at spaces")
    tokenizers: list[Any] = ["zh", "char", list, "none"]  # the last one for terms
    for tokenizer in tokenizers:
        assert find_warnings(lines, lines, tokenizer=tokenizer) == []


@pytest.mark.parametrize(
    "lines",
    [
        ["猫 坐 在 垫子 上 。"],  # already tokenized
        ["今天 天气预报说明天会下雨"],
        ["你好 ， 世界", "再见"],
        ["Кошка сидела на коврике."],
        ["กาลครั้งหนึ่งนานมาแล้ว"],
        ["고양이가 매트 위에 앉았다."],
        ["The word 猫 means cat."],
        ["你好"[:0]],
    ],
)
def test_other_text_needs_no_other_tokenizer(lines: list[str]) -> None:
    assert find_warnings(lines, lines) == []


def test_chrf_needs_no_tokenizer() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert corpus_chrf(CHINESE, CHINESE).score == 1


@pytest.mark.parametrize(
    "preds",
    [
        [["a cat sat"], ["two dogs ran"]],
        [["a cat sat", "the cat sat"], ["two dogs ran", "both dogs ran"]],
        [["a cat sat"], []],
    ],
)
def test_sentences_in_lists_of_their_own_are_not_tokens(preds: Any) -> None:
    (message,) = find_warnings(preds, preds)
    assert message.startswith("'preds' is a list of lists of strings, which are read as tokens")


def test_a_few_tokens_may_contain_spaces() -> None:
    preds = [["New York", "is", "big"], ["it", "is"], ["a", " ", "b"]]
    assert find_warnings(preds, preds) == []
    assert find_warnings([["Việt Nam", "là", "quốc gia"]], [["Việt Nam", "là"]]) == []
    assert find_warnings([["new york", "los angeles"]], [["new york", "los angeles"]]) == []


def test_labels_that_are_minus_100_do_not_mask_logits() -> None:
    labels = torch.tensor([[-100, -100, 5, 6, 2], [-100, 7, 8, 9, 2]])
    logits = torch.nn.functional.one_hot(labels.roll(-1).clamp(min=0), 10).float()
    (message,) = find_warnings(logits, labels, pad_id=0, eos_id=2)
    assert message.startswith("The labels in 'target' are -100 at some positions")
    # what the message says to do
    preds, target = logits[:, :-1].argmax(-1).masked_fill(labels[:, 1:] == -100, -100), labels[:, 1:]
    assert find_warnings(preds, target, pad_id=0, eos_id=2) == []
    assert corpus_bleu(preds, target, pad_id=0, eos_id=2).matches[0] == 3 + 4 - 2  # without eos


def test_labels_of_an_encoder_decoder_are_no_mistake_if_the_end_is_known() -> None:
    labels = torch.tensor([[5, 6, 2, -100], [7, 8, 9, 2]])
    logits = torch.nn.functional.one_hot(labels.clamp(min=0), 10).float()
    assert find_warnings(logits, labels, pad_id=0, eos_id=2) == []
    for options in ({}, {"pad_id": 0}, {"pad_id": -100}):
        (message,) = find_warnings(logits, labels, **options)
        assert message.startswith("The labels in 'target' are -100 at some positions")
    preds = logits.argmax(-1).masked_fill(labels == -100, -100)  # what the message says to do
    assert corpus_bleu(preds, labels, pad_id=-100).matches[0] == 7
    assert find_warnings(logits, torch.zeros(2, 0).long(), pad_id=0) == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_logits_that_are_nan_are_a_mistake(dtype: torch.dtype) -> None:
    logits = torch.rand(2, 3, 5, dtype=torch.float32).to(dtype)
    assert find_warnings(logits, [[1], [2]], pad_id=0) == []
    logits[1, 2, 3] = torch.nan
    for target, options in (([[1], [2]], {"pad_id": 0}), (["b", "c"], {"decoder": spell})):
        (message,) = find_warnings(logits, target, **options)
        assert message.startswith("The logits in 'preds' contain NaN")


@pytest.mark.slow
def test_real_text_makes_no_function_warn(wmt22: Path, multi30k: Path) -> None:
    pairs = [*real_pairs(wmt22, multi30k)]
    assert len(pairs) > 15
    for (hypotheses, references), options in pairs:
        lines, targets = read_lines(hypotheses), read_lines(references)
        for size in (1, 64, 4096):
            settings = BLEUSettings.from_options(**options)
            for start in range(0, len(lines), size):
                batch = lines[start : start + size], targets[start : start + size]
                assert list(read_batch(*batch, settings).mistakes) == [], (hypotheses, size)


def real_pairs(wmt22: Path, multi30k: Path) -> Any:
    """Files of hypotheses and references, with options."""
    tokenizers = {"zh": "zh", "ja": "char"}
    for path in sorted(wmt22.glob("*.hyp.*")):
        language = path.suffix[1:]
        for reference in sorted(wmt22.glob(f"*-{language}.ref.*")):
            yield (path, reference), {"tokenizer": tokenizers.get(language, "13a")}
    for name in ("val", "train", "test_2016_flickr"):
        yield (multi30k / f"{name}.de", multi30k / f"{name}.en"), {}
        yield (multi30k / f"{name}.en", multi30k / f"{name}.de"), {}
