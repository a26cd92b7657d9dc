"""The newest block that most nodes have, and the base fees that follow from a block."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from msgspec.structs import replace

from relaydeck.networks.chains import UNKNOWN, BlobSchedule, ChainFacts, facts_of
from relaydeck.networks.evm.agreement import FORGED, poll
from relaydeck.networks.evm.errors import NoCurrentBlock, NodesDisagree
from relaydeck.networks.evm.header import (
    Header,
    fitting_facts,
    next_base_fee,
    next_blob_base_fee,
    next_excess_blob_gas,
    read_header,
)
from relaydeck.networks.evm.node import Node
from relaydeck.networks.evm.options import PoolOptions
from relaydeck.networks.model import RpcUrl
from tests.networks.lying_proxy import sealed
from tests.node.process import HARDHAT, running
from tests.support.fee_chain import HARDHAT_KEY, Chain

NODES = [Node(RpcUrl(f"http://node{number}.example"), PoolOptions()) for number in range(5)]


def at(number: int, name: str = "a", parent: str = "") -> Header:
    """Two blocks with the same number and name are the same block."""
    fields = {"hash": f"{name}{number}", "parentHash": parent or f"{name}{number - 1}"}
    return Header(number, 10**9, 30_000_000, fields)


def head(*headers: Header, quorum: int = 1, now: float = 0.0, facts: ChainFacts = UNKNOWN) -> Header:
    return poll(dict(zip(NODES, headers, strict=False)), quorum, facts, now).head({})


@pytest.mark.parametrize("time", ["0x" + "f" * 400, "0x" + "f" * 64, "-0x5", "0x_1", "", 7, None])
def test_a_time_that_no_block_can_have_is_none(time: Any) -> None:
    assert Header(9, fields={"timestamp": time}).timestamp is None


@pytest.mark.parametrize(
    ("headers", "quorum", "newest"),
    [
        ([at(7)], 1, at(7)),
        ([at(7), at(9)], 1, at(9)),  # of two, the newer one
        ([at(8), at(9)], 2, at(8)),  # both have it: the newer block vouches for its parent
        ([at(8), at(9), at(9)], 1, at(9)),
        ([at(8), at(8), at(9)], 2, at(8)),
        ([at(2**50), at(8), at(8)], 2, at(8)),  # one of three far ahead
        ([at(1), at(8), at(8)], 2, at(8)),  # one far behind
        ([at(8, "b"), at(8), at(8)], 1, at(8)),
        ([at(8, "b"), at(8), at(8), at(9), at(9)], 3, at(8)),
        ([Header(9), at(8)], 1, at(8)),  # one that tells only the number of its block
        ([Header(9), Header(9)], 2, Header(9)),
    ],
)
def test_the_newest_block(headers: list[Header], quorum: int, newest: Header) -> None:
    assert head(*headers, quorum=quorum) == newest


@pytest.mark.parametrize(
    ("headers", "quorum"),
    [
        ([at(8), at(8, "b")], 1),
        ([at(8), at(8, "b"), at(8, "c")], 1),
        ([at(8), at(9, "b")], 1),  # a block that does not follow the other
        ([at(8), at(8), at(8, "b"), at(8, "b")], 2),
        ([at(8)], 2),
    ],
)
def test_blocks_on_which_nodes_do_not_agree(headers: list[Header], quorum: int) -> None:
    with pytest.raises(NodesDisagree, match="newest block"):
        head(*headers, quorum=quorum)


def test_a_node_too_far_ahead_is_asked_which_block_it_has() -> None:
    polled = poll(dict(zip(NODES, [at(8), at(8, "b"), at(12)], strict=False)), 1, UNKNOWN, 0.0)
    with pytest.raises(NodesDisagree):
        polled.head({})
    assert polled.unclear() == [NODES[2]]
    assert polled.head({NODES[2]: at(8)}) == at(8)


def test_a_block_that_is_too_old_is_not_current() -> None:
    old = Header(9, fields={"hash": "a9", "timestamp": hex(1000)})
    new = Header(8, fields={"hash": "a8", "timestamp": hex(1100)})
    mainnet = facts_of(1)
    assert head(old, new, now=1060, facts=mainnet) == old
    assert head(old, new, now=1061, facts=mainnet) == new
    with pytest.raises(NoCurrentBlock) as failure:
        head(old, new, now=9000, facts=mainnet)
    assert str(failure.value) == (
        "http://node0.example has no current block: its newest is 8000 seconds old; "
        "http://node1.example has no current block: its newest is 7900 seconds old"
    )
    with pytest.raises(NodesDisagree, match=r"one has a current one; http://node0.example has no current block"):
        head(old, new, quorum=2, now=1061, facts=mainnet)


@pytest.fixture(scope="module")
def chain() -> Iterator[Chain]:
    with running(HARDHAT) as url, closing(Chain(url, HARDHAT_KEY)) as chain:
        yield chain


def test_a_block_that_does_not_fit_its_hash_does_not_count(chain: Chain) -> None:
    block = chain.rpc("eth_getBlockByNumber", "latest", False)
    genuine, forged = read_header(block), read_header({**block, "baseFeePerGas": "0x1"})
    polled = poll({NODES[0]: forged, NODES[1]: genuine}, 1, UNKNOWN, 0.0)
    assert (polled.head({}), polled.problems) == (genuine, {NODES[0]: FORGED})


def test_a_forged_block_with_a_hash_that_fits_is_outvoted(chain: Chain) -> None:
    block = chain.rpc("eth_getBlockByNumber", "latest", False)
    forged = {**block, "baseFeePerGas": "0x1"}
    liar, genuine = read_header({**forged, "hash": sealed(forged)}), read_header(block)
    assert liar.is_genuine
    assert head(liar, genuine, genuine) == genuine
    with pytest.raises(NodesDisagree):
        head(liar, genuine)


@pytest.mark.parametrize("difficulty", ["-0x1", "0xzz", 1, None, [], {}])
def test_a_header_that_cannot_be_hashed_is_not_genuine(chain: Chain, difficulty: Any) -> None:
    block = chain.rpc("eth_getBlockByNumber", "latest", False)
    assert not read_header({**block, "difficulty": difficulty}).is_genuine
    assert not Header(1).is_genuine


def block(base_fee: int, used: int, limit: int = 30_000_000, **fields: Any) -> Header:
    return Header(7, base_fee, limit, {"gasUsed": hex(used), "hash": "a7", **fields})


@pytest.mark.parametrize(
    ("base_fee", "used", "following"),
    [
        (10**9, 15_000_000, 10**9),
        (10**9, 30_000_000, 1_125_000_000),
        (10**9, 0, 875_000_000),
        (10**9, 20_000_000, 1_041_666_666),
        (7, 15_000_001, 8),  # at least one Wei more
        (7, 14_999_999, 7),
        (0, 0, 0),
    ],
)
def test_the_next_base_fee_by_eip_1559(base_fee: int, used: int, following: int) -> None:
    assert next_base_fee(block(base_fee, used), facts_of(1)) == following


@pytest.mark.parametrize(
    ("extra", "footprint", "following"),
    [
        ("0x00" + f"{250:08x}{6:08x}", 0, 10**9 + 10**9 * 10_000_000 // 5_000_000 // 250),
        ("0x01" + f"{250:08x}{6:08x}{2 * 10**9:016x}", 0, 2 * 10**9),  # the least base fee of Jovian
        ("0x01" + f"{250:08x}{6:08x}{0:016x}", 25_000_000, 10**9 + 10**9 * 20_000_000 // 5_000_000 // 250),
        ("0x00" + f"{0:08x}{6:08x}", 0, None),
        ("0x02", 0, None),
        ("0x", 0, None),
        (None, 0, None),
    ],
)
def test_the_next_base_fee_of_an_op_stack_block(extra: Any, footprint: int, following: int | None) -> None:
    given = block(10**9, 15_000_000, extraData=extra, blobGasUsed=hex(footprint))
    assert next_base_fee(given, facts_of(10)) == following


AVALANCHE = ChainFacts("acp176")


def c_block(excess: int, target_excess: int, **fields: Any) -> Header:
    state = f"0x{0:016x}{excess:016x}{target_excess:016x}"
    return block(1, 0, extraData=state, **fields)


@pytest.mark.parametrize(
    ("excess", "target_excess", "price"),
    [
        (0, 0, 1),
        (60_303_808, 33, 2),
        (95_672_652, 1 << 15, 3),
        (2_704_386_192, 13_605_152, 10**9 + 2),
        (6_610_721_802, 36_863_312, 10**11 + 4),
        (22_035_739_340, 77_261_935, 10**11 + 5),
        (2_203_573_881_110, 231_785_804, 10**11),
    ],
)
def test_the_base_fee_of_an_avalanche_block(excess: int, target_excess: int, price: int) -> None:
    """The table in the tests of ava-labs/coreth, plugin/evm/upgrade/acp176."""
    assert next_base_fee(c_block(excess, target_excess), AVALANCHE) == price


def test_the_base_fee_of_avalanche_falls_with_time() -> None:
    """At a target of 1.5 million gas a second: the excess of one second less."""
    later = next_base_fee(c_block(2_704_386_192, 13_605_152), AVALANCHE, 1000)
    assert later == next_base_fee(c_block(2_704_386_192 - 1_500_000, 13_605_152), AVALANCHE)
    assert next_base_fee(c_block(1_000, 0), AVALANCHE, 60_000) == 1


def test_an_avalanche_block_without_a_state_or_with_an_absurd_one() -> None:
    assert next_base_fee(block(1, 0, extraData="0x00"), AVALANCHE) is None
    absurd = next_base_fee(c_block(2**64 - 1, 0), AVALANCHE)
    assert absurd is not None and absurd > 2**64


def test_a_rule_of_avalanche_that_leads_from_one_block_to_the_next_is_kept() -> None:
    before = c_block(2_704_386_192, 13_605_152, timestamp=hex(50), timestampMilliseconds=hex(50_250))
    fee = next_base_fee(before, AVALANCHE, 1_500)
    fields = {"parentHash": before.hash, "timestamp": hex(51), "timestampMilliseconds": hex(51_750)}
    assert fitting_facts(AVALANCHE, before, Header(8, fee, 1, fields)) == AVALANCHE
    assert fitting_facts(AVALANCHE, before, Header(8, 10**9, 1, fields)).base_fee_rule is None


def test_no_base_fee_is_computed_without_a_rule_or_a_field() -> None:
    assert next_base_fee(block(10**9, 0), UNKNOWN) is None
    assert next_base_fee(Header(7, 10**9, 30_000_000), facts_of(1)) is None
    assert next_base_fee(Header(7, None, 30_000_000, {"gasUsed": "0x0"}), facts_of(1)) is None


# Six of nine blobs at a target of six: the schedule of Prague, with the reserve price of EIP-7918 added.
PRAGUE = replace(facts_of(1), blobs=BlobSchedule(6, 9, 5_007_716))


@pytest.mark.parametrize(
    ("base_fee", "excess", "blobs", "following", "price"),
    [
        (1, 0, 5, 0, 1),  # below the target
        (1, 0, 6, 0, 1),
        (1, 0, 9, 393_216, 1),
        (1, 10**8, 6, 10**8, 470_442_149),
        (10**9, 10**7, 6, 10**7 + 6 * 131_072 // 3, 7),  # the reserve price: blobs cost less than their execution
    ],
)
def test_the_next_blob_base_fee(base_fee: int, excess: int, blobs: int, following: int, price: int) -> None:
    given = block(base_fee, 0, excessBlobGas=hex(excess), blobGasUsed=hex(blobs * 131_072))
    assert next_excess_blob_gas(given, PRAGUE) == following
    assert next_blob_base_fee(given, PRAGUE) == price


def test_a_rule_that_the_chain_does_not_follow_is_given_up() -> None:
    before = block(10**9, 0, excessBlobGas="0x0", blobGasUsed="0x0")
    follows = Header(8, 875_000_000, 30_000_000, {"parentHash": "a7", "excessBlobGas": "0x0"})
    mainnet = facts_of(1)
    assert fitting_facts(mainnet, before, follows) is mainnet
    other_fee = Header(8, 10**9, 30_000_000, follows.fields)
    assert fitting_facts(mainnet, before, other_fee) == replace(mainnet, base_fee_rule=None)
    other_blobs = Header(8, 875_000_000, 30_000_000, {**follows.fields, "excessBlobGas": "0x5"})
    assert fitting_facts(mainnet, before, other_blobs) == replace(mainnet, blobs=None)
    assert fitting_facts(mainnet, before, Header(9, 1, 1, follows.fields)) is mainnet  # not the next block
