"""Random operations on real replicas, beside a model of them.

Replicas are killed and started again with wrong clocks; the database stops, crashes, or its standby is promoted.

Every answer is compared with that of the model. A failure prints the steps; `--hypothesis-seed` runs the same ones.
The environment variables MODEL_EXAMPLES and MODEL_STEPS set how many sequences are run on each database, and how many
steps each has at most. `make explore ARGS="--hours 1"` runs the model again and again.
"""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.admin.conftest import PAGER, RELAYER, timeless
from tests.proofs.explore.replicas import HOOK, Replicas
from tests.support.lengths import times
from tests.support.postgres_pair import PostgresPair
from tests.support.running import Answer, in_path
from tests.support.shapes import failure, page, request, success

EXAMPLES, STEPS = times(3, short=2, setting="MODEL_EXAMPLES"), times(30, short=20, setting="MODEL_STEPS")
MOST_PROMOTIONS = 1
LONGEST_NOTICE = 30.0
SIGNERS, RELAYERS, NOTIFICATIONS = "/api/v1/signers", "/api/v1/relayers", "/api/v1/notifications"
ids = st.sampled_from(["a", "b/c", "ü 1"])
replicas = st.integers(0, 2)
skews = st.sampled_from([0.0, -7200.0, 7200.0, 90.0])
keys = st.sampled_from([None, "", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"])


class Model(RuleBasedStateMachine):
    """What a client knows: records in the order of their creation, and the newest revision it was answered."""

    server: PostgresPair | None

    @initialize(count=st.integers(1, 3))
    def start(self, count: int) -> None:
        self.service = Replicas(self.server, count)
        self.revision = 0
        self.signers = ["ops"]
        self.pager: dict[str, Any] = PAGER | {"url": HOOK}
        self.hooks: list[str] = []
        self.paused = False
        self.tokens: dict[str, str] = {}
        self.events: list[str] = []
        self.promotions = 0

    def teardown(self) -> None:
        if not hasattr(self, "service"):
            return
        try:
            self._check_the_end()
        finally:
            self.service.end()

    def _check_the_end(self) -> None:
        verified = self._get("/admin/v1/audit/verify", 0)
        assert verified["problem"] is None, verified
        events = self._get("/admin/v1/events?per_page=1000", 0)
        assert [each["type"] for each in events] == self.events
        assert [each["sequence"] for each in events] == list(range(1, len(events) + 1))

    # -- asking ------------------------------------------------------------------------------------

    def _get(self, path: str, replica: int) -> Any:
        answer = self.service.ask(replica, "GET", path, revision=self.revision)
        assert answer.status == 200, answer
        return answer.json["data"]

    def _write(self, replica: int, method: str, path: str, body: Any = None) -> Answer:
        answer = self.service.ask(replica, method, path, body)
        if answer.status < 300:
            revision = int(answer.headers["relaydeck-revision"])
            assert revision > self.revision
            self.revision = revision
        return answer

    # -- the contract ------------------------------------------------------------------------------

    @rule(replica=replicas, name=ids)
    def create_signer(self, replica: int, name: str) -> None:
        answer = self._write(replica, "POST", SIGNERS, request("plain", id=name))
        if name in self.signers:
            expected = 409, failure("Signer with this ID already exists")
        else:
            expected = 201, success({"id": name, "type": "local", "config": {}})
            self.signers.append(name)
        assert (answer.status, answer.json) == expected

    @rule(replica=replicas, number=st.integers(1, 3), per_page=st.integers(1, 3))
    def list_signers(self, replica: int, number: int, per_page: int) -> None:
        path = f"{SIGNERS}?page={number}&per_page={per_page}"
        answer = self.service.ask(replica, "GET", path, revision=self.revision)
        names = self.signers[(number - 1) * per_page : number * per_page]
        listed = [{"id": name, "type": "local", "config": {}} for name in names]
        assert (answer.status, answer.json) == (200, page(listed, number, per_page, len(self.signers)))

    @rule(replica=replicas)
    def list_relayers(self, replica: int) -> None:
        answer = self.service.ask(replica, "GET", RELAYERS, revision=self.revision)
        assert (answer.status, answer.json) == (200, page([RELAYER | {"paused": self.paused}], 1, 10, 1))

    @rule(replica=replicas, key=keys)
    def update_notification(self, replica: int, key: str | None) -> None:
        answer = self._write(replica, "PATCH", f"{NOTIFICATIONS}/pager", {"signing_key": key})
        if key is not None:
            self.pager["has_signing_key"] = key != ""
        assert (answer.status, answer.json) == (200, success(self.pager))

    @rule(replica=replicas)
    def update_an_unknown_notification(self, replica: int) -> None:
        answer = self._write(replica, "PATCH", f"{NOTIFICATIONS}/nobody", {})
        assert (answer.status, answer.json) == (404, failure("Notification not found"))

    # -- the admin API -----------------------------------------------------------------------------

    @rule(replica=replicas, name=ids)
    def create_notification(self, replica: int, name: str) -> None:
        hook = {"id": name, "type": "webhook", "url": HOOK}
        answer = self._write(replica, "POST", "/admin/v1/notifications", hook)
        if name in self.hooks:
            assert answer.status == 409
        else:
            assert (answer.status, timeless(answer.json["data"])) == (201, hook | {"has_signing_key": False})
            self.hooks.append(name)

    @rule(replica=replicas, name=ids)
    def delete_notification(self, replica: int, name: str) -> None:
        answer = self._write(replica, "DELETE", f"/admin/v1/notifications/{in_path(name)}")
        assert answer.status == (200 if name in self.hooks else 404), answer
        self.hooks = [each for each in self.hooks if each != name]

    @rule(replica=replicas)
    def list_notifications(self, replica: int) -> None:
        # Admin lists read the database itself: they need no revision.
        answer = self.service.ask(replica, "GET", "/admin/v1/notifications?per_page=100")
        assert [each["id"] for each in answer.json["data"]] == ["pager", *self.hooks]

    @rule(replica=replicas, paused=st.booleans())
    def pause_or_resume(self, replica: int, paused: bool) -> None:
        action = "pause" if paused else "resume"
        answer = self._write(replica, "POST", f"/admin/v1/relayers/sepolia-1/{action}")
        if paused != self.paused:
            self.events.append("relayer.paused" if paused else "relayer.resumed")
        self.paused = paused
        assert (answer.status, timeless(answer.json["data"])) == (200, RELAYER | {"paused": paused})

    @rule(replica=replicas, name=ids)
    def create_or_revoke_token(self, replica: int, name: str) -> None:
        if name in self.tokens:
            answer = self._write(replica, "DELETE", f"/admin/v1/tokens/{in_path(name)}")
            expected, token = 401, self.tokens.pop(name)
        else:
            answer = self._write(replica, "POST", "/admin/v1/tokens", {"name": name, "kind": "readonly"})
            expected, token = 200, answer.json["data"]["token"]
            self.tokens[name] = token
        assert answer.status in (200, 201), answer
        for other in range(self.service.count):
            self._get(SIGNERS, other)  # that replica has the revision now
            assert self.service.ask(other, "GET", SIGNERS, token=token).status == expected

    # -- faults ------------------------------------------------------------------------------------

    @rule(replica=replicas, skew=skews)
    def kill(self, replica: int, skew: float) -> None:
        self.service.restart(replica, skew)

    @rule(crash=st.booleans())
    def restart_the_database(self, crash: bool) -> None:
        self.service.restart_database(crash=crash)

    @precondition(lambda self: self.server is not None and self.promotions < MOST_PROMOTIONS)
    @rule()
    def promote_the_standby(self) -> None:
        self.promotions += 1
        self.service.fail_over()
        self.events += ["database.changed"] * len(["pager", *self.hooks])  # each receiver gets one
        self._await_events()

    def _await_events(self) -> None:
        """A replica compares the history of the database once a second."""
        deadline = time.monotonic() + LONGEST_NOTICE
        while [each["type"] for each in self._get("/admin/v1/events?per_page=1000", 0)] != self.events:
            assert time.monotonic() < deadline, "the promotion was not noticed"
            time.sleep(0.05)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresPair]:
    server = PostgresPair()
    yield server
    server.remove()


_SETTINGS = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    print_blob=True,
    phases=[Phase.generate],  # shrinking would start the replicas again and again
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.prove
@pytest.mark.parallel
def test_replicas_on_postgresql_answer_as_the_model_does(server: PostgresPair) -> None:
    run_state_machine_as_test(type("Replicated", (Model,), {"server": server}), settings=_SETTINGS)


@pytest.mark.prove
@pytest.mark.parallel
def test_one_process_on_sqlite_answers_as_the_model_does() -> None:
    run_state_machine_as_test(type("Single", (Model,), {"server": None}), settings=_SETTINGS)
