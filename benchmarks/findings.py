"""Measure how many mistakes findings explain, and what they cost: `python benchmarks/findings.py --data FOLDER`.

The folder has WMT22 and Multi30k. Each of about 140 mistakes is made in 100 sentences of each, in 60% of the lines and
in all, for a good system and for one of BLEU 5. A mistake is explained if a finding names it that the text does not
have without it; what the message says to do does not count. Prints:

- the mistakes that are explained, and asserts that they are as many as in `FLOORS`;
- how many each rule explains;
- the CPU time of findings beside that of counting BLEU, each once in a new process;
- the longest time that 2,000 hostile texts take.
"""

from __future__ import annotations

import argparse
import gc
import html
import random
import re
import subprocess
import sys
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import sacrebleu

from lightning_bleu import corpus_bleu
from lightning_bleu.evaluation.texts.findings import REMEDIES, Finding, find_findings

FLOORS = {(0.6, "good"): 240, (0.6, "weak"): 210, (1.0, "good"): 262, (1.0, "weak"): 237}
"""How many mistakes must be explained, by the share of wrong lines and the kind of system."""
MAX_RATIO = 3.0
"""How many times the CPU time of counting BLEU findings may take."""
MAX_SECONDS = 3.0
"""How long hostile texts may take."""
WEAK = 5.0
"""The BLEU of a weak system."""


class Corpus(NamedTuple):
    """Hypotheses, the references of each, and sources, if there are any."""

    hypotheses: Sequence[str]
    references: Sequence[str | list[str]]
    sources: Sequence[str] | None = None


def find(corpus: Corpus) -> list[Finding]:
    """What stands out."""
    rows = [row if isinstance(row, list) else [row] for row in corpus.references]
    count = min(len(rows), len(corpus.hypotheses))  # a mistake may have lost a line
    return find_findings(corpus.hypotheses[:count], rows[:count], corpus.sources and corpus.sources[:count])


def statement_of(finding: Finding) -> str:
    """The key and the message without what to do.

    Example:
        >>> statement_of(Finding("leak", f"9 of 9 hypotheses equal their reference. {REMEDIES['leak']}"))
        'leak: 9 of 9 hypotheses equal their reference.'
    """
    remedy = max((remedy for remedy in REMEDIES.values() if finding.message.endswith(f". {remedy}")), key=len)
    return f"{finding.key}: {finding.message.removesuffix(f' {remedy}')}"


def without_numbers(statement: str) -> str:
    """What a statement says, whatever the numbers and the examples."""
    return re.sub(r"\d[\d,]*|, and .*", "", statement, flags=re.DOTALL)


# Corpora


def read(path: Path) -> list[str]:
    """The first 2,000 lines of a file."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")[:2000]


def degrade(hypotheses: Sequence[str], references: Sequence[str], score: float) -> list[str]:
    """Hypotheses with words replaced by random words of the references, down to a BLEU score."""
    words = [word for line in references for word in line.split()]

    def replace(share: float) -> list[str]:
        rng = random.Random(0)
        return [
            " ".join(rng.choice(words) if rng.random() < share else word for word in line.split())
            for line in hypotheses
        ]

    low, high = 0.0, 1.0
    for _ in range(7):
        share = (low + high) / 2
        if sacrebleu.corpus_bleu(replace(share)[:500], [references[:500]]).score > score:
            low = share
        else:
            high = share
    return replace(share)


def read_corpora(data: Path) -> dict[str, tuple[list[str], list[str], list[str] | None]]:
    """A system of WMT22, and English captions of Multi30k in which some words are replaced."""
    wmt22 = data / "wmt22"
    captions = read(data / "multi30k/train.en")
    return {
        "WMT22": (
            read(wmt22 / "generaltest2022.en-de.hyp.Online-W.de"),
            read(wmt22 / "generaltest2022.en-de.ref.A.de"),
            None,
        ),
        "Multi30k": (degrade(captions, captions, 45), captions, read(data / "multi30k/train.de")),
    }


def make_systems(
    hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str] | None, size: int
) -> dict[str, Corpus]:
    """A good system and a weak one."""
    weak = degrade(hypotheses, references, WEAK)
    first_sources = None if sources is None else sources[:size]
    return {
        "good": Corpus(hypotheses[:size], references[:size], first_sources),
        "weak": Corpus(weak[:size], references[:size], first_sources),
    }


# Mistakes in lines

WORDS = ["der", "die", "und", "in", "den", "von", "zu", "das", "mit", "sich", "des", "auf", "für", "ist", "im", "dem"]
WORDS += ["nicht", "ein", "Die", "eine"]
RNG = random.Random(0)
UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"})
OTHER_LANGUAGE = str.maketrans("abcdefghijklmnopqrstuvwxyz", "eqdfigholjmknyprstvwubcxza")
LANGUAGES = ["__eng_Latn__ {}", "eng_Latn {}", "en_XX {}", "[en_XX] {}", "__en__ {}", "<2en> {}", "<en> {}"]
LANGUAGES += [">>eng<< {}", "{} en_XX"]
SUBWORDS = {"BPE": "@@", "WordPiece": "##", "SentencePiece": "\u2581", "byte BPE": "\u0120"}
TOKENS = ["</s>", " <end>", "<pad>", " [SEP]", "<|im_end|>", "<|2.00|>"]
SIDES = ("hypotheses", "references", "both")


def draw(count: int) -> str:
    """Random words."""
    return " ".join(RNG.choice(WORDS) for _ in range(count))


def cut_words(line: str, mark: str) -> str:
    """A line in pieces of four characters.

    Example:
        >>> cut_words("a sentence", "@@"), cut_words("a sentence", "##"), cut_words("a sentence", "_")
        ('a sent@@ ence', 'a sent ##ence', '_a _sent ence')
    """
    pieces = [[word[start : start + 4] for start in range(0, len(word), 4)] for word in line.split()]
    if mark == "@@":
        return " ".join("@@ ".join(word) for word in pieces)
    if mark == "##":
        return " ".join(" ##".join(word) for word in pieces)
    return " ".join(mark + " ".join(word) for word in pieces)


def with_value(change: Callable[[str, str], str], value: str) -> Callable[[str, int], str]:
    """A change of lines with a second argument."""
    return lambda line, _: change(line, value)


def tokenize(line: str) -> str:
    """A line as Moses tokenizes it."""
    line = re.sub(r"([.,!?;:()\"“”„])", r" \1 ", line)
    line = re.sub(r"(\w)'(\w)", r"\1 '\2", line)
    line = line.replace("n 't", " n't").replace("-", " @-@ ")
    return " ".join(line.split())


class LineMistake(NamedTuple):
    """A mistake in single lines.

    Attributes:
        name: its name.
        side: in which texts it is.
        change: makes it in a line with a number.
        pattern: what a finding says that names it.
        in_all: whether it is in all lines, or does not exist.
    """

    name: str
    side: str
    change: Callable[[str, int], str]
    pattern: str
    in_all: bool = False


def list_line_mistakes() -> Iterator[LineMistake]:
    """Mistakes in single lines."""

    def of_hypotheses(name: str, change: Callable[[str, int], str], pattern: str = "one-sided") -> LineMistake:
        return LineMistake(name, "hypotheses", change, pattern)

    def of_references(name: str, change: Callable[[str, int], str], pattern: str = "one-sided") -> LineMistake:
        return LineMistake(name, "references", change, pattern)

    def of_both(name: str, change: Callable[[str, int], str], pattern: str) -> LineMistake:
        return LineMistake(name, "both", change, pattern)

    def cut(count: int) -> Callable[[str, int], str]:
        return lambda line, _: " ".join(line.split()[:count])

    yield of_hypotheses("loops", lambda line, _: line + " and a man" * 10, "loops|one-sided.*and a man")
    yield of_hypotheses("loops, cut off", lambda line, _: line + " the cat" * 9 + " the c", "loops|one-sided.*the cat")
    yield of_hypotheses("too long", lambda line, _: f"{line} {draw(60)}", "loops")
    yield of_hypotheses("empty", lambda line, _: "", "empty")
    yield of_hypotheses("same output", lambda line, _: "Ein Mann sitzt auf einer Bank.", "same")
    yield LineMistake("limit of 10 words", "hypotheses", cut(10), "limit", in_all=True)
    yield LineMistake("limit of 60 characters", "hypotheses", lambda line, _: line[:60], "limit", in_all=True)
    yield LineMistake("references of 12 words", "references", cut(12), "limit", in_all=True)
    yield LineMistake("both cut to 8 words", "both", cut(8), "limit", in_all=True)
    yield of_both("prompt without sources", lambda line, _: f"Translate English to German: {line}", "both|prompt")
    yield of_hypotheses("chat", lambda line, _: f"Sure! Here is the translation:\n{line}")
    yield of_hypotheses("prompt", lambda line, _: f"Translate English to German: {line}")
    for kind, mark in SUBWORDS.items():
        for side in SIDES:
            yield LineMistake(f"{kind}, {side}", side, with_value(cut_words, mark), "one-sided|both-sides")
    for token in TOKENS:
        for side in SIDES:
            yield LineMistake(f"{token}, {side}", side, with_value(str.__add__, token), "one-sided|both-sides")
    yield of_both("[CLS]", lambda line, _: f"[CLS] {line} [SEP]", "both-sides")
    yield of_hypotheses("unknown words", lambda line, _: f"{line} <unk>")
    yield of_hypotheses(
        "unknown words \u2047", lambda line, _: " ".join("\u2047" if len(word) > 9 else word for word in line.split())
    )
    yield of_hypotheses("padding", lambda line, _: line + " <pad>" * 20, "one-sided|loops")
    yield of_hypotheses("after the end", lambda line, _: f"{line}</s> {draw(9)}")
    for form in LANGUAGES:
        for side in SIDES:
            yield LineMistake(
                f"{form}, {side}", side, with_value(lambda line, form: form.format(line), form), "one-sided|both-sides"
            )
    yield of_hypotheses(
        "wrong encoding", lambda line, _: line.encode().decode("cp1252", "replace"), "changed|one-sided"
    )
    yield of_references(
        "wrong encoding, references", lambda line, _: line.encode().decode("latin-1"), "changed|one-sided"
    )
    yield of_hypotheses("str(bytes)", lambda line, _: str(line.encode()))
    yield of_hypotheses("str(list)", lambda line, _: str([line]))
    yield of_hypotheses("str(list of words)", lambda line, _: str(line.split()))
    yield of_hypotheses("lower case", lambda line, _: line.lower(), "one-sided.*case")
    yield of_hypotheses("upper case", lambda line, _: line.upper(), "one-sided.*case")
    yield of_references("lower case, references", lambda line, _: line.lower(), "one-sided.*case")
    yield of_hypotheses("lower first letter", lambda line, _: line[:1].lower() + line[1:], "case")
    unpunctuated = "punctuation|one-sided.*'[.,]"
    yield of_hypotheses("no punctuation", lambda line, _: re.sub(r"[^\w\s]", "", line), unpunctuated)
    yield of_references("no punctuation, references", lambda line, _: re.sub(r"[^\w\s]", "", line), unpunctuated)
    yield of_hypotheses("no final period", lambda line, _: line.rstrip("."), "punctuation|one-sided.*'[.]")
    yield of_references(
        "full-width punctuation",
        lambda line, _: line.replace(".", "。").replace(",", "，"),
        "one-sided.*[。，]|changed|punctuation",
    )
    yield of_hypotheses("thinking", lambda line, _: f"<think>\nhm {draw(9)}\n</think>\n\n{line}", "think")
    yield of_hypotheses("entities", lambda line, _: html.escape(line).replace(",", "&#44;"), "entit|one-sided.*&")
    yield of_references(
        "entities, references", lambda line, _: html.escape(line).replace(",", "&#44;"), "entit|one-sided.*&"
    )
    yield of_hypotheses(
        "entities of Moses",
        lambda line, _: line.replace("'", " &apos;").replace('"', " &quot; "),
        "entit|one-sided.*&",
    )
    yield of_hypotheses("NFD", lambda line, _: unicodedata.normalize("NFD", line), "changed|marks")
    yield of_references(
        "NFKC of hypotheses",
        lambda line, _: line.replace("...", "…").replace(" 5", " ½").replace("fi", "ﬁ").replace(" 2", "\u00a02"),
        "changed|one-sided",
    )
    yield of_hypotheses("soft hyphens", lambda line, _: line.replace("a", "\u00ada"), "changed|one-sided")
    yield of_references("no-break spaces", lambda line, _: line.replace(" ", "\u00a0"), "changed|one-sided")
    yield of_hypotheses(
        "curly quotes",
        lambda line, _: line.translate(str.maketrans("\"'„,", "\u201d\u2019\u201d\u2019")),
    )
    yield of_hypotheses("umlauts as ae", lambda line, _: line.translate(UMLAUTS), "one-sided|changed")
    yield of_hypotheses("numbers of fairseq", lambda line, number: f"H-{number}\t-0.31\t{line}")
    yield of_hypotheses("a column of numbers", lambda line, number: f"{-0.2 - number % 37 / 50:.3f} {line}")
    yield of_hypotheses("Markdown", lambda line, number: f"{number + 1}. **{line}**")
    yield of_hypotheses("a note behind", lambda line, _: f"{line}\n\nNote: I translated this literally.")
    yield of_hypotheses("an opening without a colon", lambda line, _: f"The translation is {line}")
    yield of_references("nan", lambda line, number: line if number % 3 else "nan", "same|one-sided")
    yield of_references("empty references", lambda line, number: line if number % 3 else "", "empty|same")
    yield of_references("joined with |||", lambda line, _: f"{line} ||| {line}")
    yield of_references("NUM for numbers", lambda line, _: re.sub(r"\d+", "NUM", line))
    yield of_hypotheses("tokenized", lambda line, _: tokenize(line), "one-sided|nearer.*space")
    yield of_references("tokenized, references", lambda line, _: tokenize(line), "one-sided|nearer.*space")
    yield of_both("tokenized, both", lambda line, _: tokenize(line), "tokenized")
    yield of_hypotheses("first word lost", lambda line, _: " ".join(line.split()[1:]), "lack the first word")
    yield of_hypotheses(
        "last word lost", lambda line, _: " ".join(line.split()[:-1]), "lack the last word|one-sided.*at the end"
    )
    yield of_references("first word of references lost", lambda line, _: " ".join(line.split()[1:]), "lack the first")
    yield of_hypotheses("words reversed", lambda line, _: " ".join(line.split()[::-1]), "revers")
    yield of_hypotheses("characters reversed", lambda line, _: line[::-1], "revers")
    yield of_both("letters with spaces, both", lambda line, _: " ".join(line), "letters|characters")
    yield of_hypotheses("letters with spaces", lambda line, _: " ".join(line), "white space|letters|characters")
    yield of_hypotheses("no spaces", lambda line, _: line.replace(" ", ""), "white space")
    yield of_hypotheses("| for spaces", lambda line, _: line.replace(" ", "|"), r"one-sided.*\||white space")
    for mark in ("<n>", "<q>", "\\n"):
        yield of_hypotheses(
            f"{mark} for line breaks",
            with_value(lambda line, mark: line.replace(". ", f".{mark}").replace(", ", mark), mark),
            "one-sided.*n" if mark == "\\n" else mark,
        )
    yield of_both("ids before", lambda line, number: f"spk{number % 7:02}-utt{number:04} {line}", "ids")
    yield of_both("ids behind", lambda line, number: f"{line} (spk{number % 7:02}-utt{number:04})", "ids")
    yield of_hypotheses("timestamps", lambda line, number: f"<|0.00|> {line}<|{number % 9}.40|>")
    yield of_hypotheses("punctuation of another script", lambda line, _: re.sub(r"[.]$", "\u0589", line))
    yield of_both("white space around", lambda line, _: f" {line}\n", "white space|spaces")


def make_line_mistakes(corpus: Corpus, share: float) -> Iterator[tuple[str, Corpus, str]]:
    """Each mistake in a share of the lines, by its name, with what names it."""
    rng = random.Random(1)
    are_wrong = [rng.random() < share for _ in corpus.hypotheses]
    for mistake in list_line_mistakes():
        sides = []
        for side, texts in (("hypotheses", corpus.hypotheses), ("references", corpus.references)):
            lines = [str(text) for text in texts]
            if mistake.side in (side, "both"):
                numbered = enumerate(zip(lines, are_wrong))
                lines = [mistake.change(line, number) if wrong else line for number, (line, wrong) in numbered]
            sides.append(lines)
        if share == 1 or not mistake.in_all:
            yield mistake.name, Corpus(sides[0], sides[1], corpus.sources), mistake.pattern


# Mistakes in corpora


def make_corpus_mistakes(corpus: Corpus, share: float) -> Iterator[tuple[str, Corpus, str]]:
    """Mistakes of more than a line, by their names, each with what names it."""
    hypotheses, sources = list(corpus.hypotheses), corpus.sources
    references = [str(reference) for reference in corpus.references]
    size = len(hypotheses)
    rng = random.Random(1)
    for _ in range(size):
        rng.random()

    def mix(wrong: Sequence[str], lines: Sequence[str]) -> list[str]:
        return [bad if rng.random() < share else line for bad, line in zip(wrong, lines)]

    def make(name: str, wrong: Sequence[str], pattern: str) -> tuple[str, Corpus, str]:
        return name, Corpus(wrong, references, sources), pattern

    def make_references(name: str, wrong: Sequence[str | list[str]], pattern: str) -> tuple[str, Corpus, str]:
        return name, Corpus(hypotheses, wrong, sources), pattern

    yield make("one of ten", mix([hypotheses[number % 10] for number in range(size)], hypotheses), "same")
    yield make(
        "a fifth loops", [line + " so" * (40 * (number % 5 == 0)) for number, line in enumerate(hypotheses)], "loops"
    )
    moved = [number for number in range(size) if rng.random() < share]
    targets = rng.sample(moved, len(moved))
    shuffled = list(hypotheses)
    for number, target in zip(moved, targets):
        shuffled[target] = hypotheses[number]
    yield make("shuffled", shuffled, "order")
    yield make("sorted by length", sorted(hypotheses, key=len), "order")
    start = int(size * (1 - share / 1.2))
    yield make("shifted by a line", [*hypotheses[:start], *hypotheses[start + 1 :], hypotheses[start]], "order")
    if share == 1:
        yield make("leak", references, "leak")
    tenths = [[lines[number // 10] for number in range(size)] for lines in (hypotheses, references)]
    repeated_sources = None if sources is None else [sources[number // 10] for number in range(size)]
    yield "every sentence ten times", Corpus(tenths[0], tenths[1], repeated_sources), "repeats|same"
    halves = [list(lines[: size // 2]) * 2 for lines in (hypotheses, references)]
    half_sources = None if sources is None else list(sources[: size // 2]) * 2
    yield "two workers", Corpus(halves[0], halves[1], half_sources), "repeats"
    yield make("a row per caption", [hypotheses[number // 5 * 5] for number in range(size)], "repeats|same")
    for name, text in (("nan", "nan"), ("empty", "")):
        lines = [line if number % 4 else text for number, line in enumerate(references)]
        yield make_references(f"every fourth reference {name}", lines, name if not text else "same.*nan|one-sided.*nan")
    square: list[str | list[str]] = []
    for first in range(0, size - 1, 2):
        square += [references[first : first + 2], hypotheses[first : first + 2]]
    yield make_references("the square layout of sacreBLEU", square, "order|layout")
    yield make_references("words as references", [line.split() or ["x"] for line in references], "words as references")
    columns = list_columns(references)
    yield "ids with the time first", Corpus(columns, columns, sources), "order|repeats|transposed"
    counts = Counter(word for line in references for word in line.split())
    frequent = [
        [" ".join(word for word in line.split() if counts[word] > 3) for line in lines]
        for lines in (hypotheses, references)
    ]
    yield "rare words vanish", Corpus(frequent[0], frequent[1], sources), "vanish|lost"
    foreign = [line.lower().translate(OTHER_LANGUAGE) for line in hypotheses]
    half = [line if number % 2 else foreign[number] for number, line in enumerate(hypotheses)]
    yield make("a group in another language", half, "vocabulary")
    yield make("another language", mix(foreign, hypotheses), "vocabulary")
    if sources is None:
        return
    yield make("copies", mix(sources, hypotheses), "copies")
    yield make_references("source as reference", mix(sources, references), "references equal their source")
    prompted, prompted_references = (
        [f"Translate: {source} = {line}" for source, line in zip(sources, lines)] for lines in (hypotheses, references)
    )
    yield make("prompts", mix(prompted, hypotheses), "prompt|one-sided")
    yield make_references("prompts in references", mix(prompted_references, references), "prompt|one-sided")
    state = rng.getstate()
    both = mix(prompted, hypotheses)
    rng.setstate(state)
    yield "prompts in both", Corpus(both, mix(prompted_references, references), sources), "prompt"
    bare = [f"{source} {line}" for source, line in zip(sources, hypotheses)]
    yield make("sources before hypotheses", mix(bare, hypotheses), "prompt")


def list_columns(lines: Sequence[str]) -> list[str]:
    """The words of batches of lines, read down the columns."""
    columns = []
    for start in range(0, len(lines), 32):
        rows = [line.split() for line in lines[start : start + 32]]
        for place in range(max(map(len, rows))):
            columns.append(" ".join(row[place] for row in rows if place < len(row)))
    return columns[: len(lines)]


# What is measured


class Measured(NamedTuple):
    """How many mistakes are explained.

    Attributes:
        mistakes: how many there are.
        explained: those that are explained.
        silent: those that are not.
        keys: how many each rule explains.
    """

    mistakes: int
    explained: list[str]
    silent: list[str]
    keys: Counter[str]


def measure(corpus: Corpus, share: float) -> Measured:
    """Make each mistake in a share of the lines, and look for it."""
    usual = {without_numbers(statement_of(finding)) for finding in find(corpus)}
    explained, silent = [], []
    keys: Counter[str] = Counter()
    for name, wrong, pattern in (*make_line_mistakes(corpus, share), *make_corpus_mistakes(corpus, share)):
        statements = [statement_of(finding) for finding in find(wrong)]
        statements = [statement for statement in statements if without_numbers(statement) not in usual]
        right = [statement for statement in statements if re.search(pattern, statement, re.DOTALL)]
        if right:
            explained.append(name)
            keys[right[0].split(":")[0]] += 1
        else:
            silent.append(name)
    return Measured(len(explained) + len(silent), explained, silent, keys)


def measure_mistakes(data: Path, size: int = 100, *, is_verbose: bool = False) -> dict[tuple[float, str], int]:
    """Print how many mistakes are explained in each case, and which rule explains how many."""
    systems = [make_systems(*corpus, size) for corpus in read_corpora(data).values()]
    totals: dict[tuple[float, str], int] = {}
    for share, kind in FLOORS:
        parts = [measure(of_corpus[kind], share) for of_corpus in systems]
        keys: Counter[str] = sum((part.keys for part in parts), Counter())
        totals[share, kind] = sum(len(part.explained) for part in parts)
        count = sum(part.mistakes for part in parts)
        by_rule = ", ".join(f"{key} {number}" for key, number in keys.most_common())
        print(f"{share:4.0%} of lines, {kind} system: {totals[share, kind]} of {count} explained ({by_rule})")
        for part in parts if is_verbose else ():
            print(f"    silent: {', '.join(part.silent)}")
    return totals


def time_once(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, float]:
    """The CPU time of counting BLEU and of findings, when both begin."""
    gc.disable()  # as timeit does: a collection may come in either
    start = time.process_time()
    corpus_bleu(hypotheses, references)
    middle = time.process_time()
    find(Corpus(hypotheses, references))
    return middle - start, time.process_time() - middle


def measure_costs(data: Path) -> list[float]:
    """Print the CPU time of findings beside that of BLEU, each in a new process, and return the ratios."""
    ratios = []
    for name in read_corpora(data):
        command = [sys.executable, __file__, "--data", str(data), "--time", name]
        done = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() for _ in range(3)]
        bleu, findings = (min(float(row[place]) for row in done) for place in (0, 1))
        ratios.append(findings / bleu)
        print(f"{name}: BLEU {bleu:.3f} s, findings {findings:.3f} s, ratio {findings / bleu:.1f}")
    return ratios


def make_hostile_texts() -> Iterator[tuple[str, Corpus]]:
    """Texts on which careless patterns take long."""
    marks = ["<", "<|", "&amp;", "&", "a", "a ", "@@ ", "[", "{'a': ", " ", "\n", "1.", "Ã¤", "\u200b", "</s>", "__"]
    for mark in marks:
        text = mark * (2000 // len(mark))
        lines = [f"{number} {text}{number}" for number in range(2000)]
        yield repr(mark), Corpus(lines, [f"{text[:-1]}z"] * 2000)
        yield f"{mark!r} beside text", Corpus([text] * 2000, ["a reference of some length"] * 2000)
    for text in ("word " * 200_000, "a" * 10**6, "a" + "\u0301\u0316" * 500_000, "ab" * 500_000, "x\n" * 500_000):
        name = f"a million characters, {text[:5]!r}"
        yield name, Corpus([text] * 10, [f"{text[:-1]}z"] * 10, [text[:-2]] * 10)
    yield "10,000 <", Corpus(["<" * 10_000] * 2000, ["<" * 9_999] * 2000)
    rng = random.Random(0)
    alphabet = [chr(code) for code in range(0x20, 0x3000)]
    lines = ["".join(rng.choices(alphabet, k=2000)) for _ in range(2000)]
    yield "2,000 random characters", Corpus(lines, lines[::-1])


def measure_hostile_texts() -> float:
    """Print the longest time that hostile texts take, and return it."""
    seconds = {}
    for name, corpus in make_hostile_texts():
        start = time.process_time()
        find(corpus)
        seconds[name] = time.process_time() - start
    worst = max(seconds, key=seconds.__getitem__)
    print(f"Hostile texts: at most {seconds[worst]:.1f} s ({worst})")
    return seconds[worst]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and compare with what must be reached."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, help="a folder with wmt22 and multi30k")
    parser.add_argument("--size", type=int, default=100, help="how many sentences")
    parser.add_argument("--verbose", action="store_true", help="also print which mistakes are not explained")
    parser.add_argument("--time", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.time:
        hypotheses, references, _ = read_corpora(options.data)[options.time]
        print(*time_once(hypotheses, references))
        return
    totals = measure_mistakes(options.data, options.size, is_verbose=options.verbose)
    ratios = measure_costs(options.data)
    seconds = measure_hostile_texts()
    if options.size == 100:
        assert all(totals[case] >= floor for case, floor in FLOORS.items()), "too few mistakes are explained"
    assert max(ratios) <= MAX_RATIO, "findings take too long"
    assert seconds <= MAX_SECONDS, "hostile texts take too long"


if __name__ == "__main__":
    main()
