"""The standing attack suite names tests that exist, and SECURITY.md says what it tries."""

from tests.proofs.attack import PAGE, ROOT, SUITE, page


def test_every_module_of_the_suite_exists() -> None:
    named = [path for each in SUITE for path in (each.first, *each.others)]
    assert [path for path in named if not (ROOT / path).is_file()] == []
    assert len(named) == len(set(named))


def test_the_security_page_says_what_is_tried() -> None:
    assert PAGE.read_text("utf-8") == page(), "run make docs"
