"""List items and response bodies of the described interface, from stored records."""

from collections.abc import Callable

import msgspec
from msgspec import UNSET

from relaydeck.contract.wire import Signer
from relaydeck.errors import Damaged
from relaydeck.fields import contract_view
from relaydeck.relayers.relayer_rows import from_row, without_urls
from relaydeck.signers.signer_types import SHOWN_FIELDS, response_type
from relaydeck.store.database import Row
from relaydeck.store.listing import Encoded
from relaydeck.store.vault import Vault

_config_from_json = msgspec.json.Decoder(dict[str, str]).decode
_encode = msgspec.json.Encoder().encode


def signer_view(signer_id: str, signer_type: str, config: dict[str, str], *, widened: bool) -> Signer:
    if config and not widened:
        config = {name: config[name] for name in SHOWN_FIELDS if name in config}
    return Signer(signer_id, response_type(signer_type), config)


def signer_encoder(*, widened: bool) -> Callable[[Row], Encoded]:
    def encode(row: Row) -> Encoded:
        return Encoded(_encode(signer_view(row.id, row.type, _config_from_json(row.open_config), widened=widened)))

    return encode


def relayer_encoder(vault: Vault, report: Callable[[Damaged], None]) -> Callable[[Row], Encoded]:
    """Encodes a relayer. One with sealed URLs that do not open is shown without them, with a note."""

    def encode(row: Row) -> Encoded:
        try:
            return Encoded(_encode(contract_view(from_row(row, vault))))
        except Damaged as damage:
            report(damage)
            readable = msgspec.structs.replace(without_urls(row), custom_rpc_urls=UNSET)
            note = "custom_rpc_urls of a relayer on this page cannot be opened and is left out; see the service's log"
            return Encoded(_encode(contract_view(readable)), note)

    return encode
