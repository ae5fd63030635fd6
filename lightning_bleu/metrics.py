"""The metrics for torchmetrics and Lightning: the state around a scorer of BLEU or chrF."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

from torch import Tensor

from lightning_bleu.bleu import BLEUOptions, BLEUScore, BLEUScorer, BLEUSettings
from lightning_bleu.chrf import CHRFOptions, CHRFScore, CHRFScorer, CHRFSettings
from lightning_bleu.core.conventions import Convention, Statistics
from lightning_bleu.core.corpus_metric import CorpusMetric, TorchmetricsOptions
from lightning_bleu.core.settings import Decoder
from lightning_bleu.core.tokens import Tokenizer

if TYPE_CHECKING:
    from typing_extensions import Unpack


class CorpusBLEU(CorpusMetric):
    """Corpus BLEU of all sentences since the last reset, regardless of batching, order, device, and process.

    Example:
        >>> bleu = CorpusBLEU()
        >>> bleu.update(["the cat is on the mat"], [["the cat sat on the mat", "a cat is on the mat"]])
        >>> bleu.update(["hello there"], ["hello there, world"])
        >>> bleu.compute()
        tensor(0.6549, dtype=torch.float64)
        >>> print(bleu.report())
        BLEU = 65.49 100.0/100.0/75.0/66.7 (BP = 0.779 ratio = 0.800 hyp_len = 8 ref_len = 10)

    Args:
        max_order: the longest n-gram.
        weights: one weight per order; uniform when None.
        convention: the BLEU program to match: a name from :data:`lightning_bleu.CONVENTIONS`, or a
            :class:`lightning_bleu.Convention`. It sets the next six options where they are None.
        tokenizer: for strings: a name from :data:`lightning_bleu.core.tokens.TOKENIZERS`, such as ``"13a"`` or
            ``"zh"``, or a callable that takes a line and always returns the same tokens for it.
        lowercase: for strings: lowercase before tokenizing.
        smoothing: for orders without a match: a name from :data:`lightning_bleu.core.conventions.SMOOTHINGS`.
        smoothing_value: the parameter of the smoothing, if it takes one; its own default when None.
        reference_length: ``"closest"`` (the shorter on a tie), ``"closest-first"`` (the first on a tie), or
            ``"shortest"``.
        effective_order: skip the orders for which all hypotheses are too short.
        pad_id: for ids: the padding id; removed.
        bos_id: for ids: the id that begins a sentence; removed.
        eos_id: for ids: the id that ends a sentence; removed with everything after it. If it is also the ``bos_id`` or
            ``pad_id``, it is skipped before the first token.
        unk_id: for ids: the unknown word. In a reference, it matches nothing but counts toward the length.
        ignore_ids: for ids: other ids to remove. The default, -100, is the label that losses ignore.
        decoder: decodes ids, after the removals above, to strings that are scored: an object with ``batch_decode`` (a
            Hugging Face tokenizer), or a callable that takes a list of lists of ids and returns a list of strings.
        percent: score in 0..100, like sacreBLEU, rather than in 0..1, like torchmetrics.
        kwargs: passed to :class:`torchmetrics.Metric`.

    Raises:
        TypeError: for an option of the wrong type, or an unknown option.
        ValueError: for an option that is out of range or not one of the choices, which the message lists.

    Notes:
        By default, the score equals sacreBLEU's (Post 2018, https://aclanthology.org/W18-6319). With
        ``convention="papineni"``, it is that of the BLEU paper (Papineni et al. 2002,
        https://aclanthology.org/P02-1040).
    """

    short_name = "bleu"
    scorer: BLEUScorer
    settings: BLEUSettings

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
        **kwargs: Unpack[TorchmetricsOptions],
    ) -> None:
        options = {name: value for name, value in locals().items() if name in BLEUOptions.__annotations__}
        settings = BLEUSettings.from_options(**cast(BLEUOptions, options))
        super().__init__(BLEUScorer(settings), options, **kwargs)

    def report(self) -> BLEUScore:
        """The score and its components as plain numbers, synced like :meth:`compute`."""
        return self.scorer.report(*self._read_report())

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


class CorpusCHRF(CorpusMetric):
    """Corpus chrF of all sentences since the last reset, regardless of batching, order, device, and process.

    Example:
        >>> chrf = CorpusCHRF(word_order=2)
        >>> chrf.update(["the cat is on the mat"], [["the cat sat on the mat", "a cat is on the mat"]])
        >>> chrf.update(["hello there"], ["hello there, world"])
        >>> chrf.compute()
        tensor(0.7275, dtype=torch.float64)
        >>> print(chrf.report())
        chrF2++ = 72.75

    Args:
        char_order: the longest n-gram of characters.
        word_order: the longest n-gram of words; 2 for chrF++.
        beta: recall weighs `beta` times as much as precision.
        lowercase: lowercase before counting.
        whitespace: count whitespace as characters.
        eps_smoothing: count orders without n-grams as well, like chrF++.py, NLTK, and Moses.
        pad_id, bos_id, eos_id, ignore_ids, decoder: as in :class:`lightning_bleu.CorpusBLEU`. Ids require a `decoder`.
        percent: score in 0..100, like sacreBLEU, rather than in 0..1, like torchmetrics.
        kwargs: passed to :class:`torchmetrics.Metric`.

    Raises:
        TypeError: for an option of the wrong type, or an unknown option.
        ValueError: for an option that is out of range.

    Notes:
        Scores equal sacreBLEU's. Papers: chrF, Popović 2015, https://aclanthology.org/W15-3049; chrF++, Popović 2017,
        https://aclanthology.org/W17-4770.
    """

    short_name = "chrf"
    scorer: CHRFScorer
    settings: CHRFSettings

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
        **kwargs: Unpack[TorchmetricsOptions],
    ) -> None:
        options = {name: value for name, value in locals().items() if name in CHRFOptions.__annotations__}
        settings = CHRFSettings.from_options(**cast(CHRFOptions, options))
        super().__init__(CHRFScorer(settings), options, **kwargs)

    def report(self) -> CHRFScore:
        """The score and its components as plain numbers, synced like :meth:`compute`."""
        return self.scorer.report(*self._read_report())
