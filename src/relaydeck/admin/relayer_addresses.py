"""The addresses that a change of a relayer depends on: drivers are asked before the transaction."""

from collections.abc import Callable

from relaydeck.admin import relayer_questions
from relaydeck.admin.documents import Json
from relaydeck.admin.store_thread import StoreThread
from relaydeck.signers.key_access import KeyAccess
from relaydeck.signers.known_addresses import KnownAddresses, Questions, find_addresses
from relaydeck.store.open_store import Store


class RelayerAddresses:
    def __init__(self, reads: StoreThread, access: KeyAccess) -> None:
        self._reads = reads
        self._access = access

    async def for_new(self, document: Json) -> KnownAddresses:
        bound = self._access.bound_types
        return await self._find(lambda store: relayer_questions.creation_questions(store, document, bound))

    async def for_change(self, name: str, change: Json) -> KnownAddresses:
        bound = self._access.bound_types
        return await self._find(lambda store: relayer_questions.patch_questions(store, name, change, bound))

    async def _find(self, questions: Callable[[Store], Questions]) -> KnownAddresses:
        unknown = KnownAddresses(self._access.bound_types)
        if not unknown.asked_types:
            return unknown
        return await find_addresses(self._access, await self._reads.run(questions))
