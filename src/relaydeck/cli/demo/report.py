"""What the demo did, for people."""

from relaydeck.cli.json_shapes import Demo
from relaydeck.cli.output import print_line

_NEXT = """
Next:

  relaydeck init                   write a commented apply file: your networks, signers, notifications, relayers
  relaydeck serve                  start a service that keeps its data; it prints your first access token
  relaydeck apply relaydeck.toml   create what the file describes (--plan: only show it)
  relaydeck demo --keep            leave all of this running, to look around
"""


def print_steps(report: Demo) -> None:
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
