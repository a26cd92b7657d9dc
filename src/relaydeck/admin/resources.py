"""Networks, signers, notifications and relayers: list, read, create, change, delete, pause, resume, test."""

from collections.abc import Callable

import msgspec

from relaydeck.admin import commands, queries
from relaydeck.admin.bodies import SignerRequest
from relaydeck.admin.commands import COLLECTIONS
from relaydeck.admin.queries import Collection
from relaydeck.admin.read_pool import ReadPool
from relaydeck.admin.responses import (
    ChangeRunner,
    Content,
    document_of,
    identifier_in_path,
    if_match_of,
    page_reply,
    record_content,
    refuse_content,
    reply,
)
from relaydeck.admin.routes import Answer, Methods
from relaydeck.errors import BadRequest
from relaydeck.http.decoding import body_decoder, reason_of
from relaydeck.http.paging import read_page
from relaydeck.http.pipeline import Call, Reply
from relaydeck.notifications import notification_changes
from relaydeck.provisioning.declared_records import Resource
from relaydeck.relayers import relayer_changes
from relaydeck.signers.key_access import KeyAccess
from relaydeck.signers.known_addresses import KnownAddresses, Questions, find_addresses
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.open_store import Store

UNCHANGED = "nothing was changed: the relayer was "
_decode_signer = body_decoder(SignerRequest)


class Lists:
    """Replies to list requests: filters, order and pages are the same for every collection."""

    def __init__(self, read_pool: ReadPool, max_per_page: int) -> None:
        self._read_pool = read_pool
        self._max_per_page = max_per_page

    async def reply_page(self, call: Call, collection: Collection) -> Reply:
        page, query = read_page(call.query, self._max_per_page), queries.read_query(call.query)
        if query.get("order", "oldest") not in ("oldest", "newest"):
            raise BadRequest("order must be oldest or newest")
        newest = query.get("order") == "newest"
        found = await self._read_pool.run(
            lambda store: queries.list_page(store.database.read, store.vault, collection, query, page, newest=newest)
        )
        return page_reply(found, page)


class ResourceOperations:
    def __init__(self, read_pool: ReadPool, changes: ChangeRunner, lists: Lists, access: KeyAccess) -> None:
        self._read_pool = read_pool
        self._changes = changes
        self._lists = lists
        self._access = access

    def routes(self) -> dict[str, Methods]:
        found: dict[str, Methods] = {
            "notifications/{id}/test": {"POST": self.test_notification},
            "relayers/{id}/pause": {"POST": self._pausing("relayers.pause", paused=True)},
            "relayers/{id}/resume": {"POST": self._pausing("relayers.resume", paused=False)},
        }
        for resource in COLLECTIONS:
            found[resource] = {"GET": self._listing(resource), "POST": self._creating(resource)}
            found[f"{resource}/{{id}}"] = {"GET": self._finding(resource), "DELETE": self._deleting(resource)}
            if resource != "signers":  # a key is never changed in place
                found[f"{resource}/{{id}}"]["PATCH"] = self._patching(resource)
        found["signers"]["POST"] = self.create_signer
        return found

    def _listing(self, resource: Resource) -> Answer:
        async def give(call: Call) -> Reply:
            return await self._lists.reply_page(call, COLLECTIONS[resource])

        return give

    def _finding(self, resource: Resource) -> Answer:
        async def give(call: Call) -> Reply:
            name, collection = identifier_in_path(call), COLLECTIONS[resource]
            view = await self._read_pool.run(
                lambda store: queries.find(store.database.read, store.vault, collection, name)
            )
            return reply(record_content(view))

        return give

    def _creating(self, resource: Resource) -> Answer:
        async def create(call: Call) -> Reply:
            document = document_of(call)
            addresses = await self._known_addresses(
                resource, lambda store: commands.creation_questions(store, document, self._access.bound_types)
            )

            def work(context: ChangeContext) -> Content:
                return record_content(commands.create(context, resource, document, addresses=addresses), 201)

            return await self._changes.run_once(call, f"{resource}.create", work)

        return create

    def _patching(self, resource: Resource) -> Answer:
        async def patch(call: Call) -> Reply:
            name, change, if_match = identifier_in_path(call), document_of(call), if_match_of(call)
            addresses = await self._known_addresses(
                resource, lambda store: commands.patch_questions(store, name, change, self._access.bound_types)
            )

            def work(context: ChangeContext) -> Content:
                return record_content(commands.patch(context, resource, name, change, if_match, addresses=addresses))

            return await self._changes.run(call, work)

        return patch

    async def _known_addresses(self, resource: Resource, questions: Callable[[Store], Questions]) -> KnownAddresses:
        """Ask drivers, before the transaction, for what a change of a relayer depends on."""
        unknown = KnownAddresses(self._access.bound_types)
        if resource != "relayers" or not unknown.asked_types:
            return unknown
        return await find_addresses(self._access, await self._read_pool.run(questions))

    def _deleting(self, resource: Resource) -> Answer:
        async def delete(call: Call) -> Reply:
            name, if_match = identifier_in_path(call), if_match_of(call)
            refuse_content(call)

            def work(context: ChangeContext) -> Content:
                commands.delete(context, resource, name, if_match)
                return Content(None)

            return await self._changes.run(call, work)

        return delete

    def _pausing(self, operation: str, *, paused: bool) -> Answer:
        async def pause(call: Call) -> Reply:
            name = identifier_in_path(call)
            refuse_content(call)

            def work(context: ChangeContext) -> Content:
                changed = relayer_changes.set_paused(context, name, paused=paused)
                content = record_content(commands.read_record(context, "relayers", name))
                return content if changed else content._replace(notes=(*content.notes, _unchanged(paused)))

            return await self._changes.run_once(call, operation, work)

        return pause

    async def create_signer(self, call: Call) -> Reply:
        try:
            new = commands.read_signer(_decode_signer(call.headers, call.body))
        except msgspec.ValidationError as error:
            raise BadRequest(reason_of(error).replace("$", "$.config")) from None

        def work(context: ChangeContext) -> Content:
            return record_content(commands.create_signer(context, new), 201)

        return await self._changes.run_once(call, "signers.create", work)

    async def test_notification(self, call: Call) -> Reply:
        name = identifier_in_path(call)
        refuse_content(call)

        def work(context: ChangeContext) -> Content:
            return Content(notification_changes.send_test(context, name).shown(), 201)

        return await self._changes.run_once(call, "notifications.test", work)


def _unchanged(paused: bool) -> str:
    return UNCHANGED + ("already paused" if paused else "not paused")
