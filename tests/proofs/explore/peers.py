"""What the service talks to while it is explored: a real node, and a receiver that records what arrives."""

import json
from typing import NamedTuple

from tests.proofs.explore.operations import LIVE_DOCUMENT
from tests.support.verifying import KEY, VerifyingReceiver


class Peers(NamedTuple):
    node: str
    receiver: VerifyingReceiver

    @property
    def document(self) -> str:
        # By name: an attempt looks it up first.
        hook = self.receiver.url.replace("127.0.0.1", "localhost")
        return LIVE_DOCUMENT.format(node=self.node, hook=hook, key=KEY)

    def forget(self) -> None:
        while not self.receiver.posted.empty():
            self.receiver.posted.get()

    def sequences(self) -> list[int]:
        """Of the events that arrived since `forget`, in order. Signatures are not checked: a clock may be wrong."""
        arrived = [self.receiver.posted.get() for _ in range(self.receiver.posted.qsize())]
        return [json.loads(each.body)["sequence"] for each in arrived]
