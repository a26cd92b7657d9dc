"""Networks, signers, notifications and relayers: list, read, create, change and delete."""

from relaydeck.admin import queries, record_commands
from relaydeck.admin.collections import COLLECTIONS
from relaydeck.admin.lists import Lists
from relaydeck.admin.operation import (
    Change,
    Content,
    Operation,
    Operations,
    RepeatableChange,
    Request,
    record_content,
)
from relaydeck.admin.relayer_addresses import RelayerAddresses
from relaydeck.admin.store_thread import StoreThread
from relaydeck.provisioning.declared_records import RESOURCES, Resource
from relaydeck.provisioning.url_rules import UrlRules
from relaydeck.store.change_context import ChangeContext


class ResourceOperations:
    def __init__(self, reads: StoreThread, lists: Lists, addresses: RelayerAddresses, urls: UrlRules) -> None:
        self._reads = reads
        self._lists = lists
        self._addresses = addresses
        self._urls = urls

    def operations(self) -> Operations:
        found: Operations = {}
        for resource in RESOURCES:
            found[resource] = {"GET": self._listing(resource)}
            found[f"{resource}/{{id}}"] = {"GET": self._finding(resource), "DELETE": self._deleting(resource)}
            if resource != "signers":  # a key is never changed in place, and its config depends on its type
                found[resource]["POST"] = self._creating(resource)
                found[f"{resource}/{{id}}"]["PATCH"] = self._patching(resource)
        return found

    def _listing(self, resource: Resource) -> Operation:
        async def list_page(request: Request) -> Content:
            return await self._lists.list_page(request, COLLECTIONS[resource])

        return list_page

    def _finding(self, resource: Resource) -> Operation:
        async def find(request: Request) -> Content:
            name, collection = request.identifier, COLLECTIONS[resource]
            view = await self._reads.run(lambda store: queries.find(store.database.read, store.vault, collection, name))
            return record_content(view)

        return find

    def _creating(self, resource: Resource) -> Operation:
        async def create(request: Request) -> RepeatableChange:
            document = request.read_document()
            addresses = await self._addresses.for_new(document) if resource == "relayers" else None

            def work(context: ChangeContext) -> Content:
                created = record_commands.create(context, resource, document, addresses=addresses, urls=self._urls)
                return record_content(created, 201)

            return RepeatableChange(f"{resource}.create", work)

        return create

    def _patching(self, resource: Resource) -> Operation:
        async def patch(request: Request) -> Change:
            name, change, if_match = request.identifier, request.read_document(), request.if_match
            addresses = await self._addresses.for_change(name, change) if resource == "relayers" else None

            def work(context: ChangeContext) -> Content:
                changed = record_commands.patch(
                    context, resource, name, change, if_match, addresses=addresses, urls=self._urls
                )
                return record_content(changed)

            return work

        return patch

    def _deleting(self, resource: Resource) -> Operation:
        async def delete(request: Request) -> Change:
            name, if_match = request.identifier, request.if_match
            request.refuse_content()

            def work(context: ChangeContext) -> Content:
                record_commands.delete(context, resource, name, if_match)
                return Content(None)

            return work

        return delete
