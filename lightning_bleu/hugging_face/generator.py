"""How a Trainer of Transformers generates: from which prompts of a batch, and with which arguments.

``split`` makes `Prompts` of a batch: the inputs of ``generate``, references, sources, and positions. ``complete``
generates from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from types import MappingProxyType
from typing import Any

from lightning_bleu.hugging_face.arguments import GenerationSettings, merge_arguments
from lightning_bleu.hugging_face.prompts import IGNORED, Prompts, find_generation_inputs, find_prompts, gather_prompts

_Trainer: Any = object
"""The base of the mixin. For mypy, it has all attributes of a Trainer."""


class GeneratorMixin(_Trainer):  # type: ignore[misc]
    """The part of :class:`EvaluatorMixin` that generates; it knows no evaluator."""

    gen_kwargs: Mapping[str, Any] = MappingProxyType({})
    _call_arguments: Mapping[str, Any] = MappingProxyType({})  # arguments of generate in a call of evaluate or predict
    _gen_kwargs: Any = MappingProxyType({})  # those of Seq2SeqTrainer, which sets them in each call
    _is_evaluating = False  # whether the loop of this call has begun, so that a callback may start another evaluation

    def evaluate(
        self,
        eval_dataset: Any = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
        **gen_kwargs: Any,
    ) -> Any:
        """Evaluate datasets. `gen_kwargs` go to ``model.generate``, and override its other settings. Collective."""
        with self._generate_with(gen_kwargs):
            return super().evaluate(eval_dataset, ignore_keys, metric_key_prefix, **self._arguments_for_trainer())

    def predict(
        self,
        test_dataset: Any,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "test",
        **gen_kwargs: Any,
    ) -> Any:
        """Generate from a dataset, with or without labels. The arguments are those of :meth:`evaluate`. Collective."""
        with self._generate_with(gen_kwargs):
            return super().predict(test_dataset, ignore_keys, metric_key_prefix, **self._arguments_for_trainer())

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

        A row of a decoder-only model is a prompt, where labels are -100, and an answer; of a chat, the last answer.

        Args:
            inputs: a copy of the batch. Remove what the loss must not get. Without labels, there is no loss.

        Returns:
            the prompts, padded on the left, and the references; None to compute only the loss, for all batches of a
            dataset or for none. If the model is sharded, all processes must return the same.

        Raises:
            ValueError: if a batch has no ``attention_mask``, or is packed; if a row has no prompt or no answer; or if
                neither the model nor ``processing_class`` has a padding token.
        """
        label_name = self._label_names[0]
        labels = inputs.get(label_name)
        if labels is None:
            inputs.pop(label_name, None)  # the loss cannot take None
        if self._is_encoder_decoder:
            return _split_encoder_inputs(inputs, labels, label_name, getattr(self.model, "main_input_name", ""))
        packing = getattr(self.args, "eval_packing", None)
        if packing or (packing is None and getattr(self.args, "packing", False)):
            raise ValueError("packed rows have no prompts of their own: set eval_packing=False in SFTConfig")
        in_prompt, answers = find_prompts(inputs, labels)
        model = self.accelerator.unwrap_model(self.model)
        prompts = gather_prompts(
            find_generation_inputs(model, inputs, self._label_names),
            in_prompt,
            self._generation.find_pad_id(self.processing_class),
        )
        return Prompts(prompts, answers, prompts["input_ids"].masked_fill(prompts["attention_mask"] == 0, IGNORED))

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
    source: Any = inputs.get(source_name or "input_ids")
    is_ids = getattr(source, "ndim", 0) == 2 and not source.is_floating_point()
    return Prompts(prompts, labels, source if is_ids else None)
