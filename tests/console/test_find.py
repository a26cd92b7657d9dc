"""Search from anywhere."""

from tests.console.conftest import Operator, plain


def test_records_and_pages_are_found(operator: Operator) -> None:
    page = operator.get("/find?text=%20SEPOLIA-1%20")
    assert 'href="/console/relayers/sepolia-1"' in page.body.decode()
    assert 'href="/console/audit"' in operator.text("/find?text=aud")
    assert "Nothing is called so." in plain(operator.get("/find?text=nobody"))


def test_every_page_has_the_field(operator: Operator) -> None:
    assert all('action="/console/find"' in operator.text(path) for path in ("", "/relayers", "/health"))
