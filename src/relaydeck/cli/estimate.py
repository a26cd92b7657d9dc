"""`relaydeck estimate`: one fee estimate, taken apart."""

import asyncio
import json
import sys
from contextlib import closing
from typing import Any

from relaydeck.app import fee_options
from relaydeck.errors import OperatorError, RelayerNotFound
from relaydeck.fees.errors import RpcFailure
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeEstimateParams
from relaydeck.fees.options import FeeOptions
from relaydeck.fees.trace import Trace
from relaydeck.networks.model import Network
from relaydeck.relayers.directory import RelayerDirectory
from relaydeck.relayers.model import Relayer
from relaydeck.settings import read_settings
from relaydeck.store.open_store import open_store
from relaydeck.store.sealing import Damaged


def explain(relayer_id: str, transaction: str, token: str, as_json: bool) -> None:
    """Print the steps; a failing estimate prints those it got to, and why it ended, and exits with 1."""
    settings = read_settings()
    relayer, network = _find(relayer_id)
    encoded = sys.stdin.read().strip() if transaction == "-" else transaction
    params = FeeEstimateParams(token or network.native_symbol, network.name, encoded)
    trace = Trace()
    failure = asyncio.run(_run(fee_options(settings), relayer, network, params, trace))
    if as_json:
        sys.stdout.write(json.dumps(_report(trace, failure), indent=2) + "\n")
    else:
        _print(trace, failure)
    if failure is not None:
        sys.exit(1)


def _find(relayer_id: str) -> tuple[Relayer, Network]:
    with closing(open_store(read_settings())) as store:
        try:
            return RelayerDirectory(store.database, store.vault).read(relayer_id)
        except RelayerNotFound as error:
            raise OperatorError(error.message, "See 'relaydeck export' for the relayers there are.") from None
        except Damaged as damage:
            raise OperatorError(str(damage), "Apply its URLs again with 'relaydeck apply'.") from None


async def _run(
    options: FeeOptions, relayer: Relayer, network: Network, params: FeeEstimateParams, trace: Trace
) -> RpcFailure | None:
    estimator = Estimator(options)
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
    from rich.console import Console
    from rich.table import Column, Table

    table = Table("step", "what", Column("value", overflow="fold"))  # an address cut short is no evidence
    for facts in trace.steps:
        step = facts["step"]
        for name, value in facts.items():
            if name != "step":
                table.add_row(step, name, value if isinstance(value, str) else json.dumps(value))
                step = ""
        table.add_section()
    console = Console()
    if trace.steps:
        console.print(table)
    if failure is not None:
        console.print(f"no estimate: {failure.code} {failure.message}: {failure.description}", markup=False)
