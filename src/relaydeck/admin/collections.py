"""The collections of the admin API: where each is stored, and how its rows are shown."""

from collections.abc import Callable
from typing import NamedTuple

from relaydeck.admin.filters import FILTERS, Filter
from relaydeck.admin.record_views import SIGNER_COLUMNS, network_view, notification_view, signer_view
from relaydeck.admin.security_views import AUDIT_COLUMNS, TOKEN_COLUMNS, audit_view, token_view
from relaydeck.admin.views import ShowRow, record_view
from relaydeck.errors import NotificationNotFound, RecordNotFound, RelayerNotFound, RequestError
from relaydeck.networks import network_rows
from relaydeck.notifications import notification_rows
from relaydeck.relayers import relayer_rows


class Collection(NamedTuple):
    table: str
    identity: str
    columns: str
    show: ShowRow
    not_found: Callable[[str], RequestError]

    @property
    def filters(self) -> tuple[Filter, ...]:
        return FILTERS[self.table]


NETWORKS = Collection(
    "networks",
    "name",
    f"{network_rows.COLUMNS}, created_at, revision",
    network_view(network_rows.TABLE),
    lambda _: RecordNotFound("network"),
)
SIGNERS = Collection(
    "signers",
    "id",
    SIGNER_COLUMNS,
    signer_view,
    lambda _: RecordNotFound("signer"),
)
NOTIFICATIONS = Collection(
    "notifications",
    "id",
    f"{notification_rows.COLUMNS}, created_at, revision",
    notification_view,
    lambda _: NotificationNotFound("no notification has this id"),
)
RELAYERS = Collection(
    "relayers",
    "id",
    f"{relayer_rows.COLUMNS}, created_at, revision",
    record_view(relayer_rows.TABLE),
    RelayerNotFound,
)
TOKENS = Collection(
    "tokens",
    "name",
    TOKEN_COLUMNS,
    token_view,
    lambda _: RecordNotFound("token"),
)
AUDIT = Collection("audit", "seq", AUDIT_COLUMNS, audit_view, lambda _: RecordNotFound("audit entry"))
COLLECTIONS = {each.table: each for each in (NETWORKS, SIGNERS, NOTIFICATIONS, RELAYERS, TOKENS, AUDIT)}
