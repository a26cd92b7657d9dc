"""What pages are built from, and the form in which they register."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from relaydeck.console.visit import Visit
from relaydeck.doctor.audit_log import AuditResult
from relaydeck.doctor.finding import Finding
from relaydeck.doctor.shared_run import SharedRun
from relaydeck.fees.estimator import Estimator
from relaydeck.http.pipeline import Reply
from relaydeck.relayers.directory import RelayerDirectory
from relaydeck.relayers.snapshots import GetPool
from relaydeck.settings import Settings

Page = Callable[[Visit], Awaitable[Reply]]
Methods = dict[str, Page]
Pages = dict[str, Methods]  # by path below the console, with `{id}` for an identifier


class Sources(NamedTuple):
    """What the worker lends to the console."""

    revision: Callable[[], int]  # of the database, as far as this worker knows
    pool: GetPool  # the nodes that estimates use
    directory: RelayerDirectory
    estimator: Estimator
    is_stopping: Callable[[], bool]
    examination: SharedRun[list[Finding]]


class PageServices(NamedTuple):
    settings: Settings
    sources: Sources
    verification: SharedRun[AuditResult]  # of the audit log
