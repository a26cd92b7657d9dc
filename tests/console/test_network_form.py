"""The form that creates and edits networks, the test of a URL in it, and the export of records.

A form is sent as a browser without JavaScript sends it: with every field of the page, and the button that is pressed.
"""

import asyncio
import re
import tomllib
from collections.abc import AsyncIterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from relaydeck.console.node_calls import NodeTest, NodeTests, read_network
from relaydeck.networks.model import RpcUrl
from relaydeck.settings.model import read_settings
from tests.conftest import DEMO
from tests.console.conftest import Operator, plain
from tests.fees.archive import simulated
from tests.support.fault_node import CHAIN_ID, FaultNode, fault_nodes, started
from tests.support.running import Answer, Running, run_command
from tests.support.seeding import issue, opened

KEY = "Bearer hunter2"
FIRST = {"chain_id": "5", "native_symbol": "ETH", "rpc_urls[0].url": "http://127.0.0.1:9/key"}
USDC = '[USDC]\naddress = "0x1111111111111111111111111111111111111111"\ndecimals = 6\nrate = { fixed = "2500" }\n'


class FormFields(HTMLParser):
    """The fields of the last form of a page, as a browser sends them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self._open = ""  # a text area or selection
        self._first = False
        self.feed(page.partition("<main")[2].partition("</main>")[0])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "form":
            self.found = {}
        elif tag == "input" and (given.get("type") != "checkbox" or "checked" in given):
            self.found[given.get("name") or ""] = given.get("value") or ""
        elif tag in ("textarea", "select"):
            self._open = given.get("name") or ""
            self.found[self._open], self._first = "", True
        elif tag == "option" and (self._first or "selected" in given):
            self.found[self._open], self._first = given.get("value") or "", False

    def handle_data(self, data: str) -> None:
        if self.lasttag == "textarea" and self._open:
            self.found[self._open] += data.removeprefix("\n")

    def handle_endtag(self, tag: str) -> None:
        self._open = "" if tag in ("textarea", "select") else self._open


def fields(answer: Answer) -> dict[str, str]:
    return FormFields(answer.body.decode()).found


def press(operator: Operator, path: str, page: Answer, button: str, **typed: str) -> Answer:
    """Press a button of the form of a page, after these fields were typed."""
    return operator.post(path, fields(page) | typed | {"do": button})


def fill(operator: Operator, path: str, button: str, typed: Mapping[str, str]) -> Answer:
    return press(operator, path, operator.get(path), button, **typed)


def made(operator: Operator, name: str, **typed: str) -> str:
    """The path of the form that edits a new network."""
    answer = fill(operator, "/networks/new", "plan", FIRST | {"name": name} | typed)
    assert (answer.status, answer.headers.get("location")) == (303, f"/console/networks/{name}?done=created"), plain(
        answer
    )
    return f"/networks/{name}/edit"


def record(served: Running, name: str) -> dict[str, Any]:
    found: dict[str, Any] = served.ask("GET", f"/admin/v1/networks/{name}").json["data"]
    return {field: value for field, value in found.items() if field != "created_at"}


def headers_of(served: Running, name: str) -> list[list[tuple[str, str]]]:
    with opened(served.home) as store:
        return [each.revealed_headers for each in read_network(store, name).rpc_urls]


def saved(operator: Operator, path: str, **typed: str) -> Answer:
    """After the changes were shown."""
    return press(operator, path, fill(operator, path, "plan", typed), "save")


def test_create_a_network(served: Running, operator: Operator) -> None:
    made(
        operator, "made", **{"rpc_urls[1].url": "wss://node.example.com", "rpc_urls[1].weight": "3", "fee_tokens": USDC}
    )
    assert record(served, "made") == {
        "name": "made",
        "network_type": "evm",
        "chain_id": 5,
        "native_symbol": "ETH",
        "rpc_urls": [{"url": "http://127.0.0.1:9/key", "weight": 1}, {"url": "wss://node.example.com", "weight": 3}],
        "fee_tokens": tomllib.loads(USDC),
        "fee_model": "ethereum",
    }


@pytest.mark.parametrize("button", ["more", "back", "fill", "test-0"])
def test_no_button_works_on_an_unknown_network(operator: Operator, button: str) -> None:
    form = fields(operator.get("/networks/new")) | {"do": button}
    assert operator.post("/networks/nobody/edit", form).status == 404


def test_a_chain_gives_what_is_left_empty(served: Running, operator: Operator) -> None:
    made(operator, "by-chain", chain="polygon", chain_id="", native_symbol="")
    found = record(served, "by-chain")
    given = ("chain_id", "native_symbol", "fee_model", "tip_floor")
    assert [found[each] for each in given] == [137, "POL", "ethereum", 25_000_000_000]


def test_what_a_chain_gives_is_filled_in_and_shown(operator: Operator) -> None:
    page = fill(operator, "/networks/new", "fill", {"name": "later", "chain": "base"})
    filled = fields(page)
    assert [filled[each] for each in ("name", "chain", "chain_id", "native_symbol", "fee_model", "tip_floor")] == [
        *("later", "base", "8453", "ETH", "op_stack", ""),
    ]
    assert "Chain 8453 is base: coin ETH, fee model op_stack, base fee by op_stack, a block every 2 s." in plain(page)


def test_chains_that_cannot_be_estimated_are_named_with_the_reason(operator: Operator) -> None:
    assert "somnia: its price of gas depends on how much gas the sender has used before" in plain(
        operator.get("/networks/new")
    )


def test_another_chain_replaces_what_the_first_one_gave(served: Running, operator: Operator) -> None:
    path = made(operator, "moved", chain="polygon", chain_id="", native_symbol="")
    assert saved(operator, path, chain="base").status == 303
    found = record(served, "moved")
    given = ("chain_id", "native_symbol", "fee_model", "tip_floor")
    assert [found.get(each) for each in given] == [8453, "ETH", "op_stack", None]


def problems(answer: Answer) -> dict[str, str]:
    """By field."""
    found: dict[str, str] = {}
    for part in answer.body.decode().split('<div class="field wrong">')[1:]:
        name = part.partition('name="')[2].partition('"')[0]
        found[name] = plain(answer._replace(body=part.partition('role="alert">')[2].partition("</p>")[0].encode()))
    return found


def test_all_mistakes_are_shown_at_once_each_at_its_field(served: Running, operator: Operator) -> None:
    typed = {
        "name": "sepolia",
        "chain_id": "none",
        "rpc_urls[0].url": "ftp://node",
        "rpc_urls[1].url": "http://127.0.0.1:9",
        "rpc_urls[1].weight": "much",
        "rpc_urls[1].headers": "X Key: a\nX-Other",
        "fee_tokens": "[USDC]\ndecimals = 6\n[DAI]\n",
        "quorum": "9",
    }
    answer = fill(operator, "/networks/new", "plan", typed)
    assert answer.status == 400
    assert problems(answer) == {
        "name": "Is the name of another network.",
        "chain_id": "Expected an integer from 1 to 9223372036854775807, found a string.",
        "native_symbol": "Fill this in.",
        "rpc_urls[0].url": "Must begin with http://, https://, ws:// or wss://.",
        "rpc_urls[1].weight": "Expected an integer of at least 0, found a string.",
        "rpc_urls[1].headers": "[0].name: must be the name of an HTTP header: letters, digits and hyphens.",
        "fee_tokens": problems(answer)["fee_tokens"],
        "quorum": "Expected an integer from 1 to 5.",
    }
    assert "USDC.address: is missing" in problems(answer)["fee_tokens"]
    assert "DAI.decimals: is missing" in problems(answer)["fee_tokens"]
    assert record(served, "sepolia")["chain_id"] == 11155111


def test_the_name_of_another_network_is_refused(served: Running, operator: Operator) -> None:
    before = record(served, "sepolia")
    answer = fill(operator, "/networks/new", "plan", FIRST | {"name": "sepolia"})
    assert problems(answer) == {"name": "Is the name of another network."}
    assert record(served, "sepolia") == before


def test_fee_tokens_that_are_no_toml_are_refused_beside_other_mistakes(operator: Operator) -> None:
    answer = fill(operator, "/networks/new", "plan", FIRST | {"name": "", "fee_tokens": "USDC"})
    assert list(problems(answer)) == ["name", "fee_tokens"]
    assert problems(answer)["fee_tokens"].startswith("It is not TOML: ")


def test_fee_tokens_of_a_form_are_bounded(operator: Operator) -> None:
    answer = fill(operator, "/networks/new", "plan", FIRST | {"name": "n", "fee_tokens": "#" * 65_537})
    assert problems(answer) == {"fee_tokens": "Has more than 65536 characters: use an apply file."}


def test_the_changes_are_shown_before_they_are_saved(served: Running, operator: Operator) -> None:
    path = made(operator, "shown", fee_tokens=USDC)
    page = fill(operator, path, "plan", {"quorum": "2", "fee_tokens": USDC.replace("2500", "2600")})
    text = plain(page)
    assert "Quorum: unset → 2" in text
    assert "Fee token USDC: fixed: 2500 → 2600" in text
    assert "quorum" not in record(served, "shown")
    assert press(operator, path, page, "save").headers["location"] == "/console/networks/shown?done=saved"
    found = record(served, "shown")
    assert (found["quorum"], found["fee_tokens"]["USDC"]["rate"]) == (2, {"fixed": "2600"})


def test_emptied_fields_and_removed_tokens_are_removed(served: Running, operator: Operator) -> None:
    path = made(operator, "emptied", quorum="2", labels="team=payments\nenv=test", fee_tokens=USDC)
    typed = {"quorum": "", "labels": "env=test", "fee_tokens": "", "rpc_urls[0].url": ""}
    assert saved(operator, path, **typed).status == 303
    found = record(served, "emptied")
    assert [found.get(each) for each in ("quorum", "labels", "fee_tokens", "rpc_urls")] == [
        None,
        {"env": "test"},
        {},
        [],
    ]


def test_back_to_the_form_keeps_what_was_typed(operator: Operator) -> None:
    path = made(operator, "again")
    page = fill(operator, path, "plan", {"quorum": "2", "fee_tokens": USDC, "rpc_urls[1].url": "https://two.example"})
    again = fields(press(operator, path, page, "back"))
    assert [again[each].strip() for each in ("quorum", "fee_tokens", "rpc_urls[1].url")] == [
        *("2", USDC.strip(), "https://two.example")
    ]


def test_more_nodes_have_rows(operator: Operator) -> None:
    more = fill(operator, "/networks/new", "more", FIRST)
    assert [f"rpc_urls[{number}].url" in fields(more) for number in (0, 3, 4)] == [True, True, False]


def test_headers_are_kept_unless_they_are_replaced(served: Running, operator: Operator) -> None:
    path = made(operator, "keyed", **{"rpc_urls[0].headers": f"Authorization: {KEY}"})
    page = operator.get(path)
    assert fields(page)["rpc_urls[0].headers"] == "Authorization: (set)"
    assert saved(operator, path, **{"rpc_urls[0].weight": "5", "rpc_urls[1].url": "https://two.example"}).status == 303
    assert headers_of(served, "keyed") == [[("Authorization", KEY)], []]
    assert saved(operator, path, **{"rpc_urls[0].headers": "Authorization: Bearer another"}).status == 303
    assert headers_of(served, "keyed") == [[("Authorization", "Bearer another")], []]


def test_a_header_that_was_typed_survives_a_mistake_and_is_not_shown(served: Running, operator: Operator) -> None:
    typed = FIRST | {"name": "survives", "chain_id": "x", "rpc_urls[0].headers": f"Authorization: {KEY}"}
    refused = fill(operator, "/networks/new", "plan", typed)
    assert (refused.status, "hunter2" in refused.body.decode()) == (400, False)
    assert press(operator, "/networks/new", refused, "plan", chain_id="5").status == 303
    assert headers_of(served, "survives") == [[("Authorization", KEY)]]


def test_a_form_outlives_its_session_but_not_the_headers_typed_in_it(served: Running, operator: Operator) -> None:
    page = fill(operator, "/networks/new", "more", FIRST | {"name": "later"})
    keyed = fill(operator, "/networks/new", "more", FIRST | {"rpc_urls[0].headers": f"Authorization: {KEY}"})
    again = Operator(served.port).sign_in(served.token)
    refused = press(again, "/networks/new", keyed, "plan", name="lost", form_token=again.form_token)
    assert "type the values of headers again" in plain(refused)
    assert press(again, "/networks/new", page, "plan", form_token=again.form_token).status == 303


def test_a_stored_header_does_not_move_to_another_url(served: Running, operator: Operator) -> None:
    path = made(operator, "stays", **{"rpc_urls[0].headers": f"Authorization: {KEY}"})
    answer = fill(operator, path, "plan", {"rpc_urls[0].url": "https://other.example"})
    assert problems(answer)["rpc_urls[0].headers"].startswith("[0].value: is missing")
    assert headers_of(served, "stays") == [[("Authorization", KEY)]]


def test_a_change_by_somebody_else_is_shown_before_it_is_replaced(served: Running, operator: Operator) -> None:
    path = made(operator, "shared")
    page = fill(operator, path, "plan", {"quorum": "2"})
    assert served.ask("PATCH", "/admin/v1/networks/shared", {"max_lag_blocks": 7}).status == 200
    stopped = press(operator, path, page, "save")
    text = plain(stopped)
    assert "This network has changed since you opened the form. Nothing was saved." in text
    assert re.search("Blocks that a node may be behind–7 by token:root, .*as theirs", text)
    assert record(served, "shared").get("quorum") is None
    assert press(operator, path, stopped, "save").status == 303
    assert [record(served, "shared").get(each) for each in ("quorum", "max_lag_blocks")] == [2, 7]


def test_nodes_that_were_not_touched_follow_those_that_somebody_else_saved(served: Running, operator: Operator) -> None:
    path = made(operator, "shifted", **{"rpc_urls[0].headers": f"Authorization: {KEY}"})
    page = operator.get(path)
    (first,) = record(served, "shifted")["rpc_urls"]
    nodes = [{"url": "https://new.example", "weight": 2}, first]
    assert served.ask("PATCH", "/admin/v1/networks/shifted", {"rpc_urls": nodes}).status == 200
    stopped = press(operator, path, page, "plan", quorum="2")
    assert "https://new.example by token:root" in plain(stopped)
    assert press(operator, path, stopped, "save").status == 303
    assert [each["url"] for each in record(served, "shifted")["rpc_urls"]] == ["https://new.example", first["url"]]
    assert headers_of(served, "shifted") == [[], [("Authorization", KEY)]]


def test_a_header_that_was_typed_is_a_change_of_the_nodes(served: Running, operator: Operator) -> None:
    path = made(operator, "rekeyed", **{"rpc_urls[0].headers": f"Authorization: {KEY}"})
    page = operator.get(path)
    assert served.ask("PATCH", "/admin/v1/networks/rekeyed", {"max_lag_blocks": 7}).status == 200
    stopped = press(operator, path, page, "plan", **{"rpc_urls[0].headers": "Authorization: Bearer another"})
    assert press(operator, path, stopped, "save").status == 303
    assert headers_of(served, "rekeyed") == [[("Authorization", "Bearer another")]]
    assert record(served, "rekeyed")["max_lag_blocks"] == 7


def test_only_amounts_have_their_wei_beside_them(served: Running, operator: Operator) -> None:
    assert served.ask("PATCH", "/admin/v1/networks/sepolia", {"tip_ceiling": 5 * 10**9, "quorum": 1}).status == 200
    shown = re.findall(r'<p class="help exact">= ([^<]*)</p>', operator.text("/networks/sepolia/edit"))
    assert shown == ["5,000,000,000 wei"]
    assert served.ask("PATCH", "/admin/v1/networks/sepolia", {"tip_ceiling": None, "quorum": None}).status == 200


def test_nothing_to_change(operator: Operator) -> None:
    path = made(operator, "same", fee_tokens=USDC, **{"rpc_urls[0].headers": f"Authorization: {KEY}"})
    assert "Nothing to change: this is what is saved." in plain(fill(operator, path, "plan", {}))


def test_nodes_that_do_not_open_are_not_replaced_by_none(served: Running, operator: Operator) -> None:
    path = made(operator, "damaged")
    with opened(served.home) as store, store.database.transaction() as transaction:
        transaction.execute("UPDATE networks SET sealed_rpc_urls = :other WHERE name = 'damaged'", {"other": b"x"})
    answer = fill(operator, path, "plan", {"quorum": "2"})
    assert (answer.status, "the stored rpc_urls cannot be opened: set it again" in plain(answer)) == (409, True)
    assert served.ask("DELETE", "/admin/v1/networks/damaged").status == 200  # it stands in the way of an export


def test_a_network_is_deleted_after_its_name_is_typed(served: Running, operator: Operator) -> None:
    made(operator, "gone")
    answer = press(operator, "/networks/gone/delete", operator.get("/networks/gone/delete"), "", typed="gone")
    assert (answer.status, answer.headers["location"]) == (303, "/console/networks?done=deleted")
    assert served.ask("GET", "/admin/v1/networks/gone").status == 404


def test_a_readonly_session_opens_no_form_with_urls_and_tests_nothing(served: Running, looker: Operator) -> None:
    assert looker.get("/networks/sepolia/edit").status == 403
    assert looker.post("/networks/new", FIRST | {"do": "test-0"}).status == 403
    assert "/export" not in looker.text("/networks/sepolia")
    assert looker.get("/export").status == 403


@pytest.mark.parametrize("role", ["readonly", "viewer", "operator", "editor"])
def test_the_form_of_a_new_network_offers_nothing_that_is_refused(served: Running, role: str) -> None:
    person = Operator(served.port).sign_in(issue(served.home, f"form {role}", role))
    form = person.text("/networks/new").partition('class="wide"')[2].partition("</form>")[0]
    buttons = re.findall('<button[^>]* value="([^"]+)"([^>]*)>', form)
    assert [name for name, _ in buttons] == ["plan", "fill", "test-0", "more", "plan"]
    assert {"disabled" in attributes for _, attributes in buttons} == {role != "editor"}


# -- Test this URL --


async def said(operator: Operator, path: str, typed: Mapping[str, str]) -> str:
    page = await asyncio.to_thread(fill, operator, path, "test-0", typed)
    return plain(page._replace(body=page.body.partition(b'role="status">')[2].partition(b"</p>")[0]))


def without_time(text: str) -> str:
    _, _, after = text.partition("; ")[2].rpartition(" ms")[0].rpartition("; ")
    assert after.isdigit(), text
    return text.replace(f"; {after} ms", "")


async def test_a_url_is_tested_before_it_is_saved(operator: Operator) -> None:
    async with started(FaultNode()) as node:
        node.answers = {"eth_simulateV1": simulated(21_000)}
        typed = FIRST | {"chain_id": str(CHAIN_ID), "rpc_urls[0].url": node.url}
        found = await said(operator, "/networks/new", typed)
        assert without_time(found) == f"Chain id {CHAIN_ID}; block {node.block}. It simulates with eth_simulateV1."
        node.answers = {}
        found = await said(operator, "/networks/new", typed | {"chain_id": "5"})
        assert without_time(found) == (
            f"It is on chain id {CHAIN_ID}, not 5. Chain id {CHAIN_ID}; block {node.block}."
            " Without eth_simulateV1: gas is what eth_estimateGas returns."
        )


async def test_a_url_is_tested_with_its_stored_headers_and_beside_the_stored_nodes(
    served: Running, operator: Operator
) -> None:
    async with fault_nodes("healthy", "healthy") as (first, second):
        first.block, second.block = 105, 100
        typed = {"chain_id": str(CHAIN_ID), "rpc_urls[0].url": second.url, "rpc_urls[1].url": first.url}
        path = await asyncio.to_thread(
            lambda: made(operator, "beside", **typed, **{"rpc_urls[0].headers": f"Authorization: {KEY}"})
        )
        found = await said(operator, path, {})
        assert "block 100, 5 behind the newest of the stored nodes; " in found


async def test_a_url_that_does_not_answer(operator: Operator) -> None:
    assert await said(operator, "/networks/new", FIRST) == "It refused the connection. "


async def test_a_url_with_mistakes_is_not_called(operator: Operator) -> None:
    typed = FIRST | {"rpc_urls[0].url": "ftp://node", "rpc_urls[0].weight": "-"}
    assert (await said(operator, "/networks/new", typed)).startswith(
        "It is not called: its url must begin with http://, https://, ws:// or wss://; its weight expected"
    )
    assert await said(operator, "/networks/new", {}) == "It is not called: type its URL. "


def test_a_url_passes_the_guard_of_nodes(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    token = issue(home, "root", "admin")
    with Running(home, token=token, rpc_guard="http", monitor_interval_seconds="3600") as running:
        operator = Operator(running.port).sign_in(token)
        page = plain(fill(operator, "/networks/new", "test-0", FIRST))
        assert "It is not public: set it with a command on the server's machine" in page
        # Stored by a command, and so called as before.
        assert "It refused the connection." in plain(fill(operator, "/networks/sepolia/edit", "test-0", {}))


@pytest.fixture
async def tests(home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[NodeTests]:
    monkeypatch.setenv("RELAYDECK_HOME", str(home))
    yield NodeTests(read_settings(), lambda: 0.0)


async def test_so_many_urls_are_tested_a_minute(tests: NodeTests) -> None:
    url = RpcUrl("http://127.0.0.1:9", 1, UNSET)
    for _ in range(30):
        assert await tests.test(url, 5) == NodeTest("refused the connection")
    refused = "was not called: 30 URLs were tested within a minute; try again in a moment"
    assert await tests.test(url, 5) == NodeTest(refused)


# -- Export --


def test_a_record_is_exported_as_an_apply_file(served: Running, operator: Operator) -> None:
    made(operator, "exported", fee_tokens=USDC, **{"rpc_urls[0].headers": f"Authorization: {KEY}"})
    page = operator.text("/networks/exported")
    assert 'href="/console/export?resource=networks&amp;record=exported" download' in page
    answer = operator.get("/export?resource=networks&record=exported")
    assert answer.headers["content-disposition"] == 'attachment; filename="networks-exported.toml"'
    exported = tomllib.loads(answer.body.decode())
    assert list(exported) == ["networks"] and list(exported["networks"]) == ["exported"]
    assert exported["networks"]["exported"]["fee_tokens"] == tomllib.loads(USDC)
    assert "hunter2" not in answer.body.decode()


@pytest.mark.parametrize(
    ("page", "resource", "name"),
    [("signers", "signers", "ops"), ("notifications", "notifications", "pager"), ("relayers", "relayers", "sepolia-1")],
)
def test_each_record_has_its_export(operator: Operator, page: str, resource: str, name: str) -> None:
    assert f'href="/console/export?resource={resource}&amp;record={name}" download' in operator.text(f"/{page}/{name}")
    exported = tomllib.loads(operator.text(f"/export?resource={resource}&record={name}"))
    assert [(kind, [each["id"] for each in found]) for kind, found in exported.items()] == [(resource, [name])]


def test_all_records_are_exported(served: Running, operator: Operator) -> None:
    assert 'href="/console/export" download' in operator.text("/apply")
    answer = operator.get("/export")
    assert answer.headers["content-disposition"] == 'attachment; filename="relaydeck.toml"'
    assert answer.body.decode() == served.ask("GET", "/admin/v1/export").json["data"]["toml"]
