"""Health and the verification of the audit log: the findings of the doctor, with the progress of long work."""

import json
import re
import threading

import pytest

from relaydeck.console.live import follow
from relaydeck.console.pages.health import summary, with_links
from relaydeck.doctor.shared_run import SharedRun
from relaydeck.http.pipeline import Reply
from relaydeck.store.database import ShowProgress
from tests.console.conftest import Operator, plain
from tests.support.running import Running, run_command

EVENTS = {"Accept": "text/event-stream"}


def events_in(body: bytes) -> list[tuple[str, object]]:
    found = []
    for message in body.decode().strip().split("\n\n"):
        name, data = message.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def aged(text: str) -> str:
    """Without how long ago something was, which goes on, and with moments as pages write them."""
    return re.sub(r"[0-9]+ s ago", "… s ago", re.sub(r"(20\d\d-\d\d-\d\d)T([\d:]{8})Z", r"\1 \2 UTC", text))


def test_health_shows_what_the_doctor_finds(served: Running, operator: Operator) -> None:
    done = run_command(served.home, "doctor", "--json", monitor_interval_seconds="3600")
    page = plain(operator.get("/health/checks"))  # afterwards: the service may learn more about its nodes meanwhile
    findings = [each for each in json.loads(done.stdout) if each["subject"] not in ("disk", "clock")]
    assert len(findings) > 8
    for each in findings:
        assert each["subject"] in page
        assert aged(each["remark"]) in aged(page)


def test_what_failed_comes_first(operator: Operator) -> None:
    rows = operator.text("/health/checks").partition("<tbody>")[2].split("<tr>")[1:]
    results = [row.partition("badge ")[2].partition('"')[0] for row in rows]
    assert results[0] == "bad"  # the node of the demo does not exist
    assert results == sorted(results, key=("bad", "warn", "ok").index)


def test_a_finding_leads_to_the_records_that_it_is_about(served: Running, operator: Operator) -> None:
    config = {"key_id": "k", "region": "r"}
    served.ask("POST", "/admin/v1/signers", {"id": "no-driver", "type": "provider_a_kms", "config": config})
    page = operator.text("/health/checks")
    served.ask("DELETE", "/admin/v1/signers/no-driver")
    assert '<td class="named"><a href="/console/signers"><bdi>signers</bdi></a></td>' in page
    assert '<td class="named"><bdi>deliveries</bdi></td>' in page


def test_a_remark_leads_to_the_page_that_does_what_its_command_does() -> None:
    remark = with_links("'<b>' is disabled; run 'relaydeck relayer why ID'")
    assert remark == '&#39;&lt;b&gt;&#39; is disabled; <a href="/console/relayers?state=disabled">see why</a>'


@pytest.mark.parametrize(
    ("failed", "doubtful", "sentence"),
    [
        (0, 0, "All 9 checks passed."),
        (0, 1, "1 of 9 checks needs a look."),
        (0, 2, "2 of 9 checks need a look."),
        (1, 0, "1 of 9 checks failed."),
        (1, 1, "1 of 9 checks failed, 1 more needs a look."),
        (2, 3, "2 of 9 checks failed, 3 more need a look."),
    ],
)
def test_the_findings_are_summed_up(failed: int, doubtful: int, sentence: str) -> None:
    assert summary(failed, doubtful, 9) == sentence


def test_a_readonly_session_sees_the_findings(looker: Operator) -> None:
    assert "is sound" in looker.text("/health/checks")


def test_a_script_gets_the_page_after_the_progress(operator: Operator) -> None:
    for path, shown in (("/health/checks", "is sound"), ("/audit/verify", "every link holds")):
        answer = operator.ask("GET", path, headers=EVENTS)
        *steps, (name, page) = events_in(answer.body)
        assert answer.headers["content-type"] == "text/event-stream"
        assert {step for step, _ in steps} <= {"step"}
        assert name == "result"
        assert shown in str(page)


class Held:
    """Work that shows a step and waits to be released."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def __call__(self, progress: ShowProgress) -> str:
        with progress("checking 10 audit entries", 10) as advance:
            advance(4)
            assert self.released.wait(60)
        return "sound"


def shown(result: str) -> Reply:
    return Reply(200, f"<p>{result}</p>".encode())


async def test_progress_is_sent_while_the_work_lasts() -> None:
    work = Held()
    run = SharedRun(work, "held")
    stream = follow(run, shown, lambda: False, every=0.01)
    (step,) = events_in(await anext(stream))
    while step[1] != {"label": "checking 10 audit entries", "done": 4, "total": 10}:  # the thread starts
        (step,) = events_in(await anext(stream))
    work.released.set()
    rest = [event async for message in stream for event in events_in(message)]
    assert rest[-1] == ("result", "<p>sound</p>")
    run.close()


async def test_a_stop_of_the_service_ends_the_stream() -> None:
    work = Held()
    run = SharedRun(work, "held")
    assert [each async for each in follow(run, shown, lambda: True, every=0.01)] == []
    work.released.set()
    run.close()


async def test_a_failure_sends_the_reader_to_the_page() -> None:
    def fail(_progress: ShowProgress) -> str:
        raise OSError("no disk")

    run = SharedRun(fail, "failing")
    assert [events_in(each) async for each in follow(run, shown, lambda: False)] == [[("failed", None)]]
    run.close()
