"""Likely mistakes that are not errors, and correct use that is no mistake."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lightning_bleu import CorpusBLEU, Evaluator, corpus_bleu, corpus_chrf
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
        (PADDED, PADDED),
        (PADDED.numpy(), PADDED.numpy()),
        (PADDED, torch.stack([PADDED, PADDED], 1)),
        (PADDED, FIRST_REFERENCES),
        (FIRST_REFERENCES, PADDED),
        (LOGITS, PADDED),
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
        (PADDED.numpy(), torch.stack([PADDED, PADDED], 1)),
        (PADDED, PADDED[:, :0]),
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
    "token",
    ["</s>", "<pad>", "<EOS>", "<|im_end|>", "<extra_id_0>", "</w>", "[SEP]", "__fr__", "\u2581", "@@"],
)
def test_special_tokens_in_hypotheses_were_not_removed(token: str) -> None:
    hypotheses, references = [f"a cat{token} sat", f"a dog{token}", "no"], ["a cat sat", "a dog", "no"]
    (message,) = find_warnings(hypotheses, references)
    assert message.startswith(f"Most hypotheses contain {token!r}: special tokens were not removed")
    assert find_warnings(references, hypotheses) == []
    assert find_warnings([hypotheses[0], "a", "b"], references) == []  # in few of them


def test_a_single_hypothesis_with_special_tokens_at_its_ends_is_a_mistake() -> None:
    (message,) = find_warnings(["<s> a cat </s>"], ["a cat"])
    assert message.startswith("Most hypotheses contain '</s>'")
    assert find_warnings(["the tag </s> ends it"], ["the mark ends it"]) == []


@pytest.mark.parametrize(
    ("line", "token"),
    [("a cat</s>", "</s>"), ("<s>a cat</s><pad>", "<pad>"), ("<start> a cat <end>", "<end>"), ("[CLS] a cat", "[CLS]")],
)
def test_special_tokens_at_the_ends_of_both_sides_were_not_removed_either(line: str, token: str) -> None:
    (message,) = find_warnings([line] * 2, [line] * 2)
    assert message.startswith(f"Most hypotheses contain {token!r}")


@pytest.mark.parametrize(
    "lines",
    [
        ["<p>a cat</p>", "<b>a dog</b>"],
        ["<s>a cat</s>", "<s>a dog</s>"],  # struck through
        ["<start>a cat</end>", "<start>a dog</end>"],
        ["remove the <pad> token", "masks the <pad> id"],
        ["if a < b: return [PAD]", "x = [PAD] * 3"],
        ["@@ -1,3 +1,4 @@", "@@ -7 +7 @@"],
        ["\u2581a \u2581cat", "\u2581no"],  # scored as subwords, on both sides
        ["mail me@@ example", "send@@ it"],
    ],
)
def test_marks_that_are_part_of_the_text_are_no_mistake(lines: list[str]) -> None:
    assert find_warnings(lines, lines) == []


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


def test_references_of_tokens_must_be_tokens() -> None:
    (message,) = find_warnings([["a", "cat", "sat"], ["no"]], [["a cat sat"], [["no"], ["not at all", "it is not"]]])
    assert message.startswith("'preds' has tokens, so each string in 'target' is read as a token")


def test_a_few_tokens_may_contain_spaces() -> None:
    preds = [["New York", "is", "big"], ["it", "is"], ["a", " ", "b"]]
    assert find_warnings(preds, preds) == []
    assert find_warnings([["Việt Nam", "là", "quốc gia"]], [["Việt Nam", "là"]]) == []
    assert find_warnings([["new york", "los angeles"]], [["new york", "los angeles"]]) == []


def test_labels_that_begin_with_minus_100_do_not_mask_logits() -> None:
    labels = torch.tensor([[-100, -100, 5, 6, 2], [-100, 7, 8, 9, 2]])
    logits = torch.nn.functional.one_hot(labels.roll(-1).clamp(min=0), 10).float()
    (message,) = find_warnings(logits, labels, pad_id=0, eos_id=2)
    assert message.startswith("The labels in 'target' begin with -100")
    # what the message says to do
    preds, target = logits[:, :-1].argmax(-1).masked_fill(labels[:, 1:] == -100, -100), labels[:, 1:]
    assert find_warnings(preds, target, pad_id=0, eos_id=2) == []
    assert corpus_bleu(preds, target, pad_id=0, eos_id=2).matches[0] == 3 + 4 - 2  # without eos


def test_labels_of_an_encoder_decoder_are_no_mistake_if_the_end_is_known() -> None:
    labels = torch.tensor([[5, 6, 2, -100], [7, 8, 9, 2]])
    logits = torch.nn.functional.one_hot(labels.clamp(min=0), 10).float()
    assert find_warnings(logits, labels, pad_id=0, eos_id=2) == []
    options: dict[str, Any]
    for options in ({}, {"pad_id": 0}, {"pad_id": -100}):
        (message,) = find_warnings(logits, labels, **options)
        assert message.startswith("The labels in 'target' are -100 at some positions")
    preds = logits.argmax(-1).masked_fill(labels == -100, -100)  # what the message says to do
    assert corpus_bleu(preds, labels, pad_id=-100).matches[0] == 7
    assert find_warnings(logits, torch.zeros(2, 0).long(), pad_id=0) == []


def test_logits_that_may_have_two_layouts_do_not_end_a_validation() -> None:
    metric, labels = CorpusBLEU(pad_id=-1), torch.arange(12).repeat(2, 1)
    for target in (labels, labels % 9, labels):  # only in the second batch can 9 be the size of the vocabulary
        messages = find_warnings(torch.zeros(2, 9, 12), target, pad_id=-1)
        with pytest.warns(match=r"Logits of shape \(2, 9, 12\) .* cross_entropy") if messages else nullcontext():
            metric.update(torch.zeros(2, 9, 12), target)
        assert len(messages) == (target.max() < 9)
    assert metric.update_count == 3
    assert "cross_entropy" in find_warnings(torch.zeros(2, 14, 12), labels + 1, pad_id=12)[0]  # no error: 12 is padding
    for logits, target in (((2, 9, 12), labels * 0 - 100), ((2, 12, 12), labels), ((2, 9, 13), labels % 9)):
        assert not any("cross_entropy" in one for one in find_warnings(torch.zeros(logits), target, pad_id=-1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_logits_that_are_nan_are_a_mistake(dtype: torch.dtype) -> None:
    logits = torch.rand(2, 3, 5, dtype=torch.float32).to(dtype)
    assert find_warnings(logits, [[1], [2]], pad_id=0) == []
    logits[1, 2, 3] = torch.nan
    (message,) = find_warnings(logits, [[1], [2]], pad_id=0)
    assert message.startswith("The logits in 'preds' contain NaN")
    (message,) = find_warnings(logits.float().numpy(), [[1], [2]], pad_id=0)
    assert message.startswith("The logits in 'preds' contain NaN")


BART: Any = [[2, 0, 7, 8, 9, 2], [2, 0, 5, 2, 1, 1], [2, 2, 1, 1, 1, 1]]
"""Ids as BART generates them: the first is that of the end of a sentence."""


@pytest.mark.parametrize("preds", [torch.tensor(BART), np.array(BART), BART, [torch.tensor(row) for row in BART]])
@pytest.mark.parametrize("options", [{"pad_id": 1, "bos_id": 0}, {}], ids=str)
def test_hypotheses_that_begin_with_their_end_are_empty(preds: Any, options: dict[str, Any]) -> None:
    (message,) = find_warnings(preds, [[7], [5], [3]], eos_id=2, **options)
    assert message.startswith("Most hypotheses begin with eos_id=2 and go on.")
    assert ("or set bos_id=2 as well" in message) == ("bos_id" not in options)


@pytest.mark.parametrize(
    ("preds", "options"),
    [
        (BART, {"bos_id": 2}),
        (BART, {"pad_id": 2}),
        (torch.tensor(BART)[:, 1:], {"pad_id": 1}),
        # empty sentences, whose padding may be unknown
        (torch.tensor([[2, 1, 1, 1], [2, 1, 1, 1], [5, 2, 1, 1]]), {"pad_id": 1}),
        (torch.tensor([[2, 0, 0, 0], [2, 0, 0, 0], [5, 2, 0, 0]]), {}),
        (torch.tensor([[2, -100, -100], [2, -100, -100], [2, -100, -100]]), {}),
        ([[2], [2, 2], [5, 2]], {}),
        ([[], [], []], {}),
    ],
)
def test_empty_hypotheses_and_starts_that_are_known_are_no_mistake(preds: Any, options: dict[str, Any]) -> None:
    assert find_warnings(preds, [[7], [5], [3]], eos_id=2, **options) == []


def test_references_that_begin_with_their_end_are_empty() -> None:
    preds, target = torch.tensor([[7, 8, 9, 2]] * 2), torch.tensor([[2, 7, 8, 9]] * 2)
    (message,) = find_warnings(preds, target, pad_id=1, eos_id=2)
    assert message.startswith("Most references begin with eos_id=2 and go on.")
    assert "pass target[:, 1:]" in message


def test_a_decoder_does_not_hide_empty_hypotheses() -> None:
    (message,) = find_warnings(BART, ["h", "f", "d"], eos_id=2, pad_id=1, decoder=spell)
    assert message.startswith("Most hypotheses begin with eos_id=2")


def test_logits_that_are_always_as_wide_as_their_labels_may_have_seen_them() -> None:
    def find_warned(widths: list[int], others: list[int] | None = None, **options: Any) -> list[int]:
        """In which batches a metric with its copies warns, and an evaluator, whose validations share their history."""
        metric, found = CorpusBLEU(pad_id=0), []
        evaluator = Evaluator(metric)
        for number, (width, other) in enumerate(zip(widths, others or widths)):
            evaluator.start()
            for update in (metric.update, metric.clone().update, evaluator.update):
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    update(torch.rand(2, width, 9), torch.randint(1, 9, (2, other)), **options)
                found += [number for one in caught if "as with teacher forcing" in str(one.message)]
        return found

    assert find_warned([5, 7, 4] * 11) == [15, 31]  # the metric counts a batch twice, also in its copy
    assert find_warned([5, 7, 4] * 11, sample_mask=[True, False]) == [15, 31]
    assert find_warned([5, 7] * 20) == find_warned([5] * 40) == []  # perhaps a fixed width
    for place in (0, 14):  # generated: sooner or later, the widths differ
        generated = [5, 7, 4] * 11
        generated[place] = 9
        assert find_warned(generated, [5, 7, 4] * 11) == []


TRANSPOSED = pad([[5, 6, 7, 8, 9], [5, 6], [5, 6, 7], [5]] * 2, 5).T.repeat(2, 1)
"""Labels with the tokens first: in 8 of 10 rows, there is padding between tokens."""


def test_padding_between_the_tokens_of_references_shows_that_the_tokens_come_first() -> None:
    for target, count in ((TRANSPOSED, 10), (torch.stack([TRANSPOSED, TRANSPOSED], 1), 20)):
        (message,) = find_warnings(TRANSPOSED[:, :1], target, pad_id=0)
        assert message.startswith(f"In {count * 8 // 10} of {count} references, 'target' has pad_id=0 between")
    for target, options in (
        (TRANSPOSED[:5].T, {"pad_id": 0}),
        (pad([[1, 6, 2], [1, 2], [1, 5, 6, 2]] * 5, 9, left=3), {"pad_id": 0, "bos_id": 1, "eos_id": 2}),
        (TRANSPOSED.masked_fill(TRANSPOSED == 0, -100), {"pad_id": 0}),
        (TRANSPOSED.masked_fill(TRANSPOSED == 0, -100), {"pad_id": -100}),
        (torch.cat([torch.tensor([[7, 2]] * 10), TRANSPOSED], 1), {"pad_id": 0, "eos_id": 2}),
        (TRANSPOSED, {"eos_id": 0, "pad_id": 0}),
        (TRANSPOSED[:7], {"pad_id": 0}),  # too few
        (torch.cat([TRANSPOSED, *[TRANSPOSED[:1]] * 71]), {"pad_id": 0}),  # less than a tenth
    ):
        assert find_warnings([[5]] * len(target), target, **options) == []
    assert find_warnings(TRANSPOSED, [[5]] * 10, pad_id=0) == []  # an untrained model may predict padding


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


@pytest.mark.parametrize("size", [8, 16, 200, 4096])
def test_mistakes_with_real_text_warn(size: int, wmt22: Path, multi30k: Path) -> None:
    for (hypotheses, references), _ in real_pairs(wmt22, multi30k):
        lines, targets = read_lines(hypotheses)[:size], read_lines(references)[:size]
        if hypotheses.suffix in (".zh", ".ja"):
            [message] = find_warnings(lines, targets)
            assert "The references are Chinese or Japanese" in message
        elif "en-de.hyp" in hypotheses.name:
            [message] = find_warnings(lines, [line.split() for line in targets])
            assert LOOK_TOKENIZED in message


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


def test_code_makes_no_function_warn() -> None:
    """The lines of this repository, which contain every mark that is searched for."""
    root = Path(__file__).parents[2]
    paths = sorted([*root.glob("lightning_bleu/**/*.py"), *root.glob("tests/**/*.py")])
    lines = [line for path in paths for line in read_lines(path)]
    for size in (8, 64, len(lines)):
        for start in range(0, len(lines), size):
            batch = lines[start : start + size]
            assert list(read_batch(batch, batch, BLEUSettings.from_options()).mistakes) == []
