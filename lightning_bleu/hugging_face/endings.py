"""Likely mistakes in how answers are sampled and where they end, which are not errors."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from lightning_bleu.core.mistakes import Mistake
from lightning_bleu.hugging_face.arguments import GenerationSettings
from lightning_bleu.hugging_face.prompts import IGNORED


def suspect_sampling(settings: GenerationSettings) -> Iterator[Mistake]:
    """Suspect sampling that nobody asked for: instruction-tuned models ship with it."""
    if "do_sample" not in settings.arguments and settings.find("do_sample"):
        yield (
            "do_sample",
            "generation_config.do_sample is True, so answers are random, and scores depend on batches and processes: "
            "set gen_kwargs = {'do_sample': False}, or True if that is meant.",
        )


def suspect_cut_rows(labels: Tensor, settings: GenerationSettings, max_length: int | None) -> Iterator[Mistake]:
    """Suspect that references were cut.

    Args:
        labels: the references in rows of `max_length` tokens, padded with -100, shape ``(sentences, width)``.
        settings: what the model generates with.
        max_length: the number of tokens to which the Trainer cuts rows.
    """
    if not _have_any(labels, settings.stop_ids).all():
        yield (
            "cut references",
            f"Rows of max_length={max_length} tokens have answers without an end, so the Trainer probably cut their "
            "references: use a larger max_length, or None.",
        )


def suspect_ends(labels: Tensor, settings: GenerationSettings) -> Iterator[Mistake]:
    """Suspect references without an id at which generation stops, if most of a batch have none.

    Args:
        labels: the references, padded with -100, shape ``(sentences, width)``.
        settings: what the model generates with.
    """
    has_label = (labels != IGNORED).any(1)
    endless = labels[has_label & ~_have_any(labels, settings.stop_ids)]
    if settings.stops_otherwise or 2 * len(endless) <= len(labels):
        return
    answer = endless[0]
    last_id = int(answer[answer != IGNORED][-1])
    yield (
        "no end",
        f"An answer has none of the ids at which this generation stops, eos_token_id={sorted(settings.stop_ids)}; its "
        f"last id is {last_id}. The model may go on after the end of its answers: set gen_kwargs = {{'eos_token_id': "
        "...} to the id that ends them, and put it into the labels.",
    )


def suspect_limit(
    generated: Tensor, labels: Tensor, settings: GenerationSettings, *, counts_prompt: bool
) -> Iterator[Mistake]:
    """Suspect a default limit that has cut hypotheses, and that leaves fewer new tokens than a reference has.

    Args:
        generated: the ids after the prompts, shape ``(sentences, new tokens)``.
        labels: the references, padded with -100, shape ``(sentences, width)``.
        settings: what the model generates with.
        counts_prompt: whether ``max_length`` counts the prompt, as in decoder-only models. In others, it limits the new
            tokens, and is meant as it is if it is an argument.
    """
    if settings.find("max_new_tokens") is not None or settings.stops_otherwise:
        return
    if not counts_prompt and settings.arguments.get("max_length") is not None:
        return
    new_tokens = generated.shape[1]
    if settings.find("forced_eos_token_id") is not None:  # the last id may be the end that the limit has forced
        generated = generated[:, :-1]
    has_end = _have_any(generated, settings.stop_ids)
    longest = int((labels != IGNORED).sum(1).max())
    if new_tokens < longest and not has_end.all():
        yield (
            "limit",
            f"generate stopped at its limit, after {new_tokens} new tokens, but a reference has {longest}: set "
            "gen_kwargs = {'max_new_tokens': ...} to more than the longest reference.",
        )


def _have_any(rows: Tensor, ids: set[int]) -> Tensor:
    """Which rows have any of the ids."""
    choices = torch.tensor(sorted(ids), dtype=rows.dtype, device=rows.device)
    return torch.isin(rows, choices).any(1)
