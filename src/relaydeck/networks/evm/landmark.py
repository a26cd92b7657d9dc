"""The newest block of a node: its number, base fee and gas limit, and whether its hash fits its content."""

from dataclasses import dataclass, field
from typing import Any

from relaydeck.networks.evm import rlp
from relaydeck.networks.evm.errors import UrlFailed
from relaydeck.networks.evm.questions import Question, read_quantity

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
_NUMBERS = frozenset(
    {"difficulty", "number", "gasLimit", "gasUsed", "timestamp", "baseFeePerGas", "blobGasUsed", "excessBlobGas"}
)


@dataclass(frozen=True, slots=True)
class Landmark:
    number: int
    base_fee: int | None = None  # None: from before EIP-1559, or not known
    gas_limit: int | None = None
    header: dict[str, Any] = field(default_factory=dict, repr=False)  # as the node sent it

    def contradicts(self, other: "Landmark") -> bool:
        """Whether the two cannot be near blocks of one chain."""
        distance = 1 + abs(self.number - other.number)
        return _apart(self.base_fee, other.base_fee, distance) or _apart(self.gas_limit, other.gas_limit, distance)

    @property
    def is_genuine(self) -> bool:
        """Whether the hash fits the content. False also for chains with other fields in their blocks."""
        from relaydeck.networks.evm.keccak import keccak  # only when nodes contradict each other

        names = (*_ALWAYS, *(name for name in _BY_LATER_FORKS if self.header.get(name) is not None))
        try:
            fields = [_header_field(name, self.header[name]) for name in names]
            return bool(keccak(rlp.encode(fields)) == bytes.fromhex(self.header["hash"][2:]))
        except (KeyError, TypeError, ValueError, OverflowError):
            return False


def may_follow(base_fee: int | None, known: int | None, blocks: int) -> bool:
    """Whether a base fee is possible so many blocks before or after a known one. None: not known.

    EIP-1559 moves it by at most an eighth in a block. Twice that leaves room for chains with other parameters.
    """
    return not _apart(base_fee, known, blocks)


def _apart(one: int | None, other: int | None, blocks: int) -> bool:
    if one is None or other is None:
        return False
    low, high = sorted((one, other))
    steps = min(blocks, 40)
    grown: int = 5**steps
    scale: int = 4**steps
    return high * scale > low * grown + 100 * scale  # a base fee near zero moves in whole Wei


def _header_field(name: str, value: str) -> int | bytes:
    return int(value, 16) if name in _NUMBERS else bytes.fromhex(value[2:])


def read_landmark(answer: Any) -> Landmark:
    if not isinstance(answer, dict):
        raise UrlFailed("answered something other than a block")
    base_fee, gas_limit = answer.get("baseFeePerGas"), answer.get("gasLimit")
    return Landmark(
        number=read_quantity(answer.get("number")),
        base_fee=None if base_fee is None else read_quantity(base_fee),
        gas_limit=None if gas_limit is None else read_quantity(gas_limit) or None,
        header={name: answer[name] for name in (*_ALWAYS, *_BY_LATER_FORKS, "hash") if name in answer},
    )


NEWEST_BLOCK: Question[Landmark] = Question("eth_getBlockByNumber", ("latest", False), read_landmark)
