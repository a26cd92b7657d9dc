"""Failures of an estimate. Each is one JSON-RPC error: a code, a fixed message, a description.

RpcFailure
├── InvalidParams            -32602  the request is wrong; the description says how
├── InternalFailure          -32603  our configuration is wrong, or the code is
├── NodeUnreachable          -32000  no RPC URL answered in time, or none has a current block
├── ExecutionReverted        -32001  the transaction fails when executed; the description is the reason
├── ReceiverNotWhitelisted   -32002  the relayer's policy refuses the receiver
├── NoFreshRate              -32003  the price of the fee token is not known well enough
├── NodeRefused              -32004  a node answered with an error other than a revert, for example missing funds
└── FeeDataDisputed          -32005  the nodes disagree, or fewer answer than must agree
"""

from typing import ClassVar

from relaydeck.networks.evm.errors import (
    ErrorKind,
    NodeError,
    NodesDisagree,
    NodesUnreachable,
    error_kind,
    reason,
    refusal,
)

NODE_FAILURES = (NodesUnreachable, NodesDisagree, NodeError, TimeoutError)


class RpcFailure(Exception):
    """The description may be shown to the caller: it never contains the secret part of a URL.

    The documentation says of each what its docstring says.
    """

    code: ClassVar[int]
    message: ClassVar[str]
    outcome: ClassVar[str]  # for the metrics; `failed`: neither the request nor the transaction is at fault

    def __init_subclass__(cls, *, code: int, message: str, outcome: str = "refused") -> None:
        cls.code, cls.message, cls.outcome = code, message, outcome

    def __init__(self, description: str) -> None:
        super().__init__(description)
        self.description = description


class InvalidParams(RpcFailure, code=-32602, message="Invalid params"):
    """The params do not fit the method; `description` says where."""


class InternalFailure(RpcFailure, code=-32603, message="Internal error", outcome="failed"):
    """The service itself failed."""


class NodeUnreachable(RpcFailure, code=-32000, message="Node unreachable", outcome="failed"):
    """No RPC URL of the relayer or its network answered in time, or none has a current block."""


class ExecutionReverted(RpcFailure, code=-32001, message="Execution reverted"):
    """The transaction would fail when executed; `description` is the reason."""


class ReceiverNotWhitelisted(RpcFailure, code=-32002, message="Receiver not whitelisted"):
    """The relayer's policy does not allow this receiver."""


class NoFreshRate(RpcFailure, code=-32003, message="No fresh rate", outcome="failed"):
    """There is no fresh rate for the fee token."""


class NodeRefused(RpcFailure, code=-32004, message="Node refused"):
    """A node answered with an error other than a revert, for example missing funds."""


class FeeDataDisputed(RpcFailure, code=-32005, message="Nodes disagree", outcome="failed"):
    """The nodes disagree, or fewer answer than the network's `quorum`; `description` lists what each said."""


def as_estimate_failure(failure: Exception) -> RpcFailure:
    """What one of `NODE_FAILURES` means for an estimate."""
    match failure:
        case NodesUnreachable():
            return NodeUnreachable(str(failure))
        case NodesDisagree():
            return FeeDataDisputed(str(failure))
        case NodeError():
            return NodeRefused(refusal(failure))
        case _:
            return NodeUnreachable("no node answered in time")


def as_revert(error: NodeError) -> Exception:
    """For a question that runs the transaction: only there a revert is the transaction's."""
    return ExecutionReverted(reason(error)) if error_kind(error) is ErrorKind.REVERTED else error
