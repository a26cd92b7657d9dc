"""`relaydeck estimate`: one fee estimate, step by step."""

import asyncio
import sys
from typing import Any

from relaydeck.app import fee_options
from relaydeck.cli.local.store import existing_store
from relaydeck.cli.output import print_json, print_line, print_rows
from relaydeck.fees.errors import RpcFailure
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeEstimateParams, Trace
from relaydeck.relayers.directory import RelayerDirectory
from relaydeck.settings import read_settings


def explain(relayer_id: str, transaction: str, token: str, as_json: bool) -> None:
    """Print the steps. If the estimate fails, print the steps so far and the reason, and exit with 1."""
    encoded = sys.stdin.read().strip() if transaction == "-" else transaction
    trace = Trace()
    failure = asyncio.run(_estimate(relayer_id, encoded, token, trace))
    if as_json:
        print_json(_report(trace, failure))
    else:
        _print(trace, failure)
    if failure is not None:
        sys.exit(1)


async def _estimate(relayer_id: str, encoded: str, token: str, trace: Trace) -> RpcFailure | None:
    with existing_store() as store:
        relayer, network = RelayerDirectory(store.database, store.vault).read(relayer_id)
    estimator = Estimator(fee_options(read_settings()))
    params = FeeEstimateParams(token or network.native_symbol, network.name, encoded)
    try:
        await estimator.estimate(relayer, network, params, trace)
    except RpcFailure as failure:
        return failure
    finally:
        await estimator.close()
    return None


def _report(trace: Trace, failure: RpcFailure | None) -> dict[str, Any]:
    if failure is None:
        return {"steps": trace.steps}
    error = {"code": failure.code, "message": failure.message, "description": failure.description}
    return {"steps": trace.steps, "error": error}


def _print(trace: Trace, failure: RpcFailure | None) -> None:
    if trace.steps:
        print_rows(("step", "fact", "value"), [_rows(facts) for facts in trace.steps])
    if failure is not None:
        print_line(f"no estimate: {failure.code} {failure.message}: {failure.description}")


def _rows(facts: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """The facts of one step, its name on the first line only."""
    step, *rest = facts
    return [(facts[step] if number == 0 else "", name, facts[name]) for number, name in enumerate(rest)]
