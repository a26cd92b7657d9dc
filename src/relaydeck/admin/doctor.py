"""`GET /admin/v1/doctor`: what `relaydeck doctor` finds, from the machine that serves the request."""

from relaydeck.admin.bodies import DoctorFinding
from relaydeck.admin.responses import Content, reply
from relaydeck.admin.routes import Methods
from relaydeck.doctor.finding import Finding
from relaydeck.doctor.shared_run import SharedRun
from relaydeck.http.pipeline import Call, Reply


class DoctorOperation:
    def __init__(self, examination: SharedRun[list[Finding]]) -> None:
        self._examination = examination

    def routes(self) -> dict[str, Methods]:
        return {"doctor": {"GET": self.examine}}

    async def examine(self, call: Call) -> Reply:
        return reply(Content([DoctorFinding(*each) for each in await self._examination.result()]))
