"""Every hint that the open items promise about a value of a request, on both APIs: in `metadata.logs`, without it."""

from collections.abc import Iterator
from typing import Any

import pytest

from relaydeck.notifications import notification_changes
from relaydeck.notifications.model import Notification
from relaydeck.notifications.webhook_rule import REFUSED, UNREADABLE
from tests.support.running import Running
from tests.support.seeding import fill, issue, opened
from tests.support.stored_rows import create_row

CURVE_ORDER = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"
NO_KEY = "config.key is not a 32-byte hexadecimal private key, so it cannot sign"
VAULT = {"address": "https://vault.example.com", "key_name": "k", "role_id": "r", "secret_id": "s"}
TRANSIT = VAULT | {"pubkey": "p"}
KEY_SERVICE = {
    "api_private_key": "a",
    "api_public_key": "b",
    "organization_id": "o",
    "private_key_id": "p",
    "public_key": "k",
}
WALLET = {"account_address": "0x" + "ab" * 20, "api_key_id": "i", "api_key_secret": "s", "wallet_secret": "w"}
NO_URL = "config.address must begin with http:// or https://: nothing is sent there"
SIGNERS = {
    "no key": ("plain", {"key": "unusable-value"}, [NO_KEY]),
    "short key": ("plain", {"key": "0x1234"}, [NO_KEY]),
    "key beyond the curve": ("plain", {"key": CURVE_ORDER}, [NO_KEY]),
    "empty key": ("plain", {"key": ""}, ["config.key is empty"]),
    "empty region": ("provider_a_kms", {"key_id": "k", "region": ""}, ["config.region is empty"]),
    "no URL": ("provider_c", VAULT | {"address": "unusable-value"}, [NO_URL]),
    "no URL of transit": ("provider_c_transit", TRANSIT | {"address": "ftp://unusable-value"}, [NO_URL]),
    "user part": (
        "provider_c",
        VAULT | {"address": "https://unusable-value@vault.example.com"},
        ["config.address must consist of a scheme, a host, a port and a plain path: nothing is sent there"],
    ),
    "blank in a header": (
        "provider_c",
        VAULT | {"namespace": " unusable-value"},
        ["config.namespace must not be empty, and must not begin or end with a blank: nothing is sent with it"],
    ),
    "empty secret": ("provider_d", KEY_SERVICE | {"api_private_key": ""}, ["config.api_private_key is empty"]),
    "no address": (
        "provider_e",
        WALLET | {"account_address": "unusable-value"},
        ["config.account_address is not a 20-byte hexadecimal address"],
    ),
    "usable": ("plain", {"key": "0x" + "11" * 32}, []),
    "usable elsewhere": ("provider_c", VAULT, []),
}
URLS = {
    "http://127.0.0.1:9/unusable-value": [f"url {REFUSED}"],
    "http://unusable-value@LOCALHOST/": [f"url {REFUSED}"],
    "http://[::ffff:10.0.0.1]/unusable-value": [f"url {REFUSED}"],
    "http://0x7f000001/unusable-value": [f"url {REFUSED}"],
    "http://169.254.169.254/unusable-value": [f"url {REFUSED}"],
    "http://127.1/unusable-value": [f"url {UNREADABLE}"],
    "http://two..dots.example.com/unusable-value": [f"url {UNREADABLE}"],
    "https://hooks.example.com/relaydeck": [],
    "http://192.0.2.7/allowed": [],
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("hints") / "home"
    fill(home, notifications={"pager": None})
    with Running(home, token=issue(home, kind="admin"), max_per_page="5", webhook_allow="192.0.2.7") as running:
        yield running


def metadata(*messages: str) -> dict[str, Any]:
    return {"logs": [{"level": "log", "message": message} for message in messages], "traces": []}


def asked(service: Running, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    answer = service.ask(method, path, body)
    assert answer.status in (200, 201), answer.headers
    found: dict[str, Any] = answer.json["metadata"]
    assert "unusable-value" not in str(found)
    return found


@pytest.mark.parametrize("api", ["/api/v1", "/admin/v1"])
@pytest.mark.parametrize("case", SIGNERS)
def test_a_signer_that_cannot_work(service: Running, api: str, case: str) -> None:
    kind, config, hints = SIGNERS[case]
    assert asked(service, "POST", f"{api}/signers", {"type": kind, "config": config}) == metadata(*hints)


@pytest.mark.parametrize("api", ["/api/v1", "/admin/v1"])
@pytest.mark.parametrize("url", URLS)
def test_a_webhook_that_gets_no_events(service: Running, api: str, url: str) -> None:
    for _ in ("set", "set again"):
        assert asked(service, "PATCH", f"{api}/notifications/pager", {"url": url}) == metadata(*URLS[url])


@pytest.mark.parametrize("api", ["/api/v1", "/admin/v1"])
def test_no_hint_about_a_url_that_the_request_does_not_set(service: Running, api: str) -> None:
    asked(service, "PATCH", f"{api}/notifications/pager", {"url": "http://127.0.0.1/"})
    assert asked(service, "PATCH", f"{api}/notifications/pager", {"signing_key": "k"}) == metadata()


def test_a_stored_url_that_does_not_open(service: Running) -> None:
    """Until it is set again, also to the part of it that is shown."""
    path, host = "/api/v1/notifications/damaged", "https://hooks.example.com"
    with opened(service.home) as store, store.database.transaction() as transaction:
        notification = Notification("damaged", "webhook", f"{host}/unusable-value")
        create_row(notification_changes.TABLE, transaction, store.vault, notification, origin="apply", now=1)
        transaction.execute("UPDATE notifications SET sealed_url = x'0100000001' WHERE id = 'damaged'")
    damaged = "url cannot be opened: only its scheme and host are shown, and no event is sent; set it again"
    admin = "the sealed url of notifications record 'damaged' does not open"
    assert asked(service, "PATCH", path, {"signing_key": "k"}) == metadata(damaged)
    assert asked(service, "GET", "/admin/v1/notifications/damaged") == metadata(admin)
    assert asked(service, "PATCH", path, {"url": host}) == metadata()
    assert asked(service, "PATCH", path, {"signing_key": ""}) == metadata()
    assert asked(service, "GET", "/admin/v1/notifications/damaged") == metadata()


@pytest.mark.parametrize("url", URLS)
def test_a_new_webhook_that_gets_no_events(service: Running, url: str) -> None:
    document = {"id": f"new {url}", "type": "webhook", "url": url}
    assert asked(service, "POST", "/admin/v1/notifications", document) == metadata(*URLS[url])


LISTS = ["networks", "signers", "notifications", "relayers", "tokens", "audit", "events", "deliveries"]


@pytest.mark.parametrize("path", ["/api/v1/signers", "/api/v1/relayers", *(f"/admin/v1/{each}" for each in LISTS)])
def test_a_page_that_is_too_large(service: Running, path: str) -> None:
    assert asked(service, "GET", f"{path}?per_page=6") == metadata("per_page was reduced to the largest allowed, 5")
    assert asked(service, "GET", f"{path}?per_page=5") == metadata()
