"""Speech recognition in the Trainers of Transformers: Whisper generates, and a CTC model has the recipe of the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
import pytest
import torch

from lightning_bleu import Evaluator
from lightning_bleu.hugging_face import EvaluatorMixin, Prompts
from lightning_bleu.tasks import CER, WER
from tests.helpers.pages import blocks

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "hugging_face.md"
TEXTS = ["see the bee", "a deer feeds", "he added"]
"""Texts with double letters, which CTC would collapse."""


def make_tokenizer(folder: Path) -> Any:
    """A tokenizer of letters, which collapses repeats when it decodes."""
    from transformers import Wav2Vec2CTCTokenizer

    letters = ["<pad>", "<s>", "</s>", "<unk>", "|", *"abcdefghijklmnopqrstuvwxyz"]
    (folder / "vocabulary.json").write_text(json.dumps({letter: i for i, letter in enumerate(letters)}))
    make: Any = Wav2Vec2CTCTokenizer
    return make(str(folder / "vocabulary.json"))


def collate(rows: list[dict[str, Any]], tokenizer: Any, name: str, end: str = "") -> dict[str, torch.Tensor]:
    """Audio below its name, and labels that are padded with -100."""
    texts = [f"{row['text']}{end}" for row in rows]
    labels = tokenizer(texts, padding=True, return_tensors="pt")
    ids = labels["input_ids"].masked_fill(labels["attention_mask"] == 0, -100)
    return {name: torch.stack([row["audio"] for row in rows]), "labels": ids}


def test_the_recipe_for_ctc_scores_the_argmax_and_keeps_double_letters_of_labels(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = make_tokenizer(tmp_path)
    (recipe,) = [block.content for block in blocks(PAGE, "python") if "class Recognizer" in block.content]
    names: dict[str, Any] = {"EvaluatorMixin": EvaluatorMixin, "Prompts": Prompts, "torch": torch}
    names["Trainer"] = transformers.Trainer
    exec(recipe, names)
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    convolutions = {"conv_dim": (8, 8), "conv_stride": (5, 4), "conv_kernel": (10, 8), "num_feat_extract_layers": 2}
    config = transformers.Wav2Vec2Config(
        vocab_size=len(tokenizer), num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, **shape, **convolutions
    )
    model = transformers.Wav2Vec2ForCTC(config).eval()
    torch.nn.init.normal_(model.lm_head.weight)
    model.lm_head.bias.data[1:4] = -100.0  # no special tokens
    items: list[dict[str, Any]] = [{"audio": torch.randn(4000), "text": text} for text in TEXTS]
    arguments = transformers.TrainingArguments(
        str(tmp_path), remove_unused_columns=False, per_device_eval_batch_size=2, use_cpu=True, report_to="none"
    )
    trainer = names["Recognizer"](
        model,
        arguments,
        data_collator=lambda rows: collate(rows, tokenizer, "input_values"),
        eval_dataset=items,
        processing_class=tokenizer,
        evaluator=Evaluator({"cer": CER(), "wer": WER()}),
    )
    scores = trainer.evaluate()
    with torch.no_grad():
        logits = [model(item["audio"][None]).logits for item in items]
    recognized = [tokenizer.batch_decode(one.argmax(-1))[0] for one in logits]
    assert len(set(recognized)) == 3
    assert scores["eval_cer"] == pytest.approx(jiwer.cer(TEXTS, recognized))
    assert scores["eval_wer"] == pytest.approx(jiwer.wer(TEXTS, recognized))
    del names["Recognizer"].complete
    with pytest.raises(ValueError, match="Wav2Vec2ForCTC cannot generate: override split and complete in the Trainer"):
        trainer.evaluate()


def test_whisper_generates_from_audio(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = make_tokenizer(tmp_path)
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    layers = {"encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "d_model": 16}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    torch.manual_seed(0)
    model = transformers.WhisperForConditionalGeneration(
        transformers.WhisperConfig(
            vocab_size=len(tokenizer), begin_suppress_tokens=None, init_std=1.0, **special, **layers, **heads
        )
    ).eval()
    audio = np.random.default_rng(0).random((3, 16_000))
    features = transformers.WhisperFeatureExtractor()([*audio], sampling_rate=16_000, return_tensors="pt")
    items = [{"audio": row, "text": text} for row, text in zip(features["input_features"], TEXTS, strict=True)]

    class Translator(EvaluatorMixin, transformers.Seq2SeqTrainer):  # type: ignore[misc, name-defined]
        pass

    def decode(ids: list[list[int]]) -> list[str]:
        texts: list[str] = tokenizer.batch_decode(ids, group_tokens=False, skip_special_tokens=True)
        return texts

    arguments = transformers.Seq2SeqTrainingArguments(
        str(tmp_path),
        predict_with_generate=True,
        generation_max_length=10,
        remove_unused_columns=False,
        per_device_eval_batch_size=2,
        use_cpu=True,
        report_to="none",
    )
    trainer = Translator(
        model,
        arguments,
        data_collator=lambda rows: collate(rows, tokenizer, "input_features", end="</s>"),
        eval_dataset=items,
        evaluator=Evaluator(CER(), decoder=decode),
    )
    scores = trainer.evaluate()
    ids = model.generate(features["input_features"], max_length=10)
    recognized = decode(ids.tolist())
    assert any(recognized)
    assert scores["eval_cer"] == pytest.approx(jiwer.cer(TEXTS, recognized))
