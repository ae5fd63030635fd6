"""The callback's intervals and comparisons, in real Trainers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from pytorch_lightning.loggers import TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.util import tensor_util
from torch.utils.data import DataLoader

from lightning_bleu import BLEUCallback, BLEUScore, CorpusBLEU, paired_bootstrap
from tests.test_callback import Items, close, make_model, make_trainer, validate_in_processes

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*isinstance\\(treespec, LeafSpec\\)"),
    pytest.mark.filterwarnings("ignore:.*[Tt]ensorboard.*"),
    pytest.mark.filterwarnings("ignore:.*Using `DistributedSampler` with the dataloaders"),
]

SENTENCES = torch.randint(3, 50, (60, 12), generator=torch.Generator().manual_seed(0))
EPOCHS = [0.6, 0.75, 0.755, 0.76, 0.765, 0.77, 0.775, 0.78, 0.785]
"""The share of right words in each: one gain that is clear, and many that could be chance."""


def translate(sentences: torch.Tensor, epoch: int) -> torch.Tensor:
    luck = torch.rand(sentences.shape, generator=torch.Generator().manual_seed(epoch + len(sentences)))
    return torch.where(luck < EPOCHS[epoch], sentences, 99)


def step(batch: torch.Tensor, epoch: int) -> Any:
    return translate(batch, epoch), batch


def counted(epoch: int, sentences: torch.Tensor = SENTENCES) -> CorpusBLEU:
    metric = CorpusBLEU(keep_sentences=True)
    for batch in sentences.split(7):
        metric.update(translate(batch, epoch), batch)
    return metric


def corpus_score(bleu: BLEUCallback) -> float:
    """The score of the best epoch that a callback remembers."""
    statistics = bleu.state_dict()["best"]["val_bleu"].long().sum(0)
    return BLEUScore.from_statistics(statistics, bleu.metric.settings, "").bleu


class Record(pl.Callback):
    """What was logged in each epoch."""

    def __init__(self) -> None:
        self.logged: list[dict[str, float]] = []

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not trainer.sanity_checking:
            self.logged.append({key: value.item() for key, value in trainer.callback_metrics.items()})

    def column(self, name: str) -> list[float]:
        return [values[name] for values in self.logged]


def fit(tmp_path: Path, *callbacks: Any, epochs: int = len(EPOCHS), **options: Any) -> Record:
    record = Record()
    resumed = options.pop("ckpt_path", None)
    trainer = make_trainer(tmp_path, *callbacks, record, max_epochs=epochs, **options)
    loader = DataLoader(SENTENCES, batch_size=7)
    trainer.fit(make_model(result=step), loader, loader, ckpt_path=resumed)
    return record


def test_the_interval_is_logged(tmp_path: Path) -> None:
    bleu = BLEUCallback(confidence=0.9)
    record = fit(tmp_path, bleu, epochs=3)
    for epoch, logged in enumerate(record.logged):
        interval = counted(epoch).interval(0.9)
        assert (logged["val_bleu/low"], logged["val_bleu/high"]) == (close(interval.low), close(interval.high))
        assert logged["val_bleu/low"] < logged["val_bleu"] < logged["val_bleu/high"]
    assert bleu.intervals == {"val_bleu": counted(2).interval(0.9)}
    assert not bleu.metric.keep_sentences
    assert "val_bleu/p_value" not in record.logged[0]


def test_each_epoch_is_compared_with_the_best_before(tmp_path: Path) -> None:
    bleu = BLEUCallback(compare_to_best=True)
    record = fit(tmp_path, bleu)
    metrics = [counted(epoch) for epoch in range(len(EPOCHS))]
    scores = [metric.compute().item() for metric in metrics]
    best, expected = 0, [1.0]
    for epoch in range(1, len(EPOCHS)):
        expected.append(paired_bootstrap(metrics[epoch], metrics[best]).p_value)
        best = max(best, epoch, key=lambda e: scores[e])
    assert record.column("val_bleu/p_value") == [close(value) for value in expected]
    assert record.column("val_bleu/best") == [close(max(scores[: epoch + 1])) for epoch in range(len(EPOCHS))]
    assert bleu.comparisons["val_bleu"].p_value == expected[-1]
    assert min(expected) < 0.05 < sorted(expected)[-2]


def test_only_significant_gains_make_a_new_best(tmp_path: Path) -> None:
    bleu = BLEUCallback(significance_level=0.05)
    plain = EarlyStopping("val_bleu", mode="max", patience=3)
    checkpoint = ModelCheckpoint(tmp_path, monitor="val_bleu/best", mode="max", filename="{epoch}")
    record = fit(tmp_path, bleu, plain, checkpoint)
    metrics = [counted(epoch) for epoch in range(len(EPOCHS))]
    best, expected, accepted = 0, [], [0]
    for epoch, metric in enumerate(metrics):
        test = paired_bootstrap(metric, metrics[best])
        if test.difference > 0 and test.p_value < 0.05:
            best = epoch
            accepted.append(epoch)
        expected.append(metrics[best].compute().item())
    assert record.column("val_bleu/best") == [close(value) for value in expected]
    assert accepted == [0, 1]
    assert len(record.logged) == len(EPOCHS)  # plain patience went on to the end
    assert Path(checkpoint.best_model_path).name == "epoch=1.ckpt"

    patience = EarlyStopping("val_bleu/best", mode="max", patience=3)
    stopped = fit(tmp_path, BLEUCallback(significance_level=0.05), patience)
    assert len(stopped.logged) == 5


@pytest.mark.filterwarnings("ignore:The dirpath has changed")
def test_a_resumed_run_is_compared_with_the_true_best(tmp_path: Path) -> None:
    options: dict[str, Any] = {"name": "score", "compare_to_best": True}
    whole = fit(tmp_path, BLEUCallback(**options), epochs=6)
    for number, (epochs, path) in enumerate([(4, None), (6, tmp_path / "0" / "last.ckpt")]):
        other = BLEUCallback(CorpusBLEU(max_order=2), compare_to_best=True)  # its best is another
        checkpoint = ModelCheckpoint(tmp_path / str(number), filename="last")
        record = fit(tmp_path, BLEUCallback(**options), other, checkpoint, epochs=epochs, ckpt_path=path)
        start = 4 * number
        for name in ("val_score/p_value", "val_score/best"):
            assert record.column(name) == whole.column(name)[start:epochs]
    state = torch.load(tmp_path / "1" / "last.ckpt", weights_only=True)["callbacks"]
    kept = [value["best"] for key, value in state.items() if key.startswith("BLEUCallback")]
    assert {key: best.shape for part in kept for key, best in part.items()} == {
        "val_score": (60, 10),
        "val_bleu": (60, 6),
    }
    assert kept[0]["val_score"].dtype == torch.int32


def test_the_sanity_check_validate_and_test_leave_the_best_alone(tmp_path: Path) -> None:
    bleu, record = BLEUCallback(confidence=0.95, compare_to_best=True), Record()
    trainer = make_trainer(tmp_path, bleu, record, max_epochs=1, num_sanity_val_steps=-1)
    loader = DataLoader(SENTENCES, batch_size=7)
    perfect = make_model(result=lambda batch, epoch: (batch, batch))
    trainer.fit(make_model(result=step), loader, loader)
    assert record.logged[0]["val_bleu/p_value"] == 1
    best = counted(0).compute().item()
    (validated,) = trainer.validate(perfect, loader, verbose=False)
    assert validated["val_bleu/p_value"] < 0.01
    assert validated["val_bleu/best"] == 1
    (tested,) = trainer.test(perfect, loader, verbose=False)
    assert {"test_bleu/low", "test_bleu/high"} < set(tested)
    assert not {"test_bleu/p_value", "test_bleu/best"} & set(tested)
    assert corpus_score(bleu) == best
    assert list(bleu.state_dict()["best"]) == ["val_bleu"]


def test_a_small_significance_level_can_be_met(tmp_path: Path) -> None:
    record = fit(tmp_path, BLEUCallback(significance_level=0.0005), epochs=2)
    assert record.column("val_bleu/best")[1] == record.column("val_bleu")[1]
    assert record.column("val_bleu/p_value")[1] < 0.0005


def test_the_best_is_scored_as_the_present_epoch_is(tmp_path: Path) -> None:
    first, second = BLEUCallback(compare_to_best=True), BLEUCallback(CorpusBLEU(percent=True), compare_to_best=True)
    fit(tmp_path, first, epochs=2)
    second.load_state_dict(first.state_dict())
    record = fit(tmp_path, second, epochs=1)
    assert record.column("val_bleu/best") == [pytest.approx(100 * counted(1).compute().item(), abs=1e-4)]


@pytest.mark.parametrize("sentences", [0, 1])
def test_keys_are_there_with_too_few_sentences(sentences: int, tmp_path: Path) -> None:
    bleu, record = BLEUCallback(confidence=0.95, significance_level=0.05), Record()
    stopping = EarlyStopping("val_bleu/best", mode="max", patience=1)
    trainer = make_trainer(tmp_path, bleu, record, stopping)
    loader = DataLoader(SENTENCES[:1])
    result = (lambda batch, epoch: (batch[:0], batch[:0])) if not sentences else lambda batch, epoch: (batch, batch)
    trainer.fit(make_model(result=result), loader, loader)
    for logged in record.logged:
        assert [logged[f"val_bleu/{name}"] for name in ("low", "high", "best")] == [logged["val_bleu"]] * 3
        assert logged["val_bleu/p_value"] == 1
    assert bleu.state_dict() == {}


def test_another_validation_set_begins_anew(tmp_path: Path) -> None:
    bleu = BLEUCallback(compare_to_best=True)
    fit(tmp_path, bleu, epochs=1)
    trainer = make_trainer(tmp_path, bleu, max_epochs=1)
    model = make_model(result=lambda batch, epoch: (batch.flip(1), batch))
    with pytest.warns(
        UserWarning, match=r"'val_bleu' had statistics of shape \(60, 10\), this one has \(59, 10\).*the first"
    ):
        trainer.fit(model, DataLoader(SENTENCES), DataLoader(SENTENCES[1:]))
    assert trainer.callback_metrics["val_bleu/p_value"] == 1
    assert corpus_score(bleu) < 0.1


def test_tensorboard_draws_the_intervals(tmp_path: Path) -> None:
    callbacks = [
        BLEUCallback(confidence=0.95, dataloader_names=["news", "talks"]),
        BLEUCallback(name="plain"),
        BLEUCallback(CorpusBLEU(max_order=2), name="bleu2", confidence=0.9),
    ]
    logger = TensorBoardLogger(tmp_path, name="run", version="")
    trainer = make_trainer(tmp_path, *callbacks, logger=logger, max_epochs=2)
    loader = DataLoader(SENTENCES, batch_size=7)
    trainer.fit(make_model(result=step), loader, [loader, loader])
    events = EventAccumulator(str(tmp_path / "run"))
    events.Reload()
    (event,) = events.Tensors("custom_scalars__config__")  # TensorBoard knows one for a run
    layout = layout_pb2.Layout.FromString(tensor_util.make_ndarray(event.tensor_proto).item())
    charts = [chart for category in layout.category for chart in category.chart]
    keys = ["val_bleu/news", "val_bleu/talks", "val_bleu2/dataloader_idx_0", "val_bleu2/dataloader_idx_1"]
    assert [chart.title for chart in charts] == keys
    for key, chart in zip(keys, charts):
        (series,) = chart.margin.series
        assert (series.value, series.lower, series.upper) == (key, f"{key}/low", f"{key}/high")
        assert {series.value, series.lower, series.upper} < set(events.Tags()["scalars"])
    assert {f"{key}/resamples" for key in keys} < set(events.Tags()["images"])


def uneven(batch: torch.Tensor, epoch: int) -> Any:
    """Sentences that are translated more or less well."""
    right = torch.arange(batch.shape[1]) < batch[:, :1]
    return torch.where(right, batch, 99), batch


@pytest.mark.parametrize("processes", [2, 3])
def test_processes_agree_with_one(processes: int, tmp_path: Path) -> None:
    loaders = {
        "plain": DataLoader(Items(37), batch_size=4),
        "unbatched": DataLoader([Items(5).sentences, Items(9).sentences, Items(3).sentences], batch_size=None),
    }
    options = {"confidence": 0.95, "compare_to_best": True}
    alone = BLEUCallback(dataloader_names=list(loaders), **options)  # type: ignore[arg-type]
    trainer = make_trainer(tmp_path, alone)
    trainer.validate(make_model(result=uneven), list(loaders.values()), verbose=False)
    expected = {key: value.item() for key, value in trainer.callback_metrics.items()}
    assert expected["val_bleu/plain/low"] < expected["val_bleu/plain"] < expected["val_bleu/plain/high"]
    for content in validate_in_processes(processes, loaders, tmp_path, options=options, result=uneven):
        assert content["logged"] == expected
        assert content["intervals"] == alone.intervals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence": 95}, "'confidence' must lie between 0 and 1, got 95"),
        ({"confidence": 0}, "'confidence' must lie between 0 and 1, got 0"),
        ({"significance_level": 1}, "'significance_level' must lie between 0 and 1, got 1"),
    ],
)
def test_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BLEUCallback(**options)
