"""Likely mistakes in how answers are sampled and where they end, which are not errors."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from lightning_bleu.core.mistakes import Mistake
from lightning_bleu.hugging_face.arguments import GenerationSettings
from lightning_bleu.hugging_face.rows import IGNORED


def suspect_sampling(settings: GenerationSettings) -> Iterator[Mistake]:
    """Suspect sampling that nobody asked for: instruction-tuned models ship with it."""
    if "do_sample" not in settings.arguments and settings.find("do_sample"):
        yield (
            "do_sample",
            "generation_config.do_sample is True, so answers are random, and scores depend on batches and processes: "
            "set gen_kwargs = {'do_sample': False}, or True if that is meant.",
        )


def suspect_joined_rows(ids: Tensor, mask: Tensor, labels: Tensor) -> Iterator[Mistake]:
    """Suspect rows that contain their answers, although prompts and answers should be apart.

    Args:
        ids: the ids of the rows, shape ``(rows, width)``.
        mask: False for padding, shape ``(rows, width)``.
        labels: the labels, -100 elsewhere.
    """
    if labels.shape != ids.shape or not len(ids):
        return
    is_label = labels != IGNORED
    are_in_rows = bool((labels == ids)[is_label].all())
    have_masked_prompts = bool((mask & ~is_label).any(1).all())
    if are_in_rows and have_masked_prompts:
        yield (
            "joined rows",
            "With answers = 'apart', input_ids are prompts, but here they contain the labels, so the model would go on "
            "after its answers: set answers = 'one' in the Trainer.",
        )


def suspect_answers(
    labels: Tensor, lengths: Tensor, settings: GenerationSettings, max_length: int | None
) -> Iterator[Mistake]:
    """Suspect answers of a decoder-only model without an id at which generation stops.

    Args:
        labels: the answers, padded with -100, shape ``(answers, width)``.
        lengths: the number of tokens of the row of each answer, shape ``(answers,)``.
        settings: what the model generates with.
        max_length: the number of tokens to which the Trainer cuts rows; None if it doesn't, or if it is unknown.
    """
    lacks_end = ~_have_any(labels, settings.stop_ids)
    is_cut = lacks_end & (lengths == (max_length or -1))
    if is_cut.any():
        yield (
            "cut references",
            f"Rows of max_length={max_length} tokens have answers without an end, so the Trainer probably cut their "
            "references: use a larger max_length, or None.",
        )
    advice = "to the end of an answer in your chat template, and put it into the labels."
    yield from suspect_ends(labels[~is_cut], settings, advice)


def suspect_ends(labels: Tensor, settings: GenerationSettings, advice: str) -> Iterator[Mistake]:
    """Suspect labels without an id at which generation stops.

    Args:
        labels: the labels, padded with -100, shape ``(sentences, width)``.
        settings: what the model generates with.
        advice: what to set its ``eos_token_id`` to.
    """
    lacks_end = ~_have_any(labels, settings.stop_ids) & (labels != IGNORED).any(1)
    if settings.stops_otherwise or 2 * int(lacks_end.sum()) <= len(labels):
        return
    labels_without_end = labels[lacks_end][0]
    last_id = int(labels_without_end[labels_without_end != IGNORED][-1])
    yield (
        "no end",
        f"An answer has none of the ids at which this generation stops, eos_token_id={sorted(settings.stop_ids)}; its "
        f"last id is {last_id}. The model may go on after the end of its answers: set gen_kwargs = {{'eos_token_id': "
        f"...}} {advice}",
    )


def suspect_limit(
    generated: Tensor, target: Tensor, settings: GenerationSettings, *, counts_prompt: bool
) -> Iterator[Mistake]:
    """Suspect a limit that has cut hypotheses, and that leaves fewer new tokens than a reference has.

    A limit of new tokens is not suspected, because it is meant as it is.

    Args:
        generated: the ids after the prompts, shape ``(prompts, new tokens)``.
        target: the references, padded with -100, shape ``(prompts, width)``.
        settings: what the model generates with.
        counts_prompt: whether ``max_length`` counts the prompt, as in decoder-only models. In others, it limits the new
            tokens, and is not suspected if it is an argument.
    """
    is_meant = settings.find("max_new_tokens") is not None
    if not counts_prompt:
        is_meant = is_meant or settings.arguments.get("max_length") is not None
    if is_meant or settings.stops_otherwise or not generated.numel():
        return
    # If the end is forced, it may be what the limit has left.
    chosen = generated if settings.find("forced_eos_token_id") is None else generated[:, :-1]
    is_cut = ~_have_any(chosen, settings.stop_ids)
    longest = int((target != IGNORED).sum(1).max())
    new_tokens = generated.shape[1]
    if is_cut.any() and new_tokens < longest:
        max_length = settings.find("max_length")
        limit = "its default" if max_length is None else f"max_length={max_length}"
        if max_length is not None and counts_prompt:
            limit += ", which counts the prompt"
        yield (
            "limit",
            f"generate stopped after {new_tokens} new tokens because of {limit}, but a reference has {longest}: set "
            "gen_kwargs = {'max_new_tokens': ...} to more than the longest reference.",
        )


def _have_any(rows: Tensor, ids: set[int]) -> Tensor:
    """Which rows have any of the ids."""
    return torch.isin(rows, torch.tensor(sorted(ids), dtype=rows.dtype, device=rows.device)).any(1)
