"""`GET /admin/v1/doctor`: what `relaydeck doctor` finds, from the machine that serves the request."""

from relaydeck.admin.bodies import DoctorFinding
from relaydeck.admin.operation import Content, Operations, Request
from relaydeck.doctor.finding import Finding
from relaydeck.doctor.shared_run import SharedRun


class DoctorOperation:
    def __init__(self, examination: SharedRun[list[Finding]]) -> None:
        self._examination = examination

    def operations(self) -> Operations:
        return {"doctor": {"GET": self.examine}}

    async def examine(self, _request: Request) -> Content:
        return Content([DoctorFinding(*each) for each in await self._examination.result()])
