"""What the demo did, for people and for programs."""

from decimal import Decimal
from typing import Literal

import msgspec

from relaydeck.cli.output import print_line


class Fee(msgspec.Struct, frozen=True):
    amount: Decimal
    token: str


class Webhook(msgspec.Struct, frozen=True):
    id: str
    type: str
    verified: Literal[True]


class DemoNode(msgspec.Struct, frozen=True):
    kind: Literal["hardhat", "minimal"]
    url: str
    description: str


class Report(msgspec.Struct, frozen=True):
    service: str
    node: DemoNode
    receiver: str
    applied: str
    fee: Fee
    webhook: Webhook


_NEXT = """
Next:

  relaydeck init                   write a commented apply file: your networks, signers, notifications, relayers
  relaydeck serve                  start a service that keeps its data; it prints your first access token
  relaydeck apply relaydeck.toml   create what the file describes (--plan: only show it)
  relaydeck demo --keep            leave all of this running, to look around
"""


def print_steps(report: Report) -> None:
    steps = {
        "service": report.service,
        "node": f"{report.node.url}, {report.node.description}",
        "receiver": f"{report.receiver}, which verifies signatures with relaydeck.client.verify_webhook",
        "apply": report.applied,
        "fee": f"{report.fee.amount:f} {report.fee.token} for a transfer through relayer local-1",
        "webhook": f"{report.webhook.type} {report.webhook.id}, signature verified by the receiver",
    }
    for name, text in steps.items():
        print_line(f"{name:<10}{text}")
    for line in _NEXT.splitlines():
        print_line(line)
