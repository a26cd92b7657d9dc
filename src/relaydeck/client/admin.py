"""The operations of `/admin/v1`, as calls. `Client.admin` and `AsyncClient.admin` have a method for each.

Every POST carries an `Idempotency-Key`, so a repeated POST gets the first response and nothing is done twice. A PATCH
with `if_match` is not repeated after an attempt whose effect is not known: the repeat would be refused for the change
that the first attempt made.
"""

import uuid
from collections.abc import Generator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeVar, Unpack

from relaydeck.client.calls import (
    JSON,
    MERGE_PATCH,
    Call,
    Repeat,
    Walk,
    encode,
    header,
    path,
    read_body,
    read_nothing,
    read_one,
    read_page,
    walk_pages,
    walk_sequence,
    with_query,
)
from relaydeck.client.contract import PAGE_SIZE
from relaydeck.client.documents import (
    DeliveryState,
    NetworkChange,
    NetworkDocument,
    NotificationChange,
    Order,
    RelayerChange,
    RelayerDocument,
    RelayerStateName,
    SignerCheckState,
    SignerConfig,
    SignerType,
    TokenKind,
    TokenState,
)
from relaydeck.client.errors import ApiError, NotFound
from relaydeck.client.models import (
    ApplyReport,
    AuditEntry,
    AuditHead,
    AuditVerification,
    BalanceHistory,
    Body,
    Delivery,
    EstimateReport,
    Event,
    Explanation,
    ExportedFile,
    Finding,
    FirstRunways,
    Network,
    NewToken,
    Notification,
    Page,
    Relayer,
    Replayed,
    Runway,
    Signer,
    SignerCheck,
    SignerDriver,
    Token,
)

T = TypeVar("T")


def list_networks(
    *, page: int | None = None, per_page: int | None = None, order: Order | None = None, name: str | None = None
) -> Call[Page[Network]]:
    """One page of the networks; `name` is a part of the name.

    >>> client.admin.list_networks().items[0].chain_id
    11155111
    """
    return _listed("networks", Network, page=page, per_page=per_page, order=order, name=name)


def networks(*, per_page: int = PAGE_SIZE, order: Order | None = None, name: str | None = None) -> Walk[Network]:
    """Every network.

    >>> [network.name for network in client.admin.networks()]
    ['sepolia']
    """
    return walk_pages(lambda page: list_networks(page=page, per_page=per_page, order=order, name=name))


def get_network(name: str) -> Call[Network]:
    """One network; raises `NotFound`.

    >>> client.admin.get_network("sepolia").native_symbol
    'ETH'
    """
    return _found("networks", name, Network)


def create_network(*, idempotency_key: str | None = None, **document: Unpack[NetworkDocument]) -> Call[Network]:
    """Create a network; the fields are those of an apply file.

    >>> client.admin.create_network(name="dev", network_type="evm", chain_id=31337, native_symbol="ETH").name
    'dev'
    """
    return _posted(path("admin", "v1", "networks"), Network, document, idempotency_key)


def update_network(name: str, *, if_match: str | None = None, **change: Unpack[NetworkChange]) -> Call[Network]:
    """Change the given fields (JSON merge patch); None removes a value.

    >>> client.admin.update_network("dev", native_symbol="DEV").native_symbol
    'DEV'
    """
    return _patched("networks", name, Network, change, if_match)


def delete_network(name: str, *, if_match: str | None = None) -> Call[None]:
    """Delete a network; raises `Conflict` while a relayer uses it.

    >>> client.admin.delete_network("dev")
    """
    return _deleted("networks", name, if_match)


def list_signers(
    *,
    page: int | None = None,
    per_page: int | None = None,
    order: Order | None = None,
    type: str | None = None,
    id: str | None = None,
    check: SignerCheckState | None = None,
) -> Call[Page[Signer]]:
    """One page of the signers with every field that is no secret; `id` is a part of the id.

    >>> client.admin.list_signers(type="plain", order="newest").items[-1].id
    'ops'
    """
    return _listed("signers", Signer, page=page, per_page=per_page, order=order, type=type, id=id, check=check)


def signers(
    *,
    per_page: int = PAGE_SIZE,
    order: Order | None = None,
    type: str | None = None,
    id: str | None = None,
    check: SignerCheckState | None = None,
) -> Walk[Signer]:
    """Every signer; `check` is the result of its latest check.

    >>> next(client.admin.signers()).id
    'ops'
    """
    return walk_pages(
        lambda page: list_signers(page=page, per_page=per_page, order=order, type=type, id=id, check=check)
    )


def get_signer(signer_id: str) -> Call[Signer]:
    """One signer; raises `NotFound`.

    >>> client.admin.get_signer("ops").type
    'local'
    """
    return _found("signers", signer_id, Signer)


def create_signer(
    type: SignerType,
    config: SignerConfig | Mapping[str, Any],
    *,
    id: str | None = None,
    idempotency_key: str | None = None,
) -> Call[Signer]:
    """Create a signer; without `id` the service makes one.

    >>> client.admin.create_signer("provider_a_kms", {"key_id": "alias/ops", "region": "eu"}, id="cloud").config
    {'key_id': 'alias/ops', 'region': 'eu'}
    """
    document = {"type": type, "config": config} | ({} if id is None else {"id": id})
    return _posted(path("admin", "v1", "signers"), Signer, document, idempotency_key)


def delete_signer(signer_id: str, *, if_match: str | None = None) -> Call[None]:
    """Delete a signer; raises `Conflict` while a relayer uses it.

    >>> client.admin.delete_signer("cloud")
    """
    return _deleted("signers", signer_id, if_match)


def check_signer(signer_id: str, *, idempotency_key: str | None = None) -> Call[SignerCheck]:
    """Have a signer prove that it reaches its key; raises `NotFound`.

    >>> client.admin.check_signer("ops").outcome
    'ok'
    """
    return _posted(path("admin", "v1", "signers", signer_id, "check"), SignerCheck, None, idempotency_key)


def list_signer_drivers() -> Call[Page[SignerDriver]]:
    """The drivers that are bound to signer types.

    >>> [each.driver for each in client.admin.list_signer_drivers() if each.type == "plain"]
    ['local']
    """
    return Call("GET", path("admin", "v1", "signer-drivers"), read_page(SignerDriver))


def list_notifications(
    *, page: int | None = None, per_page: int | None = None, order: Order | None = None, id: str | None = None
) -> Call[Page[Notification]]:
    """One page of the notifications; `id` is a part of the id.

    >>> client.admin.list_notifications(id="page").total_items
    1
    """
    return _listed("notifications", Notification, page=page, per_page=per_page, order=order, id=id)


def notifications(
    *, per_page: int = PAGE_SIZE, order: Order | None = None, id: str | None = None
) -> Walk[Notification]:
    """Every notification.

    >>> [each.id for each in client.admin.notifications()]
    ['pager']
    """
    return walk_pages(lambda page: list_notifications(page=page, per_page=per_page, order=order, id=id))


def get_notification(notification_id: str) -> Call[Notification]:
    """One notification; raises `NotificationNotFound`.

    >>> client.admin.get_notification("pager").has_signing_key
    True
    """
    return _found("notifications", notification_id, Notification)


def create_notification(
    id: str,
    url: str,
    *,
    type: Literal["webhook"] = "webhook",
    signing_key: str | None = None,
    idempotency_key: str | None = None,
) -> Call[Notification]:
    """Create a notification.

    >>> client.admin.create_notification("night", "https://hooks.example.com/night").has_signing_key
    False
    """
    key = {} if signing_key is None else {"signing_key": signing_key}
    document = {"id": id, "type": type, "url": url} | key
    return _posted(path("admin", "v1", "notifications"), Notification, document, idempotency_key)


def update_notification(
    notification_id: str, *, if_match: str | None = None, **change: Unpack[NotificationChange]
) -> Call[Notification]:
    """Change the given fields (JSON merge patch); here `signing_key=None` removes the key.

    >>> client.admin.update_notification("night", url="https://hooks.example.com/2").url
    'https://hooks.example.com/2'
    """
    return _patched("notifications", notification_id, Notification, change, if_match)


def delete_notification(notification_id: str, *, if_match: str | None = None) -> Call[None]:
    """Delete a notification; raises `Conflict` while a relayer uses it.

    >>> client.admin.delete_notification("night")
    """
    return _deleted("notifications", notification_id, if_match)


def send_test(notification_id: str, *, idempotency_key: str | None = None) -> Call[Event]:
    """Send a test event to a notification.

    >>> client.admin.send_test("pager").type
    'notification.test'
    """
    return _posted(path("admin", "v1", "notifications", notification_id, "test"), Event, None, idempotency_key)


def list_relayers(
    *,
    page: int | None = None,
    per_page: int | None = None,
    order: Order | None = None,
    network: str | None = None,
    state: RelayerStateName | None = None,
    signer_id: str | None = None,
    notification_id: str | None = None,
    name: str | None = None,
) -> Call[Page[Relayer]]:
    """One page of the relayers that pass the filters; `name` is a part of the name.

    >>> client.admin.list_relayers(network="sepolia", state="active").total_items
    1
    """
    narrowed = {"network": network, "state": state, "signer_id": signer_id, "notification_id": notification_id}
    return _listed("relayers", Relayer, page=page, per_page=per_page, order=order, name=name, **narrowed)


def relayers(
    *,
    per_page: int = PAGE_SIZE,
    order: Order | None = None,
    network: str | None = None,
    state: RelayerStateName | None = None,
    signer_id: str | None = None,
    notification_id: str | None = None,
    name: str | None = None,
) -> Walk[Relayer]:
    """Every relayer that passes the filters.

    >>> [relayer.id for relayer in client.admin.relayers(signer_id="ops")]
    ['sepolia-1']
    """
    return walk_pages(
        lambda page: list_relayers(
            page=page,
            per_page=per_page,
            order=order,
            network=network,
            state=state,
            signer_id=signer_id,
            notification_id=notification_id,
            name=name,
        )
    )


def get_relayer(relayer_id: str) -> Call[Relayer]:
    """One relayer; raises `RelayerNotFound`.

    >>> client.admin.get_relayer("sepolia-1").policies.gas_price_cap
    100000000000
    """
    return _found("relayers", relayer_id, Relayer)


def create_relayer(*, idempotency_key: str | None = None, **document: Unpack[RelayerDocument]) -> Call[Relayer]:
    """Create a relayer; the fields are those of an apply file.

    >>> client.admin.create_relayer(
    ...     id="sepolia-2", name="Sepolia two", network="sepolia", network_type="evm", signer_id="ops"
    ... ).address
    '0x2c7536E3605D9C16a7a3D7b1898e529396a65c23'
    """
    return _posted(path("admin", "v1", "relayers"), Relayer, document, idempotency_key)


def update_relayer(relayer_id: str, *, if_match: str | None = None, **change: Unpack[RelayerChange]) -> Call[Relayer]:
    """Change the given fields (JSON merge patch); None removes a value.

    >>> before = client.admin.get_relayer("sepolia-2")
    >>> client.admin.update_relayer("sepolia-2", name="Second", if_match=before.meta.etag).name
    'Second'
    """
    return _patched("relayers", relayer_id, Relayer, change, if_match)


def delete_relayer(relayer_id: str, *, if_match: str | None = None) -> Call[None]:
    """Delete a relayer.

    >>> client.admin.delete_relayer("sepolia-2")
    """
    return _deleted("relayers", relayer_id, if_match)


def pause_relayer(relayer_id: str, *, idempotency_key: str | None = None) -> Call[Relayer]:
    """Pause a relayer; pausing one that is paused changes nothing.

    >>> client.admin.pause_relayer("sepolia-1").paused
    True
    """
    return _posted(path("admin", "v1", "relayers", relayer_id, "pause"), Relayer, None, idempotency_key)


def resume_relayer(relayer_id: str, *, idempotency_key: str | None = None) -> Call[Relayer]:
    """Resume a relayer.

    >>> client.admin.resume_relayer("sepolia-1").paused
    False
    """
    return _posted(path("admin", "v1", "relayers", relayer_id, "resume"), Relayer, None, idempotency_key)


def explain_relayer(relayer_id: str, *, probe: bool = True) -> Call[Explanation]:
    """Why a relayer is in its state, and what each of its nodes answers at this moment, unless `probe` is false.

    >>> client.admin.explain_relayer("sepolia-1").nodes[0].problem
    'refused the connection'
    """
    address = path("admin", "v1", "relayers", relayer_id, "why")
    return Call("GET", with_query(address, probe=None if probe else "false"), read_one(Explanation))


def relayer_balances(
    relayer_id: str, *, start: datetime | None = None, end: datetime | None = None, step: str | None = None
) -> Call[BalanceHistory]:
    """The balance history of a relayer: by default of the last day; `step` is a span such as `"10m"`.

    >>> client.admin.relayer_balances("sepolia-1", step="1h").points[0].balance is None
    True
    """
    moments = {"from": start and start.isoformat(), "to": end and end.isoformat()}
    target = with_query(path("admin", "v1", "relayers", relayer_id, "balances"), **moments, step=step)
    return Call("GET", target, read_one(BalanceHistory))


def relayer_runway(relayer_id: str) -> Call[Runway]:
    """How long the balance of a relayer lasts, as of now.

    >>> client.admin.relayer_runway("sepolia-1").unknown
    'no balance was read yet'
    """
    return Call("GET", path("admin", "v1", "relayers", relayer_id, "runway"), read_one(Runway))


def first_runways(*, first: int | None = None) -> Call[FirstRunways]:
    """The relayers that run out first, the first one first; `first` is how many.

    >>> client.admin.first_runways(first=3).runways
    ()
    """
    return Call("GET", with_query(path("admin", "v1", "runways"), first=first), read_one(FirstRunways))


def explain_estimate(relayer_id: str, transaction: str, *, token: str | None = None) -> Call[EstimateReport]:
    """A fee estimate with every step; raises `RelayerNotFound`.

    >>> client.admin.explain_estimate("sepolia-1", TRANSACTION).steps[0]["step"]
    'inputs'
    """
    document = {"transaction": transaction} | ({} if token is None else {"token": token})
    target = path("admin", "v1", "relayers", relayer_id, "estimate")
    return Call("POST", target, read_one(EstimateReport), encode(document), JSON)


def list_tokens(
    *,
    page: int | None = None,
    per_page: int | None = None,
    order: Order | None = None,
    kind: TokenKind | None = None,
    state: TokenState | None = None,
    name: str | None = None,
) -> Call[Page[Token]]:
    """One page of the tokens; `name` is a part of the name.

    >>> client.admin.list_tokens(kind="admin").items[0].state
    'live'
    """
    return _listed("tokens", Token, page=page, per_page=per_page, order=order, kind=kind, state=state, name=name)


def tokens(
    *,
    per_page: int = PAGE_SIZE,
    order: Order | None = None,
    kind: TokenKind | None = None,
    state: TokenState | None = None,
    name: str | None = None,
) -> Walk[Token]:
    """Every token.

    >>> len(list(client.admin.tokens(kind="admin")))
    1
    """
    return walk_pages(
        lambda page: list_tokens(page=page, per_page=per_page, order=order, kind=kind, state=state, name=name)
    )


def create_token(
    name: str, *, kind: TokenKind = "api", expires: str | None = None, idempotency_key: str | None = None
) -> Call[NewToken]:
    """Issue a token; `expires` is a span such as `"30d"`. The service does not show `token` again.

    >>> client.admin.create_token("ci", kind="readonly", expires="30d")
    NewToken(name='ci', kind='readonly', token='***')
    """
    document = {"name": name, "kind": kind} | ({} if expires is None else {"expires": expires})
    return _posted(path("admin", "v1", "tokens"), NewToken, document, idempotency_key)


def revoke_token(name: str) -> Call[None]:
    """Revoke a token: the service refuses it from the next request on.

    >>> client.admin.revoke_token("ci")
    """
    return _deleted("tokens", name, None)


def list_events(
    *,
    after: int = 0,
    before: int | None = None,
    relayer_id: str | None = None,
    order: Order | None = None,
    per_page: int | None = None,
) -> Call[Page[Event]]:
    """The events between two sequence numbers, oldest first unless `order` is `newest`.

    >>> [event.type for event in client.admin.list_events(per_page=1)]
    ['notification.test']
    """
    narrowed = {"before": before, "relayer_id": relayer_id, "order": order}
    target = with_query(path("admin", "v1", "events"), after=after, per_page=per_page, **narrowed)
    return Call("GET", target, read_page(Event))


def events(*, after: int = 0, per_page: int = PAGE_SIZE, relayer_id: str | None = None) -> Walk[Event]:
    """Every event that follows sequence number `after`.

    >>> [event.sequence for event in client.admin.events()][:2]
    [1, 2]
    """
    return walk_sequence(lambda last: list_events(after=last, per_page=per_page, relayer_id=relayer_id), after)


def get_event(event_id: str) -> Call[Event]:
    """One event; raises `NotFound`.

    >>> client.admin.get_event(next(client.admin.events()).id).sequence
    1
    """
    return _found("events", event_id, Event)


def list_deliveries(
    *,
    after: int = 0,
    before: int | None = None,
    order: Order | None = None,
    per_page: int | None = None,
    state: DeliveryState | None = None,
    notification_id: str | None = None,
    relayer_id: str | None = None,
) -> Call[Page[Delivery]]:
    """The deliveries between two sequence numbers, oldest first unless `order` is `newest`.

    >>> client.admin.list_deliveries(notification_id="pager", per_page=1).items[0].type
    'notification.test'
    """
    span = {"after": after, "before": before, "order": order, "per_page": per_page}
    narrowed = {"state": state, "notification_id": notification_id, "relayer_id": relayer_id}
    target = with_query(path("admin", "v1", "deliveries"), **span, **narrowed)
    return Call("GET", target, read_page(Delivery))


def deliveries(
    *,
    after: int = 0,
    per_page: int = PAGE_SIZE,
    state: DeliveryState | None = None,
    notification_id: str | None = None,
    relayer_id: str | None = None,
) -> Walk[Delivery]:
    """Every delivery that passes the filters.

    >>> len(list(client.admin.deliveries(relayer_id="sepolia-1")))
    2
    """
    return walk_sequence(
        lambda last: list_deliveries(
            after=last, per_page=per_page, state=state, notification_id=notification_id, relayer_id=relayer_id
        ),
        after,
    )


def get_delivery(delivery_id: str) -> Call[Delivery]:
    """One delivery with each attempt; raises `NotFound`.

    >>> client.admin.get_delivery(next(client.admin.deliveries()).id).sequence
    1
    """
    return _found("deliveries", delivery_id, Delivery)


def replay_delivery(delivery_id: str, *, idempotency_key: str | None = None) -> Call[Delivery]:
    """Deliver an event again; raises `Conflict` if its delivery is already due.

    >>> from relaydeck.client import NotFound
    >>> try:
    ...     client.admin.replay_delivery("evt_0")
    ... except NotFound as error:
    ...     print(error.status)
    404
    """
    return _posted(path("admin", "v1", "deliveries", delivery_id, "replay"), Delivery, None, idempotency_key)


def replay_dead(*, idempotency_key: str | None = None) -> Call[Replayed]:
    """Deliver every event again whose delivery was given up.

    >>> client.admin.replay_dead().replayed
    0
    """
    return _posted(path("admin", "v1", "deliveries", "replay"), Replayed, None, idempotency_key)


def list_audit(
    *,
    page: int | None = None,
    per_page: int | None = None,
    order: Order | None = None,
    actor: str | None = None,
    action: str | None = None,
    record: str | None = None,
    after: int | None = None,
) -> Call[Page[AuditEntry]]:
    """One page of the audit log.

    >>> client.admin.list_audit(record="pager", action="notification.created").total_items
    1
    """
    narrowed = {"actor": actor, "action": action, "record": record, "after": after}
    return _listed("audit", AuditEntry, page=page, per_page=per_page, order=order, **narrowed)


def audit(
    *,
    per_page: int = PAGE_SIZE,
    order: Order | None = None,
    actor: str | None = None,
    action: str | None = None,
    record: str | None = None,
    after: int | None = None,
) -> Walk[AuditEntry]:
    """Every audit entry that passes the filters, oldest first.

    >>> next(client.admin.audit()).sequence
    1
    """
    return walk_pages(
        lambda page: list_audit(
            page=page, per_page=per_page, order=order, actor=actor, action=action, record=record, after=after
        )
    )


def get_audit_head() -> Call[AuditHead]:
    """The end of the audit log. Stored elsewhere, it shows later that entries were removed.

    >>> client.admin.get_audit_head().head.partition(":")[0].isdecimal()
    True
    """
    return Call("GET", path("admin", "v1", "audit", "head"), read_one(AuditHead))


def verify_audit(*, head: str | None = None) -> Call[AuditVerification]:
    """Verify every link of the audit log, and that it contains an earlier `head`.

    >>> client.admin.verify_audit(head=client.admin.get_audit_head().head).problem is None
    True
    """
    return Call("GET", with_query(path("admin", "v1", "audit", "verify"), head=head), read_one(AuditVerification))


def run_doctor() -> Call[Page[Finding]]:
    """What `relaydeck doctor` finds on the server. It takes as long as its slowest check.

    >>> [each.remark for each in client.admin.run_doctor() if each.subject == "relayers"]
    ['no relayer is disabled']
    """
    return Call("GET", path("admin", "v1", "doctor"), read_page(Finding))


def apply(
    document: Mapping[str, Any],
    *,
    references: Sequence[Mapping[str, str]] = (),
    prune: bool = False,
    plan_only: bool = False,
    if_match: str | None = None,
    idempotency_key: str | None = None,
) -> Call[ApplyReport]:
    """Make the records match the content of an apply file, all of it or nothing.

    A reference in the document needs its value in `references`. With the `revision` of an earlier plan as `if_match`,
    another plan is not applied: `PreconditionFailed`, whose `problem["records"]` lists the records that differ and
    `problem["changes"]` what has changed since.

    >>> document = {"notifications": [{"id": "n9", "type": "webhook", "url": "https://hooks.example.com/"}]}
    >>> plan = client.admin.apply(document, plan_only=True)
    >>> client.admin.apply(document, if_match=plan.revision).steps[0].action
    'create'
    >>> client.admin.apply(document).steps
    ()
    """
    content = {"document": document, "references": references, "prune": prune, "plan_only": plan_only}
    call = _posted(path("admin", "v1", "apply"), ApplyReport, content, idempotency_key)
    return call if if_match is None else call._replace(headers={**call.headers, **header("If-Match", if_match)})


def export() -> Call[ExportedFile]:
    """The stored records as an apply file, with references in place of secrets.

    >>> client.admin.export().toml.splitlines()[0]
    '[networks.sepolia]'
    """
    return Call("GET", path("admin", "v1", "export"), read_one(ExportedFile))


def request(
    method: Literal["GET", "POST", "PATCH", "DELETE"],
    *segments: str,
    query: Mapping[str, object] | None = None,
    document: object = None,
    if_match: str | None = None,
    idempotency_key: str | None = None,
) -> Call[Body]:
    """Any operation below `/admin/v1`, with JSON values: for fields and operations that have no type here.

    >>> client.admin.request("GET", "relayers", "sepolia-1").data["name"]
    'Sepolia one'
    """
    target = with_query(path("admin", "v1", *segments), **(query or {}))
    headers = {} if if_match is None else header("If-Match", if_match)
    if method == "GET":
        return Call(method, target, read_body, None, headers)
    if method == "POST":
        headers |= header("Idempotency-Key", str(uuid.uuid4()) if idempotency_key is None else idempotency_key)
    content = b"" if document is None else encode(document)
    if document is not None:
        headers |= MERGE_PATCH if method == "PATCH" else JSON
    repeat = Repeat.SAME if method == "POST" or if_match is None else Repeat.NEVER
    return Call(method, target, read_body, content, headers, repeat)


def _listed(resource: str, record: type[T], /, **query: object) -> Call[Page[T]]:
    return Call("GET", with_query(path("admin", "v1", resource), **query), read_page(record))


def _found(resource: str, name: str, kind: type[T]) -> Call[T]:
    return Call("GET", path("admin", "v1", resource, name), read_one(kind))


def _posted(target: str, kind: type[T], document: object, key: str | None) -> Call[T]:
    headers = header("Idempotency-Key", str(uuid.uuid4()) if key is None else key)
    if document is None:
        return Call("POST", target, read_one(kind), b"", headers, Repeat.SAME)
    return Call("POST", target, read_one(kind), encode(document), headers | JSON, Repeat.SAME)


def _patched(resource: str, name: str, kind: type[T], change: object, if_match: str | None) -> Call[T]:
    repeat = Repeat.SAME if if_match is None else Repeat.NEVER
    headers = MERGE_PATCH if if_match is None else MERGE_PATCH | header("If-Match", if_match)
    return Call("PATCH", path("admin", "v1", resource, name), read_one(kind), encode(change), headers, repeat)


def _deleted(resource: str, name: str, if_match: str | None) -> Call[None]:
    headers = {} if if_match is None else header("If-Match", if_match)
    return Call("DELETE", path("admin", "v1", resource, name), read_nothing, None, headers, Repeat.SAME, _gone)


def _gone(error: ApiError) -> Generator[Call[Any], Any, None]:
    """A record that a repeated delete does not find was deleted by an attempt before it."""
    if not isinstance(error, NotFound):
        raise error
    return
    yield  # makes this a generator: it needs no further call
