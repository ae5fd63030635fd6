"""The metric: n-gram statistics as state, synced and reset by torchmetrics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from lightning_bleu.counting.kept import IDENTITY_COLUMNS, KeptSentences, append_rows, pack_rows, read_rows
from lightning_bleu.counting.rows import count_rows
from lightning_bleu.messages import WarnOnce
from lightning_bleu.processes import gather_state
from lightning_bleu.reading.batch import Batch, read_batch
from lightning_bleu.reading.forms import Hypotheses, Index, References, SampleMask
from lightning_bleu.reading.recognize import read_index, read_sample_mask
from lightning_bleu.scoring.score import BLEUScore, Statistics, score
from lightning_bleu.scoring.signature import InputCounts, signature
from lightning_bleu.settings.conventions import Convention
from lightning_bleu.settings.settings import Decoder, Options, Settings, check_bool, describe_options, unknown_options
from lightning_bleu.settings.tokenizers import Tokenizer
from lightning_bleu.significance import Interval, bootstrap_interval
from lightning_bleu.torchmetrics_fixes import AdditiveMetric, ordinary_tensors


class CorpusBLEU(AdditiveMetric):
    """Corpus BLEU of all sentences since the last reset, regardless of batching, order, device, and process.

    By default the score equals sacreBLEU's (Post 2018, https://aclanthology.org/W18-6319). Set ``convention`` to match
    another program; ``"papineni"`` is BLEU without smoothing, as defined by Papineni et al. (2002,
    https://aclanthology.org/P02-1040).

    Args:
        max_order: the longest n-gram.
        weights: one weight per order; uniform when None.
        convention: a name from :data:`lightning_bleu.CONVENTIONS`, or a :class:`lightning_bleu.Convention`. It sets the
            defaults of the next six options; any of them that is not None overrides it.
        tokenizer: for strings. The name of one of sacreBLEU's tokenizers (``"13a"``, ``"intl"``, ``"zh"``, ``"char"``,
            ``"none"``, ``"ja-mecab"``, ``"ko-mecab"``, ``"flores200"``, ...), or a callable that takes a line and
            returns its tokens. It must be deterministic: the same line must always give the same tokens.
        lowercase: for strings: lowercase before tokenizing.
        smoothing: how to treat orders without a match, a name from
            :data:`lightning_bleu.settings.smoothing.SMOOTHINGS`.
        smoothing_value: the parameter of the smoothing, if it takes one; the smoothing's own default when None.
        reference_length: ``"closest"`` (the shorter one on a tie), ``"closest-first"`` (the first one on a tie), or
            ``"shortest"``.
        effective_order: skip the orders for which all hypotheses are too short.
        pad_id: for ids: the padding id; removed.
        bos_id: for ids: the id that begins a sentence; removed.
        eos_id: for ids: the id that ends a sentence; removed together with everything after it. If it is also the
            ``bos_id`` or the ``pad_id``, it is skipped before the first token and ends the sentence only after that.
            Some models (BART, M2M100) also generate it as the first id: pass ``preds[:, 1:]``.
        unk_id: for ids: the unknown word. In a reference it matches nothing but still counts toward the length (as in
            fairseq).
        ignore_ids: for ids: other ids to remove. The default, -100, is the label that losses ignore.
        decoder: decodes ids to strings, which are then tokenized and scored: an object with ``batch_decode`` (a Hugging
            Face tokenizer; special tokens are skipped), or a callable that takes a list of lists of ids and returns a
            list of strings. The special ids above are removed first; if they are not set, a callable also receives
            padding and markers.
        percent: score in 0..100, like sacreBLEU, rather than in 0..1, like torchmetrics.
        keep_sentences: keep the statistics of every sentence, for intervals, paired tests, and an `index`. This takes
            56 bytes per sentence at the default ``max_order`` (4 bytes for each of the ``2 * max_order + 2``
            statistics, plus 16), and a sync gathers all sentences on every device.
        kwargs: passed to :class:`torchmetrics.Metric`.

    Attributes:
        settings: the validated options.
        last_batch: the sentences of the last batch; None before the first batch.
        batch_statistics: the statistics of each sentence of the last batch (0 for masked sentences), shape
            ``(sentences, 2 * max_order + 2)``, on the CPU; None before the first batch.

    Raises:
        TypeError: for an option of the wrong type, or an unknown option.
        ValueError: for an option that is out of range or not one of the choices; the message lists the choices.

    Example:
        >>> bleu = CorpusBLEU()
        >>> bleu.update(["the cat is on the mat"], [["the cat sat on the mat", "a cat is on the mat"]])
        >>> bleu.update(["hello there"], ["hello there, world"])
        >>> bleu.compute()
        tensor(0.6549, dtype=torch.float64)
        >>> print(bleu.report())
        BLEU = 65.49 100.0/100.0/75.0/66.7 (BP = 0.779 ratio = 0.800 hyp_len = 8 ref_len = 10)

    Example (ids, padded with 0):
        >>> bleu = CorpusBLEU(max_order=2, pad_id=0)
        >>> bleu(torch.tensor([[5, 6, 7, 0]]), torch.tensor([[5, 6, 8, 9]]))
        tensor(0.4137, dtype=torch.float64)
    """

    is_differentiable: bool = False
    higher_is_better: bool = True
    plot_lower_bound: float = 0.0

    def __init__(
        self,
        max_order: int = 4,
        weights: Sequence[float] | None = None,
        *,
        convention: str | Convention = "sacrebleu",
        tokenizer: Tokenizer | None = None,
        lowercase: bool | None = None,
        smoothing: str | None = None,
        smoothing_value: float | None = None,
        reference_length: str | None = None,
        effective_order: bool | None = None,
        pad_id: int | None = None,
        bos_id: int | None = None,
        eos_id: int | None = None,
        unk_id: int | None = None,
        ignore_ids: int | Iterable[int] | None = (-100,),
        decoder: Decoder | None = None,
        percent: bool = False,
        keep_sentences: bool = False,
        **kwargs: Any,
    ) -> None:
        options = {name: value for name, value in locals().items() if name in Options.__annotations__}
        settings = Settings.from_options(**cast(Options, options)).for_corpus()
        check_bool("keep_sentences", keep_sentences)
        try:
            super().__init__(settings, 2 * settings.max_order + 2, **{"dist_sync_fn": gather_state} | kwargs)
        except ValueError as error:
            # torchmetrics lists unknown arguments in backquotes.
            unknown = re.findall(r"`(\w+)`", str(error)) if "Unexpected keyword" in str(error) else []
            if not unknown:
                raise
            raise unknown_options(unknown, [*options, "keep_sentences"]) from None
        self.settings = settings
        self.last_batch: Batch | None = None
        self.batch_statistics: Tensor | None = None
        self._given_options = describe_options(options, defaults_of=CorpusBLEU)
        self._warn_once = WarnOnce()
        self.keep_sentences = False
        # The sums of the statistics, then the InputCounts. A single vector, so that a sync takes one collective.
        self.totals: Tensor  # declared here, because torch.jit.script cannot read declarations in the class
        size = 2 * settings.max_order + 2 + len(InputCounts())
        self.add_state("totals", torch.zeros(size, dtype=torch.int64), dist_reduce_fx="sum")
        if keep_sentences:
            self.start_keeping_sentences()

    def start_keeping_sentences(self) -> None:
        """Keep the statistics of every sentence from now on, as with ``keep_sentences=True``.

        Raises:
            RuntimeError: if sentences have already been counted: call :meth:`reset` first.
        """
        if self.keep_sentences:
            return
        if self._update_count:
            raise RuntimeError(
                "this metric has already counted sentences, whose statistics it did not keep: call reset() first"
            )
        self.keep_sentences = True
        persistent = self._persistent["totals"]
        self.remove_state("totals")
        self.sentences: list[Tensor]  # packed rows
        self.add_state("sentences", [], dist_reduce_fx="cat", persistent=persistent)

    def update(
        self,
        preds: Hypotheses,
        target: References,
        sample_mask: SampleMask | None = None,
        index: Index | None = None,
    ) -> None:
        """Count a batch of sentences.

        Inputs are copied and validated immediately; you may modify them afterwards. Counting happens on the CPU: ids on
        an accelerator are copied there once, which waits for the model that produces them.

        Args:
            preds: the hypotheses, as

                - strings: ``list[str]``;
                - tokens: ``list[list[str]]`` or ``list[list[int]]``;
                - ids: a tensor of any integer type and shape ``(sentences, tokens)``, or a list of 1-D tensors;
                - logits: a floating-point tensor of shape ``(sentences, tokens, vocabulary)``; the argmax is scored.
                  Set ``eos_id``, or everything after the end of a sentence counts too. Logits from teacher forcing
                  overestimate BLEU, because the model saw the correct previous tokens.

                Other iterables are read once, into a list.

            target: the references, of the same kind as the hypotheses (with ``decoder``, you can mix strings and ids):
                one reference per hypothesis, or a list of references per hypothesis (any number), or ids of shape
                ``(sentences, references, tokens)``. In such a tensor, a reference of padding alone is ignored if its
                sentence has others; in lists, an empty reference counts as one of length 0.
            sample_mask: booleans of shape ``(sentences,)``; sentences marked False are not counted. Use shape ``(1,)``
                if the whole batch is a single dataset item (a loader with ``batch_size=None``).
            index: the position of each sentence in the dataset, integers of shape ``(sentences,)``, from 0; gaps are
                fine. A position counts once, in however many batches and processes it appears (the first one counts, on
                the first process), and intervals, tests, and :attr:`sentence_statistics` are in the order of the
                positions. Requires ``keep_sentences=True``. Pass it with every batch, or with none.

        Raises:
            TypeError: for an unsupported input type, or if `preds` and `target` are of different kinds.
            ValueError: for different numbers of sentences, an unsupported shape, a sentence without a reference, or an
                `index` without ``keep_sentences=True`` or with some of the batches only. The state does not change
                after an error. An `index` that gives different sentences the same position is an error when the score
                is computed.
        """
        if index is not None and not self.keep_sentences:
            raise ValueError("'index' requires a metric that keeps sentences: CorpusBLEU(keep_sentences=True)")
        batch = read_batch(preds, target, self.settings)
        mask = None if sample_mask is None else read_sample_mask(sample_mask, batch.sentence_count)
        positions = None if index is None else read_index(index, batch.sentence_count)
        rows = count_rows(batch, self.settings)
        if mask is not None:
            rows *= mask[:, None]
        with ordinary_tensors():
            states: dict[str, Any] = {}
            if self.keep_sentences:
                packed = torch.from_numpy(pack_rows(batch, rows, mask, positions))
                states["sentences"] = append_rows(
                    self.sentences, packed.to("cpu" if self.compute_on_cpu else self.device)
                )
            else:
                sums = np.concatenate([rows.sum(0), InputCounts.of(batch, mask)])
                states["totals"] = self.totals + torch.from_numpy(sums).to(self.totals.device)
            for message in batch.warnings:
                self._warn_once(message)
            self._set(**states, last_batch=batch, batch_statistics=torch.from_numpy(rows))

    def compute(self) -> Tensor:
        """The score, a float64 scalar (float32 on devices without float64); 0 if there are no sentences."""
        return score(self.statistics, self.settings).bleu * self.settings.scale

    def report(self) -> BLEUScore:
        """The score and its components as plain numbers, synced like :meth:`compute`."""
        with self.sync_context(should_sync=self._to_sync):
            totals = self._read_totals().cpu()
        statistics, inputs = totals[: self._columns], InputCounts(*totals[self._columns :].tolist())
        report = BLEUScore.from_statistics(statistics, self.settings, signature(self.settings, inputs))
        from_ids = inputs.ids or self.settings.decoder is not None
        is_empty = report.reference_length and not report.hypothesis_length
        if from_ids and is_empty and self.settings.eos_id is not None:
            self._warn_once(
                "All hypotheses are empty. If they begin with 'eos_id', as generate() returns them for BART and "
                "M2M100, everything after it is removed: pass preds[:, 1:]."
            )
        return report

    def kept_sentences(self) -> KeptSentences:
        """The sentences that count, synced like :meth:`compute`: statistics, positions, and checksums of references.

        Raises:
            ValueError: without ``keep_sentences=True``, or if sentences with different references have the same
                position.
        """
        if not self.keep_sentences:
            raise SentencesNotKept(_SUMS_ONLY)
        with self.sync_context(should_sync=self._to_sync):
            return self._read_rows()

    def interval(self, confidence: float = 0.95, resamples: int = 1000, seed: int = 0) -> Interval:
        """The score and its confidence interval, synced like :meth:`compute`.

        See :func:`lightning_bleu.bootstrap_interval`. Requires ``keep_sentences=True``.

        Args:
            confidence: the fraction of resampled scores inside the interval.
            resamples: the number of bootstrap resamples.
            seed: the random seed.

        Raises:
            ValueError: without ``keep_sentences=True``, for fewer than two sentences, for a confidence that is not
                between 0 and 1, or for fewer than one resample.
        """
        return bootstrap_interval(self, confidence, resamples, seed)

    def _read_totals(self) -> Tensor:
        """The sums of the statistics, then the InputCounts."""
        if ("totals" if self.keep_sentences else "sentences") in vars(self):  # set by a MetricCollection
            raise RuntimeError(
                "some metrics of a MetricCollection that share a state keep sentences, and others do not: call "
                "start_keeping_sentences() before the first update of the collection"
            )
        if self.keep_sentences:
            kept = self._read_rows()
            sums = kept.statistics.numpy().sum(0, dtype=np.int64)
            return torch.tensor([*sums, *InputCounts.of_kept(kept)], device=self.device)
        return self.totals

    def _read_rows(self) -> KeptSentences:
        # The state is a list, or a single tensor while it is synced.
        rows = [self.sentences] if isinstance(self.sentences, Tensor) else self.sentences
        empty = torch.zeros(0, IDENTITY_COLUMNS + 2 * self.settings.max_order + 2, dtype=torch.int32, device="cpu")
        # torchmetrics syncs a list without rows as an empty vector.
        return read_rows(torch.cat([empty, *(one.cpu() for one in rows if len(one))]))

    @property
    def statistics(self) -> Tensor:
        """The statistics of the corpus (matches, possible matches, hypothesis length, and reference length), int64 of
        shape ``(2 * max_order + 2,)``."""
        return self._read_totals()[: self._columns]

    @property
    def input_counts(self) -> InputCounts:
        """The number of sentences by kind (strings, tokens, ids) and of references; used in the signature."""
        return InputCounts(*self._read_totals()[self._columns :].tolist())

    @property
    def signature(self) -> str:
        """Everything the score depends on, in sacreBLEU's format; ``?`` for values that are unknown before the first
        sentence."""
        return signature(self.settings, self.input_counts)

    @property
    def matches(self) -> Tensor:
        """N-grams that appear in a reference, shape ``(max_order,)``."""
        return Statistics.unpack(self.statistics).matches

    @property
    def possible_matches(self) -> Tensor:
        """N-grams of the hypotheses, shape ``(max_order,)``."""
        return Statistics.unpack(self.statistics).possible_matches

    @property
    def hypothesis_length(self) -> Tensor:
        """Tokens of the hypotheses, a scalar."""
        return Statistics.unpack(self.statistics).hypothesis_length

    @property
    def reference_length(self) -> Tensor:
        """Tokens of the references chosen by the ``reference_length`` rule, a scalar."""
        return Statistics.unpack(self.statistics).reference_length

    @property
    def sentence_statistics(self) -> Tensor:
        """The statistics of every sentence that was not masked out, synced like :meth:`compute`.

        int32 of shape ``(sentences, 2 * max_order + 2)``, on the CPU, in the order of their `index`; without one, in
        the order of the processes and of their updates. Requires ``keep_sentences=True``.

        Example:
            >>> bleu = CorpusBLEU(max_order=2, keep_sentences=True)
            >>> bleu.update(["the cat", "a dog"], ["the cat sat", "a dog"])
            >>> bleu.sentence_statistics
            tensor([[2, 1, 2, 1, 2, 3],
                    [2, 1, 2, 1, 2, 2]], dtype=torch.int32)
        """
        if not self.keep_sentences:
            raise AttributeError  # for __getattr__ to explain
        try:
            return self.kept_sentences().statistics
        except AttributeError as error:  # Python would look for the attribute elsewhere, and lose this error
            raise RuntimeError(f"the sentences cannot be synced: {error}") from error

    @property
    def plot_upper_bound(self) -> float:  # type: ignore[override]
        """The score of a perfect translation."""
        return self.settings.scale

    def plot(self, val: Tensor | Sequence[Tensor] | None = None, ax: Any = None) -> Any:
        """Plot one or more scores; see :meth:`torchmetrics.Metric.plot`.

        Args:
            val: one or more results of :meth:`compute` or :meth:`forward`; the current score when None.
            ax: a matplotlib axis; a new one when None.

        Returns:
            the figure and the axis.
        """
        return self._plot(val, ax)

    def reset(self) -> None:
        """Discard all sentences."""
        super().reset()
        self.last_batch = self.batch_statistics = None

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Add the sentences of another metric, or of its ``metric_state``, to this one.

        Raises:
            ValueError: if the metrics have different settings, if only one of them keeps sentences, or if the sentences
                of only one have an `index`.
        """
        if isinstance(incoming_state, CorpusBLEU) and (names := self.settings.differences(incoming_state.settings)):
            raise ValueError(f"metrics with different settings cannot be merged; these differ: {', '.join(names)}")
        if isinstance(incoming_state, CorpusBLEU) and self.keep_sentences != incoming_state.keep_sentences:
            raise ValueError("only one of the metrics keeps sentences: make both with CorpusBLEU(keep_sentences=True)")
        super().merge_state(incoming_state)

    def __repr__(self) -> str:
        options = [*self._given_options, *["keep_sentences=True"] * self.keep_sentences]
        return f"{type(self).__name__}({', '.join(options)})"

    def __getstate__(self) -> dict[str, Any]:
        # Copies and pickles need the counts, not the last batch.
        return super().__getstate__() | {"last_batch": None, "batch_statistics": None}

    def __getattr__(self, name: str) -> Any:
        if name == "sentence_statistics" and not self.keep_sentences:
            raise SentencesNotKept(_SUMS_ONLY)
        return super().__getattr__(name)


_SUMS_ONLY = "this metric keeps sums only: make it with CorpusBLEU(keep_sentences=True)"


class SentencesNotKept(ValueError, AttributeError):
    """Per-sentence statistics were requested from a metric that keeps sums only."""
