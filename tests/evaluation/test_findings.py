"""What stands out in texts: each mistake is found, and right answers and real text are not."""

from __future__ import annotations

import random
import re
import unicodedata
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from lightning_bleu import CorpusBLEU, CorpusCHRF, Evaluator, Results
from lightning_bleu.core.batch import Sentence
from lightning_bleu.evaluation.metrics.passed_metrics import read_metrics
from lightning_bleu.evaluation.texts.evidence import examine
from lightning_bleu.evaluation.texts.findings import RULES, find_findings
from lightning_bleu.tasks import CER, ROUGE, TER, WER, ExactMatch
from tests.core.test_mistakes import real_pairs
from tests.helpers.corpora import read_lines

ROOT = Path(__file__).parents[2]
NAMES = ["Anna", "Berta", "Clara", "Doris", "Emil", "Franz", "Georg", "Hans", "Ida", "Jonas", "Karl", "Lena"]
NOUNS = ["dog", "cat", "man", "woman", "child", "boat", "house", "street", "snow", "park", "tree", "book", "river"]
VERBS = ["sees", "likes", "follows", "paints", "leaves", "finds", "draws", "sells", "buys", "meets"]
RNG = random.Random(0)


def make_sentence(number: int) -> str:
    clauses = [f"the {RNG.choice(NOUNS)} {RNG.choice(VERBS)} a {RNG.choice(NOUNS)}" for _ in range(RNG.randint(1, 4))]
    return f"{RNG.choice(NAMES)}-{number} knows it's so: {', while '.join(clauses)} in café {number}."


def replace_words(text: str, share: float = 0.2) -> str:
    return " ".join(RNG.choice(NOUNS) if RNG.random() < share else word for word in text.split())


REFERENCES = [make_sentence(number) for number in range(150)]
GOOD = [replace_words(line) for line in REFERENCES]
SOURCES = [f"Satz {number} auf Deutsch, {'lang ' * (number % 7)}" for number in range(150)]
PROMPTED = [f"Translate: {source} = {line}" for source, line in zip(SOURCES, GOOD)]
PROMPTED_REFERENCES = [f"Translate: {source} = {line}" for source, line in zip(SOURCES, REFERENCES)]
FIXED = [f"Translate English to German: {line}" for line in GOOD]
FIXED_REFERENCES = [f"Translate English to German: {line}" for line in REFERENCES]


def cut(line: str, mark: str) -> str:
    """A line in pieces of three letters."""
    pieces = [[word[place : place + 3] for place in range(0, len(word), 3)] for word in line.split()]
    if mark == "@@":
        return " ".join("@@ ".join(word) for word in pieces)
    if mark == "##":
        return " ".join(" ##".join(word) for word in pieces)
    return " ".join(mark + " ".join(word) for word in pieces)


MARKS = ["@@", "##", "\u2581", "\u0120"]
TOKENS = ["</s>", "<pad>", "[SEP]", "<|im_end|>", "<|2.00|>"]
Case = tuple[Sequence[str], Sequence[str], Sequence[str] | None]
FEW = [f"the {NOUNS[number % 13]} {VERBS[number % 10]} a {NOUNS[number // 10 % 13]} there" for number in range(130)]
MISTAKES: dict[str, dict[str, Case]] = {
    "loops": {
        "all": ([f"{line} and a man" + " and a man" * 9 for line in GOOD], REFERENCES, SOURCES),
        "a fifth": ([line + " so" * (40 * (number % 5 == 0)) for number, line in enumerate(GOOD)], REFERENCES, SOURCES),
        "cut off": ([f"{line}{' the cat' * 9} the c" for line in GOOD], REFERENCES, None),
    },
    "empty": {
        "all": ([""] * 150, REFERENCES, SOURCES),
        "most": ([line if number % 9 == 0 else " " for number, line in enumerate(GOOD)], REFERENCES, None),
    },
    "same-output": {
        "all": ([GOOD[0]] * 150, REFERENCES, SOURCES),
        "a third": ([GOOD[0] if number % 3 == 0 else line for number, line in enumerate(GOOD)], REFERENCES, SOURCES),
    },
    "copies": {"all": (SOURCES, REFERENCES, SOURCES)},
    "limit": {"10 words": ([" ".join(line.split()[:10]) for line in GOOD], REFERENCES, SOURCES)},
    "vocabulary": {
        "another language": (
            [f"{line} und was alles noch so {number}." for number, line in enumerate(SOURCES)],
            REFERENCES,
            None,
        ),
        "no spaces": (
            [
                " ".join(line[::2].replace(" ", "")[start : start + 9] for start in range(0, 90, 9)).strip()
                for line in GOOD
            ],
            REFERENCES,
            None,
        ),
    },
    "source-as-reference": {"all": (GOOD, SOURCES, SOURCES)},
    "prompts": {
        "hypotheses": (PROMPTED, REFERENCES, SOURCES),
        "references": (GOOD, PROMPTED_REFERENCES, SOURCES),
        "both": (PROMPTED, PROMPTED_REFERENCES, SOURCES),
    },
    "opening": {
        "chat": ([f"Sure! Here is the translation:\n{line}" for line in GOOD], REFERENCES, SOURCES),
        "prompt": (FIXED, REFERENCES, None),
    },
    "subwords": {
        **{f"{mark} hypotheses": ([cut(line, mark) for line in GOOD], REFERENCES, None) for mark in MARKS},
        **{
            f"{mark} both": ([cut(line, mark) for line in GOOD], [cut(line, mark) for line in REFERENCES], None)
            for mark in MARKS
        },
    },
    "special-tokens": {
        **{f"{token} hypotheses": ([f"{line}{token}" for line in GOOD], REFERENCES, None) for token in TOKENS},
        **{f"{token} references": (GOOD, [f"{line} {token}" for line in REFERENCES], None) for token in TOKENS},
        "padding": ([f"{line}{' <pad>' * 20}" for line in GOOD], REFERENCES, None),
        "languages": ([f"deu_Latn {line}" for line in GOOD], REFERENCES, None),
    },
    "after-end": {"</s>": ([f"{line}</s> {' '.join(RNG.choices(NOUNS, k=9))}" for line in GOOD], REFERENCES, None)},
    "shuffled": {
        "good": (RNG.sample(GOOD, 150), REFERENCES, SOURCES),
        "few words": (FEW[1:] + FEW[:1], FEW, None),
        "sorted": (sorted(GOOD, key=len), REFERENCES, SOURCES),
    },
    "encoding": {"hypotheses": ([line.encode().decode("latin-1") for line in GOOD], REFERENCES, None)},
    "representation": {
        "bytes": ([str(line.replace("'", "").encode()) for line in GOOD], REFERENCES, None),
        "lists": ([str([line.replace("'", "")]) for line in GOOD], REFERENCES, None),
    },
    "leak": {"all": (REFERENCES, REFERENCES, SOURCES)},
    "case": {
        "hypotheses": ([line.lower() for line in GOOD], REFERENCES, None),
        "all upper case": ([line.upper() for line in GOOD], REFERENCES, None),
        "references": (GOOD, [line.lower() for line in REFERENCES], None),
    },
    "punctuation": {"hypotheses": ([re.sub(r"[^\w -]", "", line) for line in GOOD], REFERENCES, None)},
    "thinking": {"hypotheses": ([f"<think>\nhm\n</think>\n\n{line}" for line in GOOD], REFERENCES, None)},
    "entities": {
        "hypotheses": ([line.replace("'", "&apos;") for line in GOOD], REFERENCES, None),
        "references": (GOOD, [line.replace("'", "&#39;") for line in REFERENCES], None),
    },
    "normalization": {
        "hypotheses": ([unicodedata.normalize("NFD", line) for line in GOOD], REFERENCES, None),
        "soft hyphens": ([line.replace("a", "\u00ada") for line in GOOD], REFERENCES, None),
    },
    "quotes": {"hypotheses": ([line.replace("'", "\u2019") for line in GOOD], REFERENCES, None)},
}
CASES = [(key, name) for key, cases in MISTAKES.items() for name in cases]


def evaluate(
    hypotheses: Any, references: Any, sources: Any = None, metric: Any = None, size: int = 4, **options: Any
) -> tuple[Results, list[str]]:
    """Score texts in small batches: the results, and the warnings."""
    evaluator = Evaluator(CorpusBLEU(percent=True) if metric is None else metric, **options)
    evaluator.start()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for start in range(0, len(hypotheses), size):
            batch = slice(start, start + size)
            evaluator.update(hypotheses[batch], references[batch], source=None if sources is None else sources[batch])
        results = evaluator.finish(1)
    return results, [str(warning.message) for warning in caught]


@pytest.mark.parametrize(("key", "name"), CASES)
def test_each_mistake_is_found_and_nothing_else(key: str, name: str) -> None:
    results, said = evaluate(*MISTAKES[key][name])
    assert [finding.key for finding in results.findings] == [key]
    [finding] = results.findings
    assert finding.message in str(results)
    assert finding.place in str(results)
    assert (said == []) != RULES[key].warns
    assert not RULES[key].warns or finding.message in said or said[0].startswith("Most hypotheses contain")
    assert re.search(r"\d", finding.message) or "Only the" in finding.message


UNSPACED = {
    "zh": ("我有一只猫。", "我有一只狗。"),
    "ja": ("私は猫が好きです。", "私は犬が好きです。"),
    "th": ("ฉันรักแมวมาก", "ฉันรักหมามาก"),
}
DROPPED = {
    "Russian": ("Привет, мир 2024", "Пока, дом 2024"),
    "Vietnamese": ("Tôi đi học", "Tôi đã đi ngủ ở đó"),
    "Chinese": ("我有3只猫", "他要3条鱼"),
    "Greek": ("η τιμή 5 kg", "ο καιρός 5 kg"),
}


@pytest.mark.parametrize("language", UNSPACED)
def test_metrics_of_words_find_scripts_without_spaces(language: str) -> None:
    hypothesis, reference = UNSPACED[language]
    metric: Any
    for metric in (CorpusBLEU(), WER(), TER()):
        results, said = evaluate([hypothesis] * 9, [reference] * 9, metric=metric)
        assert [finding.key for finding in results.findings] == ["script"]
        assert said == [results.findings[0].message]
    spaced = [" ".join(hypothesis)] * 9, [" ".join(reference)] * 9
    for metric in (CorpusBLEU(), WER()):
        assert evaluate(*spaced, metric=metric)[0].findings == []
    for metric in (CorpusCHRF(), CER(), WER(" ".join), TER(asian_support=True, normalized=True), ExactMatch()):
        assert evaluate([hypothesis] * 9, [reference] * 9, metric=metric)[0].findings == []
    assert evaluate([hypothesis] * 9, [reference] * 9, metric=CorpusBLEU(tokenizer="char"))[0].findings == []


@pytest.mark.parametrize(("count", "is_found"), [(2, False), (3, False), (4, True)])
def test_a_few_sentences_in_a_script_without_spaces_are_found(count: int, is_found: bool) -> None:
    hypothesis, reference = UNSPACED["zh"]
    preds, target = (["the same old cat sat"] * 40 + [text] * count for text in (hypothesis, reference))
    results, said = evaluate(preds, target)
    assert [finding.key for finding in results.findings] == ["script"] * is_found
    assert said == [finding.message for finding in results.findings]
    assert all(message.startswith("4 of 44 references are Chinese or Japanese, without spaces") for message in said)


@pytest.mark.parametrize("language", DROPPED)
def test_rouge_finds_scripts_whose_letters_it_drops(language: str) -> None:
    hypothesis, reference = DROPPED[language]
    results, said = evaluate([hypothesis] * 9, [reference] * 9, metric=ROUGE(["rouge1"]))
    assert [finding.key for finding in results.findings] == ["script"]
    assert len(said) == 1
    for metric in (ROUGE(["rouge1"], tokenizer=str.split), ROUGE(["rouge1"], normalize=str.lower)):
        assert evaluate([hypothesis] * 9, [reference] * 9, metric=metric)[0].findings == []


def make_logits(width: int) -> tuple[torch.Tensor, torch.Tensor]:
    labels = torch.randint(2, 50, (4, width))
    chosen = torch.where(torch.rand(4, width) < 0.7, labels, torch.randint(2, 50, (4, width)))
    return torch.nn.functional.one_hot(chosen, 50).float(), labels


@pytest.mark.parametrize(("extra", "is_found"), [(0, True), (1, False)])
def test_logits_as_wide_as_their_labels_are_of_teacher_forcing(extra: int, is_found: bool) -> None:
    evaluator = Evaluator(CorpusBLEU(eos_id=1, pad_id=0))
    evaluator.start()
    for width in range(5, 14):
        logits, labels = make_logits(width)
        evaluator.update(logits if width > 5 else logits[:, : width - extra], labels)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = [finding.key for finding in evaluator.finish(0).findings]
    assert found == ["teacher-forcing"] * is_found
    assert len(caught) == is_found


MOLECULES = ["C1=CC=CC=C1" + "CO" * number for number in range(150)]
WORDS = " ".join(REFERENCES).split()
RIGHT: dict[str, Case] = {
    "good": (GOOD, REFERENCES, SOURCES),
    "copies of what needs no editing": (
        [line if number % 3 else GOOD[number] for number, line in enumerate(REFERENCES)],
        REFERENCES,
        [line if number % 2 else GOOD[number] for number, line in enumerate(REFERENCES)],
    ),
    "copies of what needs editing": (GOOD, REFERENCES, GOOD),
    "yes": (["yes"] * 150, ["yes", "no"] * 75, SOURCES),
    "the same opening": ([f"a photo of {line}" for line in GOOD], [f"a photo of {line}" for line in REFERENCES], None),
    "words": ([replace_words(word, 0.5) for word in WORDS], WORDS, WORDS),
    "perfect words": (WORDS, WORDS, None),
    "molecules": (MOLECULES[1:], MOLECULES[:-1], MOLECULES[:-1]),
    "lower case without punctuation": (
        [re.sub(r"[^\w ]", "", line.lower()) for line in GOOD],
        [re.sub(r"[^\w ]", "", line.lower()) for line in REFERENCES],
        SOURCES,
    ),
    "diffs": ([f"@@ -1,4 +1,4 @@ {line}" for line in GOOD], [f"@@ -1,4 +1,4 @@ {line}" for line in REFERENCES], None),
    "headings": ([f"## {line}" for line in GOOD], [f"## {line}" for line in REFERENCES], None),
    "struck out": ([f"a <s>b</s> {line}" for line in GOOD], [f"a <s>b</s> {line}" for line in REFERENCES], None),
    "struck out first": ([f"<s>b</s> {line}" for line in GOOD], [f"<s>b</s> {line}" for line in REFERENCES], None),
    "tags": ([f"<end>b</end> {line}" for line in GOOD], [f"<end>b</end> {line}" for line in REFERENCES], None),
    "code": (
        [f"import numpy as np\ndef f{number}(x):\n    return x + {number}" for number in range(40)],
        [f"import torch\ndef g{number}(x):\n    return x + {number}" for number in range(40)],
        None,
    ),
    "speakers": ([f"Agent: {line}" for line in GOOD], [f"Mitarbeiter: {line}" for line in REFERENCES], None),
    "terse answers": ([f"The capital of that country is {word}." for word in WORDS[:99]], WORDS[:99], None),
    "expansions": (
        [f"{word} {line}" for word, line in zip(WORDS, GOOD)],
        [f"{word} {line}" for word, line in zip(WORDS, REFERENCES)],
        WORDS[:150],
    ),
    "unknown words": ([f"{line} <unk>" for line in GOOD], [f"{line} <unk>" for line in REFERENCES], None),
    "fixed answers": (
        [f"The answer is: {number}" for number in range(50)],
        [f"The answer is: {number + 1}" for number in range(50)],
        None,
    ),
    "a weak dialogue": (
        [f"Amy: {line}" for line in GOOD],
        [f"{NAMES[number % 12]}: {line}" for number, line in enumerate(REFERENCES)],
        None,
    ),
    "long numbers": ([f"{number}{'0' * 30}" for number in range(50)], [f"{number}" for number in range(50)], None),
    "neighboring numbers": (
        [f"x {number} {number + 1000}" for number in range(99)],
        [f"y {number + 1} {number + 1001}" for number in range(99)],
        None,
    ),
    "references in HTML of a weak model": (
        [" ".join(RNG.choices(NOUNS, k=4 + number % 30)) for number in range(150)],
        [f"{line} &amp; more" for line in REFERENCES],
        None,
    ),
    "quoted speech": (GOOD, [f'"{line}"' for line in REFERENCES], None),
    "autoencoder": (GOOD, REFERENCES, REFERENCES),
    "ellipses": ([f"{line.rstrip('.')}" for line in GOOD], [f"{line.rstrip('.')}…" for line in REFERENCES], None),
    "entities": ([line.replace("'", "&apos;") for line in GOOD], [f"&apos;{line}" for line in REFERENCES], None),
    "no words at all": (["..."] * 9, ["..."] * 9, None),
    "one sentence": (GOOD[:1], REFERENCES[:1], SOURCES[:1]),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_answers_that_look_odd_are_not_found(name: str) -> None:
    metric = {"bleu": CorpusBLEU(), "chrf": CorpusCHRF(), "wer": WER(), "rouge": ROUGE(["rouge1"])}
    results, said = evaluate(*RIGHT[name], metric=metric)
    assert (results.findings, said) == ([], [])


def test_a_letter_of_maltese_is_no_mark_of_subwords() -> None:
    hypotheses, references = ["Ġorġ mar lejn il-Ġermanja f'Ġunju"] * 40, ["Ġorġ mar l-Ġermanja f'Ġunju"] * 40
    assert evaluate(hypotheses, references)[0].findings == []


def test_lists_of_tokens_and_the_tokenizer_none_are_pieces_on_purpose() -> None:
    pieces = [cut(line, "@@") for line in REFERENCES[:30]]
    assert evaluate(pieces, pieces, metric=CorpusBLEU(tokenizer="none"))[0].findings == []
    tokens = [line.split() for line in pieces]
    assert evaluate(tokens, tokens)[0].findings == []


@pytest.mark.slow
def test_real_text_has_only_true_findings(wmt22: Path, multi30k: Path) -> None:
    """Some systems translate curly quotation marks to straight ones; these are all there is."""
    pairs = [*real_pairs(wmt22, multi30k)]
    assert len(pairs) > 15
    quotes = 0
    for (hypotheses, references), options in pairs:
        lines, targets = read_lines(hypotheses), read_lines(references)
        sentences = [Sentence(line, [target]) for line, target in zip(lines, targets)]
        metrics = read_metrics({"bleu": CorpusBLEU(**options), "chrf": CorpusCHRF()})
        found = {finding.key for finding in find_findings(examine(sentences), metrics)}
        is_other_language = hypotheses.parent == multi30k
        assert found <= ({"vocabulary"} if is_other_language else {"quotes"}), hypotheses.name
        quotes += "quotes" in found
    assert quotes < 15


def test_code_and_documentation_as_text_have_no_findings() -> None:
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("lightning_bleu/*.py"), *ROOT.glob("tests/*.py")]
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    RNG.shuffle(lines)
    metrics = read_metrics({"bleu": CorpusBLEU(), "wer": WER(), "rouge": ROUGE(["rouge1"])})
    assert len(lines) > 7000
    for start in range(0, 8000, 1000):
        texts = lines[start : start + 1000]
        sentences = [Sentence(replace_words(line, 0.1), [line], line) for line in texts]
        assert find_findings(examine(sentences), metrics) == []


def test_the_documentation_has_a_row_for_each_finding() -> None:
    page = (ROOT / "docs/reading_the_dashboard.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[([a-z-]+)\]\{#([a-z-]+)\} \|", page, flags=re.MULTILINE)
    assert rows == [(key, key) for key in RULES]
