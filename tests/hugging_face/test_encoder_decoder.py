"""Encoder-decoders in a real Seq2SeqTrainer: what can be overridden, and what they are generated with."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from sacrebleu.metrics.bleu import BLEU

from lightning_bleu import CorpusBLEU, Evaluator
from lightning_bleu.hugging_face import EvaluatorMixin, Prompts, add_evaluator
from tests.helpers.language_models import EOS, FIRST_WORD, PAD, SIZE, bleu_of, make_tokenizer, replace_words, to_text

pytestmark = pytest.mark.slow


def make_model() -> Any:
    """A T5 that ends sentences early, late, and not at all."""
    import transformers

    make_config: Any = transformers.T5Config  # has no types
    make: Any = transformers.T5ForConditionalGeneration

    torch.manual_seed(0)
    config = make_config(
        vocab_size=SIZE,
        d_model=32,
        d_kv=16,
        d_ff=64,
        num_layers=2,
        num_heads=2,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=PAD,
        initializer_factor=4.0,
        tie_word_embeddings=False,
    )
    model = make(config).eval()
    model.generation_config.max_new_tokens = 12
    return model


def complete_alone(model: Any, source: list[int], **options: Any) -> list[int]:
    ids = model.generate(input_ids=torch.tensor([source]), attention_mask=torch.ones(1, len(source)).long(), **options)
    return [token for token in ids[0].tolist() if token not in (PAD, EOS)]


@cache
def make_items() -> list[dict[str, list[int]]]:
    """Sources, and references that are what the model generates, with some words replaced."""
    model, chosen = make_model(), random.Random(0)
    items = []
    for _ in range(5):
        source = [chosen.randrange(FIRST_WORD, SIZE) for _ in range(chosen.randint(2, 9))]
        labels = [*replace_words(complete_alone(model, source), chosen), EOS]
        items.append({"input_ids": source, "labels": labels})
    return items


@cache
def expected_score(**options: Any) -> float:
    model, items = make_model(), make_items()
    hypotheses = [to_text(complete_alone(model, item["input_ids"], **options)) for item in items]
    return bleu_of(hypotheses, [to_text(item["labels"]) for item in items])


def make_trainer(items: Any = None, **options: Any) -> Any:
    import transformers

    args: Any = {"per_device_eval_batch_size": 4, "use_cpu": True, "report_to": "none", "disable_tqdm": True}
    args |= {"predict_with_generate": True} | options.pop("args", {})
    tokenizer = make_tokenizer("right")
    model = make_model()
    trainer = type("Translator", (EvaluatorMixin, transformers.Seq2SeqTrainer), options)(
        model,
        transformers.Seq2SeqTrainingArguments("runs", **args),
        data_collator=transformers.DataCollatorForSeq2Seq(tokenizer, model),
        eval_dataset=items or make_items(),
        processing_class=tokenizer,
        evaluator=Evaluator(CorpusBLEU()),
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)


def test_gen_kwargs_and_the_call_are_passed_to_the_trainer() -> None:
    assert 0.2 < expected_score() < 0.9
    assert make_trainer().evaluate()["eval_bleu"] == pytest.approx(expected_score(), abs=1e-12)
    trainer = make_trainer(gen_kwargs={"num_beams": 2, "max_new_tokens": 9}, args={"generation_num_beams": 4})
    expected = expected_score(num_beams=2, max_new_tokens=9)
    assert expected != expected_score()
    assert trainer.evaluate()["eval_bleu"] == pytest.approx(expected, abs=1e-12)
    expected = expected_score(num_beams=3, max_new_tokens=9)
    assert trainer.evaluate({"a": make_items()}, num_beams=3)["eval_a_bleu"] == pytest.approx(expected, abs=1e-12)


def test_gen_kwargs_may_be_those_of_each_dataset() -> None:
    """Such as the first token of each target language."""
    trainer = make_trainer(gen_kwargs={"b": {"num_beams": 2, "max_new_tokens": 9}})
    scores = trainer.evaluate({"a": make_items(), "b": make_items()})
    expected = [expected_score(), expected_score(num_beams=2, max_new_tokens=9)]
    assert [scores["eval_a_bleu"], scores["eval_b_bleu"]] == pytest.approx(expected, abs=1e-12)


def test_an_evaluation_inside_another_one_has_arguments_of_its_own() -> None:
    from transformers import TrainerCallback

    inner: list[float] = []

    def evaluate_once(self: Any, *args: Any, **kwargs: Any) -> None:
        if not inner:
            inner.append(0)
            inner.append(trainer.evaluate(make_items(), metric_key_prefix="inner", max_new_tokens=5)["inner_bleu"])

    trainer = make_trainer({"one": make_items(), "two": make_items()})
    trainer.add_callback(type("Inside", (TrainerCallback,), {"on_prediction_step": evaluate_once})())
    outer = trainer.evaluate(num_beams=2)
    assert [outer["eval_one_bleu"], outer["eval_two_bleu"]] == pytest.approx([expected_score(num_beams=2)] * 2)
    assert inner == [0, pytest.approx(expected_score(max_new_tokens=5))]


def test_several_answers_per_prompt_are_an_error() -> None:
    trainer = make_trainer(args={"generation_num_beams": 2})
    with pytest.raises(ValueError, match="num_return_sequences=2 generates several answers per prompt"):
        trainer.evaluate(num_return_sequences=2)


@pytest.mark.filterwarnings("ignore:Using the model-agnostic default")
@pytest.mark.parametrize(
    ("default", "args", "warns"),
    [(None, {}, True), (10, {}, True), (10, {"generation_max_length": 10}, False), (40, {}, False)],
)
def test_a_default_limit_that_cuts_hypotheses_warns(default: int | None, args: Any, warns: bool) -> None:
    long = [*range(FIRST_WORD, FIRST_WORD + 6)] * 5 + [EOS]
    trainer = make_trainer([item | {"labels": long} for item in make_items()], args=args)
    config = trainer.model.generation_config
    config.max_new_tokens, config.max_length = None, default
    config.forced_eos_token_id = EOS  # at the limit
    if not warns:
        trainer.evaluate()
        return
    message = r"^generate stopped at its limit, after \d+ new tokens, but a reference has 31: set gen_kwargs"
    with pytest.warns(UserWarning, match=message):
        trainer.evaluate()


def test_a_trainer_that_exists_gets_the_mixin() -> None:
    trainer = make_trainer()
    trainer.__class__ = type(trainer).__bases__[1]  # without the mixin
    assert "eval_bleu" not in trainer.evaluate()
    kind = type(trainer)
    assert not issubclass(kind, EvaluatorMixin)
    for wrong, message in (
        ({"evaluator": "no"}, "'evaluator' must be an Evaluator"),
        ({"evaluator": Evaluator(), "generate": {}}, "EvaluatorMixin has no attribute 'generate'"),
    ):
        with pytest.raises(TypeError, match=f"^{message}"):
            add_evaluator(trainer, **wrong)
        assert type(trainer) is kind
    add_evaluator(trainer, Evaluator(CorpusBLEU()), gen_kwargs={"num_beams": 2, "max_new_tokens": 9})
    expected = expected_score(num_beams=2, max_new_tokens=9)
    assert trainer.evaluate()["eval_bleu"] == pytest.approx(expected, abs=1e-12)
    assert isinstance(trainer, kind)
    assert type(trainer).__name__ == kind.__name__
    with pytest.raises(TypeError, match=r"^Seq2SeqTrainer has an EvaluatorMixin already: set trainer.evaluator"):
        add_evaluator(trainer, Evaluator())


def test_split_finds_references_and_complete_generates_instead_of_the_trainer() -> None:
    def split(self: Any, inputs: Any) -> Prompts:
        prompts = EvaluatorMixin.split(self, inputs)
        assert prompts is not None
        lines = self.processing_class.batch_decode(inputs["labels"].clamp(min=PAD), skip_special_tokens=True)
        return prompts._replace(target=[[line, "word3 word4"] for line in lines], group=["news"] * len(lines))

    def complete(self: Any, prompts: Prompts) -> list[str]:
        assert prompts.inputs.keys() == {"input_ids", "attention_mask"}
        ids = EvaluatorMixin.complete(self, prompts)
        return [f"{text} word3" for text in self.processing_class.batch_decode(ids, skip_special_tokens=True)]

    scores = make_trainer(split=split, complete=complete).evaluate(num_beams=2)
    hypotheses = [to_text([*complete_alone(make_model(), item["input_ids"], num_beams=2), 3]) for item in make_items()]
    references = [[to_text(item["labels"]) for item in make_items()], ["word3 word4"] * len(hypotheses)]
    expected = BLEU().corpus_score(hypotheses, references).score / 100
    assert scores["eval_bleu_news"] == pytest.approx(expected, abs=1e-12)
    assert scores["eval_loss"] > 0
