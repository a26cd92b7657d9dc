"""One check of a relayer: read its nonce and balance from its nodes, or collect what is wrong with each node."""

from relaydeck.networks.evm.errors import NodeError, NodesUnreachable
from relaydeck.networks.evm.pool import NodePool
from relaydeck.networks.evm.questions import Question, read_quantity
from relaydeck.relayers.incidents import CheckResult, NodeProblem


async def check_relayer(pool: NodePool, address: str, seconds: float) -> CheckResult:
    """Ask any node that answers. An unreachable node is probed again unless it was within the last `seconds`."""
    nonce: Question[int] = Question("eth_getTransactionCount", (address, "latest"), read_quantity)
    balance: Question[int] = Question("eth_getBalance", (address, "latest"), read_quantity)
    pool.probe_unreachable(seconds)
    try:
        answer = await pool.ask_all((nonce, balance))
        count, wei = answer.value
        if isinstance(count, NodeError):
            return await _ask_another(pool, nonce, answer.node, count)
        return CheckResult(True, count, None if isinstance(wei, NodeError) else wei)
    except NodeError as error:
        return CheckResult(True, evidence=(_refusal("a node", error),))
    except NodesUnreachable:
        return _unreachable(pool)


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
