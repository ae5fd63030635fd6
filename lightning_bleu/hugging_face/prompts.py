"""Prompts: what a model generates from, and the labels that its answers are compared with."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

IGNORED = -100
"""The label of tokens that the loss ignores."""
_NOT_OF_PROMPTS = frozenset({"position_ids", "rope_deltas", "cache_position", "past_key_values", "use_cache"})
"""Arguments of a model that hold for whole rows only. ``generate`` makes its own for prompts."""


class Prompts(NamedTuple):
    """What a model generates from, and what its answers are compared with.

    Example:
        >>> from lightning_bleu.hugging_face import Prompts
        >>> Prompts({"texts": ["Translate: ein Hund"]}, target=["a dog"], group=["de"]).group
        ['de']

    Attributes:
        inputs: arguments of ``model.generate``, with a row for each prompt, padded on the left.
        target: the references, in any form that :meth:`.CorpusBLEU.update` takes; None if there are none: ``predict``
            then generates, and nothing is scored.
        source: the sources that are shown and that metrics may need, as strings or ids.
        index: the index in the dataset of each prompt, from 0.
        group: a label per prompt, such as its language, for a score per group.
        id: a string or an integer per prompt, which is recorded and shown.
        columns: what functions take besides, a value per prompt, by name. Keys of the batch are among them.

    Notes:
        :meth:`EvaluatorMixin.split` makes them from a batch, and :meth:`EvaluatorMixin.complete` answers them.
    """

    inputs: Mapping[str, Any]
    target: Any = None
    source: Any = None
    index: Any = None
    group: Any = None
    id: Any = None
    columns: Mapping[str, Any] = MappingProxyType({})


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


def find_prompts(inputs: Mapping[str, Any], labels: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Find the last answer of each row of a decoder-only model, and its prompt, which is everything before it.

    Args:
        inputs: a batch, with ids of shape ``(rows, width)``.
        labels: the answers, -100 elsewhere; None if there are none, so that the rows are prompts.

    Returns:
        which tokens are prompts, and the labels of the last answers, -100 elsewhere.

    Raises:
        ValueError: if the batch does not say what is padding, if its rows are packed, if labels are not those of the
            rows, or if a row has no prompt or no answer.

    Example:
        >>> ids, labels = torch.tensor([[5, 6, 7, 8]]), torch.tensor([[-100, 6, -100, 8]])
        >>> in_prompt, answers = find_prompts({"input_ids": ids, "attention_mask": torch.ones(1, 4)}, labels)
        >>> in_prompt.int().tolist(), answers.tolist()
        ([[1, 1, 1, 0]], [[-100, -100, -100, 8]])
    """
    ids, mask = inputs.get("input_ids"), inputs.get("attention_mask")
    if ids is None or mask is None or mask.shape != ids.shape or _is_packed(mask, inputs.get("position_ids")):
        raise ValueError(
            "to find prompts, a batch must have input_ids, and an attention_mask of the same shape with one sequence "
            f"per row, got {sorted(inputs)}: use a data collator that pads (not padding_free), or override split; in "
            "SFTConfig, packing needs eval_packing=False and packing_strategy='wrapped'"
        )
    in_prompt = mask.bool()
    if labels is not None:
        in_answer = _find_last_answers(ids, labels)
        in_prompt = in_prompt & (in_answer.cumsum(1) == 0)
        labels = labels.masked_fill(~in_answer, IGNORED)
    _check_rows(
        in_prompt.any(1),
        "each row of a batch must have a prompt, whose labels are -100, got none in row {}: mask the labels of the "
        "prompt (in TRL, give the dataset the columns 'prompt' and 'completion', or set assistant_only_loss=True for "
        "chats), or override split",
    )
    return in_prompt, labels


def _find_last_answers(ids: Tensor, labels: Tensor) -> Tensor:
    """Which tokens are in the last answer of their row. A ValueError for labels that are not those of the rows."""
    if labels.shape != ids.shape:
        raise ValueError(
            f"labels have shape {tuple(labels.shape)}, and input_ids {tuple(ids.shape)}, so they are not prompts with "
            "their answers: if input_ids are prompts only, override split in the Trainer"
        )
    is_label = labels != IGNORED
    begins = is_label & ~pad(is_label, (1, 0))[:, :-1]
    number = begins.cumsum(1)  # of the answer: [-100, 6, 6, -100, 7] -> [0, 1, 1, 1, 2]
    in_answer = is_label & (number == number[:, -1:])
    _check_rows(
        in_answer.any(1),
        "each row of a batch must have an answer, whose labels are not -100, got none in row {}: its end may have been "
        "cut",
    )
    start = in_answer.int().argmax(1, keepdim=True)
    begin_alike = labels.gather(1, start) == ids.gather(1, start)
    _check_rows(
        begin_alike[:, 0],
        "the answer in row {} begins with another id in labels than in input_ids: do not shift labels, because the "
        "model does; if input_ids are prompts only, override split in the Trainer",
    )
    return in_answer


def _check_rows(is_right: Tensor, message: str) -> None:
    """Raise a ValueError, with the number of the first wrong row in its message."""
    if not is_right.all():
        raise ValueError(message.format(int(is_right.int().argmin())))


def _is_packed(mask: Tensor, position_ids: Tensor | None) -> bool:
    """Whether rows have several sequences: positions that fall between neighbors, or sequences numbered in the mask."""
    if mask.dtype != torch.bool and bool((mask > 1).any()):
        return True
    if position_ids is None or position_ids.shape != mask.shape:
        return False
    are_tokens = mask[:, 1:].bool() & mask[:, :-1].bool()
    falls = position_ids.diff(dim=1) < 0
    return bool((falls & are_tokens).any())


def gather_prompts(inputs: Mapping[str, Any], in_prompt: Tensor, pad_id: int) -> dict[str, Any]:
    """Move the prompts to the end of their rows, and take along what belongs to their tokens.

    Inputs with an integer or a boolean per token, such as ``token_type_ids``, go with the tokens. All others, such as
    images, are kept as they are.

    Args:
        inputs: a batch, with ids of shape ``(rows, width)``.
        in_prompt: which tokens are prompts.
        pad_id: the id of the padding.

    Example:
        >>> ids = torch.tensor([[5, 6, 7], [8, 9, 0]])
        >>> in_prompt = torch.tensor([[True, True, False], [True, False, False]])
        >>> prompts = gather_prompts({"input_ids": ids, "token_type_ids": ids % 2}, in_prompt, pad_id=0)
        >>> {name: value.tolist() for name, value in prompts.items()}
        {'input_ids': [[5, 6], [0, 8]], 'token_type_ids': [[1, 0], [0, 0]], 'attention_mask': [[1, 1], [0, 1]]}
    """
    ids = inputs["input_ids"]
    width = int(in_prompt.sum(1).max())
    # A stable sort moves the tokens of each prompt behind all others, in their order.
    order = in_prompt.int().argsort(dim=1, stable=True)[:, ids.shape[1] - width :]
    rows = torch.arange(len(ids), device=ids.device)[:, None]
    mask = in_prompt[rows, order]
    prompts = dict(inputs)
    for name, value in inputs.items():
        # Pixels and audio are floating-point numbers.
        if isinstance(value, Tensor) and not value.is_floating_point() and value.shape[:2] == ids.shape:
            prompts[name] = value[rows, order]  # a token may have several values
            prompts[name][~mask] = pad_id if name == "input_ids" else 0
    prompts["attention_mask"] = mask.long()
    return prompts
