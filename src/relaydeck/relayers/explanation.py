"""The explanation of a relayer's state, as the admin API and `relaydeck relayer why` show it."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from relaydeck.fields import own_field as field

StateName = Literal[
    "paused", "disabled", "failing", "low_balance", "low_runway", "signer_unreachable", "signer_mismatch"
]
Whole = Annotated[int, Meta(ge=0)]


class RelayerState(msgspec.Struct, frozen=True, kw_only=True):
    state: Annotated[StateName, field("What is wrong.", example="disabled")]
    since: Annotated[
        str | None,
        field("Since when, in UTC; null: since it was created.", example="2026-03-01T12:02:07Z"),
    ]
    by: Annotated[str | None, field("Who: `token:NAME`, `cli:USER` or `monitor`.", example="monitor")]
    cause: Annotated[
        str,
        field(
            "Why, and what to do.",
            example="NonceSyncFailed: no RPC URL returned the nonce of 0x2c7536E3605D9C16a7a3D7b1898e529396a65c23 in "
            "3 rounds since 2026-03-01T12:00:07Z: https://node.example.com refused the connection.",
        ),
    ]


class RelayerNode(msgspec.Struct, frozen=True, kw_only=True):
    node: Annotated[
        str,
        field("Scheme and host of the RPC URL; the rest may be a secret.", example="https://node.example.com"),
    ]
    weight: Annotated[Whole, field("Its share of the calls.", example=1)]
    ok: Annotated[bool, field("Whether it answered just now, on the right chain.", example=True)]
    problem: Annotated[str | None, field("What was wrong just now.", example=None)]
    chain_id: Annotated[Whole | None, field("The chain id it returned.", example=11_155_111)]
    block: Annotated[Whole | None, field("The newest block it returned.", example=4_321_987)]
    blocks_behind: Annotated[
        Whole | None,
        field("How many blocks that is behind the newest of the nodes that are ok; null for another.", example=0),
    ]
    milliseconds: Annotated[Whole, field("How long that took.", example=38)]
    last_fault: Annotated[
        str | None,
        field("What last went wrong with it, in any worker; it may be over.", example="timed out"),
    ]
    last_fault_at: Annotated[str | None, field("When, in UTC.", example="2026-03-01T12:13:55Z")]
    last_problem: Annotated[
        str | None,
        field(
            "What the monitor saw in the last round without a nonce; null when that is over.",
            example="refused the connection",
        ),
    ]
    last_problem_at: Annotated[str | None, field("When, in UTC.", example="2026-03-01T12:14:07Z")]


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    id: Annotated[str, field("Identifier of the relayer.", example="sepolia-1")]
    address: Annotated[str, field("Its address.", example="0x2c7536E3605D9C16a7a3D7b1898e529396a65c23")]
    network: Annotated[str, field("Its network.", example="sepolia")]
    states: Annotated[tuple[RelayerState, ...], field("Everything that is wrong; empty when nothing is.")]
    nodes: Annotated[tuple[RelayerNode, ...], field("Each of its RPC URLs, called just now.")]
    monitor: Annotated[str, field("What the monitor does about it.", example="checks every 60 s")]
    next_probe_at: Annotated[
        str | None,
        field("When the monitor checks it next, approximately, in UTC.", example="2026-03-01T12:15:07Z"),
    ]
    signer_check: Annotated[
        str | None,
        field(
            "The latest check of its signer; null: none yet.",
            example="ok: the key signed a challenge, and its address matches the one relayer that uses this signer"
            " (checked 2026-03-01T12:00:00Z)",
        ),
    ] = None
