"""The home as commands reach it: the operations of the admin interface in this process, without a running service."""

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property, partial
from typing import Any, TypeVar, cast
from urllib.parse import quote, urlencode

import click
import msgspec

from relaydeck.admin import api  # noqa: F401  # registers the handlers
from relaydeck.admin.apply import apply_report
from relaydeck.admin.handling import HANDLERS, Content, OwnTransaction, Request
from relaydeck.admin.proposals import make_or_propose
from relaydeck.admin.views import json_values
from relaydeck.api.operation import Operation
from relaydeck.api.operations import APPLY, CREATE_TOKEN
from relaydeck.cli.home import (
    actor,
    change_context,
    change_in,
    existing_store,
    has_data,
    open_or_create,
    refusals_for_operators,
    require_data,
    store_for_apply,
)
from relaydeck.cli.output import print_note, progress_bar
from relaydeck.cli.reply import FileToApply, Json, OutdatedPlan, Proposed, Refused, Reply
from relaydeck.doctor import Finding
from relaydeck.doctor.all_checks import examine, findings
from relaydeck.doctor.machine import Machine
from relaydeck.errors import OperatorError, PlanChanged
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import fee_options
from relaydeck.http.pipeline import Call
from relaydeck.notifications.webhook_rule import WebhookRule
from relaydeck.provisioning.apply import UNCHANGED, Apply, FilePlanner
from relaydeck.provisioning.export import exported
from relaydeck.provisioning.file import read_file
from relaydeck.provisioning.mistakes import MistakenFile
from relaydeck.provisioning.plan import Plan, Step
from relaydeck.provisioning.planner import UrlRules
from relaydeck.provisioning.references import Resolver
from relaydeck.scope import Scope
from relaydeck.settings.model import Settings, read_settings
from relaydeck.signers.drivers.keys import SignerKeys
from relaydeck.signers.known_addresses import KnownAddresses, find_addresses
from relaydeck.store.changes import ChangeContext
from relaydeck.store.database import without_progress
from relaydeck.store.open_store import Store, open_store

_MANY_STEPS = 1000  # from which on a progress bar is useful
_PLANNED_FROM_NOTHING = "0-"  # the start of such a revision


def _file_planner(file: FileToApply, prune: bool, remedy: str = "") -> FilePlanner:
    """`remedy` ends the message about a file with mistakes. The file may be a pipe: it is read once."""
    urls = UrlRules(webhooks=WebhookRule(read_settings().webhook_allow))
    declared = read_file(file.content, Resolver(os.environ, file.folder))
    return FilePlanner(declared, prune, urls, partial(MistakenFile, file.name, remedy=remedy))


def _plan(store: Store, planner: FilePlanner, addresses: KnownAddresses, expected: str = "") -> Plan:
    with store.database.snapshot():
        return planner.plan(store.database.read, store.vault, addresses, expected)


async def _find_addresses(store: Store, planner: FilePlanner) -> KnownAddresses:
    """Before any transaction, because a key system may take its time."""
    keys = SignerKeys(read_settings())
    try:
        with store.database.snapshot():
            questions = planner.questions(store.database.read, store.vault, keys.bound_types)
        return await find_addresses(keys, questions, locally=True)
    finally:
        await keys.close()


@contextmanager
def _naming_changes() -> Iterator[None]:
    """A plan that is no longer the reviewed one is refused with what has changed since."""
    try:
        yield
    except PlanChanged as refusal:
        raise OutdatedPlan(refusal.changes, refusal.records) from None


def _with_progress(steps: list[Step]) -> Iterable[Step]:
    with progress_bar("applying", len(steps), at_least=_MANY_STEPS) as advance:
        for step in steps:
            yield step
            advance(1)


Result = TypeVar("Result")
_JSON = {b"content-type": b"application/json"}
_AT_ONCE = 256  # signers that are opened at the same time, however many there are
_MANY_CHECKS = 100_000  # steps of doctor: a second or so


class HomeServices:
    """What handlers use. An operator on the machine may set any URL."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self.local_actor = actor()
        self.settings = settings
        self.keys = SignerKeys(settings)
        # From the settings of the command, which may differ from those of the service: the hint holds for both.
        self.urls = UrlRules(webhooks=WebhookRule(settings.webhook_allow))
        self.scope: Scope | None = None  # except for the change of a proposal whose author has one
        self._store = store

    @cached_property
    def estimator(self) -> Estimator:
        return Estimator(fee_options(self.settings))

    async def read(self, work: Callable[[Store], Result], scope: Scope | None = None) -> Result:
        with self._store.database.snapshot(), self._store.database.within(scope):
            return work(self._store)

    async def examine(self) -> list[Finding]:
        return examine(self.settings, without_progress)

    @property
    def applies(self) -> "HomeServices":
        return self

    run = read  # of `applies`

    async def write(self, work: Callable[[Store], Result]) -> Result:
        return work(self._store)

    def require_answerable(self) -> None:
        """Nothing fails a write of a command from outside."""

    async def close(self) -> None:
        await self.keys.close()
        if "estimator" in self.__dict__:
            await self.estimator.close()


class HomeTarget:
    """The store is opened once for all operations of a command."""

    def call(
        self,
        operation: Operation,
        identifier: str = "",
        *,
        document: Json | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Reply:
        body = b"" if document is None else msgspec.json.encode(document)
        call = Call(quote(identifier, safe=""), _JSON, body, urlencode(query or {}).encode(), None)
        store = self._store(may_create=operation is CREATE_TOKEN)
        (reply,) = asyncio.run(_run_all(operation, [call], store))
        if isinstance(reply, Refused):
            raise reply
        return reply

    def call_many(self, operation: Operation, identifiers: Sequence[str]) -> Iterator[Reply | Refused]:
        store = self._store(may_create=False)
        for start in range(0, len(identifiers), _AT_ONCE):
            some = identifiers[start : start + _AT_ONCE]
            calls = [Call(quote(each, safe=""), _JSON, b"", b"", None) for each in some]
            yield from asyncio.run(_run_all(operation, calls, store))

    def _store(self, *, may_create: bool) -> Store:
        context = click.get_current_context().find_root()
        if (opened := context.meta.get(__name__)) is None:
            settings = read_settings()
            if not may_create:
                require_data(settings)
            opened = context.meta[__name__] = open_or_create(settings) if may_create else open_store(settings)
            context.call_on_close(opened.close)
        return opened

    def plan(self, file: FileToApply, *, prune: bool) -> Json:
        settings = read_settings()
        has_key = settings.master_key_path.exists()
        if not has_data(settings):
            unpinned = "" if has_key else ", and has no revision before there is a master key"
            print_note(
                f"note: there is no Relaydeck data at {settings.database}: the plan starts from nothing{unpinned}"
            )
        with store_for_apply(may_create=False) as store:
            planner = _file_planner(file, prune)
            plan = _plan(store, planner, asyncio.run(_find_addresses(store, planner)))
        if not has_key:
            plan.revision = ""  # computed with the key of the temporary store
        return json_values(apply_report(plan, applied=False))

    def apply(self, file: FileToApply, *, prune: bool, revision: str, reason: str) -> Json:
        settings, planner, addresses = read_settings(), _file_planner(file, prune, UNCHANGED), None
        if not has_data(settings):
            if revision and not revision.startswith(_PLANNED_FROM_NOTHING):
                require_data(settings)  # the plan was made for another home
            # Planned without the home first, so that nothing that is refused creates one.
            with store_for_apply(may_create=False) as store, _naming_changes():
                addresses = asyncio.run(_find_addresses(store, planner))
                plan = _plan(store, planner, addresses, revision)
            if not plan.steps:
                return json_values(apply_report(plan, applied=True))
        with store_for_apply(may_create=True) as store, _naming_changes():
            if store.database.read("SELECT 1 FROM protections LIMIT 1"):
                return _apply_or_propose(store, file, prune, revision, reason)
            known = addresses or asyncio.run(_find_addresses(store, planner))
            plan = Apply(store, planner, known, revision, _with_progress).run_for(actor(), int(time.time()))
        return json_values(apply_report(plan, applied=True))

    def export(self) -> Iterator[str]:
        with existing_store() as store, closing(exported(store)) as pieces:
            yield from pieces

    def findings(self) -> Iterator[Finding]:
        try:
            settings = read_settings()
        except OperatorError as error:
            return iter([Finding("FAIL", "settings", f"{error.problem}; {error.remedy}".rstrip("; "))])
        return findings(settings, Machine(), partial(progress_bar, at_least=_MANY_CHECKS))


def _apply_or_propose(store: Store, file: FileToApply, prune: bool, revision: str, reason: str) -> Json:
    """As a server does it."""
    from relaydeck.cli.server_target import apply_request, apply_words

    headers = _JSON | ({b"if-match": revision.encode()} if revision else {})
    body = msgspec.json.encode(apply_request(file, UNCHANGED, {"prune": prune}))
    call = Call("", headers, body, urlencode({"reason": reason}).encode() if reason else b"", None)
    (reply,) = asyncio.run(_run_all(APPLY, [call], store))
    if isinstance(reply, Refused):
        raise apply_words(reply, file.name, UNCHANGED)
    found: Json = reply.data
    return found


async def _run_all(operation: Operation, calls: list[Call], store: Store) -> list[Reply | Refused]:
    services = HomeServices(read_settings(), store)

    async def run(call: Call) -> Reply | Refused:
        try:
            with refusals_for_operators(UNCHANGED if operation.is_change else ""):
                return _reply(await _run(operation, call, services, store))
        except Refused as refusal:
            return refusal

    try:
        return await asyncio.gather(*map(run, calls))
    finally:
        await services.close()


async def _run(operation: Operation, call: Call, services: HomeServices, store: Store) -> Content:
    outcome = await HANDLERS[operation.name](services, Request(call, operation))
    if isinstance(outcome, Content):
        return outcome
    change = outcome.change if isinstance(outcome, OwnTransaction) else outcome

    def work(context: ChangeContext) -> Any:
        return make_or_propose(context, operation, call, change)

    if isinstance(outcome, OwnTransaction):
        made = cast(Content, await outcome.transact(partial(change_context, store), work))
    else:
        with change_in(store) as context:
            made = work(context)
    if made.proposed:
        raise Proposed(made.data)
    return made


def _reply(content: Content) -> Reply:
    data = msgspec.json.decode(msgspec.json.encode(content.data))
    reply, page = Reply(data, content.notes, content.changed), content.pagination
    return reply if page is msgspec.UNSET else reply._replace(total=page.total_items, per_page=page.per_page)
