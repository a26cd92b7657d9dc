# Generated from `relaydeck.api.operations` by `make docs`: do not edit.
# fmt: off
# mypy: disable-error-code="empty-body"
"""The operations of `/admin/v1`. `Client.admin` and `AsyncClient.admin` have these methods."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Unpack

from relaydeck.client import records
from relaydeck.client.calls import Page, sends, walk


class AdminOperations:
    @sends("GET", "networks")
    def list_networks(
        self, *, page: int | None = None, per_page: int | None = None, order: Literal["oldest", "newest"] | None = None,
        name: str | None = None, problem: Literal["any", "none"] | None = None, label: str | None = None
    ) -> Page[records.Network]:
        """List networks.

        `name`: Only those with this text in their name, in upper or lower case.
        `problem`: `any`: only those that fail, because no node of them answers the monitor for a relayer that
            uses them; `none`: only the others.
        `label`: Only those with each of these labels.
        """

    networks = walk(list_networks)

    @sends("POST", "networks", "reason")
    def create_network(
        self, name: str, chain_id: int | None = None, native_symbol: str | None = None, *,
        network_type: Literal["evm"] = "evm", reason: str | None = None, idempotency_key: str | None = None,
        **more: Unpack[records.NetworkOptions]
    ) -> records.Network:
        """Create a network."""

    @sends("GET", "networks/{name}")
    def get_network(self, name: str) -> records.Network:
        """Read a network. Raises `NotFound`."""

    @sends("PATCH", "networks/{name}", "reason")
    def update_network(
        self, name: str, *, reason: str | None = None, if_match: str | None = None,
        **change: Unpack[records.NetworkChange]
    ) -> records.Network:
        """Change a network. Only the given fields change; None removes a value (JSON merge patch). Raises
        `NotFound`.
        """

    @sends("DELETE", "networks/{name}", "reason")
    def delete_network(self, name: str, *, reason: str | None = None, if_match: str | None = None) -> None:
        """Delete a network. Raises `NotFound`."""

    @sends("GET", "signers")
    def list_signers(
        self, *, page: int | None = None, per_page: int | None = None, order: Literal["oldest", "newest"] | None = None,
        id: str | None = None, type: str | None = None, check: Literal["ok", "failing", "none"] | None = None,
        label: str | None = None
    ) -> Page[records.Signer]:
        """List signers.

        `id`: Only those with this text in their id, in upper or lower case.
        `type`: Only those of this type.
        `check`: Only those with this latest check.
        `label`: Only those with each of these labels.
        """

    signers = walk(list_signers)

    @sends("POST", "signers", "reason")
    def create_signer(
        self, type: records.SignerType, config: records.SignerConfig | Mapping[str, Any], *, id: str | None = None,
        labels: Mapping[str, Any] | None = None, reason: str | None = None, idempotency_key: str | None = None
    ) -> records.Signer:
        """Create a signer."""

    @sends("GET", "signers/{signer_id}")
    def get_signer(self, signer_id: str) -> records.Signer:
        """Read a signer. Raises `NotFound`."""

    @sends("PATCH", "signers/{signer_id}", "reason")
    def update_signer(
        self, signer_id: str, *, labels: Mapping[str, Any] | None = None, reason: str | None = None,
        if_match: str | None = None
    ) -> records.Signer:
        """Change a signer. Only the given fields change; None removes a value (JSON merge patch). Raises
        `NotFound`.
        """

    @sends("DELETE", "signers/{signer_id}", "reason")
    def delete_signer(self, signer_id: str, *, reason: str | None = None, if_match: str | None = None) -> None:
        """Delete a signer. Raises `NotFound`."""

    @sends("POST", "signers/{signer_id}/check")
    def check_signer(self, signer_id: str, *, idempotency_key: str | None = None) -> records.SignerCheck:
        """Check that a signer reaches its key. Raises `NotFound`."""

    @sends("GET", "signer-drivers")
    def list_signer_drivers(self) -> Page[records.SignerDriver]:
        """List the bound drivers."""

    @sends("GET", "notifications")
    def list_notifications(
        self, *, page: int | None = None, per_page: int | None = None, order: Literal["oldest", "newest"] | None = None,
        id: str | None = None, problem: Literal["any", "none"] | None = None, label: str | None = None
    ) -> Page[records.Notification]:
        """List notifications.

        `id`: Only those with this text in their id, in upper or lower case.
        `problem`: `any`: only those that fail, because nothing has arrived since an attempt failed; `none`: only
            the others.
        `label`: Only those with each of these labels.
        """

    notifications = walk(list_notifications)

    @sends("POST", "notifications", "reason")
    def create_notification(
        self, id: str, url: str, *, type: Literal["webhook"] = "webhook", reason: str | None = None,
        idempotency_key: str | None = None, **more: Unpack[records.NotificationOptions]
    ) -> records.Notification:
        """Create a notification."""

    @sends("GET", "notifications/{notification_id}")
    def get_notification(self, notification_id: str) -> records.Notification:
        """Read a notification. Raises `NotificationNotFound`."""

    @sends("PATCH", "notifications/{notification_id}", "reason")
    def update_notification(
        self, notification_id: str, *, reason: str | None = None, if_match: str | None = None,
        **change: Unpack[records.NotificationChange]
    ) -> records.Notification:
        """Change a notification. Only the given fields change; None removes a value (JSON merge patch). Raises
        `NotificationNotFound`.
        """

    @sends("DELETE", "notifications/{notification_id}", "reason")
    def delete_notification(
        self, notification_id: str, *, reason: str | None = None, if_match: str | None = None
    ) -> None:
        """Delete a notification. Raises `NotificationNotFound`."""

    @sends("POST", "notifications/{notification_id}/test")
    def test_notification(self, notification_id: str, *, idempotency_key: str | None = None) -> records.Event:
        """Send a test event. Raises `NotificationNotFound`."""

    send_test = test_notification  # the name of earlier versions

    @sends("POST", "notifications/{notification_id}/send")
    def send_waiting(self, notification_id: str, *, idempotency_key: str | None = None) -> records.Replayed:
        """Send now the events that wait after a failed attempt. Raises `NotificationNotFound`."""

    @sends("GET", "relayers")
    def list_relayers(
        self, *, page: int | None = None, per_page: int | None = None, order: Literal["oldest", "newest", "name",
        "problem", "runway", "balance"] | None = None, name: str | None = None, network: str | None = None,
        state: Literal["active", "paused", "disabled"] | None = None, problem: Literal["disabled", "failing",
        "signer_unreachable", "signer_mismatch", "low_balance", "low_runway", "any", "none"] | None = None,
        signer_id: str | None = None, notification_id: str | None = None, label: str | None = None
    ) -> Page[records.Relayer]:
        """List relayers.

        `name`: Only those with this text in their name, in upper or lower case.
        `network`: Only those on this network.
        `state`: Only those in this state.
        `problem`: Only those with this problem; `any`: with at least one; `none`: without one.
        `signer_id`: Only those that use this signer.
        `notification_id`: Only those with events for this notification.
        `label`: Only those with each of these labels.
        """

    relayers = walk(list_relayers)

    @sends("POST", "relayers", "reason")
    def create_relayer(
        self, name: str, network: str, signer_id: str, *, id: str | None = None, network_type: Literal["evm"] = "evm",
        reason: str | None = None, idempotency_key: str | None = None, **more: Unpack[records.RelayerOptions]
    ) -> records.Relayer:
        """Create a relayer."""

    @sends("GET", "relayers/{relayer_id}")
    def get_relayer(self, relayer_id: str) -> records.Relayer:
        """Read a relayer. Raises `RelayerNotFound`."""

    @sends("PATCH", "relayers/{relayer_id}", "reason")
    def update_relayer(
        self, relayer_id: str, *, reason: str | None = None, if_match: str | None = None,
        **change: Unpack[records.RelayerChange]
    ) -> records.Relayer:
        """Change a relayer. Only the given fields change; None removes a value (JSON merge patch). Raises
        `RelayerNotFound`.
        """

    @sends("DELETE", "relayers/{relayer_id}", "reason")
    def delete_relayer(self, relayer_id: str, *, reason: str | None = None, if_match: str | None = None) -> None:
        """Delete a relayer. Raises `RelayerNotFound`."""

    @sends("POST", "relayers/{relayer_id}/pause")
    def pause_relayer(self, relayer_id: str, *, idempotency_key: str | None = None) -> records.Relayer:
        """Pause a relayer. Raises `RelayerNotFound`."""

    @sends("POST", "relayers/{relayer_id}/resume")
    def resume_relayer(self, relayer_id: str, *, idempotency_key: str | None = None) -> records.Relayer:
        """Resume a relayer. Raises `RelayerNotFound`."""

    @sends("GET", "relayers/{relayer_id}/why")
    def explain_relayer(self, relayer_id: str, *, probe: bool | None = None) -> records.Explanation:
        """Explain a relayer's state. Raises `RelayerNotFound`.

        `probe`: Whether to call each node now: true (the default) or false.
        """

    @sends("GET", "relayers/{relayer_id}/balances", start="from", end="to")
    def get_relayer_balances(
        self, relayer_id: str, *, start: datetime | None = None, end: datetime | None = None, step: str | None = None
    ) -> records.BalanceHistory:
        """Read a relayer's balance history. Raises `RelayerNotFound`.

        `start`: The first moment, as in RFC 3339. Default: a day before `end`.
        `end`: The last moment, as in RFC 3339. Default: now.
        `step`: The time between two points: 90s, 5m, 1h, 1d. Default: a minute, ten minutes, an hour or a day,
            the shortest that makes at most 300 steps.
        """

    relayer_balances = get_relayer_balances  # the name of earlier versions

    @sends("POST", "relayers/{relayer_id}/estimate")
    def explain_estimate(
        self, relayer_id: str, transaction: str, *, token: str | None = None
    ) -> records.EstimateReport:
        """Estimate a fee and show every step. Raises `RelayerNotFound`."""

    @sends("GET", "relayers/{relayer_id}/runway")
    def get_relayer_runway(self, relayer_id: str, *, days: int | None = None) -> records.Runway:
        """Forecast how long a balance lasts. Raises `RelayerNotFound`.

        `days`: How many days `needed` is to last. Default: 30.
        """

    relayer_runway = get_relayer_runway  # the name of earlier versions

    @sends("GET", "runways")
    def list_runways(
        self, *, first: int | None = None, name: str | None = None, network: str | None = None, state: Literal["active",
        "paused", "disabled"] | None = None, problem: Literal["disabled", "failing", "signer_unreachable",
        "signer_mismatch", "low_balance", "low_runway", "any", "none"] | None = None, signer_id: str | None = None,
        notification_id: str | None = None, label: str | None = None, days: int | None = None
    ) -> records.FirstRunways:
        """List what runs out first.

        `first`: How many relayers to return, 1 to 1000. Default: 20.
        `name`: Only those with this text in their name, in upper or lower case.
        `network`: Only those on this network.
        `state`: Only those in this state.
        `problem`: Only those with this problem; `any`: with at least one; `none`: without one.
        `signer_id`: Only those that use this signer.
        `notification_id`: Only those with events for this notification.
        `label`: Only those with each of these labels.
        `days`: How many days `needed` is to last. Default: 30.
        """

    first_runways = list_runways  # the name of earlier versions

    @sends("POST", "apply", "reason")
    def apply(
        self, document: Mapping[str, Any], *, references: Sequence[Mapping[str, Any]] | None = None,
        prune: bool | None = None, plan_only: bool | None = None, reason: str | None = None,
        if_match: str | None = None, idempotency_key: str | None = None
    ) -> records.ApplyReport:
        """Make the records match a document."""

    @sends("GET", "export")
    def export(
        self, *, resource: Literal["networks", "signers", "notifications", "relayers"] | None = None,
        record: str | None = None
    ) -> records.ExportedFile:
        """Write the records as an apply file.

        `resource`: Only records of this kind.
        `record`: Only the record with this id, or this name of a network.
        """

    @sends("GET", "tokens")
    def list_tokens(
        self, *, page: int | None = None, per_page: int | None = None, order: Literal["oldest", "newest"] | None = None,
        name: str | None = None, kind: Literal["api", "readonly", "viewer", "operator", "editor", "owner",
        "admin"] | None = None, state: Literal["live", "expired", "revoked"] | None = None
    ) -> Page[records.Token]:
        """List tokens.

        `name`: Only those with this text in their name, in upper or lower case.
        `kind`: Only those of this kind.
        `state`: Only those in this state.
        """

    tokens = walk(list_tokens)

    @sends("POST", "tokens")
    def create_token(
        self, name: str, *, scope: Mapping[str, Any] | None = None, addresses: Sequence[str] | None = None,
        rate: int | None = None, burst: int | None = None, approve: bool | None = None, kind: Literal["api", "readonly",
        "viewer", "operator", "editor", "owner", "admin"] = "api", expires: str | None = None,
        purpose: str | None = None, idempotency_key: str | None = None
    ) -> records.NewToken:
        """Issue a token."""

    @sends("POST", "tokens/{name}/rotate")
    def rotate_token(
        self, name: str, *, overlap: str | None = None, idempotency_key: str | None = None
    ) -> records.RotatedToken:
        """Give a token a new secret. Raises `NotFound`."""

    @sends("DELETE", "tokens/{name}")
    def revoke_token(self, name: str) -> None:
        """Revoke a token. Raises `NotFound`."""

    @sends("GET", "events")
    def list_events(
        self, *, per_page: int | None = None, order: Literal["oldest", "newest"] | None = None,
        after: int | None = None, before: int | None = None, relayer_id: str | None = None
    ) -> Page[records.Event]:
        """List events.

        `after`: Only those after this sequence number.
        `before`: Only those before this sequence number.
        `relayer_id`: Only those about this relayer.
        """

    events = walk(list_events)

    @sends("GET", "events/{event_id}")
    def get_event(self, event_id: str) -> records.Event:
        """Read an event. Raises `NotFound`."""

    @sends("GET", "deliveries")
    def list_deliveries(
        self, *, per_page: int | None = None, order: Literal["oldest", "newest"] | None = None,
        after: int | None = None, before: int | None = None, state: Literal["pending", "delivered",
        "dead"] | None = None, notification_id: str | None = None, relayer_id: str | None = None
    ) -> Page[records.Delivery]:
        """List deliveries.

        `after`: Only those after this sequence number.
        `before`: Only those before this sequence number.
        `state`: Only those in this state.
        `notification_id`: Only those to this notification.
        `relayer_id`: Only those about this relayer.
        """

    deliveries = walk(list_deliveries)

    @sends("GET", "deliveries/{delivery_id}")
    def get_delivery(self, delivery_id: str) -> records.Delivery:
        """Read a delivery with every attempt. Raises `NotFound`."""

    @sends("POST", "deliveries/{delivery_id}/replay")
    def replay_delivery(self, delivery_id: str, *, idempotency_key: str | None = None) -> records.Delivery:
        """Send a delivery again. Raises `NotFound`."""

    @sends("POST", "deliveries/replay", "notification_id", "relayer_id")
    def replay_dead(
        self, *, notification_id: str | None = None, relayer_id: str | None = None, idempotency_key: str | None = None
    ) -> records.Replayed:
        """Send every dead delivery again.

        `notification_id`: Only those to this notification.
        `relayer_id`: Only those about this relayer.
        """

    @sends("GET", "audit", start="from", end="to")
    def list_audit(
        self, *, page: int | None = None, per_page: int | None = None, order: Literal["oldest", "newest"] | None = None,
        actor: str | None = None, action: str | None = None, record: str | None = None, by: Literal["people",
        "service"] | None = None, start: str | None = None, end: str | None = None, after: int | None = None
    ) -> Page[records.AuditEntry]:
        """List changes.

        `actor`: Only changes by this actor: a person also finds what their tokens did.
        `action`: Only this action, or all about this kind of record: `relayer`.
        `record`: Only changes of this record.
        `by`: Only changes by people and their tokens, without sign-ins; or only those by the service itself.
        `start`: Only changes from this moment or day (UTC) on.
        `end`: Only changes before this moment, or until the end of this day (UTC).
        `after`: Only those after this sequence number.
        """

    audit = walk(list_audit)

    @sends("GET", "audit/head")
    def get_audit_head(self) -> records.AuditHead:
        """Read the head of the audit log."""

    @sends("GET", "audit/verify")
    def verify_audit(self, *, head: str | None = None) -> records.AuditVerification:
        """Verify every link of the audit log.

        `head`: An earlier head, which the log must contain.
        """

    @sends("GET", "whoami")
    def whoami(self) -> records.WhoAmI:
        """Show who you are, your role, and when your access ends."""

    @sends("GET", "find")
    def find(self, *, text: str | None = None, first: int | None = None) -> Page[records.Found]:
        """Find records by part of an id, a name or an address.

        `text`: The beginning of an id, a name or an address, the end of an address, or any part of one of the
            20,000 newest records of a kind. Blanks around it do not count.
        `first`: How many to return, 1 to 100. Default: 20.
        """

    @sends("GET", "problems")
    def list_problems(self) -> Page[records.FleetProblem]:
        """List current problems, by cause."""

    @sends("POST", "problems/{problem_id}/acknowledge")
    def acknowledge_problem(
        self, problem_id: str, note: str, until: str, *, idempotency_key: str | None = None
    ) -> records.FleetProblem:
        """Acknowledge a problem for a while. Raises `NotFound`."""

    @sends("POST", "problems/{problem_id}/reopen")
    def reopen_problem(self, problem_id: str, *, idempotency_key: str | None = None) -> records.FleetProblem:
        """Take back an acknowledgement. Raises `NotFound`."""

    @sends("GET", "protections")
    def list_protections(
        self, *, page: int | None = None, per_page: int | None = None, order: Literal["oldest", "newest"] | None = None,
        name: str | None = None
    ) -> Page[records.Protection]:
        """List protections.

        `name`: Only those with this text in their name, in upper or lower case.
        """

    protections = walk(list_protections)

    @sends("POST", "protections")
    def create_protection(
        self, name: str, *, kinds: Sequence[Literal["network", "signer", "notification", "relayer"]] | None = None,
        scope: Mapping[str, Any] | None = None, note: str | None = None, closed: bool | None = None,
        idempotency_key: str | None = None
    ) -> records.Protection:
        """Protect records."""

    @sends("DELETE", "protections/{name}", "reason")
    def delete_protection(self, name: str, *, reason: str | None = None) -> None:
        """End a protection. Raises `NotFound`."""

    @sends("GET", "proposals")
    def list_proposals(
        self, *, page: int | None = None, per_page: int | None = None, order: Literal["oldest", "newest"] | None = None,
        state: Literal["open", "applied", "forced", "rejected", "withdrawn", "expired"] | None = None,
        author: str | None = None
    ) -> Page[records.Proposal]:
        """List proposed changes.

        `state`: Only those in this state.
        `author`: Only those of this author: a person also finds what their tokens proposed.
        """

    proposals = walk(list_proposals)

    @sends("GET", "proposals/{proposal_id}")
    def get_proposal(self, proposal_id: str) -> records.Proposal:
        """Read a proposed change. Raises `NotFound`."""

    @sends("POST", "proposals/{proposal_id}/approve")
    def approve_proposal(self, proposal_id: str, *, idempotency_key: str | None = None) -> records.Proposal:
        """Approve a change and make it. Raises `NotFound`."""

    @sends("POST", "proposals/{proposal_id}/reject")
    def reject_proposal(self, proposal_id: str, reason: str, *, idempotency_key: str | None = None) -> records.Proposal:
        """Reject a change. Raises `NotFound`."""

    @sends("POST", "proposals/{proposal_id}/withdraw")
    def withdraw_proposal(self, proposal_id: str, *, idempotency_key: str | None = None) -> records.Proposal:
        """Withdraw a change that you proposed. Raises `NotFound`."""

    @sends("POST", "proposals/{proposal_id}/force")
    def force_proposal(self, proposal_id: str, reason: str, *, idempotency_key: str | None = None) -> records.Proposal:
        """Make a change without an approval. Raises `NotFound`."""

    @sends("GET", "doctor")
    def run_doctor(self) -> Page[records.Finding]:
        """Check the service and what it depends on."""
