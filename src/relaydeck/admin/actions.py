"""Actions on one record: pause or resume a relayer, test a notification."""

from relaydeck.admin.operation import Content, Operation, Operations, RepeatableChange, Request, record_content
from relaydeck.admin.record_commands import read_record
from relaydeck.notifications import notification_changes
from relaydeck.relayers import relayer_changes
from relaydeck.store.change_context import ChangeContext


def action_operations() -> Operations:
    return {
        "notifications/{id}/test": {"POST": _test_notification},
        "relayers/{id}/pause": {"POST": _pausing("relayers.pause", paused=True)},
        "relayers/{id}/resume": {"POST": _pausing("relayers.resume", paused=False)},
    }


async def _test_notification(request: Request) -> RepeatableChange:
    name = request.identifier
    request.refuse_content()

    def work(context: ChangeContext) -> Content:
        return Content(notification_changes.send_test(context, name).shown(), 201)

    return RepeatableChange("notifications.test", work)


def _pausing(operation: str, *, paused: bool) -> Operation:
    async def pause(request: Request) -> RepeatableChange:
        name = request.identifier
        request.refuse_content()

        def work(context: ChangeContext) -> Content:
            changed = relayer_changes.set_paused(context, name, paused=paused)
            content = record_content(read_record(context, "relayers", name))
            return content if changed else content._replace(notes=(*content.notes, _unchanged(paused)))

        return RepeatableChange(operation, work)

    return pause


def _unchanged(paused: bool) -> str:
    return "nothing was changed: the relayer was " + ("already paused" if paused else "not paused")
