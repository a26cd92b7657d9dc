"""Failures of nodes, raised as the failures of an estimate."""

from collections.abc import Iterator
from contextlib import contextmanager

from relaydeck.fees.errors import ExecutionReverted, FeeDataDisputed, NodeRefused, NodeUnreachable
from relaydeck.networks.evm.errors import ErrorKind, NodeError, NodesDisagree, NodesUnreachable, error_kind
from relaydeck.networks.evm.revert import printable, reason


@contextmanager
def node_failures() -> Iterator[None]:
    try:
        yield
    except NodesUnreachable as failure:
        raise NodeUnreachable(str(failure)) from None
    except NodesDisagree as failure:
        raise FeeDataDisputed(str(failure)) from None
    except NodeError as error:
        raise NodeRefused(printable(error.message) or f"error {error.code}") from None
    except TimeoutError:
        raise NodeUnreachable("no node answered in time") from None


@contextmanager
def reverts() -> Iterator[None]:
    """Around a question that runs the transaction: only there a revert is the transaction's."""
    try:
        yield
    except NodeError as error:
        if error_kind(error) is ErrorKind.REVERTED:
            raise ExecutionReverted(reason(error)) from None
        raise
