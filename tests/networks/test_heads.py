"""Nodes that are behind, stand still, run ahead or contradict each other, by their newest blocks."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from relaydeck.networks.evm.heads import compare_heads
from relaydeck.networks.evm.landmark import _ALWAYS, Landmark, may_follow, read_landmark
from relaydeck.networks.evm.node import Node
from relaydeck.networks.evm.options import PoolOptions
from relaydeck.networks.model import RpcUrl
from tests.fees.chain import HARDHAT_KEY, Chain
from tests.node.process import HARDHAT, running


def node(*marks: Landmark) -> Node:
    made = Node(RpcUrl("http://node.example"), PoolOptions())
    for mark in marks:
        made.note_block(mark)
    return made


def at(number: int, base_fee: int = 10**9, gas_limit: int = 30_000_000, **header: Any) -> Landmark:
    return Landmark(number, base_fee, gas_limit, header)


def test_a_node_further_behind_than_allowed_is_marked() -> None:
    nodes = [node(at(100)), node(at(97)), node(at(96))]
    compare_heads(nodes, 3)
    assert [(each.lag, each.stale) for each in nodes] == [(0, ""), (3, ""), (4, "is 4 blocks behind")]


def test_a_node_that_catches_up_is_used_again() -> None:
    behind = node(at(50))
    compare_heads([behind, node(at(100))], 3)
    behind.note_block(at(100))
    compare_heads([behind, node(at(100))], 3)
    assert (behind.lag, behind.stale) == (0, "")


def test_a_node_that_stands_still_while_others_move_is_marked() -> None:
    still, moving = node(at(100)), node(at(100))
    for number in (101, 102):
        moving.note_block(at(number))
        still.note_block(at(100))
        compare_heads([still, moving], 3)
    assert still.stale == "stands still at block 100"


def test_a_quiet_chain_is_not_a_frozen_node() -> None:
    nodes = [node(at(100)), node(at(100))]
    for _ in range(5):
        for each in nodes:
            each.note_block(at(100))
        compare_heads(nodes, 3)
    assert [each.stale for each in nodes] == ["", ""]


def test_one_of_three_far_ahead_is_not_believed() -> None:
    nodes = [node(at(2**40)), node(at(100)), node(at(99))]
    newest = compare_heads(nodes, 3)
    assert [each.stale for each in nodes] == [f"reports block {2**40}, which no other node has reached", "", ""]
    assert newest == at(100)


def test_the_majority_is_believed_about_the_base_fee() -> None:
    nodes = [node(at(100, 10**16)), node(at(100)), node(at(101, 10**9 + 10**8))]
    newest = compare_heads(nodes, 3)
    assert [bool(each.stale) for each in nodes] == [True, False, False]
    assert newest is not None
    assert newest.base_fee == 10**9 + 10**8


def test_the_base_fee_is_that_of_the_newest_block() -> None:
    newest = compare_heads([node(at(99, 1000)), node(at(99, 1000)), node(at(101, 900))], 3)
    assert newest is not None
    assert (newest.number, newest.base_fee) == (101, 900)


def test_of_two_that_contradict_neither_is_believed_without_a_hash() -> None:
    assert compare_heads([node(at(100, 1)), node(at(100))], 3) is None


@pytest.fixture(scope="module")
def chain() -> Iterator[Chain]:
    with running(HARDHAT) as url, closing(Chain(url, HARDHAT_KEY)) as chain:
        yield chain


def test_of_two_that_contradict_the_genuine_block_is_believed(chain: Chain) -> None:
    chain.rpc("hardhat_mine", "0x2")
    block = chain.rpc("eth_getBlockByNumber", "latest", False)
    honest, forged = node(read_landmark(block)), node(read_landmark({**block, "baseFeePerGas": "0x1"}))
    newest = compare_heads([forged, honest], 3)
    assert (honest.stale, forged.stale) == ("", "sends a block that does not fit its hash")
    assert newest is not None
    assert newest.base_fee == int(block["baseFeePerGas"], 16)


def test_of_two_far_apart_the_genuine_block_is_believed(chain: Chain) -> None:
    genuine = read_landmark(chain.rpc("eth_getBlockByNumber", "latest", False))
    ahead = Landmark(genuine.number + 1_000_000, genuine.base_fee, genuine.gas_limit)
    nodes = [node(genuine), node(ahead)]
    assert compare_heads(nodes, 3) == Landmark(genuine.number, genuine.base_fee, genuine.gas_limit)
    assert [each.stale for each in nodes] == ["", f"reports block {ahead.number}, which no other node has reached"]


def test_of_two_genuine_blocks_that_contradict_the_newer_is_believed(chain: Chain) -> None:
    older = chain.rpc("eth_getBlockByNumber", "latest", False)
    chain.pin_base_fee(10**13)
    chain.rpc("hardhat_mine", "0x1")
    newer = chain.rpc("eth_getBlockByNumber", "latest", False)
    behind, ahead = node(read_landmark(older)), node(read_landmark(newer))
    newest = compare_heads([behind, ahead], 3)
    assert (ahead.stale, behind.stale) == ("", "contradicts the other nodes about the newest block")
    assert newest is not None
    assert newest.base_fee == 10**13


@pytest.mark.parametrize(
    ("base_fee", "known", "blocks", "possible"),
    [
        (1125, 1000, 1, True),
        (10**9 * 5 // 4, 10**9, 1, True),
        (10**9 * 2, 10**9, 1, False),
        (10**9 // 2, 10**9, 1, False),
        (10**9 * 3, 10**9, 5, True),
        (7, 0, 1, True),  # a base fee of nothing
        (10**16, 10**9, 8, False),
    ],
)
def test_which_base_fee_can_follow(base_fee: int, known: int, blocks: int, possible: bool) -> None:
    assert may_follow(base_fee, known, blocks) is possible


def test_a_block_without_a_header_is_not_genuine() -> None:
    assert not at(1, hash="0x00").is_genuine
    assert json.dumps(at(1).header) == "{}"


@pytest.mark.parametrize("difficulty", ["-0x1", "0xzz", 1, None, [], {}])
def test_a_header_that_cannot_be_hashed_is_not_genuine(difficulty: Any) -> None:
    header = dict.fromkeys(_ALWAYS, "0x01") | {"difficulty": difficulty, "hash": "0x00"}
    assert not Landmark(1, 10**9, 30_000_000, header).is_genuine
