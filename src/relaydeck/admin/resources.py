"""Networks, signers, notifications and relayers: list, read, create, change, delete, pause, resume, test."""

import msgspec

from relaydeck.admin import commands, queries
from relaydeck.admin.commands import COLLECTIONS, NewSignerDocument, Result, result
from relaydeck.admin.queries import Collection
from relaydeck.admin.read_pool import ReadPool
from relaydeck.admin.responses import Writing, answer, document_of, if_match_of, named, page_answer, refuse_content
from relaydeck.admin.routes import Answer, Methods
from relaydeck.errors import BadRequest
from relaydeck.http.decoding import body_decoder, reason_of
from relaydeck.http.paging import read_page
from relaydeck.http.pipeline import Call, Reply
from relaydeck.notifications import notification_changes
from relaydeck.provisioning.declared import Resource
from relaydeck.relayers import relayer_changes
from relaydeck.store.change_context import ChangeContext

_decode_signer = body_decoder(NewSignerDocument)


class Lists:
    """Every list is narrowed by its filters and paged like the described ones."""

    def __init__(self, read_pool: ReadPool, max_per_page: int) -> None:
        self._read_pool = read_pool
        self._max_per_page = max_per_page

    async def give(self, call: Call, collection: Collection) -> Reply:
        page, query = read_page(call.query, self._max_per_page), queries.read_query(call.query)
        if query.get("order", "oldest") not in ("oldest", "newest"):
            raise BadRequest("order must be oldest or newest")
        newest = query.get("order") == "newest"
        found = await self._read_pool.run(
            lambda store: queries.listed(store.database.read, store.vault, collection, query, page, newest=newest)
        )
        return page_answer(found, page)


class ResourceOperations:
    def __init__(self, read_pool: ReadPool, writing: Writing, lists: Lists) -> None:
        self._read_pool = read_pool
        self._writing = writing
        self._lists = lists

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
            return await self._lists.give(call, COLLECTIONS[resource])

        return give

    def _finding(self, resource: Resource) -> Answer:
        async def give(call: Call) -> Reply:
            name, collection = named(call), COLLECTIONS[resource]
            item = await self._read_pool.run(
                lambda store: queries.find(store.database.read, store.vault, collection, name)
            )
            return answer(result(item))

        return give

    def _creating(self, resource: Resource) -> Answer:
        async def create(call: Call) -> Reply:
            document = document_of(call)

            def work(context: ChangeContext) -> Result:
                return result(commands.create(context, resource, document), 201)

            return await self._writing.run_once(call, f"{resource}.create", work)

        return create

    def _patching(self, resource: Resource) -> Answer:
        async def patch(call: Call) -> Reply:
            name, change, if_match = named(call), document_of(call), if_match_of(call)

            def work(context: ChangeContext) -> Result:
                return result(commands.patch(context, resource, name, change, if_match))

            return await self._writing.run(call, work)

        return patch

    def _deleting(self, resource: Resource) -> Answer:
        async def delete(call: Call) -> Reply:
            name, if_match = named(call), if_match_of(call)
            refuse_content(call)

            def work(context: ChangeContext) -> Result:
                commands.delete(context, resource, name, if_match)
                return Result(None)

            return await self._writing.run(call, work)

        return delete

    def _pausing(self, operation: str, *, paused: bool) -> Answer:
        async def pause(call: Call) -> Reply:
            name = named(call)
            refuse_content(call)

            def work(context: ChangeContext) -> Result:
                relayer_changes.set_paused(context, name, paused=paused)
                return result(commands.found(context, "relayers", name))

            return await self._writing.run_once(call, operation, work)

        return pause

    async def create_signer(self, call: Call) -> Reply:
        try:
            new = commands.read_signer(_decode_signer(call.headers, call.body))
        except msgspec.ValidationError as error:
            raise BadRequest(reason_of(error).replace("$", "$.config")) from None

        def work(context: ChangeContext) -> Result:
            return result(commands.create_signer(context, new), 201)

        return await self._writing.run_once(call, "signers.create", work)

    async def test_notification(self, call: Call) -> Reply:
        name = named(call)
        refuse_content(call)

        def work(context: ChangeContext) -> Result:
            return Result(notification_changes.send_test(context, name).shown(), 201)

        return await self._writing.run_once(call, "notifications.test", work)
