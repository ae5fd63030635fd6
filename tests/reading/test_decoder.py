"""Ids to text by a real Hugging Face tokenizer, trained here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas  # type: ignore[import-untyped]
import pytest
import torch
from sacrebleu.metrics.bleu import BLEU as SacreBLEU
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from tokenizers.decoders import ByteLevel
from transformers import PreTrainedTokenizerFast

from lightning_bleu import CorpusBLEU, corpus_bleu
from lightning_bleu.reading.batch import read_batch
from lightning_bleu.settings.settings import Settings

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


def encode(tokenizer: Any, lines: list[str], *, filler: int) -> torch.Tensor:
    ids = [torch.tensor([1, *tokenizer(line)["input_ids"], 2]) for line in lines]
    return torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=filler)


@pytest.mark.parametrize("options", [{}, {"pad_id": 0, "bos_id": 1, "eos_id": 2}])
def test_decoded_ids_score_as_the_strings_they_stand_for(tokenizer: Any, options: dict[str, Any]) -> None:
    preds, labels = encode(tokenizer, HYPOTHESES, filler=0), encode(tokenizer, TEXT, filler=-100)
    expected = SacreBLEU(smooth_method="none").corpus_score(HYPOTHESES, [TEXT])
    metric = CorpusBLEU(decoder=tokenizer, percent=True, smoothing="none", **options)
    metric.update(preds, labels)
    assert metric.compute().item() == pytest.approx(expected.score, abs=1e-9)
    assert list(metric.report().matches) == expected.counts
    assert "|tok:13a|" in metric.signature


def test_references_without_a_token_are_filler(tokenizer: Any) -> None:
    preds = encode(tokenizer, HYPOTHESES, filler=0)
    labels = encode(tokenizer, [*TEXT, *HYPOTHESES[:2], "", ""], filler=-100).reshape(2, 4, -1).transpose(0, 1)
    labels[2:, 1] = -100
    references = [[TEXT[0], HYPOTHESES[0]], [TEXT[1], HYPOTHESES[1]], [TEXT[2]], [TEXT[3]]]
    result = corpus_bleu(preds, labels, decoder=tokenizer)
    assert result == corpus_bleu(HYPOTHESES, references)


def test_decoded_samples_are_read_as_text(tokenizer: Any) -> None:
    options = Settings.from_options(decoder=tokenizer)
    batch = read_batch(encode(tokenizer, HYPOTHESES, filler=0), encode(tokenizer, TEXT, filler=-100), options)
    assert batch.kind == "strings"
    assert batch.texts() == [(h, [r]) for h, r in zip(HYPOTHESES, TEXT)]


def test_a_callable_decoder_gets_lists_of_ids_without_padding() -> None:
    def decode(ids: list[list[int]]) -> list[str]:
        return [" ".join("abcdefghij"[i] for i in sentence) for sentence in ids]

    result = corpus_bleu(
        torch.tensor([[1, 2, 3, 4, 0]]), [[1, 2, 3, 5, -100]], decoder=decode, pad_id=0, tokenizer="none"
    )
    assert result == corpus_bleu(["b c d e"], ["b c d f"], tokenizer="none")


def test_a_decoder_leaves_strings_alone() -> None:
    decoder: Any = len  # fails for anything but a list
    assert corpus_bleu(["a b"], ["a b"], decoder=decoder) == corpus_bleu(["a b"], ["a b"])


def spell(rows: list[list[int]]) -> list[str]:
    """1 → "b"."""
    return [" ".join("abcdefghij"[i] for i in row) for row in rows]


PADDED = torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0]])
LINES = ["b c d e", "f g"]
PADDED_PAIRS = torch.tensor([[[1, 2, 3, 4], [1, 2, 0, 0]], [[5, 6, 0, 0], [0, 0, 0, 0]]])  # the last one is filler
PAIRS = [["b c d e", "b c"], ["f g"]]
LOGITS = torch.nn.functional.one_hot(PADDED).float()


@pytest.mark.parametrize(
    ("preds", "target", "expected"),
    [
        (PADDED, LINES, LINES),
        (PADDED, tuple(LINES), LINES),
        (PADDED, PAIRS, PAIRS),
        (PADDED, (iter(pair) for pair in PAIRS), PAIRS),
        (PADDED, np.array(LINES), LINES),
        (PADDED, np.array([["b c d e", "b c"], ["f g", "f"]], object), [["b c d e", "b c"], ["f g", "f"]]),
        (PADDED.numpy(), pandas.Series(LINES), LINES),
        (PADDED, [np.array(pair) for pair in PAIRS], PAIRS),
        (PADDED, ["b c d e", ["f g", "f"]], ["b c d e", ["f g", "f"]]),
        (LOGITS, LINES, LINES),
        ([[1, 2, 3, 4], [5, 6]], PAIRS, PAIRS),
        ([PADDED[0], PADDED[1]], PAIRS, PAIRS),
        (LINES, PADDED, LINES),
        (iter(LINES), PADDED.numpy(), LINES),
        (np.array(LINES), PADDED, LINES),
        (pandas.Series(LINES), PADDED, LINES),
        (LINES, PADDED_PAIRS, PAIRS),
        (LINES, [[1, 2, 3, 4], [5, 6]], LINES),
        (LINES, [[[1, 2, 3, 4], [1, 2]], [[5, 6]]], PAIRS),
        (LINES, [[PADDED[0], PADDED[0, :2]], [PADDED[1]]], PAIRS),
    ],
)
def test_ids_and_strings_go_together_with_a_decoder(preds: Any, target: Any, expected: Any) -> None:
    assert corpus_bleu(preds, target, decoder=spell, pad_id=0) == corpus_bleu(LINES, expected)


def test_ids_without_a_token_go_with_strings_too() -> None:
    """As those of a model that has not learned anything yet."""
    nothing: list[Any] = [[torch.tensor([0]), torch.tensor([])[:0].long()], torch.zeros(2, 3).long()]
    for ids in nothing:
        assert corpus_bleu(ids, LINES, decoder=spell, pad_id=0) == corpus_bleu(["", ""], LINES)
        assert corpus_bleu(LINES, ids, decoder=spell, pad_id=0) == corpus_bleu(LINES, ["", ""])
    assert corpus_bleu([[], []], LINES, decoder=spell) == corpus_bleu(["", ""], LINES)
    with pytest.raises(ValueError, match="every sentence needs a reference, got no reference for sentence 0"):
        corpus_bleu(LINES, [[], []], decoder=spell)  # reads as two sentences without a reference


def test_tokens_are_counted_as_they_are_with_a_decoder_too() -> None:
    tokens = [line.split() for line in LINES]
    assert corpus_bleu(tokens, tokens, decoder=spell) == corpus_bleu(tokens, tokens)


def test_a_function_with_the_name_of_that_method_is_a_callable_like_any_other() -> None:
    def batch_decode(rows: list[list[int]]) -> list[str]:
        return spell(rows)

    assert corpus_bleu(PADDED, LINES, decoder=batch_decode, pad_id=0) == corpus_bleu(LINES, LINES)


def test_ids_and_strings_do_not_go_together_without_a_decoder() -> None:
    for preds, target in ((PADDED, LINES), (LINES, PADDED), ([[1], [2]], LINES)):
        with pytest.raises(TypeError, match="set decoder= to score ids against strings"):
            corpus_bleu(preds, target, pad_id=0)


def test_tokens_and_ids_do_not_go_together_with_a_decoder() -> None:
    for preds, target in (([["b", "c"]], PADDED[:1]), ([["b", "c"]], [[1, 2]])):
        with pytest.raises(TypeError, match="must be of one kind, got tokens and ids"):
            corpus_bleu(preds, target, decoder=spell)


def test_a_metric_takes_ids_and_strings_on_any_side_in_turn() -> None:
    metric = CorpusBLEU(decoder=spell, pad_id=0)
    for preds, target in ((PADDED, LINES), (LINES, PADDED), (PADDED, PADDED), (LINES, LINES)):
        metric.update(preds, target)
    assert metric.report() == corpus_bleu(LINES * 4, LINES * 4)
    assert metric.last_batch is not None
    assert metric.last_batch.texts()[1] == ("f g", ["f g"])


@pytest.mark.parametrize("decoder", [lambda ids: ["a"], lambda ids: [1, 2]])
def test_a_decoder_must_return_a_string_for_each_list(decoder: Any) -> None:
    metric = CorpusBLEU(decoder=decoder)
    for call in (metric.update, metric.forward):
        with pytest.raises(TypeError, match="'decoder' must return one string for each list of ids"):
            call([[1]], [[2]])
        assert not metric.totals.any()
    with pytest.raises(TypeError, match="'decoder' must return one string for each list of ids"):
        corpus_bleu([[1]], [[2]], decoder=decoder)


def test_the_method_of_a_tokenizer_skips_special_tokens_as_the_tokenizer_does(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    rows = [[1, *ids, 2] for ids in tokenizer(TEXT).input_ids]
    assert tokenizer.batch_decode(rows) != tokenizer.batch_decode(rows, skip_special_tokens=True)
    expected = corpus_bleu(rows, TEXT, decoder=tokenizer)
    assert expected.bleu == 1
    assert corpus_bleu(rows, TEXT, decoder=tokenizer.batch_decode) == expected
