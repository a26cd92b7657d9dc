"""A plan that was reviewed is applied as it was reviewed: any other document or stored state is refused by name."""

import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from relaydeck.fields import fields_of
from relaydeck.networks.model import FeeToken, Network, NodeHeader, RpcUrl
from relaydeck.notifications.model import Notification
from relaydeck.relayers.model import Policies, Relayer
from tests.console.conftest import Operator, plain
from tests.support import shapes
from tests.support.running import Answer, Running, make_token, run_command

Document = dict[str, Any]
Mutation = tuple[tuple[str | int, ...], Any]  # a place in the document and its other value; None: without it

KEY, OTHER_KEY = "0x" + "37" * 32, "0x" + "38" * 32
FEED, OTHER_FEED = "0x" + "11" * 20, "0x" + "22" * 20
NODE = {"url": "https://node.example/v1/key", "weight": 1, "headers": [{"name": "Authorization", "value": "hidden"}]}
STORE = {"address": "https://vault.example", "key_name": "ops", "role_id": "role", "secret_id": "secret"}
DOCUMENT: Document = {
    "networks": {
        "main": {
            "network_type": "evm",
            "chain_id": 1,
            "native_symbol": "ETH",
            "rpc_urls": [NODE],
            "tip_floor": 1,
            "fee_tokens": {"USDC": {"address": FEED, "decimals": 6, "rate": {"fixed": "2500"}, "margin_percent": "1"}},
        },
        "calm": {"network_type": "evm", "chain_id": 2, "native_symbol": "ETH"},
    },
    "signers": [
        {"id": "local", "type": "plain", "config": {"key": KEY}},
        {"id": "kms", "type": "provider_a_kms", "config": {"key_id": "alias/ops", "region": "eu-west-1"}},
        {"id": "store", "type": "provider_c", "config": STORE | {"mount_point": "m", "namespace": "n"}},
        {"id": "transit", "type": "provider_c_transit", "config": STORE | {"pubkey": "Ag4v"}},
        {
            "id": "service",
            "type": "provider_d",
            "config": {
                "api_private_key": "private",
                "api_public_key": "public",
                "organization_id": "org",
                "private_key_id": "key",
                "public_key": "04f2",
            },
        },
        {
            "id": "wallet",
            "type": "provider_e",
            "config": {"account_address": FEED, "api_key_id": "k", "api_key_secret": "s", "wallet_secret": "w"},
        },
        {
            "id": "second",
            "type": "provider_b_kms",
            "config": {"key": {"name": "ops"}, "service_account": {"client": "relaydeck"}},
        },
        {"id": "spare", "type": "plain", "config": {"key": KEY}},
    ],
    "notifications": [
        {"id": "pager", "type": "webhook", "url": "https://user:pass@hooks.example/path?q=1", "signing_key": "signing"},
        {"id": "quiet", "type": "webhook", "url": "https://hooks.example/"},
    ],
    "relayers": [
        {
            "id": "one",
            "name": "One",
            "network": "main",
            "network_type": "evm",
            "signer_id": "local",
            "notification_id": "pager",
            "custom_rpc_urls": [{"url": "https://own.example/?key=own", "weight": 3}],
            "runway_warn_hours": 5,
            "policies": {
                "eip1559_pricing": True,
                "gas_limit_estimation": True,
                "gas_price_cap": 100,
                "min_balance": 1,
                "private_transactions": False,
                "whitelist_receivers": [FEED],
            },
        },
        {"name": "Nameless", "network": "calm", "network_type": "evm", "signer_id": "local"},
    ],
}


def config(number: int, field: str, value: Any) -> Mutation:
    return ("signers", number, "config", field), value


MUTATIONS: dict[tuple[str, str], list[Mutation]] = {
    ("network", "main"): [
        (("networks", "main", "chain_id"), 3),
        (("networks", "main", "labels"), {"team": "other"}),
        (("networks", "main", "native_symbol"), "POL"),
        (("networks", "main", "tip_floor"), 2),
        (("networks", "main", "quorum"), 1),
        (("networks", "main", "runway_warn_hours"), 4),
        (("networks", "main", "max_lag_blocks"), 5),
        (("networks", "main", "fee_model"), "op_stack"),
        (("networks", "main", "tip_ceiling"), 7),
        (("networks", "main", "fee_horizon_blocks"), 2),
        (("networks", "main", "gas_limit_cap"), 30_000_000),
        (("networks", "main", "block_seconds"), "2"),
        (("networks", "main", "base_fee_rule"), "nodes"),
        (("networks", "main", "base_fee_denominator"), 9),
        (("networks", "main", "base_fee_elasticity"), 3),
        (("networks", "main", "gas_margin_percent"), 10),
        (("networks", "main", "sequencer_feed"), FEED),
        (("networks", "main", "sequencer_grace_seconds"), 60),
        (("networks", "main", "rpc_urls", 0, "url"), "https://node.example/v1/other"),
        (("networks", "main", "rpc_urls", 0, "weight"), 2),
        (("networks", "main", "rpc_urls", 0, "headers", 0, "name"), "X-Key"),
        (("networks", "main", "rpc_urls", 0, "headers", 0, "value"), "other"),
        (("networks", "main", "fee_tokens", "USDC", "address"), OTHER_FEED),
        (("networks", "main", "fee_tokens", "USDC", "decimals"), 18),
        (("networks", "main", "fee_tokens", "USDC", "rate", "fixed"), "2501"),
        (("networks", "main", "fee_tokens", "USDC", "rate"), {"feed": FEED, "max_age": "1h"}),
        (("networks", "main", "fee_tokens", "USDC", "margin_percent"), "2"),
        (("networks", "main", "fee_tokens", "USDC"), None),
    ],
    ("signer", "spare"): [
        config(7, "key", OTHER_KEY),
        (("signers", 7), {"id": "spare", "type": "provider_c", "config": STORE}),
    ],
    ("signer", "kms"): [config(1, "key_id", "alias/other"), config(1, "region", "eu-west-2")],
    ("signer", "store"): [
        config(2, "address", "https://vault.example/other"),
        config(2, "key_name", "other"),
        config(2, "role_id", "other"),
        config(2, "secret_id", "other"),
        config(2, "mount_point", "other"),
        config(2, "namespace", None),
    ],
    ("signer", "transit"): [
        config(3, "address", "https://vault.example/other"),
        *(
            config(3, field, "other")
            for field in ("key_name", "role_id", "secret_id", "pubkey", "mount_point", "namespace")
        ),
    ],
    ("signer", "service"): [
        config(4, field, "other")
        for field in ("api_private_key", "api_public_key", "organization_id", "private_key_id", "public_key")
    ],
    ("signer", "wallet"): [
        config(5, field, "other") for field in ("account_address", "api_key_id", "api_key_secret", "wallet_secret")
    ],
    ("signer", "second"): [config(6, "key", {"name": "other"}), config(6, "service_account", {"client": "other"})],
    ("signer", "added"): [(("signers", 8), {"id": "added", "type": "plain", "config": {"key": KEY}})],
    ("notification", "pager"): [
        (("notifications", 0, "labels"), {"team": "other"}),
        (("notifications", 0, "url"), "https://user:pass@hooks.example/other?q=1"),
        (("notifications", 0, "url"), "https://user:other@hooks.example/path?q=1"),
        (("notifications", 0, "url"), "https://user:pass@hooks.example/path?q=2"),
        (("notifications", 0, "url"), "https://user:pass@other.example/path?q=1"),
        (("notifications", 0, "signing_key"), "other"),
        (("notifications", 0, "signing_key"), ""),
        (("notifications", 0, "signing_key"), None),
        (("notifications", 0, "signing_key"), {"env": "KEPT"}),
    ],
    ("notification", "quiet"): [(("notifications", 1), None)],  # stored as it is: there was nothing to change
    ("relayer", "one"): [
        (("relayers", 0, "name"), "Other"),
        (("relayers", 0, "labels"), {"team": "other"}),
        (("relayers", 0, "network"), "calm"),
        (("relayers", 0, "signer_id"), "spare"),
        (("relayers", 0, "notification_id"), "quiet"),
        (("relayers", 0, "custom_rpc_urls", 0, "url"), "https://own.example/?key=other"),
        (("relayers", 0, "custom_rpc_urls", 0, "weight"), 1),
        (("relayers", 0, "runway_warn_hours"), 6),
        (("relayers", 0, "policies", "eip1559_pricing"), False),
        (("relayers", 0, "policies", "gas_limit_estimation"), False),
        (("relayers", 0, "policies", "gas_price_cap"), 101),
        (("relayers", 0, "policies", "min_balance"), 2),
        (("relayers", 0, "policies", "private_transactions"), True),
        (("relayers", 0, "policies", "whitelist_receivers"), [FEED, OTHER_FEED]),
        (("relayers", 0, "policies"), None),
    ],
    ("relayer", "Nameless"): [(("relayers", 1, "network"), "main")],
    ("relayer", ""): [(("relayers", 1, "name"), "Renamed"), (("relayers", 1), None)],  # its name is stored nowhere
}
CASES = [(record, place, value) for record, mutations in MUTATIONS.items() for place, value in mutations]


def settable(record: type[msgspec.Struct]) -> set[str]:
    return {field.name for field in fields_of(record) if not field.traits.read_only}


@pytest.mark.parametrize(
    ("kind", "records", "others"),
    [
        # Not mutated: what identifies a record, has one value, or only stands for values of other fields.
        ("network", (Network, FeeToken, RpcUrl, NodeHeader), {"network_type", "symbol", "chain"}),
        ("notification", (Notification,), {"id", "type"}),
        ("relayer", (Relayer, Policies, RpcUrl), {"id", "network_type", "address", "headers"}),
    ],
)
def test_every_field_is_mutated(kind: str, records: tuple[type[msgspec.Struct], ...], others: set[str]) -> None:
    mutated_fields = {part for record, place, _ in CASES if record[0] == kind for part in place[1:]}
    assert set[str]().union(*map(settable, records)) - mutated_fields == others


@pytest.mark.parametrize("kind", shapes.TYPES)
def test_every_field_of_every_type_of_signer_is_mutated(kind: str) -> None:
    numbers = [number for number, signer in enumerate(DOCUMENT["signers"]) if signer["type"] == kind]
    fields = {place[3] for _, place, _ in CASES if place[0] == "signers" and place[1] in numbers and len(place) > 3}
    assert fields == set(shapes.request(kind)["config"])


def mutated(place: tuple[str | int, ...], value: Any) -> Document:
    document = deepcopy(DOCUMENT)
    inner: Any = document
    for key in place[:-1]:
        inner = inner[key]
    if value is None:
        del inner[place[-1]]
    elif isinstance(inner, list) and place[-1] == len(inner):
        inner.append(value)
    else:
        inner[place[-1]] = value
    return document


class Applies:
    """A service that stores a part of the document, and the plan for the rest."""

    def __init__(self, served: Running) -> None:
        self.served = served
        stored = mutated(("signers",), [])
        stored["relayers"] = []
        stored["notifications"][0]["signing_key"] = "the stored one"
        stored["networks"]["main"]["chain_id"] = 9
        assert self.ask(stored, plan_only=False).status == 200
        self.revision: str = self.ask(DOCUMENT, plan_only=True).json["data"]["revision"]

    def ask(self, document: Document, *, plan_only: bool, expected: str = "", prune: bool = False) -> Answer:
        references = [{"kind": "env", "name": "KEPT", "missing": "is not set"}]
        body = {"document": document, "references": references, "plan_only": plan_only, "prune": prune}
        headers = {"If-Match": f'"{expected}"'} if expected else {}
        return self.served.ask("POST", "/admin/v1/apply", body, headers=headers)

    @property
    def entries(self) -> int:
        """How many changes the audit log contains."""
        entries: int = self.served.ask("GET", "/admin/v1/audit?per_page=1").json["pagination"]["total_items"]
        return entries

    def refused(self, document: Document, *, prune: bool = False) -> list[tuple[str, str]]:
        """The records that a refusal names; nothing may have changed."""
        before = self.entries
        answer = self.ask(document, plan_only=False, expected=self.revision, prune=prune)
        assert (answer.status, answer.json["changes"]) == (412, [])
        assert self.entries == before
        return [(each["kind"], each["name"]) for each in answer.json["records"]]


@pytest.fixture(scope="module")
def applies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Applies]:
    home = tmp_path_factory.mktemp("pinned") / "home"
    token = make_token(home, "root", "--kind", "admin")
    with Running(home, token=token, rate_limit_per_second="0", monitor_interval_seconds="0") as running:
        yield Applies(running)


@pytest.mark.parametrize(("record", "place", "value"), CASES, ids=[".".join(map(str, place)) for _, place, _ in CASES])
def test_another_document_is_refused(
    applies: Applies, record: tuple[str, str], place: tuple[str | int, ...], value: Any
) -> None:
    assert applies.refused(mutated(place, value)) == [record]


def test_two_records_of_two_kinds_are_both_named(applies: Applies) -> None:
    document = mutated(("notifications", 0, "signing_key"), "other")
    document["relayers"][0]["name"] = "Other"
    assert applies.refused(document) == [("notification", "pager"), ("relayer", "one")]


def test_another_key_is_another_address_of_its_relayers(applies: Applies) -> None:
    document = mutated(("signers", 0, "config", "key"), OTHER_KEY)
    assert applies.refused(document) == [("signer", "local"), ("relayer", "")]


def test_of_several_records_of_a_kind_the_kind_is_named(applies: Applies) -> None:
    document = mutated(("signers", 7, "config", "key"), OTHER_KEY)
    document["signers"][1]["config"]["region"] = "other"
    assert applies.refused(document) == [("signer", "")]


def test_another_order_is_refused(applies: Applies) -> None:
    assert applies.refused(DOCUMENT | {"signers": DOCUMENT["signers"][::-1]}) == []


def test_pruning_is_pinned(applies: Applies) -> None:
    assert applies.refused(DOCUMENT, prune=True) == [("option", "prune")]


def test_every_plan_of_the_document_has_the_revision(applies: Applies) -> None:
    again = applies.ask(deepcopy(DOCUMENT), plan_only=True, expected=applies.revision)
    assert (again.status, again.json["data"]["revision"]) == (200, applies.revision)


def test_a_revision_of_an_earlier_version_is_none_of_a_plan(applies: Applies) -> None:
    answer = applies.ask(DOCUMENT, plan_only=False, expected="0-0123456789abcdef")
    assert (answer.status, answer.json["records"]) == (412, [])


def test_a_plan_shows_the_type_and_the_open_fields_of_new_signers(applies: Applies) -> None:
    steps = applies.ask(DOCUMENT, plan_only=True).json["data"]["steps"]
    shown = {each["name"]: [tuple(field.values()) for field in each["fields"]] for each in steps}
    assert (shown["local"], shown["store"], shown["second"]) == (
        [("type", "", "plain")],
        [
            ("type", "", "provider_c"),
            ("config.address", "", "https://vault.example"),
            ("config.key_name", "", "ops"),
            ("config.mount_point", "", "m"),
            ("config.namespace", "", "n"),
        ],
        [("type", "", "provider_b_kms")],
    )


TOML = '[[notifications]]\nid = "{}"\ntype = "webhook"\nurl = "https://hooks.example/"\nsigning_key = "{}"\n'


def test_a_command_names_the_record(applies: Applies, tmp_path: Path) -> None:
    home, file = applies.served.home, tmp_path / "file.toml"
    file.write_text(TOML.format("by-command", "reviewed"))
    revision = run_command(home, "apply", str(file), "--plan").stdout.splitlines()[-1].removeprefix("revision: ")
    file.write_text(TOML.format("by-command", "another"))
    refused = run_command(home, "apply", str(file), "--revision", revision)
    assert (refused.returncode, refused.stdout, refused.stderr) == (
        1,
        "",
        "relaydeck: the plan is not the one that was reviewed\n"
        "Different from the reviewed plan:\n"
        "  notification by-command\n"
        "No record has changed since.\n"
        "Nothing was changed. Plan again, and review the new plan.\n",
    )


def test_the_console_names_the_record(applies: Applies) -> None:
    operator = Operator(applies.served.port).sign_in(applies.served.token)
    reviewed, other = (operator.post("/apply", {"file": TOML.format("by-page", key)}) for key in ("one", "two"))
    answer = operator.post("/apply/plan", {"sealed": hidden(other, "sealed"), "revision": hidden(reviewed, "revision")})
    warning = "The plan is not the one that you saw. Nothing was applied. This is the plan now. What differs:"
    assert (answer.status, re.sub(r"\s+", " ", plain(answer)).partition(warning)[2][:21]) == (
        412,
        " notification by-page",
    )


def hidden(page: Answer, name: str) -> str:
    found = re.search(f'name="{name}" value="([^"]*)"', page.body.decode())
    assert found
    return found[1]
