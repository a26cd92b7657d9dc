"""Changes made in the console: the same effect, refusals, events and audit entries as over the admin API."""

import html
import re
from functools import partial
from typing import Any
from urllib.parse import quote

import pytest

from relaydeck.console.forms import inputs_of
from relaydeck.notifications.webhook_rule import REFUSED
from relaydeck.provisioning.stored import Stored
from relaydeck.relayers.model import Relayer
from relaydeck.secret import Secret
from relaydeck.signers.signer_types import SHAPES
from tests.admin.conftest import POLICIES
from tests.console.conftest import Operator, plain
from tests.console.test_network_form import press
from tests.support.running import Answer, Running, eventually
from tests.support.seeding import issue, opened
from tests.support.statements import run_statement

EDIT = "/relayers/sepolia-1/edit"
FORM = {
    "name": "Sepolia one",
    "network": "sepolia",
    "address": "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23",
    "signer_id": "ops",
    "notification_id": "pager",
    "custom_rpc_urls": "http://127.0.0.1:9/custom?key=k 3",
    "policies.eip1559_pricing": "true",
    "policies.gas_limit_estimation": "true",
    "policies.gas_price_cap": "100 gwei",
    "policies.min_balance": "0",
    "policies.whitelist_receivers": "",
    "do": "save",  # as the page that shows the changes sends it
}
CONFIGS = {
    "plain": {"config.key": "0x" + "42" * 32},
    "provider_a_kms": {"config.key_id": "alias/ops", "config.region": "eu-west-1"},
    "provider_c": {
        "config.address": "https://secrets.example.com",
        "config.key_name": "ops",
        "config.role_id": "role",
        "config.secret_id": "secret",
    },
    "provider_c_transit": {
        "config.address": "https://secrets.example.com",
        "config.key_name": "ops",
        "config.pubkey": "Ag4v6z4l",
        "config.role_id": "role",
        "config.secret_id": "secret",
        "config.namespace": "team",
    },
    "provider_d": {
        "config.api_private_key": "private",
        "config.api_public_key": "03b1",
        "config.organization_id": "org-1",
        "config.private_key_id": "key-1",
        "config.public_key": "04f2",
    },
    "provider_e": {
        "config.account_address": "0x2c7536e3605d9c16a7a3d7b1898e529396a65c23",
        "config.api_key_id": "key-1",
        "config.api_key_secret": "s1",
        "config.wallet_secret": "s2",
    },
    "provider_b_kms": {"config.key": '{"name": "ops"}', "config.service_account": '{"client": "relaydeck"}'},
}


def record(served: Running, path: str) -> Any:
    return served.ask("GET", f"/admin/v1/{path}").json["data"]


def last_entry(served: Running) -> dict[str, Any]:
    entry: dict[str, Any] = served.ask("GET", "/admin/v1/audit?order=newest&per_page=1").json["data"][0]
    return {name: entry.get(name) for name in ("actor", "origin", "action", "record")}


def etag_in(answer: Answer) -> str:
    page = answer.body.decode()
    return page.partition('name="etag" value="')[2].partition('">')[0].replace("&#34;", '"')


def opened_in(answer: Answer) -> str:
    """The values with which the form of a page was opened."""
    return html.unescape(answer.body.decode().partition('name="opened" value="')[2].partition('"')[0])


def rows_in(answer: Answer) -> list[list[str]]:
    """The cells of the table of a page."""
    rows = re.findall(r"<tr>(<td[^>]*>.*?)</tr>", answer.body.decode())
    return [
        [html.unescape(re.sub(r"<[^>]*>", "", cell)) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)]
        for row in rows
    ]


def location(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.headers.get("location", "")


def test_pause_and_resume(served: Running, operator: Operator) -> None:
    assert location(operator.post("/relayers/sepolia-1/pause")) == (303, "/console/relayers/sepolia-1?done=paused")
    assert record(served, "relayers/sepolia-1")["paused"] is True
    expected = {"actor": "token:root", "origin": "console", "action": "relayer.paused", "record": "sepolia-1"}
    assert last_entry(served) == expected
    assert "paused" in operator.text("/relayers?state=paused")
    assert location(operator.post("/relayers/sepolia-1/resume")) == (303, "/console/relayers/sepolia-1?done=resumed")
    assert record(served, "relayers/sepolia-1")["paused"] is False


def test_a_change_over_the_admin_api_has_no_origin(served: Running) -> None:
    served.ask("POST", "/admin/v1/tokens", {"name": "over the API"})
    assert last_entry(served)["origin"] is None


def test_the_chain_holds_with_entries_of_both_origins(operator: Operator) -> None:
    assert "every link holds" in operator.text("/audit/verify")


def test_edit_a_policy(served: Running, operator: Operator) -> None:
    etag = etag_in(operator.get(EDIT))
    answer = operator.post(EDIT, FORM | {"policies.min_balance": "5 wei", "etag": etag})
    assert location(answer) == (303, "/console/relayers/sepolia-1?done=saved")
    assert record(served, "relayers/sepolia-1")["policies"] == POLICIES | {
        "gas_price_cap": 100_000_000_000,
        "min_balance": 5,
    }


def test_saving_the_form_keeps_the_headers_of_nodes(served: Running, operator: Operator) -> None:
    header = {"name": "Authorization", "value": "Bearer planted"}
    nodes = [{"url": "https://own.example/", "weight": 2, "headers": [header]}]
    assert served.ask("PATCH", "/admin/v1/relayers/sepolia-1", {"custom_rpc_urls": nodes}).status == 200
    typed = FORM | {"name": "Another", "custom_rpc_urls": "https://own.example/ 2", "etag": etag_in(operator.get(EDIT))}
    assert location(operator.post(EDIT, typed)) == (303, "/console/relayers/sepolia-1?done=saved")
    with opened(served.home) as store:
        found = Stored(store.database.read, store.vault).find("relayers", "sepolia-1")
    assert found is not None and isinstance(found.record, Relayer)
    (node,) = found.record.custom_rpc_urls
    kept = [(each.name, each.value.reveal()) for each in node.headers or () if isinstance(each.value, Secret)]
    assert (found.record.name, kept) == ("Another", [("Authorization", "Bearer planted")])
    assert operator.post(EDIT, FORM | {"etag": etag_in(operator.get(EDIT))}).status == 303


def test_saving_the_form_does_not_replace_nodes_that_cannot_be_opened(served: Running, operator: Operator) -> None:
    damaged = bytes.fromhex("0100000001")
    with opened(served.home) as store:
        run_statement(store.database, "UPDATE relayers SET sealed_rpc_urls = x'0100000001' WHERE id = 'sepolia-1'")
    typed = FORM | {"name": "Damaged", "custom_rpc_urls": "", "etag": etag_in(operator.get(EDIT))}
    answer = operator.post(EDIT, typed)
    assert (answer.status, "custom_rpc_urls" in plain(answer)) == (409, True)
    with opened(served.home) as store:
        (row,) = store.database.read("SELECT sealed_rpc_urls FROM relayers WHERE id = 'sepolia-1'")
    assert row.sealed_rpc_urls == damaged
    assert operator.post(EDIT, FORM | {"etag": etag_in(operator.get(EDIT))}).status == 303


def test_an_emptied_field_is_removed(served: Running, operator: Operator) -> None:
    etag = etag_in(operator.get(EDIT))
    emptied = FORM | {"policies.gas_price_cap": "", "notification_id": "", "etag": etag}
    assert operator.post(EDIT, emptied).status == 303
    found = record(served, "relayers/sepolia-1")
    assert "notification_id" not in found and "gas_price_cap" not in found["policies"]


def without_times(text: str) -> str:
    return re.sub(r", (now|\d+ s ago)", "", text)


def conflict_in(answer: Answer) -> tuple[list[str], list[list[str]]]:
    """The paragraphs above the changes, and the rows of the table between them, without times."""
    alert = answer.body.decode().partition('role="alert">')[2].partition("</div>")[0]
    said = [plain(answer._replace(body=each.encode())) for each in re.findall("<p>(.*?)</p>", alert)]
    return [without_times(each) for each in said], [[without_times(cell) for cell in row] for row in rows_in(answer)]


CHANGED = "This {} has changed since you opened the form. Nothing was saved."
AGAIN = "This is what saving yours would change now. Or start again from what is saved."


def test_a_conflicting_edit_is_stopped_and_shows_who_changed_each_field(served: Running, operator: Operator) -> None:
    editor, pauser = issue(served.home, "ed", "editor"), issue(served.home, "op", "operator")
    assert operator.post(EDIT, FORM | {"etag": etag_in(operator.get(EDIT))}).status == 303
    page = operator.get(EDIT)
    theirs = {"name": "Changed by another", "policies": {"min_balance": 9, "gas_price_cap": 5}}
    served.ask("PATCH", "/admin/v1/relayers/sepolia-1", theirs, token=editor)
    served.ask("PATCH", "/admin/v1/relayers/sepolia-1", {"policies": {"gas_price_cap": 6}})
    served.ask("POST", "/admin/v1/relayers/sepolia-1/pause", token=pauser)
    form = FORM | {"name": "Mine", "policies.min_balance": "9 wei", "etag": etag_in(page)}
    answer = operator.post(EDIT, form | {"opened": opened_in(page)})
    assert answer.status == 412
    assert conflict_in(answer) == (
        [CHANGED.format("relayer"), "It was paused by token:op. This form leaves that as it is.", AGAIN],
        [
            ["Name", "Sepolia one", "Changed by another by token:ed", "Mine"],
            ["Gas price cap", "100 gwei", "0.000000006 gwei by token:root", "as theirs"],
            ["Minimum balance", "0", "9 wei by token:ed", "as theirs"],
        ],
    )
    assert record(served, "relayers/sepolia-1")["name"] == "Changed by another"
    served.ask("POST", "/admin/v1/relayers/sepolia-1/resume")
    assert operator.post(EDIT, FORM | {"name": "Mine", "etag": etag_in(operator.get(EDIT))}).status == 303
    assert record(served, "relayers/sepolia-1")["name"] == "Mine"


def test_saving_after_a_conflict_keeps_what_others_changed_in_fields_that_were_not_touched(
    served: Running, operator: Operator
) -> None:
    assert operator.post(EDIT, FORM | {"labels": "team=a", "etag": etag_in(operator.get(EDIT))}).status == 303
    page, theirs = operator.get(EDIT), {"policies": {"min_balance": 777}, "labels": {"env": "prod"}}
    assert served.ask("PATCH", "/admin/v1/relayers/sepolia-1", theirs).status == 200
    before = record(served, "relayers/sepolia-1")
    shown = press(operator, EDIT, page, "plan", **{"policies.gas_price_cap": "20 gwei"})
    assert (shown.status, press(operator, EDIT, shown, "save").status) == (412, 303)
    expected = before | {"policies": before["policies"] | {"gas_price_cap": 20 * 10**9}}
    assert record(served, "relayers/sepolia-1") == expected
    assert operator.post(EDIT, FORM | {"labels": "", "etag": etag_in(operator.get(EDIT))}).status == 303


def test_a_conflict_shows_amounts_in_the_same_unit(served: Running, operator: Operator) -> None:
    """However they are typed."""
    page = operator.get(EDIT)
    theirs = {"policies": {"gas_price_cap": 30 * 10**9, "min_balance": 5 * 10**16}}
    assert served.ask("PATCH", "/admin/v1/relayers/sepolia-1", theirs).status == 200
    typed = {"policies.gas_price_cap": "20", "policies.min_balance": "50000000 gwei"}
    shown = press(operator, EDIT, page, "plan", **typed)
    rows = [
        ["Gas price cap", "100 gwei", "30 gwei by token:root", "20 gwei"],
        ["Minimum balance", "0", "0.05 ETH by token:root", "as theirs"],
    ]
    assert (shown.status, conflict_in(shown)) == (412, ([CHANGED.format("relayer"), AGAIN], rows))
    assert operator.post(EDIT, FORM | {"etag": etag_in(operator.get(EDIT))}).status == 303


def test_a_pause_alone_is_shown_as_a_fact(served: Running, operator: Operator) -> None:
    page = operator.get(EDIT)
    assert served.ask("POST", "/admin/v1/relayers/sepolia-1/pause").status == 200
    shown = press(operator, EDIT, page, "plan", name="After the pause")
    said = [CHANGED.format("relayer"), "It was paused by token:root. This form leaves that as it is.", AGAIN]
    assert (shown.status, conflict_in(shown)) == (412, (said, []))
    assert press(operator, EDIT, shown, "save").status == 303
    assert record(served, "relayers/sepolia-1")["paused"] is True
    served.ask("POST", "/admin/v1/relayers/sepolia-1/resume")
    assert operator.post(EDIT, FORM | {"etag": etag_in(operator.get(EDIT))}).status == 303


def test_the_forms_of_notifications_and_signers_follow_what_others_change(served: Running, operator: Operator) -> None:
    for path, stored, theirs, typed in (
        (
            "notifications/follows",
            {"type": "webhook", "url": "https://one.example/"},
            {"labels": {"env": "prod"}},
            {"url": "https://two.example", "key": "keep"},
        ),
        (
            "signers/follows",
            {"type": "plain", "config": {"key": "0x" + "44" * 32}},
            {"labels": {"env": "prod"}},
            {"labels": ""},
        ),
    ):
        assert served.ask("POST", f"/admin/v1/{path.partition('/')[0]}", stored | {"id": "follows"}).status == 201
        page = operator.get(f"/{path}")
        assert served.ask("PATCH", f"/admin/v1/{path}", theirs).status == 200
        before = record(served, path)
        opened = {"etag": etag_in(page), "opened": opened_in(page)}
        shown = press(operator, f"/{path}", page, "plan", **opened | typed)
        row = ["Labels", "–", "env=prod by token:root", "as theirs"]
        said = [CHANGED.format(path.partition("s/")[0]), AGAIN]
        assert (shown.status, conflict_in(shown)) == (412, (said, [row])), path
        if "url" in typed:
            assert press(operator, f"/{path}", shown, "save").status == 303
            assert record(served, path) == before | {"url": typed["url"]}
        else:
            assert "Nothing to change: this is what is saved." in plain(shown)
            assert record(served, path) == before
        assert served.ask("DELETE", f"/admin/v1/{path}").status == 200


def test_a_wrong_value_is_reported_beside_its_field(served: Running, operator: Operator) -> None:
    answer = operator.post(EDIT, FORM | {"policies.min_balance": "much", "etag": etag_in(operator.get(EDIT))})
    page = answer.body.decode()
    field = page.partition('id="field-policies-min_balance"')[2].partition("</div>")[0]
    assert answer.status == 400
    assert 'value="much"' in field and 'class="problem"' in field


def test_a_refused_form_moves_to_the_field_with_the_problem(operator: Operator) -> None:
    answer = operator.post(EDIT, FORM | {"policies.min_balance": "much", "etag": etag_in(operator.get(EDIT))})
    assert re.findall(r'name="([^"]*)"[^>]* autofocus', answer.body.decode()) == ["policies.min_balance"]


def test_the_help_of_a_form_describes_what_to_fill_in(operator: Operator) -> None:
    page = plain(operator.get("/relayers/new"))
    assert "Left empty: the value of its network" in page
    assert [words for words in ("Left out", "a ruling") if words in page] == []


def test_a_new_form_has_the_declared_defaults() -> None:
    values = {each.name: each.value for each in inputs_of(Relayer) if each.value}
    assert values == {
        "policies.eip1559_pricing": "true",
        "policies.gas_limit_estimation": "true",
        "policies.min_balance": "0",
    }


def test_create_and_delete_a_relayer(served: Running, operator: Operator) -> None:
    made = operator.post("/relayers", FORM | {"id": "second", "name": "Second <one>", "network_type": "evm"})
    assert location(made) == (303, "/console/relayers/second?done=created")
    path = "/relayers/second/delete"
    etag = etag_in(operator.get(path))
    refused = operator.post(path, {"typed": "second one", "etag": etag})
    assert (refused.status, "Type the name exactly" in plain(refused)) == (400, True)
    assert location(operator.post(path, {"typed": "Second <one>", "etag": etag})) == (
        303,
        "/console/relayers?done=deleted",
    )
    assert served.ask("GET", "/admin/v1/relayers/second").status == 404


@pytest.mark.parametrize("signer_type", SHAPES)
def test_create_each_type_of_signer(served: Running, operator: Operator, signer_type: str) -> None:
    name = f"new {signer_type}"
    answer = operator.post("/signers", CONFIGS[signer_type] | {"type": signer_type, "id": name})
    assert answer.status == 303, plain(answer)
    assert answer.headers["location"].startswith(f"/console/signers/{quote(name)}?done=created")
    assert record(served, f"signers/{quote(name)}")["type"] == ("local" if signer_type == "plain" else signer_type)
    assert last_entry(served) == {
        "actor": "token:root",
        "origin": "console",
        "action": "signer.created",
        "record": name,
    }


@pytest.mark.parametrize("signer_type", SHAPES)
def test_the_form_of_a_type_has_its_declared_fields(operator: Operator, signer_type: str) -> None:
    page = operator.text(f"/signers/new?type={signer_type}")
    assert all(f'name="{field}"' in page for field in CONFIGS[signer_type])


def test_a_refused_signer_keeps_what_was_typed_but_no_secret(operator: Operator) -> None:
    form = CONFIGS["provider_c"] | {"type": "provider_c", "id": "ops", "config.secret_id": "planted-in-a-form"}
    answer = operator.post("/signers", form)
    assert answer.status == 400
    assert "https://secrets.example.com" in plain(answer) + answer.body.decode()
    assert "planted-in-a-form" not in answer.body.decode()


@pytest.mark.parametrize(("resource", "name"), [("signers", "spare"), ("notifications", "spare")])
def test_a_record_is_deleted_after_its_id_is_typed(
    served: Running, operator: Operator, resource: str, name: str
) -> None:
    bodies = {
        "signers": {"id": name, "type": "plain", "config": {"key": "0x" + "43" * 32}},
        "notifications": {"id": name, "type": "webhook", "url": "https://hooks.example.com/x"},
    }
    assert served.ask("POST", f"/admin/v1/{resource}", bodies[resource]).status == 201
    path = f"/{resource}/{name}/delete"
    etag = etag_in(operator.get(path))
    refused = operator.post(path, {"typed": "spar", "etag": etag})
    assert (refused.status, "Type the id exactly as it is shown." in plain(refused)) == (400, True)
    assert location(operator.post(path, {"typed": name, "etag": etag})) == (303, f"/console/{resource}?done=deleted")
    assert served.ask("GET", f"/admin/v1/{resource}/{name}").status == 404


def test_a_signer_in_use_cannot_be_deleted(operator: Operator) -> None:
    answer = operator.post("/signers/ops/delete", {"typed": "ops", "etag": "*"})
    assert answer.status == 409
    assert "Signer is still used by relayer sepolia-1" in plain(answer)


def test_check_a_signer(served: Running, operator: Operator) -> None:
    assert location(operator.post("/signers/ops/check")) == (303, "/console/signers/ops?done=checked")
    assert record(served, "signers/ops")["check"]["outcome"] == "ok"


@pytest.mark.parametrize(
    ("signer_type", "config", "has_driver"),
    [("plain", {"key": "0x" + "37" * 32}, True), ("provider_a_kms", {"key_id": "k", "region": "r"}, False)],
)
def test_a_signer_without_a_driver_shows_why_it_is_not_checked(
    served: Running, operator: Operator, signer_type: str, config: dict[str, str], has_driver: bool
) -> None:
    document = {"id": f"unchecked-{signer_type}", "type": signer_type, "config": config}
    assert served.ask("POST", "/admin/v1/signers", document).status == 201
    reason = f"None: no driver is bound to the type {signer_type}. Set RELAYDECK_DRIVER_{signer_type.upper()}."
    assert (reason in plain(operator.get(f"/signers/unchecked-{signer_type}"))) is not has_driver


def save_pager(operator: Operator, **form: str) -> int:
    page = operator.get("/notifications/pager")
    url = "https://hooks.example.com/relaydeck"
    return operator.post("/notifications/pager", {"url": url, "etag": etag_in(page), "do": "save"} | form).status


def page_after(operator: Operator, answer: Answer) -> str:
    return plain(operator.get(answer.headers["location"].removeprefix("/console")))


def save_key(operator: Operator, **form: str) -> Answer:
    page = operator.get("/notifications/pager")
    url = "https://hooks.example.com/relaydeck"
    return operator.post("/notifications/pager", {"url": url, "etag": etag_in(page), "do": "save"} | form)


SIGNED = "a key of twenty-four bytes or more"


def test_a_signing_key_that_is_typed_is_saved_whatever_is_chosen(served: Running, operator: Operator) -> None:
    """A browser with scripts chooses to replace it as soon as something is typed."""
    save_key(operator, key="remove")
    answer = save_key(operator, key="keep", signing_key=SIGNED)
    assert record(served, "notifications/pager")["has_signing_key"] is True
    assert "Saved." in page_after(operator, answer) and "may be guessed" not in page_after(operator, answer)


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ({"key": "replace", "signing_key": ""}, "Type the new signing key, or choose to remove the present one."),
        ({"key": "remove", "signing_key": SIGNED}, "A signing key was typed, and another choice was made."),
        ({"key": "generate", "signing_key": SIGNED}, "A signing key was typed, and another choice was made."),
    ],
)
def test_a_choice_that_contradicts_what_is_typed_changes_nothing(
    served: Running, operator: Operator, form: dict[str, str], problem: str
) -> None:
    save_key(operator, key="replace", signing_key=SIGNED)
    before = record(served, "notifications/pager")
    answer = save_key(operator, **form)
    assert (answer.status, problem in plain(answer)) == (400, True)
    assert record(served, "notifications/pager") == before


def test_a_short_signing_key_is_saved_with_a_warning(operator: Operator) -> None:
    text = page_after(operator, save_key(operator, key="replace", signing_key="x" * 23))
    assert "Saved." in text and "The signing key has fewer than 24 bytes and may be guessed." in text


def test_a_random_signing_key_is_shown_once(served: Running, operator: Operator) -> None:
    save_key(operator, key="remove")
    answer = save_key(operator, key="generate")
    (key,) = re.findall(r"<code>(whsec_[A-Za-z0-9+/]{43}=)</code>", answer.body.decode())
    assert (answer.status, record(served, "notifications/pager")["has_signing_key"]) == (200, True)
    assert key not in operator.text("/notifications/pager")


def test_the_three_ways_to_treat_a_signing_key(served: Running, operator: Operator) -> None:
    def has_key() -> bool:
        found: bool = record(served, "notifications/pager")["has_signing_key"]
        return found

    assert (save_pager(operator, key="keep"), has_key()) == (303, True)
    assert (save_pager(operator, key="remove"), has_key()) == (303, False)
    assert (save_pager(operator, key="keep"), has_key()) == (303, False)
    assert (save_pager(operator, key="replace", signing_key="another key"), has_key()) == (303, True)


def were_tried(served: Running, notification: str) -> bool:
    listed = served.ask("GET", f"/admin/v1/deliveries?notification_id={notification}").json["data"]
    return all(each["tries"] for each in listed)


def test_dead_deliveries_that_are_listed_are_sent_again_after_a_question(served: Running, operator: Operator) -> None:
    for name, times in (("desk", 1), ("mail", 2)):
        document = {"id": name, "type": "webhook", "url": "https://127.0.0.1:9/"}  # refused before it is connected to
        assert served.ask("POST", "/admin/v1/notifications", document).status == 201
        for _ in range(times):
            assert served.ask("POST", f"/admin/v1/notifications/{name}/test").status == 201
    for name in ("desk", "mail"):
        eventually(partial(were_tried, served, name))
    with opened(served.home) as store:
        condition = "notification_id IN ('desk', 'mail')"
        run_statement(store.database, f"UPDATE deliveries SET state = 'dead', due_at = NULL WHERE {condition}")
    assert "Send 2 dead again …" in plain(operator.get("/deliveries?notification_id=mail"))
    asked = operator.get("/deliveries/replay?notification_id=desk")
    assert "Send 1 dead delivery again?" in plain(asked)
    answer = operator.post("/deliveries/replay", {"notification_id": "desk"})
    assert location(answer) == (303, "/console/deliveries?notification_id=desk&done=replayed")
    listed = served.ask("GET", "/admin/v1/deliveries?state=dead").json["data"]
    assert [each["notification_id"] for each in listed] == ["mail", "mail"]
    entry = served.ask("GET", "/admin/v1/audit?order=newest&per_page=1").json["data"][0]
    assert (entry["action"], entry["after"]) == ("deliveries.replayed", {"count": 1, "notification_id": "desk"})
    assert "No dead delivery matches." in plain(operator.get("/deliveries/replay?relayer_id=nobody"))


def test_a_webhook_that_is_refused_gets_a_warning(served: Running, operator: Operator) -> None:
    warning = f"The URL {REFUSED}."

    def page_after(path: str, form: dict[str, str]) -> str:
        return plain(operator.get(operator.post(path, form).headers["location"].removeprefix("/console")))

    local, public = {"url": "http://127.0.0.1:9/"}, {"url": "https://hooks.example.com/x"}
    assert warning in page_after("/notifications", {"id": "local"} | local)
    for form, warned in ((public, False), (local, True)):
        etag = {"etag": etag_in(operator.get("/notifications/local"))}
        assert (warning in page_after("/notifications/local", form | etag | {"key": "keep", "do": "save"})) is warned
    assert served.ask("DELETE", "/admin/v1/notifications/local").status == 200


def test_send_a_test_event(operator: Operator) -> None:
    answer = operator.post("/notifications/pager/test")
    assert answer.status == 303
    page = operator.text(answer.headers["location"].removeprefix("/console"))
    assert "notification.test" in page


def test_a_new_token_is_shown_once(served: Running, operator: Operator) -> None:
    answer = operator.post("/tokens", {"name": "ci", "kind": "readonly", "expires": "30d"})
    assert answer.status == 201
    token = answer.body.decode().partition('data-copy="')[2].partition('"')[0]
    assert served.ask("GET", "/api/v1/signers", token=token).status == 200
    assert token not in operator.text("/tokens")
    assert location(operator.post("/tokens/ci/revoke")) == (303, "/console/tokens?done=revoked")
    assert served.ask("GET", "/api/v1/signers", token=token).status == 401


def test_a_wrong_lifetime_is_refused(operator: Operator) -> None:
    answer = operator.post("/tokens", {"name": "ci 2", "kind": "api", "expires": "soon"})
    assert (answer.status, "Enter a number and a unit" in plain(answer)) == (400, True)


def test_pause_several_after_a_confirmation_that_names_them(served: Running, operator: Operator) -> None:
    selected = [("relayer", "sepolia-1"), ("relayer", "none"), ("verb", "pause")]
    asked = operator.post("/relayers/selected", selected)
    assert (asked.status, record(served, "relayers/sepolia-1")["paused"]) == (200, False)
    assert "Pause 2 relayers?" in plain(asked) and "sepolia-1" in plain(asked)
    done = operator.post("/relayers/selected", [*selected, ("confirmed", "yes")])
    assert record(served, "relayers/sepolia-1")["paused"] is True
    assert "Relayer with ID none not found" in plain(done)
    operator.post("/relayers/sepolia-1/resume")


def test_a_relayer_shows_when_its_signer_was_checked(served: Running, operator: Operator) -> None:
    operator.post("/signers/ops/check")
    checked = record(served, "signers/ops")["check"]
    page, at = operator.get("/relayers/sepolia-1"), checked["checked_at"]
    assert f"Signer check: ok: {checked['explanation']} (checked {at[:10]} {at[11:19]} UTC)." in plain(page)
    assert f'<time class="exact" datetime="{at}"' in page.body.decode()


def test_an_alarm_of_a_signer_is_shown_with_the_outcome(served: Running, operator: Operator) -> None:
    served.ask("POST", "/admin/v1/signers", {"id": "unusable", "type": "plain", "config": {"key": "no key"}})
    operator.post("/signers/unusable/check")
    for path in ("", "/audit"):
        assert "signer.unreachable (wrong_key_kind)" in plain(operator.get(path))
    operator.post("/signers/unusable/delete", {"typed": "unusable"})
