"""One round of the faults that no other proof brings about. `python -m tests.proofs.recovery` has all of them."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.proofs.recovery import POSTGRESQL, SQLITE, bring_about, cut_network, fail_over, replace_file
from tests.proofs.recovery_stage import Creator, Crowd, on_postgresql, on_sqlite, other_statuses
from tests.seeding import opened

pytestmark = pytest.mark.prove

_TWICE = "INSERT INTO events (id, kind, data, created_at) VALUES ('evt_twice', 'notification.test', '{}', 0)"


def test_faults_of_postgresql_lose_and_double_no_acknowledged_write() -> None:
    with on_postgresql() as machines:
        for fault in POSTGRESQL:
            if fault.bring_about in (cut_network, fail_over):
                result = bring_about(fault, "PostgreSQL", machines, 1)
                assert result.acknowledged > 0 and result.is_as_promised, result


def test_a_replaced_file_loses_and_doubles_no_acknowledged_write() -> None:
    (fault,) = (each for each in SQLITE if each.bring_about is replace_file)
    with on_sqlite() as machines:
        # Each round lets a few writes wait for the lock while the file is replaced.
        result = bring_about(fault, "SQLite", machines, 3)
        assert result.acknowledged > 0 and result.is_as_promised, result
        # Lost and doubled writes would be counted.
        with Crowd(machines.stage, "counted") as crowd:
            crowd.work()
        created = next(each for each in crowd.writers if each.acknowledged).acknowledged[0]
        with opened(machines.stage.homes[0]) as store, store.database.transaction() as transaction:
            transaction.execute("DELETE FROM signers WHERE id = :id", {"id": created})
            transaction.execute(_TWICE)
        assert crowd.count()[1:] == (1, 1, "none")


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
            writer.write(name)
        server.shutdown()
    assert (writer.acknowledged, other_statuses([writer])) == ([], "503 × 2")
    assert "busy today" in capsys.readouterr().err
