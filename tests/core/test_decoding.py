"""Ids → text by a decoder, and source sentences, which are shown but not counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sacrebleu.metrics.bleu import BLEU as SacreBLEU
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from tokenizers.decoders import ByteLevel
from transformers import PreTrainedTokenizerFast

from lightning_bleu import CorpusBLEU, corpus_bleu
from lightning_bleu.bleu import BLEUSettings
from lightning_bleu.core.batch import decode, read_batch, read_sources
from tests.helpers.counting import pad
from tests.helpers.text import Speller, spell

ONE_STRING_PER_LIST = "'decoder' must return one string for each list of ids"


# Decoders


def batch_decode(rows: list[list[int]]) -> list[str]:
    """A function with the name of that method is like any other function."""
    return spell(rows)


@pytest.mark.parametrize(
    "decoder",
    [
        spell,
        Speller(),
        Speller().batch_decode,
        batch_decode,
        lambda rows: tuple(spell(rows)),
        lambda rows: iter(spell(rows)),
        lambda rows: np.array(spell(rows)),
    ],
)
def test_a_decoder_may_be_a_tokenizer_or_its_method_or_any_callable(decoder: Any) -> None:
    assert decode([[1, 2], [], [0]], decoder) == ["b c", "", "a"]


@pytest.mark.parametrize(
    "decoder",
    [
        lambda rows: ["a"],
        lambda rows: "a" * len(rows),
        lambda rows: dict.fromkeys(map(str, range(len(rows)))),
        lambda rows: rows,
        lambda rows: 5,
    ],
)
def test_a_decoder_must_return_one_string_per_list(decoder: Any) -> None:
    metric = CorpusBLEU(decoder=decoder)
    with pytest.raises(TypeError, match=ONE_STRING_PER_LIST):
        metric.update([[1], [2]], ["b", "c"])
    assert not metric.totals.any()
    with pytest.raises(TypeError, match=ONE_STRING_PER_LIST):
        corpus_bleu(["b", "c"], [[1], [2]], decoder=decoder)
    with pytest.raises(TypeError, match=ONE_STRING_PER_LIST):
        read([[1], [2]], decoder=decoder)


# Ids and strings

PADDED = torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0]])
LINES = ["b c d e", "f g"]
PADDED_PAIRS = torch.tensor([[[1, 2, 3, 4], [1, 2, 0, 0]], [[5, 6, 0, 0], [0, 0, 0, 0]]])  # the last one is padding
PAIRS = [["b c d e", "b c"], ["f g"]]
LOGITS = torch.nn.functional.one_hot(PADDED).float()


@pytest.mark.parametrize(
    ("preds", "target", "expected"),
    [
        (PADDED, PADDED, LINES),
        (PADDED, PADDED_PAIRS, PAIRS),
        (PADDED, LINES, LINES),
        (PADDED, PAIRS, PAIRS),
        (PADDED, iter(PAIRS), PAIRS),
        (PADDED.numpy(), np.array(LINES), LINES),
        (PADDED, ["b c d e", ["f g", "f"]], ["b c d e", ["f g", "f"]]),
        (LOGITS, LINES, LINES),
        ([[1, 2, 3, 4], [5, 6]], PAIRS, PAIRS),
        ([PADDED[0], PADDED[1]], PAIRS, PAIRS),
        (LINES, PADDED, LINES),
        (iter(LINES), PADDED.numpy(), LINES),
        (LINES, PADDED_PAIRS, PAIRS),
        (LINES, [[1, 2, 3, 4], [5, 6]], LINES),
        (LINES, [[[1, 2, 3, 4], [1, 2]], [[5, 6]]], PAIRS),
        (LINES, [[PADDED[0], PADDED[0, :2]], [PADDED[1]]], PAIRS),
        (LINES, LINES, LINES),
    ],
)
def test_ids_and_strings_go_together_with_a_decoder(preds: Any, target: Any, expected: Any) -> None:
    assert corpus_bleu(preds, target, decoder=spell, pad_id=0) == corpus_bleu(LINES, expected)


def test_ids_without_a_token_go_with_strings_too() -> None:
    """Such as those of a model that has not learned anything yet."""
    empty: list[Any] = [[torch.tensor([0]), torch.tensor([])[:0].long()], torch.zeros(2, 3).long()]
    for ids in empty:
        assert corpus_bleu(ids, LINES, decoder=spell, pad_id=0) == corpus_bleu(["", ""], LINES)
        assert corpus_bleu(LINES, ids, decoder=spell, pad_id=0) == corpus_bleu(LINES, ["", ""])
    assert corpus_bleu([[], []], LINES, decoder=spell) == corpus_bleu(["", ""], LINES)


def test_an_empty_list_beside_strings_is_a_sentence_without_a_reference() -> None:
    for preds, target, sentence in ((LINES, [[], []], 0), (PADDED, ["b c d e", []], 1), (LINES, [[], "f g"], 0)):
        with pytest.raises(ValueError, match=f"got none for sentence {sentence} of 'target'"):
            corpus_bleu(preds, target, decoder=spell)


def test_tokens_are_not_decoded() -> None:
    tokens = [line.split() for line in LINES]
    assert corpus_bleu(tokens, tokens, decoder=spell) == corpus_bleu(tokens, tokens)


# A real Hugging Face tokenizer, trained here

TEXT = [
    "Ein Mann geht über die Straße, und niemand sieht ihn.",
    "Zwei Hunde spielen im Schnee!",
    "Die Frau liest (im Park) ein Buch.",
    "Kinder essen Eis; es ist heiß.",
]
HYPOTHESES = [
    "Ein Mann geht über die Straße, und keiner sieht ihn.",
    "Zwei Hunde rennen im Schnee!",
    "Die Frau liest im Park.",
    "Kinder essen Eis; es ist heiß.",
]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    bpe = Tokenizer(models.BPE(unk_token="<unk>"))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = ByteLevel()
    bpe.train_from_iterator(
        TEXT + HYPOTHESES,
        trainers.BpeTrainer(
            vocab_size=350,
            special_tokens=["<pad>", "<s>", "</s>", "<unk>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    make: Any = PreTrainedTokenizerFast  # has no types
    return make(tokenizer_object=bpe, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def encode(tokenizer: Any, lines: list[str], *, padding: int) -> torch.Tensor:
    ids = [torch.tensor([1, *tokenizer(line)["input_ids"], 2]) for line in lines]
    return torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=padding)


@pytest.mark.parametrize("options", [{}, {"pad_id": 0, "bos_id": 1, "eos_id": 2}])
def test_decoded_ids_score_as_the_strings_they_stand_for(tokenizer: Any, options: dict[str, Any]) -> None:
    preds, labels = encode(tokenizer, HYPOTHESES, padding=0), encode(tokenizer, TEXT, padding=-100)
    expected = SacreBLEU(smooth_method="none").corpus_score(HYPOTHESES, [TEXT])
    metric = CorpusBLEU(decoder=tokenizer, percent=True, smoothing="none", **options)
    metric.update(preds, labels)
    assert metric.compute().item() == pytest.approx(expected.score, abs=1e-9)
    assert list(metric.report().matches) == expected.counts
    assert "|tok:13a|" in metric.signature
    assert read_batch(preds, labels, metric.settings).texts() == [(h, [r]) for h, r in zip(HYPOTHESES, TEXT)]


def test_the_method_of_a_tokenizer_skips_special_tokens_as_the_tokenizer_does(tokenizer: Any) -> None:
    rows = [[1, *ids, 2] for ids in tokenizer(TEXT).input_ids]
    assert tokenizer.batch_decode(rows) != tokenizer.batch_decode(rows, skip_special_tokens=True)
    expected = corpus_bleu(rows, TEXT, decoder=tokenizer)
    assert expected.bleu == 1
    assert corpus_bleu(rows, TEXT, decoder=tokenizer.batch_decode) == expected


# Sources

IDS = [[7, 8, 9], [5]]


def read(sources: Any, **options: Any) -> list[str]:
    """The text of sources, one per sentence."""
    return read_sources(sources, len(sources), BLEUSettings.from_options(**{"ignore_ids": ()} | options)).lines()


def fail(rows: list[list[int]]) -> list[str]:
    raise AssertionError("decoded")


@pytest.mark.parametrize("sources", [["a b", "ä"], iter(["a b", "ä"]), [["a", "b"], ["ä"]]])
def test_strings_stay_and_tokens_are_joined(sources: Any) -> None:
    assert read_sources(sources, 2, BLEUSettings.from_options(decoder=fail)).lines() == ["a b", "ä"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: IDS,
        lambda: [torch.tensor(IDS[0], dtype=torch.int32), np.array(IDS[1], np.uint8)],
        lambda: iter(IDS),
        lambda: pad(IDS, 3),
        lambda: torch.nn.functional.one_hot(pad(IDS, 3)).to(torch.bfloat16),
    ],
)
def test_ids_are_shown_as_numbers_or_decoded(make: Callable[[], Any]) -> None:
    for decoder, expected in ((None, ["7 8 9", "5"]), (spell, ["h i j", "f"])):
        settings = BLEUSettings.from_options(pad_id=0, decoder=decoder)  # the padding is removed
        assert read_sources(make(), 2, settings).lines() == expected


def test_sources_may_be_empty() -> None:
    assert read([]) == read(torch.zeros(0, 3).long()) == read(torch.zeros(0, 3, 4), decoder=spell) == []
    assert read(["", "a"]) == ["", "a"]
    assert read([[], ["a"]]) == ["", "a"]
    assert read([[], [5]], decoder=spell) == ["", "f"]
    assert read([[], []], decoder=spell) == ["", ""]
    assert read(torch.zeros(2, 3).long(), pad_id=0, decoder=spell) == ["", ""]
    assert read(torch.zeros(2, 0).long(), decoder=spell) == ["", ""]
    assert read([torch.tensor([]).long(), torch.tensor([5])], decoder=spell) == ["", "f"]
