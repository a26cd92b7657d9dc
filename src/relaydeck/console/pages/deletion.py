"""Deleting a record, confirmed by typing its name."""

from typing import NamedTuple

from relaydeck.console.formats import visible
from relaydeck.console.responses import redirect
from relaydeck.console.services import Pages
from relaydeck.console.visit import Visit
from relaydeck.http.pipeline import Reply


class Deletion(NamedTuple):
    """How the records of a resource are deleted."""

    resource: str
    consequence: str
    typed: str = "id"  # the field that has to be typed

    def pages(self) -> Pages:
        return {f"/{self.resource}/{{id}}/delete": {"GET": self.show, "POST": self.delete}}

    async def show(self, visit: Visit) -> Reply:
        return await self._page(visit)

    async def _page(self, visit: Visit, status: int = 200, problem: str = "") -> Reply:
        found = await visit.admin.read(self.resource, visit.identifier)
        return visit.page(
            "delete.html", status=status, deletion=self, record=found.data, etag=found.etag, problem=problem
        )

    async def delete(self, visit: Visit) -> Reply:
        form, found = visit.form, await visit.admin.read(self.resource, visit.identifier)
        expected: str = found.data[self.typed]
        if form.get("typed") not in (expected, visible(expected)):
            return await self._page(visit, 400, f"Type the {self.typed} exactly as it is shown.")
        await visit.admin.change("DELETE", self.resource, visit.identifier, if_match=form.get("etag", "*"))
        return redirect(f"/{self.resource}?done=deleted")
