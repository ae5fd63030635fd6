"""What a model generates from: prompts, and everything that belongs to them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from lightning_bleu.hugging_face.prompts import find_generation_inputs, gather_prompts
from lightning_bleu.hugging_face.rows import Answers

IMAGE = 9
CONFIG = SimpleNamespace(image_token_id=IMAGE, video_token_index=8, audio_token_id=None)
IDS = torch.tensor([[5, 9, 6, 7], [3, 4, 9, 2]])
IN_PROMPT = torch.tensor([[True, True, True, False], [True, False, False, False]])
BOTH = torch.tensor([0, 1])


def gather(inputs: Any, row: Any = BOTH, in_prompt: Any = IN_PROMPT) -> dict[str, Any]:
    return gather_prompts({"input_ids": IDS, **inputs}, Answers(row, in_prompt, None), CONFIG, pad_id=0)


def test_what_a_token_has_goes_with_it() -> None:
    two_per_token = torch.stack([IDS, IDS + 10], -1)
    found = gather({"mm_token_type_ids": IDS % 2, "cross_attention_mask": two_per_token})
    assert found["input_ids"].tolist() == [[5, 9, 6], [0, 0, 3]]
    assert found["mm_token_type_ids"].tolist() == [[1, 1, 0], [0, 0, 1]]
    assert found["cross_attention_mask"].tolist() == [[[5, 15], [9, 19], [6, 16]], [[0, 0], [0, 0], [3, 13]]]
    assert found["attention_mask"].tolist() == [[1, 1, 1], [0, 0, 1]]


def test_media_whose_placeholders_are_in_no_prompt_are_dropped() -> None:
    media = {"pixel_values": torch.ones(6, 8), "image_grid_thw": torch.ones(1, 3).long()}
    videos = {"pixel_values_videos": torch.ones(6, 8), "video_grid_thw": torch.ones(1, 3).long()}
    others = {"input_features": torch.ones(1, 80, 9), "use_audio_in_video": False}
    found = gather(media | videos | others)
    assert found.keys() == {"input_ids", "attention_mask", *media, *others}
    without_image = torch.tensor([[True, False, False, False], [True, False, False, False]])
    assert gather(media | others, in_prompt=without_image).keys() == {"input_ids", "attention_mask", *others}


def test_images_cannot_be_divided_among_the_answers_of_a_row() -> None:
    for row in ([0, 0], [1, 0], [1]):
        with pytest.raises(ValueError, match=r"pixel_values of shape \(6, 8\) cannot be divided .*answers = 'last'"):
            gather({"pixel_values": torch.ones(6, 8)}, torch.tensor(row), IN_PROMPT[:1].expand(len(row), -1))


def test_a_batch_may_have_no_prompt() -> None:
    found = gather({}, BOTH[:0], IN_PROMPT[:0])
    assert found["input_ids"].shape == (0, 0)


class Model:
    def forward(self, input_ids: Any, pixel_values: Any, position_ids: Any, labels: Any, **kwargs: Any) -> None:
        pass


def test_a_model_gets_what_it_takes() -> None:
    batch = dict.fromkeys(["input_ids", "pixel_values", "position_ids", "labels", "rope_deltas", "texts"], 1)
    wrapped = SimpleNamespace(get_base_model=Model)
    for model in (Model(), wrapped):
        assert find_generation_inputs(model, batch, ["labels"]) == {"input_ids": 1, "pixel_values": 1}
    assert find_generation_inputs(Model(), {**batch, "pixel_values": None}, ["labels"]) == {"input_ids": 1}
