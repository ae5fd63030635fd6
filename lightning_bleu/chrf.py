"""The metric of chrF."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from torch import Tensor

from lightning_bleu.metric import CorpusMetric
from lightning_bleu.reading.batch import Batch
from lightning_bleu.reading.ragged import IntArray
from lightning_bleu.scoring.chrf import CHRFScore, chrf_rows, chrf_scoring, chrf_signature
from lightning_bleu.scoring.scoring import Scoring
from lightning_bleu.scoring.signature import InputCounts
from lightning_bleu.settings.chrf import CHRFOptions, CHRFSettings
from lightning_bleu.settings.settings import Decoder


class CorpusCHRF(CorpusMetric):
    """Corpus chrF of all sentences since the last reset, regardless of batching, order, device, and process.

    chrF (Popović 2015, https://aclanthology.org/W15-3049) is the F-score of matching n-grams of characters; chrF++
    (Popović 2017, https://aclanthology.org/W17-4770) adds those of words. Scores equal sacreBLEU's, whose names and
    defaults the options have.

    Args:
        char_order: the longest n-gram of characters.
        word_order: the longest n-gram of words; 2 for chrF++.
        beta: recall weighs `beta` times as much as precision.
        lowercase: lowercase before counting.
        whitespace: count whitespace as characters.
        eps_smoothing: count orders without n-grams as well, like chrF++.py, NLTK, and Moses.
        pad_id: for ids: the padding id; removed. Ids require a `decoder`.
        bos_id: for ids: the id that begins a sentence; removed.
        eos_id: for ids: the id that ends a sentence; removed together with everything after it; see
            :class:`lightning_bleu.CorpusBLEU`.
        ignore_ids: for ids: other ids to remove. The default, -100, is the label that losses ignore.
        decoder: decodes ids to strings; see :class:`lightning_bleu.CorpusBLEU`.
        percent: score in 0..100, like sacreBLEU, rather than in 0..1, like torchmetrics.
        keep_sentences: keep the statistics of every sentence, for intervals, paired tests, and an `index`. This takes
            88 bytes per sentence at the default orders (12 bytes for each order, plus 16).
        kwargs: passed to :class:`torchmetrics.Metric`.

    Attributes:
        settings: the validated options.
        last_batch: the sentences of the last batch; None before the first batch.
        batch_statistics: the statistics of each sentence of the last batch (0 for masked sentences), shape
            ``(sentences, 3 * (char_order + word_order))``, on the CPU; None before the first batch. For each order: the
            n-grams of the hypothesis, of the reference, and those that match.

    Raises:
        TypeError: for an option of the wrong type, or an unknown option.
        ValueError: for an option that is out of range.

    Example:
        >>> chrf = CorpusCHRF(word_order=2)
        >>> chrf.update(["the cat is on the mat"], [["the cat sat on the mat", "a cat is on the mat"]])
        >>> chrf.update(["hello there"], ["hello there, world"])
        >>> chrf.compute()
        tensor(0.7275, dtype=torch.float64)
        >>> print(chrf.report())
        chrF2++ = 72.75
    """

    def __init__(
        self,
        char_order: int = 6,
        word_order: int = 0,
        beta: float = 2,
        *,
        lowercase: bool = False,
        whitespace: bool = False,
        eps_smoothing: bool = False,
        pad_id: int | None = None,
        bos_id: int | None = None,
        eos_id: int | None = None,
        ignore_ids: int | Iterable[int] | None = (-100,),
        decoder: Decoder | None = None,
        percent: bool = False,
        keep_sentences: bool = False,
        **kwargs: Any,
    ) -> None:
        options = {name: value for name, value in locals().items() if name in CHRFOptions.__annotations__}
        settings = CHRFSettings.from_options(**cast(CHRFOptions, options))
        super().__init__(settings, 3 * settings.orders, options, keep_sentences=keep_sentences, **kwargs)
        self.settings: CHRFSettings = settings  # declared here, because of torch.jit.script

    @property
    def scoring(self) -> Scoring:
        """How statistics become scores."""
        return chrf_scoring(self.settings)

    def count_rows(self, batch: Batch) -> IntArray:
        """The statistics of each sentence; see :attr:`batch_statistics`."""
        return chrf_rows(batch, self.settings)

    def sign(self, inputs: InputCounts) -> str:
        """The signature of a score of sentences of these kinds."""
        return chrf_signature(self.settings, inputs)

    def report(self) -> CHRFScore:
        """The score and its components as plain numbers, synced like :meth:`compute`."""
        return self.report_of(*self._read_report())

    def report_of(self, statistics: Tensor, inputs: InputCounts) -> CHRFScore:
        """The score of these statistics, of sentences of these kinds."""
        return CHRFScore.from_statistics(statistics, self.settings, self.sign(inputs))
