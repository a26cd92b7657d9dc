"""What probes, alerts, `doctor` and the log said while a fault lasted, and what differs from the expectation."""

import json
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from http.client import HTTPException
from typing import NamedTuple

from tests.proofs.faults.stage import Stage
from tests.proofs.fleet import Replica
from tests.support.prometheus import Prometheus
from tests.support.running import COMMAND, ask

# What a slow machine may cause beside any fault. And nobody makes a backup here.
_TOLERATED = {"RelaydeckSlowLists", "RelaydeckReadModelOld", "RelaydeckWritesSlow", "RelaydeckBackupOld"}
_SAMPLE_SECONDS = 0.4
_LONGEST_DOCTOR = 120
_LONGEST_BEGINNING = 20
_MOST_LINES = 60  # of the log during a fault


class Expected(NamedTuple):
    """What everybody should say, as patterns; of alerts, of their names. Of what is not named nothing may be said."""

    ready: str = "200"  # /readyz and /writez, as the worst replica responds at the end of the fault: status and text
    writes: str = "200"
    alerts: Sequence[str] = ()
    maybe_alerts: Sequence[str] = ()  # it depends on how fast everything is
    doctor: Sequence[str] = ()  # one for each problem
    maybe_doctor: Sequence[str] = ()
    doctor_after: Sequence[str] = ()
    log: Sequence[str] = ()  # of each at least one line
    maybe_log: bool = False  # there may be other lines only


class Said(NamedTuple):
    ready: str
    writes: str
    alerts: Sequence[str]
    doctor: Sequence[str]
    log: Sequence[str]  # distinct lines, each with its number
    log_lines: int


class Watch:
    """Asks the probes of all replicas and the alerts until the end of the block."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._prometheus = Prometheus(stage.folder, *(each.operations_port for each in stage.replicas))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._fired: set[str] = set()
        self._probes: dict[str, dict[Replica, str]] = {"/readyz": {}, "/writez": {}}

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(60)
        self._prometheus.stop()

    def _run(self) -> None:
        while not self._over.wait(_SAMPLE_SECONDS):
            self._fired |= self._firing()
            for path, answers in self._probes.items():
                for replica in self._stage.replicas:
                    answers[replica] = _probe(replica.operations_port, path)

    def _firing(self) -> set[str]:
        return {name for name, state in self._prometheus.alerts().items() if state == "firing"}

    def begin(self) -> None:
        """Wait until no alert fires any more, unless the machine is too busy, and forget what was before."""
        deadline = time.monotonic() + _LONGEST_BEGINNING
        while time.monotonic() < deadline and (self._firing() - _TOLERATED or not self._prometheus.is_scraping):
            time.sleep(_SAMPLE_SECONDS)
        self._fired.clear()
        self._log_before = [len(each) for each in self._logs()]

    def _logs(self) -> list[str]:
        return self._stage.logs

    def said(self, doctor: Sequence[str]) -> Said:
        lines = self._log_lines()
        return Said(
            shorten(max(self._probes["/readyz"].values()), self._stage),
            shorten(max(self._probes["/writez"].values()), self._stage),
            sorted(self._fired),
            doctor,
            [f"{text} (× {number})" if number > 1 else text for text, number in Counter(lines).items()],
            len(lines),
        )

    def _log_lines(self) -> list[str]:
        texts = [log[start:] for log, start in zip(self._logs(), self._log_before, strict=True)]
        lines = [line for text in (*texts, *self._stage.refusals) for line in text.splitlines() if line]
        return [shorten(_words(line), self._stage) for line in lines if _is_remarkable(line)]


def _probe(port: int, path: str) -> str:
    try:
        answer = ask(port, "GET", path, timeout=3)
    except (OSError, HTTPException):
        return "999 no response"
    return f"{answer.status} {answer.body.decode().strip()}"


def _is_remarkable(line: str) -> bool:
    """Neither a usual line nor half of one, as a full disk leaves it."""
    return not line.startswith("{") or (line.endswith("}") and json.loads(line)["level"] not in ("debug", "info"))


def _words(line: str) -> str:
    """A line of the log without what tells one request from another."""
    try:
        fields = json.loads(line)
    except ValueError:
        return line
    for name in ("time", "request_id", "pid", "duration_ms", "trace_id"):
        fields.pop(name, None)
    level, event = fields.pop("level", ""), fields.pop("event", "")
    return f"{level}: {event} {' '.join(f'{name}={value}' for name, value in fields.items())}".strip()


def shorten(text: str, stage: Stage) -> str:
    """Without places of this machine and numbers of this run."""
    text = text.replace(str(stage.folder), "…")
    text = re.sub(r"127\.0\.0\.1:\d+", "HOST:PORT", text)
    return re.sub(r"\b\d{5,}\b", "N", text)


def doctor(stage: Stage) -> list[str]:
    """Every problem that it reports."""
    done = subprocess.run(
        [*COMMAND, "doctor", "--json"],
        env=stage.examined,
        capture_output=True,
        text=True,
        timeout=_LONGEST_DOCTOR,
        check=False,
    )
    try:
        findings = json.loads(done.stdout)
    except ValueError:
        return [f"no JSON, exit {done.returncode}: {done.stderr[-300:]}"]
    problems = [each for each in findings if each["result"] != "ok"]
    return [shorten(f"{each['result']} {each['subject']}: {each['remark']}", stage) for each in problems]


def doctor_afterwards(stage: Stage, expected: Expected) -> list[str]:
    """When it is content, or has had the time: a worker may still wait for its next attempt."""
    deadline = time.monotonic() + _LONGEST_BEGINNING
    while list(_unlike("", found := doctor(stage), expected.doctor_after)) and time.monotonic() < deadline:
        pass
    return found


def differences(said: Said, after: Sequence[str], expected: Expected) -> Iterator[str]:
    for name, found, pattern in (("readyz", said.ready, expected.ready), ("writez", said.writes, expected.writes)):
        if not re.match(pattern, found):
            yield f"/{name}: {found}"
    if said.log_lines > _MOST_LINES:
        yield f"{said.log_lines} lines in the log"
    if missing := [each for each in expected.alerts if not any(re.fullmatch(each, name) for name in said.alerts)]:
        yield f"no alert {', '.join(sorted(missing))}"
    known = "|".join((*expected.alerts, *expected.maybe_alerts, *_TOLERATED))
    if other := [each for each in said.alerts if not re.fullmatch(known, each)]:
        yield f"alert {', '.join(sorted(other))}"
    yield from _unlike("doctor", said.doctor, expected.doctor, expected.maybe_doctor)
    yield from _unlike("doctor afterwards", after, expected.doctor_after)
    for pattern in expected.log:
        if not any(re.search(pattern, line) for line in said.log):
            yield f"the log does not say: {pattern}"
    if said.log and not expected.log and not expected.maybe_log:
        yield f"the log says: {said.log[0]}"


def _unlike(who: str, found: Sequence[str], patterns: Sequence[str], maybe: Sequence[str] = ()) -> Iterator[str]:
    for each in found:
        if not any(re.search(pattern, each) for pattern in (*patterns, *maybe)):
            yield f"{who}: {each}"
    for pattern in patterns:
        if not any(re.search(pattern, each) for each in found):
            yield f"{who} does not say: {pattern}"
