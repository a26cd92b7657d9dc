"""The TypeScript package: built, packed, installed into empty projects, and used against a live service."""

import base64
import hashlib
import hmac
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.typescript import make_types
from clients.typescript.make_types import HERE, build
from tests.client.conftest import serve
from tests.support.released import released
from tests.support.running import Running, free_port

pytestmark = [pytest.mark.prove, pytest.mark.parallel]  # tsc takes as long as hundreds of other tests

ROOT = HERE.parents[1]
DOCUMENTS = Path("src/relaydeck/api/documents")
MODULES = {
    "module": ('import * as r from "relaydeck-client";', "mjs"),
    "commonjs": ('const r = require("relaydeck-client");', "cjs"),
}

# Each line of its output is a result.
PROGRAM = """
const say = (value) => console.log(JSON.stringify(value));
const main = async () => {
  const relaydeck = new r.Relaydeck(process.env.ADDRESS, { token: process.env.TOKEN, firstPause: 1 });
  const { data, pagination } = await relaydeck.api("listRelayers", { query: { per_page: 1 } });
  say([data[0].id, pagination.per_page]);
  say((await relaydeck.admin("pauseRelayer", { path: { id: "sepolia-1" } })).changed);
  const cap = 123456789012345678901234567890n;
  const change = { path: { id: "sepolia-1" }, body: { policies: { gas_price_cap: cap } } };
  say((await relaydeck.admin("updateRelayer", change)).changed);
  say((await relaydeck.admin("updateRelayer", change)).changed);
  const estimate = { fee_token: "ETH", network: "sepolia", transaction: "0x" };
  await relaydeck.feeEstimate("sepolia-1", estimate).catch((error) => say([error.name, error.code]));
  await relaydeck.feeEstimate("no one", estimate).catch((error) => say([error.name, error.status, error.message]));
  const mistyped = { path: { notification_id: "pager" }, body: { sining_key: "" } };
  const refused = (error) => say([error.status, error.message, error.reason]);
  await relaydeck.api("updateNotification", mistyped).catch(refused);
  const nobody = new r.Relaydeck("http://127.0.0.1:9", { token: "t", attempts: 2, firstPause: 1 });
  await nobody.api("listSigners").catch((error) => say([error.name, error.uncertain]));
  const unset = { token: process.env.TOKEN, attempts: undefined, timeout: undefined, fetch: undefined };
  say((await new r.Relaydeck(process.env.ADDRESS, unset).api("listSigners")).data.length);
  for (const address of [process.env.REFUSING, process.env.ADDRESS.replace("http:", "https:")]) {
    const failing = new r.Relaydeck(address, { ...unset, firstPause: 1 });
    await failing.api("listSigners").catch((error) => say([error.message, error.cause.cause.code.slice(0, 7)]));
  }
  const misled = (error) => say([error.name, error.message]);
  await relaydeck.admin("replayDelivery", { path: { id: "." } }).catch(misled); // of the path `deliveries/replay`
  const flooding = (await import("node:http")).createServer((_, response) => {
    const send = () => (response.write(Buffer.alloc(1 << 20, 32)) ? setImmediate(send) : response.once("drain", send));
    send();
  });
  await new Promise((resolve) => flooding.listen(0, "127.0.0.1", resolve));
  const flooded = new r.Relaydeck(`http://127.0.0.1:${flooding.address().port}`, unset);
  await flooded.api("listSigners").catch(misled);
  flooding.closeAllConnections();
  flooding.close();
  const [headers, body] = JSON.parse(process.env.MESSAGE);
  const key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  say((await r.verifyWebhook(headers, body, ["another", key], { now: 1000 })).type);
  for (const wrong of [[{}, body, key], [headers, body + " ", key], [headers, body, ["", "another"]]]) {
    await r.verifyWebhook(...wrong, { now: 1000 }).catch((error) => say([error.name, error.message]));
  }
  await r.verifyWebhook(headers, body, key, { now: 1400 }).catch((error) => say(error.message));
};
main();
"""
RESULTS = [
    ["sepolia-1", 1],
    True,
    True,
    False,
    ["RpcError", -32602],
    ["ApiError", 404, "Relayer with ID no one not found"],
    [400, "Bad Request", "unknown field"],
    ["TransportError", True],
    1,
    ["the connection failed", "ECONNRE"],
    ["the connection failed", "ERR_SSL"],
    ["TypeError", "id must not be a dot segment"],
    ["ApiError", "the response is larger than 67108864 bytes"],
    "relayer.paused",
    ["WebhookError", "the message does not have exactly one header webhook-id"],
    ["WebhookError", "no signature of the message was made with a known key"],
    ["WebhookError", "no signature of the message was made with a known key"],
    "the message was not signed at a time near to now",
]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packed from a copy of the sources, as a release does."""
    if found := released("relaydeck-client-*.tgz"):
        return found
    copy = tmp_path_factory.mktemp("typescript")
    shutil.copytree(ROOT / DOCUMENTS, copy / DOCUMENTS)
    folder = copy / "clients" / "typescript"
    shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("node_modules", "dist", "__pycache__"))
    declared = folder / "package.json"
    before = declared.stat().st_mtime_ns
    build(folder)
    assert declared.stat().st_mtime_ns == before  # a build that is killed must not leave another one
    npm(folder, "pack", "--silent", "--ignore-scripts")
    (packed,) = folder.glob("*.tgz")
    return packed


def npm(folder: Path, *arguments: str) -> None:
    command = shutil.which("npm", path=search_path())
    assert command is not None
    environment = {**os.environ, "PATH": search_path()}
    subprocess.run([command, *arguments], cwd=folder, env=environment, check=True, capture_output=True)


def search_path() -> str:
    return os.pathsep.join((str(Path(make_types.node_command()).parent), str(ROOT / ".venv/bin"), os.environ["PATH"]))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serve(tmp_path_factory.mktemp("typescript") / "home", rate_limit_per_second="0") as running:
        yield running


@pytest.fixture(params=MODULES)
def project(request: pytest.FixtureRequest, package: Path, tmp_path: Path) -> Path:
    """An empty project with the package; its program imports or requires it."""
    (tmp_path / "package.json").write_text(json.dumps({"name": "p", "private": True}), "utf-8")
    npm(tmp_path, "install", "--offline", "--no-audit", "--no-fund", str(package))
    first, ending = MODULES[request.param]
    program = tmp_path / f"program.{ending}"
    program.write_text(first + PROGRAM, "utf-8")
    return program


def signed_message() -> str:
    body = json.dumps({"id": "evt_1", "type": "relayer.paused"})
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signature = base64.b64encode(hmac.digest(key, f"evt_1.1000.{body}".encode(), hashlib.sha256)).decode()
    headers = {"Webhook-Id": "evt_1", "webhook-timestamp": "1000", "webhook-signature": f"v1,AAAA v1,{signature}"}
    return json.dumps([headers, body])


def test_it_calls_a_live_service(project: Path, service: Running) -> None:
    assert service.ask("POST", "/admin/v1/relayers/sepolia-1/resume").status == 200
    changed = service.ask("PATCH", "/admin/v1/relayers/sepolia-1", {"policies": {"gas_price_cap": 1}})
    assert changed.status == 200
    given = {"ADDRESS": f"http://127.0.0.1:{service.port}/", "TOKEN": service.token, "MESSAGE": signed_message()}
    given["REFUSING"] = f"http://127.0.0.1:{free_port()}"
    done = subprocess.run(
        [make_types.node_command(), project.name],
        cwd=project.parent,
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [json.loads(line) for line in done.stdout.splitlines()] == RESULTS


def test_a_mistake_is_found_by_the_compiler(package: Path, tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text(json.dumps({"name": "p", "private": True, "type": "module"}), "utf-8")
    npm(tmp_path, "install", "--offline", "--no-audit", "--no-fund", str(package))
    right = 'import { Relaydeck } from "relaydeck-client";\nconst r = new Relaydeck("http://h", { token: "t" });\n'
    calls = {
        "right.ts": 'await r.admin("getRelayer", { path: { id: "a" } });',
        "path.ts": 'await r.admin("getRelayer", {});',
        "query.ts": 'await r.api("listRelayers", { query: { pages: 1 } });',
        "name.ts": 'await r.api("listRelayer");',
    }
    for name, call in calls.items():
        (tmp_path / name).write_text(right + call + "\n", "utf-8")
    options = ("--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--lib", "es2022,dom")
    done = subprocess.run(
        [make_types.node_command(), str(HERE / "node_modules/typescript/bin/tsc"), *options, *calls],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    wrong = {line.partition("(")[0] for line in done.stdout.splitlines() if "error TS" in line}
    assert wrong == {"path.ts", "query.ts", "name.ts"}, done.stdout
