"""The state of a relayer: paused and resumed, explained, its balances and runway, and estimates through it."""

import time
from functools import partial

from msgspec import UNSET, UnsetType

from relaydeck.admin.handling import Content, Query, Request, Services, changes, handles
from relaydeck.admin.views import read_record
from relaydeck.api import operations
from relaydeck.api.list_filters import FILTERS, conditions
from relaydeck.api.records import EstimateFailure, EstimateReport, EstimateRequest
from relaydeck.errors import BadRequest
from relaydeck.fees.errors import RpcFailure
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeEstimateParams, Trace
from relaydeck.networks.evm.node_figures import read_faults
from relaydeck.networks.model import Network
from relaydeck.quantities import parse_span, span_problem
from relaydeck.relayers import relayer_changes, why
from relaydeck.relayers.balance_history import Range, choose_range, read_history
from relaydeck.relayers.directory import RelayerDirectory
from relaydeck.relayers.model import Relayer
from relaydeck.relayers.runway import DEFAULT_DAYS, FirstRunways, read_first, read_runway
from relaydeck.signers.check_results import read_signer_state, with_signer
from relaydeck.store.changes import ChangeContext
from relaydeck.timestamps import parse_utc

_FIRST = 20


def _set_paused(paused: bool, context: ChangeContext, request: Request, _body: None) -> Content:
    name, was = request.identifier, "already paused" if paused else "not paused"
    changed = relayer_changes.set_paused(context, name, paused=paused)
    view = read_record(context, "relayers", name)
    notes = view.notes if changed else (*view.notes, f"nothing was changed: the relayer was {was}")
    return view._replace(notes=notes, changed=changed)


changes(operations.PAUSE_RELAYER)(partial(_set_paused, True))
changes(operations.RESUME_RELAYER)(partial(_set_paused, False))


@handles(operations.EXPLAIN_RELAYER)
async def explain(services: Services, request: Request) -> Content:
    """By default with a call to each of its nodes."""
    name, probe, settings = request.identifier, request.query.get("probe") != "false", services.settings
    stored, signer, seen = await services.read(
        lambda store: (
            why.read(store.database.read, store.vault, name, settings.monitor_rounds),
            read_signer_state(store.database.read, name),
            read_faults(settings.run_folder),
        )
    )
    explanation = await why.explain(
        stored,
        services.estimator.pool,
        interval=settings.monitor_interval_seconds,
        now=time.time(),
        probe=probe,
        seen=seen,
    )
    return Content(with_signer(explanation, signer))


@handles(operations.EXPLAIN_ESTIMATE)
async def explain_estimate(services: Services, request: Request) -> Content:
    name, asked = request.identifier, request.decode(EstimateRequest)
    relayer, network = await services.read(lambda store: RelayerDirectory(store.database, store.vault).read(name))
    token = "" if asked.token is UNSET else asked.token
    return Content(await report_estimate(services.estimator, relayer, network, asked.transaction, token))


async def report_estimate(
    estimator: Estimator, relayer: Relayer, network: Network, transaction: str, token: str = ""
) -> EstimateReport:
    """`token` is a symbol or an address; empty: the native coin."""
    trace = Trace()
    failure: EstimateFailure | UnsetType = UNSET
    params = FeeEstimateParams(token or network.native_symbol, network.name, transaction)
    try:
        await estimator.estimate(relayer, network, params, trace)
    except RpcFailure as error:
        failure = EstimateFailure(error.code, error.message, error.description)
    return EstimateReport(tuple(trace.steps), failure)


@handles(operations.GET_RELAYER_BALANCES)
async def get_balances(services: Services, request: Request) -> Content:
    name = request.identifier
    shown = requested_range(request.query, int(time.time()))
    return Content(await services.read(lambda store: read_history(store.database.read, name, shown)))


@handles(operations.GET_RELAYER_RUNWAY)
async def get_runway(services: Services, request: Request) -> Content:
    name, now, hours = request.identifier, int(time.time()), services.settings.runway_warn_hours
    days = int(request.query.get("days") or DEFAULT_DAYS)
    return Content(await services.read(lambda store: read_runway(store, name, warn_hours=hours, now=now, days=days)))


@handles(operations.LIST_RUNWAYS)
async def list_runways(services: Services, request: Request) -> Content:
    count, days = int(request.query.get("first") or _FIRST), int(request.query.get("days") or DEFAULT_DAYS)
    now, hours = int(time.time()), services.settings.runway_warn_hours
    where, values = conditions(FILTERS["relayers"], request.query)
    found = await services.read(
        lambda store: read_first(store, count, warn_hours=hours, now=now, days=days, where=where, **values)
    )
    return Content(FirstRunways(runways=tuple(found)))


def requested_range(query: Query, now: int) -> Range:
    return choose_range(_moment(query, "from"), _moment(query, "to"), _step(query), now)


def _moment(query: Query, name: str) -> int | None:
    if not (text := query.get(name)):
        return None
    moment = parse_utc(text)
    if moment is None:
        raise BadRequest(f"{name} must be a moment such as 2026-03-01T00:00:00Z")
    return moment


def _step(query: Query) -> int | None:
    if not (text := query.get("step")):
        return None
    if problem := span_problem(text):
        raise BadRequest(f"step: {problem}")
    return parse_span(text)
