"""Tokenizers by name, which are sacreBLEU's own, beside sacreBLEU itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
from sacrebleu.metrics.bleu import BLEU as SacreBLEU
from sacrebleu.tokenizers.tokenizer_re import TokenizerRegexp

from lightning_bleu import CorpusBLEU, corpus_bleu
from lightning_bleu.core import tokens as tokenizers
from lightning_bleu.core import tokens as words
from lightning_bleu.core.tokens import TOKENIZERS
from tests.helpers.corpora import read_systems
from tests.helpers.counting import count
from tests.helpers.text import WORDWISE

WMT22_CORPORA = [("en-de", "13a"), ("en-cs", "intl"), ("en-zh", "zh"), ("en-ja", "ja-mecab")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pair", "tokenizer", "whole"),
    [
        ("en-de", "13a", False),
        ("en-ja", "ja-mecab", False),
        *(pytest.param(*corpus, True, marks=pytest.mark.long) for corpus in WMT22_CORPORA),
    ],
)
def test_every_system_of_wmt22_has_the_counts_of_sacrebleu(pair: str, tokenizer: str, whole: bool, wmt22: Path) -> None:
    peer = SacreBLEU(tokenize=tokenizer)
    for hypotheses, streams in read_systems(wmt22, pair, whole):
        expected = np.array(peer._extract_corpus_statistics(hypotheses, streams))
        ours = count(hypotheses, list(zip(*streams)), max_order=4, tokenizer=tokenizer)
        np.testing.assert_array_equal(np.roll(ours, 2, axis=1), expected)


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder where sacreBLEU looks for models, which is empty, and a proxy that is not there."""
    for variable in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
        monkeypatch.setenv(variable.upper(), "http://127.0.0.1:9")
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("urllib.request._opener", None)  # which has the proxies of before
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_spm.SACREBLEU_DIR", str(tmp_path))
    (tmp_path / "models").mkdir()
    tokenizers.load_by_name.cache_clear()
    words.clear_caches()
    yield tmp_path / "models"
    tokenizers.load_by_name.cache_clear()
    words.clear_caches()


def test_sentencepiece_models_tokenize_as_in_sacrebleu(models: Path) -> None:
    text = models / "text"
    text.write_text("\n".join(f"the {a} cat and the {b} dog" for a in "abcdefgh" for b in "ijklmnop"))
    train: Any = sentencepiece.SentencePieceTrainer.train
    train(input=str(text), model_prefix=str(models / "m"), vocab_size=23, minloglevel=2)
    (models / "m.model").rename(models / "flores200sacrebleuspm")  # in the place of the one that sacreBLEU downloads
    result = corpus_bleu(["the a cat"], ["the b cat"], tokenizer="flores200", max_order=2)
    expected = SacreBLEU(tokenize="flores200", max_ngram_order=2).corpus_score(["the a cat"], [["the b cat"]])
    assert list(result.matches) == expected.counts
    assert "tok:flores200" in result.signature


def test_the_tokenizers_are_those_of_the_installed_sacrebleu() -> None:
    assert set(TOKENIZERS) == set(SacreBLEU.TOKENIZERS)


@pytest.mark.filterwarnings("ignore:The 'warn' method is deprecated:DeprecationWarning")  # sacreBLEU's, for "spm"
@pytest.mark.usefixtures("models")
@pytest.mark.parametrize("name", sorted({"spm", "flores101", "flores200", "spBLEU-1K"} & set(TOKENIZERS)))
def test_a_model_that_cannot_be_downloaded_is_an_error_that_says_so(name: str) -> None:
    message = rf"^sacreBLEU cannot load the tokenizer '{name}' \(URLError: .*\)$"
    for _ in range(2):  # sacreBLEU leaves a lock file behind
        with pytest.raises(ValueError, match=message):
            corpus_bleu(["a"], ["a"], tokenizer=name)


@pytest.mark.parametrize("tokenizer", [*WORDWISE, "ja-mecab"])
def test_a_tokenizer_fills_no_cache_of_sacrebleu(tokenizer: str) -> None:
    """Which would keep 65,536 lines, each of them joined from many words."""
    caches = [type(SacreBLEU(tokenize=name).tokenizer).__call__ for name in (tokenizer, "13a")]
    functions: list[Any] = [cache for cache in [*caches, TokenizerRegexp.__call__] if hasattr(cache, "cache_info")]
    before = [function.cache_info() for function in functions]
    metric = CorpusBLEU(tokenizer=tokenizer)
    for number in range(20):
        metric.update([f"The cat, no. {number}"], [f"A cat, no. {number}"])
    assert [function.cache_info() for function in functions] == before != []


def test_a_signature_names_the_tokenizer() -> None:
    class Whitespace:
        def __call__(self, line: str) -> list[str]:
            return line.split()

    names: dict[Any, str] = {tokenizer: SacreBLEU(tokenize=tokenizer).tokenizer.signature() for tokenizer in WORDWISE}
    for tokenizer, name in [*names.items(), (str.split, "split"), (Whitespace(), "Whitespace")]:
        assert f"|tok:{name}|" in corpus_bleu(["a"], ["a"], tokenizer=tokenizer).signature
