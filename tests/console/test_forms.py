"""Forms for people: amounts in their units, the changes that are shown before they are saved, names of signer types."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from relaydeck.console.forms import Input, inputs_of
from relaydeck.networks.model import Network
from relaydeck.notifications.model import Notification
from relaydeck.quantities import parse_wei, write_wei
from relaydeck.relayers.model import Relayer
from relaydeck.signers.signer_types import SHAPES
from tests.console.conftest import Operator, plain
from tests.console.test_changes import EDIT, FORM, record
from tests.console.test_network_form import fields, problems
from tests.support.running import Answer, Running
from tests.support.seeding import issue

EXPECTED = "Enter an amount such as 0.5 ETH or 50 gwei."


@pytest.mark.parametrize(
    ("text", "wei"),
    [
        ("0.5", 5 * 10**17),
        ("0.5 ETH", 5 * 10**17),
        (" 0.5eth ", 5 * 10**17),
        ("50 gwei", 50 * 10**9),
        ("1.5 Gwei", 1_500_000_000),
        ("2e18 wei", 2 * 10**18),
        ("2.5e1 gwei", 25 * 10**9),
        ("1,234.5 ETH", 1_234_500 * 10**15),
        ("0.123456789012345678", 123_456_789_012_345_678),
        ("123456789012345678901234567890 wei", 123_456_789_012_345_678_901_234_567_890),
        ("0", 0),
        ("", None),
        ("much", None),
        ("-1 ETH", None),
        ("0,5 ETH", None),  # a comma is no point
        ("1.5 wei", None),
        ("0.1234567890123456789 ETH", None),
        ("1 POL", None),
        ("1e400 wei", None),
        ("1000000000000000000", None),  # meant in Wei?
        ("٣ ETH", None),
    ],
)
def test_an_amount_is_understood_exactly_or_not_at_all(text: str, wei: int | None) -> None:
    assert parse_wei(text, "coin", "ETH") == wei


def test_a_number_alone_is_in_the_unit_of_its_field() -> None:
    assert [parse_wei("50", unit, "POL") for unit in ("coin", "gwei")] == [50 * 10**18, 50 * 10**9]


@pytest.mark.parametrize(
    ("wei", "unit", "text"),
    [
        (0, "coin", "0"),
        (5, "coin", "5 wei"),
        (5, "gwei", "0.000000005 gwei"),
        (200_000_000, "gwei", "0.2 gwei"),
        (10**9, "coin", "0.000000001 POL"),
        (12 * 10**18 + 1, "coin", "12.000000000000000001 POL"),
        (100 * 10**18, "coin", "100 POL"),
        (1_500_000_000, "gwei", "1.5 gwei"),
    ],
)
def test_an_amount_is_written_as_it_is_read(wei: int, unit: str, text: str) -> None:
    assert write_wei(wei, unit, "POL") == text
    assert parse_wei(text, unit, "POL") == wei


def test_an_amount_shows_its_wei_unless_it_is_typed_in_them() -> None:
    typed = [Input("min_balance", "amount", "", each, unit="coin").wei for each in ("0.5", "5 wei", "much", "0")]
    assert typed == [5 * 10**17, None, None, 0]


def sent(operator: Operator, page: Answer, button: str = "plan", **typed: str) -> Answer:
    return operator.post(EDIT, fields(page) | typed | {"do": button})


def changes(answer: Answer) -> list[str]:
    """The lines of the diff."""
    shown = answer.body.decode().partition('aria-label="Changes"')[2].partition("</form>")[0]
    return [plain(answer._replace(body=each.encode())) for each in re.findall("<li>(.*?)</li>", shown)]


def set_amounts(served: Running, **policies: int | None) -> None:
    assert served.ask("PATCH", "/admin/v1/relayers/sepolia-1", {"policies": policies}).status == 200


def test_the_changes_of_a_relayer_are_shown_in_its_units_before_they_are_saved(
    served: Running, operator: Operator
) -> None:
    set_amounts(served, gas_price_cap=100 * 10**9, min_balance=0)
    before, page = record(served, "relayers/sepolia-1"), operator.get(EDIT)
    assert [fields(page)[f"policies.{each}"] for each in ("gas_price_cap", "min_balance")] == ["100 gwei", "0"]
    assert "= 100,000,000,000 wei" in plain(page)
    typed = {"policies.gas_price_cap": "2e10 wei", "policies.min_balance": "0.5", "labels": "team=payments"}
    shown = sent(operator, page, **typed)
    assert (shown.status, changes(shown)) == (
        200,
        [
            "Labels: unset → team=payments",
            "Gas price cap: 100 gwei → 20 gwei",
            "Minimum balance: 0 → 0.5 ETH",
        ],
    )
    assert '<span class="amount" title="500,000,000,000,000,000 Wei">0.5 ETH</span>' in shown.body.decode()
    assert record(served, "relayers/sepolia-1") == before
    again = sent(operator, shown, "back")
    assert {name: fields(again)[name].strip() for name in typed} == typed
    assert sent(operator, shown, "save").headers["location"] == "/console/relayers/sepolia-1?done=saved"
    policies = record(served, "relayers/sepolia-1")["policies"]
    assert (policies["gas_price_cap"], policies["min_balance"]) == (20 * 10**9, 5 * 10**17)
    set_amounts(served, min_balance=0)


def test_a_wrong_amount_says_what_to_enter_at_its_field(operator: Operator) -> None:
    typed = {"policies.gas_price_cap": "much", "policies.min_balance": "500000000000000000"}
    answer = sent(operator, operator.get(EDIT), **typed)
    assert (answer.status, problems(answer)) == (400, {f"policies.{each}": EXPECTED for each in _AMOUNTS})


_AMOUNTS = ("min_balance", "gas_price_cap")


def test_amounts_are_in_the_coin_of_the_network(served: Running, operator: Operator) -> None:
    network = {"name": "pol", "network_type": "evm", "chain_id": 137, "native_symbol": "POL"}
    assert served.ask("POST", "/admin/v1/networks", network).status == 201
    form = {key: value for key, value in FORM.items() if key != "custom_rpc_urls"} | {"id": "on-pol", "network": "pol"}
    form |= {"network_type": "evm"}
    refused = operator.post("/relayers", form | {"policies.min_balance": "1 ETH"})
    assert problems(refused) == {"policies.min_balance": EXPECTED.replace("ETH", "POL")}
    assert operator.post("/relayers", form | {"policies.min_balance": "1 pol"}).status == 303
    assert fields(operator.get("/relayers/on-pol/edit"))["policies.min_balance"] == "1 POL"
    assert served.ask("DELETE", "/admin/v1/relayers/on-pol").status == 200


def test_the_tips_of_a_network_are_in_gwei(served: Running, operator: Operator) -> None:
    path = "/networks/sepolia/edit"
    page = operator.get(path)
    shown = operator.post(path, fields(page) | {"tip_floor": "0.2", "tip_ceiling": "0.1 ETH", "do": "plan"})
    assert changes(shown) == [
        "Tip floor: unset → 0.2 gwei",
        "Tip ceiling: unset → 100000000 gwei",
    ]
    assert operator.post(path, fields(shown) | {"do": "save"}).status == 303
    found = record(served, "networks/sepolia")
    assert (found["tip_floor"], found["tip_ceiling"]) == (200_000_000, 10**17)


def test_the_form_of_a_relayer_is_grouped(operator: Operator) -> None:
    page = operator.text("/relayers/new")
    assert re.findall("<legend>(.*?)</legend>", page) == ["Identity", "Key", "Nodes", "Policies", "Alerts"]
    labels = plain(operator.get("/relayers/new"))
    assert "EIP-1559 pricing" in labels and "Allowed receivers" in labels and "whitelist" not in labels


@pytest.mark.parametrize(
    ("form", "line", "warned"),
    [
        ({"key": "keep"}, None, False),
        ({"key": "replace", "signing_key": "x" * 23}, "replaced by the one that was typed", True),
        ({"key": "replace", "signing_key": "x" * 24}, "replaced by the one that was typed", False),
        ({"key": "generate"}, "replaced by a random one, which is shown once", False),
        ({"key": "remove"}, "removed: events are no longer signed", False),
    ],
)
def test_the_changes_of_a_notification_show_what_happens_to_its_key(
    served: Running, operator: Operator, form: dict[str, str], line: str | None, warned: bool
) -> None:
    name = f"diff-{form['key']}-{len(form.get('signing_key', ''))}"
    document: dict[str, Any] = {"id": name, "type": "webhook", "url": "https://one.example/", "signing_key": "planted"}
    assert served.ask("POST", "/admin/v1/notifications", document).status == 201
    path = f"/notifications/{name}"
    typed = {"etag": record_etag(served, path), "url": "https://two.example/"} | form
    shown = operator.post(path, typed)
    both = "; for a day, the present one signs as well"
    expected = [] if line is None else [f"Signing key: {line}{'' if form['key'] == 'remove' else both}"]
    assert changes(shown) == ["URL: https://one.example → https://two.example", *expected]
    assert (form.get("signing_key", "planted") in shown.body.decode(), "may be guessed" in plain(shown)) == (
        False,
        warned,
    )
    assert record(served, f"notifications/{name}")["url"] == "https://one.example/"
    assert operator.post(path, fields(shown) | {"do": "save"}).status in (200, 303)
    now = record(served, f"notifications/{name}")
    assert (now["url"], now["has_signing_key"]) == ("https://two.example/", form["key"] != "remove")


def test_a_random_signing_key_is_made_for_a_new_notification(served: Running, operator: Operator) -> None:
    form = {"id": "random", "url": "https://one.example/", "key": "generate"}
    refused = operator.post("/notifications", form | {"signing_key": "x" * 30})
    assert (refused.status, "another choice was made" in plain(refused)) == (400, True)
    page = operator.post("/notifications", form).body.decode()
    (key,) = re.findall(r"<code>(whsec_[A-Za-z0-9+/]{43}=)</code>", page)
    assert 'action="/console/notifications/random"' in page
    assert record(served, "notifications/random")["has_signing_key"] is True
    assert key not in operator.text("/notifications/random")


def record_etag(served: Running, path: str) -> str:
    return served.ask("GET", f"/admin/v1{path}").headers["etag"]


def test_the_labels_of_a_signer_are_edited(served: Running, operator: Operator) -> None:
    document = {"id": "labelled", "type": "provider_b_kms", "labels": {"env": "prod", "team": "a"}}
    config = {"key": {"name": "ops"}, "service_account": {"client": "x"}}
    assert served.ask("POST", "/admin/v1/signers", document | {"config": config}).status == 201
    page = operator.get("/signers/labelled")
    shown = operator.post("/signers/labelled", fields(page) | {"labels": "team=b"})
    assert changes(shown) == ["Labels: env=prod, team=a → team=b"]
    assert operator.post("/signers/labelled", fields(shown) | {"do": "save"}).status == 303
    assert record(served, "signers/labelled")["labels"] == {"team": "b"}
    refused = operator.post("/signers/labelled", {"labels": "team=not valid", "etag": "*"})
    assert (refused.status, list(problems(refused))) == (400, ["labels"])


_COMMON = {"a", "an", "and", "as", "at", "by", "for", "from", "in", "is", "it", "its", "key", "of", "on", "one", "or"}
_COMMON |= {"secret", "that", "the", "this", "to", "which", "with"}
_FORMS: dict[str, type[msgspec.Struct]] = {
    "relayer": Relayer,
    "notification": Notification,
    "network": Network,
    **SHAPES,
}


@pytest.mark.parametrize("form", _FORMS)
def test_help_says_something_that_the_label_does_not(form: str) -> None:
    for each in inputs_of(_FORMS[form], leave_out=("type", "network_type", "rpc_urls", "fee_tokens")):
        said, label = (set(re.findall("[a-z]+", text.lower())) for text in (each.description, each.label))
        assert len(said - label - _COMMON) >= 3, (each.name, each.description)
        assert "_" not in each.label


def test_the_types_of_signers_are_named_by_their_drivers(operator: Operator) -> None:
    page = plain(operator.get("/signers/new"))
    assert "Local key (plain)" in page and "provider_a_kms, without a driver" in page
    assert "Local key (plain)" in plain(operator.get("/signers/ops"))


def test_a_bound_driver_names_its_type(tmp_path: Path) -> None:
    home, settings = tmp_path / "home", {"driver_provider_a_kms": "aws-kms", "driver_provider_c": "vault-kv"}
    with Running(home, token=issue(home, "root", "admin"), monitor_interval_seconds="0", **settings) as started:
        signer = {"id": "cloud", "type": "provider_a_kms", "config": {"key_id": "alias/ops", "region": "eu-west-1"}}
        assert started.ask("POST", "/admin/v1/signers", signer).status == 201
        person = Operator(started.port).sign_in(started.token)
        for path in ("/signers", "/signers/new", "/signers/cloud"):
            assert "AWS KMS (provider_a_kms)" in plain(person.get(path)), path
        assert "Vault KV (provider_c)" in plain(person.get("/signers/new?type=provider_c"))


def test_all_mistakes_of_a_new_notification_are_at_their_fields(served: Running, operator: Operator) -> None:
    typed = {"id": " ", "url": "ftp://x", "labels": "=b"}
    answer = operator.post("/notifications", typed)
    assert (answer.status, problems(answer)) == (400, {"id": "Fill this in.", "url": URL_EXPECTED, "labels": LABEL})
    taken = operator.post("/notifications", typed | {"id": "pager", "url": "https://one.example"})
    assert (taken.status, problems(taken)) == (400, {"id": "Is the id of another notification.", "labels": LABEL})


def test_all_mistakes_of_a_changed_notification_are_at_their_fields(served: Running, operator: Operator) -> None:
    typed = {"url": "ftp://x", "labels": "=b", "key": "replace", "signing_key": "", "etag": "*"}
    answer = operator.post("/notifications/pager", typed)
    assert (answer.status, problems(answer)) == (400, {"url": URL_EXPECTED, "labels": LABEL})
    group = answer.body.decode().partition("<legend>Signing key")[2].partition("</fieldset>")[0]
    assert '<p class="problem" role="alert">Type the new signing key, or choose to remove the present one.</p>' in group
    assert answer.body.decode().count('class="problem" role="alert"') == 3


URL_EXPECTED = "Must begin with http:// or https://."
LABEL = (
    '"": is not the key of a label, which must have 1 to 63 characters: letters and digits of ASCII, and between them'
    " also `-`, `_`, `.` and `/`."
)


def test_all_mistakes_of_a_new_signer_are_at_their_fields(served: Running, operator: Operator) -> None:
    typed = {"type": "provider_c", "id": "ops", "config.secret_id": "planted"}
    answer = operator.post("/signers", typed)
    assert (answer.status, problems(answer), "planted" in answer.body.decode()) == (
        400,
        {
            "id": "Is the id of another signer.",
            "config.address": "Fill this in.",
            "config.key_name": "Fill this in.",
            "config.role_id": "Fill this in.",
        },
        False,
    )
    kms = {"type": "provider_b_kms", "config.key": "no JSON", "config.service_account": '{"client": "x"}'}
    assert problems(operator.post("/signers", kms)) == {"config.key": "Enter a JSON object."}


def test_a_taken_id_of_a_relayer_is_at_its_field_with_all_other_mistakes(operator: Operator) -> None:
    typed = FORM | {"id": "sepolia-1", "network_type": "evm", "network": "nowhere"}
    answer = operator.post("/relayers", typed)
    assert (answer.status, problems(answer)) == (
        400,
        {"id": "Is the id of another relayer.", "network": "There is no such network."},
    )


def test_all_mistakes_of_a_new_token_are_at_their_fields(served: Running, operator: Operator) -> None:
    typed = {"name": " ", "kind": "emperor", "expires": "soon", "labels": "team", "addresses": "x", "rate": "many"}
    answer = operator.post("/tokens", typed)
    found = re.findall(r'role="alert" id="(\w+)-problem">(.*?)</span>', answer.body.decode())
    expected = {
        "name": "Fill this in.",
        "kind": "Choose one of api, readonly, viewer, operator, editor, owner, admin.",
        "expires": "Enter a number and a unit: 45m, 12h, 30d or 8w.",
        "labels": "Enter labels such as team=payments.",
        "addresses": "Enter addresses such as 10.0.0.5 or CIDR ranges such as 10.0.0.0/8, separated by commas.",
        "rate": "Enter a whole number of requests per second, such as 50.",
    }
    assert (answer.status, dict(found)) == (400, expected)
    taken = operator.post("/tokens", {"name": "root", "kind": "readonly"})
    assert "Is the name of another token." in plain(taken)
