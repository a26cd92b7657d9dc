"""A key of a real Vault wraps the master key: no file opens the secrets, and a service outlives the outage of Vault."""

import json
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from relaydeck.http.metric_counts import Metrics, allocate
from relaydeck.http.metrics import MASTER_KEY_AWAY
from relaydeck.log import Log
from relaydeck.process.wrapped_keys import WRAPPED_KEYS
from relaydeck.settings.model import Settings
from relaydeck.settings.values import key_source
from relaydeck.signers.drivers.key_wrapping import DriverKeySystem
from relaydeck.store.open_store import open_store_at
from relaydeck.worker.housekeeping import check_keys
from tests.signers.drivers.vault_system import prepare
from tests.support.places import ENGINES, place_of
from tests.support.running import Running, run_command
from tests.support.seeding import fill, issue
from tests.vault.process import Vault, running

pytestmark = pytest.mark.tools
MASTER = ("key", "rotate", "--master")
FAILED = "relaydeck: the key system of the master key, vault-transit, fails: the key system "


class Wrapped:
    """A Vault that a test may stop, and the settings that name its key."""

    def __init__(self, vault: Vault, folder: Path) -> None:
        self.vault = vault
        vault.call("POST", "transit/keys/relaydeck", {"type": "aes256-gcm96"})
        vault.call("POST", "auth/approle/role/r", {"token_policies": "relaydeck"})
        role = vault.call("GET", "auth/approle/role/r/role-id")["data"]["role_id"]
        secret = vault.call("POST", "auth/approle/role/r/secret-id")["data"]["secret_id"]
        self.credentials = [role, secret]
        fields: dict[str, Any] = {"driver": "vault-transit", "address": vault.address, "key_name": "relaydeck"}
        for name, text in (("role_id", role), ("secret_id", secret)):
            (folder / name).write_text(text)
            fields[name] = {"file": str(folder / name)}
        self.text = json.dumps(fields)
        self.settings = {"master_key_from": self.text}


@pytest.fixture
def stop_vault() -> Iterator[tuple[Vault, Callable[[], None]]]:
    context = running()
    vault, stopped = context.__enter__(), list[bool]()

    def stop() -> None:
        if not stopped:
            stopped.append(True)
            context.__exit__(None, None, None)

    prepare(vault)
    yield vault, stop
    stop()


@pytest.fixture
def wrapped(stop_vault: tuple[Vault, Callable[[], None]], tmp_path: Path) -> Wrapped:
    return Wrapped(stop_vault[0], tmp_path)


@pytest.fixture(params=ENGINES)
def home(request: pytest.FixtureRequest, tmp_path: Path, lend: Callable[[Path, str], Path]) -> Path:
    return lend(tmp_path / "home", request.param)


def lines(home: Path) -> list[str]:
    return (home / "master.key").read_text().split()


def test_the_key_in_the_file_is_replaced_by_one_that_vault_wraps(home: Path, wrapped: Wrapped) -> None:
    fill(home)
    token = issue(home)
    (plain,) = lines(home)
    with Running(home, "--workers", "2", token=token, **wrapped.settings) as service:
        assert "has the master key in clear; run: relaydeck key rotate --master" in service.log
        run_command(home, *MASTER, "--prepare", **wrapped.settings)
        assert run_command(home, *MASTER, **wrapped.settings).returncode == 0
        (line,) = lines(home)
        assert line.startswith("wrapped:vault:v1:") and plain not in line
        body = {"id": "after", "type": "plain", "config": {"key": "11" * 32}}
        assert service.ask("POST", "/api/v1/signers", body).status == 201
        made = make_token_with(home, wrapped)
        assert service.ask("GET", "/api/v1/signers", token=made).status == 200
        assert wrapped.credentials[1] not in service.log and wrapped.credentials[0] not in service.log
    checked = run_command(home, "doctor", **wrapped.settings).stdout
    assert f"ok    master key: {home / 'master.key'}, unwrapped by vault-transit, opens 1 data key\n" in checked
    refused = run_command(home, "signer", "list")
    assert (refused.returncode, refused.stderr) == (
        1,
        "relaydeck: a key system wraps the master key, and the settings do not say which\n"
        "Set RELAYDECK_MASTER_KEY_FROM as it was when the key was wrapped.\n",
    )


def test_the_plain_key_and_the_credentials_are_in_no_file_and_no_output(home: Path, wrapped: Wrapped) -> None:
    token = run_command(home, "token", "create", "t", "--kind", "admin", **wrapped.settings).stdout.strip()
    fill_with(home, wrapped)
    with Running(home, "--workers", "2", token=token, **wrapped.settings) as service:
        paths = ("admin/v1/doctor", "admin/v1/export", "metrics", "readyz?detail", "api/v1/signers")
        told = [service.ask("GET", f"/{path}").body.decode() for path in paths]
        for command in (MASTER, (*MASTER, "--prepare"), ("doctor", "--production"), ("export",), ("audit", "list")):
            done = run_command(home, *command, **wrapped.settings)
            told.append(done.stdout + done.stderr)
        diagnosed = run_command(home, "diagnose", str(home.parent / "diagnosis.zip"), **wrapped.settings)
        told += [diagnosed.stdout + diagnosed.stderr, service.log]
        files = {path: path.read_bytes() for path in home.parent.rglob("*") if path.is_file()}
    for line in lines(home):
        ciphertext = {"ciphertext": line.removeprefix("wrapped:")}
        key = wrapped.vault.call("POST", "transit/decrypt/relaydeck", ciphertext)["data"]["plaintext"]
        plain = b64decode(key)
        for form in (plain, plain.hex().encode(), key.encode()):
            assert [path for path, content in files.items() if form in content] == []
            assert form not in "".join(told).encode()
    for secret in wrapped.credentials:
        found = {path.name for path, content in files.items() if secret.encode() in content}
        assert (found <= {"role_id", "secret_id"}, secret in "".join(told)) == (True, False)


def make_token_with(home: Path, wrapped: Wrapped) -> str:
    done = run_command(home, "token", "create", "more", **wrapped.settings)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_service_outlives_the_outage_of_vault_and_a_start_explains_it(
    home: Path, wrapped: Wrapped, stop_vault: tuple[Vault, Callable[[], None]]
) -> None:
    done = run_command(home, "token", "create", "t", "--kind", "admin", **wrapped.settings)
    assert done.returncode == 0, done.stderr
    (line,) = lines(home)
    assert line.startswith("wrapped:vault:v1:")
    with Running(home, "--workers", "2", token=done.stdout.strip(), **wrapped.settings) as service:
        stop_vault[1]()
        for number in range(3):
            body = {"id": f"s-{number}", "type": "plain", "config": {"key": "11" * 32}}
            assert service.ask("POST", "/api/v1/signers", body).status == 201
        assert service.ask("GET", "/admin/v1/audit/verify").json["data"]["problem"] is None
        for command in (("serve", "--port", "0"), ("signer", "create", "x", "--type", "plain"), MASTER):
            refused = run_command(home, *command, **wrapped.settings)
            assert refused.returncode in (1, 2)
        refused = run_command(home, "token", "list", **wrapped.settings)
        assert (refused.returncode, refused.stderr.startswith(FAILED)) == (1, True)
        assert "A service that runs has the key in memory and goes on. A start, and each" in refused.stderr
        checked = run_command(home, "doctor", **wrapped.settings)
        assert "FAIL  master key: the key system of the master key, vault-transit, fails" in checked.stdout
        assert service.ask("GET", "/api/v1/signers").status == 200
        found = service.ask("GET", "/admin/v1/doctor").json["data"]
        remarks = [each["remark"] for each in found if (each["subject"], each["result"]) == ("master key", "FAIL")]
        expected = "it is in memory, and a start would fail: the key system of the master key, vault-transit, fails: "
        assert [remark.removeprefix(expected) for remark in remarks] == ["the key system refused the connection"]
        for secret in wrapped.credentials:
            assert secret not in refused.stderr + checked.stdout + service.log


async def test_a_running_worker_says_that_a_start_would_fail(
    home: Path,
    wrapped: Wrapped,
    stop_vault: tuple[Vault, Callable[[], None]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    run_command(home, "token", "create", "t", **wrapped.settings)
    source = key_source(wrapped.text)
    assert source is not None
    system = DriverKeySystem(Settings(), source)
    monkeypatch.setattr(WRAPPED_KEYS, "find_system", lambda: system)
    allocate(tmp_path / "metrics", 1)
    metrics, log = Metrics(tmp_path / "metrics"), Log(as_json=True)
    metrics.claim_row()
    store = open_store_at(home, place_of(home), home / "master.key")
    await check_keys(store, metrics, log)
    assert (metrics.total(MASTER_KEY_AWAY), capfd.readouterr().err) == (0, "")
    stop_vault[1]()
    await check_keys(store, metrics, log)
    assert metrics.total(MASTER_KEY_AWAY) == 1
    assert '"event": "the master key is in memory, and a start could not read it now"' in capfd.readouterr().err
    with store.database.transaction() as transaction:
        store.vault.refreshed(transaction)  # and it still seals
    store.close()


def test_backup_drill_restore_and_move_work_with_a_wrapped_key(tmp_path: Path, wrapped: Wrapped) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    run_command(home, "token", "create", "t", **wrapped.settings)
    fill_with(home, wrapped)
    phrase, backup = tmp_path / "phrase", tmp_path / "backup"
    phrase.write_text("a long passphrase")
    words = ("--with-master-key", "--passphrase-file", str(phrase))
    done = run_command(home, "backup", str(backup), *words, **wrapped.settings)
    assert done.returncode == 0, done.stderr
    drilled = run_command(home, "backup", "drill", str(backup), **wrapped.settings)
    assert drilled.returncode == 0 and "the backup is authentic" in drilled.stdout
    restored = run_command(other, "restore", str(backup), "--passphrase-file", str(phrase), **wrapped.settings)
    assert restored.returncode == 0, restored.stderr
    (line,) = lines(other)
    assert line.startswith("wrapped:vault:v1:") and line != lines(home)[0]  # wrapped anew, the same key
    moved = run_command(other, "db", "move", "--to", f"sqlite:///{tmp_path / 'moved.db'}", **wrapped.settings)
    assert moved.returncode == 0, moved.stderr
    at_new = wrapped.settings | {"database_url": f"sqlite:///{tmp_path / 'moved.db'}"}
    assert json.loads(run_command(other, "signer", "list", "--json", **at_new).stdout)[0]["id"] == "sealed"
    assert run_command(other, "audit", "verify", **at_new).returncode == 0


def fill_with(home: Path, wrapped: Wrapped) -> None:
    document = home.parent / "apply.toml"
    document.write_text(f'[[signers]]\nid = "sealed"\ntype = "plain"\nconfig.key = "{"11" * 32}"\n')
    done = run_command(home, "apply", str(document), "--yes", **wrapped.settings)
    assert done.returncode == 0, done.stderr


def test_the_way_back_is_a_new_key_that_nothing_wraps(tmp_path: Path, wrapped: Wrapped) -> None:
    home = tmp_path / "home"
    run_command(home, "token", "create", "t", **wrapped.settings)
    done = run_command(home, *MASTER, "--plain", **wrapped.settings)
    assert done.returncode == 0, done.stderr
    assert len(bytes.fromhex(lines(home)[0])) == 32
    assert run_command(home, "token", "list").returncode == 0
    warned = run_command(home, "doctor", **wrapped.settings).stdout
    assert "has a key in clear, although vault-transit could wrap it; run: relaydeck key rotate --master" in warned
    refused = run_command(home, "key", "rotate", "--plain")
    assert refused.returncode == 2 and "--plain needs --master" in refused.stderr
