"""The home as commands reach it: the operations of the admin interface in this process, without a running service."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from copy import copy
from functools import cached_property, partial
from typing import Any, Literal, TypeVar, cast
from urllib.parse import quote, urlencode

import click
import msgspec

from relaydeck.admin import api  # noqa: F401  # registers the handlers
from relaydeck.admin.handling import HANDLERS, Content, OwnTransaction, Request
from relaydeck.admin.proposals import make_or_propose
from relaydeck.api.operation import Operation
from relaydeck.api.operations import APPLY, CREATE_TOKEN
from relaydeck.api.records import ApplyRequest, ResolvedReference
from relaydeck.cli.home import (
    actor,
    change_context,
    change_in,
    empty_store,
    existing_store,
    has_data,
    open_or_create,
    refusals_for_operators,
    require_data,
)
from relaydeck.cli.output import print_note, progress_bar
from relaydeck.cli.reply import UNCHANGED, Json, Proposed, Refused, Reply
from relaydeck.doctor import Finding
from relaydeck.doctor.all_checks import examine, findings
from relaydeck.doctor.machine import Machine
from relaydeck.errors import OperatorError
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import fee_options
from relaydeck.http.pipeline import Call
from relaydeck.notifications.webhook_rule import WebhookRule
from relaydeck.provisioning.export import exported
from relaydeck.provisioning.plan import Step
from relaydeck.provisioning.planner import UrlRules
from relaydeck.scope import Scope
from relaydeck.secret import Secret
from relaydeck.settings.model import Settings, read_settings
from relaydeck.signers.drivers.keys import SignerKeys
from relaydeck.store.database import Transaction, without_progress
from relaydeck.store.open_store import Store, open_store
from relaydeck.store.vault import Vault

_MANY_STEPS = 1000  # from which on a progress bar is useful
_PLANNED_FROM_NOTHING = "0-"  # the start of such a revision


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

    progress = staticmethod(_with_progress)  # of an apply

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

    def plan(self, document: Json) -> Json:
        settings = read_settings()
        if has_data(settings):
            return _ApplyHere(document).run(self._store(may_create=False), plan_only=True)
        has_key = settings.master_key_path.exists()
        unpinned = "" if has_key else ", and has no revision before there is a master key"
        print_note(f"note: there is no Relaydeck data at {settings.database}: the plan starts from nothing{unpinned}")
        with empty_store() as store:
            report = _ApplyHere(document).run(store, plan_only=True)
        # Without a key, it was computed with the key of the temporary store.
        return report if has_key else report | {"revision": ""}

    def apply(self, document: Json, *, revision: str, reason: str) -> Json:
        settings = read_settings()
        with refusals_for_operators(UNCHANGED):
            request = _ApplyHere(document, revision, reason)
        if not has_data(settings):
            if revision and not revision.startswith(_PLANNED_FROM_NOTHING):
                require_data(settings)  # the plan was made for another home
            # Planned without the home first, so that nothing that is refused creates one.
            with empty_store() as store:
                planned = request.run(store, plan_only=True)
            if not planned["steps"]:
                return planned | {"applied": True}
        return request.run(self._store(may_create=True))

    def export(self) -> Iterator[str]:
        with existing_store() as store, closing(exported(store)) as pieces:
            yield from pieces

    def findings(self) -> Iterator[Finding]:
        try:
            settings = read_settings()
        except OperatorError as error:
            return iter([Finding("FAIL", "settings", f"{error.problem}; {error.remedy}".rstrip("; "))])
        return findings(settings, Machine(), partial(progress_bar, at_least=_MANY_CHECKS))


class _ApplyHere(Request):
    """With the document as it was read: TOML has values that JSON has not, and a file may be larger than a request."""

    has_stored_answer = False

    def __init__(self, given: Json, revision: str = "", reason: str = "") -> None:
        headers = _JSON | ({b"if-match": revision.encode()} if revision else {})
        query = urlencode({"reason": reason} if reason else {}).encode()
        self._asked = Call("", headers, msgspec.json.encode(given), query, None)  # a proposal keeps the body
        super().__init__(self._asked, APPLY)
        self._given = given
        self._plan_only = False

    def run(self, store: Store, *, plan_only: bool = False) -> Json:
        self._plan_only = plan_only
        (reply,) = asyncio.run(_run_all(APPLY, [self._asked], store, lambda _call, _operation: self))
        if isinstance(reply, Refused):
            raise reply
        found: Json = reply.data
        return found

    def decode_apply(self) -> ApplyRequest:
        # The handler frees the records one by one, and the command may need them again.
        document = {name: copy(records) for name, records in self._given["document"].items()}
        references = tuple(_reference(**each) for each in self._given["references"])
        return ApplyRequest(document, references, self._given["prune"], self._plan_only)


def _reference(kind: Literal["env", "file"], name: str, value: str = "", missing: str = "") -> ResolvedReference:
    return ResolvedReference(kind, name, missing=missing) if missing else ResolvedReference(kind, name, Secret(value))


async def _run_all(
    operation: Operation, calls: list[Call], store: Store, read: Callable[[Call, Operation], Request] = Request
) -> list[Reply | Refused]:
    services = HomeServices(read_settings(), store)

    async def run(call: Call) -> Reply | Refused:
        try:
            with refusals_for_operators(UNCHANGED if operation.is_change else ""):
                return _reply(await _run(operation, call, read(call, operation), services, store))
        except Refused as refusal:
            return refusal

    try:
        return await asyncio.gather(*map(run, calls))
    finally:
        await services.close()


async def _run(operation: Operation, call: Call, request: Request, services: HomeServices, store: Store) -> Content:
    outcome = await HANDLERS[operation.name](services, request)
    if isinstance(outcome, Content):
        return outcome
    change = outcome.change if isinstance(outcome, OwnTransaction) else outcome

    def work(transaction: Transaction, _vault: Vault) -> Any:
        return make_or_propose(change_context(store, transaction), operation, call, change)

    if isinstance(outcome, OwnTransaction):
        made = cast(Content, await outcome.transact(work))
    else:
        with change_in(store) as context:
            made = make_or_propose(context, operation, call, change)
    if made.proposed:
        raise Proposed(made.data)
    return made


def _reply(content: Content) -> Reply:
    data = msgspec.json.decode(msgspec.json.encode(content.data))
    reply, page = Reply(data, content.notes, content.changed), content.pagination
    return reply if page is msgspec.UNSET else reply._replace(total=page.total_items, per_page=page.per_page)
