"""Reads the records of a file that need more than the fields of their type: networks and signers."""

from msgspec import UNSET

from relaydeck.networks.model import FeeToken
from relaydeck.provisioning.declared_records import RECORD_TYPES, SIGNER_FIELDS
from relaydeck.provisioning.reader import Values, read_field, read_values
from relaydeck.provisioning.table import Table
from relaydeck.signers.signer_types import SHAPES


def read_network(name: str, table: Table) -> Values:
    values: Values = {"name": name} | read_values(table, RECORD_TYPES["networks"], key="name")
    _note_ambiguous_tokens(table, values.get("native_symbol", ""), values.get("fee_tokens", ()))
    return values


def _note_ambiguous_tokens(table: Table, native_symbol: str, tokens: tuple[FeeToken, ...]) -> None:
    """An estimate names a fee token by symbol or address, in any case of letters: each must mean one token."""
    owners = {native_symbol.casefold(): "the native coin"}
    for token in tokens:
        for kind, name in (("symbol", token.symbol), ("address", token.address)):
            owner = owners.setdefault(name.casefold(), token.symbol)
            if owner != token.symbol:
                table.note("fee_tokens", f"{token.symbol} has the same {kind} as {owner}")


def read_signer(table: Table) -> Values:
    values = {each.name: value for each in SIGNER_FIELDS if (value := read_field(table, each)) is not UNSET}
    config = table.table("config", required=True)
    table.close()
    shape = SHAPES.get(values.get("type", ""))
    if config is not None and shape is not None:
        values["config"] = read_values(config, shape)
    return values
