"""A model of text and images in a real Trainer: the scores are those of one prompt at a time, with its images."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch

from lightning_bleu import CorpusBLEU, Evaluator
from lightning_bleu.hugging_face import EvaluatorMixin
from tests.helpers.language_models import EOS, FIRST_WORD, PAD, SIZE, bleu_of, make_tokenizer, replace_words, to_text

pytestmark = pytest.mark.slow

START, END, IMAGE, VIDEO = SIZE, SIZE + 1, SIZE + 2, SIZE + 3
GRID = [1, 4, 4]
"""An image of 4 by 4 patches, which become 4 tokens."""
PATCH = 3 * 2 * 4 * 4
"""The values of a patch: channels, time, height, width."""


def make_model() -> Any:
    """A Qwen2-VL, whose answers depend on images and their places."""
    import transformers

    make_config: Any = transformers.Qwen2VLConfig  # has no types
    make: Any = transformers.Qwen2VLForConditionalGeneration

    torch.manual_seed(0)
    text = {
        "vocab_size": SIZE + 4,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "initializer_range": 0.5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 100.0, "mrope_section": [2, 3, 3]},
        "pad_token_id": PAD,
        "bos_token_id": None,
        "eos_token_id": EOS,
    }
    vision = {"depth": 1, "embed_dim": 16, "hidden_size": 32, "num_heads": 2, "patch_size": 4, "mlp_ratio": 2}
    config = make_config(
        text_config=text,
        vision_config=vision | {"initializer_range": 0.5},
        image_token_id=IMAGE,
        video_token_id=VIDEO,
        vision_start_token_id=START,
        vision_end_token_id=END,
    )
    model = make(config).eval()
    with torch.no_grad():
        model.lm_head.weight[EOS] *= 1.5
        model.lm_head.weight[SIZE:] = -1  # generates no images
    model.generation_config.update(max_new_tokens=12, eos_token_id=EOS, pad_token_id=PAD)
    return model


def token_types(ids: Any) -> Any:
    """1 at the placeholders of images, as the processor gives them."""
    return (torch.as_tensor(ids) == IMAGE).int()


def complete_alone(model: Any, item: dict[str, Any]) -> list[int]:
    """Generate from the prompt of an item, with its images."""
    ids = torch.tensor([item["prompt"]])
    inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if item["images"]:
        inputs |= {
            "pixel_values": torch.cat(item["images"]),
            "image_grid_thw": torch.tensor([GRID] * len(item["images"])),
        }
        inputs["mm_token_type_ids"] = token_types(ids)
    generated: list[int] = model.generate(**inputs)[0, len(item["prompt"]) :].tolist()
    return [token for token in generated if token not in (PAD, EOS)]


def make_items(model: Any) -> list[dict[str, Any]]:
    """Prompts with images among their words, and answers in which some words are replaced."""
    chosen, generator = random.Random(0), torch.Generator().manual_seed(0)
    items = []
    for number in range(9):
        images = [torch.randn(16, PATCH, generator=generator) for _ in range(number % 3)]
        prompt = [chosen.randrange(FIRST_WORD, SIZE) for _ in range(chosen.randint(1, 5))]
        for _ in images:
            prompt += [START, *[IMAGE] * 4, END, chosen.randrange(FIRST_WORD, SIZE)]
        item: dict[str, Any] = {"prompt": prompt, "images": images}
        item["generated"] = complete_alone(model, item)
        item["answer"] = [*replace_words(item["generated"], chosen), EOS]
        items.append(item)
    return items


def collate(items: list[dict[str, Any]]) -> Any:
    """A batch as Qwen's processor makes it."""
    rows = [item["prompt"] + item["answer"] for item in items]
    labels = [[-100] * len(item["prompt"]) + item["answer"] for item in items]
    batch = {
        "input_ids": pad(rows, PAD),
        "attention_mask": pad([[1] * len(row) for row in rows], 0),
        "labels": pad(labels, -100),
    }
    batch["mm_token_type_ids"] = token_types(batch["input_ids"])
    images = [image for item in items for image in item["images"]]
    if images:
        batch |= {"pixel_values": torch.cat(images), "image_grid_thw": torch.tensor([GRID] * len(images))}
    return batch


def pad(rows: list[list[int]], fill: int) -> Any:
    width = max(map(len, rows))
    return torch.tensor([[fill] * (width - len(row)) + row for row in rows])


def make_trainer(model: Any, items: Any) -> Any:
    from transformers import PrinterCallback, Trainer, TrainingArguments

    args: Any = {"per_device_eval_batch_size": 4, "use_cpu": True, "report_to": "none", "disable_tqdm": True}
    trainer = type("Seeing", (EvaluatorMixin, Trainer), {})(
        model,
        TrainingArguments("runs", remove_unused_columns=False, **args),
        data_collator=collate,
        eval_dataset=items,
        processing_class=make_tokenizer("left"),
        evaluator=Evaluator(CorpusBLEU()),
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def test_scores_are_those_of_one_prompt_with_its_images_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers", minversion="5.0")
    monkeypatch.chdir(tmp_path)
    model = make_model()
    items = make_items(model)
    expected = bleu_of([to_text(item["generated"]) for item in items], [to_text(item["answer"]) for item in items])
    assert 0.2 < expected < 0.9
    assert complete_alone(model, items[1] | {"images": []}) != items[1]["generated"]
    scores = make_trainer(model, items).evaluate()
    assert scores["eval_bleu"] == pytest.approx(expected, abs=1e-12)
    assert scores["eval_loss"] > 0
