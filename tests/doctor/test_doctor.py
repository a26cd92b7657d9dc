"""`relaydeck doctor`: one line for each check; exit code 1 when one of them fails."""

import io
import json
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from relaydeck.cli.commands import cli
from relaydeck.cli.output import progress_bar
from relaydeck.credentials.tokens import store_uses
from relaydeck.doctor import Finding
from relaydeck.doctor.all_checks import findings
from relaydeck.doctor.machine import Machine
from relaydeck.errors import WRITE_CAUSES
from relaydeck.http.metric_counts import Metrics
from relaydeck.networks.evm.node import Fault
from relaydeck.networks.evm.node_figures import HostFigures, NodeFigures, write_figures
from relaydeck.notifications.events import record_database_change
from relaydeck.secret import Secret
from relaydeck.settings.model import Settings
from relaydeck.store.database import ShowProgress, without_progress
from relaydeck.store.migrate import migrate, newest_version
from relaydeck.store.sqlite import SqliteDatabase
from relaydeck.store.write_signal import WriteSignal
from tests.conftest import DEMO
from tests.provisioning.conftest import ProvisionedHome
from tests.support.running import free_port, make_token, run_command
from tests.support.seeding import issue, opened
from tests.support.valkey import Valkey

NOW = 1_900_000_000.0


class FakeNode(BaseHTTPRequestHandler):
    """Answers by path: /chain/N is a node of chain N, /chain/N+B at block B, /status/N fails, /garbage is none.

    /fees/N+B shows its blocks: a full one with a base fee of 1 gwei, and the newest one with a base fee of B.
    """

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        _, kind, value = self.path.split("?")[0].split("/")
        chain, _, block = value.partition("+")
        results = {"eth_chainId": hex(int(chain)), "eth_getBlockByNumber": {"number": hex(int(block or 5))}}
        calls = asked if isinstance(asked, list) else [asked]
        if kind == "fees":
            newest = {"number": "0x8", "hash": "0xb", "parentHash": "0xa", "baseFeePerGas": hex(int(block))}
            full = {"gasLimit": "0x1c9c380", "gasUsed": "0x1c9c380", "baseFeePerGas": hex(10**9)}
            shown = {"latest": newest, "0x7": {"number": "0x7", "hash": "0xa", **full}}
            results |= {each["method"]: shown[each["params"][0]] for each in calls if "Block" in each["method"]}
            results["eth_txGasLimitCap"] = hex(1 << 24)
        replies = [{"jsonrpc": "2.0", "id": each["id"], "result": results[each["method"]]} for each in calls]
        answer = replies if isinstance(asked, list) else replies[0]
        body = b"<html>" if kind not in ("chain", "fees") else json.dumps(answer).encode()
        self.send_response(int(value) if kind == "status" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), FakeNode)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def network(*urls: str) -> str:
    listed = ", ".join(f'{{ url = "{url}" }}' for url in urls)
    return (
        f'[networks.sepolia]\nnetwork_type = "evm"\nchain_id = 11155111\nnative_symbol = "ETH"\nrpc_urls = [{listed}]\n'
    )


def examined(
    home: Path, *, now: float = NOW, free: int = 10**12, progress: ShowProgress = without_progress
) -> dict[str, Finding]:
    found = findings(Settings(home=home), Machine(lambda: now, lambda _: free), progress)
    return {finding.subject: finding for finding in found}


def provision(home: Path, text: str) -> None:
    made = ProvisionedHome(home)
    with closing(made.store):
        made.apply(text)


@pytest.fixture
def provisioned(home: Path) -> Path:
    provision(home, DEMO.replace("127.0.0.1:9/", f"127.0.0.1:{free_port()}/"))
    return home


def test_a_healthy_home(home: Path, node: str) -> None:
    provision(home, network(f"{node}/chain/11155111?key=hunter2"))
    make_token(home, "t")
    done = run_command(home, "doctor")
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[0] == f"ok    home: {home}"
    assert lines[1] == "ok    permissions: only this user can access home, master key and database"
    assert lines[2].endswith(" GB free")
    assert lines[3].startswith("ok    clock: 20")
    assert [re.sub(r"\d+ ms$", "TIME ms", re.sub(r"cli:\w+", "cli:ME", line)) for line in lines[4:]] == [
        f"ok    database: {home}/relaydeck.db is sound",
        f"ok    schema: version {newest_version()}",
        "ok    tokens: 1 live, 1 without expiry: 't'",
        "ok    relayers: no relayer is disabled",
        "ok    deliveries: no delivery was given up",
        "ok    notifications: no delivery waits after a failed attempt",
        "ok    growth: in the last day 'apply' created 1 network; 'cli:ME' created 1 token",
        f"ok    master key: {home}/master.key opens 1 data key",
        "ok    sealed values: all 2 open",
        "ok    audit log: 2 entries, every link holds",
        f"ok    node {node} of the network 'sepolia': chain id 11155111, block 5, up to date, TIME ms",
    ]


def test_a_home_that_does_not_exist_is_not_created(home: Path) -> None:
    done = run_command(home, "doctor")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == (
        f"FAIL  home: {home} does not exist;"
        " create it with 'relaydeck serve', or choose another home with --home or RELAYDECK_HOME\n"
    )
    assert not home.exists()


def test_a_home_that_is_no_folder(home: Path) -> None:
    home.write_text("")
    assert examined(home) == {
        "home": Finding("FAIL", "home", f"{home} is not a folder; choose another with RELAYDECK_HOME")
    }


def test_a_home_that_this_user_cannot_use(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir()
    monkeypatch.setattr("os.access", lambda *_, **__: False)  # root may use every folder
    monkeypatch.setenv("RELAYDECK_HOME", str(home))  # restores what the option sets
    done = CliRunner().invoke(cli, ["doctor", "--home", str(home)])
    assert (done.exit_code, done.output) == (
        1,
        f"FAIL  home: this user cannot use {home}; correct its owner or permissions\n",
    )


def test_a_home_on_a_read_only_file_system(provisioned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda _path, mode: mode == os.R_OK)
    monkeypatch.setattr("os.statvfs", lambda _path: SimpleNamespace(f_flag=os.ST_RDONLY))
    remark = f"{provisioned} is on a file system that is mounted read-only; mount it writable"
    assert examined(provisioned) == {"home": Finding("FAIL", "home", remark)}


def test_a_master_key_that_can_only_be_read(provisioned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a secret that is mounted read-only."""
    writable = os.access
    key = provisioned / "master.key"
    monkeypatch.setattr("os.access", lambda path, mode: writable(path, mode) and (path != key or mode == os.R_OK))
    remark = "only this user can access home, master key and database"
    assert examined(provisioned)["permissions"] == Finding("ok", "permissions", remark)


def test_a_home_that_cannot_be_examined(home: Path) -> None:
    """As below a folder that this user may not enter."""
    home = home.parent / ("x" * 256)
    remark = f"{home} cannot be examined (File name too long); give this user access to it, or choose another home"
    assert examined(home) == {"home": Finding("FAIL", "home", f"{remark} with --home or RELAYDECK_HOME")}


def test_nodes(home: Path, node: str) -> None:
    """Of each URL only scheme and host are printed; the rest may contain a key."""
    dead = f"http://127.0.0.1:{free_port()}"
    urls = [f"{node}/chain/1?key=hunter2", f"{node}/status/401", f"{node}/garbage/0", f"{dead}/hunter2"]
    provision(home, network(*urls))
    done = run_command(home, "doctor")
    assert done.returncode == 1
    assert [line for line in done.stdout.splitlines() if " node " in line] == [
        f"FAIL  node {node} of the network 'sepolia':"
        " it is on chain id 1, not 11155111; correct the URL, or the chain_id of the network",
        f"FAIL  node {node} of the network 'sepolia':"
        " it answered HTTP 401; check the path and key of its URL, and its headers",
        f"FAIL  node {node} of the network 'sepolia':"
        " it answered something other than a JSON-RPC response; check that the URL is a JSON-RPC node",
        f"FAIL  node {dead} of the network 'sepolia':"
        " it refused the connection; check the port and that the node is running",
    ]
    assert "hunter2" not in done.stdout


@pytest.mark.parametrize(
    ("chain", "base_fee", "finding"),
    [
        (
            11155111,
            1_125_000_000,
            "ok    preset 'sepolia' and {}: the base fee of block 8 follows from the block before",
        ),
        (
            11155111,
            1_062_500_000,
            "warn  preset 'sepolia' and {}: block 8 has a base fee of 1062500000 Wei, not 1125000000:"
            " the chain has changed its rules; update Relaydeck",
        ),
        (
            143,
            1_125_000_000,
            "warn  preset 'monad' and {}: a transaction may have 16777216 gas, not 30000000:"
            " the chain has changed its rules; update Relaydeck",
        ),
        (
            42161,
            7,
            "ok    preset 'arbitrum-one' and {}: the chain id is the same; its base fee is read from the nodes",
        ),
    ],
)
def test_the_preset_of_a_chain_beside_its_nodes(home: Path, node: str, chain: int, base_fee: int, finding: str) -> None:
    provision(home, network(f"{node}/fees/{chain}+{base_fee}").replace("11155111", str(chain), 1))
    lines = [line for line in run_command(home, "doctor").stdout.splitlines() if " preset " in line]
    assert lines == [finding.format(f"the node {node} of the network 'sepolia'")]


def test_a_fee_model_that_is_not_that_of_the_chain(home: Path) -> None:
    both = [f'[networks.{name}]\nchain = "sepolia"\nchain_id = {chain}\n' for name, chain in (("b", 8453), ("s", 5031))]
    provision(home, "".join(both))
    lines = [line for line in run_command(home, "doctor").stdout.splitlines() if " fee_model " in line]
    assert lines == [
        "warn  fee_model of the network 'b': it is ethereum, and the chain base charges by op_stack;"
        " set chain = 'base'",
        "warn  fee_model of the network 's': estimates on its chain are wrong: its price of gas depends on how much gas"
        " the sender has used before, which no fee model here computes",
    ]


def test_a_node_that_is_behind(home: Path, node: str) -> None:
    provision(home, network(f"{node}/chain/11155111+90", f"{node}/chain/11155111+40"))
    lines = [line for line in run_command(home, "doctor").stdout.splitlines() if " node " in line]
    start = f"node {node} of the network 'sepolia': chain id 11155111, block"
    assert [re.sub(r"\d+ ms$", "TIME ms", line) for line in lines] == [
        f"ok    {start} 90, up to date, TIME ms",
        f"warn  {start} 40, 50 blocks behind the newest of the nodes, TIME ms",
    ]


def test_the_last_faults_that_a_running_service_saw(provisioned: Path) -> None:
    folder = Settings(home=provisioned).run_folder
    folder.mkdir(exist_ok=True)
    back, away = Fault("timed out", 1_900_000_000.0), Fault("refused the connection", 1_900_000_060.0)
    hosts = {"a.example": HostFigures(True, last_fault=back), "b.example": HostFigures(last_fault=away)}
    write_figures(folder, NodeFigures(hosts | {"c.example": HostFigures(True)}))
    lines = [line for line in run_command(provisioned, "doctor").stdout.splitlines() if " nodes on " in line]
    assert lines == [
        "ok    nodes on a.example: the last fault the service saw: timed out, at 2030-03-17T17:46:40Z",
        "warn  nodes on b.example: the last fault the service saw: refused the connection, at 2030-03-17T17:47:40Z",
    ]


def test_what_others_can_read(provisioned: Path) -> None:
    provisioned.chmod(0o755)
    (provisioned / "master.key").chmod(0o640)
    found = [each for each in findings(Settings(home=provisioned), Machine()) if each.subject == "permissions"]
    assert found == [
        Finding("warn", "permissions", f"other users can access {provisioned}; run: chmod 700 {provisioned}"),
        Finding(
            "warn",
            "permissions",
            f"other users can access {provisioned}/master.key; run: chmod 600 {provisioned}/master.key",
        ),
    ]


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        ([], "home, master key and database"),
        (["master.key"], "home and database"),
        (["master.key", "relaydeck.db"], "home"),
    ],
)
def test_what_is_missing_is_not_said_to_be_safe(provisioned: Path, missing: list[str], named: str) -> None:
    for name in missing:
        (provisioned / name).unlink()
    assert examined(provisioned)["permissions"] == Finding("ok", "permissions", f"only this user can access {named}")


def test_a_file_that_belongs_to_somebody_else(provisioned: Path) -> None:
    key = provisioned / "master.key"
    machine = Machine(owner=lambda path: 65_534 if path == key else 1000)
    found = [each for each in findings(Settings(home=provisioned), machine) if each.subject == "permissions"]
    assert found == [
        Finding(
            "FAIL",
            "permissions",
            f"{key} belongs to the user with the number 65534;"
            " only the owner of the home should own it: correct it with chown",
        )
    ]


@pytest.mark.parametrize(("free", "result"), [(10**10, "ok"), (10**8, "warn"), (10**6, "FAIL")])
def test_free_space(provisioned: Path, free: int, result: str) -> None:
    assert examined(provisioned, free=free)["disk"].result == result


@pytest.mark.parametrize(("now", "result"), [(NOW, "ok"), (0.0, "FAIL"), (1_740_000_000.0, "warn")])
def test_the_clock(provisioned: Path, now: float, result: str) -> None:
    """1970 is plainly wrong; a time before the files of the home were written is suspicious."""
    found = findings(Settings(home=provisioned), Machine(lambda: now))
    assert next(each.result for each in found if each.subject == "clock") == result


def test_a_newest_audit_entry_of_the_future(provisioned: Path) -> None:
    """As after a restore, where the files of the home are new: the clock was ahead, or is behind now."""
    entry = json.loads(run_command(provisioned, "audit", "list", "--json").stdout)[0]
    written = datetime.fromisoformat(entry["at"]).timestamp()
    assert remarks_on_clock(provisioned, written) == []
    remark = f"the newest audit entry is of {entry['at']}, 7200 s from now"
    advice = "set the clock of this machine, or of the one that made the entry"
    assert remarks_on_clock(provisioned, written - 7200) == [f"{remark}; {advice}"]


def remarks_on_clock(home: Path, now: float) -> list[str]:
    for path in home.iterdir():
        os.utime(path, (now, now))
    found = findings(Settings(home=home), Machine(lambda: now))
    return [each.remark for each in found if each.subject == "clock" and each.result != "ok"]


def test_no_live_token(provisioned: Path) -> None:
    assert examined(provisioned)["tokens"].result == "warn"
    make_token(provisioned, "t", "--expires", "1d")
    assert examined(provisioned, now=1_740_000_000.0)["tokens"] == Finding("ok", "tokens", "1 live, 0 without expiry")
    assert examined(provisioned, now=NOW * 2)["tokens"].result == "warn"


def test_tokens_that_somebody_should_look_at(provisioned: Path) -> None:
    for name in ("idle", "busy", "app"):
        make_token(provisioned, name, "--kind", "owner" if name == "app" else "api")
    later = int(time.time()) + 91 * 86_400
    with opened(provisioned) as store, store.database.transaction() as transaction:
        store_uses(transaction, [("busy", later - 60, "api 10.0.0.1"), ("app", later - 60, "api 10.0.0.1")])
    found = findings(Settings(home=provisioned), Machine(lambda: later))
    assert [(each.result, each.remark) for each in found if each.subject == "tokens"] == [
        ("ok", "3 live, 3 without expiry: 'idle', 'busy', 'app'"),
        ("warn", "'idle': not used for 90 days: revoke it if nobody needs it"),
        ("warn", "'app': an owner that an application uses: give the application a token with the role api"),
    ]


def test_the_first_tokens_without_an_expiry_are_named(provisioned: Path) -> None:
    for number in range(22):
        issue(provisioned, f"t-{number}", "api")
    named = ", ".join(f"'t-{number}'" for number in range(20))
    found = findings(Settings(home=provisioned), Machine())
    remark = f"22 live, 22 without expiry: {named} and 2 more"
    assert Finding("ok", "tokens", remark) in list(found)


def test_a_damaged_record_is_named(provisioned: Path) -> None:
    with closing(sqlite3.connect(provisioned / "relaydeck.db")) as connection:
        connection.execute("UPDATE signers SET sealed_config = x'0100000001'")
        connection.commit()
    assert examined(provisioned)["sealed values"] == Finding(
        "FAIL",
        "sealed values",
        "the sealed config of signers record 'ops' does not open; restore the record, or set it again",
    )


@pytest.mark.parametrize(
    ("tampering", "reported"),
    [
        ("UPDATE audit SET actor = 'cli:nobody' WHERE seq = 3", "3 was changed, or does not follow the row before it"),
        ("DELETE FROM audit WHERE seq = 2", "2 is missing"),
        ("DELETE FROM audit_keys", "1 cannot be checked: the audit key is missing or does not open"),
    ],
)
def test_an_audit_log_that_was_tampered_with(provisioned: Path, tampering: str, reported: str) -> None:
    assert examined(provisioned)["audit log"] == Finding("ok", "audit log", "4 entries, every link holds")
    with closing(sqlite3.connect(provisioned / "relaydeck.db")) as connection:
        connection.execute(tampering)
        connection.commit()
    remedy = "the entries before it are unchanged: compare the rest with a backup"
    assert examined(provisioned)["audit log"] == Finding("FAIL", "audit log", f"entry {reported}; {remedy}")


def test_an_audit_log_cut_back_to_an_old_signed_head(provisioned: Path) -> None:
    with closing(sqlite3.connect(provisioned / "relaydeck.db")) as connection:
        (old,) = connection.execute("SELECT audit_head FROM clock").fetchone()
        make_token(provisioned, "t")
        connection.execute("DELETE FROM audit WHERE seq = 5")
        connection.execute("UPDATE clock SET audit_head = ?", (old,))
        connection.commit()
    assert examined(provisioned)["audit log"].remark == (
        "entry 5 is missing: the database has numbered 5 entries;"
        " the entries before it are unchanged: compare the rest with a backup"
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_long_audit_log_shows_progress_on_a_terminal(provisioned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert examined(provisioned, progress=partial(progress_bar, at_least=5))["audit log"].result == "ok"
    assert terminal.getvalue() == ""
    monkeypatch.setattr("relaydeck.doctor.integrity._STEP_ENTRIES", 2)
    assert examined(provisioned, progress=partial(progress_bar, at_least=4))["audit log"].result == "ok"
    assert "checking 4 audit entries" in terminal.getvalue()
    assert "100%" in terminal.getvalue()


def test_the_wrong_master_key(provisioned: Path) -> None:
    (provisioned / "master.key").write_text("00" * 32)
    found = examined(provisioned)
    assert found["master key"].result == "FAIL"
    assert found["master key"].remark.startswith("the master key does not open this database's keyring. Restore")
    assert_not_checked(found)


def test_a_missing_master_key(provisioned: Path) -> None:
    (provisioned / "master.key").unlink()
    found = examined(provisioned)
    assert found["master key"].remark.startswith(
        f"the master key file {provisioned}/master.key is missing. Put your copy of it back"
    )
    assert not (provisioned / "master.key").exists()
    assert_not_checked(found)


def assert_not_checked(found: dict[str, Finding]) -> None:
    """It says of each check that needs the master key that it was not made, and shows no result of it."""
    remark = (
        "the sealed values, whether somebody forged a token, the audit log, and the nodes (their URLs are sealed):"
        " these checks need the master key"
    )
    assert found["not checked"] == Finding("warn", "not checked", remark)
    assert not [each for each in found if each in ("sealed values", "audit log") or each.startswith("node ")]


def test_a_database_of_a_newer_program(provisioned: Path) -> None:
    with closing(sqlite3.connect(provisioned / "relaydeck.db")) as connection:
        connection.execute("INSERT INTO schema_versions (version, applied_at) VALUES (999, '')")
        connection.commit()
    assert examined(provisioned)["schema"].result == "FAIL"


def test_a_database_of_an_older_program_is_not_damaged(home: Path) -> None:
    home.mkdir()
    with closing(SqliteDatabase(home / "relaydeck.db", WriteSignal(home / "signal"))) as database:
        migrate(database, to=newest_version() - 1)
        database.writer.execute(
            "INSERT INTO tokens (name, kind, digest, created_at, revision) VALUES ('t', 'api', x'00', 1, 1)"
        )
    found = examined(home)
    assert (found["database"].result, found["schema"].result, "tokens" in found) == ("ok", "warn", False)


def test_a_file_that_is_no_database(provisioned: Path) -> None:
    for name in ("relaydeck.db-wal", "relaydeck.db-shm"):
        (provisioned / name).unlink(missing_ok=True)
    (provisioned / "relaydeck.db").write_bytes(b"not a database, but long enough to be looked at" * 100)
    assert examined(provisioned)["database"].result == "FAIL"


def test_a_database_that_is_gone(provisioned: Path) -> None:
    for path in provisioned.glob("relaydeck.db*"):
        path.unlink()
    found = examined(provisioned)["database"]
    assert found.result == "FAIL"
    assert found.remark.startswith(
        f"the database file {provisioned}/relaydeck.db is missing, but this home had a database"
    )
    assert "restore a backup" in found.remark
    assert not (provisioned / "relaydeck.db").exists()
    for path in (provisioned / "master.key", provisioned / "run" / "write-signal"):
        path.unlink()
    assert examined(provisioned)["database"].remark.endswith("run 'relaydeck serve' to create it, or restore it")


def test_what_the_system_refuses_is_a_finding_and_ends_no_other_check(provisioned: Path) -> None:
    key = provisioned / ("k" * 300)
    found = {each.subject: each for each in findings(Settings(home=provisioned, master_key_file=key), Machine())}
    remark = f"File name too long (ENAMETOOLONG): {key}; the remaining checks of it were not made"
    assert found["permissions"] == Finding("FAIL", "permissions", remark)
    assert {"disk", "clock"} <= set(found)
    assert found["schema"].result == "ok"
    assert found["master key"].remark.startswith(f"the master key file {key} cannot be used: File name too long")


def test_settings_that_cannot_be_read_are_a_finding(home: Path) -> None:
    done = run_command(home, "doctor", "--json", port="eighty")
    remark = "RELAYDECK_PORT must be a port from 1 to 65535; Correct the settings and start again."
    assert (done.returncode, done.stderr) == (1, "")
    assert json.loads(done.stdout) == [{"result": "FAIL", "subject": "settings", "remark": remark}]


def test_the_server_of_the_shared_limits_is_checked(home: Path) -> None:
    provision(home, DEMO)
    planted = "pl4nted-p4ssword"
    server = Valkey(home.parent, requirepass=planted)
    url = f"redis://:{planted}@127.0.0.1:{server.port}/0"
    subject = f"shared limits redis://127.0.0.1:{server.port}"
    try:
        answered = doctor_on_limits(home, url)
        refused = doctor_on_limits(home, url.replace(planted, f"not-{planted}"))
        server.ask("REPLICAOF", "127.0.0.1", free_port())
        replica = doctor_on_limits(home, url)
    finally:
        server.stop()
    gone = doctor_on_limits(home, url)
    alone = "until it can be used, each machine limits on its own"
    assert [answered, refused, replica, gone] == [
        f"ok    {subject}: it responds and accepts writes",
        f"FAIL  {subject}: it refused the user name or password; {alone}",
        f"FAIL  {subject}: it is a read-only replica: set RELAYDECK_LIMITS_URL to the primary server, or promote this"
        f" one; {alone}",
        f"FAIL  {subject}: it cannot be reached; {alone}",
    ]


def doctor_on_limits(home: Path, url: str) -> str:
    done = run_command(home, "doctor", limits_url=url, limits_timeout_seconds="30")
    assert "pl4nted" not in done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "shared limits" in line]
    return line


def test_a_server_of_the_shared_limits_that_is_too_slow_is_reported(home: Path, tmp_path: Path) -> None:
    provision(home, DEMO)
    server = Valkey(tmp_path)
    try:
        settings = Settings(home=home, limits_url=Secret(server.url), limits_timeout_seconds=1e-9)
        found = {finding.subject: finding for finding in findings(settings, Machine())}
    finally:
        server.stop()
    finding = found[f"shared limits valkey://127.0.0.1:{server.port}"]
    assert finding.result == "warn"
    assert finding.remark.endswith("the service waits 1e-09 s (RELAYDECK_LIMITS_TIMEOUT_SECONDS)")


def test_without_a_service_a_database_server_is_asked_whether_writes_work(
    home: Path, lend: Callable[[Path, str], Path]
) -> None:
    provision(lend(home, "postgresql"), network())
    assert "ok    writes: a trial succeeded" in run_command(home, "doctor").stdout.splitlines()
    with opened(home) as store, store.database.transaction():
        done = run_command(home, "doctor")
    (line,) = [line for line in done.stdout.splitlines() if " writes: " in line]
    assert (done.returncode, line.partition(" (")[0]) == (1, f"FAIL  writes: {WRITE_CAUSES['lock_held']}")
    assert re.search(rf"the lock is held by session \d+ \(relaydeck write {os.getpid()}@", line)


def test_workers_that_do_not_respond_are_named_and_say_nothing_about_the_database(provisioned: Path) -> None:
    found = findings_of_worker(provisioned, "timeout", beaten_before=11)
    pid = os.getpid()
    remedy = f"if it is stopped, run 'kill -CONT {pid}'; otherwise 'kill -9 {pid}': the service replaces it"
    assert found["workers"] == Finding("FAIL", "workers", f"1 worker does not respond; {remedy}")
    assert found["writes"].remark == 'no worker responds; see "workers"'


def test_a_process_is_said_to_lock_the_file_only_if_it_does_for_a_second(provisioned: Path) -> None:
    found = findings_of_worker(provisioned, "lock_held", beaten_before=0)
    moment = "no process holds the lock now for longer than a moment: run this again"
    assert found["writes"].remark == f"{WRITE_CAUSES['lock_held']}; {moment}"
    assert "workers" not in found
    with opened(provisioned) as store, store.database.transaction():
        found = findings_of_worker(provisioned, "lock_held", beaten_before=0)
    assert f"(the lock is held by process {os.getpid()} (" in found["writes"].remark


def findings_of_worker(home: Path, cause: str, beaten_before: float) -> dict[str, Finding]:
    """What is found while a worker reports that it cannot write, and last did so many seconds ago."""
    settings = Settings(home=home)
    settings.run_folder.mkdir(exist_ok=True)
    with closing(Metrics(settings.run_folder / "metrics-1", lambda: time.monotonic() - beaten_before)) as metrics:
        metrics.claim_row()
        metrics.beat()
        metrics.set_writes(None, cause)
        return {finding.subject: finding for finding in findings(settings, Machine())}


def test_a_change_of_history_is_reported_for_a_week(provisioned: Path) -> None:
    assert "history" not in examined(provisioned)
    with opened(provisioned) as store, store.database.transaction() as transaction:
        record_database_change(transaction, problem="another server was promoted", known=0, now=int(NOW))
    found, later = examined(provisioned)["history"], examined(provisioned, now=NOW + 7 * 86_400 + 1)
    assert (found.result, found.remark.partition(";")[0]) == (
        "warn",
        "at 2030-03-17T17:46:40Z the service found that another server was promoted",
    )
    assert "history" not in later
