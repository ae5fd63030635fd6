"""What a model generates with: arguments from several places, of which the stronger ones count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lightning_bleu.core.mistakes import Mistake
from lightning_bleu.hugging_face.prompts import IGNORED

_LENGTHS = {"max_length": "max_new_tokens", "max_new_tokens": "max_length"}
"""Two arguments for one limit, of which a stronger one replaces a weaker one."""
_NONE_IF_NOT_PASSED = ("num_beams", *_LENGTHS)
"""Arguments that scripts for Seq2SeqTrainer pass as None to leave them to weaker places."""


def merge_arguments(*places: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the arguments of ``generate`` from several places, the strongest first.

    A ``generation_config`` has a value for every argument, so weaker places do not count.

    Example:
        >>> merge_arguments({"max_length": 9, "num_beams": None}, {"max_new_tokens": 3, "num_beams": 2})
        {'max_length': 9, 'max_new_tokens': None, 'num_beams': 2}
        >>> merge_arguments({"generation_config": "greedy"}, {"num_beams": 2})
        {'generation_config': 'greedy'}
    """
    merged: dict[str, Any] = {}
    for arguments in places:
        for name, value in arguments.items():
            if name in merged or (value is None and name in _NONE_IF_NOT_PASSED):
                continue
            merged[name] = value
            if name in _LENGTHS:
                merged.setdefault(_LENGTHS[name], None)
        if "generation_config" in merged:
            break
    return merged


class GenerationSettings(NamedTuple):
    """What a model generates with.

    Attributes:
        arguments: the arguments of ``generate``.
        config: the ``generation_config`` of the model, which is weaker.

    Example:
        >>> from types import SimpleNamespace
        >>> settings = GenerationSettings({"eos_token_id": [7, 8]}, SimpleNamespace(pad_token_id=0))
        >>> settings.find("pad_token_id"), settings.find("eos_token_id")
        (0, [7, 8])
    """

    arguments: Mapping[str, Any]
    config: Any

    def find(self, name: str) -> Any:
        """The value of an argument; None if it is not set anywhere."""
        if name in self.arguments:
            return self.arguments[name]
        config = self.arguments.get("generation_config", self.config)
        return getattr(config, name, None)

    def find_pad_id(self, processing_class: Any) -> int:
        """The id of the padding.

        Args:
            processing_class: the tokenizer of the Trainer, or a processor with a tokenizer.

        Raises:
            ValueError: if there is none.
        """
        tokenizer = getattr(processing_class, "tokenizer", processing_class)
        for pad_id in (self.find("pad_token_id"), getattr(tokenizer, "pad_token_id", None)):
            if pad_id is not None:
                return int(pad_id)
        raise ValueError(
            "there is no padding token: pass processing_class=tokenizer to the Trainer, or set "
            "model.generation_config.pad_token_id or gen_kwargs['pad_token_id']"
        )


def suspect_limit(generated: Tensor, labels: Tensor, settings: GenerationSettings) -> Iterator[Mistake]:
    """Suspect a default limit that has cut hypotheses, and that leaves fewer new tokens than a reference has.

    Args:
        generated: the new ids, shape ``(sentences, new tokens)``.
        labels: the references, padded with -100, shape ``(sentences, width)``.
        settings: what the model generates with.
    """
    stop_ids = settings.find("eos_token_id")
    ends_otherwise = settings.find("stop_strings") or settings.find("stopping_criteria")
    if stop_ids is None or ends_otherwise or settings.find("max_new_tokens") is not None:
        return
    new_tokens = generated.shape[1]
    longest = int((labels != IGNORED).sum(1).max())
    if settings.find("forced_eos_token_id") is not None:  # the last id may be the end that the limit has forced
        generated = generated[:, :-1]
    has_end = torch.isin(generated, torch.as_tensor(stop_ids, device=generated.device)).any(1)
    if new_tokens < longest and not has_end.all():
        yield (
            "limit",
            f"generate stopped at its limit, after {new_tokens} new tokens, but a reference has {longest}: set "
            "gen_kwargs = {'max_new_tokens': ...} to more than the longest reference.",
        )
