"""How a Trainer of Transformers generates: from which prompts of a batch, and with which arguments.

``split`` finds in a batch which tokens are padding, the row, the prompt, and the labels of each answer, and makes
`Prompts`: the inputs of ``generate``, references, sources, and positions. ``complete`` generates from them. How a
batch is laid out is never guessed from its content, because several layouts may fit: with prompts and answers apart,
an answer may equal the end of its prompt. What contradicts the layout is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from types import MappingProxyType
from typing import Any

import torch

from lightning_bleu.hugging_face.arguments import GenerationSettings, merge_arguments
from lightning_bleu.hugging_face.prompts import Prompts, find_generation_inputs, find_sources, gather_prompts
from lightning_bleu.hugging_face.rows import Layout, check_answers, find_answers, find_token_mask

_Trainer: Any = object
"""The base of the mixin. For mypy, it has all attributes of a Trainer."""


class GeneratorMixin(_Trainer):  # type: ignore[misc]
    """The part of :class:`EvaluatorMixin` that generates; it knows no evaluator."""

    gen_kwargs: Mapping[str, Any] = MappingProxyType({})
    answers: Layout = "one"
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
        """Find the prompts and the references of a batch, as `answers` says. Override it for batches of another form.

        Args:
            inputs: a copy of the batch. Remove what the loss must not get. Without labels, there is no loss.

        Returns:
            the prompts, padded on the left, and the references; None to compute only the loss, for all batches of a
            dataset or for none. If the model is sharded, all processes must return the same.

        Raises:
            ValueError: if a batch is not what `answers` says, has no ``attention_mask``, or is packed; if a row has no
                prompt; or if neither the model nor ``processing_class`` has a padding token.
        """
        label_name = self._label_names[0]
        labels = inputs.get(label_name)
        if labels is None or self.answers == "apart":
            inputs.pop(label_name, None)  # the loss cannot take them, even if they are None
        if self._is_encoder_decoder:
            source_name = getattr(self.model, "main_input_name", "input_ids")
            return _split_encoder_inputs(inputs, labels, label_name, source_name)
        mask = find_token_mask(inputs)
        answers = find_answers(self.answers, inputs["input_ids"], mask, labels)
        model = self.accelerator.unwrap_model(self.model)
        prompts = gather_prompts(
            find_generation_inputs(model, inputs, self._label_names),
            answers,
            model.config,
            self._generation.find_pad_id(self.processing_class),
        )
        has_several_per_row = self.answers == "every" and labels is not None
        row = answers.row if has_several_per_row else None
        return Prompts(prompts, answers.labels, find_sources(prompts), row)

    def complete(self, prompts: Prompts) -> Any:
        """Generate from the prompts of a batch. Override it to generate in another way, such as with an engine.

        Args:
            prompts: what :meth:`split` returned. A process may get an empty batch while others generate.

        Returns:
            the ids that follow each prompt, of shape ``(prompts, tokens)``, or a list of strings.

        Raises:
            ValueError: if neither the model nor ``processing_class`` has a padding token.
        """
        settings = self._generation
        arguments = dict(settings.arguments)
        arguments["pad_token_id"] = settings.find_pad_id(self.processing_class)
        inputs = self._prepare_inputs(dict(prompts.inputs))
        ids = inputs.get("input_ids")
        has_no_prompts = ids is not None and len(ids) == 0
        if has_no_prompts:  # other processes may need this one, if the model is sharded
            placeholder = torch.ones(1, 1, dtype=torch.long, device=ids.device)
            inputs = {"input_ids": placeholder * arguments["pad_token_id"], "attention_mask": placeholder}
        # If the model is sharded, `generate` syncs the processes. FSDP 1 must also gather the outermost parameters.
        gather = getattr(self.model, "summon_full_params", None)
        with gather(self.model, recurse=False, writeback=False) if gather else nullcontext():
            generated = self.model.generate(**inputs, **arguments)
        generated = getattr(generated, "sequences", generated)  # return_dict_in_generate=True
        if self._is_encoder_decoder:
            return generated
        answers = generated[:, inputs["input_ids"].shape[1] :]
        return answers[:0] if has_no_prompts else answers

    def _check_generation(self) -> None:
        """Raise a ValueError for settings that contradict each other, before anything is generated."""
        check_answers(self.answers)
        if not self._overrides("complete"):
            self._generation.check()
            if not getattr(self.model, "can_generate", lambda: True)():
                raise ValueError(
                    f"{type(self.model).__name__} cannot generate: override split and complete in the Trainer. For a "
                    "CTC model, complete returns the texts of its argmax"
                )
        if self._is_encoder_decoder:
            if self.answers != "one":
                raise ValueError(
                    f"answers = {self.answers!r} is for decoder-only models: leave it at 'one' with an "
                    "encoder-decoder, whose labels are answers anyway"
                )
            return
        if self.answers == "every" and self.compute_metrics is not None:
            raise ValueError(
                "compute_metrics needs one answer per row, and answers = 'every' gives several: set answers = 'last', "
                "or pass the Evaluator a function of hypotheses and references as a metric"
            )
        packing = getattr(self.args, "eval_packing", None)
        if packing is None:
            packing = getattr(self.args, "packing", False)
        if packing and not self._overrides("split"):
            raise ValueError("packed rows have no prompts of their own: set eval_packing=False in SFTConfig")

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
        if not self._is_seq2seq_trainer:
            return {}
        return dict(self._generation.arguments)

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
