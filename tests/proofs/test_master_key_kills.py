"""Replacing the master key is killed at random moments, while services write: no secret, token or entry is lost.

`RELAYDECK_ROTATION_KILLS=50 make prove ARGS=tests/proofs/test_master_key_kills.py` is the long form.
"""

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from subprocess import TimeoutExpired

import pytest

from relaydeck.credentials import tokens
from relaydeck.credentials.grants import Grant
from relaydeck.credentials.tokens import new_token
from relaydeck.doctor.integrity import verify_audit
from relaydeck.errors import OperatorError
from relaydeck.roles import Role
from relaydeck.secret import Secret
from relaydeck.signers import signer_changes
from relaydeck.signers.signer_types import LocalConfig
from relaydeck.store.audit import AuditLog
from relaydeck.store.changes import ChangeContext
from relaydeck.store.open_store import Store, open_store_at
from relaydeck.store.sealing import RowProofs
from relaydeck.store.vault import MasterKey, open_keyring, read_master_keys
from tests.support.lengths import times
from tests.support.places import ENGINES, choose, place_of
from tests.support.postgres import PostgresServer
from tests.support.running import Answer, Running, clean_environment, run_command, start_command

pytestmark = [pytest.mark.prove, pytest.mark.parallel]

KILLS = times(12, short=6, setting="RELAYDECK_ROTATION_KILLS")
TOKENS = 400
SETTINGS = {"rate_limit_per_second": "0", "log_level": "error"}
ROTATE = ("key", "rotate", "--master")


class Caller(threading.Thread):
    """Creates signers and tokens at a service, and uses each token there, and later at any."""

    def __init__(self, name: str, services: list[Running], over: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self._services, self._over = services, over
        self.created: list[str] = []
        self.tokens: list[str] = []
        self.failures: list[tuple[object, ...]] = []

    def run(self) -> None:
        for number in count():
            if self._over.is_set():
                return
            writer = random.choice(self._services)
            name = f"{self.name}-{number}"
            body = {"id": name, "type": "plain", "config": {"key": f"secret of {name}"}}
            if self._expect(201, writer.ask("POST", "/api/v1/signers", body)):
                self.created.append(name)
            issued = writer.ask("POST", "/admin/v1/tokens", {"name": name, "kind": "api"})
            if self._expect(201, issued):
                self.tokens.append(issued.json["data"]["token"])
                self._expect(200, writer.ask("GET", "/api/v1/signers", token=self.tokens[-1]))
                used = random.choice(self.tokens[:-10] or [writer.token])  # the other service knows it by now
                self._expect(200, random.choice(self._services).ask("GET", "/api/v1/signers", token=used))

    def _expect(self, status: int, answer: Answer) -> bool:
        if answer.status != status:
            self.failures.append((self.name, *answer))
        return answer.status == status


class Scene:
    """One service with two workers on SQLite, or two on PostgreSQL, which share the file of the master key."""

    def __init__(self, folder: Path, server: PostgresServer | None) -> None:
        self.key, self.homes = folder / "master.key", [folder / "one"]
        if server is not None:
            self.homes, name = [*self.homes, folder / "two"], server.fresh()
            for home in self.homes:
                choose(home, server.url(name))
        self.settings = SETTINGS | {"master_key_file": str(self.key)}
        self.token = make_token_at(self.homes[0], self.settings)
        with closing(self.store()) as store:
            self.before = [token.reveal() for token in issued(store, TOKENS)]
        self.keys = dict.fromkeys(self.lines())

    def store(self) -> Store:
        return open_store_at(self.homes[0], place_of(self.homes[0]), self.key)

    def lines(self) -> list[bytes]:
        return [each.reveal() for each in read_master_keys(self.key)]

    def services(self) -> list[Running]:
        return [Running(home, "--workers", "2", token=self.token, **self.settings) for home in self.homes]

    def command(self) -> tuple[str, ...]:
        """With PostgreSQL, the new key is prepared first."""
        needs_key = len(self.homes) > 1 and len(self.lines()) == 1
        return (*ROTATE, "--prepare") if needs_key else ROTATE

    def killed(self, seconds: float) -> bool:
        """Whether the command was killed; otherwise it had ended before."""
        command, log = self.command(), self.key.with_name("command.log")
        with log.open("wb") as errors:
            process = start_command(command, clean_environment(self.homes[0], **self.settings), errors)
        try:
            assert process.wait(seconds) == 0, log.read_text()
        except TimeoutExpired:
            with suppress(ProcessLookupError):  # it has just ended
                os.killpg(process.pid, signal.SIGKILL)
            return process.wait(60) != 0
        finally:
            self.keys |= dict.fromkeys(self.lines())
            if process.stdout is not None:
                process.stdout.close()
        return False

    def ended(self) -> float:
        """Run the command to its end, twice with PostgreSQL; returns how long the last one took."""
        while True:
            command, began = self.command(), time.monotonic()
            done = run_command(self.homes[0], *command, **self.settings)
            assert done.returncode == 0, done.stderr
            self.keys |= dict.fromkeys(self.lines())
            if command == ROTATE:
                return time.monotonic() - began


def make_token_at(home: Path, settings: dict[str, str]) -> str:
    done = run_command(home, "token", "create", "root", "--role", "admin", **settings)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def issued(store: Store, number: int) -> list[Secret]:
    with store.database.transaction() as transaction:
        context, made = ChangeContext(transaction, AuditLog(store.vault), "cli:me", 1), []
        for each in range(number):
            made.append(new_token())
            tokens.issue(context, f"token-{each}", Grant(role=Role.API), made[-1])
    return made


@contextmanager
def load(services: list[Running]) -> Iterator[list[Caller]]:
    over = threading.Event()
    callers = [Caller(f"caller-{number}", services, over) for number in range(3)]
    for caller in callers:
        caller.start()
    try:
        yield callers
    finally:
        over.set()
        for caller in callers:
            caller.join()


@pytest.mark.parametrize("engine", ENGINES)
def test_kills_of_the_rotation_under_load_lose_nothing(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    scene = Scene(tmp_path, request.getfixturevalue("postgres") if engine == "postgresql" else None)
    chance, kills, runs = random.Random(engine), 0, 0
    with ExitStack() as stack:
        services = [stack.enter_context(each) for each in scene.services()]
        with load(services) as callers:
            longest = scene.ended()
            while kills < KILLS:
                runs += 1
                kills += scene.killed(chance.uniform(0, longest))
            scene.ended()
        assert [failure for caller in callers for failure in caller.failures] == []
        made = [token for caller in callers for token in caller.tokens]
        tokens = [*chance.sample(scene.before, 50), *chance.sample(made, min(len(made), 50))]  # the rows show all
        assert statuses(services, tokens) == {200}
    created = {name for caller in callers for name in caller.created}
    assert len(created) > KILLS
    require_all(scene, created)
    with ExitStack() as stack:  # also for services that start with the new key
        services = [stack.enter_context(each) for each in scene.services()]
        assert statuses(services, tokens) == {200}
    done = f"{len(scene.keys)} master keys, {len(created)} signers, {len(scene.before) + len(made)} tokens"
    print(f"{engine}: {kills} kills in {runs} runs, {done}")


def statuses(services: list[Running], tokens: list[str]) -> set[int]:
    path = "/api/v1/signers?per_page=1"
    return {service.ask("GET", path, token=each).status for each in tokens for service in services}


def require_all(scene: Scene, created: set[str]) -> None:
    *removed, last = scene.keys
    assert scene.lines() == [last]
    with closing(scene.store()) as store:
        read = store.database.read
        with store.database.snapshot():
            verified = verify_audit(store.database, store.vault)
        assert (verified.problem, verified.broken_at) == (None, None)
        recorded = {row.record for row in read("SELECT record FROM audit WHERE action = 'signer.created'")}
        assert created <= recorded
        rows = read(f"SELECT {signer_changes.OPENED_COLUMNS} FROM signers")
        configs = {row.id: signer_changes.opened(row, store.vault).config for row in rows}
        assert configs == {name: LocalConfig(key=Secret(f"secret of {name}")) for name in recorded}
        keys = read("SELECT id, wrapped FROM data_keys")
        stored = tokens.all_tokens(store.database)
        assert {each.is_authentic(store.vault.proofs) for each in stored} == {True}
        (clock,) = read("SELECT audit_head FROM clock")
        for master in map(MasterKey, removed):
            with pytest.raises(OperatorError):
                open_keyring([master], keys)
            proofs = RowProofs(master.proof_key)
            assert {each.is_authentic(proofs) for each in stored} == {False}
            assert proofs.stored_head(clock.audit_head) is None
