"""The webhook receiver of the demo, which verifies each message as a receiver of yours would."""

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import NamedTuple

from relaydeck.cli.demo.loopback import Handler, serving
from relaydeck.cli.examples import example_text
from relaydeck.client import Event, WebhookError, verify_webhook
from relaydeck.errors import OperatorError

_WAIT_SECONDS = 30.0


class Receiver(NamedTuple):
    url: str
    received: "SimpleQueue[Event | str]"

    def next_event(self) -> Event:
        """The next verified event. Raises OperatorError for a message that fails verification, or for none."""
        try:
            found = self.received.get(timeout=_WAIT_SECONDS)
        except Empty:
            raise OperatorError(f"no webhook arrived at {self.url} within {_WAIT_SECONDS:g} s") from None
        if isinstance(found, str):
            raise OperatorError(f"a webhook failed verification: {found}")
        return found


@contextmanager
def running_receiver() -> Iterator[Receiver]:
    (notification,) = tomllib.loads(example_text("laptop"))["notifications"]
    received: SimpleQueue[Event | str] = SimpleQueue()

    class Receiving(Handler):
        def respond(self, body: bytes) -> tuple[int, bytes]:
            try:
                received.put(verify_webhook(dict(self.headers.items()), body, notification["signing_key"]))
            except WebhookError as error:
                received.put(str(error))
                return 401, b""
            return 200, b""

    with serving(Receiving) as url:
        yield Receiver(url, received)
