"""The rows of a batch of a decoder-only model: which of their tokens are prompts, and which are answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import torch
from torch import Tensor
from torch.nn.functional import pad

from lightning_bleu.core.forms import IntArray
from lightning_bleu.core.messages import check_choice
from lightning_bleu.evaluation.positions import number_sentences

IGNORED = -100
"""The label of tokens that the loss ignores."""
Layout: TypeAlias = Literal["one", "last", "every", "apart"]
"""What the rows of a batch are."""

_IF_APART = "if input_ids are prompts and labels are answers, set answers = 'apart' in the Trainer"


class Answers(NamedTuple):
    """The answers of a batch, each with its prompt.

    Attributes:
        row: the row of each answer, shape ``(answers,)``.
        in_prompt: the tokens of that row that are the prompt of the answer, shape ``(answers, width)``.
        labels: the ids of each answer, padded with -100; None without references.
    """

    row: Tensor
    in_prompt: Tensor
    labels: Tensor | None


def check_answers(layout: Any) -> Layout:
    """Check the value of :attr:`EvaluatorMixin.answers`.

    Raises:
        ValueError: if there is no such layout.
    """
    check_choice("answers", layout, get_args(Layout))
    return layout  # type: ignore[no-any-return]


def find_token_mask(inputs: Mapping[str, Any]) -> Tensor:
    """The tokens of a batch that are not padding, shape ``(rows, width)``.

    Raises:
        ValueError: if the batch has no ids, if it does not say what is padding, or if its rows are packed.
    """
    ids = inputs.get("input_ids")
    mask = inputs.get("attention_mask")
    if ids is None or mask is None:
        raise ValueError(
            f"to find prompts and answers, a batch must have input_ids and attention_mask, got {name_inputs(inputs)}: "
            "use a data collator that pads (not padding_free); in SFTConfig, packing needs eval_packing=False and "
            "packing_strategy='wrapped'"
        )
    if mask.shape != ids.shape or _is_packed(mask, inputs.get("position_ids")):
        raise ValueError(
            "each row of a batch must be one sequence, but attention_mask or position_ids say that rows are packed: "
            "set eval_packing=False in SFTConfig, or packing=False"
        )
    token_mask: Tensor = mask.bool()
    return token_mask


def name_inputs(inputs: Mapping[str, Any]) -> str:
    """The names of what a batch has, for messages: ``"input_ids, labels"``."""
    return ", ".join(name for name, value in inputs.items() if value is not None)


def _is_packed(mask: Tensor, position_ids: Tensor | None) -> bool:
    """Whether rows have several sequences: positions that fall between neighbors, or sequences numbered in the mask."""
    if mask.dtype != torch.bool and bool((mask > 1).any()):
        return True
    if position_ids is None or position_ids.shape != mask.shape:
        return False
    are_tokens = mask[:, 1:].bool() & mask[:, :-1].bool()
    falls = position_ids.diff(dim=1) < 0
    return bool((falls & are_tokens).any())


def find_answers(layout: Layout, ids: Tensor, mask: Tensor, labels: Tensor | None) -> Answers:
    """Find the answers of a batch, and their prompts.

    Args:
        layout: what the rows are; see :attr:`EvaluatorMixin.answers`.
        ids: the ids of the rows, shape ``(rows, width)``.
        mask: False for padding, shape ``(rows, width)``.
        labels: the answers, -100 elsewhere; None if there are none, so that the rows are prompts.

    Raises:
        ValueError: if the labels contradict the layout, or if a row has no prompt.

    Example:
        >>> ids, labels = torch.tensor([[5, 6, 7, 8]]), torch.tensor([[-100, 6, -100, 8]])
        >>> answers = find_answers("every", ids, torch.ones(1, 4).bool(), labels)
        >>> answers.in_prompt.int().tolist(), answers.labels.tolist()
        ([[1, 0, 0, 0], [1, 1, 1, 0]], [[-100, 6, -100, -100], [-100, -100, -100, 8]])
    """
    if labels is None or layout == "apart":
        return _find_prompts_alone(mask, labels)
    if labels.shape != ids.shape:
        raise ValueError(
            f"labels have shape {tuple(labels.shape)}, and input_ids {tuple(ids.shape)}, so they are not prompts with "
            f"their answers: {_IF_APART}"
        )
    begins = _find_beginnings(labels)
    counts = begins.sum(1)
    _check_counts(counts, layout)
    row, start = begins.nonzero(as_tuple=True)
    if layout == "last":
        last = counts.cumsum(0) - 1
        row, start = row[last], start[last]
    columns = torch.arange(ids.shape[1], device=ids.device)
    in_prompt = mask[row] & (columns < start[:, None])
    is_empty = ~in_prompt.any(1)
    if is_empty.any():
        raise ValueError(
            f"each answer must follow a prompt, whose labels are -100, got no prompt in row {int(row[is_empty][0])}: "
            "mask the labels of the prompt (in TRL, give the dataset the columns 'prompt' and 'completion', or set "
            f"assistant_only_loss=True for chats), or {_IF_APART}"
        )
    _check_first_labels(ids, labels, row, start)
    # The number of the answer at each label: [-100, 6, 6, -100, 7] -> [0, 1, 1, 1, 2].
    numbers = begins.cumsum(1)[row]
    is_own = numbers == numbers.gather(1, start[:, None])
    return Answers(row, in_prompt, labels[row].masked_fill(~is_own, IGNORED))


def _find_prompts_alone(mask: Tensor, labels: Tensor | None) -> Answers:
    """Rows that are prompts. Their answers, if there are any, are not in the rows."""
    row = torch.arange(len(mask), device=mask.device)
    is_empty = ~mask.any(1)
    if is_empty.any():
        raise ValueError(f"each row of input_ids must be a prompt, got only padding in row {int(row[is_empty][0])}")
    if labels is not None:
        if len(labels) != len(mask):
            raise ValueError(f"with answers = 'apart', there must be an answer per prompt, got {len(labels)} labels")
        _check_counts(_find_beginnings(labels).sum(1), "apart")
    return Answers(row, mask, labels)


def _find_beginnings(labels: Tensor) -> Tensor:
    """Where answers begin: ``[-100, 6, 6, -100, 7]`` -> ``[False, True, False, False, True]``."""
    in_answer = labels != IGNORED
    follows_answer = pad(in_answer, (1, 0))[:, :-1]
    return in_answer & ~follows_answer


def _check_counts(counts: Tensor, layout: Layout) -> None:
    """Raise a ValueError for rows with too few or too many answers."""
    if layout == "every":
        return
    for row, count in enumerate(counts.tolist()):
        if count == 0:
            raise ValueError(
                f"each row of a batch must have an answer, whose labels are not -100, got none in row {row}: its "
                "end may have been cut"
            )
        if count > 1 and layout != "last":
            raise ValueError(
                f"with answers = {layout!r}, each row of a batch must have one answer, got {count} answers in row "
                f"{row}: for chats, set answers = 'last' or 'every' in the Trainer; for packed rows, set "
                "eval_packing=False in SFTConfig"
            )


def _check_first_labels(ids: Tensor, labels: Tensor, row: Tensor, start: Tensor) -> None:
    """Raise a ValueError if an answer does not begin with the id of its row. Later labels may be replaced."""
    differs = labels[row, start] != ids[row, start]
    if differs.any():
        wrong_row, column = int(row[differs][0]), int(start[differs][0])
        raise ValueError(
            f"the answer in row {wrong_row} begins with the label {int(labels[wrong_row, column])}, but input_ids have "
            f"{int(ids[wrong_row, column])} there: do not shift labels, because the model does; {_IF_APART}"
        )


def number_answers(row: Any, index: Any) -> IntArray | None:
    """The positions of answers, of which a row of a batch can have several: that of the row, then their number in it.

    Args:
        row: the row of each answer, shape ``(answers,)``.
        index: the position in the dataset of each row, shape ``(rows,)``.

    Returns:
        None if there are no answers.

    Raises:
        TypeError: if they are not integers.
        ValueError: if a row has no position, or if a position is out of range.

    Example:
        >>> [divmod(position, 2**31) for position in number_answers([0, 0, 1], [5, 9]).tolist()]
        [(5, 0), (5, 1), (9, 0)]
    """
    rows, positions = torch.as_tensor(row, device="cpu"), torch.as_tensor(index, device="cpu")
    if not len(rows):
        return None
    for name, values in (("row", rows), ("index", positions)):
        if values.is_floating_point() or values.dtype == torch.bool or values.ndim != 1:
            raise TypeError(f"{name!r} of Prompts must hold integers, one per row or answer, got {values!r:.80}")
    if rows.min() < 0 or rows.max() >= len(positions):
        raise ValueError(
            f"'row' of Prompts must hold rows of the batch, which has {len(positions)}, got {int(rows.min())} to "
            f"{int(rows.max())}"
        )
    if positions.min() < 0 or positions.max() >= 2**32:
        raise ValueError(
            f"'index' of Prompts must hold positions in the dataset, from 0 and below 2**32, got {int(positions.max())}"
        )
    return number_sentences(positions.long().numpy(), rows.long().numpy())
