"""The steps of the demo, over the same HTTP interface that a program of yours would use."""

from typing import Literal, cast

from relaydeck.cli.demo.node import Node
from relaydeck.cli.demo.receiver import Receiver
from relaydeck.cli.demo.service import DemoService
from relaydeck.cli.examples import example_text
from relaydeck.cli.json_shapes import Demo, DemoFee, DemoNode, DemoWebhook
from relaydeck.client import Client, ClientError
from relaydeck.errors import OperatorError

_NODE, _RECEIVER = "http://127.0.0.1:8545", "http://127.0.0.1:9000"  # in the example
_RELAYER, _NETWORK, _COIN = "local-1", "local", "ETH"
# A transfer of 0.001 ETH on chain 31337 by EIP-1559, unsigned.
_TRANSFER = "0x02f0827a6980843b9aca0084773594008252089470997970c51812dc3a010c7d01b50e0d17dc79c887038d7ea4c6800080c0"


def tell(service: DemoService, node: Node, receiver: Receiver) -> Demo:
    example = example_text("laptop").replace(_NODE, node.url).replace(_RECEIVER, receiver.url)
    applied = service.command("apply", "-", content=example)
    try:
        with Client(service.url, service.token_file.read_text("ascii")) as client:
            fee, webhook = _fee(client), _webhook(client, receiver)
    except ClientError as error:
        raise OperatorError(f"the service refused a step of the demo: {error}") from None
    shown = DemoNode(cast(Literal["hardhat", "minimal"], node.kind), node.url, node.remark)
    return Demo(service.url, shown, receiver.url, applied, fee, webhook)


def _fee(client: Client) -> DemoFee:
    found = client.fee_estimate(_RELAYER, transaction=_TRANSFER, network=_NETWORK, fee_token=_COIN)
    return DemoFee(found.estimated_fee, _COIN)


def _webhook(client: Client, receiver: Receiver) -> DemoWebhook:
    """A pause is an event, which the service sends to the notification of the relayer."""
    client.admin.pause_relayer(_RELAYER)
    event = receiver.next_event()
    client.admin.resume_relayer(_RELAYER)
    return DemoWebhook(event.id, event.type, verified=True)
