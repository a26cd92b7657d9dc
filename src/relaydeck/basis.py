"""On whose word each part of the interface rests: the contract's, or a ruling where the contract leaves it open."""

from typing import Literal, NamedTuple


class Word(NamedTuple):
    """`place`: a section of the contract, or the first cell of a row of `docs/open-items.md`."""

    source: Literal["contract", "ruling"]
    place: str

    def __str__(self) -> str:
        return f"contract, section {self.place}" if self.source == "contract" else f"ruling: {self.place}"


Words = tuple[Word, ...]  # joined with `+` where a part rests on several


def contract(section: str) -> Words:
    """The contract shows it in this section."""
    return (Word("contract", section),)


def ruling(item: str) -> Words:
    """The contract leaves it open; this row of the open items says what Relaydeck does."""
    return (Word("ruling", item),)


def in_words(words: Words) -> str:
    return "; ".join(map(str, words))


class Basis(NamedTuple):
    """The words of one field. `value`: empty if any value of the type is accepted."""

    presence: Words
    type: Words
    meaning: Words
    value: Words = ()

    def parts(self) -> dict[str, str]:
        """For a document: each part of the field with its words."""
        named = {"presence": self.presence, "type": self.type, "value": self.value, "meaning": self.meaning}
        return {name: in_words(words) for name, words in named.items() if words}

    def but(self, **parts: Words) -> "Basis":
        """The same, except for these parts."""
        return self._replace(**parts)


def shown(section: str) -> Basis:
    """A field whose presence, type and meaning this section of the contract shows."""
    return Basis(presence=contract(section), type=contract(section), meaning=contract(section))


ALL_POLICIES = ruling("meaning of the policies")
AMOUNT_UNITS = ruling("units of `gas_price_cap` and `min_balance`")
CONFIG_MEANING = ruling("meaning of the fields of a signer's `config`")
DISABLED_REASONS = ruling("disabled reasons beyond `NonceSyncFailed`")
ERROR_ON_SUCCESS = ruling("`error` on success")
FAILURES = ruling("Bad Request or method failure")
FEE_MEANING = ruling("meaning of a fee estimate")
FIELD_LENGTH = ruling("length of a field")
IDENTIFIER_FORM = ruling("form of an identifier")
LARGEST_PAGE = ruling("maximum `per_page`")
LOG_LEVELS = ruling("levels of a log entry")
METADATA = ruling("`metadata`")
NESTED_OBJECTS = ruling("fields of the nested key and service-account objects")
NETWORK_TYPES = ruling("network types beyond `evm` and their policies")
NODE_URLS = ruling("meaning of `custom_rpc_urls`")
OTHER_CONFIGS = ruling("response config of other signer types")
OTHER_OPERATIONS = ruling("operations beyond the five")
OTHER_TYPES = ruling("response types beyond `local`")
PAGE_ZERO = ruling("`page=0`, `per_page=0`")
PAUSED = ruling("who sets `paused`")
RELAYER_PRESENCE = ruling("required relayer fields")
RPC_CODES = ruling("JSON-RPC error codes")
RPC_IDS = ruling("types of the JSON-RPC `id`")
RPC_METHODS = ruling("JSON-RPC methods beyond `feeEstimate`")
RPC_VERSION = ruling("value of `jsonrpc`")
STATUSES = ruling("status codes")
SYSTEM_DISABLED = ruling("who sets and clears `system_disabled`")
TOKENS = ruling("how tokens are issued, their format and scopes")
TRACE_ITEMS = ruling("shape of trace items")
UNKNOWN_FIELDS = ruling("unknown fields, nulls")
UNKNOWN_PATHS = ruling("unknown path, wrong method")
UNUSED_POLICIES = ruling("effect of `min_balance` and `private_transactions`")
URL_FORM = ruling("form of a `url`")
