"""Checks of the database: its schema, writes and tokens, and what needs the master key: sealed values and nodes."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path

import msgspec

from relaydeck.credential import names_in
from relaydeck.credentials import tokens
from relaydeck.doctor import CLOCK_SLACK_SECONDS, Finding
from relaydeck.doctor.integrity import proof_findings, sealed_value_findings
from relaydeck.doctor.nodes import node_findings, preset_findings
from relaydeck.errors import OperatorError, StoreError, StoreUnreachable, operator_words
from relaydeck.http.metric_counts import Writes, read_writes, served_by
from relaydeck.networks.node_rule import NodeRule
from relaydeck.notifications import delivery_queries as deliveries
from relaydeck.notifications.model import EventKind
from relaydeck.process.figures import own_memory_limit
from relaydeck.process.wrapped_keys import is_wrapped
from relaydeck.quantities import counted, first_few
from relaydeck.relayers.named_relayers import without_relayer
from relaydeck.settings.model import Settings
from relaydeck.store.audit import created_in_a_day
from relaydeck.store.copying.mark import REVOKED, unfinished_copy_of
from relaydeck.store.database import Reader, ShowProgress
from relaydeck.store.files import lost_file
from relaydeck.store.migrate import newest_version, schema_version
from relaydeck.store.open_store import open_reader_at
from relaydeck.store.rows import in_list
from relaydeck.store.vault import read_keyring, read_master_keys
from relaydeck.store.writer import Failure
from relaydeck.timestamps import utc
from relaydeck.web_addresses import key_system_address_problem

# -- Checks of the fleet: relayers without a node or disabled, failed deliveries, signers, growth and memory --

_FEW_NAMED = 5
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
        remark = f"nothing is sent to the config.address of {first_few(refused, _FEW_NAMED)}"
        yield Finding("FAIL", "signers", f"{remark}: {_ADDRESS_ADVICE}")


def _check_findings(database: Reader, settings: Settings) -> Iterator[Finding]:
    """Of the signers that 'signer check --all' checks. A type may have lost its driver since a check."""
    names, types = in_list(list(settings.drivers.bindings) or [""])
    bound = f"FROM signer_checks JOIN signers ON id = signer_id WHERE type IN ({names})"
    checked: int = database.read(f"SELECT count(*) AS total {bound}", types)[0].total
    failing = database.read(
        f"SELECT signer_id, outcome {bound} AND outcome <> 'ok' ORDER BY signer_id LIMIT :most",
        {"most": _FEW_NAMED + 1, **types},
    )
    if not failing:
        if checked:
            yield Finding("ok", "signers", f"{counted(checked, 'signer')} passed the latest check")
        return
    named = ", ".join(f"{each.signer_id!r} ({each.outcome})" for each in failing[:_FEW_NAMED])
    more = " and more" if len(failing) > _FEW_NAMED else ""
    yield Finding("FAIL", "signers", f"{named}{more} failed the latest check; run 'relaydeck signer check ID'")


def fleet_findings(database: Reader, settings: Settings, now: float) -> Iterator[Finding]:
    yield _relayer_finding(database)
    yield from _nodeless_findings(database)
    if missing := without_relayer(database.read, settings.metrics_relayers):
        named = first_few(missing, _FEW_NAMED)
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
    rows = created_in_a_day(database.read, now, _FEW_NAMED)
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
    named, verb = first_few([repr(row.id) for row in rows], _FEW_NAMED), "is" if len(rows) == 1 else "are"
    return Finding("FAIL", "relayers", f"{named} {verb} disabled; run 'relaydeck relayer why ID'")


def _nodeless_findings(database: Reader) -> Iterator[Finding]:
    if names := [repr(row.name) for row in database.read(_NODELESS, {})]:
        remark = "have no node: they are not checked, and estimates fail; add rpc_urls to the network"
        yield Finding("warn", "relayers", f"relayers of {first_few(names, _FEW_NAMED)} {remark}")


def _delivery_finding(database: Reader) -> Finding:
    """Nothing can be done about a delivery to a notification that was deleted."""
    dead = deliveries.count_replayable(database.read)
    if not dead:
        return Finding("ok", "deliveries", "no delivery was given up")
    given_up = f"{counted(dead, 'delivery was', 'deliveries were')} given up"
    them = "it" if dead == 1 else "them"
    return Finding("warn", "deliveries", f"{given_up}; 'relaydeck event replay --all-dead' sends {them} again")


def _receiver_findings(database: Reader) -> Iterator[Finding]:
    failing = deliveries.failing_receivers(database.read, _FEW_NAMED + 1)
    if not failing:
        yield Finding("ok", "notifications", "no delivery waits after a failed attempt")
    for each in failing[:_FEW_NAMED]:
        yield Finding("warn", "notifications", _failing_remark(each))
    if len(failing) > _FEW_NAMED:
        yield Finding("warn", "notifications", f"deliveries to other receivers wait after failed attempts, too; {_SEE}")


def _failing_remark(each: deliveries.FailingReceiver) -> str:
    error = deliveries.describe_error(each.status, each.problem)
    failed = f"failed at {utc(each.failed_at / 1000)}: {error}"
    if not each.waiting:
        return f"nothing arrived at {each.notification_id!r} since an attempt {failed}"
    bound, verb = "at least " if each.more_wait else "", "is" if each.waiting == 1 else "are"
    waiting = f"{bound}{counted(each.waiting, 'delivery', 'deliveries')} to {each.notification_id!r}"
    return f"{waiting} {verb} waiting; an attempt {failed}; {_SEE}"


_NOT_CHECKED = (
    "the sealed values, whether somebody forged a token, the audit log, and the nodes (their URLs are sealed): these"
    " checks need the master key"
)
_RESTORED = (
    "it was restored from a backup that is not authentic, and every token in it was revoked; run"
    " 'relaydeck token list', which records that in the audit log, then run this again"
)
_WRITE_REMEDIES = {
    "no_worker": 'see "workers"',
    "lock_held": "end it, if it does not end by itself",
    "unreachable": "check the database server",
    "file_replaced": "put it back and restart Relaydeck",
    "read_only": "correct the permissions of the database file, or set RELAYDECK_DATABASE_URL to the primary",
    "no_permission": "grant the database user the rights on all tables",
    "disk_full": "free some space",
    "disk_error": "look for errors of the disk in the log of its machine",
    "standby_away": "start the standby, or remove it from synchronous_standby_names",
}
_LOOKS = 20  # for the holder of a file's lock, in one second
_UNUSED_DAYS, _MOST_NAMED = 90, 20
_HISTORY_SECONDS = 7 * 86_400
_HISTORY = "SELECT data, created_at FROM events WHERE kind = :kind AND created_at > :since ORDER BY seq DESC LIMIT 1"


def sealed_findings(database: Reader, settings: Settings, progress: ShowProgress) -> Iterator[Finding]:
    try:
        keyring = read_keyring(database, settings.master_key_path)
    except OperatorError as error:
        yield Finding("FAIL", "master key", f"{error.problem}. {error.remedy}")
        yield Finding("warn", "not checked", _NOT_CHECKED)
        return
    keys: int = database.read("SELECT count(*) AS total FROM data_keys")[0].total
    masters, source = read_master_keys(settings.master_key_path), settings.master_key_from
    try:
        read_master_keys(settings.master_key_path, anew=True)
    except OperatorError as error:  # in a service, which has unwrapped it before
        yield Finding("FAIL", "master key", f"it is in memory, and a start would fail: {error.problem}")
    wrapped = [each for each in masters if is_wrapped(each.line)]
    by = f", unwrapped by {source.driver}," if source and wrapped else ""
    yield Finding("ok", "master key", f"{settings.master_key_path}{by} opens {counted(keys, 'data key')}")
    if source and len(wrapped) < len(masters):
        remark = f"{settings.master_key_path} has a key in clear, although {source.driver} could wrap it"
        yield Finding("warn", "master key", f"{remark}; run: relaydeck key rotate --master")
    if len(masters) > 1:
        remark = f"{settings.master_key_path} has {len(masters)} keys: the replacement of the master key has not ended"
        yield Finding("warn", "master key", f"{remark}; run: relaydeck key rotate --master")
    with progress("opening sealed values", 0):
        yield from sealed_value_findings(database, keyring)
    yield from proof_findings(database, keyring, progress)
    yield from preset_findings(database)
    with progress("calling every node", 0):
        yield from node_findings(database, keyring, settings)


def database_findings(settings: Settings, now: Callable[[], float], progress: ShowProgress) -> Iterator[Finding]:
    where = settings.database
    if isinstance(where, Path) and (lost := lost_file(where, settings.home)):
        yield Finding("FAIL", "database", f"{lost.problem}. {lost.remedy}")
        return
    if isinstance(where, Path) and not where.is_file():
        yield Finding("FAIL", "database", f"{where} does not exist; run 'relaydeck serve' to create it, or restore it")
        return
    remedy = "restore it from a backup" if isinstance(where, Path) else "check the database server"
    try:
        with closing(open_reader_at(where)) as database:
            for error in database.configuration_problems():
                yield Finding("FAIL", "database", f"{error.problem}; {error.remedy}")
            yield from _clock_of_server(database, now)
            with database.snapshot():
                yield from _inside(database, settings, now(), progress)
    except (StoreUnreachable, OperatorError) as error:
        yield Finding("FAIL", "database", "; ".join(operator_words(error)))
    except StoreError as error:
        yield Finding("FAIL", "database", f"{where} cannot be read ({error}); {remedy}")


def _clock_of_server(database: Reader, now: Callable[[], float]) -> Iterator[Finding]:
    if not database.clock_sql:
        return
    before, (row,), after = now(), database.read(f"SELECT {database.clock_sql} AS moment"), now()
    seconds = round((before + after) / 2 - row.moment / 1000)
    if abs(seconds) <= CLOCK_SLACK_SECONDS:
        yield Finding("ok", "clock", "it agrees with that of the database server")
        return
    differs = f"{abs(seconds)} s {'ahead of' if seconds > 0 else 'behind'} that of the database server"
    yield Finding("FAIL", "clock", f"it is {differs}; set the one that is wrong: tokens expire by this machine's")


def _clock_of_newest_entry(database: Reader, now: float) -> Iterator[Finding]:
    rows = database.read("SELECT moment FROM audit ORDER BY seq DESC LIMIT 1")
    if rows and rows[0].moment > now + CLOCK_SLACK_SECONDS:
        future = f"the newest audit entry is of {utc(rows[0].moment)}, {round(rows[0].moment - now)} s from now"
        remark = f"{future}; set the clock of this machine, or of the one that made the entry"
        yield Finding("warn", "clock", remark)


def _inside(database: Reader, settings: Settings, now: float, progress: ShowProgress) -> Iterator[Finding]:
    with progress("checking that the database is sound", 0):
        problems = database.damage()
    if problems:
        yield Finding("FAIL", "database", f"{'; '.join(problems)}; restore it from a backup")
    else:
        yield Finding("ok", "database", f"{settings.database} {database.soundness}")
    if origin := unfinished_copy_of(database):
        yield Finding("FAIL", "database", f"it is an unfinished copy of {origin}; run the command that began it again")
        return
    if database.has_table(REVOKED):
        yield Finding("warn", "database", _RESTORED)
        return
    schema = _schema(schema_version(database))
    yield schema
    if schema.result != "FAIL":
        yield from _write_findings(database, settings)
    if schema.result == "ok":  # an older schema lacks what these read
        yield from _token_findings(database, now)
        yield from _clock_of_newest_entry(database, now)
        yield from _history_findings(database, now)
        yield from fleet_findings(database, settings, now)
        yield from sealed_findings(database, settings, progress)


def _write_findings(database: Reader, settings: Settings) -> Iterator[Finding]:
    """As the workers of a service with this home know it. Without one, a server is asked, and a file left alone."""
    writes, problem = read_writes(settings.run_folder.glob("metrics-*")), ""
    if writes.cause == "unknown":
        if isinstance(settings.database, Path):
            return
        writes = Writes("")
        try:
            database.try_write()
        except StoreError as error:
            writes, problem = Writes(error.cause), str(error)
    if not writes.cause:
        since = "a trial succeeded" if writes.seconds is None else f"the last one succeeded {writes.seconds} s ago"
        yield Finding("ok", "writes", since)
        return
    if isinstance(settings.database, Path) and writes.cause in {"lock_held", "timeout"} and not _is_held(database):
        remedy = "no process holds the lock now for longer than a moment: run this again"
        yield Finding("FAIL", "writes", f"{writes.text}; {remedy}")
        return
    cause, problem = Failure(writes.cause, problem).explained(database)
    remedy = _WRITE_REMEDIES.get(cause, 'look for "writes fail" in the log')
    yield Finding("FAIL", "writes", f"{writes._replace(cause=cause).text}{problem and f' ({problem})'}; {remedy}")


def _is_held(database: Reader) -> bool:
    """Whether one process has the file locked for a second. Each write of a healthy one locks it for a moment."""
    first = database.write_lock_holder()
    for _ in range(_LOOKS):
        time.sleep(1 / _LOOKS)
        if first is None or (found := database.write_lock_holder()) is None or found.pid != first.pid:
            return False
    return True


def _history_findings(database: Reader, now: float) -> Iterator[Finding]:
    since = int(now) - _HISTORY_SECONDS
    for row in database.read(_HISTORY, {"kind": EventKind.DATABASE_CHANGED, "since": since}):
        problem = msgspec.json.decode(row.data)["details"]["problem"]
        lost = "acknowledged writes may be missing: compare 'relaydeck audit head' and the records with your own"
        yield Finding("warn", "history", f"at {utc(row.created_at)} the service found that {problem}; {lost}")


def _schema(version: int) -> Finding:
    newest = newest_version()
    if version > newest:
        return Finding("FAIL", "schema", f"version {version}, but this program knows {newest}; run a newer Relaydeck")
    if version == 0:
        return Finding("FAIL", "schema", "the database is empty; run 'relaydeck serve' to prepare it")
    if version < newest:
        remedy = f"start the service, which updates it to {newest}, then run this again"
        return Finding("warn", "schema", f"version {version}; {remedy}")
    return Finding("ok", "schema", f"version {version}")


def _token_findings(database: Reader, now: float) -> Iterator[Finding]:
    live = [each for each in tokens.all_tokens(database) if each.is_live(now)]
    if not live:
        remark = "there is no live token, so every request is refused; run 'relaydeck token create NAME'"
        yield Finding("warn", "tokens", remark)
        return
    people = sorted({names_in(each.made_by or "")[0] for each in live})
    makers = [each.removeprefix("person:") for each in people if each.startswith("person:")]
    made = f"; people who made some: {first_few(makers, _MOST_NAMED)}" if makers else ""
    endless = [repr(each.name) for each in live if each.expires_at is None]
    named = f": {first_few(endless, _MOST_NAMED)}" if endless else ""
    yield Finding("ok", "tokens", f"{len(live)} live, {len(endless)} without expiry{named}{made}")
    (since,) = database.read(
        "SELECT applied_at FROM schema_versions WHERE version = :version", {"version": tokens.USES_SINCE}
    )
    recorded, old = datetime.fromisoformat(since.applied_at).timestamp(), now - _UNUSED_DAYS * 86_400
    used = tokens.last_uses(database)
    owners = [each for each in live if "own" in each.grant.permissions]
    unused = [each for each in live if max(used.get(each.seq, (0, ""))[0], each.created_at, recorded) < old]
    called = [each for each in owners if used.get(each.seq, (0, ""))[1].startswith("api ")]
    for found, remark in (
        (unused, f"not used for {_UNUSED_DAYS} days: revoke it if nobody needs it"),
        (called, "an owner that an application uses: give the application a token with the role api"),
    ):
        if found:
            names = first_few([repr(each.name) for each in found], _MOST_NAMED)
            yield Finding("warn", "tokens", f"{names}: {remark}")
