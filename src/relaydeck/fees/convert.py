"""From Wei to fee tokens."""

from relaydeck.fees.errors import InvalidParams
from relaydeck.fees.exact import Exact, round_up
from relaydeck.networks.model import FeeToken, Network

NATIVE_DECIMALS = 18  # of every EVM network's coin


def find_token(network: Network, name: str) -> FeeToken | None:
    """The token by symbol or contract address, in any case; None is the native coin."""
    if name == network.native_symbol:
        return None
    for token in network.fee_tokens:
        if name == token.symbol:
            return token
    wanted = name.casefold()
    if wanted == network.native_symbol.casefold():
        return None
    for token in network.fee_tokens:
        if wanted in (token.symbol.casefold(), token.address.casefold()):
            return token
    raise InvalidParams("fee_token is neither the network's native symbol nor one of its fee tokens")


def fee_in_token(wei: int, rate: Exact, decimals: int) -> Exact:
    """Exact until the one rounding at the end, which is up: never in the payer's favour."""
    return round_up(Exact(wei, NATIVE_DECIMALS).times(rate), decimals)
