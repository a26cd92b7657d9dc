"""Failures of nodes, as the failures of an estimate."""

from relaydeck.fees.errors import ExecutionReverted, FeeDataDisputed, NodeRefused, NodeUnreachable, RpcFailure
from relaydeck.networks.evm.errors import ErrorKind, NodeError, NodesDisagree, NodesUnreachable, error_kind
from relaydeck.networks.evm.revert import printable, reason

NODE_FAILURES = (NodesUnreachable, NodesDisagree, NodeError, TimeoutError)


def as_estimate_failure(failure: Exception) -> RpcFailure:
    """What one of `NODE_FAILURES` means for an estimate."""
    match failure:
        case NodesUnreachable():
            return NodeUnreachable(str(failure))
        case NodesDisagree():
            return FeeDataDisputed(str(failure))
        case NodeError():
            return NodeRefused(printable(failure.message) or f"error {failure.code}")
        case _:
            return NodeUnreachable("no node answered in time")


def as_revert(error: NodeError) -> Exception:
    """For a question that runs the transaction: only there a revert is the transaction's."""
    return ExecutionReverted(reason(error)) if error_kind(error) is ErrorKind.REVERTED else error
