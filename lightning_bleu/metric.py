"""The metric: statistics as state, synced and reset by torchmetrics."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from lightning_bleu.additive_metric import AdditiveMetric
from lightning_bleu.counting.batch import Decoder
from lightning_bleu.counting.devices import to_device
from lightning_bleu.counting.forms import Hypotheses, References, SampleMask
from lightning_bleu.counting.inputs import read_sample_mask
from lightning_bleu.counting.tokenizers import Tokenizer
from lightning_bleu.functional import Counted, sentence_statistics
from lightning_bleu.kept_sentences import gather, pack_sentences, unpack_sentences
from lightning_bleu.scoring.conventions import Convention
from lightning_bleu.scoring.options import OPTION_NAMES, Options, unknown_options
from lightning_bleu.scoring.score import BLEUScore, Statistics, score
from lightning_bleu.scoring.settings import Settings, check_bool, refuse_sentence_smoothing
from lightning_bleu.scoring.signature import InputCounts, signature
from lightning_bleu.significance import Interval, bootstrap_interval
from lightning_bleu.user_warnings import warn_user


class CorpusBLEU(AdditiveMetric):
    """Corpus BLEU of all sentences since the last reset, regardless of batching, order, device, and process.

    The score is the one that sacreBLEU prints (Post 2018, https://aclanthology.org/W18-6319). ``convention`` selects
    those of other programs, and ``"papineni"`` is BLEU without smoothing, as Papineni et al. (2002) define it
    (https://aclanthology.org/P02-1040).

    Args:
        max_order: the longest n-gram.
        weights: one weight per order; uniform when None.
        convention: a name from :data:`lightning_bleu.CONVENTIONS`, or a :class:`lightning_bleu.Convention`. It bundles
            the next six options. Each of them that is not None takes precedence.
        tokenizer: for strings. The name of one of sacreBLEU's tokenizers (``"13a"``, ``"intl"``, ``"zh"``, ``"char"``,
            ``"none"``, ``"ja-mecab"``, ``"ko-mecab"``, ``"flores200"``, ...), or a callable that takes a line and
            returns its tokens, always the same for the same line.
        lowercase: for strings: lowercase them first.
        smoothing: what an order without a match counts as, a name from
            :data:`lightning_bleu.scoring.smoothing.SMOOTHINGS`.
        smoothing_value: for smoothings that take a value; the default is theirs.
        reference_length: ``"closest"`` (of two equally close the shorter), ``"closest-first"`` (the first of them), or
            ``"shortest"``.
        effective_order: skip the orders for which all hypotheses are too short.
        pad_id: for ids: padding, removed.
        bos_id: for ids: begins a sentence, removed.
        eos_id: for ids: ends a sentence, removed together with everything after it. If it is also the ``bos_id`` or the
            ``pad_id``, it does not end the sentence before the first token. Some models (BART, M2M100) generate it as
            the first id, too: pass ``preds[:, 1:]``.
        unk_id: for ids: matches nothing in a reference, but counts toward its length (as in fairseq).
        ignore_ids: for ids: removed. The default is the label that losses ignore.
        decoder: turns ids into strings, which are then scored: an object with ``batch_decode`` (a Hugging Face
            tokenizer; special tokens are skipped), or a callable that takes a list of lists of ids and returns a list
            of strings. The special ids above are removed first; without them, a callable sees padding and markers.
        percent: score in 0..100, as sacreBLEU, rather than in 0..1, as torchmetrics.
        keep_sentences: keep the statistics of every sentence, for intervals and paired tests. They take 44 bytes per
            sentence (4 for each number, and one number more), and every device gets all of them when the metric is
            synced.
        kwargs: those of :class:`torchmetrics.Metric`.

    Attributes:
        settings: the options, checked.
        last_batch: the sentences of the last batch and their statistics, 0 for those that do not count; None before the
            first batch.

    Raises:
        TypeError: for an option of a wrong type.
        ValueError: for an option that is out of range or not among the choices, which the message lists.

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
        options: Options = {
            "max_order": max_order,
            "weights": weights,
            "convention": convention,
            "tokenizer": tokenizer,
            "lowercase": lowercase,
            "smoothing": smoothing,
            "smoothing_value": smoothing_value,
            "reference_length": reference_length,
            "effective_order": effective_order,
            "pad_id": pad_id,
            "bos_id": bos_id,
            "eos_id": eos_id,
            "unk_id": unk_id,
            "ignore_ids": ignore_ids,
            "decoder": decoder,
            "percent": percent,
        }
        settings = refuse_sentence_smoothing(Settings.from_options(**options))
        check_bool("keep_sentences", keep_sentences)
        try:
            super().__init__(settings, **{"dist_sync_fn": gather} | kwargs)
        except ValueError as error:
            # torchmetrics lists what it does not know between backquotes.
            unknown = re.findall(r"`(\w+)`", str(error)) if "Unexpected keyword" in str(error) else []
            if not unknown:
                raise
            raise unknown_options(unknown, [*OPTION_NAMES, "keep_sentences"]) from None
        self.settings = settings
        self._representation = _represent({**options, "keep_sentences": keep_sentences})
        self._warned: set[str] = set()
        self.last_batch: Counted | None = None
        # torch.jit.script does not understand annotations of the class.
        self.totals: Tensor
        self.sentences: list[Tensor]
        # The statistics, then the input counts: one vector, so that processes meet once.
        size = 2 * settings.max_order + 2 + len(InputCounts())
        self.add_state("totals", torch.zeros(size, dtype=torch.int64), dist_reduce_fx="sum")
        self.keep_sentences = False
        if keep_sentences:
            self.start_keeping_sentences()

    def start_keeping_sentences(self) -> None:
        """Keep the statistics of every sentence from now on, as with ``keep_sentences=True``."""
        if not self.keep_sentences:
            self.keep_sentences = True
            self.add_state("sentences", [], dist_reduce_fx="cat")

    def update(self, preds: Hypotheses, target: References, sample_mask: SampleMask | None = None) -> None:
        """Count a batch of sentences.

        Args:
            preds: the hypotheses, as

                - strings: ``list[str]``;
                - tokens: ``list[list[str]]`` or ``list[list[int]]``;
                - ids: a tensor of any integer type and shape ``(sentences, tokens)``, or a list of 1-D tensors;
                - logits: a floating-point tensor of shape ``(sentences, tokens, vocabulary)``, whose argmax is taken.
                  Set ``eos_id``, or whatever follows the end of a sentence counts too. If the decoder's input was the
                  reference, the score flatters: the model was shown the right words before each one.

                Other iterables are read once, into a list.

            target: the references, of the same kind (with ``decoder``, strings go with ids): one per hypothesis in the
                same form, or a list of references per hypothesis (any number of them), or ids of shape
                ``(sentences, references, tokens)``. In such a tensor, a reference without tokens is ignored, unless the
                sentence has no other. In lists it counts, with length 0.
            sample_mask: booleans of shape ``(sentences,)``; a sentence with False does not count. Or of shape ``(1,)``,
                for a batch that is a single item of the set and counts or does not count as a whole.

        Raises:
            TypeError: for a form that is not accepted, or two that do not go together.
            ValueError: for different numbers of sentences, shapes that are not accepted, or a sentence without a
                reference. After an error the state is what it was before.
        """
        counted = sentence_statistics(preds, target, self.settings)
        statistics = counted.statistics
        mask = None if sample_mask is None else read_sample_mask(sample_mask, len(statistics), statistics.device)
        if mask is not None:
            counted = counted._replace(statistics=statistics * mask[:, None])
        for message in counted.batch.suspicions:
            self._warn_once(message)
        self.last_batch = counted
        self.totals = self.totals + to_device(counted.totals(), self.totals.device)
        if self.keep_sentences:
            self.sentences.append(to_device(pack_sentences(statistics, mask), self.totals.device))

    def compute(self) -> Tensor:
        """The score, a scalar in 64-bit floating point (32-bit where the device has no other); 0 without sentences."""
        return score(self.statistics, self.settings).bleu * self.settings.scale

    def report(self) -> BLEUScore:
        """The score with its parts as numbers, synced as :meth:`compute` is."""
        with self.sync_context(should_sync=self._to_sync):
            report = BLEUScore.from_statistics(self.statistics, self.settings, self.signature)
        from_ids = self.input_counts.ids or self.settings.decoder is not None
        is_empty = report.reference_length and not report.hypothesis_length
        if from_ids and is_empty and self.settings.special_ids.eos_id is not None:
            self._warn_once(
                "All hypotheses are empty. If they begin with 'eos_id', as those that generate() of BART or M2M100 "
                "returns, it removes everything: pass preds[:, 1:]."
            )
        return report

    def interval(self, confidence: float = 0.95, resamples: int = 1000, seed: int = 0) -> Interval:
        """The score with its confidence interval, synced as :meth:`compute` is.

        See :func:`lightning_bleu.bootstrap_interval`. The metric must have been made with ``keep_sentences=True``.

        Args:
            confidence: the share of the resamples' scores that the interval holds.
            resamples: how often to draw as many sentences as there are.
            seed: seeds the draws.

        Raises:
            ValueError: without ``keep_sentences=True``, for fewer than two sentences, a confidence outside of 0..1, or
                no resample.
        """
        return bootstrap_interval(self, confidence, resamples, seed)

    @property
    def statistics(self) -> Tensor:
        """64-bit integers of shape ``(2 * max_order + 2,)``: matches, possible matches, hypothesis length, and
        reference length."""
        return self.totals[: 2 * self.settings.max_order + 2]

    @property
    def batch_statistics(self) -> Tensor | None:
        """The statistics of each sentence of the last batch, shape ``(sentences, 2 * max_order + 2)``, on the device of
        the batch; None before the first one."""
        return None if self.last_batch is None else self.last_batch.statistics

    @property
    def input_counts(self) -> InputCounts:
        """What the sentences were made of; a part of the signature."""
        return InputCounts(*self.totals[2 * self.settings.max_order + 2 :].tolist())

    @property
    def signature(self) -> str:
        """Everything the score depends on, in the manner of sacreBLEU; ``?`` for what no sentence has shown yet."""
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
        """Tokens of the references that the convention chooses, a scalar."""
        return Statistics.unpack(self.statistics).reference_length

    @property
    def sentence_statistics(self) -> Tensor:
        """The statistics of every sentence that counts, synced as :meth:`compute` is.

        32-bit integers of shape ``(sentences, 2 * max_order + 2)``, in the order of arrival. The sentences of several
        processes are in the order of the set, if PyTorch's ``DistributedSampler`` has dealt them. The metric must have
        been made with ``keep_sentences=True``.

        Example:
            >>> bleu = CorpusBLEU(max_order=2, keep_sentences=True)
            >>> bleu.update(["the cat", "a dog"], ["the cat sat", "a dog"])
            >>> bleu.sentence_statistics
            tensor([[2, 1, 2, 1, 2, 3],
                    [2, 1, 2, 1, 2, 2]], dtype=torch.int32)
        """
        if not self.keep_sentences:
            raise AttributeError  # for __getattr__ to explain
        with self.sync_context(should_sync=self._to_sync):
            # A list, or a single tensor within the context. compute_on_cpu moves lists.
            kept = [self.sentences] if isinstance(self.sentences, Tensor) else self.sentences
            empty = self.statistics.new_zeros(0, len(self.statistics) + 1, dtype=torch.int32)
            return unpack_sentences(torch.cat([empty, *(rows.to(empty.device) for rows in kept)]))

    @property
    def plot_upper_bound(self) -> float:  # type: ignore[override]
        """The score of a perfect translation."""
        return self.settings.scale

    def plot(self, val: Tensor | Sequence[Tensor] | None = None, ax: Any = None) -> Any:
        """Plot one or several scores, see :meth:`torchmetrics.Metric.plot`.

        Args:
            val: one or more results of :meth:`compute` or :meth:`forward`; the present score when None.
            ax: a matplotlib axis; a new one when None.

        Returns:
            the figure and the axis.
        """
        return self._plot(val, ax)

    def _warn_once(self, message: str) -> None:
        if message not in self._warned:
            warn_user(message)  # an error, if the user wants it so
            self._warned.add(message)

    def reset(self) -> None:
        """Forget all sentences."""
        super().reset()
        self.last_batch = None

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Add the sentences of another metric, or of its ``metric_state``, to those of this one.

        Raises:
            ValueError: if the metrics score differently, or if this metric keeps sentences and the other does not.
        """
        if isinstance(incoming_state, CorpusBLEU) and (names := self.settings.differences(incoming_state.settings)):
            raise ValueError(f"metrics with different settings cannot be merged; these differ: {', '.join(names)}")
        if self.keep_sentences and isinstance(incoming_state, CorpusBLEU) and not incoming_state.keep_sentences:
            raise ValueError("this metric keeps sentences, the other must too: CorpusBLEU(keep_sentences=True)")
        super().merge_state(incoming_state)

    def __repr__(self) -> str:
        return self._representation

    def __getattr__(self, name: str) -> Any:
        if name == "sentence_statistics":
            raise SentencesNotKept("this metric keeps sums only: make it with CorpusBLEU(keep_sentences=True)")
        return super().__getattr__(name)

    def __getstate__(self) -> dict[str, Any]:
        # Copies and other processes need the counts, not the last batch.
        return super().__getstate__() | {"last_batch": None}


def _represent(options: Mapping[str, Any]) -> str:
    """A call of the class with the options that differ from their defaults."""
    parameters = inspect.signature(CorpusBLEU).parameters
    descriptions = {name: (_describe(value), _describe(parameters[name].default)) for name, value in options.items()}
    given = [f"{name}={value}" for name, (value, default) in descriptions.items() if value != default]
    return f"CorpusBLEU({', '.join(given)})"


def _describe(value: Any) -> str:
    """A short name for a callable, and the representation of anything else."""
    if callable(value) or hasattr(value, "batch_decode"):
        return str(getattr(value, "__name__", type(value).__name__))
    return repr(value)


class SentencesNotKept(ValueError, AttributeError):
    """A metric was asked for its sentences but keeps sums only."""
