"""The audit page: filters, links, a file, and changes that are planned back."""

import csv
import re
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest

from tests.console.conftest import Operator, plain
from tests.support.running import Answer, Running
from tests.support.seeding import ADDRESS


def newest(served: Running, record: str) -> dict[str, Any]:
    (found,) = served.ask("GET", f"/admin/v1/audit?record={record}&order=newest&per_page=1").json["data"]
    return dict(found)


def create(served: Running, name: str, **fields: Any) -> None:
    document = {"id": name, "name": name, "network": "sepolia", "network_type": "evm", "signer_id": "ops"} | fields
    assert served.ask("POST", "/admin/v1/relayers", document).status == 201


def update(served: Running, path: str, change: dict[str, Any]) -> None:
    assert served.ask("PATCH", f"/admin/v1/{path}", change, headers={"If-Match": "*"}).status == 200


def revert(operator: Operator, entry: dict[str, Any]) -> Answer:
    operator.get(f"/audit?record={entry['record']}")
    return operator.post(f"/audit/{entry['sequence']}/revert")


def apply_planned(operator: Operator, planned: Answer) -> Answer:
    form = {
        name: re.findall(f'name="{name}" value="([^"]*)"', planned.body.decode())[0] for name in ("sealed", "revision")
    }
    return operator.post("/apply/plan", form)


def test_entries_are_found_by_day_person_action_and_record(served: Running, operator: Operator) -> None:
    create(served, "found", policies={"min_balance": 5})
    update(served, "relayers/found", {"policies": {"min_balance": 7}})
    today = datetime.now(UTC).date()
    days = f"from={today - timedelta(1)}&to={today + timedelta(1)}"
    asked = f"record=found&action=relayer.updated&actor=token:root&by=people&{days}"
    page = operator.text(f"/audit?{asked}")
    assert page.count('<td class="changes" data-label="change">') == 1
    assert f'type="date" name="from" value="{today - timedelta(1)}"' in page
    assert "No entry matches." in operator.text(f"/audit?record=found&to={today - timedelta(1)}")


def test_an_entry_links_to_its_record_and_a_record_to_its_entries(served: Running, operator: Operator) -> None:
    create(served, "linked")
    page = operator.text("/audit?record=linked")
    assert '<a href="/console/relayers/linked">' in page
    assert 'href="/console/audit?actor=token%3Aroot"' in page
    assert 'href="/console/audit?action=relayer&amp;record=linked"' in operator.text("/relayers/linked")


KINDS = {"networks": "network", "signers": "signer", "notifications": "notification", "relayers": "relayer"}


@pytest.fixture(scope="module")
def alike(served: Running) -> str:
    """A record of each kind with the same name, each with a change that can be reverted."""
    more = {
        "networks": {"name": "alike", "network_type": "evm", "chain_id": 1, "native_symbol": "ETH"},
        "signers": {"id": "alike", "type": "plain", "config": {"key": f"0x{7:064x}"}},
        "notifications": {"id": "alike", "type": "webhook", "url": "https://hooks.example.com"},
    }
    for resource, document in more.items():
        assert served.ask("POST", f"/admin/v1/{resource}", document).status == 201
    create(served, "alike", signer_id="alike", network="alike")
    for resource in KINDS:
        update(served, f"{resource}/alike", {"labels": {"team": "a"}})
    return "alike"


@pytest.mark.parametrize("resource", KINDS)
def test_the_page_of_each_record_lists_its_own_changes(
    served: Running, operator: Operator, alike: str, resource: str
) -> None:
    kind = KINDS[resource]
    path, changes = f"/{resource}/{alike}", f"/console/audit?action={kind}&record={alike}"
    listed = operator.text(path).partition('id="changes">')[2]
    assert re.findall(r'audit\?action=(\w+\.\w+)"', listed) == [f"{kind}.updated", f"{kind}.created"]
    assert ("/revert" in listed, changes.replace("&", "&amp;") in listed) == (resource != "signers", True)
    logged = served.ask("GET", f"/admin/v1{changes.removeprefix('/console')}").json["data"]
    assert [each["action"] for each in logged] == [f"{kind}.created", f"{kind}.updated"]
    assert f'href="{changes.replace("&", "&amp;")}">its changes' in operator.text("/audit?record=alike")


def test_who_may_only_look_sees_the_changes_without_a_way_back(looker: Operator, alike: str) -> None:
    for resource in KINDS:
        listed = looker.text(f"/{resource}/{alike}").partition('id="changes">')[2]
        assert [f"{KINDS[resource]}.updated" in listed, "Revert" in listed] == [True, False]


def test_what_is_listed_is_a_file(served: Running, operator: Operator) -> None:
    create(served, "filed")
    update(served, "relayers/filed", {"policies": {"min_balance": 7}})
    answer = operator.get("/audit/csv?record=filed")
    rows = list(csv.DictReader(StringIO(answer.body.decode())))
    assert answer.headers["content-disposition"] == 'attachment; filename="audit.csv"'
    assert [each["action"] for each in rows] == ["relayer.updated", "relayer.created"]
    assert rows[0] | {"sequence": "", "at": ""} == {
        "sequence": "",
        "at": "",
        "actor": "token:root",
        "origin": "",
        "action": "relayer.updated",
        "record": "filed",
        "before": '{"policies.min_balance":0}',
        "after": '{"policies.min_balance":7}',
    }


def test_a_change_is_planned_back_and_made_only_when_confirmed(served: Running, operator: Operator) -> None:
    nodes = [{"url": "https://node.example.com/key", "weight": 3}]
    create(served, "changed", policies={"min_balance": 5}, labels={"team": "a"}, custom_rpc_urls=nodes)
    update(served, "relayers/changed", {"name": "other", "policies": {"min_balance": 10**30}, "labels": None})
    planned = revert(operator, newest(served, "changed"))
    assert planned.status == 200
    shown = re.findall("<li>([A-Za-z ]+): ", planned.body.decode())
    assert sorted(shown) == ["Labels", "Minimum balance", "Name"]
    assert served.ask("GET", "/admin/v1/relayers/changed").json["data"]["name"] == "other"
    assert apply_planned(operator, planned).status == 200
    now = served.ask("GET", "/admin/v1/relayers/changed").json["data"]
    assert (now["name"], now["policies"]["min_balance"], now["labels"]) == ("changed", 5, {"team": "a"})
    assert now["custom_rpc_urls"] == nodes


def test_amounts_are_in_coins_in_the_log_and_in_the_plan_back(served: Running, operator: Operator) -> None:
    create(served, "valued", policies={"min_balance": 10**17})
    update(served, "relayers/valued", {"policies": {"min_balance": 7 * 10**17 + 1}})
    listed = operator.get("/audit?record=valued&action=relayer.updated")
    assert "Minimum balance: 0.1 ETH → 0.700000000000000001 ETH" in plain(listed)
    assert 'title="700,000,000,000,000,001 Wei"' in listed.body.decode()
    planned = plain(revert(operator, newest(served, "valued")))
    assert "Minimum balance: 0.700000000000000001 ETH → 0.1 ETH" in planned


def test_a_fee_token_is_in_words(served: Running, operator: Operator) -> None:
    token = {"address": ADDRESS, "decimals": 6, "rate": {"fixed": "2500"}}
    update(served, "networks/sepolia", {"fee_tokens": {"WORD": token}})
    update(served, "networks/sepolia", {"fee_tokens": {"WORD": {"margin_percent": "2"}}})
    log = plain(operator.get("/audit?record=sepolia&action=network.updated"))
    assert f"Fee token WORD: unset → address {ADDRESS}, decimals 6, fixed 2500" in log
    assert "Fee token WORD: margin percent: unset → 2" in log
    planned = plain(revert(operator, newest(served, "sepolia")))
    assert "Fee token WORD: margin percent: 2 → unset" in planned


def test_a_deleted_record_without_secrets_is_planned_back(served: Running, operator: Operator) -> None:
    create(served, "gone", policies={"min_balance": 5})
    before = served.ask("GET", "/admin/v1/relayers/gone").json["data"]
    assert served.ask("DELETE", "/admin/v1/relayers/gone").status == 200
    assert apply_planned(operator, revert(operator, newest(served, "gone"))).status == 200
    now = served.ask("GET", "/admin/v1/relayers/gone").json["data"]
    assert now | {"created_at": ""} == before | {"created_at": ""}


def test_a_paused_relayer_that_was_deleted_comes_back_paused(served: Running, operator: Operator) -> None:
    create(served, "resting")
    before = [served.ask("POST", "/admin/v1/relayers/resting/pause").json["data"]]
    assert served.ask("DELETE", "/admin/v1/relayers/resting").status == 200
    planned = revert(operator, newest(served, "resting"))
    assert re.findall("<li>(\\w+): <bdi>(\\w+)", planned.body.decode()) == [("Paused", "true")]
    assert apply_planned(operator, planned).status == 200
    after = [served.ask("GET", "/admin/v1/relayers/resting").json["data"]]
    assert [each | {"created_at": ""} for each in after] == [each | {"created_at": ""} for each in before]
    made = served.ask("GET", "/admin/v1/audit?record=resting&order=newest&per_page=2").json["data"]
    assert [each["action"] for each in made] == ["relayer.paused", "relayer.created"]
    assert "paused an operator paused it" in plain(operator.get("/relayers/resting"))


def test_a_fee_token_of_a_network_is_planned_back(served: Running, operator: Operator) -> None:
    token = {"address": "0x" + "ab" * 20, "decimals": 6, "rate": {"feed": "0x" + "fe" * 20, "max_age": "1h"}}
    update(served, "networks/sepolia", {"fee_tokens": {"USDC": token}})
    tokens = served.ask("GET", "/admin/v1/networks/sepolia").json["data"]["fee_tokens"]
    update(served, "networks/sepolia", {"fee_tokens": {"USDC": None}})
    assert apply_planned(operator, revert(operator, newest(served, "sepolia"))).status == 200
    assert served.ask("GET", "/admin/v1/networks/sepolia").json["data"]["fee_tokens"] == tokens


@pytest.mark.parametrize("change", [{"signing_key": "another"}, {"url": "https://hooks.example.com/other"}])
def test_what_is_hidden_is_not_planned_back(served: Running, operator: Operator, change: dict[str, str]) -> None:
    update(served, "notifications/pager", change)
    entry = newest(served, "pager")
    assert "/revert" not in operator.text("/audit?record=pager&action=notification.updated")
    answer = revert(operator, entry)
    assert (answer.status, "cannot be planned back" in plain(answer)) == (409, True)


@pytest.mark.parametrize("number", ["0", "999999999", "x", "9" * 30])
def test_an_unknown_entry_is_not_planned_back(operator: Operator, number: str) -> None:
    assert operator.post(f"/audit/{number}/revert").status == 404


def test_who_may_not_apply_has_no_button(served: Running, looker: Operator) -> None:
    create(served, "seen")
    update(served, "relayers/seen", {"name": "other"})
    assert "/revert" not in looker.text("/audit?record=seen")
    assert looker.post("/audit/1/revert").status == 403


def test_a_pause_is_taken_back_from_its_entry(served: Running, operator: Operator) -> None:
    create(served, "stopped")
    for verb, opposite in (("pause", "resume"), ("resume", "pause")):
        assert served.ask("POST", f"/admin/v1/relayers/stopped/{verb}").status == 200
        page = operator.text(f"/audit?record=stopped&action=relayer.{verb}d")
        row = page.partition('<td class="changes" data-label="change">')[2].partition("</td>")[0]
        assert [f'name="verb" value="{opposite}"' in row, 'name="relayer" value="stopped"' in row] == [True, True]
        assert f"{opposite.capitalize()} 1 relayer?" in plain(
            operator.post("/relayers/selected", {"verb": opposite, "relayer": "stopped"})
        )


def test_a_secret_that_was_replaced_says_why_it_does_not_come_back(served: Running, operator: Operator) -> None:
    update(served, "notifications/pager", {"signing_key": "yet another"})
    create(served, "noded", custom_rpc_urls=[{"url": "https://node.example.com/key"}])
    update(served, "relayers/noded", {"custom_rpc_urls": []})
    for record, link in (("pager", "/console/notifications/pager#edit"), ("noded", "/console/relayers/noded/edit")):
        page = operator.text(f"/audit?record={record}&by=people")
        assert f'Cannot be reverted: a secret is not kept. <a href="{link}">Replace it</a>' in page
    assert served.ask("DELETE", "/admin/v1/relayers/noded").status == 200
