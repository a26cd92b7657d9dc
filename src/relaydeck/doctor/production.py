"""The checks of `relaydeck doctor --production`: what a service for others needs beyond one that works.

docs/production.md lists them, and what only a person can check.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

from relaydeck.doctor import Finding, Result
from relaydeck.errors import OperatorError, StoreError
from relaydeck.http import metrics
from relaydeck.http.metric_counts import counted_by, served_by
from relaydeck.process.wrapped_keys import is_wrapped
from relaydeck.quantities import counted, first_few
from relaydeck.roles import roles_with
from relaydeck.settings.model import Settings
from relaydeck.store.database import Reader
from relaydeck.store.migrate import newest_version, schema_version
from relaydeck.store.open_store import open_reader_at
from relaydeck.store.rows import in_list
from relaydeck.timestamps import utc
from relaydeck.web_addresses import is_loopback

_MOST_NAMED = 5
_BACKUP_SECONDS, _AUDIT_SECONDS = 2 * 86_400, 365 * 86_400
_CERTIFICATE = "pass --tls-cert and --tls-key, or put a TLS proxy in front and name it in RELAYDECK_TRUSTED_PROXIES"
_KEY = "who loses or copies the folder has both; keep a copy elsewhere, or move it and set RELAYDECK_MASTER_KEY_FILE"
_PLAIN = "the database and the master key give their keys away; use a key system for what is worth something"
_UNPROTECTED = "one person can change any record alone: 'relaydeck protection create' says which need a second one"
_OWNERS = (
    "relaydeck token create NAME --role owner --expires 30d, then revoke the old one; a token named console-ACCOUNT is"
    " made for links to the console: 'relaydeck token revoke' ends it and its sessions, and the next link makes another"
)
_OPEN = "SELECT id AS name FROM notifications WHERE sealed_signing_key IS NULL ORDER BY seq"


def production_findings(settings: Settings, now: Callable[[], float] = time.time) -> Iterator[Finding]:
    """As these settings, the home and the running service show it. What cannot be told has no finding."""
    yield from _running(settings)
    path, rate = settings.master_key_path, settings.rate_limit_per_second
    outside = not path.resolve().is_relative_to(settings.home.resolve())
    wrapped = _is_wrapped(path)
    where = (
        f"{path} is {'outside' if outside else 'in'} the home{', and a key system has wrapped it' if wrapped else ''}"
    )
    yield _graded("master key", where, outside or wrapped, _KEY)
    made = settings.last_backup_path.stat().st_mtime if settings.last_backup_path.exists() else 0.0
    newest = f"the newest is of {utc(made)}" if made else "'relaydeck backup' has never completed with this home"
    yield _graded("backup", newest, now() - made <= _BACKUP_SECONDS, "back up each day", "FAIL")
    yield _graded("rate limit", f"{rate} requests a second for a credential", rate > 0, "0 is no limit at all")
    try:
        if isinstance(settings.database, Path) and not settings.database.is_file():
            return
        with closing(open_reader_at(settings.database)) as database, database.snapshot():
            if schema_version(database) == newest_version():
                yield from _stored(database, settings, int(now()))
    except (OperatorError, StoreError, OSError):
        return  # the check of the database says why


def _is_wrapped(path: Path) -> bool:
    """False for a file that this user cannot read: the ordinary checks of permissions and the master key say so."""
    try:
        return is_wrapped(path.read_text("ascii", "replace"))
    except OSError:
        return False


def _graded(subject: str, remark: str, is_right: bool, remedy: str, otherwise: Result = "warn") -> Finding:
    return Finding("ok", subject, remark) if is_right else Finding(otherwise, subject, f"{remark}; {remedy}")


def _running(settings: Settings) -> Iterator[Finding]:
    """Of the running service, whose options may differ from the settings."""
    try:
        url = settings.served_mark(int(served_by(settings.run_folder)[0])).read_text("utf-8")
    except (ValueError, OSError):
        return
    proxies = settings.trusted_proxies
    is_right = url.startswith("https:") or is_loopback(urlsplit(url).hostname or "") or bool(proxies)
    remark = f"the service is at {url}, and RELAYDECK_TRUSTED_PROXIES names {'a' if proxies else 'no'} proxy"
    yield _graded("TLS", remark, is_right, _CERTIFICATE, "FAIL")
    if settings.core == "off":
        times = counted_by(settings.run_folder.glob("metrics-*"), metrics.SCRAPES)
        remark = f"/metrics was read {counted(times, 'time')} since the service started"
        yield _graded("alerts", remark, times > 0, "let Prometheus read it, with deploy/monitoring/alerts.yaml")


def _stored(database: Reader, settings: Settings, now: int) -> Iterator[Finding]:
    audit = database.read("SELECT moment FROM audit ORDER BY seq LIMIT 1")
    since = f"goes back to {utc(audit[0].moment)}" if audit else "is empty"
    kept = f"events are kept for {counted(settings.event_retention_days, 'day')}, and the audit log {since}"
    is_short = not audit or now - audit[0].moment <= _AUDIT_SECONDS
    yield _graded("retention", kept, is_short, "'relaydeck audit archive' moves old entries to a file")
    plain: int = database.read("SELECT count(*) AS total FROM signers WHERE type = 'plain'")[0].total
    yield _graded("plain signers", f"{counted(plain, 'signer')} of the type plain", not plain, _PLAIN)
    names, roles = in_list([role.value for role in roles_with("own")])
    sql = f"SELECT name FROM tokens WHERE kind IN ({names}) AND revoked_at IS NULL AND expires_at IS NULL ORDER BY seq"
    owners = [repr(row.name) for row in database.read(sql, roles)]
    remark = f"without an expiry: {first_few(owners, _MOST_NAMED) or 'none'}"
    yield _graded("owner tokens", remark, not owners, _OWNERS)
    protections: int = database.read("SELECT count(*) AS total FROM protections")[0].total
    remark = f"{counted(protections, 'protection')} of records"
    yield _graded("protections", remark, protections > 0, _UNPROTECTED)
    unsigned = [repr(row.name) for row in database.read(_OPEN)]
    remark = f"without a signing key: {first_few(unsigned, _MOST_NAMED) or 'none'}"
    yield _graded("webhooks", remark, not unsigned, "a receiver cannot tell who sent an event: set signing_key")
