"""Numbers that others have printed; each says where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lightning_bleu import corpus_bleu
from tests.helpers.corpora import read_lines


def close(value: Any) -> Any:
    return pytest.approx(value, abs=1e-9)


# Example 1 of Papineni et al. (2002), https://aclanthology.org/P02-1040, as it is in the documentation of NLTK.
CANDIDATE_1 = "It is a guide to action which ensures that the military always obeys the commands of the party"
CANDIDATE_2 = "It is to insure the troops forever hearing the activity guidebook that party direct"
REFERENCES = [
    "It is a guide to action that ensures that the military will forever heed Party commands",
    "It is the guiding principle which guarantees the military forces always being under the command of the Party",
    "It is the practical guide for the army always to heed the directions of the party",
]


@pytest.mark.parametrize(("convention", "length_ratio", "reference_length"), [("papineni", 1, 18), ("gnmt", 1.125, 16)])
def test_the_first_candidate_of_the_bleu_paper_scores_as_in_nltk(
    convention: str, length_ratio: float, reference_length: int
) -> None:
    result = corpus_bleu([CANDIDATE_1.split()], [[r.split() for r in REFERENCES]], convention=convention)
    # nltk.translate.bleu_score.sentence_bleu; the GNMT script has the same score, and the shortest reference length
    assert result.bleu == close(0.5045666840058485)
    assert result.precisions == close((17 / 18, 10 / 17, 7 / 16, 4 / 15))
    assert result.length_ratio == close(length_ratio)
    assert (result.hypothesis_length, result.reference_length) == (18, reference_length)


def test_the_second_candidate_of_the_bleu_paper_scores_0() -> None:
    result = corpus_bleu([CANDIDATE_2.split()], [[r.split() for r in REFERENCES]], convention="papineni")
    assert result.bleu == 0
    # 14 words against 16: exp(1 - 16 / 14)
    assert result.brevity_penalty == close(0.8668778997501817)
    assert result.precisions == close((8 / 14, 1 / 13, 0, 0))


def test_three_sentences_score_as_in_hugging_face_evaluate() -> None:
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
    # evaluate.load("bleu").compute(predictions=..., references=..., max_order=2)
    assert result.bleu == close(0.5037930378757725)
    assert result.precisions == close((0.7142857142857143, 0.5454545454545454))
    assert result.brevity_penalty == close(0.8071177470053892)
    assert result.length_ratio == close(0.8235294117647058)
    assert (result.hypothesis_length, result.reference_length) == (14, 17)


def test_repeated_ids_are_clipped_as_in_the_notebook_of_fastai() -> None:
    result = corpus_bleu([[1, 2, 3, 7, 5, 1, 1]], [[1, 2, 3, 4, 5, 1, 2]], convention="fastai")
    assert result.matches[0] == 5  # 1 (twice), 2, 3, and 5


def test_four_of_six_bigrams_match_in_the_lecture_about_the_cat_on_the_mat() -> None:
    result = corpus_bleu(
        ["The cat the cat on the mat"],
        [["the cat is on the mat", "there is a cat on the mat"]],
        lowercase=True,
    )
    # deeplearning.ai, Sequence Models: "the cat" is clipped to 1, "cat the" is in no reference
    assert (result.matches[1], result.possible_matches[1]) == (4, 6)


def test_online_w_at_wmt22_scores_as_in_sacrebleu(wmt22: Path) -> None:
    def read(name: str) -> list[str]:
        return read_lines(wmt22 / f"generaltest2022.en-de.{name}.de")

    references = list(zip(read("ref.A"), read("ref.B")))
    result = corpus_bleu(read("hyp.Online-W"), references, convention="sacrebleu", percent=True)
    assert round(result.bleu, 2) == 48.86  # sacrebleu --metrics bleu
