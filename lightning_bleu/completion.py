"""Generation with decoder-only models in the Trainer of Hugging Face Transformers, which isn't imported."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from types import MappingProxyType
from typing import Any

from torch import Tensor
from torch.nn.functional import pad


class CompletionMixin:
    """Makes ``Trainer`` evaluate what a decoder-only model generates, as ``Seq2SeqTrainer`` does for encoder-decoders.

    Put it before the Trainer: ``class CompletionTrainer(CompletionMixin, Trainer)``. Subclasses of ``Trainer``, such as
    TRL's ``SFTTrainer``, work too. The predictions are the ids that the model generates after each prompt, without the
    prompt. The loss is computed as usual. If only the loss is needed, nothing is generated.

    Each row of a batch must be a prompt and one answer, with padding on either side. ``labels`` are -100 in the prompt,
    so the prompt is what ``attention_mask`` shows before the first label. The prompts are padded on the left,
    whichever side the tokenizer pads.

    The settings are those of ``model.generation_config``, which ``gen_kwargs`` overrides. By default, Transformers
    generates at most 20 tokens: set ``max_new_tokens`` to more than the longest answer needs.

    Attributes:
        gen_kwargs: arguments of ``model.generate``, for example ``{"max_new_tokens": 256, "num_beams": 4}``. Set it in
            the subclass, or in the trainer at any time.

    Raises:
        ValueError: during an evaluation if a batch has no ``labels`` or ``attention_mask``; if a row has no prompt, no
            answer, or several answers; or if neither the model nor ``processing_class`` has a padding token.
    """

    gen_kwargs: Mapping[str, Any] = MappingProxyType({})
    model: Any
    processing_class: Any
    _prepare_inputs: Any

    def prediction_step(
        self, model: Any, inputs: Any, prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Return the loss, the completions, and the labels of a batch. The Trainer calls this."""
        trainer: Any = super()
        loss, _, _ = trainer.prediction_step(model, inputs, prediction_loss_only=True, ignore_keys=ignore_keys)
        if prediction_loss_only:
            return loss, None, None
        inputs = self._prepare_inputs(inputs)
        in_prompt = _find_prompts(inputs)
        width = int(in_prompt.sum(1).max())
        order = in_prompt.int().argsort(dim=1, stable=True)[:, -width:]  # moves each prompt to the end of its row
        mask = in_prompt.gather(1, order)
        options = {"pad_token_id": self._pad_token_id(), **self.gen_kwargs}
        prompts = inputs["input_ids"].gather(1, order).masked_fill(~mask, options["pad_token_id"])
        # If the model is sharded, `generate` syncs the processes. FSDP 1 must also gather the outermost parameters.
        gather = getattr(self.model, "summon_full_params", None)
        with gather(self.model, recurse=False, writeback=False) if gather else nullcontext():
            generated = self.model.generate(input_ids=prompts, attention_mask=mask.long(), **options)
        generated = getattr(generated, "sequences", generated)  # return_dict_in_generate=True
        return loss, generated[:, width:], inputs["labels"]

    def _pad_token_id(self) -> int:
        for source in (self.model.generation_config, self.processing_class):
            if (pad_token_id := getattr(source, "pad_token_id", None)) is not None:
                return int(pad_token_id)
        raise ValueError(
            "there is no padding token: pass processing_class=tokenizer to the Trainer, or set "
            "model.generation_config.pad_token_id"
        )


def _find_prompts(inputs: Mapping[str, Tensor]) -> Tensor:
    """Mark the prompts: labels [-100, -100, 5, -100] and attention_mask [0, 1, 1, 1] -> [False, True, False, False]."""
    names = [name for name, value in inputs.items() if value is not None]
    if not {"labels", "attention_mask"} <= {*names}:
        raise ValueError(
            f"to find prompts and answers, a batch must have labels and attention_mask, got {', '.join(names)}: use a "
            "data collator that pads (not padding_free)"
        )
    in_answer = inputs["labels"] != -100
    in_prompt = inputs["attention_mask"].bool() & (in_answer.cumsum(1) == 0)
    answers = (pad(in_answer.int(), (1, 0)).diff(dim=1) == 1).sum(1)
    for row, (length, count) in enumerate(zip(in_prompt.sum(1).tolist(), answers.tolist())):
        if not length or count != 1:
            found = f"{count} answers (truncated, several turns, or packed?)" if length else "no prompt"
            raise ValueError(
                f"each row of a batch must be a prompt, where labels are -100, and one answer, got {found} in row {row}"
            )
    return in_prompt
