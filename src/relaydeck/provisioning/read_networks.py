"""`[networks.NAME]`: its nodes and its fee tokens."""

import re
from decimal import Decimal
from functools import partial
from typing import cast

from relaydeck.identifiers import identifier_problem
from relaydeck.networks.evm.address import address_problem, checksummed, is_evm_address
from relaydeck.networks.model import GREATEST_CHAIN_ID, CrossedRate, FeedRate, FeeToken, FixedRate, NetworkType, Rate
from relaydeck.provisioning.declared import DeclaredNetwork, DeclaredUrl
from relaydeck.provisioning.mistakes import Mistake
from relaydeck.provisioning.tables import Table
from relaydeck.secret import Secret
from relaydeck.web_addresses import web_address_problem

_AMOUNT = re.compile(r"[0-9]{1,60}(\.[0-9]{1,60})?")
_AMOUNT_EXPECTED = 'a decimal in a string, such as "1.5"'
_SPAN_EXPECTED = 'a time span such as "90s", "5m", "1h" or "1d"'
_SPAN = re.compile(r"([1-9][0-9]{0,8})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_RATES = ("fixed", "feed", "native_usd", "token_usd")
_RATE_EXPECTED = (
    'expected one of { fixed = "…" }, { feed = "0x…", max_age = "1h" } and '
    '{ native_usd = "0x…", token_usd = "0x…", max_age = "1h" }'
)


def read_network(name: str, table: Table) -> DeclaredNetwork:
    network = DeclaredNetwork(
        place=table.place,
        name=name,
        network_type=read_network_type(table),
        chain_id=table.whole("chain_id", least=1, most=GREATEST_CHAIN_ID),
        native_symbol=table.text("native_symbol", check=identifier_problem),
        rpc_urls=read_urls(table, "rpc_urls"),
        fee_tokens=_read_fee_tokens(table),
    )
    table.close()
    _note_ambiguous_tokens(network, table)
    return network


def read_network_type(table: Table) -> NetworkType:
    expected = 'the string "evm", the one network type there is'
    return cast(NetworkType, table.one_of("network_type", ["evm"], expected))


def read_urls(table: Table, key: str) -> tuple[DeclaredUrl, ...]:
    return tuple(url for entry in table.tables(key) if (url := _read_url(entry)) is not None)


def _read_url(entry: Table) -> DeclaredUrl | None:
    url = entry.secret("url")
    weight = entry.whole("weight", least=0, default=1)
    entry.close()
    if isinstance(url, Secret) and (problem := web_address_problem(url.reveal())):
        entry.note("url", problem)
    return None if url is None else DeclaredUrl(url, weight)


def _read_fee_tokens(table: Table) -> tuple[FeeToken, ...]:
    tokens = table.table("fee_tokens")
    if tokens is None:
        return ()
    return tuple(
        token
        for symbol in tokens.keys()  # noqa: SIM118 (a Table is no dict)
        if (entry := tokens.table(symbol)) is not None and (token := _read_fee_token(symbol, entry)) is not None
    )


def _read_fee_token(symbol: str, entry: Table) -> FeeToken | None:
    if problem := identifier_problem(symbol):
        entry.mistakes.append(Mistake(entry.place, f"the symbol {problem}"))
    address = _read_address(entry, "address")
    decimals = entry.whole("decimals", least=0, most=255)
    margin = _read_amount(entry, "margin_percent", required=False)
    rate = _read_rate(entry)
    entry.close()
    return None if rate is None else FeeToken(symbol, address, decimals, rate, margin)


def _read_rate(entry: Table) -> Rate | None:
    table = entry.table("rate", required=True)
    if table is None:
        return None
    given = [key for key in _RATES if table.has(key)]
    if given not in (["fixed"], ["feed"], ["native_usd", "token_usd"]):
        entry.note("rate", _RATE_EXPECTED)
        return None
    rate = _read_given_rate(table, given[0])
    table.close()
    return rate


def _read_given_rate(table: Table, source: str) -> Rate:
    if source == "fixed":
        return FixedRate(_read_amount(table, "fixed", positive=True))
    if source == "feed":
        return FeedRate(_read_address(table, "feed"), _read_span(table), table.flag("inverse", default=False))
    return CrossedRate(_read_address(table, "native_usd"), _read_address(table, "token_usd"), _read_span(table))


def _read_amount(table: Table, key: str, *, required: bool = True, positive: bool = False) -> Decimal:
    """A decimal in a string: a TOML float could not say it exactly."""
    check = partial(_amount_problem, positive=positive)
    text = table.text(key, required=required, check=check, expected=_AMOUNT_EXPECTED)
    return Decimal(text) if _AMOUNT.fullmatch(text) else Decimal(0)


def _amount_problem(text: str, *, positive: bool) -> str:
    if not _AMOUNT.fullmatch(text):
        return f"expected {_AMOUNT_EXPECTED}, without sign or exponent"
    return "must be greater than 0" if positive and not Decimal(text) else ""


def _read_span(table: Table) -> int:
    text = table.text("max_age", check=_span_problem, expected=_SPAN_EXPECTED)
    match = _SPAN.fullmatch(text)
    return int(match[1]) * _SECONDS[match[2]] if match else 0


def _span_problem(text: str) -> str:
    return "" if _SPAN.fullmatch(text) else f"expected {_SPAN_EXPECTED}"


def _read_address(table: Table, key: str) -> str:
    text = table.text(key, check=address_problem)
    return checksummed(text) if is_evm_address(text) else ""


def _note_ambiguous_tokens(network: DeclaredNetwork, table: Table) -> None:
    """A fee token is asked for by symbol or address in any case: each must mean one token."""
    owners = {network.native_symbol.casefold(): "the native coin"}
    for token in network.fee_tokens:
        for what, name in (("symbol", token.symbol), ("address", token.address)):
            owner = owners.setdefault(name.casefold(), token.symbol) if name else token.symbol
            if owner != token.symbol:
                table.note("fee_tokens", f"{token.symbol} has the same {what} as {owner}")
