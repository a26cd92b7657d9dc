"""Checks of relayers: read nonces and balances from their nodes, or collect what is wrong with each node."""

from collections.abc import Sequence
from typing import Any

from relaydeck.background import gather_some
from relaydeck.networks.evm.errors import NodeError, NodesUnreachable
from relaydeck.networks.evm.pool import NodePool
from relaydeck.networks.evm.questions import Question, read_quantity
from relaydeck.relayers.incidents import CheckResult, NodeProblem

_MAX_TOGETHER = 16  # relayers of a group that are checked one by one


async def check_relayers(pool: NodePool, addresses: Sequence[str], seconds: float) -> list[CheckResult]:
    """Check relayers with the same nodes in one request, or each by itself when that fails.

    Any node may answer. An unreachable node is probed again unless it was within the last `seconds`.
    """
    if len(addresses) == 1:
        return [await _check_relayer(pool, addresses[0], seconds)]
    async with pool.large_batches:
        return await _check_together(pool, addresses, seconds)


async def _check_together(pool: NodePool, addresses: Sequence[str], seconds: float) -> list[CheckResult]:
    pool.probe_unreachable(seconds)
    try:
        answer = await pool.ask_all([each for address in addresses for each in _questions(address)])
    except (NodeError, NodesUnreachable):
        # The request may have been too much for a node that answers smaller ones.
        return await gather_some(_MAX_TOGETHER, lambda each: _check_relayer(pool, each, seconds), addresses)
    answers = zip(addresses, answer.value[::2], answer.value[1::2], strict=True)
    return await gather_some(_MAX_TOGETHER, lambda each: _result(pool, answer.node, *each), answers)


def _questions(address: str) -> tuple[Question[int], Question[int]]:
    return (
        Question("eth_getTransactionCount", (address, "latest"), read_quantity),
        Question("eth_getBalance", (address, "latest"), read_quantity),
    )


async def _check_relayer(pool: NodePool, address: str, seconds: float) -> CheckResult:
    pool.probe_unreachable(seconds)
    try:
        answer = await pool.ask_all(_questions(address))
        return await _result(pool, answer.node, address, *answer.value)
    except NodeError as error:
        return CheckResult(True, evidence=(_refusal("a node", error),))
    except NodesUnreachable:
        return _unreachable(pool)


async def _result(pool: NodePool, node: str, address: str, count: Any, wei: Any) -> CheckResult:
    if isinstance(count, NodeError):
        return await _ask_another(pool, _questions(address)[0], node, count)
    return CheckResult(True, count, None if isinstance(wei, NodeError) else wei)


async def _ask_another(pool: NodePool, nonce: Question[int], node: str, refused: NodeError) -> CheckResult:
    """One node refused to return the nonce; another may return it. The first one did answer in any case."""
    try:
        return CheckResult(True, (await pool.ask(nonce)).value)
    except (NodeError, NodesUnreachable):
        return CheckResult(True, evidence=(_refusal(node, refused),))


def _refusal(node: str, error: NodeError) -> NodeProblem:
    # Without the node's message: it is text from outside.
    return NodeProblem(node, f"answered error {error.code} when asked for the nonce")


def _unreachable(pool: NodePool) -> CheckResult:
    states = pool.states()
    evidence = tuple(NodeProblem(each.node, each.problem or "did not answer in time") for each in states)
    return CheckResult(any(each.answers for each in states), evidence=evidence)
