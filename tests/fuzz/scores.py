"""Scores under any options, against slow formulas and the programs whose conventions the package offers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from ignite.metrics.nlp import Bleu as IgniteBleu
from nltk.translate import bleu_score as nltk_bleu  # type: ignore[import-untyped]
from sacrebleu.metrics.bleu import BLEU as SacreBLEU
from torchmetrics.functional.text import bleu_score as torchmetrics_bleu
from torchmetrics.functional.text import sacre_bleu_score as torchmetrics_sacre_bleu

from lightning_bleu import CONVENTIONS, Convention, corpus_bleu, sentence_bleu
from lightning_bleu.core.conventions import SMOOTHINGS, ZERO_RULES
from tests.fuzz.choices import Choices
from tests.fuzz.formulas import Rules, choose_length, slow_bleu
from tests.fuzz.rounds import Target, compare, compare_floats
from tests.helpers.chrf import streams
from tests.helpers.corpora import join_words
from tests.reference import bleu, corpus_statistics, statistics

_VALUES = [None, None, 0.1, 1.0, 2.5, 1e-6]
_WEIGHTS = [
    None,
    None,
    (1.0, 0.5, 0.25, 0.125, 0.1, 0.05),
    (0.1, 0.0, 2.0, 0.0, 0.0, 1.0),
    (3.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    (0.0, 0.0, 0.0, 1.0, 0.0, 0.0),
]


class ScoreCase(NamedTuple):
    """Sentences as lists of tokens, and what to score them with.

    Attributes:
        hypotheses: the hypotheses.
        references: the references of each.
        options: for the comparison with the formulas.
        peer: compares the scores with those of another program.
    """

    hypotheses: list[list[str]]
    references: list[list[list[str]]]
    options: dict[str, Any]
    peer: Callable[[ScoreCase], None]

    @property
    def sentence_count(self) -> int:
        return len(self.hypotheses)

    def describe(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return f"corpus_bleu({self.hypotheses},\n            {self.references},\n            {options})"

    def check(self) -> None:
        self._check_formulas()
        self.peer(self)

    def lines(self) -> tuple[list[str], list[list[str]]]:
        """The sentences as text."""
        return join_words(self.hypotheses, self.references)

    def _check_formulas(self) -> None:
        convention: Convention = self.options["convention"]
        order, weights = self.options["max_order"], self.options["weights"]
        value = convention.smoothing_value
        if value is None:
            value = SMOOTHINGS[convention.smoothing].default
        weights = weights or (1 / order,) * order
        rules = Rules(convention.smoothing, value or 0.0, convention.zero_rule, weights, convention.effective_order)
        rows = [self._row(*pair, order, convention) for pair in zip(self.hypotheses, self.references)]
        scores = sentence_bleu(self.hypotheses, self.references, **self.options).tolist()
        compare_floats("sentence_bleu", scores, [_score(row, rules) for row in rows])
        totals = [sum(column) for column in zip(*rows)] or [0] * (2 * order + 2)
        report = corpus_bleu(self.hypotheses, self.references, **self.options)
        compare_floats("corpus_bleu", [report.bleu], [_score(totals, rules)])

    @staticmethod
    def _row(hypothesis: list[str], references: list[list[str]], order: int, convention: Convention) -> list[int]:
        row = statistics(hypothesis, references, order)
        possible = [max(count, convention.min_possible_matches) for count in row[order:-2]]
        length = choose_length(convention.reference_length, len(hypothesis), [*map(len, references)])
        return [*row[:order], *possible, len(hypothesis), length]


def _score(row: list[int], rules: Rules) -> float:
    order = len(rules.weights)
    return slow_bleu(row[:order], row[order:-2], row[-2], row[-1], rules)


def make_case(choices: Choices) -> ScoreCase:
    """Sentences of a few words, with random options."""
    words = [f"w{number}" for number in range(choices.pick([3, 2, 8, 30]))]
    sentences = [
        [[words[symbol % len(words)] for symbol in segment] for segment in segments] for segments in choices.sentences()
    ]
    order = choices.pick([4, 1, 2, 3, 4, 6])
    smoothing = choices.pick([*SMOOTHINGS])
    value, weights = choices.pick(_VALUES), (choices.pick(_WEIGHTS) or ())[:order]
    convention = Convention(
        tokenizer="none",
        smoothing=smoothing,
        smoothing_value=value if SMOOTHINGS[smoothing].default is not None else None,
        reference_length=choices.pick(["closest", "closest-first", "shortest"]),
        effective_order=choices.byte() % 2 == 1,
        zero_rule=choices.pick([*ZERO_RULES]),
        min_possible_matches=choices.pick([0, 0, 1]),
    )
    if choices.byte() % 4 == 1:
        convention = CONVENTIONS[choices.pick([*CONVENTIONS])]
    options = {"convention": convention, "max_order": order, "weights": weights if any(weights) else None}
    options["effective_order"] = convention.effective_order  # for sentences, True is the default of sacreBLEU
    hypotheses, references = [group[0] for group in sentences], [group[1:] for group in sentences]
    return ScoreCase(hypotheses, references, options, choices.pick([*PEERS.values()]) if sentences else _no_peer)


def _no_peer(case: ScoreCase) -> None:
    """Compare nothing: other programs have no score for a corpus without sentences."""


def _check_definition(case: ScoreCase) -> None:
    expected = corpus_statistics(case.hypotheses, case.references)
    report = corpus_bleu(case.hypotheses, case.references, convention="papineni")
    counts = [*report.matches, *report.possible_matches, report.hypothesis_length, report.reference_length]
    compare("counts", counts, expected)
    compare_floats("corpus_bleu beside the definition", [report.bleu], [bleu(expected)])


def _check_sacrebleu(case: ScoreCase, smoothing: str, effective_order: bool, tokenizer: str, order: int) -> None:
    hypotheses, references = case.lines()
    peer = SacreBLEU(
        smooth_method=smoothing,
        effective_order=effective_order,
        tokenize=tokenizer,
        max_ngram_order=order,
        force=True,
    )
    theirs = peer.corpus_score(hypotheses, streams(references))
    options: Any = {"smoothing": smoothing, "tokenizer": tokenizer, "percent": True, "max_order": order}
    ours = corpus_bleu(hypotheses, references, effective_order=effective_order, **options)
    name = f"beside sacreBLEU with {options}"
    found = [ours.bleu, ours.brevity_penalty, *ours.precisions]
    compare_floats(f"corpus_bleu {name}", found, [theirs.score, theirs.bp, *theirs.precisions])
    lengths = [ours.hypothesis_length, ours.reference_length]
    compare(f"lengths {name}", lengths, [theirs.sys_len, theirs.ref_len])
    if smoothing != "add-k":  # for which sacreBLEU adds to the counts that it reports
        compare(f"counts {name}", [*ours.matches, *ours.possible_matches], [*theirs.counts, *theirs.totals])
        compare(f"line {name}", str(ours), theirs.format(signature="").replace("BLEU| =", "BLEU ="))
    both = (ours.signature, str(peer.get_signature()))
    parts = [[part for part in one.split("|") if part[:3] in {"nre", "eff", "smo", "tok"}] for one in both]
    compare(f"signature {name}", *parts)
    if effective_order:  # the default for sentences
        expected = [peer.sentence_score(line, group).score for line, group in zip(hypotheses, references)]
        scores = sentence_bleu(hypotheses, references, **options).tolist()
        compare_floats(f"sentence_bleu {name}", scores, expected)


def _check_nltk(case: ScoreCase, method: int, weights: Sequence[float]) -> None:
    hypotheses, references = case.hypotheses, case.references
    function = getattr(nltk_bleu.SmoothingFunction(), f"method{method}")
    options: Any = {"convention": "nltk", "smoothing": f"method{method}"}
    options |= {"max_order": len(weights), "weights": weights}
    theirs = nltk_bleu.corpus_bleu(references, hypotheses, weights, smoothing_function=function)
    ours = corpus_bleu(hypotheses, references, **options)
    compare_floats(f"corpus_bleu beside NLTK with {options}", [ours.bleu], [float(theirs)])
    scores = sentence_bleu(hypotheses, references, **options).tolist()
    for hypothesis, group, score in zip(hypotheses, references, scores):
        theirs = nltk_bleu.sentence_bleu(group, hypothesis, weights, smoothing_function=function)
        compare_floats(f"sentence_bleu beside NLTK with {options}", [score], [float(theirs)])


def _check_torchmetrics(case: ScoreCase, smooth: bool, order: int) -> None:
    hypotheses, references = case.lines()
    theirs = torchmetrics_bleu(hypotheses, references, n_gram=order, smooth=smooth)
    options: Any = {"max_order": order, "convention": "torchmetrics", "smoothing": "add-k" if smooth else "none"}
    ours = corpus_bleu(hypotheses, references, **options)
    # torchmetrics counts and divides in 32 bits
    compare_floats(f"corpus_bleu beside torchmetrics with {options}", [ours.bleu], [float(theirs)], tolerance=1e-5)
    references = [group[: min(map(len, references))] for group in references]  # it takes the same number for all
    theirs = torchmetrics_sacre_bleu(hypotheses, references, n_gram=order, smooth=smooth)
    ours = corpus_bleu(hypotheses, references, tokenizer="13a", **options)
    compare_floats(f"corpus_bleu beside SacreBLEUScore with {options}", [ours.bleu], [float(theirs)], tolerance=1e-5)


def _check_ignite(case: ScoreCase, smooth: str, smoothing: str) -> None:
    peer: Any = IgniteBleu(smooth=smooth, average="micro")
    peer.update((case.hypotheses, case.references))
    ours = corpus_bleu(case.hypotheses, case.references, convention="papineni", smoothing=smoothing)
    if smoothing == "none" or all(ours.possible_matches):  # Ignite counts one possible match for an order without any
        compare_floats(f"corpus_bleu beside Ignite with {smoothing}", [ours.bleu], [float(peer.compute())])


def _peers(check: Any, **choices: Sequence[Any]) -> dict[str, Callable[[ScoreCase], None]]:
    """A comparison for each combination of choices, by its name."""
    name = check.__name__.removeprefix("_check_")
    return {
        f"{name} {', '.join(map(str, some))}": partial(check, **dict(zip(choices, some)))
        for some in product(*choices.values())
    }


PEERS: Mapping[str, Callable[[ScoreCase], None]] = {
    "definition": _check_definition,
    **_peers(
        _check_sacrebleu,
        smoothing=("exp", "none", "floor", "add-k"),
        effective_order=(False, True),
        tokenizer=("none", "13a"),
        order=(4, 2),
    ),
    **_peers(_check_nltk, method=range(5), weights=[(0.25,) * 4, (0.5, 0.5), (0.5, 0.3, 0.2)]),
    **_peers(_check_torchmetrics, smooth=(False, True), order=(4, 1, 3)),
    **_peers(_check_ignite, smooth=["no_smooth"], smoothing=["none"]),
    **_peers(_check_ignite, smooth=["smooth1"], smoothing=["floor"]),
    **_peers(_check_ignite, smooth=["nltk_smooth2"], smoothing=["add-k"]),
}
"""The comparisons with other programs by name."""

TARGET = Target("scores", make_case, round_size=500)
