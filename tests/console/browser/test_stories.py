"""The jobs of an operator's day, each as a person does it in a browser, with its clicks counted.

There is a real node, real receivers of events and a real provider of single sign-on. What a page states is compared
with what the node, the database and the API say, also after it has changed.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from relaydeck.console.formats import lasts
from relaydeck.notifications.notification_changes import place
from relaydeck.store.audit import AuditEntry, AuditLog
from tests.console.browser.conftest import Observer
from tests.console.browser.person import Effort, Person, exact
from tests.console.conftest import new_link
from tests.console.test_runway import COIN, spend
from tests.node.process import HARDHAT, running
from tests.single_sign_on.process import RunningProvider, running_provider
from tests.support.accounts import account
from tests.support.fee_chain import HARDHAT_KEY, Chain
from tests.support.running import Running, ask, eventually, free_port, run_command
from tests.support.seeding import issue, opened
from tests.support.statements import run_statement
from tests.support.verifying import VerifyingReceiver, verifying_receiver

FLEET = [f"Fleet {number:02}" for number in range(1, 21)]
EMPTY_SOON, BROKEN = "Soon empty", "Broken"
NAMES = [*FLEET, EMPTY_SOON, BROKEN]
DEAD_NODE = "http://127.0.0.1:9/broken"
DAY = 86_400
PEOPLE = {"olga": {"email": "olga@example.com", "email_verified": True, "groups": ["relaydeck-owners"]}}
OTHER = "0x" + "42" * 20
Enter = Callable[..., Person]


class Scene(NamedTuple):
    served: Running
    chain: Chain
    provider: RunningProvider
    receivers: dict[str, VerifyingReceiver]  # by notification

    def api(self, path: str) -> Any:
        return self.served.ask("GET", f"/admin/v1/{path}").json["data"]

    def change(self, path: str, document: Any) -> None:
        assert self.served.ask("PATCH", f"/admin/v1/{path}", document).status == 200

    def do(self, path: str) -> None:
        assert self.served.ask("POST", f"/admin/v1/{path}").status < 300

    def states(self, names: list[str]) -> list[bool]:
        """Whether each of these relayers is paused, in the database."""
        with opened(self.served.home) as store:
            rows = store.database.read("SELECT name, paused FROM relayers", {})
        paused = {row.name: bool(row.paused) for row in rows}
        return [paused[each] for each in names]

    def balance(self, name: str) -> int:
        return int(self.chain.rpc("eth_getBalance", address_of(name), "latest"), 16)


def id_of(name: str) -> str:
    return name.lower().replace(" ", "-")


def key_of(name: str) -> str:
    return f"{NAMES.index(name) + 0x1000:064x}"


def address_of(name: str) -> str:
    return str(account(key_of(name)).address)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("stories")
    home, port = folder / "home", free_port()
    with ExitStack() as stack:
        chain = Chain(stack.enter_context(running(HARDHAT)), HARDHAT_KEY)
        stack.callback(chain.close)
        receivers = {each: stack.enter_context(verifying_receiver()) for each in ("pager", "desk", "mail")}
        prepare(home, chain, receivers)
        provider = stack.enter_context(running_provider(folder, f"http://127.0.0.1:{port}/console"))
        provider.change(PEOPLE)
        served = stack.enter_context(
            Running(
                *(home, "--workers", "2"),
                at=str(port),
                token=issue(home, "root", "admin"),
                issuers=json.dumps([provider.settings()]),
                monitor_interval_seconds="1",
                webhook_allow="127.0.0.1",
            )
        )
        yield Scene(served, chain, provider, receivers)


def prepare(home: Path, chain: Chain, receivers: dict[str, VerifyingReceiver]) -> None:
    """A fleet, a relayer with a day of spending behind it, and a change that was made yesterday."""
    applied = run_command(home, "apply", "-", stdin=fleet(chain.url, receivers), webhook_allow="127.0.0.1")
    assert applied.returncode == 0, applied.stderr
    for each in NAMES:
        chain.rpc("hardhat_setBalance", address_of(each), hex((5 if each == EMPTY_SOON else 1000) * COIN))
    now = int(time.time())
    spend(home, {id_of(EMPTY_SOON): 5 * COIN}, now=now - 60)
    changed = AuditEntry(
        *(now - DAY, "token:carol", "relayer.updated", "fleet-03"),
        before='{"policies.min_balance":0}',
        after='{"policies.min_balance":7}',
    )
    with opened(home) as store, store.database.transaction() as transaction:
        AuditLog(store.vault, "console").append(transaction, [changed])


def fleet(node: str, receivers: dict[str, VerifyingReceiver]) -> str:
    """An apply file with a network, three receivers, and the relayers, each with a key of its own."""
    text = f"""[networks.dev]
network_type = "evm"
chain_id = 31337
native_symbol = "ETH"
rpc_urls = [{{ url = "{node}" }}]
"""
    for name, receiver in receivers.items():
        text += f"""[[notifications]]
id = "{name}"
type = "webhook"
url = "{receiver.url}"
signing_key = "{receiver.key}"
"""
    for name in NAMES:
        text += f"""[[signers]]
id = "{id_of(name)}"
type = "plain"
config = {{ key = "0x{key_of(name)}" }}
[[relayers]]
id = "{id_of(name)}"
name = "{name}"
network = "dev"
network_type = "evm"
signer_id = "{id_of(name)}"
"""
        text += 'notification_id = "pager"\n' if name in FLEET else ""
    return text


@pytest.fixture(scope="module")
def efforts() -> Iterator[list[Effort]]:
    """What each job took. The table is printed at the end."""
    found: list[Effort] = []
    yield found
    print("\n".join(["", "| job | clicks | keys | fields |", "|---|---|---|---|", *(each.whole_row for each in found)]))


@pytest.fixture
def visit(browser: Browser, scene: Scene, efforts: list[Effort]) -> Iterator[Enter]:
    """A person with a browser. Nothing that a page of the console may not do happens in it."""
    opened_contexts, observers = list[BrowserContext](), list[Observer]()

    def open_browser(*, signed_in: bool = True, watched: bool = True, **options: Any) -> Person:
        context = browser.new_context(base_url=f"http://127.0.0.1:{scene.served.port}", **options)
        opened_contexts.append(context)
        page = context.new_page()
        if watched:
            observers.append(Observer(page, scene.served.port))
        if signed_in:
            sign_in(page, scene.served.token)
        return Person(page, efforts)

    yield open_browser
    assert [found for each in observers for found in each.found] == []
    for each in opened_contexts:
        each.close()


def sign_in(page: Page, token: str) -> None:
    page.goto("/console")
    page.get_by_label("Access token").fill(token)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url("**/console")


def newest(scene: Scene, **filters: str) -> Any:
    query = "&".join(f"{name}={value}" for name, value in filters.items())
    return scene.api(f"audit?order=newest&per_page=1&{query}")[0]


def test_sign_in_with_a_link(scene: Scene, visit: Enter) -> None:
    person = visit(signed_in=False)
    person.page.goto(f"/console{new_link(scene.served)}")
    person.press("Sign in")
    expect(person.page.locator("h1")).to_have_text("Overview")
    assert newest(scene, action="session.opened")["actor"].startswith("token:console-")
    person.has_done("sign in with a link")


def test_sign_in_with_a_token(scene: Scene, visit: Enter) -> None:
    person = visit(signed_in=False)
    person.page.goto("/console")
    person.fill("Access token", scene.served.token)
    person.press("Sign in")
    expect(person.page.locator(".signed")).to_have_text("root admin")
    assert newest(scene, action="session.opened")["actor"] == "token:root"
    person.has_done("sign in with a token")


def test_sign_in_with_single_sign_on(scene: Scene, visit: Enter) -> None:
    person = visit(signed_in=False, watched=False)  # pages of the provider load fonts
    person.page.goto("/console/relayers")
    person.click("Sign in with company")
    person.fill(person.page.get_by_placeholder("Enter any login"), "olga")
    person.fill(person.page.get_by_placeholder("and password"), "any")
    person.press("Sign-in")
    person.press("Continue")
    expect(person.page.locator(".signed")).to_have_text("person:olga@example.com owner")
    expect(person.page.locator("h1")).to_have_text("Relayers")
    assert newest(scene, action="session.opened")["actor"] == "person:olga@example.com"
    person.has_done("sign in with single sign-on")


def test_find_why_a_relayer_is_disabled_and_fix_it(scene: Scene, visit: Enter) -> None:
    scene.change(f"relayers/{id_of(BROKEN)}", {"custom_rpc_urls": [{"url": DEAD_NODE, "weight": 1}]})
    eventually(lambda: scene.api(f"relayers/{id_of(BROKEN)}")["system_disabled"])
    person = visit()
    problem = person.page.get_by_role("region", name="Problems of relayers").get_by_role("row", name=BROKEN)
    expect(problem).to_contain_text("disabled")
    (known,) = [each for each in scene.api("problems") if each["state"] == "disabled"]
    expect(problem.locator("td.cause").first).to_have_text(known["cause"])
    person.click(problem.get_by_role("link", name=BROKEN))
    person.sees("http://127.0.0.1:9")
    person.click("Edit")
    person.fill(person.page.locator('[name="custom_rpc_urls"]'), scene.chain.url)
    person.press("Show the changes")
    person.sees(f"[http://127.0.0.1:9 weight 1] → [{scene.chain.url} weight 1]")
    person.press("Save")
    person.sees("Nothing is known to be wrong.")  # without loading the page again
    expect(person.page.locator("h1 .badge")).to_have_text("active")
    assert scene.api(f"relayers/{id_of(BROKEN)}")["system_disabled"] is False
    node = person.page.get_by_role("region", name="Answers of the nodes").locator("tbody tr")
    expect(node.locator("td").nth(2)).to_have_text(f"{int(scene.chain.rpc('eth_blockNumber'), 16):,}")
    person.has_done("find why a relayer is disabled, and fix it")
    assert [each for each in scene.api("problems") if each["state"] == "disabled"] == []
    person.page.goto("/console")
    expect(person.page.get_by_role("link", name="disabled")).to_contain_text("0 disabled")
    expect(problem).to_have_count(0)


def test_see_what_runs_out_first_and_top_it_up(scene: Scene, visit: Enter) -> None:
    person = visit(permissions=["clipboard-read", "clipboard-write"])
    first = person.page.get_by_role("region", name="Forecasts").locator("tbody tr").first
    expect(first).to_contain_text(EMPTY_SOON)
    person.click("All, with what to add")
    first = person.page.locator("tbody tr").first
    cells = {label: first.locator(f'[data-label="{label}"]') for label in ("balance", "to reach 30 d", "address")}
    assert exact(cells["balance"].locator(".amount")) == scene.balance(EMPTY_SOON)
    needed = exact(cells["to reach 30 d"].locator(".amount"))
    states_the_runway(scene, first)
    (known,) = [each for each in scene.api("runways?days=30")["runways"] if each["relayer_id"] == id_of(EMPTY_SOON)]
    assert abs(needed - known["needed"]) < COIN // 1000
    person.click(cells["address"].get_by_role("button", name="Copy"))
    address = person.page.evaluate("navigator.clipboard.readText()")
    assert scene.chain.send({"to": address, "value": needed})["status"] == "0x1"
    topped_up = scene.balance(EMPTY_SOON)
    row = person.page.get_by_role("row", name=EMPTY_SOON)
    expect(row.locator('[data-label="balance"] .amount')).to_have_attribute("title", f"{topped_up:,} Wei")
    expect(row.locator('[data-label="last top-up"] .amount')).to_have_attribute("title", f"{needed:,} Wei")
    assert scene.api(f"relayers/{id_of(EMPTY_SOON)}/runway")["balance"] == topped_up == 5 * COIN + needed
    states_the_runway(scene, row)
    person.has_done("see what runs out first, and top it up")


def states_the_runway(scene: Scene, row: Locator) -> None:
    """As the API does at about this moment: the page counts down, and was loaded earlier."""
    seconds = scene.api(f"relayers/{id_of(EMPTY_SOON)}/runway")["until_minimum"]["seconds"]
    shown = row.locator('[data-label="runway"]').inner_text().split("\n")[0]
    assert shown in {lasts(seconds + earlier) for earlier in range(-30, 300, 30)}


def test_pause_twenty_and_resume_them(scene: Scene, visit: Enter) -> None:
    person = visit()
    person.click("Relayers")
    person.fill(person.page.get_by_role("searchbox", name="Name", exact=True), "Fleet")
    person.key("Enter")
    expect(person.page.locator("tbody tr")).to_have_count(20)
    person.click(person.page.get_by_label("Select all on this page"))
    expect(person.page.locator(".chosen .count")).to_be_visible()
    person.press("Pause")
    expect(person.page.locator("h1")).to_have_text("Pause 20 relayers?")
    assert scene.states(FLEET) == [False] * 20
    person.press("Pause")
    expect(person.page.get_by_role("cell", name="paused", exact=True)).to_have_count(20)
    assert scene.states(FLEET) == [True] * 20
    person.press("Take it back: resume 20")
    expect(person.page.locator("h1")).to_have_text("Resume 20 relayers?")
    person.press("Resume")
    expect(person.page.get_by_role("cell", name="resumed", exact=True)).to_have_count(20)
    assert scene.states(FLEET) == [False] * 20
    arrived = [scene.receivers["pager"].next() for _ in range(40)]
    told = {
        kind: {e["data"]["relayer"]["name"] for e in arrived if e["type"] == kind}
        for kind in ("relayer.paused", "relayer.resumed")
    }
    assert told == {"relayer.paused": set(FLEET), "relayer.resumed": set(FLEET)}
    person.has_done("pause 20 relayers, and resume them")


def test_rotate_a_signing_key_and_prove_it(scene: Scene, visit: Enter) -> None:
    person, receiver = visit(), scene.receivers["desk"]
    person.click("Notifications")
    person.click("desk")
    person.click(person.page.get_by_label("replace it by a random one, shown once"))
    person.press("Show the changes")
    person.press("Save")
    receiver.key = person.page.locator("[role=status] code").inner_text()
    with opened(scene.served.home) as store:
        (row,) = store.database.read("SELECT * FROM notifications WHERE id = 'desk'", {})
        assert store.vault.open(row.sealed_signing_key, place("desk", row.secret_version)).decode() == receiver.key
    person.press("Send a test")
    assert receiver.next()["type"] == "notification.test"  # signed with the new key
    expect(person.page.locator("h1 .badge")).to_have_text("delivered")
    person.has_done("rotate a signing key, and prove it")


def test_replay_a_failed_delivery(scene: Scene, visit: Enter) -> None:
    receiver = scene.receivers["mail"]
    receiver.status = 410
    scene.do("notifications/mail/test")
    lost = receiver.next()
    eventually(lambda: [each["id"] for each in scene.api("deliveries?state=dead")] == [lost["id"]])
    person = visit()
    (known,) = [each for each in scene.api("problems") if each["state"] == "receiver_failing"]
    failing = person.page.get_by_role("region", name="Problems of receivers").get_by_role("row", name="mail")
    expect(failing.locator("td.cause").first).to_have_text(known["cause"])
    person.click(person.page.get_by_role("list", name="The fleet in numbers").get_by_role("link", name="dead"))
    person.click(lost["type"])
    person.sees("HTTP 410 Gone")
    receiver.status = 204
    person.press("Send again")
    assert receiver.next() == lost
    expect(person.page.locator("h1 .badge")).to_have_text("delivered")
    attempts = person.page.get_by_role("region", name="Attempts").locator("tbody tr")
    expect(attempts).to_have_count(len(scene.api(f"deliveries/{lost['id']}")["attempts"]))
    person.has_done("send a failed delivery again")
    person.page.goto("/console/notifications/mail")
    health = person.page.get_by_role("region", name="Health")
    expect(health).to_contain_text("The latest attempt to reach it succeeded.")
    delivery = scene.api(f"deliveries/{lost['id']}")
    success = health.locator("dd").first.locator("time")
    expect(success).to_have_attribute("datetime", f"{delivery['finished_at'][:19]}Z")  # in seconds
    assert [each for each in scene.api("problems") if each["state"] == "receiver_failing"] == []


def test_create_and_edit_with_mistakes(scene: Scene, visit: Enter) -> None:
    person = visit()

    def field(name: str) -> Any:
        return person.page.locator(f'[name="{name}"]')

    person.click("Relayers")
    person.click("New relayer")
    for name, text in {
        "name": "  ",
        "network": "nowhere",
        "signer_id": "fleet-01",
        "policies.min_balance": "much",
    }.items():
        person.fill(field(name), text)
    person.press("Create")
    expect(person.page.locator(".field.wrong")).to_have_count(3)
    for name, text in {"name": "Made", "network": "dev", "policies.min_balance": "0.5"}.items():
        person.fill(field(name), text)
    person.press("Create")
    person.sees("Created.")
    (made,) = scene.api("relayers?name=Made")
    assert made["policies"]["min_balance"] == COIN // 2
    person.click("Edit")
    person.fill(field("policies.min_balance"), "2 fingers")
    person.key("Enter")
    expect(person.page.locator(".field.wrong")).to_have_count(1)
    person.fill(field("policies.min_balance"), "50 gwei")
    person.key("Enter")
    person.sees("Minimum balance: 0.5 ETH → 0.00000005 ETH")
    person.press("Save")
    person.sees("Saved.")
    stored = scene.api(f"relayers/{made['id']}")
    assert stored["policies"]["min_balance"] == 50 * 10**9
    expect(person.page.get_by_title("50,000,000,000 Wei").first).to_have_text("0.00000005 ETH")
    person.has_done("create and edit a relayer, with mistakes")


def test_plan_and_apply_with_a_conflict(scene: Scene, visit: Enter) -> None:
    scene.change("relayers/fleet-05", {"policies": {"gas_price_cap": 10**9}})
    person = visit()
    person.click("Apply")
    person.fill("Apply file (TOML)", apply_file("fleet-05", 5 * 10**9))
    person.press("Show the plan")
    person.sees("Gas price cap: 1 gwei → 5 gwei")
    scene.change("relayers/fleet-05", {"policies": {"gas_price_cap": 2 * 10**9}})
    person.press("Apply 1 change")
    person.sees("The plan is not the one that you saw. Nothing was applied.")
    person.sees("Gas price cap: 2 gwei → 5 gwei")
    assert scene.api("relayers/fleet-05")["policies"]["gas_price_cap"] == 2 * 10**9
    person.press("Apply 1 change")
    expect(person.page.locator("h1")).to_have_text("Applied")
    assert scene.api("relayers/fleet-05")["policies"]["gas_price_cap"] == 5 * 10**9
    scene.change("relayers/fleet-05", {"policies": {"gas_price_cap": None}})
    person.has_done("plan and apply a file, with a conflict")


def apply_file(name: str, cap: int) -> str:
    number = int(name[-2:])
    return f"""[[relayers]]
id = "{name}"
name = "{FLEET[number - 1]}"
network = "dev"
network_type = "evm"
signer_id = "{name}"
notification_id = "pager"
policies = {{ gas_price_cap = {cap} }}
"""


def test_estimate_a_fee(scene: Scene, visit: Enter) -> None:
    chain, person = scene.chain, visit()
    raw = chain.sign({"to": OTHER, "value": 1, "gas": 21_000, "maxFeePerGas": 10**12, "maxPriorityFeePerGas": 10**9})

    def estimated() -> Any:
        asked = {"fee_token": "ETH", "network": "dev", "transaction": raw}
        document = {"jsonrpc": "2.0", "id": 1, "method": "feeEstimate", "params": asked}
        return scene.served.ask("POST", "/api/v1/relayers/fleet-01/rpc", document).json["result"]["estimated_fee"]

    def states_what_the_node_says() -> None:
        base_fee = int(chain.rpc("eth_feeHistory", "0x1", "latest", [])["baseFeePerGas"][-1], 16)
        fee = 21_000 * (base_fee + 10**9)
        # Each worker has its own fee data, for a second: ask until none has older ones.
        eventually(lambda: all(Decimal(estimated()) == Decimal(fee).scaleb(-18) for _ in range(16)))
        person.press("Estimate")
        how = person.page.get_by_role("list", name="How it is computed").locator("li").first
        expect(how).to_contain_text("21,000 gas × (base fee ")
        assert [exact(each) for each in how.locator(".amount").all()] == [base_fee, 10**9, fee]
        expect(person.page.get_by_role("status")).to_contain_text(f"The estimated fee is {estimated()} ETH.")

    person.click("Fee estimator")
    person.fill("Relayer", "fleet-01")
    person.fill("Transaction", raw)
    states_what_the_node_says()
    chain.pin_base_fee(40 * 10**9)
    chain.rpc("hardhat_mine", "0x1")
    states_what_the_node_says()
    person.has_done("estimate a fee twice")


def test_find_who_changed_it_yesterday(scene: Scene, visit: Enter) -> None:
    scene.change("relayers/fleet-03", {"policies": {"min_balance": 0}})  # today, which is not asked for
    person = visit()
    person.click("Audit")
    yesterday = (datetime.now(UTC) - timedelta(days=1)).date().isoformat()
    for label, text in {"Since": yesterday, "Until": yesterday, "Record": "fleet-03"}.items():
        person.fill(label, text)
    person.press("Search")
    row = person.page.get_by_role("region", name="Audit entries").locator("tbody tr")
    expect(row).to_have_count(1)
    (entry,) = scene.api(f"audit?record=fleet-03&from={yesterday}&to={yesterday}")
    expect(row).to_contain_text("token:carol (console)")
    expect(row).to_contain_text("Minimum balance: 0 → 7 wei")
    expect(row.locator(".amount").first).to_have_css("display", "inline")  # on one line with its field
    expect(row.locator("time")).to_have_attribute("datetime", entry["at"])
    person.has_done("find who changed a relayer yesterday")


def test_make_a_token_for_an_application(scene: Scene, visit: Enter) -> None:
    person = visit(permissions=["clipboard-read", "clipboard-write"])
    person.click("Tokens")
    person.click(person.page.get_by_text("New token"))
    person.fill(person.page.locator("details").get_by_label("Name"), "shop")
    person.choose(person.page.locator("select[name=kind]"), "api")
    person.press("Create")
    person.press("Copy")
    token = person.page.evaluate("navigator.clipboard.readText()")
    assert ask(scene.served.port, "GET", "/api/v1/relayers", token=token).status == 200
    assert ask(scene.served.port, "GET", "/admin/v1/relayers", token=token).status == 403
    eventually(lambda: _token(scene)["last_used_at"] is not None)
    person.page.goto("/console/tokens")
    used = person.page.get_by_role("row", name="shop").locator("time").last
    expect(used).to_have_attribute("datetime", _token(scene)["last_used_at"])
    person.has_done("make a token for an application")


def _token(scene: Scene) -> Any:
    return next(each for each in scene.api("tokens") if each["name"] == "shop")


def is_paused(scene: Scene, name: str) -> bool:
    return scene.states([name]) == [True]


def pauses(person: Person, scene: Scene, name: str) -> None:
    person.click("Relayers")
    person.click(name)
    person.press("Pause")
    expect(person.page.locator("h1")).to_contain_text("paused")
    assert is_paused(scene, name)


def test_pause_on_a_phone(scene: Scene, visit: Enter) -> None:
    person = visit(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    pauses(person, scene, "Fleet 07")
    person.has_done("pause a relayer on a phone")


def test_pause_with_the_keyboard(scene: Scene, visit: Enter) -> None:
    person = visit()
    person.search("Fleet 08")
    person.tab_to("Fleet 08")
    person.key("Enter")
    expect(person.page.locator("h1")).to_contain_text("Fleet 08")
    person.key("Tab", "Enter")  # to the content
    person.tab_to("Pause")
    person.key("Enter")
    expect(person.page.locator("h1")).to_contain_text("paused")
    assert is_paused(scene, "Fleet 08")
    person.has_done("pause a relayer with the keyboard")


def test_pause_without_javascript(scene: Scene, visit: Enter) -> None:
    person = visit(java_script_enabled=False)
    pauses(person, scene, "Fleet 09")
    person.has_done("pause a relayer without JavaScript")


def test_pause_at_four_times_the_size(scene: Scene, visit: Enter) -> None:
    person = visit(viewport={"width": 320, "height": 225}, device_scale_factor=4)  # a window of 1280 pixels
    pauses(person, scene, "Fleet 10")
    assert person.page.evaluate("document.documentElement.scrollWidth") <= 320
    person.has_done("pause a relayer at 400 % zoom")


def test_two_people_change_the_same_relayer(scene: Scene, visit: Enter) -> None:
    person, other = visit(), visit()
    for each in (person, other):
        each.click("Relayers")
        each.click("Fleet 11")
    other.press("Pause")
    expect(person.page.locator("h1")).to_contain_text("paused")  # without loading the page again
    for each in (person, other):
        each.click("Edit")
    other.fill(other.page.locator('[name="name"]'), "Theirs")
    other.key("Enter")
    other.press("Save")
    other.sees("Saved.")
    person.fill(person.page.locator('[name="name"]'), "Mine")
    person.key("Enter")
    shown = person.page.get_by_role("alert")
    expect(shown.locator("tbody tr")).to_have_count(1)
    name, opened, theirs, mine = shown.locator("tbody td").all_text_contents()
    assert (name, opened, mine) == ("Name", "Fleet 11", "Mine")
    assert re.fullmatch(r"Theirs\s+by token:root, (now|\d+ s ago)\s*", theirs), theirs
    assert scene.api("relayers/fleet-11")["name"] == "Theirs"
    person.press("Save")
    person.sees("Saved.")
    assert scene.api("relayers/fleet-11")["name"] == "Mine"
    person.has_done("save what somebody else has changed")


def test_find_by_a_part_of_an_address(scene: Scene, visit: Enter) -> None:
    person = visit()
    address = address_of("Fleet 12")
    person.search(f" {address[-6:].lower()} ")
    found = person.page.locator(".found li")
    expect(found).to_have_count(1)
    expect(found).to_contain_text("active")
    person.click("Fleet 12")
    expect(person.page.locator("code.address").first).to_have_text(address)
    assert scene.api("relayers/fleet-12")["address"] == address
    person.has_done("find a relayer by part of its address")


def test_a_link_the_way_back_and_loading_again(scene: Scene, visit: Enter) -> None:
    person = visit(signed_in=False)
    link = "/console/relayers?name=Fleet+1&order=name"
    person.page.goto(link)
    person.fill("Access token", scene.served.token)
    person.press("Sign in")
    expect(person.page.locator("tbody tr")).to_have_count(len(scene.api("relayers?name=Fleet+1")))
    person.click("Fleet 13")
    expect(person.page.locator("h1")).to_contain_text("Fleet 13")
    scene.do("relayers/fleet-13/pause")
    expect(person.page.locator("h1")).to_contain_text("paused")
    person.go_back()
    expect(person.page.get_by_role("searchbox", name="Name", exact=True)).to_have_value("Fleet 1")
    row = person.page.get_by_role("row", name="Fleet 13")
    expect(row).to_contain_text("paused")  # what it is now, not what was shown before
    person.reload()
    expect(person.page).to_have_url(re.compile(re.escape(link)))
    expect(row).to_contain_text("paused")
    person.has_done("open a link, go back, reload")


def test_a_session_ends_while_a_form_is_filled_in(scene: Scene, visit: Enter) -> None:
    person = visit()
    person.search("Fleet 14")
    person.click("Fleet 14")
    person.click("Edit")
    person.fill(person.page.locator('[name="name"]'), "Typed before")
    with opened(scene.served.home) as store:
        run_statement(store.database, "DELETE FROM console_sessions")
    person.press("Show the changes")
    expect(person.page.get_by_role("alert")).to_contain_text("Your session has ended.")
    person.fill("Access token", scene.served.token)
    person.press("Sign in")
    person.press("Send it again")
    person.press("Save")
    person.sees("Saved.")
    assert scene.api("relayers/fleet-14")["name"] == "Typed before"
    person.has_done("finish a form after its session ended")


def test_what_is_shortened_is_exact_when_it_is_copied(scene: Scene, visit: Enter) -> None:
    page = visit(permissions=["clipboard-read", "clipboard-write"]).page
    page.goto("/console/runway?name=Fleet+17")
    balance = f"{scene.balance('Fleet 17'):,} Wei"
    for element, copied in (
        (page.locator("td .amount").first, balance),
        (page.locator("tbody"), address_of("Fleet 17")),
    ):
        element.select_text()
        page.keyboard.press("Control+c")
        assert copied in page.evaluate("navigator.clipboard.readText()")


def test_times_are_local_for_whoever_wants_that(visit: Enter) -> None:
    page = visit(timezone_id="Asia/Tokyo").page
    page.goto("/console/view")
    page.get_by_label("times").select_option("local")
    page.get_by_role("button", name="Save").click()
    page.goto("/console/audit")
    expect(page.locator("tbody time").first).to_have_text(re.compile(r"GMT\+9$"))
    expect(page.get_by_role("link", name="View: local times")).to_be_visible()
    page.goto(f"/console/relayers/{id_of(EMPTY_SOON)}?span=1d")
    expect(page.locator(".chart .zone")).to_have_text("local time")
    label = page.locator(".chart > text[text-anchor=middle]").first
    expect(label).to_have_text(re.compile(r"^\d\d:\d\d$"))
    assert int((label.text_content() or "")[:2]) % 4 == 1  # a tick is at each fourth hour of UTC


_WATCH = "window.flashed = []; addEventListener('animationstart', (event) => flashed.push(event.target.textContent))"


def test_nothing_flashes_that_did_not_change(scene: Scene, visit: Enter) -> None:
    page = visit().page
    for path, change in (("audit", "pause"), ("relayers", "resume"), ("events", "pause"), ("", "resume")):
        page.goto(f"/console/{path}")
        page.evaluate(_WATCH)
        scene.do(f"relayers/fleet-15/{change}")
        if path == "relayers":
            expect(page.get_by_role("row", name="fleet-15").locator(".badge")).to_have_text("active")
        else:
            expect(page.locator("tbody tr", has_text="fleet-15").first).to_contain_text(f"relayer.{change}d")
            eventually(lambda: bool(page.evaluate("flashed.length")))
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert [each for each in page.evaluate("flashed") if "fleet-15" not in each] == [], path


def test_a_change_redraws_only_pages_that_show_it(scene: Scene, visit: Enter) -> None:
    page, other = visit().page, visit().page
    page.goto("/console/tokens")
    other.goto("/console/audit?record=fleet-16")
    loaded = list[str]()
    page.on("request", lambda request: loaded.append(request.headers.get("x-console-refresh", "")))
    for verb in ("pause", "resume"):
        scene.do(f"relayers/fleet-16/{verb}")
        expect(other.locator("tbody tr").first).to_contain_text(f"relayer.{verb}d")
    post(scene.served, "tokens", {"name": "just made", "kind": "api"})
    expect(page.get_by_role("row", name="just made")).to_be_visible()
    assert loaded.count("1") == 1


def test_the_first_steps_tick_themselves(
    scene: Scene, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("first") / "home"
    settings = {"monitor_interval_seconds": "1", "webhook_allow": "127.0.0.1"}
    with Running(home, token=issue(home, "root", "admin"), **settings) as served:
        context = browser.new_context(base_url=f"http://127.0.0.1:{served.port}")
        sign_in(page := context.new_page(), served.token)
        steps = page.get_by_role("list", name="First steps").locator("li .badge")
        relayer = {"id": "r1", "name": "r1", "network": "dev", "network_type": "evm", "signer_id": "s1"}
        nodes = {"chain_id": 31337, "native_symbol": "ETH", "rpc_urls": [{"url": scene.chain.url}]}
        hook = {"id": "hook", "type": "webhook", "url": scene.receivers["pager"].url}
        expect(steps).to_have_text(["to do"] * 5)
        post(served, "networks", {"name": "dev", "network_type": "evm", **nodes})
        expect(steps).to_have_text(["done", *["to do"] * 4])
        post(served, "signers", {"id": "s1", "type": "plain", "config": {"key": f"0x{5:064x}"}})
        post(served, "signers/s1/check")
        expect(steps).to_have_text(["done", "done", *["to do"] * 3])
        post(served, "relayers", relayer)
        expect(steps).to_have_text(["done", "done", "done", "to do", "to do"])
        scene.chain.rpc("hardhat_setBalance", served.ask("GET", "/admin/v1/relayers/r1").json["data"]["address"], "0x1")
        expect(steps).to_have_text([*["done"] * 4, "to do"])
        post(served, "notifications", hook)
        post(served, "notifications/hook/test")
        expect(steps).to_have_count(0)  # all is done
        context.close()


def post(served: Running, path: str, document: Any = None) -> None:
    answer = served.ask("POST", f"/admin/v1/{path}", document)
    assert answer.status < 300, answer.body
