"""The table of the contract's sentences: each open one has a ruling."""

import pytest

from relaydeck.conformance.sentences import SENTENCES, Sentence
from tests.test_open_items_page import ROWS

OPEN = [sentence for sentence in SENTENCES.values() if sentence.is_open]


@pytest.mark.parametrize("sentence", OPEN, ids=lambda sentence: sentence.key)
def test_each_open_sentence_has_one_ruling(sentence: Sentence) -> None:
    assert [row[0] for row in ROWS].count(sentence.item) == 1
