"""Some of the faults of `make faults`, and that it would notice what it looks for."""

import tempfile
import threading
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.proofs.faults.causes import on_sqlite
from tests.proofs.faults.clients import Creator, Crowd, other_statuses
from tests.proofs.faults.diagnosis import Expected, Said, differences
from tests.proofs.faults.faults import FAULTS
from tests.proofs.faults.stage import Stage
from tests.proofs.faults.table import cause_all
from tests.support.seeding import opened

pytestmark = pytest.mark.prove

CHOSEN = (
    "SIGSTOP of a worker in a write",
    "connection silent inside a write",
    "promotion of a synchronous standby",
    "promotion of an asynchronous standby",
    "network to PostgreSQL cut",
    "database file replaced by a copy, then a restart",
)
_TWICE = "INSERT INTO events (id, kind, data, created_at) VALUES ('evt_twice', 'notification.test', '{}', 0)"
SAID = Said("200 ready", "503 no", ["RelaydeckWrites"], ["FAIL disk: full"], ["error: full"], 1)


@pytest.mark.parametrize("name", CHOSEN)
def test_a_fault_does_and_says_what_is_expected(name: str) -> None:
    (fault,) = (each for each in FAULTS if each.name == name)
    (outcome,) = cause_all([fault])
    assert outcome.counts.acknowledged > 0
    assert outcome.findings == [], outcome


def test_lost_and_doubled_writes_are_counted() -> None:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        stage = Stage(Path(folder), stack)
        on_sqlite(stage)
        with Crowd(stage.operator, stage.ports, stage.token) as crowd:
            pass
        created = next(each for each in crowd.writers if each.acknowledged).acknowledged[0]
        with opened(stage.operator) as store, store.database.transaction() as transaction:
            transaction.execute("DELETE FROM signers WHERE id = :id", {"id": created})
            transaction.execute(_TWICE)
        assert crowd.count()[1:5] == (1, 1, 0, "")


def test_a_response_with_another_status_is_printed_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    class Busy(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_error(503, "busy today")

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Busy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        writer = Creator("writer", server.server_port, "token", threading.Event())
        for name in ("one", "two"):
            writer.call(name)
        server.shutdown()
    assert (writer.acknowledged, writer.failures, other_statuses([writer])) == ([], 2, "503 × 2")
    assert "busy today" in capsys.readouterr().err


def test_what_is_said_is_compared_with_what_is_expected() -> None:
    fits = Expected("200", "503", ["RelaydeckWrites"], doctor=["disk: full"], log=["full"])
    assert list(differences(SAID, [], fits)) == []
    other = Expected("503", "200", ["RelaydeckDown"], doctor=["clock"], doctor_after=["disk"], log=["empty"])
    assert list(differences(SAID, [], other)) == [
        "/readyz: 200 ready",
        "/writez: 503 no",
        "no alert RelaydeckDown",
        "alert RelaydeckWrites",
        "doctor: FAIL disk: full",
        "doctor does not say: clock",
        "doctor afterwards does not say: disk",
        "the log does not say: empty",
    ]
    assert list(differences(SAID, [], fits._replace(log=[]))) == ["the log says: error: full"]
