from __future__ import annotations

import random
import re
import subprocess
import sys
import threading
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU as SacreBLEU

from lightning_bleu import corpus_bleu, tokenizers
from lightning_bleu.scoring.settings import Settings
from lightning_bleu.functional import sentence_statistics
from lightning_bleu.counting.tokenizers import TOKENIZERS, TokenMemory, intern_tokens, load_tokenizer, token_memory
from tests.conftest import lines

WORDWISE = ["13a", "intl", "zh", "char", "none"]

PIECES = [
    *"abcxyzABC0123456789",
    *".,-'\"!?;:()[]{}<>&/\\@#$%^*_+=|~`",
    *" \t\x0b\x0c\x1c\x1f\x85\xa0\u2003\u2028\u3000",
    "\n",
    "-\n",
    "\n-",
    "\r\n",
    "<skipped>",
    "&quot;",
    "&amp;",
    "&lt;",
    "&gt;",
    "&amp;quot;",
    *"äößéžřСловоελαابجहिन्दी한국어日本語中文。，！？「」￥€£±×÷≠→♥😀👩\u200d",
    *"\u0301\u200b\ufeff\ue000\ue001\x00",
    *"٣४½²Ⅻ",
    "1,000.50",
    "3.",
    ".5",
    "e.g.",
    "don't",
    "U.S.",
    "word",
    "Wort",
    *[" "] * 40,
]


def fuzz(rng: random.Random) -> str:
    return "".join(rng.choices(PIECES, k=rng.randint(0, 25)))


def expected_tokens(tokenizer: str, line: str) -> list[str]:
    return SacreBLEU(tokenize=tokenizer)._preprocess_segment(line).split()


def same_partition(ids: np.ndarray, tokens: list[str]) -> bool:
    """Whether equal tokens have equal ids, and unequal ones unequal ids."""
    return len(ids) == len(tokens) and len(set(zip(ids.tolist(), tokens))) == len(set(tokens)) == len(set(ids.tolist()))


@pytest.mark.parametrize("tokenizer", WORDWISE)
def test_fuzzed_lines_are_tokenized_as_sacrebleu_does(tokenizer: str, rng: random.Random) -> None:
    memory = TokenMemory(tokenizer)
    peer = SacreBLEU(tokenize=tokenizer)
    for _ in range(8):
        texts = [fuzz(rng) for _ in range(2_500)]
        ids, lengths = memory.encode(texts)
        tokens = [peer._preprocess_segment(line).split() for line in texts]
        assert lengths.tolist() == list(map(len, tokens))
        assert same_partition(ids, [token for line in tokens for token in line])


@given(st.sampled_from(WORDWISE), st.lists(st.text(), max_size=6))
def test_any_text_is_tokenized_as_sacrebleu_does(tokenizer: str, texts: list[str]) -> None:
    ids, lengths = token_memory(tokenizer).encode(texts)
    tokens = [expected_tokens(tokenizer, line) for line in texts]
    assert lengths.tolist() == list(map(len, tokens))
    assert same_partition(ids, [token for line in tokens for token in line])


@pytest.mark.parametrize("tokenizer", WORDWISE)
@pytest.mark.parametrize("lowercase", [False, True])
def test_fuzzed_corpora_have_sacrebleus_integers(tokenizer: str, lowercase: bool, rng: random.Random) -> None:
    hypotheses = [fuzz(rng) for _ in range(1_500)]

    def alike(line: str) -> str:
        pieces = line.split(" ")
        if pieces:
            pieces[rng.randrange(len(pieces))] = fuzz(rng)[:5]
        return " ".join(pieces)

    references = [[alike(line) for _ in range(rng.randint(1, 3))] for line in hypotheses]
    peer = SacreBLEU(tokenize=tokenizer, lowercase=lowercase)
    streams = [[group[i] if i < len(group) else None for group in references] for i in range(3)]
    expected = np.array(peer._extract_corpus_statistics(hypotheses, streams))
    settings = Settings.from_options(tokenizer=tokenizer, lowercase=lowercase)
    ours, _ = sentence_statistics(hypotheses, references, settings)
    # sacreBLEU's order: lengths, matches, possible matches
    np.testing.assert_array_equal(np.roll(ours.numpy(), 2, axis=1), expected)


def wmt22_corpora() -> list[tuple[str, str]]:
    return [
        ("en-de", "13a"),
        ("en-cs", "13a"),
        ("en-cs", "intl"),
        ("en-zh", "zh"),
        ("en-zh", "char"),
        ("en-ja", "ja-mecab"),
    ]


@pytest.mark.parametrize(("pair", "tokenizer"), wmt22_corpora())
def test_wmt22_has_sacrebleus_integers(pair: str, tokenizer: str, wmt22: Path) -> None:
    references = [lines(path) for path in sorted(wmt22.glob(f"generaltest2022.{pair}.ref.*"))]
    systems = sorted(wmt22.glob(f"generaltest2022.{pair}.hyp.*"))
    assert systems
    assert references
    peer = SacreBLEU(tokenize=tokenizer, references=references)
    settings = Settings.from_options(tokenizer=tokenizer)
    for system in systems:
        hypotheses = lines(system)
        expected = np.array(peer._extract_corpus_statistics(hypotheses, None))
        ours, _ = sentence_statistics(hypotheses, list(zip(*references)), settings)
        np.testing.assert_array_equal(np.roll(ours.numpy(), 2, axis=1), expected)


@pytest.mark.parametrize(
    ("tokenizer", "text"),
    [("ja-mecab", "これはテストです。 新しい本を読んだ。"), ("ko-mecab", "한국어 문장을 나눕니다. 새 책을 읽었다.")],
)
def test_morphological_tokenizers_are_asked_about_whole_lines(tokenizer: str, text: str) -> None:
    ids, lengths = TokenMemory(tokenizer).encode([text, text[:5]])
    tokens = [expected_tokens(tokenizer, line) for line in (text, text[:5])]
    assert lengths.tolist() == list(map(len, tokens))
    assert same_partition(ids, list(chain(*tokens)))


def test_sentencepiece_tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a model trained here in the place of the one that sacreBLEU downloads."""
    text = tmp_path / "text"
    text.write_text("\n".join(f"the {a} cat and the {b} dog" for a in "abcdefgh" for b in "ijklmnop"))
    (tmp_path / "models").mkdir()
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(tmp_path / "m"), vocab_size=23, minloglevel=2
    )
    (tmp_path / "m.model").rename(tmp_path / "models" / "flores200sacrebleuspm")
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_spm.SACREBLEU_DIR", str(tmp_path))
    tokenizers._load_named.cache_clear()
    result = corpus_bleu(["the a cat"], ["the b cat"], tokenizer="flores200", max_order=2)
    expected = SacreBLEU(tokenize="flores200", max_ngram_order=2).corpus_score(["the a cat"], [["the b cat"]])
    assert list(result.matches) == expected.counts
    assert "tok:flores200" in result.signature


@pytest.mark.parametrize("tokenizer", sorted(tokenizers._ALPHANUMERIC))
def test_letters_and_digits_are_left_as_they_are(tokenizer: str) -> None:
    words = [f"{character}a1{character}" for character in map(chr, range(sys.maxunicode)) if character.isalnum()]
    assert load_tokenizer(tokenizer)(" ".join(words)).split() == words


def test_unknown_tokenizer_lists_the_choices() -> None:
    with pytest.raises(ValueError, match=r"'tokenizer' must be a callable or one of .*'13a'.*'flores200'.*got '13b'"):
        load_tokenizer("13b")
    with pytest.raises(TypeError, match="'tokenizer' must be a name or a callable, got 13"):
        load_tokenizer(13)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "module", "command"),
    [
        ("ja-mecab", "MeCab", r'pip install "sacrebleu\[ja\]"'),
        ("ko-mecab", "mecab_ko", r'pip install "sacrebleu\[ko\]"'),
        ("flores200", "sentencepiece", "pip install sentencepiece"),
    ],
)
def test_missing_package_gets_the_command(name: str, module: str, command: str) -> None:
    """In a process of its own, where the package cannot be imported."""
    code = f"import sys; sys.modules[{module!r}] = None; import lightning_bleu as l; l.CorpusBLEU(tokenizer={name!r})"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)

    assert re.search(f"ValueError: tokenizer {name!r} cannot be loaded .*{command}", done.stderr, re.DOTALL), (
        done.stderr
    )


def test_every_name_is_known_to_sacrebleu() -> None:
    assert set(TOKENIZERS) <= set(SacreBLEU.TOKENIZERS)


@pytest.mark.parametrize("tokenize", [str.split, lambda line: line.lower(), list])
def test_callables_see_whole_lines(tokenize: Any) -> None:
    texts = ["a b  c", "", "A b"]
    ids, lengths = TokenMemory(tokenize).encode(texts)
    tokens = [tokenize(line).split() if isinstance(tokenize(line), str) else tokenize(line) for line in texts]
    assert lengths.tolist() == list(map(len, tokens))
    assert same_partition(ids, list(chain(*tokens)))


def test_a_line_is_tokenized_once() -> None:
    seen: list[str] = []

    def tokenize(line: str) -> list[str]:
        seen.append(line)
        return line.split()

    for _ in range(3):
        corpus_bleu(["a b", "a c"], ["a b", "a d"], tokenizer=tokenize)
    assert sorted(seen) == ["a b", "a c", "a d"]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch, rng: random.Random) -> None:
    monkeypatch.setattr(tokenizers, "_MOST_KEYS", 100)
    memory = TokenMemory("13a")
    for first in range(0, 5_000, 50):
        texts = [f"word{number}, other{number}." for number in range(first, first + 50)]
        ids, lengths = memory.encode(texts)
        assert lengths.tolist() == [4] * 50
        assert same_partition(ids, [token for line in texts for token in expected_tokens("13a", line)])
        assert len(memory._numbers) <= 200
    monkeypatch.setattr(tokenizers, "_MOST_KEYS", 2**20)
    monkeypatch.setattr(tokenizers, "_MOST_CHARACTERS", 100)
    memory.encode(["x" * 200])
    memory.encode(["y"])
    assert len(memory._numbers) == 1


def test_a_tokenizer_that_fails_leaves_nothing_behind() -> None:
    def tokenize(line: str) -> list[str]:
        if line == "bad":
            raise RuntimeError("bad line")
        return line.split()

    memory = TokenMemory(tokenize)
    with pytest.raises(RuntimeError, match="bad line"):
        memory.encode(["good line", "bad"])
    assert memory.encode(["good line"])[1].tolist() == [2]


def test_threads_share_a_memory() -> None:
    memory = TokenMemory("13a")
    texts = [f"a{i}, b{i % 7}." for i in range(500)]
    tokens = [token for line in texts for token in expected_tokens("13a", line)]
    results: list[bool] = []

    def work() -> None:
        results.extend(same_partition(memory.encode(texts)[0], tokens) for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 40


def test_intern_tokens() -> None:
    assert intern_tokens(["x", "y", "x"]).tolist() == [0, 1, 0]
    assert intern_tokens([]).tolist() == []
