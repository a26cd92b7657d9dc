"""What pages are built from, and the form in which they register."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

from relaydeck.console.visit import Read, Visit
from relaydeck.doctor.audit_log import AuditResult, verify_stored_audit
from relaydeck.doctor.finding import Finding
from relaydeck.doctor.shared_run import SharedRun
from relaydeck.fees.estimator import Estimator
from relaydeck.http.pipeline import Find, Reply
from relaydeck.settings import Settings
from relaydeck.store.audit import AuditLog
from relaydeck.store.writer import Writer

Page = Callable[[Visit], Awaitable[Reply]]
Methods = dict[str, Page]
Pages = dict[str, Methods]  # by path below the console, with `{id}` for an identifier


class Sources(NamedTuple):
    """What the worker lends to the console."""

    settings: Settings
    writer: Writer
    find_admin: Find  # finds operations of the admin API
    read: Read  # reads the database in the thread of the admin API
    audit: AuditLog  # with the origin of changes by the console
    revision: Callable[[], int]  # of the database, as far as this worker knows
    is_stopping: Callable[[], bool]
    estimator: Estimator
    examination: SharedRun[list[Finding]]


class PageServices(NamedTuple):
    settings: Settings
    estimator: Estimator
    is_stopping: Callable[[], bool]
    examination: SharedRun[list[Finding]]
    verification: SharedRun[AuditResult]  # of the audit log


def page_services(sources: Sources) -> PageServices:
    verification = SharedRun(partial(verify_stored_audit, sources.settings), "audit-verification")
    return PageServices(sources.settings, sources.estimator, sources.is_stopping, sources.examination, verification)
