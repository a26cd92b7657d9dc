"""What commands print with `--json` where the admin API has no such body. `make docs` writes `docs/reference/json.md`.

A command names its shape with `as_json("Name")`: a class of this module, or a schema of the admin API's document.
"""

from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta


def _text(description: str) -> Meta:
    return Meta(description=description)


class Shape(msgspec.Struct, frozen=True):
    """Base of the shapes below."""


class Written(Shape, frozen=True):
    file: Annotated[str, _text("The file that was written.")]
    example: Annotated[str, _text("The example that it contains.")]


class ConsoleLink(Shape, frozen=True):
    link: Annotated[str, _text("Signs its user in to the console: once, within ten minutes.")]


class LogLine(Shape, frozen=True):
    """On standard error, one line for each request and event. Further fields depend on the event."""

    time: Annotated[str, _text("When it happened, in UTC.")]
    level: Annotated[Literal["debug", "info", "warning", "error"], _text("Its level.")]
    event: Annotated[str, _text("What happened.")]


class DemoNode(Shape, frozen=True):
    kind: Annotated[Literal["hardhat", "minimal"], _text("A Hardhat node, or the minimal one of Relaydeck.")]
    url: Annotated[str, _text("Its address.")]
    description: Annotated[str, _text("What it is, in words.")]


class DemoFee(Shape, frozen=True):
    amount: Annotated[Decimal, _text("The estimated fee, as a string.")]
    token: Annotated[str, _text("What it is paid in.")]


class DemoWebhook(Shape, frozen=True):
    id: Annotated[str, _text("The event's identifier.")]
    type: Annotated[str, _text("The event's type.")]
    verified: Annotated[Literal[True], _text("The receiver verified its signature.")]


class Demo(Shape, frozen=True):
    service: Annotated[str, _text("The address of the service.")]
    node: Annotated[DemoNode, _text("The node.")]
    receiver: Annotated[str, _text("The address of the webhook receiver.")]
    applied: Annotated[str, _text("What `relaydeck apply` created.")]
    fee: Annotated[DemoFee, _text("A fee estimate.")]
    webhook: Annotated[DemoWebhook, _text("A delivered webhook.")]


class Finding(Shape, frozen=True):
    result: Annotated[Literal["ok", "warn", "FAIL"], _text("One `FAIL` makes the command exit with 1.")]
    subject: Annotated[str, _text("What was checked.")]
    remark: Annotated[str, _text("What was found, and what to do about it.")]


class BacktestRow(Shape, frozen=True):
    transactions: Annotated[str, _text("Their type and purpose, such as `type 2, call`; or `all`.")]
    count: Annotated[int, _text("How many were estimated.")]
    median_percent: Annotated[str, _text("The median error regardless of sign, as a decimal.")]
    p95_percent: Annotated[str, _text("The error that 95 % of them stay within, regardless of sign.")]
    worst_percent: Annotated[str, _text("The greatest error: positive where the estimate was too high.")]


class BacktestProblem(Shape, frozen=True):
    block: Annotated[int, _text("The block of the transaction.")]
    transactions: Annotated[str, _text("Its type and purpose.")]
    problem: Annotated[str, _text("Why there is no estimate.")]


class Backtest(Shape, frozen=True):
    network: Annotated[str, _text("The network.")]
    rows: Annotated[list[BacktestRow], _text("Each type of transaction, and then all together. Empty: none.")]
    without_estimate: Annotated[list[BacktestProblem], _text("Transactions that could not be estimated.")]


class Deleted(Shape, frozen=True):
    kind: Annotated[str, _text("Such as `relayer`.")]
    name: Annotated[str, _text("The identifier or name of the deleted record.")]


class PauseResult(Shape, frozen=True):
    relayer_id: Annotated[str, _text("The relayer.")]
    paused: Annotated[bool, _text("Whether it is paused now.")]
    changed: Annotated[bool, _text("Whether the command changed that.")]


class IssuedToken(Shape, frozen=True):
    name: Annotated[str, _text("Its name.")]
    kind: Annotated[str, _text("Its kind.")]
    token: Annotated[str, _text("The token itself. It is not shown again.")]


class Revoked(Shape, frozen=True):
    name: Annotated[str, _text("The token that was revoked.")]


class Scheduled(Shape, frozen=True):
    scheduled: Annotated[int, _text("How many deliveries were scheduled again.")]


class AuditHead(Shape, frozen=True):
    head: Annotated[str, _text("The head of the audit log, for `relaydeck audit verify --head`.")]


class Profile(Shape, frozen=True):
    name: Annotated[str, _text("Its name.")]
    url: Annotated[str, _text("The address of the server.")]


class RemovedProfile(Shape, frozen=True):
    name: Annotated[str, _text("The profile that was removed.")]


class WrittenBackup(Shape, frozen=True):
    file: Annotated[str, _text("The file that was written.")]
    tables: Annotated[int, _text("How many tables it contains.")]
    rows: Annotated[int, _text("How many rows it contains.")]
    master_key: Annotated[bool, _text("Whether it contains the master key, sealed with a passphrase.")]


class DrilledTable(Shape, frozen=True):
    table: Annotated[str, _text("Its name.")]
    rows: Annotated[int, _text("How many rows were restored.")]
    digest: Annotated[str, _text("The start of the digest of these rows, in hexadecimal.")]
    same: Annotated[bool, _text("Whether they equal the rows in the backup.")]


class Drill(Shape, frozen=True):
    authentic: Annotated[bool, _text("Whether its MAC shows that a service with the same master key wrote the backup.")]
    tables: Annotated[list[DrilledTable], _text("Every table.")]
    opened: Annotated[int | None, _text("How many sealed values were opened; null without the master key.")]
    problems: Annotated[list[str], _text("What is wrong. One problem makes the command exit with 1.")]


class Copied(Shape, frozen=True):
    database: Annotated[str, _text("The database that was filled, without its password.")]
    tables: Annotated[int, _text("How many tables it contains.")]
    rows: Annotated[int, _text("How many rows it contains.")]
    kept: Annotated[int, _text("How many tables an interrupted earlier run had already copied.")]


class RevokedByRestore(Shape, frozen=True):
    kind: Annotated[str, _text("What was revoked: `token`, `session` or `link` (a sign-in link).")]
    name: Annotated[str, _text("The name of the token, or of the token that the session or link belongs to.")]


class Restored(Shape, frozen=True):
    database: Annotated[str, _text("The database that was filled, without its password.")]
    tables: Annotated[int, _text("How many tables it contains.")]
    rows: Annotated[int, _text("How many rows it contains.")]
    kept: Annotated[int, _text("How many tables an interrupted earlier run had already copied.")]
    authentic: Annotated[bool, _text("Whether its MAC shows that a service with the same master key wrote the backup.")]
    revoked: Annotated[list[RevokedByRestore], _text("What was revoked because the backup is not authentic.")]


class Rotated(Shape, frozen=True):
    resealed: Annotated[int, _text("How many values were sealed with the new data key.")]
    retired: Annotated[int, _text("How many old data keys were removed.")]
    damaged: Annotated[list[str], _text("Values that could not be opened. One makes the command exit with 1.")]


class ConformanceResult(Shape, frozen=True):
    name: Annotated[str, _text("The name of the check.")]
    section: Annotated[str, _text("The section of the contract.")]
    claim: Annotated[str, _text("What is checked.")]
    basis: Annotated[Literal["contract", "ruling"], _text("What the check rests on.")]
    verdict: Annotated[str, _text("`holds`, `FAILS`, `as ruled`, `differs`, `not checked` or `did not occur`.")]
    expected: Annotated[str, _text("What the contract asks for, or what Relaydeck does.")]
    seen: Annotated[str, _text("What this server did, or why the check was not made.")]
    options: Annotated[list[str], _text("The options that would allow the check.")]


class Conformance(Shape, frozen=True):
    url: Annotated[str, _text("The server.")]
    verdict: Annotated[
        Literal["conforms", "does not conform", "incomplete"], _text("The command exits with 0, 1 or 3.")
    ]
    conforms: Annotated[bool, _text("Whether the verdict is `conforms`.")]
    requests: Annotated[int, _text("How many requests were sent.")]
    unanswered: Annotated[int, _text("How many of them got no HTTP response that can be read.")]
    contract: Annotated[
        dict[str, int], _text("Contract checks by verdict: `holds`, `fails`, `not_checked`, `did_not_occur`.")
    ]
    rulings: Annotated[
        dict[str, int], _text("Rulings by verdict: `as_ruled`, `differs`, `not_checked`, `did_not_occur`.")
    ]
    missing_options: Annotated[list[str], _text("The options that would allow more checks.")]
    created_signers: Annotated[list[str], _text("Signers that the run created. The interface cannot delete them.")]
    not_put_back: Annotated[list[str], _text("What the run changed and could not put back.")]
    results: Annotated[list[ConformanceResult], _text("Every check.")]


class ApplyFile(Shape, frozen=True):
    """The tables of an apply file (docs/apply.md) as JSON. A key without records is absent."""

    networks: Annotated[dict[str, dict[str, Any]] | msgspec.UnsetType, _text("Networks by name.")] = msgspec.UNSET
    signers: Annotated[list[dict[str, Any]] | msgspec.UnsetType, _text("Signers.")] = msgspec.UNSET
    notifications: Annotated[list[dict[str, Any]] | msgspec.UnsetType, _text("Notifications.")] = msgspec.UNSET
    relayers: Annotated[list[dict[str, Any]] | msgspec.UnsetType, _text("Relayers.")] = msgspec.UNSET
