"""Checks of the fleet: relayers without a node or disabled, failed deliveries, signers, growth and memory."""

from collections.abc import Iterator

import msgspec

from relaydeck.doctor import Finding
from relaydeck.http.metric_counts import served_by
from relaydeck.networks.node_rule import NodeRule
from relaydeck.notifications import delivery_queries as deliveries
from relaydeck.process.figures import own_memory_limit
from relaydeck.quantities import counted, first_few
from relaydeck.relayers.named_relayers import without_relayer
from relaydeck.settings.model import Settings
from relaydeck.store.audit import created_in_a_day
from relaydeck.store.database import Reader
from relaydeck.store.rows import in_list
from relaydeck.timestamps import utc
from relaydeck.web_addresses import key_system_address_problem

_MOST_NAMED = 5
_ADDRESS_ADVICE = (
    "it is not public, or more than a scheme, a host, a port and a plain path; allow private addresses with"
    " RELAYDECK_DRIVER_ALLOW"
)
_MANY_BYTES, _MUCH_BYTES = 100_000, 20_000_000  # of one kind: from the first on it is shown, above the second it warns
_NODELESS = (
    "SELECT name FROM networks WHERE sealed_rpc_urls IS NULL AND EXISTS"
    " (SELECT 1 FROM relayers WHERE network = networks.name AND relayers.sealed_rpc_urls IS NULL) ORDER BY seq"
)
_RECORDS = "SELECT (SELECT count(*) FROM relayers) AS relayers, (SELECT count(*) FROM signers) AS signers"
# Measured: what a service without records holds, and what each record adds to a worker (its item in the list, and its
# place in the rounds of checks). A request needs some memory, too.
_PARENT_BYTES, _WORKER_BYTES, _RELAYER_BYTES, _SIGNER_BYTES, _ROOM = 30_000_000, 50_000_000, 650, 400, 0.8
_SEE = "see 'relaydeck event deliveries --state pending'"


def _unbound_findings(database: Reader, settings: Settings) -> Iterator[Finding]:
    for row in database.read("SELECT type, count(*) AS total FROM signers GROUP BY type ORDER BY type"):
        if row.type not in settings.drivers.bindings:
            remark = f"{counted(row.total, 'signer')} of the type {row.type} cannot be checked"
            yield Finding("warn", "signers", f"{remark}; bind a driver: RELAYDECK_DRIVER_{row.type.upper()}")


def _address_findings(database: Reader, settings: Settings) -> Iterator[Finding]:
    """Where an address alone shows that nothing is sent there. Where a name leads is known when a signer is checked."""
    rule, refused = NodeRule(settings.driver_allow), []
    used = [each for each in settings.drivers.bindings if each not in settings.drivers.endpoints]
    types = ", ".join(f"'{each}'" for each in used if each != "plain")  # which has no address
    sql = f"SELECT id, open_config, set_locally FROM signers WHERE type IN ({types}) ORDER BY seq"
    for row in database.stream(sql) if types else ():
        address = msgspec.json.decode(row.open_config).get("address", "")
        if address and (key_system_address_problem(address) or (not row.set_locally and rule.problem(address))):
            refused.append(repr(row.id))
    if refused:
        remark = f"nothing is sent to the config.address of {first_few(refused, _MOST_NAMED)}"
        yield Finding("FAIL", "signers", f"{remark}: {_ADDRESS_ADVICE}")


def _check_findings(database: Reader, settings: Settings) -> Iterator[Finding]:
    """Of the signers that 'signer check --all' checks. A type may have lost its driver since a check."""
    names, types = in_list(list(settings.drivers.bindings) or [""])
    bound = f"FROM signer_checks JOIN signers ON id = signer_id WHERE type IN ({names})"
    checked: int = database.read(f"SELECT count(*) AS total {bound}", types)[0].total
    failing = database.read(
        f"SELECT signer_id, outcome {bound} AND outcome <> 'ok' ORDER BY signer_id LIMIT :most",
        {"most": _MOST_NAMED + 1, **types},
    )
    if not failing:
        if checked:
            yield Finding("ok", "signers", f"{counted(checked, 'signer')} passed the latest check")
        return
    named = ", ".join(f"{each.signer_id!r} ({each.outcome})" for each in failing[:_MOST_NAMED])
    more = " and more" if len(failing) > _MOST_NAMED else ""
    yield Finding("FAIL", "signers", f"{named}{more} failed the latest check; run 'relaydeck signer check ID'")


def fleet_findings(database: Reader, settings: Settings, now: float) -> Iterator[Finding]:
    yield _relayer_finding(database)
    yield from _nodeless_findings(database)
    if missing := without_relayer(database.read, settings.metrics_relayers):
        named = first_few(missing, _MOST_NAMED)
        yield Finding("warn", "relayers", f"RELAYDECK_METRICS_RELAYERS names {named}, which no relayer has")
    yield _delivery_finding(database)
    yield from _receiver_findings(database)
    for check in (_unbound_findings, _address_findings, _check_findings):
        yield from check(database, settings)
    yield _growth_finding(database, now)
    process, workers = served_by(settings.run_folder)
    if limit := own_memory_limit(process).limit:
        records = database.read(_RECORDS, {})[0]
        yield memory_finding(limit, workers, records.relayers, records.signers)


def memory_finding(limit: int, workers: int, relayers: int, signers: int) -> Finding:
    need = _PARENT_BYTES + workers * (_WORKER_BYTES + relayers * _RELAYER_BYTES + signers * _SIGNER_BYTES)
    held = f"{counted(workers, 'worker')} with {counted(relayers, 'relayer')} and {counted(signers, 'signer')}"
    remark = f"{held} need about {need / 1e6:.0f} MB, and the cgroup may have {limit / 1e6:.0f} MB"
    if need < _ROOM * limit:
        return Finding("ok", "memory", remark)
    remedy = "raise the limit, or serve with fewer workers"
    if need < limit:
        return Finding("warn", "memory", f"{remark}; {remedy}")
    return Finding("FAIL", "memory", f"{remark}: the kernel will kill workers; {remedy}")


def _growth_finding(database: Reader, now: float) -> Finding:
    rows = created_in_a_day(database.read, now, _MOST_NAMED)
    if not rows:
        return Finding("ok", "growth", "nothing was created in the last day")
    made: dict[str, list[str]] = {}
    for row in rows:
        made.setdefault(row.actor, []).append(f"{counted(row.records, row.kind[:-1])}{_megabytes(row.stored)}")
    each_made = "; ".join(f"{actor!r} created {', '.join(kinds)}" for actor, kinds in made.items())
    remark = f"in the last day {each_made}"
    if rows[0].stored <= _MUCH_BYTES:
        return Finding("ok", "growth", remark)
    return Finding("warn", "growth", f"{remark}; if that is too much, run 'relaydeck token revoke NAME'")


def _megabytes(stored: int) -> str:
    return f" ({stored / 1e6:.1f} MB)" if stored >= _MANY_BYTES else ""


def _relayer_finding(database: Reader) -> Finding:
    rows = database.read("SELECT id FROM relayers WHERE system_disabled ORDER BY seq")
    if not rows:
        return Finding("ok", "relayers", "no relayer is disabled")
    named, verb = first_few([repr(row.id) for row in rows], _MOST_NAMED), "is" if len(rows) == 1 else "are"
    return Finding("FAIL", "relayers", f"{named} {verb} disabled; run 'relaydeck relayer why ID'")


def _nodeless_findings(database: Reader) -> Iterator[Finding]:
    if names := [repr(row.name) for row in database.read(_NODELESS, {})]:
        remark = "have no node: they are not checked, and estimates fail; add rpc_urls to the network"
        yield Finding("warn", "relayers", f"relayers of {first_few(names, _MOST_NAMED)} {remark}")


def _delivery_finding(database: Reader) -> Finding:
    """Nothing can be done about a delivery to a notification that was deleted."""
    dead = deliveries.count_replayable(database.read)
    if not dead:
        return Finding("ok", "deliveries", "no delivery was given up")
    given_up = f"{counted(dead, 'delivery was', 'deliveries were')} given up"
    them = "it" if dead == 1 else "them"
    return Finding("warn", "deliveries", f"{given_up}; 'relaydeck event replay --all-dead' sends {them} again")


def _receiver_findings(database: Reader) -> Iterator[Finding]:
    failing = deliveries.failing_receivers(database.read, _MOST_NAMED + 1)
    if not failing:
        yield Finding("ok", "notifications", "no delivery waits after a failed attempt")
    for each in failing[:_MOST_NAMED]:
        yield Finding("warn", "notifications", _failing_remark(each))
    if len(failing) > _MOST_NAMED:
        yield Finding("warn", "notifications", f"deliveries to other receivers wait after failed attempts, too; {_SEE}")


def _failing_remark(each: deliveries.FailingReceiver) -> str:
    bound = "at least " if each.waiting == deliveries.COUNT_LIMIT else ""
    waiting = f"{bound}{counted(each.waiting, 'delivery', 'deliveries')} to {each.notification_id!r}"
    verb, error = "is" if each.waiting == 1 else "are", deliveries.describe_error(each.status, each.problem)
    return f"{waiting} {verb} waiting; an attempt failed at {utc(each.failed_at / 1000)}: {error}; {_SEE}"
