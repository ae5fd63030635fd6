"""Everything that a validation does, in any training loop: scores, comparisons, samples, figures, charts, and files.

A loop of your own calls an :class:`Evaluator` like this::

    evaluator = Evaluator(CorpusBLEU(percent=True), loggers=[SummaryWriter("runs/a")])
    evaluator.start(loader)
    for sources, references in loader:
        evaluator.update(translate(sources), references, source=sources)
    results = evaluator.finish(step)

:class:`BLEUCallback` does the same in the Trainer of Lightning, and :class:`EvaluatorMixin` in those of Transformers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from sacrebleu.metrics.base import Metric as SacreMetric
from torchmetrics import Metric

from lightning_bleu.display.results import Results
from lightning_bleu.evaluation.collector import Output
from lightning_bleu.evaluation.functions import FunctionMetric
from lightning_bleu.evaluation.loaders import CALL
from lightning_bleu.evaluation.names import STEPS, name_loaders
from lightning_bleu.evaluation.opponents import OpponentKind
from lightning_bleu.evaluation.options import OptionAttributes, Options, check_single, check_unknown
from lightning_bleu.evaluation.task_metrics import TokenCount
from lightning_bleu.messages import check_choice
from lightning_bleu.run import Run, Validation
from lightning_bleu.settings.settings import Decoder, check_integer

if TYPE_CHECKING:
    from typing_extensions import Never

# LightningCLI tries the members of a union in order, and takes a dict for a callable if that comes first.
MetricsByName: TypeAlias = Mapping[
    str,
    Metric
    | SacreMetric
    | FunctionMetric
    | TokenCount
    | Mapping[str, Metric | SacreMetric | FunctionMetric | TokenCount | Callable[..., Any] | None]
    | Callable[..., Any],
]
"""Metrics by name, or by name and by loader or group."""


class EvaluatorOptions(TypedDict, total=False):
    """The options of :class:`Evaluator`, for classes that pass them on."""

    decoder: Decoder | None
    log_name: str | Mapping[str, str]
    separator: str | None
    parts: bool | Sequence[str]
    samples: int
    translations: bool | str | os.PathLike[str] | None
    keep_translations: int | None
    confidence: float | None
    compare_to: OpponentKind | None
    significance_level: float | None
    loggers: Sequence[Any]


class Evaluator(OptionAttributes):
    """Scores validations, compares them with an earlier one, shows them in loggers, and writes them to files.

    Example:
        >>> from lightning_bleu import CorpusBLEU, CorpusCHRF, Evaluator
        >>> metrics = {"bleu": CorpusBLEU(percent=True), "chrf": CorpusCHRF(percent=True)}
        >>> evaluator = Evaluator(metrics, compare_to="best")
        >>> evaluator.start()
        >>> evaluator.update(["the cat sat on the mat"], ["the cat sat on a mat"])
        >>> evaluator.update(["it is"], ["it is"])
        >>> results = evaluator.finish(step=500)
        >>> {name: round(result.score, 1) for name, result in results.items()}
        {'val_bleu': 55.8, 'val_chrf': 73.9}

    Args:
        metrics: the metrics by name. ``{"bleu": CorpusBLEU(), "chrf": CorpusCHRF()}`` logs ``val_bleu`` and
            ``val_chrf``. A metric may be

            - one of this package: :class:`CorpusBLEU`, :class:`CorpusCHRF`, :class:`WER`, :class:`CER`, :class:`TER`,
              :class:`ROUGE`, :class:`ExactMatch`, or :class:`TokenCount`;
            - a function ``comet(hypotheses, references, sources)`` that takes a list of strings, a list of references
              for each, and, with a parameter ``sources`` or a third one without a default, a list of strings. It
              returns one number per sentence: a list, an array, or a tensor of shape ``(sentences,)``, whose mean is
              the score; or one pair, of shape ``(sentences, 2)``, such as errors and words: the score is the sum of
              the first numbers over the sum of the second. (A sentence with 0/0 gets the better of 0 and 1; one with
              x/0, infinity. If both sums are 0, nothing is logged.) A dict of these has several scores, which are
              logged as ``val_comet/NAME``, each with its own interval and comparison. Nothing is logged if it returns
              None. Each process calls it once per validation, with its own sentences;
            - a :class:`FunctionMetric` of such a function, if lower numbers are better, if they are shares to log in
              percent, or if the function needs all sentences at once;
            - one of torchmetrics that takes a list of strings, and a reference or a list of references for each; or one
              of sacreBLEU. It scores the text of all sentences at the end, in process 0, and has no interval and no
              comparison.

            Instead of a metric, a dict of a metric for each loader or group:
            ``{"bleu": {"de": CorpusBLEU(), "zh": CorpusBLEU(tokenizer="zh")}}``. None for one that has no such score:
            the mean is that of the others. A loader with None under every name is ignored, whatever its steps return.
            Those of this package may stand alone, with the names ``bleu``, ``chrf``, ``wer``, ``cer``, ``ter``,
            ``rouge``, and ``exact_match``; ``CorpusBLEU()`` when None.
        decoder: decodes ids for all metrics that set no decoder; see :class:`CorpusBLEU`. All metrics of a loader read
            ids in the same way: those that set nothing take the settings of the others.
        log_name: the logged names, with placeholders for the stage and for the name of the metric:
            ``"{stage}/{metric}"`` logs ``val/bleu`` and ``test/bleu``. Or a dict of the names of each stage:
            ``{"val": "valid/{metric}", "test": "test/{metric}"}``.
        separator: what joins the pieces of logged names, any ASCII punctuation except braces: ``"_"`` logs
            ``val_bleu_low`` and ``val_bleu_NAME``. None is ``"/"``, and in :class:`EvaluatorMixin` ``"_"``. Folders and
            the names of samples and figures stay the same.
        parts: whether to log the components of the scores, or a list of the names of those to log. With BLEU-N, these
            can also be ``"bleu_1"`` to ``"bleu_N"``, the scores of ``CorpusBLEU(max_order=n)``.
        samples: show the first N and the worst N sentences of each validation, in loggers and in `results`; there also
            the N sentences that improved most, and those that got worse most, with `compare_to`. 0 for no samples, no
            histogram, and no figures; no texts are kept then just to show them. The first metric that scores sentences
            ranks them, one of this package or a function. Sentences with the best possible score are not among the
            worst.
        translations: a folder, or, with a Trainer, True for the folder ``translations`` of its run. Each validation and
            test writes one sentence per line, in the order of the dataset: hypotheses to
            ``FOLDER/val/step-0000500.txt``, references to ``ref.txt`` (or ``ref-1.txt``, ...), sources to ``src.txt``.
            The scores of each sentence go to ``step-0000500.tsv``, with a column per metric that scores sentences. Each
            logged score, with its signature, is a line of ``FOLDER/scores.jsonl``. Nothing is overwritten: other
            translations of a step go to ``step-0000500-2.txt``. With several loaders or groups, each has a folder
            of its own below ``val``. Each training run needs a folder of its own. Unless the sentences have an
            ``index``, the loader must not shuffle.
        keep_translations: how many of the latest files of hypotheses to keep in each folder; None for all.
        confidence: log a confidence interval as ``val_bleu/low`` and ``val_bleu/high``; 0.95 for a 95% interval.
        compare_to: ``"best"`` compares each validation with the best one so far, on the same sentences; ``"first"``,
            with the first one that this object sees, such as one before the training. ``val_bleu/difference`` is the
            score minus that of the other validation, so for an error rate, negative is better.
            ``val_bleu/difference_low`` and ``val_bleu/difference_high`` are the ends of its interval, at the level
            `confidence` or else 95%. ``val_bleu/p_value`` is the p-value of :func:`lightning_bleu.paired_bootstrap`,
            which is also small when the validation is clearly worse. ``val_bleu/best`` is the best score so far,
            including this validation; ``val_bleu/first``, the first one. The first validation is compared with itself.
            With several loaders or groups, the best validation is that with the best mean, the means are compared, and
            ``val_bleu/NAME/best`` is the score of NAME, or of ``all``, in the best validation; a validation without one
            of them is not compared. Tests are not compared. :meth:`state_dict` has the best or the first validation, so
            a resumed run is compared with it. Use a new evaluator for each training run.
        significance_level: only an improvement with a smaller p-value becomes the new best. Monitor ``val_bleu/best``
            to stop early or to keep checkpoints, so that noise rarely prolongs training or replaces a checkpoint.
            Implies ``compare_to="best"``.
        loggers: where to log and show validations: a ``SummaryWriter`` of TensorBoard, a run of W&B, or any logger of
            Lightning. Those of process 0 are used. Those of a Trainer need not be listed.

    Attributes:
        results: the last result of each score by its logged name, such as ``results["val_bleu"]``: a
            :class:`~lightning_bleu.Result` with ``score``, ``parts``, ``report``, ``interval``, ``comparison``,
            ``best``, and ``first``. They are a :class:`~lightning_bleu.Results`: ``print`` them, save them as a page,
            or read ``results.samples["val"].worst``.

    Raises:
        TypeError: for options of the wrong type.
        ValueError: for options that are out of range, and for parts that no metric has; when a validation begins, if
            metrics read ids differently, or if a logger cannot take the names; and during a validation, if a loader or
            a group has no metric.

    Notes:
        Call :meth:`start` before a validation, :meth:`update` with each batch, and :meth:`finish` after the last one,
        in a training loop of your own, in Lightning Fabric, or with accelerate. For the Trainer of Lightning, use
        :class:`BLEUCallback`; for those of Transformers, :class:`EvaluatorMixin`.

        The score of a validation is logged as ``val_bleu``, or as ``test_bleu`` if it is a test. Its components are
        logged as ``val_bleu/precision_1`` and so on, ``val_bleu/brevity_penalty``, ``val_bleu/length_ratio``,
        ``val_bleu/hypothesis_length``, and ``val_bleu/reference_length``. Without sentences, nothing is logged.

        With several loaders or groups, each score is logged as ``val_bleu/NAME``, its components below that name, and
        ``val_bleu`` is the unweighted mean of the scores. With groups, ``val_bleu/all`` is the score of all sentences,
        if the metric scores all groups alike; it is not in the mean. Groups of several loaders are
        ``val_bleu/LOADER/GROUP`` and ``val_bleu/LOADER/all``. With more than 20 loaders or groups, only their scores
        are logged and shown, without components and samples.

        With several processes, every sentence counts exactly once, even if the sampler repeats some to give all
        processes the same number. Scores, samples, and files are those of a single process. (See
        :func:`lightning_bleu.distributed_index` for what this requires.)

        TensorBoard also gets sample translations with marked differences as ``val_samples`` and ``val_worst``, two
        figures, a histogram of sentence scores, and charts on the page of custom scalars. W&B, MLflow, Comet, and
        loggers with a method ``log_table`` or ``log_text`` and ``log_image`` like those of W&B get a table of the
        samples and the figures.
    """

    def __init__(
        self,
        metrics: Metric | SacreMetric | MetricsByName | Callable[..., Any] | None = None,
        *more_metrics: Never,
        decoder: Decoder | None = None,
        log_name: str | Mapping[str, str] = "{stage}_{metric}",
        separator: str | None = None,
        parts: bool | Sequence[str] = True,
        samples: int = 8,
        translations: bool | str | os.PathLike[str] | None = None,
        keep_translations: int | None = None,
        confidence: float | None = None,
        compare_to: OpponentKind | None = None,
        significance_level: float | None = None,
        loggers: Sequence[Any] = (),
        **unknown: Never,
    ) -> None:
        check_single(metrics, more_metrics, type(self).__name__)
        check_unknown(unknown, EvaluatorOptions.__annotations__, type(self).__name__)
        options = Options(
            metrics=metrics,
            decoder=decoder,
            log_name=log_name,
            separator=separator,
            parts=parts,
            samples=samples,
            translations=translations,
            keep_translations=keep_translations,
            confidence=confidence,
            compare_to=compare_to,
            significance_level=significance_level,
            loggers=loggers,
        )
        super().__init__(options)
        self._run = Run(options)
        self._validation: Validation | None = None

    @property
    def results(self) -> Results:
        """The last result of each score by its logged name."""
        return self._run.results

    def start(self, loaders: Any = None, *, stage: str = "val") -> None:
        """Start a validation or a test. One that was not finished is discarded. Collective.

        Args:
            loaders: the loader, or a list or dict of loaders; the keys of a dict are their names. Several processes
                derive the positions of sentences from the samplers of the loaders, unless sentences have an ``index``.
            stage: ``"val"`` or ``"test"``.

        Raises:
            ValueError: if metrics read ids differently, if a logger cannot take the names, or if there is no folder for
                translations.
        """
        check_choice("stage", stage, STEPS)
        several = loaders if isinstance(loaders, Mapping | list | tuple) else [loaders]
        dataloaders = list(several.values()) if isinstance(several, Mapping) else list(several)
        _check_loaders(dataloaders)
        self._validation = None
        if self._options.uses_folder_of_run:
            raise ValueError("translations=True needs the folder of a Trainer's run: pass translations='FOLDER'")
        self._run.open_record(self._options.folder)
        names = name_loaders(stage, several, len(dataloaders))
        self._validation = self._run.begin(stage, names, dataloaders, CALL)

    def update(
        self,
        preds: Any,
        target: Any,
        *,
        source: Any = None,
        sample_mask: Any = None,
        index: Any = None,
        group: Any = None,
        row: Any = None,
        batch_idx: int | None = None,
        dataloader_idx: int = 0,
    ) -> None:
        """Count the sentences of a batch.

        Args:
            preds, target, sample_mask, index: see :meth:`CorpusBLEU.update`. If `target` is None, the hypotheses have
                no references: they are shown and written, and only metrics that need none score them. Either all
                batches of a loader have references, or none has.
            source: the source sentences, as strings, or as ids, which are decoded like the hypotheses.
            group: a label per sentence, such as its language, for a score per group; any name but ``"all"``.
            row: the row of the batch of each sentence, from 0, if a row can have several sentences or none, such as a
                chat with several answers. `sample_mask` and `index` then have one value per row.
            batch_idx: the number of the batch in its loader, if some batches are skipped; counted when None.
            dataloader_idx: the number of its loader.

        Raises:
            RuntimeError: before :meth:`start`.
            IndexError: if there is no such loader.
            TypeError, ValueError: see :meth:`CorpusBLEU.update`.
        """
        collector = self._started().collector
        dataloader_idx = check_integer("dataloader_idx", dataloader_idx)
        count = len(collector.loaders)
        if dataloader_idx not in range(count):
            raise IndexError(f"start() got {count} loaders, so there is none with dataloader_idx={dataloader_idx!r}")
        output = Output(preds, target, source, sample_mask, index, group, row)
        collector.update(output, batch_idx, dataloader_idx)

    def finish(self, step: int, epoch: float | None = None) -> Results:
        """Score the sentences of all processes, and log, show, and write the results. Collective.

        Args:
            step: the number of training steps so far.
            epoch: the epoch.

        Returns:
            the results of this validation by logged name; see `results`.

        Raises:
            RuntimeError: before :meth:`start`.
            TypeError, ValueError: if the step is not an integer of 0 or more.
        """
        step = check_integer("step", step, at_least=0)
        validation = self._started()
        self._validation = None  # frees the memory
        finished = self._run.score(validation)
        return self._run.publish(finished, step, None if epoch is None else float(epoch))

    def state_dict(self) -> dict[str, Any]:
        """The best or the first validations, to save in a checkpoint; empty if there are none.

        ``{"format": 1, "best": {logged name: ...}}``, or the same with ``"first"``.
        """
        return self._run.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the validations that :meth:`state_dict` saved.

        With ``compare_to="first"``, scores that it does not have keep their first validation.
        """
        self._run.load_state_dict(state_dict)

    def _started(self) -> Validation:
        if self._validation is None:
            raise RuntimeError(
                "no validation was started: call start(loader) before update and finish, in all processes"
            )
        return self._validation


def _check_loaders(dataloaders: Sequence[Any]) -> None:
    """Raise an error unless there are loaders, none of which is a string."""
    if not dataloaders:
        raise ValueError("start() got no loaders: pass the loader of the validation, or nothing if there is none")
    for dataloader in dataloaders:
        if isinstance(dataloader, str):
            raise TypeError(f"start() got the loader {dataloader!r}: pass loaders first, and the stage as stage='test'")
