"""Leak hunt: what a scoped credential sees of ten teams is, byte for byte, what it sees where the other nine are not.

Random requests go to a worker of each of two homes: the whole fleet, and a copy in which what is outside of the scope
does not exist. Changes are made in both, so that the two stay alike; meanwhile the other teams change their records.
The two are compared by each status, header and body; by the calls that a list takes, instead of a clock; and at the end
by what both have logged and counted, and by the audit entries, events and deliveries that the requests left. What the
credential only uses is then as it was, and identifiers that another team had are used again.
RELAYDECK_SCOPE_REQUESTS says how many there are, RELAYDECK_SCOPE_SEED repeats a run.
"""

import asyncio
import json
import os
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import pytest

from relaydeck.api.list_filters import Parameter
from relaydeck.api.operation import CONTRACT_OPERATIONS, Operation
from relaydeck.api.operations import BY_NAME, OPERATIONS
from relaydeck.contract.operations import Pages
from relaydeck.credentials.grants import Grant
from relaydeck.http.metric_counts import Metrics, allocate
from relaydeck.log import Log
from relaydeck.notifications import events
from relaydeck.notifications.model import EventKind
from relaydeck.relayers import relayer_changes
from relaydeck.roles import Role
from relaydeck.scope import Scope
from relaydeck.settings.model import read_settings
from relaydeck.store.open_store import Store
from relaydeck.worker.worker import Worker
from tests.support.places import ENGINES, choose, place_of, setting_of
from tests.support.postgres import PostgresServer
from tests.support.scoped_fleet import (
    FORMER,
    KEY,
    RELAYERS,
    SCOPES,
    SHARED,
    TEAMS,
    changing,
    copy_of,
    make_fleet,
    remove_outside,
)
from tests.support.seeding import issue, opened

pytestmark = [pytest.mark.prove, pytest.mark.parallel]

REQUESTS = int(os.environ.get("RELAYDECK_SCOPE_REQUESTS", "3000"))
SEED = int(os.environ.get("RELAYDECK_SCOPE_SEED", "0")) or random.SystemRandom().randrange(1, 10**9)
EVERY = (*CONTRACT_OPERATIONS, *OPERATIONS)
LISTS = [each for each in CONTRACT_OPERATIONS if each.method == "GET"]
CHANGES_OF_OTHERS = 20  # requests between them
JSON = ((b"content-type", b"application/json"),)
NEW = [f"new-{number}" for number in range(1, 6)]
ROLES = (Role.API, Role.READONLY, Role.VIEWER, Role.OPERATOR, Role.EDITOR)
OFTEN = (*ROLES, Role.VIEWER, Role.OPERATOR, *[Role.EDITOR] * 3)
NAMES = {
    "networks": [f"net-{team}" for team in TEAMS] + [SHARED],
    "signers": [f"sign-{team}" for team in (*TEAMS, SHARED)],
    "notifications": [f"hook-{team}" for team in (*TEAMS, SHARED)],
    "relayers": list(RELAYERS),
}
PROPOSALS = [f"of {team}" for team in TEAMS]  # each of another author
ALWAYS_MINE = ("net-a", "sign-a", "hook-a", "a-1", "a-4")  # in each scope
MINE = ("net-a", "sign-a", "hook-a", *(f"a-{number}" for number in range(1, 5)))


class QuietWorker(Worker):
    """Attempts no deliveries, whose outcome would depend on the moment."""

    _make_dispatcher = Worker._make_monitor  # type: ignore[assignment]  # which is off


class Answer(NamedTuple):
    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


class Sent(NamedTuple):
    operation: Operation
    role: Role
    name: str
    query: str
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...]

    @property
    def name_of_work(self) -> str:
        return "plan" if b'"plan_only": true' in self.body else self.operation.name

    @property
    def path(self) -> str:
        argument = quote(self.name, safe="")
        return "/".join(argument if part.startswith("{") else part for part in self.operation.whole_path.split("/"))


class Side:
    """A worker of one of the two homes, and what it has said so far."""

    def __init__(self, home: Path, tokens: dict[Role, str], began: datetime) -> None:
        self._tokens, self._revision, self._began = tokens, b"0", began.strftime("%Y-%m-%dT%H:%M:%S")
        self._known: dict[str, str] = {}
        self._log = (home / "log-of-the-hunt").open("wb")
        metrics = home / "metrics-of-the-hunt"
        allocate(metrics, 1)
        self._counts = Metrics(metrics)
        self._counts.claim_row()
        fixed = {"HOME": str(home), "MONITOR_INTERVAL_SECONDS": "0", "RATE_LIMIT_PER_SECOND": "0"}
        fixed |= {"SIGNER_CHECK_SECONDS": "0", "RPC_GUARD": "off"}
        settings = read_settings({f"RELAYDECK_{name}": value for name, value in fixed.items()} | setting_of(home))
        self._worker = QuietWorker(settings, Log(as_json=True, descriptor=self._log.fileno()), self._counts)

    async def ask(self, sent: Sent) -> Answer:
        headers = [
            (b"authorization", f"Bearer {self._tokens[sent.role]}".encode()),
            (b"x-request-id", b"hunt"),
            (b"relaydeck-min-revision", self._revision),
            *sent.headers,
            *([(b"content-length", b"%d" % len(sent.body))] if sent.body else []),
        ]
        scope: dict[str, Any] = {"type": "http", "method": sent.operation.method, "path": sent.path}
        scope |= {
            "raw_path": sent.path.encode(),
            "query_string": sent.query.encode(),
            "headers": headers,
            "scheme": "http",
            "client": ("127.0.0.1", 1),
        }
        messages: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": sent.body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            messages.append(message)

        await self._worker.pipeline(scope, receive, send)
        answer = Answer(
            messages[0]["status"],
            tuple(
                sorted(each for each in messages[0]["headers"] if each[0] != b"relaydeck-stale")
            ),  # of a busy machine
            b"".join(each.get("body", b"") for each in messages[1:]),
        )
        self._revision = dict(answer.headers).get(b"relaydeck-revision", self._revision)
        return answer

    async def work_of(self, sent: Sent) -> Counter[str]:
        """The calls of our functions that composing a page takes."""
        calls, composing = Counter[str](), False

        def count(frame: FrameType, event: str, _value: object) -> None:
            nonlocal composing
            if frame.f_code is Pages.scoped_page.__code__ and event in ("call", "return"):
                composing = event == "call"
            if composing and event == "call" and frame.f_code.co_qualname.startswith(_COMPOSING):
                calls[frame.f_code.co_qualname] += 1

        sys.setprofile(count)
        try:
            await self.ask(sent)
        finally:
            sys.setprofile(None)
        return calls

    def comparable(self, answer: Answer) -> str:
        return self._compared(f"{answer.status} {answer.headers} {answer.body.decode()}")

    def _compared(self, text: str) -> str:
        """With what is new to both sides by the order in which it came."""
        return _UNIQUE.sub(self._numbered, text)

    def left(self, store: Store, began: dict[str, int], scope: Scope) -> list[str]:
        """What the requests left: what was counted and logged, audit entries of their own, and events inside."""
        lines = [each for each in self._counts.exposition().splitlines() if _COUNTED.match(each)]
        logged = [json.loads(each) for each in Path(self._log.name).read_text().splitlines()]
        # Others are about how long a busy machine takes to write.
        lines += [json.dumps(each | dict.fromkeys(_TIMES)) for each in logged if each["event"] == "request"]
        read = store.database.read
        rows = read(_ENTRIES, {"seq": began["audit"]})
        with store.database.within(scope):
            rows += [row for each in (_EVENTS, _DELIVERIES) for row in read(each, {"seq": began["events"]})]
        return [self._compared(each) for each in (*lines, *(repr(tuple(row)) for row in rows))]

    def _numbered(self, found: re.Match[str]) -> str:
        value = found[0]
        if found["moment"]:
            return value if value[: len(self._began)] < self._began else "now"
        if found["took"]:
            return "a time"
        return self._known.setdefault(value, f"{found.lastgroup} {len(self._known)}")

    async def close(self) -> None:
        await self._worker.stop()
        self._log.close()


# Not what follows changes, whose moment is another on each side.
_COMPOSING = ("encode_page", "ListingPart.", "Listing.fill", "Listing.items", "Inside.numbers")
_COUNTED = re.compile(r"relaydeck_(?!writes_)\w+(_total|_seconds_count)\b")  # a busy machine fails some writes
_TIMES = ("time", "duration_us")
_ENTRIES = (
    "SELECT actor, action, record, before_change, after_change, origin FROM audit WHERE seq > :seq"
    " AND actor <> 'token:b' ORDER BY seq"  # that of the others
)
_EVENTS = "SELECT id, kind, relayer_id, notification_id, data FROM events WHERE seq > :seq ORDER BY seq"
_DELIVERIES = "SELECT notification_id, relayer_id, state, tries FROM deliveries WHERE seq > :seq ORDER BY seq"
_UNIQUE = re.compile(
    r"(?P<moment>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)"
    r"|(?P<took>\"(?:milliseconds|duration_ms)\":\d+)"
    r"|(?P<hash>[0-9a-f]{64})"
    r"|(?P<etag>\"[0-9a-f]{32}\")"
    r"|(?P<identifier>[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12})"
    r"|(?P<revision>(?<=b'relaydeck-revision', b')\d+)"
)


# -- requests -------------------------------------------------------------------------------------


class Requests:
    def __init__(self, draw: random.Random, event_ids: list[str]) -> None:
        self._draw, self._choice, self._event_ids = draw, draw.choice, event_ids
        self.problems = ["nobody"]

    def of_former(self) -> Iterator[Sent]:
        """Create records with identifiers that another team had, and read what is known of them."""
        for name in FORMER:
            for resource in NAMES:
                create = BY_NAME[f"create_{resource[:-1]}"]
                document = self._document(create, resource, name) | {"labels": {}}
                document |= {"name": name} if resource == "networks" else {"id": name}
                if resource == "relayers":
                    document |= {"network": "net-a", "signer_id": "sign-a", "notification_id": "hook-a"}
                yield Sent(create, Role.EDITOR, "", "", json.dumps(document).encode(), JSON)
            for operation, filtered in (("audit", "record"), ("events", "relayer_id"), ("deliveries", "relayer_id")):
                yield Sent(BY_NAME[f"list_{operation}"], Role.EDITOR, "", f"{filtered}={name}", b"", ())

    def next(self) -> Sent:
        operation = self._choice(EVERY) if self._draw.random() < 0.8 else self._choice(CONTRACT_OPERATIONS)
        if operation is BY_NAME["explain_estimate"]:  # asks nodes: what they say depends on the moment
            operation = BY_NAME["list_relayers"]
        role = Role.EDITOR if operation.is_change and self._draw.random() < 0.8 else self._choice(OFTEN)
        name = self._name(operation)
        body = self._body(operation, name)
        headers: tuple[tuple[bytes, bytes], ...] = JSON if body else ()
        if operation.conditional and self._draw.random() < 0.2:
            headers += ((b"if-match", self._choice((b"*", b'"other"'))),)
        if operation.is_repeatable and self._draw.random() < 0.2:
            headers += ((b"idempotency-key", b"%d" % self._draw.randrange(1000)),)
        return Sent(operation, role, name, urlencode(self._query(operation)), body, headers)

    def _name(self, operation: Operation) -> str:
        resource = operation.path.partition("/")[0]
        if resource in ("deliveries", "events", "problems"):
            return self._choice(self.problems if resource == "problems" else self._event_ids)
        names = [*(PROPOSALS if resource == "proposals" else NAMES.get(resource, ("nobody",))), *NEW]
        # What others use is not deleted: see docs/open-items.md. A check of it may have news for others, with entries
        # of their own.
        if operation.method == "DELETE" or operation.name == "check_signer":
            names = [each for each in names if SHARED not in each]
        if operation.method == "DELETE":  # few of what is inside, which cannot always be made again
            names = [each for each in names if each not in MINE or each == "a-2"]
        mine = [each for each in names if each in MINE]
        return self._choice((self._choice(mine or names), self._choice(names), self._choice([*NEW, "nobody"])))

    def _query(self, operation: Operation) -> dict[str, str]:
        if operation.name == "explain_relayer":
            return {"probe": "false"}
        query = {each.name: self._value(each) for each in operation.query if self._draw.random() < 0.3}
        if operation.name == "get_relayer_balances":  # which otherwise ends now
            query |= {"from": "2026-09-21T00:00:00Z", "to": "2026-09-22T00:00:00Z"}
        if operation.name in ("get_relayer_runway", "list_runways"):
            query.pop("days", None)
        if operation.root != BY_NAME["whoami"].root and not operation.has_identifier:
            query = {"page": self._choice(("0", "1", "2", "x")), "per_page": self._choice(("0", "1", "3", "5000"))}
        return query

    def _value(self, each: Parameter) -> str:
        match each.name:
            case "network" | "signer_id" | "notification_id" | "relayer_id":
                return self._choice([*NAMES[{"network": "networks"}.get(each.name, f"{each.name[:-3]}s")], *FORMER])
            case "record" | "author" | "actor":
                others = ("sign-both", "hook-b", "cli:tester", "token:b", "token:editor", *FORMER)
                return self._choice([*RELAYERS, *others])
            case "label":
                return self._choice(("team=a", "team=b", "team=both", "env=e3"))
            case "name" | "id" | "text":
                return self._choice(("o", "b", "a", "-1"))
            case "action":
                return self._choice(("relayer.paused", "signer.mismatch", "change.proposed", "relayer.updated"))
            case "after" | "before":
                return str(self._draw.randrange(400))
            case "from" | "to":
                return self._choice(("2026-09-21T15:00:00Z", "2026-09-22"))
            case "type":
                return "local"
        if each.choices:
            return self._choice(list(each.choices))
        return self._choice(("1", "2", "3", "100"))

    def _body(self, operation: Operation, name: str) -> bytes:
        if operation.request is None:
            return b""
        return json.dumps(self._document(operation, operation.path.partition("/")[0], name)).encode()

    def _document(self, operation: Operation, resource: str, name: str) -> dict[str, Any]:
        choice, new = self._choice, operation.method == "POST"
        if operation.name == "apply":
            return {"document": self._file(), "plan_only": choice((True, False))}
        if operation.name == "relayer_rpc":
            method = choice(("feeEstimate", "other"))
            return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"transaction": "not one"}}
        labels = choice(
            ({}, {"labels": {"team": "a"}}, {"labels": {"team": "b"}}, {"labels": {"extra": choice("xyz")}})
        )
        if operation in CONTRACT_OPERATIONS:
            labels = {}
        # A name that others use is refused as taken: see docs/open-items.md.
        named = {"name" if resource == "networks" else "id": choice([*NEW, "nobody", "a-2"])} if new else {}
        if operation.name == "acknowledge_problem":
            return {"until": choice(("1h", "30d")), "note": "seen"}
        match resource:
            case "relayers":
                # Those that use the shared signer stay the same: its check is about those that use it now.
                signers = {} if name == "a-4" else {"signer_id": choice(("sign-a", choice(NAMES["signers"][:-1])))}
                references = {"network": choice(("net-a", SHARED, choice(NAMES["networks"]))), **signers}
                references |= {"notification_id": choice(("hook-a", "hook-both", choice(NAMES["notifications"])))}
                if not new:
                    given = choice(({}, {"name": choice("xyz")}, {choice(list(references)): None}))
                    return {name: references.get(name, value) for name, value in given.items()} | labels
                return named | {"name": "New", "network_type": "evm", **references} | labels
            case "networks":
                made = {"network_type": "evm", "chain_id": 1, "native_symbol": "ETH"}
                return named | (made if new else {"native_symbol": choice("XYZ")}) | labels
            case "notifications":
                kind = {"type": "webhook"} if new else {}
                return named | kind | {"url": f"https://{choice('xyz')}.example/"} | labels
            case "signers":
                return named | ({"type": "plain", "config": {"key": KEY}} if new else {}) | labels
        return {}

    def _file(self) -> dict[str, Any]:
        """An apply file of one record. What others have is no part of it: its name is refused as taken."""
        choice = self._choice
        resource = choice(list(NAMES))
        name = choice([*NEW, *(each for each in NAMES[resource] if each in ALWAYS_MINE)])
        record = self._document(BY_NAME[f"create_{resource[:-1]}"], resource, name)
        if resource != "networks":
            return {resource: [record | {"id": name}]}
        record.pop("name", None)
        return {resource: {name: record | {"rpc_urls": [{"url": "https://node.example/"}]}}}


def others_change(store: Store, draw: random.Random, *, for_real: bool) -> None:
    """A change of a record that is outside of each scope. In the copy, an entry and an event about nothing in it."""
    name = draw.choice([each for each in RELAYERS if not each.startswith("a")])
    with changing(store, "token:b") as context:
        transaction = context.transaction
        if for_real:
            (row,) = transaction.all("SELECT paused FROM relayers WHERE id = :id", {"id": name})
            assert relayer_changes.set_paused(context, name, paused=not row.paused)
        else:
            context.performed("token.created", "somebody")
            kind = EventKind.RELAYER_PAUSED
            events.record(transaction, kind, {}, notification_id=None, relayer_id="gone", now=context.now)


# -- the hunt -------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=ENGINES)
def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[Any, Any]]:
    home: Path = tmp_path_factory.mktemp("hunt") / "whole"
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        choose(home, server.url(server.fresh(request.getfixturevalue("migrated"))))
    make_fleet(home)
    granted = {(name, role): Grant(role=role, scope=scope).stored for name, scope in SCOPES.items() for role in ROLES}
    return home, {each: issue(home, " ".join(each), kind) for each, kind in granted.items()}


@pytest.mark.parametrize("limit", SCOPES)
def test_nothing_shows_what_is_outside(
    fleet: tuple[Path, dict[Any, str]], limit: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    home, tokens = fleet
    server = None if isinstance(place_of(home), Path) else request.getfixturevalue("postgres")
    whole, copy = (copy_of(home, tmp_path / name, server) for name in ("whole", "copy"))
    remove_outside(copy, SCOPES[limit])
    mine = {role: tokens[limit, role] for role in ROLES}
    print(f"{limit}: RELAYDECK_SCOPE_SEED={SEED}")
    draw = random.Random(f"{SEED} {limit}")
    found = asyncio.run(_hunt(whole, copy, mine, draw, REQUESTS // len(SCOPES), SCOPES[limit]))
    print(f"{found.total()} answers: {dict(sorted(found.items()))}")
    assert {200, 400, 401, 403, 404} <= {status for status, _ in found}
    assert len({name for status, name in found if status < 300}) > 20
    assert found[HTTPStatus.OK, "the work of list_relayers"] > 0


async def _hunt(
    whole: Path, copy: Path, tokens: dict[Role, str], draw: random.Random, count: int, scope: Scope
) -> Counter[Any]:
    since = datetime.now(UTC)
    sides = [Side(home, tokens, since) for home in (whole, copy)]
    found = Counter[Any]()
    with opened(whole) as everything, opened(copy) as inside:
        stores = (everything, inside)
        event_ids = [row.id for row in everything.database.read("SELECT id FROM events", {})]
        only_used = rows_only_used(everything, scope)
        began = [{table: newest(store, table) for table in ("audit", "events")} for store in stores]
        requests = Requests(draw, event_ids)
        drawn = (requests.next() for _ in range(count))
        for number, sent in enumerate(chain(requests.of_former(), drawn)):
            if number % CHANGES_OF_OTHERS == 0:
                choice = draw.random()
                for store in stores:
                    others_change(store, random.Random(choice), for_real=store is everything)
            answers = [await side.ask(sent) for side in sides]
            asked, expected = [side.comparable(each) for side, each in zip(sides, answers, strict=True)]
            assert asked == expected, (number, sent.operation.name, sent.path, sent.query, sent.role, sent.body)
            found[answers[0].status, sent.name_of_work] += 1
            if sent.operation.name == "list_problems" and answers[1].status == HTTPStatus.OK:
                requests.problems = [*(each["id"] for each in json.loads(answers[1].body)["data"]), "nobody"]
            if sent.operation in LISTS and answers[1].status == HTTPStatus.OK:
                again = sent._replace(query=f"{sent.query}&again={number}")  # ignored, and no page that is kept
                works = [await side.work_of(again) for side in sides]
                assert works[0] == works[1], (number, sent.query)
                found[HTTPStatus.OK, f"the work of {sent.operation.name}"] += works[0]["encode_page"]
        for side in sides:
            await side.close()
        left = [side.left(store, since, scope) for side, store, since in zip(sides, stores, began, strict=True)]
        assert left[0] == left[1]
        assert rows_only_used(everything, scope) == only_used
        found[HTTPStatus.OK, "lines and rows left"] += len(left[0])
    return found


def rows_only_used(store: Store, scope: Scope) -> list[str]:
    """The networks, notifications and signers that are outside, or that the scope shows and may not change."""
    read, mine = store.database.read, ALWAYS_MINE if scope.labels else ()
    rows = [
        row
        for table, identity in (("networks", "name"), ("notifications", "id"), ("signers", "id"))
        for row in read(f"SELECT {identity} AS record, {table}.* FROM {table} ORDER BY seq")
        if row.record in NAMES[table] and row.record not in mine
    ]
    return [repr(tuple(row)) for row in rows]


def newest(store: Store, table: str) -> int:
    found: int = store.database.read(f"SELECT max(seq) AS seq FROM {table}")[0].seq
    return found
