"""The statistics of every sentence. Random ids and text in every form: tests/fuzz/ids.py and tests/fuzz/text.py."""

from __future__ import annotations

from tests.helpers.counting import count


def test_unknown_words_in_references_match_nothing_but_count_toward_the_length() -> None:
    # fairseq: "a unk b" against "a unk b" has two matches, and three tokens on both sides
    expected = [2, 0, 0, 0, 3, 2, 1, 0, 3, 3]  # matches, possible matches, and both lengths
    assert count([[5, 3, 6]], [[5, 3, 6]], convention="fastai", unk_id=3, max_order=4) == [expected]


def test_tokens_and_text_have_no_unknown_word() -> None:
    """Even if the internal id of a token equals the option."""
    for unk_id in (0, 1):
        assert count([["a", "b"]], [["a", "b"]], unk_id=unk_id, max_order=2) == [[2, 1, 2, 1, 2, 2]]
        assert count(["a b"], ["a b"], unk_id=unk_id, max_order=2) == [[2, 1, 2, 1, 2, 2]]


def test_a_sentence_has_at_least_the_possible_matches_of_its_convention() -> None:
    # NLTK: "a b" has two unigrams, one bigram, and at least one trigram
    assert count([[5, 6]], [[5, 7]], convention="nltk") == [[1, 0, 0, 2, 1, 1, 2, 2]]
    assert count([[]], [[5]], convention="nltk") == [[0, 0, 0, 1, 1, 1, 0, 1]]
