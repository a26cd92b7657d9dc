"""One look at a relayer: which nonce and which balance its nodes tell, or what was wrong with each of them."""

from relaydeck.networks.evm import quantity
from relaydeck.networks.evm.errors import NodeError, NodesUnreachable
from relaydeck.networks.evm.pool import NodePool
from relaydeck.networks.evm.question import Question
from relaydeck.relayers.troubles import CheckResult, Remark


async def look(pool: NodePool, address: str, seconds: float) -> CheckResult:
    """Ask whichever URL answers; a URL that is gone is tried again, unless it was in the last `seconds`."""
    nonce: Question[int] = Question("eth_getTransactionCount", (address, "latest"), quantity.quantity)
    balance: Question[int] = Question("eth_getBalance", (address, "latest"), quantity.quantity)
    pool.look_again(seconds)
    try:
        answer = await pool.ask_all((nonce, balance))
        told, wei = answer.value
        if isinstance(told, NodeError):
            return await _elsewhere(pool, nonce, answer.node, told)
        return CheckResult(True, told, None if isinstance(wei, NodeError) else wei)
    except NodeError as error:
        return CheckResult(True, evidence=(_refusal("a node", error),))
    except NodesUnreachable:
        return _unreachable(pool)


async def _elsewhere(pool: NodePool, nonce: Question[int], node: str, refused: NodeError) -> CheckResult:
    """One node would not tell: another may. The one that answered is there, whatever comes of it."""
    try:
        return CheckResult(True, (await pool.ask(nonce)).value)
    except (NodeError, NodesUnreachable):
        return CheckResult(True, evidence=(_refusal(node, refused),))


def _refusal(node: str, error: NodeError) -> Remark:
    return Remark(node, f"answered error {error.code} when asked for the nonce")  # its words are a stranger's


def _unreachable(pool: NodePool) -> CheckResult:
    seen = pool.seen()
    evidence = tuple(Remark(each.node, each.problem or "did not answer in time") for each in seen)
    return CheckResult(any(each.answers for each in seen), evidence=evidence)
