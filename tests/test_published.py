"""Numbers that others have printed, by the document that they come from."""

from __future__ import annotations

from typing import Any

import pytest

from lightning_bleu import corpus_bleu


def close(value: Any) -> Any:
    return pytest.approx(value, abs=1e-9)


# Papineni et al. (2002), example 1, as NLTK prints it
CANDIDATE_1 = "It is a guide to action which ensures that the military always obeys the commands of the party"
CANDIDATE_2 = "It is to insure the troops forever hearing the activity guidebook that party direct"
REFERENCES = [
    "It is a guide to action that ensures that the military will forever heed Party commands",
    "It is the guiding principle which guarantees the military forces always being under the command of the Party",
    "It is the practical guide for the army always to heed the directions of the party",
]


@pytest.mark.parametrize(("convention", "length_ratio", "reference_length"), [("papineni", 1, 18), ("gnmt", 1.125, 16)])
def test_guide_to_action(convention: str, length_ratio: float, reference_length: int) -> None:
    result = corpus_bleu([CANDIDATE_1.split()], [[r.split() for r in REFERENCES]], convention=convention)
    assert result.bleu == close(0.5045666840058485)
    assert result.precisions == close((17 / 18, 10 / 17, 7 / 16, 4 / 15))
    assert result.length_ratio == close(length_ratio)
    assert (result.hypothesis_length, result.reference_length) == (18, reference_length)


def test_guide_to_action_second_candidate() -> None:
    result = corpus_bleu([CANDIDATE_2.split()], [[r.split() for r in REFERENCES]])
    assert result.bleu == 0
    assert result.brevity_penalty == close(0.8668778997501817)
    assert result.precisions == close((8 / 14, 1 / 13, 0, 0))


def test_guide_to_action_with_full_stops() -> None:
    def score(candidate: str) -> Any:
        stopped = [[reference + "." for reference in REFERENCES]]
        return corpus_bleu([candidate], stopped, tokenizer="none")

    first = score(CANDIDATE_1 + ".")
    assert first.precisions == close((16 / 18, 10 / 17, 7 / 16, 4 / 15))
    assert first.bleu == close(0.4969770530031034)
    second = score(CANDIDATE_2 + ".")
    assert second.precisions == close((7 / 14, 1 / 13, 0, 0))
    assert second.bleu == 0
    assert score("").bleu == 0


def test_hugging_face_evaluate_transformers() -> None:
    result = corpus_bleu(
        [
            "Transformers Transformers are fast plus efficient",
            "Good Morning",
            "I am waiting for new Transformers",
        ],
        [
            [
                "HuggingFace Transformers are quick, efficient and awesome",
                "Transformers are awesome because they are fast to execute",
            ],
            ["Good Morning Transformers", "Morning Transformers"],
            [
                "People are eagerly waiting for new Transformer models",
                "People are very excited about new Transformers",
            ],
        ],
        max_order=2,
        convention="evaluate",
    )
    assert result.bleu == close(0.5037930378757725)
    assert result.precisions == close((0.7142857142857143, 0.5454545454545454))
    assert result.brevity_penalty == close(0.8071177470053892)
    assert result.length_ratio == close(0.8235294117647058)
    assert (result.hypothesis_length, result.reference_length) == (14, 17)


def test_hugging_face_evaluate_coffee() -> None:
    result = corpus_bleu(
        ["A bold, full-flavored coffee with a slightly bitter aftertaste."],
        [
            [
                "A bold, flavorful coffee with a slightly bitter aftertaste.",
                "A rich, full-bodied coffee with a smooth finish.",
            ]
        ],
        convention="evaluate",
    )
    assert result.bleu == close(0.7016879391277371)
    assert result.precisions == close((10 / 11, 8 / 10, 6 / 9, 4 / 8))
    assert (result.hypothesis_length, result.reference_length) == (11, 10)


def test_fastai_repeated_ids() -> None:
    result = corpus_bleu([[1, 2, 3, 7, 5, 1, 1]], [[1, 2, 3, 4, 5, 1, 2]], convention="fastai")
    assert result.matches[0] == 5


def test_cat_on_the_mat() -> None:
    result = corpus_bleu(
        ["The cat the cat on the mat"],
        [["the cat is on the mat", "there is a cat on the mat"]],
        lowercase=True,
    )
    assert (result.matches[1], result.possible_matches[1]) == (4, 6)


def test_clipping() -> None:
    repeated = " ".join(["Transformers"] * 4)
    result = corpus_bleu([repeated], ["Transformers make everything quick and efficient"])
    assert result.precisions[0] == close(1 / 4)


def test_sacrebleu_wmt22_online_w(wmt22: Any) -> None:
    from tests.conftest import lines

    def read(name: str) -> list[str]:
        return lines(wmt22 / f"generaltest2022.en-de.{name}.de")

    result = corpus_bleu(
        read("hyp.Online-W"), list(zip(read("ref.A"), read("ref.B"))), convention="sacrebleu", percent=True
    )
    assert round(result.bleu, 2) == 48.86
