"""Plants a distinctive secret in every secret place, does everything there is to do, and hunts for each of them.

One exception is ruled: list-relayers shows `custom_rpc_urls` verbatim.
"""

import base64
import json
import re
import secrets
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.contract.test_section_7_errors import disk_that_takes_nothing
from tests.support.raw_http import Wire
from tests.support.running import Running, eventually, run_command
from tests.support.seeding import issue

SIGNERS = "/api/v1/signers"
CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "feeEstimate",
    "params": {"fee_token": "ETH", "network": "hunted", "transaction": "0xc0"},
}

# The secret fields of each signer type, and the fields that are none.
SECRET_FIELDS = {
    "plain": ["key"],
    "provider_a_kms": [],
    "provider_c": ["role_id", "secret_id"],
    "provider_c_transit": ["role_id", "secret_id"],
    "provider_d": ["api_private_key"],
    "provider_e": ["api_key_secret", "wallet_secret"],
    "provider_b_kms": ["key", "service_account"],
}
OPEN_FIELDS = {
    "plain": {},
    "provider_a_kms": {"key_id": "k", "region": "r"},
    "provider_c": {"address": "https://store.example.com", "key_name": "k"},
    "provider_c_transit": {"address": "https://store.example.com", "key_name": "k", "pubkey": "p"},
    "provider_d": {"api_public_key": "a", "organization_id": "o", "private_key_id": "i", "public_key": "p"},
    "provider_e": {"account_address": "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23", "api_key_id": "i"},
    "provider_b_kms": {},
}


class Planted:
    """Every secret by the place it was planted in."""

    def __init__(self) -> None:
        self.by_place: dict[str, str] = {}

    def text(self, place: str) -> str:
        return self.by_place.setdefault(place, f"Pl4nted/{secrets.token_urlsafe(18)}+{len(self.by_place)}")

    def plain(self, place: str) -> str:
        """One that stays as it is in a URL."""
        return self.by_place.setdefault(place, f"pl4nted{secrets.token_hex(12)}")

    def key(self, place: str) -> str:
        """A key that can sign."""
        return self.by_place.setdefault(place, secrets.token_hex(32))

    def config(self, kind: str, place: str) -> dict[str, Any]:
        config: dict[str, Any] = dict(OPEN_FIELDS[kind])
        for field in SECRET_FIELDS[kind]:
            where = f"{place}: {kind} {field}"
            if kind == "provider_b_kms":
                config[field] = {"nested": {"deep": [self.text(where)]}}
            else:
                config[field] = self.key(where) if kind == "plain" else self.text(where)
        return config

    def url(self, place: str) -> str:
        user, path, query = (self.plain(f"{place}, {part}") for part in ("user", "path", "query"))
        return f"http://u:{user}@127.0.0.1:9/{path}/rpc?key={query}"

    def node(self, place: str) -> str:
        """A node of an apply file, with a header."""
        header = f'{{ name = "X-Api-Key", value = "{self.text(f"{place}, header")}" }}'
        return f'{{ url = "{self.url(place)}", weight = 3, headers = [{header}] }}'

    def forms(self, place: str) -> Iterator[tuple[str, bytes]]:
        secret = self.by_place[place].encode()
        yield "as it is", secret
        yield "hex", secret.hex().encode()
        yield "HEX", secret.hex().upper().encode()
        yield "url-encoded", quote(secret, safe="").encode()
        yield "JSON", json.dumps(secret.decode()).replace("/", "\\/").encode()[1:-1]
        yield "reversed", secret[::-1]
        for shift in range(3):  # inside a longer text, base 64 begins at any of three places
            encoded = base64.b64encode(b"\0" * shift + secret)[4 if shift else 0 : -4]
            yield "base64", encoded
            yield "base64 for URLs", encoded.replace(b"+", b"-").replace(b"/", b"_")
        if len(secret) == 64:
            yield "bytes", bytes.fromhex(secret.decode())


def toml(planted: Planted) -> str:
    """An apply file with a secret wherever one may stand."""
    tables = [
        f"""
[networks.hunted]
network_type = "evm"
chain_id = 31337
native_symbol = "ETH"
rpc_urls = [{planted.node("a network's RPC URL")}]
"""
    ]
    for kind in SECRET_FIELDS:
        config = json.dumps(planted.config(kind, "apply")).replace('": ', '" = ')
        tables.append(f'[[signers]]\nid = "applied-{kind}"\ntype = "{kind}"\nconfig = {config}\n')
    tables.append(
        f"""
[[notifications]]
id = "pager"
type = "webhook"
url = "https://hooks.example.com/"
signing_key = "{planted.text("a signing key, applied")}"

[[relayers]]
id = "hunted"
name = "Hunted"
network = "hunted"
network_type = "evm"
signer_id = "applied-plain"
notification_id = "pager"
custom_rpc_urls = [{planted.node("a relayer's RPC URL")}]

[[relayers]]
id = "hunted-without-own"
name = "Hunted too"
network = "hunted"
network_type = "evm"
signer_id = "applied-plain"
"""
    )
    return "\n".join(tables)


class Scene:
    """Everything that came out, by where it came out."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.planted = Planted()
        self.out: dict[str, bytes] = {}

    def keep(self, where: str, what: bytes | str) -> None:
        self.out[where] = self.out.get(where, b"") + (what if isinstance(what, bytes) else what.encode())

    def command(self, *arguments: str, stdin: str = "") -> int:
        done = run_command(self.home, *arguments, stdin=stdin)
        self.keep(f"relaydeck {' '.join(arguments)}", done.stdout + done.stderr)
        return done.returncode

    def ask(self, running: Running, method: str, path: str, body: Any = None, **options: Any) -> None:
        answer = running.ask(method, path, body, **options)
        text = answer.body
        if path.startswith("/api/v1/relayers?") and answer.status == 200:
            shown = answer.json
            self.shown_urls = [shown_relayer.pop("custom_rpc_urls") for shown_relayer in shown["data"]]
            text = json.dumps(shown).encode()
        self.keep("answers", b"%d %b %b\n" % (answer.status, str(answer.headers).encode(), text))


def await_monitor(running: Running) -> None:
    """Until it has disabled a relayer: a disk that takes nothing, later, takes no log lines either."""
    eventually(lambda: '"event": "relayer.disabled"' in running.log)


def drive_signers(scene: Scene, running: Running) -> None:
    for kind in SECRET_FIELDS:
        good = {"type": kind, "config": scene.planted.config(kind, "create"), "id": f"created-{kind}"}
        scene.ask(running, "POST", SIGNERS, good)
        scene.ask(running, "POST", SIGNERS, good)  # taken
        bad = scene.planted.config(kind, "refused")
        scene.ask(running, "POST", SIGNERS, {"type": kind, "config": bad | {"unknown": scene.planted.text("a value")}})
        scene.ask(running, "POST", SIGNERS, {"type": kind, "config": bad | {scene.planted.text("a name"): 1}})
        scene.ask(running, "POST", SIGNERS, {"type": kind, "config": {name: [value] for name, value in bad.items()}})
        scene.ask(running, "POST", SIGNERS, {"type": kind, "config": bad, "id": scene.planted.text("a bad id") + "\n"})
        scene.ask(running, "POST", SIGNERS, json.dumps({"type": kind, "config": bad}).encode()[:-1])
        scene.ask(running, "POST", SIGNERS, {"type": scene.planted.text("a type"), "config": bad})
        scene.ask(running, "POST", SIGNERS, json.dumps(good).encode() + b" " * 2000)
        scene.ask(running, "POST", SIGNERS, good, token=scene.planted.text("a wrong token"))
        with disk_that_takes_nothing(running):
            scene.ask(running, "POST", SIGNERS, good | {"id": f"failed-{kind}"})


def drive_notifications(scene: Scene, running: Running) -> None:
    path = "/api/v1/notifications/pager"
    for body in (
        {"signing_key": scene.planted.text("a signing key, set")},
        {"signing_key": scene.planted.text("a signing key, replaced")},
        {"signing_key": scene.planted.text("a signing key, refused"), "url": "nowhere"},
        {"signing_key": [scene.planted.text("a signing key in a list")]},
        {scene.planted.text("a signing key as a name"): 1},
    ):
        scene.ask(running, "PATCH", path, body)
        scene.ask(running, "PATCH", "/api/v1/notifications/none", body)
    with disk_that_takes_nothing(running):
        scene.ask(running, "PATCH", path, {"signing_key": scene.planted.text("a signing key, failed")})


def drive_the_rest(scene: Scene, running: Running) -> None:
    for path in (f"{SIGNERS}?per_page=1000", "/api/v1/relayers?per_page=1000", "/nothing", "/healthz", "/readyz"):
        scene.ask(running, "GET", path)
    for relayer in ("hunted", "hunted-without-own", "none"):
        scene.ask(running, "POST", f"/api/v1/relayers/{relayer}/rpc", CALL)
        scene.ask(running, "POST", f"/api/v1/relayers/{relayer}/rpc", CALL | {"params": {}})
    with Wire(running) as wire:
        wire.send(wire.head("GET", "/api/v1/signers", "Bad Header " + scene.planted.plain("a broken header")))
        scene.keep("answers", wire.socket.recv(65_536))
    for path in ("/metrics", "/openapi.json", "/docs"):
        scene.keep(path, running.ask("GET", path).body)


def drive_commands(scene: Scene, applied: str) -> None:
    scene.command("token", "list")
    scene.command("token", "list", "--json")
    scene.command("export")
    scene.command("doctor")
    scene.command("relayer", "why", "hunted")
    scene.command("relayer", "why", "hunted", "--json")
    scene.command("event", "list", "--json")
    scene.command("audit", "list", "--json")
    scene.command("apply", "-", "--plan", stdin=applied)
    other = toml(planted_anew(scene.planted))
    scene.command("apply", "-", "--plan", "--prune", stdin=other)
    scene.command("apply", "-", stdin=other.replace("chain_id", "chain_idd").replace('type = "webhook"', "type = 1"))
    scene.command("token", "revoke", "second")


def drive_diagnosis(scene: Scene, running: Running) -> None:
    file = scene.home.parent / "diagnosis.zip"
    done = run_command(scene.home, "diagnose", str(file), "--url", f"http://127.0.0.1:{running.port}")
    assert (done.returncode, "not gathered" in done.stdout) == (0, False), done
    with zipfile.ZipFile(file) as archive:
        scene.keep("relaydeck diagnose", done.stdout.encode() + b"".join(map(archive.read, archive.namelist())))


def planted_anew(planted: Planted) -> Planted:
    """Other secrets for the same places, kept under names of their own."""
    other = Planted()

    class Both(dict[str, str]):
        def setdefault(self, place: str, secret: str = "", /) -> str:
            return planted.by_place.setdefault(f"{place} (second file)", secret)

    other.by_place = Both()
    return other


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    scene = Scene(tmp_path_factory.mktemp("hunt"))
    planted, applied = scene.planted, toml(scene.planted)
    assert scene.command("apply", "-", stdin=applied) == 0
    planted.by_place["a token"] = issue(scene.home, "first")
    planted.by_place["a token that is revoked"] = issue(scene.home, "second", "readonly")
    bootstrap = scene.home.parent / "token"
    bootstrap.write_text(planted.by_place.setdefault("a bootstrap token", secrets.token_urlsafe(40)))
    for log_format in ("json", "text"):
        running = Running(
            scene.home,
            token=planted.by_place["a token"],
            log_format=log_format,
            log_level="debug",
            rate_limit_per_second="0",
            max_body_bytes="2000",
            bootstrap_token_file=str(bootstrap),
            rpc_deadline_seconds="1",
            monitor_interval_seconds="0.2",  # with nodes that are not there: both relayers are disabled
            monitor_rounds="1",
        )
        try:
            if log_format == "json":
                await_monitor(running)
            drive_signers(scene, running)
            drive_notifications(scene, running)
            drive_the_rest(scene, running)
            if log_format == "json":
                drive_commands(scene, applied)
                drive_diagnosis(scene, running)
            keep_files(scene, "while it runs")
        finally:
            running.process.terminate()
            assert running.process.stdout is not None
            scene.keep("standard output", running.process.stdout.read())
            running.stop()
        scene.keep(f"the {log_format} log", running.log)
    keep_files(scene, "at rest")
    return scene


def keep_files(scene: Scene, when: str) -> None:
    for path in scene.home.rglob("*"):
        if path.is_file() and path.name != "master.key":
            # Long runs of nothing are left out: there is a lot of it in a file that is mapped into memory.
            scene.keep(f"files {when}", path.name.encode() + b"\n" + re.sub(rb"\0{64,}", b"\0", path.read_bytes()))


PLACES = [
    "answers",
    "standard output",
    "the json log",
    "the text log",
    "files while it runs",
    "files at rest",
    "/metrics",
    "/openapi.json",
    "/docs",
    "relaydeck apply -",
    "relaydeck apply - --plan",
    "relaydeck apply - --plan --prune",
    "relaydeck export",
    "relaydeck diagnose",
    "relaydeck doctor",
    "relaydeck relayer why hunted",
    "relaydeck relayer why hunted --json",
    "relaydeck event list --json",
    "relaydeck audit list --json",
    "relaydeck token list",
    "relaydeck token list --json",
    "relaydeck token revoke second",
]


@pytest.mark.parametrize("where", PLACES)
def test_no_secret_comes_out(scene: Scene, where: str) -> None:
    said = scene.out[where]
    found = [
        (place, form)
        for place in scene.planted.by_place
        for form, looked_for in scene.planted.forms(place)
        if looked_for in said
    ]
    assert found == []


def test_every_place_that_something_came_out_of_is_hunted_in(scene: Scene) -> None:
    assert sorted(scene.out) == sorted(PLACES)


def test_the_hunt_had_something_to_hunt(scene: Scene) -> None:
    assert b"created-provider_b_kms" in scene.out["answers"]
    assert b"applied-provider_b_kms" in scene.out["files at rest"]
    assert b'"status":500' in scene.out["the json log"]
    assert b"127.0.0.1:9" in scene.out["relaydeck doctor"]
    assert b'"event": "relayer.disabled"' in scene.out["relaydeck diagnose"]
    assert b"NonceSyncFailed" in scene.out["relaydeck relayer why hunted --json"]
    assert b"relayer.disabled" in scene.out["relaydeck event list --json"]
    assert b'"event": "relayer.disabled"' in scene.out["the json log"]
    assert len(scene.planted.by_place) > 50


def test_custom_rpc_urls_are_shown_verbatim_where_they_are_ruled_to_be(scene: Scene) -> None:
    assert scene.shown_urls == [[{"url": scene.planted.url("a relayer's RPC URL"), "weight": 3}], []]


@pytest.mark.parametrize("form", ["as it is", "hex", "HEX", "url-encoded", "base64", "base64 for URLs", "reversed"])
def test_the_hunter_finds_what_is_there(form: str) -> None:
    planted = Planted()
    secret = planted.text("here").encode()
    disguises: dict[str, Callable[[bytes], bytes]] = {
        "as it is": lambda s: s,
        "hex": lambda s: s.hex().encode(),
        "HEX": lambda s: s.hex().upper().encode(),
        "url-encoded": lambda s: quote(s, safe="").encode(),
        "base64": lambda s: base64.b64encode(b"some" + s + b"thing"),
        "base64 for URLs": lambda s: base64.urlsafe_b64encode(b"ab" + s + b"cd"),
        "reversed": lambda s: s[::-1],
    }
    said = b"before " + disguises[form](secret) + b" after"
    assert form in [name for name, looked_for in planted.forms("here") if looked_for in said]
