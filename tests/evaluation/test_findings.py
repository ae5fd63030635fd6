"""What stands out in texts: each mistake is found, and right answers and real text are not."""

from __future__ import annotations

import html
import importlib.util
import os
import random
import re
import subprocess
import sys
import unicodedata
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from lightning_bleu import CorpusBLEU, CorpusCHRF, Evaluator, Results
from lightning_bleu.evaluation.metrics.passed_metrics import read_metrics
from lightning_bleu.evaluation.texts.findings import KEYS, Finding, find_findings
from lightning_bleu.tasks import CER, ROUGE, TER, WER, ExactMatch
from tests.core.test_mistakes import real_pairs
from tests.helpers.corpora import read_lines
from tests.helpers.validations import Counting, count

ROOT = Path(__file__).parents[2]
NAMES = ["Anna", "Berta", "Clara", "Doris", "Emil", "Franz", "Georg", "Hans", "Ida", "Jonas", "Karl", "Lena"]
NOUNS = ["dog", "cat", "man", "woman", "child", "boat", "house", "street", "snow", "park", "tree", "book", "river"]
VERBS = ["sees", "likes", "follows", "paints", "leaves", "finds", "draws", "sells", "buys", "meets"]
RNG = random.Random(0)
CYRILLIC = {code: code + 0x400 for code in range(33, 127)}


def make_sentence(number: int) -> str:
    clauses = [f"the {RNG.choice(NOUNS)} {RNG.choice(VERBS)} a {RNG.choice(NOUNS)}" for _ in range(RNG.randint(1, 4))]
    return f"{RNG.choice(NAMES)}-{number} knows it's so: {', while '.join(clauses)} in café {number}."


def replace_words(text: str, share: float = 0.2) -> str:
    return " ".join(RNG.choice(NOUNS) if RNG.random() < share else word for word in text.split())


REFERENCES = [make_sentence(number) for number in range(150)]
GOOD = [replace_words(line) for line in REFERENCES]
GARBLED = [f"{line.translate(CYRILLIC)} {line[:7] * (number % 10 == 0)}" for number, line in enumerate(REFERENCES)]
FREQUENT = [" ".join(RNG.choices(NOUNS, k=number % 5 + 5)) for number in range(150)]
SOURCES = [f"Satz {number} auf Deutsch, {'lang ' * (number % 7)}" for number in range(150)]
PROMPTED = [f"Translate: {source} = {line}" for source, line in zip(SOURCES, GOOD)]
PROMPTED_REFERENCES = [f"Translate: {source} = {line}" for source, line in zip(SOURCES, REFERENCES)]


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
Case = tuple[Sequence[str] | None, ...]
MISTAKES: dict[str, dict[str, Case]] = {
    "one-sided": {
        "'Sure! Here it is:\\n'": ([f"Sure! Here it is:\n{line}" for line in GOOD], REFERENCES, SOURCES),
        'as in "H=': ([f"H={number}\t{line}" for number, line in enumerate(GOOD)], REFERENCES),
        "'<think>\\nhm\\n</think>\\n\\n'": ([f"<think>\nhm\n</think>\n\n{line}" for line in GOOD], REFERENCES),
        "\"['": ([str([line.replace("'", "")]) for line in GOOD], REFERENCES),
        "lack an upper-case letter": ([line.lower().rstrip(".") for line in REFERENCES], REFERENCES),
        "'.'": ([line.rstrip(".") for line in GOOD], REFERENCES),
        "weak, lack an upper-case letter": ([f"{line[:9].lower()} is the dog." for line in GOOD], REFERENCES),
        "it's": ([line.replace("'", "\u2019") for line in GOOD], REFERENCES),
        **{mark: ([cut(line, mark) for line in GOOD], REFERENCES) for mark in MARKS[:3]},
        **{f"'{token}'": ([f"{line}{token}" for line in GOOD], REFERENCES) for token in TOKENS},
        "references end with, </s>'": (GOOD, [f"{line} </s>" for line in REFERENCES]),
        "weak, </s>'": (FREQUENT, [f"{line} </s>" for line in REFERENCES]),
        "no marks, so</s>'": ([f"{line} so{'</s>' * (n % 3 > 0)}" for n, line in enumerate(GOOD)], REFERENCES),
        "hypotheses end with ' .'": ([f"{line[:-1]} ." for line in GOOD], REFERENCES),
    },
    "changed": {
        "html.unescape": ([line.replace("'", "&apos;") for line in GOOD], REFERENCES),
        "references have entities": (GOOD, [line.replace("'", "&#39;") for line in REFERENCES]),
        "wrong encoding": ([line.encode().decode("latin-1") for line in GOOD], REFERENCES),
        "CYRILLIC, wrong encoding": ([line.encode().decode("latin-1") for line in GARBLED], GARBLED),
        "NFKC": ([unicodedata.normalize("NFD", line) for line in GOOD], REFERENCES),
    },
    "nearer": {
        "without white space": ([" ".join(line) for line in GOOD], REFERENCES),
        "halves, without white space": ([re.sub(r"(\w{3})(\w{2})", r"\1 \2", line) for line in GOOD], REFERENCES),
        "characters reversed": ([line[::-1] for line in GOOD], REFERENCES),
        "without repeated letters": ([re.sub(r"(\w)", r"\1\1", line) for line in GOOD], REFERENCES),
    },
    "both-sides": {
        **{
            f"{mark}, subwords": ([cut(line, mark) for line in GOOD], [cut(line, mark) for line in REFERENCES])
            for mark in MARKS
        },
        "tokenized": ([f"{line[:-1]} ." for line in GOOD], [f"{line[:-1]} ." for line in REFERENCES]),
        "single letters": ([" ".join(line) for line in GOOD], [" ".join(line) for line in REFERENCES]),
        "'</s>'": ([f"{line}</s>" for line in GOOD], [f"{line}</s>" for line in REFERENCES]),
        "ids": tuple([f"utt{n:04} {line}" for n, line in enumerate(side)] for side in (GOOD, REFERENCES)),
    },
    "order": {
        "words of another reference": (RNG.sample(GOOD, 150), REFERENCES, SOURCES),
        "mostly off by +1": (GOOD[:120] + GOOD[121:] + GOOD[:1], REFERENCES),
        "frequent, words of another reference": (FREQUENT[::-1], FREQUENT),
    },
    "repeats": {
        "sentences come 2 times": (GOOD[:75] * 2, REFERENCES[:75] * 2),
        "hypotheses come 5 times": ([GOOD[number // 5] for number in range(150)], REFERENCES),
    },
    "limit": {
        "hypotheses have 10 words": (
            [" ".join(line.split(" in café")[0].split()[:10]) for line in GOOD],
            [line.split(" in café")[0] for line in REFERENCES],
            SOURCES,
        ),
        "references have 16 words": (GOOD, [" ".join(line.split()[:16]) for line in REFERENCES]),
        "hypotheses have 40 words": tuple([f"{a} {n}{' so' * min(n, 38)}" for n in range(150)] for a in ("a", "the")),
    },
    "loops": {
        "150 of 150 hypotheses end in": ([f"{line}{' and a man' * 10}" for line in GOOD], REFERENCES, SOURCES),
        "75 of 150": ([line + " the cat" * (number % 2 * 20) for number, line in enumerate(GOOD)], REFERENCES),
    },
    "same-output": {
        "empty": ([""] * 150, REFERENCES, SOURCES),
        "150 of 150 hypotheses are the same": ([GOOD[0]] * 150, REFERENCES, SOURCES),
        "equal an earlier one": ([GOOD[number % 10] for number in range(150)], REFERENCES),
        "50 of 150 references are empty": (GOOD, [line * (number % 3 > 0) for number, line in enumerate(REFERENCES)]),
    },
    "source": {
        "hypotheses equal their source": (SOURCES, REFERENCES, SOURCES),
        "references equal their source": (GOOD, SOURCES, SOURCES),
        "hypotheses contain their source": (PROMPTED, REFERENCES, SOURCES),
        "references contain their source": (GOOD, PROMPTED_REFERENCES, SOURCES),
        "generated[:, prompts.shape[1]:]": (PROMPTED, PROMPTED_REFERENCES, SOURCES),
    },
    "leak": {"150 of 150 hypotheses equal": (REFERENCES, REFERENCES, SOURCES)},
    "vocabulary": {
        "no nearer": ([f"{line} und was alles noch so." for line in SOURCES], REFERENCES),
    },
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


@pytest.mark.parametrize(("key", "said"), CASES)
def test_each_mistake_is_found_and_said(key: str, said: str) -> None:
    hypotheses, references, sources = (*MISTAKES[key][said], None)[:3]
    results, messages = evaluate(hypotheses, references, sources)
    found = [finding for finding in results.findings if finding.key == key and said.split(", ")[-1] in finding.message]
    assert found, results.findings
    assert found[0].is_warning or key != "changed"
    assert len(results.findings) <= 3
    assert found[0].message in str(results)
    assert f"[{found[0].key}]" in str(results)
    assert messages == [str(finding) for finding in results.findings if finding.is_warning]


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
        assert [finding.key for finding in results.findings] == ["vocabulary"]
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
    assert [finding.key for finding in results.findings if finding.is_warning] == ["vocabulary"] * is_found
    assert len(said) == is_found
    assert all(message.startswith("4 of 44 references are Chinese or Japanese, whose phrases") for message in said)


@pytest.mark.parametrize("language", DROPPED)
def test_rouge_finds_scripts_whose_letters_it_drops(language: str) -> None:
    hypothesis, reference = DROPPED[language]
    results, said = evaluate([hypothesis] * 9, [reference] * 9, metric=ROUGE(["rouge1"]))
    assert [finding.key for finding in results.findings] == ["vocabulary"]
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
    assert found == ["leak"] * is_found
    assert len(caught) == is_found


MOLECULES = ["C1=CC=CC=C1" + "CO" * number for number in range(150)]
WORDS = " ".join(REFERENCES).split()
LONG = [" ".join("".join(random.Random(f"{n} {k}").choices("abcdefgh", k=4)) for k in range(60)) for n in range(150)]
RIGHT: dict[str, Case] = {
    "good": (GOOD, REFERENCES, SOURCES),
    "copies of what needs no editing": (
        [line if number % 3 else GOOD[number] for number, line in enumerate(REFERENCES)],
        REFERENCES,
        [line if number % 2 else GOOD[number] for number, line in enumerate(REFERENCES)],
    ),
    "copies of what needs editing": (GOOD, REFERENCES, GOOD),
    "yes": (["yes"] * 150, ["yes", "no"] * 75, SOURCES),
    "the same opening": ([f"a photo of {line}" for line in GOOD], [f"a photo of {line}" for line in REFERENCES]),
    "words": ([replace_words(word, 0.5) for word in WORDS], WORDS, WORDS),
    "perfect words": (WORDS, WORDS),
    "molecules": (MOLECULES[1:], MOLECULES[:-1], MOLECULES[:-1]),
    "lower case": (*([re.sub(r"[^\w ]", "", line.lower()) for line in x] for x in (GOOD, REFERENCES)), SOURCES),
    "diffs": ([f"@@ -1,4 +1,4 @@ {line}" for line in GOOD], [f"@@ -1,4 +1,4 @@ {line}" for line in REFERENCES]),
    "struck out": ([f"a <s>b</s> {line}" for line in GOOD], [f"a <s>b</s> {line}" for line in REFERENCES]),
    "code": tuple(
        [f"import {library}\ndef {name}{number}(x):\n    return x + {number}" for number in range(40)]
        for library, name in (("numpy as np", "f"), ("torch", "g"))
    ),
    "prices": ([f"so it costs {n + 999}" for n in range(150)], [f"so it costs {n}{'klmg'[n % 4]}" for n in range(150)]),
    "generic": tuple([x[n] if n % d else FREQUENT[9] for n in range(150)] for x, d in ((GOOD, 4), (REFERENCES, 9))),
    "short summaries": ([" ".join(line.split()[: 5 + n % 3]) for n, line in enumerate(LONG)], LONG),
    "speakers": ([f"Agent: {line}" for line in GOOD], [f"Mitarbeiter: {line}" for line in REFERENCES]),
    "terse answers": ([f"The capital of that country is {word}." for word in WORDS[:99]], WORDS[:99]),
    "expansions": (*([f"{word} {line}" for word, line in zip(WORDS, x)] for x in (GOOD, REFERENCES)), WORDS[:150]),
    "unknown words": ([f"{line} <unk>" for line in GOOD], [f"{line} <unk>" for line in REFERENCES]),
    "a weak dialogue": (
        [f"Amy: {line}" for line in GOOD],
        [f"{NAMES[number % 12]}: {line}" for number, line in enumerate(REFERENCES)],
    ),
    "fixed answers": ([f"The answer is: {n}" for n in range(50)], [f"The answer is: {n + 1}" for n in range(50)]),
    "long numbers": ([f"{number}{'0' * 30}" for number in range(50)], [f"{number}" for number in range(50)]),
    "neighboring numbers": tuple([f"{x} {n + d} {n + d + 1000}" for n in range(99)] for x, d in (("x", 0), ("y", 1))),
    "no end": ([" ".join((line * 3).split()[: 31 - n // 140]) for n, line in enumerate(REFERENCES)], REFERENCES),
    "references in HTML of a weak model": (
        [" ".join(RNG.choices(NOUNS, k=4 + number % 30)) for number in range(150)],
        [f"{line} &amp; more" for line in REFERENCES],
    ),
    "quoted speech": (GOOD, [f'"{line}"' for line in REFERENCES]),
    "autoencoder": (GOOD, REFERENCES, REFERENCES),
    "ellipses": ([f"{line.rstrip('.')}" for line in GOOD], [f"{line.rstrip('.')}…" for line in REFERENCES]),
    "entities": ([line.replace("'", "&apos;") for line in GOOD], [f"&apos;{line}" for line in REFERENCES]),
    "one sentence": (GOOD[:1], REFERENCES[:1], SOURCES[:1]),
    "ten wrong numbers": ([" ".join(str(9000 + number * place) for place in range(10)) for number in range(150)], GOOD),
    "hardly a right word": (GARBLED, REFERENCES),
}


TRUE_OF_THEM = {
    "speakers": ["'Agent: '"],
    "terse answers": ["'The capital of that country is '", "references lack a punctuation mark"],
    "unknown words": ["have unknown words, and so do references"],
    "a weak dialogue": ["'Amy: '"],
    "quoted speech": ["references begin with '\"'"],
    "ellipses": ["NFKC"],
    "entities": ["it's"],
    "references in HTML of a weak model": ["no nearer to their own references"],
    "no end": ["more than 1.5 times as long"],
    "ten wrong numbers": ["no nearer to their own references"],
    "hardly a right word": ["no nearer to their own references"],
}
"""What is said of right answers because both sides differ, or because it counts as right."""


@pytest.mark.parametrize("name", RIGHT)
def test_right_answers_that_look_odd_have_only_true_findings(name: str) -> None:
    metric = {"bleu": CorpusBLEU(), "chrf": CorpusCHRF(), "wer": WER(), "rouge": ROUGE(["rouge1"])}
    hypotheses, references, sources = (*RIGHT[name], None)[:3]
    results, said = evaluate(hypotheses, references, sources, metric)
    expected = TRUE_OF_THEM.get(name, [])
    messages = [finding.message for finding in results.findings]
    assert len(messages) == len(expected), messages
    assert all(part in message for part, message in zip(expected, messages)), messages
    assert said == [finding.message for finding in results.findings if finding.is_warning]


def test_a_letter_of_maltese_is_no_mark_of_subwords() -> None:
    hypotheses, references = ["Ġorġ mar lejn il-Ġermanja f'Ġunju"] * 40, ["Ġorġ mar l-Ġermanja f'Ġunju"] * 40
    assert evaluate(hypotheses, references)[0].findings == []


def test_lists_of_tokens_and_the_tokenizer_none_are_pieces_on_purpose() -> None:
    pieces = [cut(line, "@@") for line in REFERENCES[:30]]
    assert evaluate(pieces, pieces, metric=CorpusBLEU(tokenizer="none"))[0].findings == []
    tokens = [line.split() for line in pieces]
    assert evaluate(tokens, tokens)[0].findings == []


@pytest.mark.long
def test_real_text_has_no_warning_but_about_unknown_words_of_one_system(wmt22: Path, multi30k: Path) -> None:
    pairs = [*real_pairs(wmt22, multi30k)]
    assert len(pairs) > 15
    for (hypotheses, references), options in pairs:
        lines, targets = read_lines(hypotheses), read_lines(references)
        metrics = read_metrics({"bleu": CorpusBLEU(**options), "chrf": CorpusCHRF()})
        found = find_findings(lines, [[target] for target in targets], metrics=metrics)
        warned = [finding.message for finding in found if finding.is_warning]
        is_other_language = hypotheses.parent == multi30k
        has_unknown = "Lan-Bridge" in hypotheses.name and ["'<unk>'" in message for message in warned] == [True]
        assert is_other_language or has_unknown or not warned, (hypotheses.name, warned)


def test_code_and_documentation_as_text_have_no_findings() -> None:
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("lightning_bleu/*.py"), *ROOT.glob("tests/*.py")]
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    RNG.shuffle(lines)
    metrics = read_metrics({"bleu": CorpusBLEU(), "wer": WER(), "rouge": ROUGE(["rouge1"])})
    assert len(lines) > 7000
    for start in range(0, 8000, 1000):
        texts = lines[start : start + 1000]
        hypotheses = [replace_words(line, 0.1) for line in texts]
        assert find_findings(hypotheses, [[line] for line in texts], texts, metrics=metrics) == []


def test_the_documentation_has_a_row_for_each_finding_with_an_example_of_it() -> None:
    page = (ROOT / "docs/reading_the_dashboard.md").read_text(encoding="utf-8")
    rows = re.findall(r'^\| \[([a-z-]+)\]\{#([a-z-]+)\} \| "(.*?)" \|', page, flags=re.MULTILINE)
    assert [row[:2] for row in rows] == [(key, key) for key in KEYS]
    for key, _, example in rows:
        cases: list[Any] = [*MISTAKES[key].values()]
        found = (find_findings(lines, [[line] for line in targets], *more) for lines, targets, *more in cases)
        assert any(html.unescape(example) in finding.message for findings in found for finding in findings), key


def test_counts_are_those_of_the_quoted_string_in_all_sentences() -> None:
    hypotheses = [f"{line} ###" if number % 3 else line for number, line in enumerate(GOOD * 14)]
    finding = find_findings(hypotheses, [[line] for line in REFERENCES * 14], has_index=True)[0]
    assert finding.message.startswith("1,400 of 2,100 hypotheses end with ' ###', and no references do, as in ")


@pytest.mark.parametrize(("share", "is_warning"), [(0.2, False), (0.5, True)])
def test_what_few_lines_have_is_a_note_unless_it_is_a_special_token(share: float, is_warning: bool) -> None:
    for mark, warns in (("»", is_warning), ("<unk>", True)):
        hypotheses = [f"{mark} {line}" if number < share * 150 else line for number, line in enumerate(GOOD)]
        findings = find_findings(hypotheses, [[line] for line in REFERENCES])
        assert [finding.is_warning for finding in findings if repr(f"{mark} ") in finding.message] == [warns]


def test_a_group_has_findings_of_its_own_if_it_has_100_sentences() -> None:
    for size in (99, 100):
        evaluator = Evaluator(CorpusBLEU())
        evaluator.start({"news": None, "talks": None})
        labels = ["de"] * size + ["fr"] * 400
        hypotheses = [f"{line} ¤" if label == "de" else line for label, line in zip(labels, REFERENCES * 4)]
        evaluator.update(hypotheses, (REFERENCES * 4)[: len(labels)], group=labels, index=range(len(labels)))
        evaluator.update(REFERENCES, REFERENCES, group=["de"] * 150, index=range(150), dataloader_idx=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            findings = evaluator.finish(0).findings
        places = {finding.where for finding in findings if "¤" in finding.message}
        assert places <= {"news", "news/de"}
        assert ("news/de" in places) == (size == 100)


def test_samples_and_the_order_of_batches_change_no_finding() -> None:
    hypotheses, references = [f"{line} </s>" for line in GOOD * 20], REFERENCES * 20
    expected = None
    for samples in (3, 0):
        for seed in range(2):
            evaluator = Evaluator(CorpusBLEU(), samples=samples)
            evaluator.start()
            batches = [range(start, min(start + 7, 3000)) for start in range(0, 3000, 7)]
            random.Random(seed).shuffle(batches)
            for batch in batches:
                preds, target = [hypotheses[number] for number in batch], [references[number] for number in batch]
                evaluator.update(preds, target, index=batch)
            with pytest.warns(UserWarning, match="</s>"):
                findings = evaluator.finish(0).findings
            expected = expected or findings
            assert findings == expected != []


def find_in_processes(parts: Sequence[Sequence[int]]) -> list[Finding]:
    """What is found if each process sees a part of 2,400 sentences of which half have a special token."""
    shares = []
    for part in parts:
        counting = Counting(max_texts=2000)
        for start in range(0, len(part), 7):
            batch = part[start : start + 7]
            preds = [f"{GOOD[number % 150]}{' </s>' * (number % 2)}" for number in batch]
            count(counting, preds, [REFERENCES[number % 150] for number in batch], index=batch)
        shares.append(counting.collector.close())
    return counting.collector.join(shares).find_findings(counting.metrics)


def test_findings_do_not_depend_on_processes() -> None:
    numbers = range(2400)
    expected = find_in_processes([numbers])
    assert expected[0].message.startswith("1,000 of 2,000 hypotheses end with ' </s>'")
    for processes, size in ((2, 1200), (3, 800)):
        strided = [numbers[rank::processes] for rank in range(processes)]
        contiguous = [numbers[start : start + size] for start in range(0, 2400, size)]
        for parts in (strided, contiguous[::-1]):
            assert find_in_processes(parts) == expected


def test_ids_that_nothing_decodes_have_no_findings_unless_all_are_empty() -> None:
    ids, begun = [[number, 7, 8, 9] for number in range(150)], [[2, 7, 8, 9]] * 150
    assert evaluate(ids, ids, size=150)[0].findings == []
    [finding] = evaluate(begun, ids, metric=CorpusBLEU(eos_id=2), size=150)[0].findings
    assert finding.message.startswith("150 of 150 hypotheses are empty.")


@pytest.mark.long
def test_findings_do_not_depend_on_the_seed_of_hashes() -> None:
    program = (
        "from tests.evaluation.test_findings import GOOD, REFERENCES\n"
        "from lightning_bleu.evaluation.texts.findings import find_findings\n"
        "rows = [[line] for line in REFERENCES]\n"
        "print(find_findings([f'{line.lower()} <a> {{}} [bc]' for line in GOOD], rows))\n"
        "print(find_findings([line.replace('e', 'é') for line in GOOD[1:] + GOOD[:1]], rows))\n"
    )
    printed = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        printed.add(done.stdout)
    assert len(printed) == 1


def load_benchmark() -> ModuleType:
    specification = importlib.util.spec_from_file_location("benchmark_of_findings", ROOT / "benchmarks/findings.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


@pytest.mark.long
def test_most_mistakes_in_text_of_the_repository_are_explained() -> None:
    benchmark = load_benchmark()
    text = (ROOT / "docs/callback.md").read_text(encoding="utf-8")
    lines = [line for line in re.split(r"(?<=[.:]) |\n", text) if len(line.split()) > 5 and line.isascii()][:100]
    good = [replace_words(line, 0.1) for line in lines]
    measured = benchmark.measure(benchmark.Corpus(good, lines), 1.0)
    assert len(measured.explained) > 0.8 * measured.mistakes, measured.silent


@pytest.mark.long
def test_mistakes_in_real_text_are_explained(wmt22: Path, multi30k: Path) -> None:
    benchmark = load_benchmark()
    totals = benchmark.measure_mistakes(wmt22.parent)
    assert all(totals[case] >= floor for case, floor in benchmark.FLOORS.items())
    assert multi30k.parent == wmt22.parent
