"""Receivers that need attention, as the overview shows them."""

from typing import NamedTuple

from relaydeck.notifications.attempt_errors import describe_error
from relaydeck.notifications.failing_receivers import failing_receivers
from relaydeck.store.database import ReadRows
from relaydeck.timestamps import utc


class ReceiverProblem(NamedTuple):
    """Deliveries to this receiver wait after a failed attempt, the latest of which was at `failed_at`."""

    notification_id: str
    failed_at: str
    cause: str


def read_receiver_problems(read: ReadRows, most: int) -> list[ReceiverProblem]:
    return [
        ReceiverProblem(each.notification_id, utc(each.failed_at / 1000), describe_error(each.status, each.problem))
        for each in failing_receivers(read, most)
    ]
