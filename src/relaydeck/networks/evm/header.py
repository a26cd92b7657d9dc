"""The header of a block: whether its hash fits, and the fees of the next block by the rule of its chain."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msgspec.structs import replace

from relaydeck.networks.chains import GAS_PER_BLOB, BlobSchedule, ChainFacts
from relaydeck.networks.evm import rlp
from relaydeck.networks.evm.address import keccak
from relaydeck.networks.evm.errors import UrlFailed
from relaydeck.networks.evm.questions import QUANTITY, Question, read_quantity

# The fields of a block's header, in the order in which its hash covers them.
_ALWAYS = (
    "parentHash",
    "sha3Uncles",
    "miner",
    "stateRoot",
    "transactionsRoot",
    "receiptsRoot",
    "logsBloom",
    "difficulty",
    "number",
    "gasLimit",
    "gasUsed",
    "timestamp",
    "extraData",
    "mixHash",
    "nonce",
)
_BY_LATER_FORKS = (
    "baseFeePerGas",
    "withdrawalsRoot",
    "blobGasUsed",
    "excessBlobGas",
    "parentBeaconBlockRoot",
    "requestsHash",
)
_OF_AVALANCHE = ("timestampMilliseconds",)
_NUMBERS = frozenset(
    {"difficulty", "number", "gasLimit", "gasUsed", "timestamp", "baseFeePerGas", "blobGasUsed", "excessBlobGas"}
)
_BLOB_BASE_COST = 1 << 13  # of EIP-7918
_ACP176_STATE, _ACP176_LEAST_TARGET = 24, 1_000_000  # bytes; gas for each second
_MOST_POWER = 100  # of e in a price: no chain has a higher one, and it would take long to compute
_YEAR_10000 = 253_402_300_800  # seconds since 1970
_HOLOCENE, _JOVIAN = (0, 9), (1, 17)  # version and length of the extra data of OP-stack blocks


@dataclass(frozen=True, slots=True)
class Header:
    number: int
    base_fee: int | None = None  # None: from before EIP-1559, or not known
    gas_limit: int | None = None
    fields: dict[str, Any] = field(default_factory=dict, repr=False)  # as the node sent it

    @property
    def hash(self) -> str:
        return str(self.fields.get("hash", ""))

    @property
    def shown(self) -> str:
        return f"block {self.number} {self.hash[:10]}".rstrip()

    @property
    def parent(self) -> str:
        return str(self.fields.get("parentHash", ""))

    @property
    def timestamp(self) -> int | None:
        """None also for a year of more than four digits, which no block has."""
        found = self.amount("timestamp")
        return found if found is not None and found < _YEAR_10000 else None

    @property
    def milliseconds(self) -> int | None:
        """The timestamp, as exact as the block says it."""
        exact = self.amount("timestampMilliseconds")
        return exact if exact is not None or self.timestamp is None else 1000 * self.timestamp

    @property
    def extra_data(self) -> bytes:
        """Empty: the block has none, or something else in its place."""
        try:
            return bytes.fromhex(self.fields["extraData"][2:])
        except (KeyError, TypeError, ValueError):
            return b""

    def amount(self, name: str) -> int | None:
        """None: the block has no such field, or something else in its place."""
        value = self.fields.get(name)
        return int(value, 16) if isinstance(value, str) and QUANTITY.match(value) else None

    @property
    def is_genuine(self) -> bool:
        """Whether the hash fits the content. False also for chains with other fields in their blocks."""
        try:
            return bool(keccak(rlp.encode(header_fields(self.fields))) == bytes.fromhex(self.fields["hash"][2:]))
        except (KeyError, TypeError, ValueError, OverflowError):
            return False


def header_fields(block: dict[str, Any]) -> list[int | bytes]:
    """What the hash of a block covers."""
    names = (*_ALWAYS, *(name for name in _BY_LATER_FORKS if block.get(name) is not None))
    return [int(block[name], 16) if name in _NUMBERS else bytes.fromhex(block[name][2:]) for name in names]


def read_header(answer: Any) -> Header:
    if not isinstance(answer, dict):
        raise UrlFailed("answered something other than a block")
    base_fee, gas_limit = answer.get("baseFeePerGas"), answer.get("gasLimit")
    return Header(
        number=read_quantity(answer.get("number")),
        base_fee=None if base_fee is None else read_quantity(base_fee),
        gas_limit=None if gas_limit is None else read_quantity(gas_limit) or None,
        fields={name: answer[name] for name in (*_ALWAYS, *_BY_LATER_FORKS, *_OF_AVALANCHE, "hash") if name in answer},
    )


def block_question(block: str) -> Question[Header]:
    return Question("eth_getBlockByNumber", (block, False), read_header)


NEWEST_BLOCK = block_question("latest")

# -- The fees of the next block --


class _Parameters(NamedTuple):
    denominator: int
    elasticity: int
    least: int  # base fee
    used: int  # gas that counts


def next_base_fee(header: Header, facts: ChainFacts, milliseconds: int = 0) -> int | None:
    """The base fee of the block after this one. None: the chain's rule is not known, or the block lacks a field.

    `milliseconds`: until that block; only some rules depend on it.
    """
    if facts.base_fee_rule == "acp176":
        return _acp176_base_fee(header.extra_data, milliseconds)
    return base_fee_after(header, facts, 0)


def base_fee_after(header: Header, facts: ChainFacts, full: int) -> int | None:
    """The same, if so many full blocks follow this one first: no base fee can be higher by then."""
    if facts.base_fee_rule == "constant":
        return header.base_fee
    by, base, limit = _parameters(header, facts), header.base_fee, header.gas_limit
    if by is None or base is None or limit is None or not (target := limit // by.elasticity):
        return None
    for used in (by.used, *[limit] * full):
        change = base * abs(used - target) // target // by.denominator
        base = max(by.least, base + max(change, 1) if used > target else base - change)
    return base


def _parameters(header: Header, facts: ChainFacts) -> _Parameters | None:
    used = header.amount("gasUsed")
    if used is None:
        return None
    if facts.base_fee_rule == "eip1559":
        return _Parameters(facts.base_fee_denominator, facts.base_fee_elasticity, facts.base_fee_minimum, used)
    return _op_stack_parameters(header, used) if facts.base_fee_rule == "op_stack" else None


def _op_stack_parameters(header: Header, used: int) -> _Parameters | None:
    """From the extra data of the block: version, denominator, elasticity; since Jovian also the least base fee."""
    extra = header.extra_data
    form, least = (extra[0], len(extra)) if extra else (-1, 0), 0
    if form == _JOVIAN:
        least = int.from_bytes(extra[9:], "big")
        used = max(used, header.amount("blobGasUsed") or 0)  # there it is the footprint of the block's data
    elif form != _HOLOCENE:
        return None
    denominator, elasticity = int.from_bytes(extra[1:5], "big"), int.from_bytes(extra[5:9], "big")
    return _Parameters(denominator, elasticity, least, used) if denominator and elasticity else None


def next_blob_base_fee(header: Header, facts: ChainFacts, full: int = 0) -> int | None:
    """`full`: so many blocks with as many blobs as fit follow this one first."""
    excess, blobs = next_excess_blob_gas(header, facts), facts.blobs
    if excess is None or blobs is None:
        return None
    return _blob_base_fee(excess + full * (blobs.most - blobs.target) * GAS_PER_BLOB, blobs)


def next_excess_blob_gas(header: Header, facts: ChainFacts) -> int | None:
    """By EIP-4844, with the reserve price of EIP-7918. None: the chain has no blobs, or its schedule is not known."""
    schedule, excess, used = facts.blobs, header.amount("excessBlobGas"), header.amount("blobGasUsed")
    if schedule is None or excess is None or used is None or header.base_fee is None:
        return None
    if excess + used < schedule.target_gas:
        return 0
    if _BLOB_BASE_COST * header.base_fee > GAS_PER_BLOB * _blob_base_fee(excess, schedule):
        return excess + used * (schedule.most - schedule.target) // schedule.most
    return excess + used - schedule.target_gas


def _blob_base_fee(excess: int, schedule: BlobSchedule) -> int:
    return _exponential(1, excess, schedule.update_fraction)


def _exponential(factor: int, numerator: int, denominator: int) -> int:
    """EIP-4844's approximation of factor × e to the power of numerator / denominator, in integers."""
    numerator = min(numerator, _MOST_POWER * denominator)
    found, step, number = 0, factor * denominator, 1
    while step > 0:
        found += step
        step = step * numerator // (denominator * number)
        number += 1
    return found // denominator


def _acp176_base_fee(extra: bytes, milliseconds: int) -> int | None:
    """By ACP-176, as ava-labs/coreth keeps its state: gas capacity, excess of gas, excess of the target. The excess
    falls by the target each second, since Granite each millisecond."""
    if len(extra) < _ACP176_STATE:
        return None
    excess, target_excess = int.from_bytes(extra[8:16], "big"), int.from_bytes(extra[16:24], "big")
    target = _exponential(_ACP176_LEAST_TARGET, target_excess, 1 << 25)
    return _exponential(1, max(0, excess - target // 1000 * milliseconds), 87 * target)


def expected_base_fee(before: Header, header: Header, facts: ChainFacts) -> int | None:
    """What the base fee of a block has to be by the rule, after the block before it. None: nothing says."""
    if header.number != before.number + 1 or header.parent != before.hash:
        return None
    return next_base_fee(before, facts, (header.milliseconds or 0) - (before.milliseconds or 0))


def fitting_facts(facts: ChainFacts, before: Header, header: Header) -> ChainFacts:
    """The facts without a rule that does not lead from one block to the next: the chain has changed it."""
    if header.number != before.number + 1 or header.parent != before.hash:
        return facts
    if expected_base_fee(before, header, facts) not in (None, header.base_fee):
        facts = replace(facts, base_fee_rule=None)
    if next_excess_blob_gas(before, facts) not in (None, header.amount("excessBlobGas")):
        facts = replace(facts, blobs=None)
    return facts
