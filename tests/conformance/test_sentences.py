"""The table of the contract's sentences: each has its code and its test, and each open one has a ruling."""

import pytest

from pages.contract_sentences import SENTENCES, Sentence
from pages.sentences import PAGE, ROOT, marks, page
from relaydeck.conformance.probe import Check
from relaydeck.conformance.run import checks
from tests.test_open_items_page import ROWS

pytestmark = pytest.mark.slow

CODE, TESTS = ROOT / "src" / "relaydeck", ROOT / "tests"
OPEN = [sentence for sentence in SENTENCES.values() if sentence.is_open]
SHOWN = [sentence for sentence in SENTENCES.values() if not sentence.is_open]


def key(sentence: Sentence) -> str:
    return sentence.key


@pytest.mark.parametrize("sentence", OPEN, ids=key)
def test_each_open_sentence_has_one_ruling(sentence: Sentence) -> None:
    assert [row[0] for row in ROWS].count(sentence.item) == 1


@pytest.mark.parametrize("sentence", SHOWN, ids=key)
def test_each_sentence_that_the_contract_shows_is_implemented(sentence: Sentence) -> None:
    assert sentence.key in marks(CODE)


@pytest.mark.parametrize("sentence", SENTENCES.values(), ids=key)
def test_each_sentence_has_a_test(sentence: Sentence) -> None:
    assert any(place.name.startswith("test_") for place in marks(TESTS).get(sentence.key, []))


def test_code_and_tests_name_sentences_that_exist() -> None:
    assert sorted((marks(CODE).keys() | marks(TESTS).keys()) - SENTENCES.keys()) == []


@pytest.mark.parametrize("sentence", [each for each in SENTENCES.values() if not each.unseen], ids=key)
def test_each_sentence_that_a_client_can_see_has_a_check(sentence: Sentence) -> None:
    assert sentence.key in {key for check in checks() for key in check.sentences}


@pytest.mark.parametrize("check", checks(), ids=lambda check: check.name)
def test_a_check_names_sentences_of_its_own_basis(check: Check) -> None:
    assert check.sentences
    named = [SENTENCES[each] for each in check.sentences]
    assert [each.key for each in named if each.is_open != (check.basis == "ruling") or each.unseen] == []


def test_checks_have_names_of_their_own() -> None:
    names = [check.name for check in checks()]
    assert sorted(set(names)) == sorted(names)


def test_code_claims_no_open_sentence_as_the_contracts() -> None:
    assert [sentence.key for sentence in OPEN if sentence.key in marks(CODE)] == []


def test_the_page_lists_every_sentence_as_it_is_now() -> None:
    assert PAGE.read_text("utf-8") == page(), "run make docs"
