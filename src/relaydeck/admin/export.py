"""`GET /admin/v1/export` returns the stored records as an apply document."""

from relaydeck.admin.bodies import ExportedFile
from relaydeck.admin.operation import Content, Operations, Request, encoded
from relaydeck.admin.store_thread import StoreThread
from relaydeck.errors import Damaged, NotPossible
from relaydeck.provisioning.export import export_pieces
from relaydeck.store.open_store import Store


class ExportOperation:
    def __init__(self, reads: StoreThread) -> None:
        self._reads = reads

    def operations(self) -> Operations:
        return {"export": {"GET": self.export}}

    async def export(self, _request: Request) -> Content:
        return await self._reads.run(_exported)


def _exported(store: Store) -> Content:
    try:
        return Content(encoded(ExportedFile("".join(export_pieces(store)))))
    except Damaged as damage:
        raise NotPossible(f"{damage}; the export would not be complete") from None
