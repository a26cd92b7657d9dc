"""Published facts about chains, read from `chains.toml`: presets by name, and the chains that are refused.

A preset gives a network its values; `facts_of` says what else is known about a chain: how the next base fee follows
from a block, the block time, limits. A chain that is not listed has no facts: its base fee is an answer of its nodes
like any other, and the age of its newest block says nothing.
"""

import difflib
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

# eip1559: by the denominator and elasticity of the facts. op_stack: by those in the extra data of the block itself.
# constant: the base fee of the newest block. acp176: by the excess of gas in the extra data of the block, and by the
# time until the next one (Avalanche C).
BaseFeeRule = Literal["eip1559", "op_stack", "constant", "acp176"]
# On what a preset rests: measured on a node; recomputed by a test from the published formula; stated by the chain.
Basis = Literal["measured", "recomputed", "stated"]
GAS_PER_BLOB = 131_072  # EIP-4844
_FILE = Path(__file__).with_name("chains.toml")
_LONGEST_NAME = 100  # that is compared with others: finding similar names takes time
_STALE_BLOCKS = 5
_LEAST_STALE_SECONDS = 30.0  # clocks differ, and a block takes a moment to arrive


class BlobSchedule(msgspec.Struct, frozen=True):
    """Blobs of a block, by EIP-4844, EIP-7691 and EIP-7892, with the reserve price of EIP-7918."""

    target: int
    most: int
    update_fraction: int

    @property
    def target_gas(self) -> int:
        return self.target * GAS_PER_BLOB


class ChainFacts(msgspec.Struct, frozen=True):
    """Each field may be unknown: then what depends on it is asked of the nodes, or not checked."""

    base_fee_rule: BaseFeeRule | None = None  # None: the base fee is an answer like any other
    base_fee_denominator: int = 8
    base_fee_elasticity: int = 2
    base_fee_minimum: int = 0
    blobs: BlobSchedule | None = None
    block_seconds: float | None = None  # None: not known, or there are blocks only when there are transactions
    gas_limit_cap: int | None = None  # of one transaction, by EIP-7825; None: the gas limit of a block
    gas_margin_percent: int = 0  # that senders add to a limit that is charged, or nodes to their estimates

    @property
    def stale_seconds(self) -> float | None:
        """The age at which a newest block is not current. None: no age says so."""
        if self.block_seconds is None:
            return None
        return max(_STALE_BLOCKS * self.block_seconds, _LEAST_STALE_SECONDS)


UNKNOWN = ChainFacts()
FACTS = ChainFacts.__struct_fields__
PRESET_FIELDS = ("network_type", "chain_id", "native_symbol", "fee_model", "tip_floor")  # of a network


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: str
    values: tuple[str, ...]  # the names of the values that were read there


class Preset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    chain_id: int
    native_symbol: str
    fee_model: str
    basis: Basis
    read: date  # when the sources were read
    sources: tuple[Source, ...]
    facts: ChainFacts = UNKNOWN
    tip_floor: int | None = None
    why: str = ""  # why a test recomputes no formula of a chain that only states its values

    def network_values(self) -> dict[str, Any]:
        """What a network gets from it. The facts are not stored: they follow from the chain id."""
        values = ("evm", self.chain_id, self.native_symbol, self.fee_model, self.tip_floor)
        return {name: value for name, value in zip(PRESET_FIELDS, values, strict=True) if value is not None}


class RefusedChain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A chain whose cost cannot be computed."""

    chain_id: int
    reason: str
    read: date
    sources: tuple[Source, ...]


class Chains(NamedTuple):
    presets: dict[str, Preset]
    refused: dict[str, RefusedChain]


@cache
def known_chains() -> Chains:
    import tomllib  # most commands do without

    content = tomllib.loads(_FILE.read_text("utf-8"))
    families = content["families"]
    presets = {name: _preset(chain, families) for name, chain in content["chains"].items()}
    return Chains(presets, msgspec.convert(content["refused"], dict[str, RefusedChain]))


def _preset(chain: dict[str, Any], families: dict[str, dict[str, Any]]) -> Preset:
    """A chain has what its family has, besides its own."""
    family = families[chain["family"]] if "family" in chain else {}
    values = {name: value for name, value in (family | chain).items() if name != "family"}
    values["sources"] = chain["sources"] + family.get("sources", [])
    values["facts"] = {name: values.pop(name) for name in FACTS if name in values}
    return msgspec.convert(values, Preset)


@cache
def _by_id() -> dict[int, tuple[str, Preset]]:
    return {preset.chain_id: (name, preset) for name, preset in known_chains().presets.items()}


def preset_of(chain_id: int) -> tuple[str, Preset] | None:
    """The name and the preset of a chain. None: there is none."""
    return _by_id().get(chain_id)


def facts_of(chain_id: int) -> ChainFacts:
    found = preset_of(chain_id)
    return UNKNOWN if found is None else found[1].facts


def chain_problem(name: str) -> str:
    """Why a network cannot name this chain; empty if it can."""
    chains = known_chains()
    if name in chains.presets:
        return ""
    if name in chains.refused:
        return f"{name} cannot be estimated: {chains.refused[name].reason}"
    close = difflib.get_close_matches(name[:_LONGEST_NAME], [*chains.presets, *chains.refused], n=1, cutoff=0.5)
    return "is not a known chain" + (f"; did you mean {close[0]}?" if close else "")
