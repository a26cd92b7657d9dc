"""Search from anywhere."""

from relaydeck.secret import Secret
from relaydeck.signers import signer_changes
from relaydeck.signers.signer_types import LocalConfig, NewSigner
from tests.console.conftest import Operator, plain
from tests.support.running import Running
from tests.support.seeding import opened


def test_records_and_pages_are_found(operator: Operator) -> None:
    page = operator.get("/find?text=%20SEPOLIA-1%20")
    assert 'href="/console/relayers/sepolia-1"' in page.body.decode()
    assert 'href="/console/audit"' in operator.text("/find?text=aud")
    assert "Nothing is called so." in plain(operator.get("/find?text=nobody"))


def test_every_page_has_the_field(operator: Operator) -> None:
    assert all('action="/console/find"' in operator.text(path) for path in ("", "/relayers", "/health"))


def test_more_matches_lead_to_the_lists(served: Running, operator: Operator) -> None:
    names = [f"many-{number:02}" for number in range(21)]
    with opened(served.home) as store, store.database.transaction() as transaction:
        made = [signer_changes.prepare(NewSigner(each, "plain", LocalConfig(Secret("11" * 32)))) for each in names]
        signer_changes.insert(transaction, store.vault, made, origin="api", now=0)
    page = operator.get("/find?text=many-")
    assert "More signers match: enter a longer text, or list signers with this id." in plain(page)
    assert '<a href="/console/signers?id=many-">' in page.body.decode()


def test_more_matches_of_an_address_lead_to_no_list(served: Running, operator: Operator) -> None:
    sepolia = served.ask("GET", "/admin/v1/relayers/sepolia-1").json["data"]
    shared = {name: sepolia[name] for name in ("name", "network", "network_type", "signer_id", "address")}
    document = {"relayers": [{"id": f"same-{number:02}", **shared} for number in range(21)]}
    assert served.ask("POST", "/admin/v1/apply", {"document": document}).status == 200
    page = operator.get(f"/find?text={sepolia['address'][-6:]}")
    assert "More relayers match: enter a longer text." in plain(page)
    assert 'href="/console/relayers?' not in page.body.decode()
