"""The metric: counts as state, synchronised and reset by torchmetrics."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from lightning_bleu.arrays import to_device
from lightning_bleu.conventions import Convention, Settings, make_settings
from lightning_bleu.distributed import gather, pack_sentences, unpack_sentences
from lightning_bleu.functional import Seen, check_corpus_smoothing, sentence_statistics
from lightning_bleu.inputs import read_sample_mask
from lightning_bleu.score import BLEUScore, Statistics, score
from lightning_bleu.significance import Interval, bootstrap_interval
from lightning_bleu.tokenizers import Tokenizer


class CorpusBLEU(Metric):
    """Corpus BLEU of all sentences since the last reset, whatever their batches, order, device or process.

    The score is that of Papineni et al. (2002), https://aclanthology.org/P02-1040, and its integers are those that
    sacreBLEU counts. Other conventions go by name.

    Args:
        max_order: longest n-gram.
        weights: one weight for each order; uniform when None.
        convention: a name from :data:`lightning_bleu.CONVENTIONS`, or a
            :class:`lightning_bleu.Convention`. It bundles the next six options; each of them that is not None wins over
            it.
        tokenizer: for strings. The name of one of sacreBLEU's tokenizers (``"13a"``, ``"intl"``, ``"zh"``, ``"char"``,
            ``"none"``, ``"ja-mecab"``, ``"ko-mecab"``, ``"flores200"``, ...), or a callable that takes a line and
            returns its tokens, always the same for the same line.
        lowercase: for strings: score them lowercased.
        smoothing: what an order without a match counts, a name from :data:`lightning_bleu.smoothing.SMOOTHINGS`.
        smoothing_value: the value of the smoothings ``floor``, ``add-k``, ``add-one`` and ``epsilon``.
        reference_length: ``"closest"`` (the shorter of two), ``"closest-first"`` or ``"shortest"``.
        effective_order: leave out the orders for which all hypotheses are too short.
        pad_id: for ids: no token, wherever it stands.
        bos_id: for ids: no token, wherever it stands.
        eos_id: for ids: ends the sentence. If it is also ``bos_id`` or ``pad_id``, it does not before the first token.
        unk_id: for ids: matches nothing where it stands in a reference, but counts for its length (as in fairseq).
        ignore_ids: for ids: no tokens, wherever they stand. The default is the label that losses ignore.
        decoder: turns ids into strings, which are then scored: an object with ``batch_decode`` (a Hugging Face
            tokenizer; special tokens are skipped) or a callable that takes a list of lists of ids and returns a list of
            strings. The ids that are no tokens are taken out first.
        percent: score in 0..100, as sacreBLEU, rather than in 0..1, as torchmetrics.
        keep_sentences: keep the statistics of every sentence, for intervals and paired tests. They take 44 bytes a
            sentence (4 for each number, and one number more), and are gathered on every device when the metric is
            synchronised.
        kwargs: those of :class:`torchmetrics.Metric`.

    Attributes:
        statistics: the state, 64-bit integers of shape ``(2 * max_order + 2,)``: matches, possible matches, hypothesis
            length, reference length.
        batch_statistics: the same for each sentence of the last batch, shape ``(sentences, 2 * max_order + 2)``, on the
            device of the batch; None before the first.

    Raises:
        TypeError: for an option of a wrong type.
        ValueError: for an option that is not among the choices, which the message lists.

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
    full_state_update: bool = False
    plot_lower_bound: float = 0.0

    statistics: Tensor
    sentences: list[Tensor]

    def __init__(
        self,
        max_order: int = 4,
        weights: Sequence[float] | None = None,
        *,
        convention: str | Convention = "papineni",
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
        ignore_ids: int | Iterable[int] = (-100,),
        decoder: Any = None,
        percent: bool = False,
        keep_sentences: bool = False,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("dist_sync_fn", gather)
        super().__init__(**kwargs)
        settings = make_settings(
            max_order,
            weights,
            convention=convention,
            tokenizer=tokenizer,
            lowercase=lowercase,
            smoothing=smoothing,
            smoothing_value=smoothing_value,
            reference_length=reference_length,
            effective_order=effective_order,
            pad_id=pad_id,
            bos_id=bos_id,
            eos_id=eos_id,
            unk_id=unk_id,
            ignore_ids=ignore_ids,
            decoder=decoder,
            percent=percent,
        )
        self.settings = check_corpus_smoothing(settings)
        self._seen = Seen()
        self.batch_statistics: Tensor | None = None
        self._defaults = _Defaults(settings)
        self.add_state("statistics", torch.zeros(2 * settings.max_order + 2, dtype=torch.int64), dist_reduce_fx="sum")
        self.keep_sentences = False
        if keep_sentences:
            self._keep_sentences()

    def _keep_sentences(self) -> None:
        self.keep_sentences = True
        self.add_state("sentences", [], dist_reduce_fx="cat")

    def update(self, preds: Any, target: Any, sample_mask: Any = None) -> None:
        """Count a batch of sentences.

        Args:
            preds: the hypotheses, as

                - strings: ``list[str]``;
                - tokens: ``list[list[str]]`` or ``list[list[int]]``;
                - ids: a tensor of any integer type and shape ``(sentences, tokens)``, or a list of 1-D tensors;
                - logits: a floating-point tensor of shape ``(sentences, tokens, vocabulary)``, of which the argmax is
                  taken. Give ``eos_id``: what follows the end of a sentence counts otherwise. If the decoder's input
                  was the reference, the score flatters: the model was shown the right words before each one.

            target: the references, of the same kind: one for each hypothesis in the same form, or a list of references
                for each hypothesis (of any number), or ids of shape ``(sentences, references, tokens)``, where
                references without a token fill up.
            sample_mask: booleans of shape ``(sentences,)``; a sentence with False is left out. Or of shape ``(1,)``,
                for a batch that is one item of the set, and is counted or left out as a whole.

        Raises:
            TypeError: for inputs of a wrong kind.
            ValueError: for inputs that do not fit each other. After an error the state is as it was.
        """
        try:
            statistics, seen = sentence_statistics(preds, target, self.settings)
            mask = read_sample_mask(sample_mask, len(statistics), statistics.device)
        except BaseException:
            self._update_count -= 1  # torchmetrics has counted the call
            raise
        self.batch_statistics = statistics if mask is None else statistics * mask[:, None]
        self.statistics = self.statistics + to_device(self.batch_statistics.sum(0), self.statistics.device)
        if self.keep_sentences:
            rows = to_device(pack_sentences(statistics, mask), self.statistics.device)
            self.sentences.append(rows)
        if seen != self._seen:
            self._seen |= seen

    def compute(self) -> Tensor:
        """The score, a scalar in 64-bit floating point (32-bit where the device has no other); 0 without sentences."""
        return score(self.statistics, self.settings).bleu * self.settings.scale

    def report(self) -> BLEUScore:
        """The score with its parts as numbers, synchronised as :meth:`compute` is."""
        with self.synchronised():
            return BLEUScore.from_statistics(self.statistics, self.settings, self.signature)

    def interval(self, confidence: float = 0.95, resamples: int = 1000, seed: int = 0) -> Interval:
        """The score with its confidence interval, synchronised as :meth:`compute` is.

        See :func:`lightning_bleu.bootstrap_interval`. The metric must have been made with ``keep_sentences=True``.

        Args:
            confidence: how much of the resamples' scores the interval holds.
            resamples: how often to draw as many sentences as there are.
            seed: of the draws.

        Raises:
            ValueError: without ``keep_sentences=True``, for fewer than two sentences, a confidence outside of 0..1, or
                no resample.
        """
        return bootstrap_interval(self, confidence, resamples, seed)

    @property
    def sentence_statistics(self) -> Tensor:
        """The statistics of every sentence that counts, synchronised as :meth:`compute` is.

        32-bit integers of shape ``(sentences, 2 * max_order + 2)``, as :class:`lightning_bleu.score.Statistics` orders
        them. The sentences are in the order of their arrival; those of several processes are in that of the set, if
        PyTorch's ``DistributedSampler`` has dealt them. The metric must have been made with ``keep_sentences=True``.

        Example:
            >>> bleu = CorpusBLEU(max_order=2, keep_sentences=True)
            >>> bleu.update(["the cat", "a dog"], ["the cat sat", "a dog"])
            >>> bleu.sentence_statistics
            tensor([[2, 1, 2, 1, 2, 3],
                    [2, 1, 2, 1, 2, 2]], dtype=torch.int32)
        """
        if not self.keep_sentences:
            raise ValueError("this metric keeps sums only: make it with CorpusBLEU(keep_sentences=True)")
        with self.synchronised():
            # a list, or a single tensor once they are synchronised
            kept = [self.sentences] if isinstance(self.sentences, Tensor) else self.sentences
            empty = self.statistics.new_zeros(0, len(self.statistics) + 1, dtype=torch.int32)
            # compute_on_cpu moves lists
            return unpack_sentences(torch.cat([empty, *(rows.to(empty.device) for rows in kept)]))

    @contextlib.contextmanager
    def synchronised(self) -> Iterator[None]:
        """A context in which the state is that of all processes together: they meet once for several results.

        Take :meth:`report`, :meth:`interval` and :attr:`sentence_statistics` in it; :meth:`compute` does it by itself.
        """
        if self._is_synced:
            yield
            return
        self.sync(self.dist_sync_fn, should_sync=self._to_sync)
        try:
            yield
        finally:
            self.unsync(should_unsync=self._is_synced)

    @property
    def signature(self) -> str:
        """What the score depends on, in the manner of sacreBLEU; ``?`` stands for what no sentence has shown yet."""
        return self._seen.signature(self.settings)

    @property
    def plot_upper_bound(self) -> float:  # type: ignore[override]
        """The score of a perfect translation."""
        return self.settings.scale

    @property
    def matches(self) -> Tensor:
        """N-grams that stand in a reference, shape ``(max_order,)``."""
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
        """Tokens of the references that the convention picks, a scalar."""
        return Statistics.unpack(self.statistics).reference_length

    def plot(self, val: Tensor | Sequence[Tensor] | None = None, ax: Any = None) -> Any:
        """Plot the score, or several, as :meth:`torchmetrics.Metric.plot` does.

        Args:
            val: one or more results of :meth:`compute` or :meth:`forward`; the present score when None.
            ax: a matplotlib axis; a new one when None.

        Returns:
            the figure and the axis.
        """
        return self._plot(val, ax)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Count a batch as :meth:`update` does, and return the score of that batch alone."""
        before = self.__dict__.copy()
        if self.keep_sentences:
            self.sentences = []  # torchmetrics would copy all of them and empty the list
        try:
            value = super().forward(*args, **kwargs)
        except BaseException:
            self.__dict__.update(before)  # torchmetrics has reset the state by now
            raise
        if self.keep_sentences:
            self.sentences = before["sentences"] + self.sentences
        self._seen |= before["_seen"]
        return value

    def reset(self) -> None:
        """Forget all sentences."""
        super().reset()
        self._seen = Seen()
        self.batch_statistics = None

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Add the sentences of another metric, or of its ``metric_state``, to those of this one."""
        own = list(self.sentences) if self.keep_sentences else []
        if self.keep_sentences and isinstance(incoming_state, CorpusBLEU) and not incoming_state.keep_sentences:
            raise ValueError("this metric keeps sentences, the other must too: CorpusBLEU(keep_sentences=True)")
        super().merge_state(incoming_state)
        if self.keep_sentences:  # torchmetrics puts the incoming ones first
            self.sentences = own + list(self.sentences)[: len(self.sentences) - len(own)]
        self._computed = None
        self._update_count += 1
        if isinstance(incoming_state, CorpusBLEU):
            self._seen |= incoming_state._seen

    def _load_from_state_dict(self, *args: Any) -> None:
        super()._load_from_state_dict(*args)
        if self.keep_sentences:  # a tensor, if the state was saved while it was synchronised
            self.sentences = [self.sentences] if isinstance(self.sentences, Tensor) else list(self.sentences)

    def set_dtype(self, dst_type: str | torch.dtype) -> CorpusBLEU:
        """Do nothing: counts are integers whatever the precision of the model."""
        return self


class _Defaults(dict[str, Any]):
    """The states' defaults, which give away the settings along with their names.

    :class:`torchmetrics.MetricCollection` lets metrics share one state if the names of their states are the same, and
    their values after the first batch. Two tokenizers may well agree on one batch and not on the next.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def keys(self) -> Any:
        return {*super().keys(), self.settings}
