"""Prompts: what a model generates from, and everything in a batch that belongs to it."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lightning_bleu.hugging_face.rows import IGNORED, Answers


class Prompts(NamedTuple):
    """What a model generates from, and what its answers are compared with.

    Example:
        >>> from lightning_bleu.hugging_face import Prompts
        >>> Prompts({"texts": ["Translate: ein Hund"]}, target=["a dog"], group=["de"]).group
        ['de']

    Attributes:
        inputs: arguments of ``model.generate``, with a row for each prompt, padded on the left.
        target: the references, in any form that :meth:`.CorpusBLEU.update` takes; None to score nothing.
        source: the sources that are shown and that metrics may need, as strings or ids.
        row: the row of the batch of each prompt, if a row can have several prompts or none.
        index: the position in the dataset of each prompt; with `row`, of each row of the batch.
        group: a label per prompt, such as its language, for a score per group.

    Notes:
        :meth:`EvaluatorMixin.split` makes them from a batch, and :meth:`EvaluatorMixin.complete` answers them.
    """

    inputs: Mapping[str, Any]
    target: Any = None
    source: Any = None
    row: Any = None
    index: Any = None
    group: Any = None


_NOT_OF_PROMPTS = frozenset({"position_ids", "rope_deltas", "cache_position", "past_key_values", "use_cache"})
"""Arguments of a model that hold for whole rows only. ``generate`` makes its own for prompts."""

_MEDIA = {
    "video": ("pixel_values_videos", "video_", "second_per_grid"),
    "image": ("pixel_values", "image_"),
    "audio": ("input_features", "feature_", "audio_"),
}
"""How the names of the inputs of each medium begin; the first that fits counts."""


def find_generation_inputs(model: Any, inputs: Mapping[str, Any], label_names: Collection[str]) -> dict[str, Any]:
    """The inputs of a batch to generate with: those that the model takes, except the labels.

    Args:
        model: the model; it may be one of PEFT.
        inputs: the batch.
        label_names: the names of the labels.
    """
    if hasattr(model, "get_base_model"):  # PEFT
        model = model.get_base_model()
    taken = inspect.signature(model.forward).parameters.keys()
    names = (taken | {"input_ids"}) - _NOT_OF_PROMPTS - set(label_names)
    return {name: value for name, value in inputs.items() if name in names and value is not None}


def gather_prompts(inputs: Mapping[str, Any], answers: Answers, config: Any, pad_id: int) -> dict[str, Any]:
    """Move the prompts to the end of their rows, and take along what belongs to their tokens.

    Inputs with an integer or a boolean per token, such as ``token_type_ids``, go with the tokens. All others are kept
    as they are, except images, videos, and audio whose placeholders are in no prompt.

    Args:
        inputs: a batch, with ids of shape ``(rows, width)``.
        answers: the prompts, as masks of rows.
        config: the configuration of the model, which names its placeholders.
        pad_id: the id of the padding.

    Raises:
        ValueError: if rows have several prompts or none, and an input cannot be divided among them.

    Example:
        >>> ids = torch.tensor([[5, 6, 7], [8, 9, 0]])
        >>> in_prompt = torch.tensor([[True, True, False], [True, False, False]])
        >>> answers = Answers(torch.tensor([0, 1]), in_prompt, None)
        >>> prompts = gather_prompts({"input_ids": ids, "token_type_ids": ids % 2}, answers, None, pad_id=0)
        >>> {name: value.tolist() for name, value in prompts.items()}
        {'input_ids': [[5, 6], [0, 8]], 'token_type_ids': [[1, 0], [0, 0]], 'attention_mask': [[1, 1], [0, 1]]}
    """
    ids = inputs["input_ids"]
    lengths = answers.in_prompt.sum(1).tolist()
    width = max(lengths, default=0)
    # A stable sort moves the tokens of each prompt behind all others, in their order.
    order = answers.in_prompt.int().argsort(dim=1, stable=True)[:, ids.shape[1] - width :]
    mask = answers.in_prompt.gather(1, order)
    prompts: dict[str, Any] = {}
    whole: dict[str, Any] = {}
    for name, value in inputs.items():
        if name == "attention_mask":
            continue
        if _is_per_token(value, ids):
            fill = pad_id if name == "input_ids" else 0
            prompts[name] = _gather_tokens(value[answers.row], order, mask, fill)
        else:
            whole[name] = value
    whole = _drop_unused_media(whole, prompts["input_ids"], config)
    _check_rows_are_whole(whole, answers.row, len(ids))
    prompts.update(whole)
    prompts["attention_mask"] = mask.long()
    return prompts


def find_sources(prompts: Mapping[str, Any]) -> Tensor:
    """The ids of prompts, padded with -100."""
    ids: Tensor = prompts["input_ids"]
    return ids.masked_fill(prompts["attention_mask"] == 0, IGNORED)


def _is_per_token(value: Any, ids: Tensor) -> bool:
    """Whether an input has a value per token. Pixels and audio are floating-point numbers."""
    return isinstance(value, Tensor) and not value.is_floating_point() and value.shape[:2] == ids.shape


def _gather_tokens(value: Tensor, order: Tensor, mask: Tensor, fill: int) -> Tensor:
    """The values at some tokens, in an order; a token may have several values."""
    per_token = value.shape[2:]
    places = order.reshape(*order.shape, *[1] * len(per_token)).expand(*order.shape, *per_token)
    is_token = mask.reshape(*mask.shape, *[1] * len(per_token))
    return value.gather(1, places).masked_fill(~is_token, fill)


def _drop_unused_media(inputs: Mapping[str, Any], ids: Tensor, config: Any) -> dict[str, Any]:
    """Drop the images, videos, and audio of a batch if their placeholders are in no prompt."""
    used: dict[str, Any] = {}
    for name, value in inputs.items():
        placeholder = _placeholder_of(name, config)
        if placeholder is None or bool((ids == placeholder).any()):
            used[name] = value
    return used


def _placeholder_of(name: str, config: Any) -> int | None:
    """The id that stands for an image, a video, or audio in a prompt; None for another input, or if it is unknown."""
    for medium, beginnings in _MEDIA.items():
        if name.startswith(beginnings):
            placeholder = getattr(config, f"{medium}_token_id", None)
            return getattr(config, f"{medium}_token_index", None) if placeholder is None else placeholder
    return None


def _check_rows_are_whole(inputs: Mapping[str, Any], row: Tensor, rows: int) -> None:
    """Raise a ValueError if tensors like images would have to be divided among several prompts of a row."""
    if torch.equal(row, torch.arange(rows, device=row.device)):
        return
    for name, value in inputs.items():
        if isinstance(value, Tensor):
            raise ValueError(
                f"{name} of shape {tuple(value.shape)} cannot be divided among the answers of a row: set answers = "
                "'last' in the Trainer, or override split"
            )
