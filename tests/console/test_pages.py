"""What pages contain, and what they never contain."""

import html
import re
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from relaydeck.console.formats import coins, gwei, lasts, name, until, visible, with_coins
from relaydeck.console.page_request import PAGES
from tests.console.conftest import Operator
from tests.support.running import Answer, Running
from tests.support.seeding import issue

KEY = "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(2)>'\"&amp;"
NAMES = [
    MARKUP,
    "\u202egnp.exe\u202c\u2066hidden\u2069",
    '"><svg onload=alert(3)>',
    "x" * 255,
    "{{ 7*7 }}{% raw %}",
    "../..//%2e%2e",
]
NODE = "http://127.0.0.1:9/secret-path-of-a-node?key=node-secret"
SIGNING_KEY = "whsec_planted-signing-key-planted"
HOOK = "http://hook-user:hook-password@127.0.0.1:{port}/hook-path?key=hook-query"
IN_HOOK = ["hook-user", "hook-password", "hook-path", "hook-query"]


class Echo(BaseHTTPRequestHandler):
    """A receiver that refuses every event and quotes the path, as many frameworks do."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(404)
        self.end_headers()
        self.wfile.write(f"Cannot POST {self.path}".encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def echo() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, echo: int) -> Iterator[Running]:
    """A home with a hostile text in every field that takes one, planted secrets, and a failed attempt of each event."""
    home: Path = tmp_path_factory.mktemp("hostile") / "home"
    token, settings = issue(home, "root", "admin"), {"webhook_allow": "127.0.0.0/8", "monitor_interval_seconds": "3600"}
    with Running(home, token=token, **settings) as running:
        for number, text in enumerate(NAMES):
            create(running, number, text, HOOK.format(port=echo))
        for text in NAMES:
            propose(running, text)
        while not all(each["tries"] for each in running.ask("GET", "/admin/v1/deliveries").json["data"]):
            pass
        yield running


def create(running: Running, number: int, text: str, hook: str) -> None:
    """One of everything with this name, joined by its references."""
    network = {
        "name": text,
        "network_type": "evm",
        "chain_id": 1 + number,
        "native_symbol": text[:200] + " coin",
        "rpc_urls": [{"url": NODE}],
        "fee_tokens": {text: {"address": "0x" + "11" * 20, "decimals": 6, "rate": {"fixed": "2"}}},
    }
    transit = dict.fromkeys(("address", "key_name", "pubkey", "mount_point", "namespace"), text)
    secrets = {"role_id": "planted-role", "secret_id": "planted-secret"}
    bodies = {
        "networks": network,
        "signers": {"id": text, "type": "plain", "config": {"key": KEY}},
        "notifications": {"id": text, "type": "webhook", "url": hook, "signing_key": SIGNING_KEY},
        "relayers": {
            "id": text,
            "name": text,
            "network": text,
            "network_type": "evm",
            "signer_id": text,
            "notification_id": text,
            "custom_rpc_urls": [{"url": NODE}],
        },
        "tokens": {"name": text, "kind": "api"},
    }
    for resource, body in bodies.items():
        assert running.ask("POST", f"/admin/v1/{resource}", body).status == 201, (resource, text)
    other = {"id": text[:200] + " transit", "type": "provider_c_transit", "config": transit | secrets}
    assert running.ask("POST", "/admin/v1/signers", other).status == 201
    assert running.ask("POST", f"/admin/v1/relayers/{quote(text, safe='')}/pause").status == 200


def propose(running: Running, text: str) -> None:
    """A protection of this name, and a change of a signer of this name that it holds up, for this reason."""
    body = {"name": text, "kinds": ["signer"], "note": text}
    assert running.ask("POST", "/admin/v1/protections", body).status == 201
    path = f"/admin/v1/signers/{quote(text, safe='')}?reason={quote(text, safe='')}"
    assert running.ask("PATCH", path, {"labels": {"team": "a"}}).status == 202


def pages_of(running: Running) -> list[str]:
    """The path of every page that can be read, for every record."""
    events, proposals = (
        [each["id"] for each in running.ask("GET", f"/admin/v1/{path}").json["data"]]
        for path in ("events", "proposals")
    )
    found = []
    for path, methods in PAGES.items():
        if "GET" not in methods or path.endswith(("/csv", "/code", "/export")):  # files, a picture
            continue
        identifiers = events if path.startswith(("/events/", "/deliveries/")) else NAMES
        identifiers = proposals if path.startswith("/proposals/") else identifiers
        found += [path.replace("{id}", quote(each, safe="")) for each in identifiers] if "{id}" in path else [path]
    return found


@pytest.fixture(scope="module")
def shown(hostile: Running) -> dict[str, str]:
    """Every page as an administrator sees it."""
    operator = Operator(hostile.port).sign_in(hostile.token)
    return {path: operator.text(path) for path in pages_of(hostile)}


def test_every_page_can_be_read(shown: dict[str, str]) -> None:
    assert len(shown) > 60


class Elements(HTMLParser):
    """Every element of a page with its attributes, as a browser finds them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_hostile_names_make_no_element_and_nothing_is_inline(shown: dict[str, str]) -> None:
    for path, page in shown.items():
        for tag, attributes in Elements(page).found:
            assert tag not in ("style", "iframe", "object", "embed", "base"), path
            assert tag != "img" or (attributes["src"] or "").startswith("/console/relayers/"), path
            assert not [name for name in attributes if name.startswith("on") or name == "style"], (path, tag)
            assert tag != "script" or (attributes["src"] or "").startswith("/console/assets/"), path
            assert (attributes.get("href") or "/console").startswith(("/console", "?", "#main")), (path, attributes)


def test_no_template_is_evaluated_twice(shown: dict[str, str]) -> None:
    assert "{{ 7*7 }}{% raw %}" in html.unescape(shown["/relayers"])


def test_hostile_names_are_shown_whole(shown: dict[str, str]) -> None:
    page = html.unescape(shown["/relayers"])
    assert all(visible(each) in page for each in NAMES)


def test_no_page_has_a_character_that_turns_text_around(shown: dict[str, str]) -> None:
    for path, page in shown.items():
        without_values = re.sub(r'value="[^"]*"|<textarea.*?</textarea>', "", page, flags=re.S)
        assert not re.findall(".{40}[\u202a-\u202e\u2066-\u2069].{20}", without_values), path


def test_secrets_are_on_no_page(shown: dict[str, str], hostile: Running) -> None:
    planted = [KEY, KEY[2:], SIGNING_KEY, "planted-role", "planted-secret", hostile.token]
    for path, page in shown.items():
        assert not [each for each in planted if each in page], path


def test_the_urls_of_nodes_are_only_in_the_form_that_edits_them(shown: dict[str, str], hostile: Running) -> None:
    holders = {path for path, page in shown.items() if "node-secret" in page}
    assert holders == {f"/{kind}/{quote(each, safe='')}/edit" for kind in ("relayers", "networks") for each in NAMES}


def test_the_urls_of_webhooks_are_on_the_pages_of_notifications(shown: dict[str, str]) -> None:
    holders = {path for path, page in shown.items() if "hook-query" in page and not path.startswith("/deliveries/")}
    assert holders == {"/notifications", *(f"/notifications/{quote(each, safe='')}" for each in NAMES)}


def test_a_readonly_session_sees_no_key_in_a_url(hostile: Running, echo: int) -> None:
    looker = Operator(hostile.port).sign_in(issue(hostile.home, "looker", "readonly"))
    pages = {path: looker.get(path).body.decode() for path in pages_of(hostile)}
    planted = ["node-secret", "secret-path-of-a-node", *IN_HOOK]
    assert [(path, each) for path, page in pages.items() for each in planted if each in page] == []
    assert pages["/notifications"].count(f"<bdi>http://127.0.0.1:{echo}/…</bdi>") == len(NAMES)


def test_nul_in_a_path_or_query_is_refused(hostile: Running) -> None:
    operator = Operator(hostile.port).sign_in(hostile.token)
    assert [operator.get(path).status for path in ("/relayers?name=%00", "/relayers/a%00b", "/audit?actor=%00")] == [
        400
    ] * 3


@pytest.mark.parametrize("collection", ["relayers", "signers", "networks", "notifications"])
def test_a_page_beyond_the_last_is_not_taken_for_an_empty_list(hostile: Running, collection: str) -> None:
    looker = Operator(hostile.port).sign_in(issue(hostile.home, f"looker-{collection}", "readonly"))
    page = looker.get(f"/{collection}?page=99").body.decode()
    assert "There is no page 99." in page
    assert "There are no " not in page


def test_the_first_load_is_small(served: Running, operator: Operator) -> None:
    page = operator.text("")
    sizes = {"": len(page)}
    waiting = re.findall(r'/console(/assets/[^"]+)', page)
    while waiting:
        path = waiting.pop()
        if path in sizes:
            continue
        body = operator.get(path).body.decode()
        sizes[path] = len(body)
        folder = path.rpartition("/")[0]
        waiting += [f"{folder}/{each}" for each in re.findall(r'(?:from "\./|url\(")([a-z.]+)"', body)]
    assert len(sizes) >= 6 and sum(sizes.values()) <= 120_000, sizes


def test_assets_are_kept_and_need_no_session(served: Running) -> None:
    stranger = Operator(served.port)
    (path,) = set(re.findall(r'/console(/assets/[^"]+\.css)', stranger.text("/sign-in")))
    assert stranger.get(path).headers["cache-control"] == "public, max-age=31536000, immutable"
    assert [stranger.get(f"/assets/x/{each}").status for each in ("none.css", "..", "%2e%2e%2fguard.py")] == [404] * 3


def test_amounts_are_whole_coins_with_the_exact_wei_beside() -> None:
    assert (
        coins(50_000_000_000_000_000, "ETH")
        == '<span class="amount" title="50,000,000,000,000,000 Wei">0.05 ETH</span>'
    )
    assert 'title="1,234,000,000,000,000,000,001 Wei">1,234<' in coins(1_234_000_000_000_000_000_001)
    assert ">0<" in coins(0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(59, "59 s"), (61, "1 min"), (3600, "1 h"), (10_140, "2 h 49 min"), (90_000, "1 d 1 h"), (864_000, "10 d")],
)
def test_a_span_of_hours_or_days_has_its_next_unit(seconds: int, text: str) -> None:
    assert lasts(seconds) == text


def test_names_are_isolated_and_escaped() -> None:
    assert name("<b>\u202e") == "<bdi>&lt;b&gt;\\u202e</bdi>"


def test_the_price_of_gas_is_exact() -> None:
    assert gwei(1_500_000_000) == '<span class="amount" title="1,500,000,000 Wei">1.5 gwei</span>'


def test_amounts_in_a_sentence_are_whole_coins() -> None:
    text = with_coins("its balance is 300000000000000000 Wei, and <b>", "ETH")
    assert (
        text == 'its balance is <span class="amount" title="300,000,000,000,000,000 Wei">0.3 ETH</span>, and &lt;b&gt;'
    )


def test_moments_in_a_sentence_are_exact_and_have_the_distance_as_their_title() -> None:
    text = with_coins("no node in 3 rounds since 2026-01-02T03:04:05Z: <b>", "ETH")
    exact = re.sub(r'title="[^"]+ ago"', "", text)
    moment = '<time class="exact" datetime="2026-01-02T03:04:05Z" >2026-01-02 03:04:05 UTC</time>'
    assert exact == f"no node in 3 rounds since {moment}: &lt;b&gt;"


def test_a_balance_that_has_fallen_to_a_limit_has_reached_it() -> None:
    assert [until(-5), until(0), until(90)] == ["reached", "reached", "1 min"]


def refuses_markup(path: str, answer: Answer) -> None:
    """The page shows hostile text as text."""
    assert answer.status < 500, path
    page = answer.body.decode()
    for tag, attributes in Elements(page).found:
        assert tag not in ("style", "iframe", "object", "embed", "base"), path
        assert tag != "img" or (attributes["src"] or "").startswith("/console/relayers/"), path
        assert not [name for name in attributes if name.startswith("on") or name == "style"], (path, tag)
        assert tag != "script" or (attributes["src"] or "").startswith("/console/assets/"), path


def names_of_fields(shown: dict[str, str]) -> set[str]:
    """Of every control of every form."""
    controls = ("input", "textarea", "select", "button")
    found = (
        attributes.get("name") for page in shown.values() for tag, attributes in Elements(page).found if tag in controls
    )
    return {name for name in found if name and name != "form_token"}


@pytest.mark.parametrize("text", [MARKUP, NAMES[1], NAMES[2]])
def test_hostile_text_in_every_field_of_every_form(hostile: Running, shown: dict[str, str], text: str) -> None:
    operator = Operator(hostile.port).sign_in(hostile.token)
    fields = dict.fromkeys(names_of_fields(shown), text) | {"typed": f"{text} differs"}
    assert len(fields) > 30
    before = hostile.ask("GET", "/admin/v1/relayers").json["pagination"]["total_items"]
    for path, methods in PAGES.items():
        if "POST" in methods and not path.startswith("/tokens/{id}"):
            for verb in (text, "pause"):
                answer = operator.post(
                    path.replace("{id}", quote(MARKUP, safe="")), fields | {"verb": verb, "type": "plain"}
                )
                refuses_markup(path, answer)
    assert hostile.ask("GET", "/admin/v1/relayers").json["pagination"]["total_items"] == before


@pytest.mark.parametrize("text", [MARKUP, NAMES[2]])
def test_hostile_text_in_every_query(hostile: Running, shown: dict[str, str], text: str) -> None:
    operator = Operator(hostile.port).sign_in(hostile.token)
    query = urlencode(dict.fromkeys([*names_of_fields(shown), "page", "before", "done", "hint"], text))
    for path, methods in PAGES.items():
        if "GET" in methods and "{id}" not in path and path != "/export":  # a file, which is downloaded
            refuses_markup(path, operator.get(f"{path}?{query}"))
    refuses_markup("/enter", operator.get(f"/enter?{query}"))
    refuses_markup("/sign-in", operator.post("/sign-in", {"token": text}))


def facts(operator: Operator, path: str) -> dict[str, str]:
    """The facts in lists of a page."""
    found = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", operator.text(path), re.DOTALL)
    return {name: " ".join(html.unescape(re.sub("<[^>]*>", "", value)).split()) for name, value in found}


def test_a_network_and_a_relayer_show_what_their_forms_set(served: Running, operator: Operator) -> None:
    nodes = [{"url": f"https://node{number}.example.com"} for number in range(3)]
    network = {"name": "told", "network_type": "evm", "native_symbol": "ETH", "rpc_urls": nodes, "chain_id": 10}
    network |= {"fee_model": "op_stack", "tip_floor": 10**6, "labels": {"team": "a"}}
    assert served.ask("POST", "/admin/v1/networks", network).status == 201
    relayer = {"id": "told", "name": "told", "network": "told", "network_type": "evm", "signer_id": "ops"}
    assert served.ask("POST", "/admin/v1/relayers", relayer | {"labels": {"team": "b"}}).status == 201
    names = ("fee model", "quorum", "runway warning", "Tip floor", "labels")

    def told(path: str) -> list[str]:
        found = facts(operator, path)
        return [found[each] for each in names if each in found]

    service = "at 24 h (as the service sets it)"
    assert told("/networks/told") == ["op_stack", "2 of 3 nodes, as usual", service, "0.001 gwei", "team=a"]
    assert told("/relayers/told") == [service, "team=b"]
    assert '<a class="chip" href="/console/relayers?label=team%3Db">team=b</a>' in operator.text("/relayers/told")
    change = {"runway_warn_hours": 0, "quorum": 1, "labels": None}
    assert served.ask("PATCH", "/admin/v1/networks/told", change).status == 200
    assert told("/networks/told") == ["op_stack", "1 of 3 nodes", "never", "0.001 gwei", "none"]
    assert told("/relayers/told") == ["never (as its network sets it)", "team=b"]
    assert served.ask("PATCH", "/admin/v1/relayers/told", {"runway_warn_hours": 48}).status == 200
    assert told("/relayers/told") == ["at 48 h", "team=b"]
