"""The validations that later ones are compared with, as plain values in checkpoints."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias, get_args

import torch

from lightning_bleu.core.kept import IDENTITY_COLUMNS
from lightning_bleu.evaluation.names import Name, Naming
from lightning_bleu.evaluation.result import OpponentKind
from lightning_bleu.evaluation.scores import Scored
from lightning_bleu.evaluation.sentences import SentenceRows, Sentences

STATE_FORMAT = 2
"""The format of the states that are saved in checkpoints."""
SavedLoaders: TypeAlias = Mapping[str, Mapping[str, Any]]
"""What is saved of a validation for one score: the rows and the groups of each loader, by its name."""


def to_saved(
    scored: Sequence[Scored], loaders: Sequence[Sentences], new: Collection[Name], naming: Naming
) -> Mapping[str, SavedLoaders]:
    """What is saved of a validation, for the scores for which later ones are compared with it.

    Args:
        scored: the scores of the validation.
        loaders: its sentences.
        new: the names of these scores of the whole validation.
        naming: how names are written.
    """
    groups_by_loader = {sentences.loader: sentences.groups for sentences in loaders}
    saved: dict[str, dict[str, Mapping[str, Any]]] = {naming.render(whole): {} for whole in new}
    for score in scored:
        if score.name.whole in new and score.rows is not None and not score.name.group:
            loader = score.name.loader
            saved[naming.render(score.name.whole)][loader] = _to_plain(score.rows, groups_by_loader[loader])
    return saved


def _to_plain(rows: SentenceRows, groups: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """The rows and the groups of a loader as plain values. (A view of the rows would save those of all metrics.)"""
    return {
        "identity": rows.identity.clone(),
        "statistics": rows.statistics.clone(),
        "settings": rows.scorer.plain_settings(),
        "groups": {label: torch.tensor(numbers, device="cpu") for label, numbers in groups.items()},
    }


def check_state(state_dict: Mapping[str, Any]) -> None:
    """Raise a ValueError for anything but the state of an evaluator of this version."""
    if not isinstance(state_dict, Mapping):
        raise ValueError(f"expected evaluator.state_dict(), got {state_dict!r} of type {type(state_dict).__name__}")
    # A state without validations is {}, also without a format.
    if state_dict.get("format", STATE_FORMAT) != STATE_FORMAT:
        raise ValueError(
            f"the state has the format {state_dict['format']!r}, and this version of lightning_bleu reads "
            f"{STATE_FORMAT}: load it with the version that saved it"
        )
    unknown = state_dict.keys() - {"format", *get_args(OpponentKind)}
    if unknown:
        names = sorted(map(str, unknown))
        raise ValueError(f"expected evaluator.state_dict(), got a dict with the keys {names}")
    for kind in get_args(OpponentKind):
        if not _is_saved(state_dict.get(kind, {})):
            raise ValueError(f"expected evaluator.state_dict(), but {kind!r} in it is incomplete or no state")


def _is_saved(saved: Any) -> bool:
    """Whether a value has the validations that :func:`to_saved` returns."""
    if not isinstance(saved, Mapping):
        return False
    for loaders in saved.values():
        if not isinstance(loaders, Mapping) or not all(map(_is_saved_loader, loaders.values())):
            return False
    return True


def _is_saved_loader(saved: Any) -> bool:
    """Whether a value has what :func:`_to_plain` returns."""
    if not isinstance(saved, Mapping) or not saved.keys() >= {"identity", "statistics", "settings", "groups"}:
        return False
    identity, statistics, settings, groups = (saved[name] for name in ("identity", "statistics", "settings", "groups"))
    if not (isinstance(settings, Mapping) and isinstance(groups, Mapping)):
        return False
    tensors = [identity, statistics, *groups.values()]
    if not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        return False
    count = len(identity) if identity.ndim == 2 else -1
    has_rows = identity.dtype == torch.int32 and identity.shape[1:] == (IDENTITY_COLUMNS,)
    has_statistics = statistics.ndim == 2 and len(statistics) == count
    return has_rows and has_statistics and all(_are_numbers(numbers, count) for numbers in groups.values())


def _are_numbers(numbers: torch.Tensor, count: int) -> bool:
    """Whether a tensor has the numbers of some of so many sentences."""
    if numbers.dtype != torch.int64 or numbers.ndim != 1:
        return False
    return not len(numbers) or bool(numbers.min() >= 0 and numbers.max() < count)
