"""How a Trainer of Transformers generates: from which prompts of a batch, and with which arguments.

``split`` makes `Prompts` of a batch: the inputs of ``generate``, references, and sources. ``complete`` generates from
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from types import MappingProxyType
from typing import Any

from torch import Tensor

from lightning_bleu.core.mistakes import Mistake
from lightning_bleu.hugging_face.arguments import GenerationSettings, merge_arguments, suspect_limit
from lightning_bleu.hugging_face.prompts import IGNORED, Prompts, find_generation_inputs, find_prompts, gather_prompts

_Trainer: Any = object
"""The base of the mixin. For mypy, it has all attributes of a Trainer."""


class GeneratorMixin(_Trainer):  # type: ignore[misc]
    """The part of :class:`EvaluatorMixin` that generates; it knows no evaluator."""

    gen_kwargs: Mapping[str, Any] = MappingProxyType({})
    _call_arguments: Mapping[str, Any] = MappingProxyType({})  # arguments of generate in a call of evaluate or predict
    _gen_kwargs: Any = MappingProxyType({})  # those of Seq2SeqTrainer, which sets them in each call
    _is_evaluating = False  # whether the loop of this call has begun, so that a callback may start another evaluation

    @contextmanager
    def _generate_with(self, arguments: Mapping[str, Any]) -> Iterator[None]:
        """Within this context, evaluations generate with the arguments of a call."""
        outer, outer_of_trainer, is_inside = self._call_arguments, self._gen_kwargs, self._is_evaluating
        # Trainer.evaluate calls itself for each of several datasets. Another evaluation in it has its own arguments.
        self._call_arguments = arguments if is_inside else {**outer, **arguments}
        self._is_evaluating = False
        try:
            yield
        finally:
            self._call_arguments, self._gen_kwargs, self._is_evaluating = outer, outer_of_trainer, is_inside

    def split(self, inputs: Any) -> Prompts | None:
        """Find the prompts and the references of a batch. Override it for batches of another form.

        In a row of a decoder-only model, labels are -100 except those of answers. The reference is the last answer, and
        the prompt is everything before it.

        Args:
            inputs: a copy of the batch. Remove what the loss must not get. Without labels, there is no loss.

        Returns:
            the prompts, padded on the left, and the references; None to compute only the loss, for all batches of a
            dataset or for none. If the model is sharded, all processes must return the same.

        Raises:
            ValueError: if a batch has no ``attention_mask``, or is packed; if a row has no prompt or no answer; if
                labels are not those of the rows; or if neither the model nor ``processing_class`` has a padding token.
        """
        label_name = self._label_names[0]
        labels = inputs.get(label_name)
        if labels is None:
            inputs.pop(label_name, None)  # the loss cannot take None
        if self._is_encoder_decoder:
            source_name = getattr(self.model, "main_input_name", "input_ids")
            return _split_encoder_inputs(inputs, labels, label_name, source_name)
        in_prompt, answers = find_prompts(inputs, labels)
        model = self.accelerator.unwrap_model(self.model)
        generation_inputs = find_generation_inputs(model, inputs, self._label_names)
        prompts = gather_prompts(generation_inputs, in_prompt, self._generation.find_pad_id(self.processing_class))
        sources = prompts["input_ids"].masked_fill(prompts["attention_mask"] == 0, IGNORED)
        return Prompts(prompts, answers, sources)

    def complete(self, prompts: Prompts) -> Any:
        """Generate from the prompts of a batch. Override it to generate in another way, such as with an engine.

        Args:
            prompts: what :meth:`split` returned.

        Returns:
            the ids that follow each prompt, of shape ``(prompts, tokens)``, or a list of strings.

        Raises:
            ValueError: if neither the model nor ``processing_class`` has a padding token.
        """
        settings = self._generation
        arguments = dict(settings.arguments)
        arguments["pad_token_id"] = settings.find_pad_id(self.processing_class)
        inputs = self._prepare_inputs(dict(prompts.inputs))
        # If the model is sharded, `generate` syncs the processes. FSDP 1 must also gather the outermost parameters.
        gather = getattr(self.model, "summon_full_params", None)
        with gather(self.model, recurse=False, writeback=False) if gather else nullcontext():
            generated = self.model.generate(**inputs, **arguments)
        generated = getattr(generated, "sequences", generated)  # return_dict_in_generate=True
        return generated if self._is_encoder_decoder else generated[:, inputs["input_ids"].shape[1] :]

    def _check_generation(self) -> None:
        """Raise a ValueError for what cannot give an answer per prompt, before anything is read."""
        if not self._overrides("complete"):
            answers = self._generation.find("num_return_sequences") or 1
            if answers > 1:
                raise ValueError(
                    f"num_return_sequences={answers} generates several answers per prompt, and one can be scored: set "
                    "it to 1, or override complete to choose one"
                )
            if not getattr(self.model, "can_generate", lambda: True)():
                raise ValueError(
                    f"{type(self.model).__name__} cannot generate: override split and complete in the Trainer. For a "
                    "CTC model, complete returns the texts of its argmax"
                )
        packs = getattr(self.args, "eval_packing", None)
        if packs is None:
            packs = getattr(self.args, "packing", False)
        if packs and not self._is_encoder_decoder and not self._overrides("split"):
            raise ValueError("packed rows have no prompts of their own: set eval_packing=False in SFTConfig")

    def _find_mistakes(self, prompts: Prompts, preds: Any) -> Iterator[Mistake]:
        """Suspect sampling that nobody asked for, and a default limit that cuts hypotheses."""
        if self._overrides("complete"):
            return
        settings = self._generation
        samples = settings.find("do_sample")  # instruction-tuned models ship with it
        if samples and "do_sample" not in settings.arguments:
            yield (
                "do_sample",
                "generation_config.do_sample is True, so answers are random, and scores depend on batches and "
                "processes: set gen_kwargs = {'do_sample': False}, or True if that is meant.",
            )
        if self._overrides("split") or not isinstance(prompts.target, Tensor):
            return
        if not self._is_encoder_decoder:
            # Here, max_length counts the prompt, so it may be too small even if it is an argument.
            yield from suspect_limit(preds, prompts.target, settings)
        elif self._is_seq2seq_trainer and settings.arguments.get("max_length") is None:
            generated = preds[:, 1:]  # without the token at which the decoder starts
            yield from suspect_limit(generated, prompts.target, settings)

    @property
    def _generation(self) -> GenerationSettings:
        """What the model generates with."""
        of_trainer = {}
        if self._is_seq2seq_trainer:
            of_trainer["num_beams"] = self.args.generation_num_beams
            of_trainer["max_length"] = self.args.generation_max_length
        arguments = merge_arguments(self._call_arguments, self.gen_kwargs, of_trainer)
        return GenerationSettings(arguments, getattr(self.model, "generation_config", None))

    def _arguments_for_trainer(self) -> dict[str, Any]:
        """The arguments of ``generate`` that the Trainer's own ``evaluate`` and ``predict`` take."""
        return dict(self._generation.arguments) if self._is_seq2seq_trainer else {}

    @property
    def _is_seq2seq_trainer(self) -> bool:
        return any(kind.__name__ == "Seq2SeqTrainer" for kind in type(self).__mro__)

    @property
    def _is_encoder_decoder(self) -> bool:
        return bool(getattr(getattr(self.model, "config", None), "is_encoder_decoder", True))

    @property
    def _label_names(self) -> list[str]:
        return list(self.label_names or ["labels"])

    def _overrides(self, method: str) -> bool:
        """Whether the user has another method of that name."""
        return getattr(type(self), method) is not getattr(GeneratorMixin, method) or method in vars(self)


def _split_encoder_inputs(inputs: Mapping[str, Any], labels: Any, label_name: str, source_name: str) -> Prompts:
    """The batch of an encoder-decoder as prompts. Its source is shown if it is ids, and not images or audio."""
    not_generated_from = (label_name, "decoder_input_ids", "decoder_attention_mask")
    prompts = {name: value for name, value in inputs.items() if name not in not_generated_from}
    source: Any = inputs.get(source_name)
    is_ids = getattr(source, "ndim", 0) == 2 and not source.is_floating_point()
    return Prompts(prompts, labels, source if is_ids else None)
