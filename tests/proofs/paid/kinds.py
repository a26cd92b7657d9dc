"""Kinds of transaction: how each is built. A kind is one row of the table in docs/fee-estimate.md."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import rlp
from eth_utils.crypto import keccak

from tests.support.accounts import account
from tests.support.fee_chain import Chain, call_data, compiled

GWEI = 10**9
HOLDER, STRANGER = "0x" + "99" * 20, "0x" + "98" * 20
TRANSFER = "transfer(address,uint256)"
Fields = dict[str, Any]


@dataclass(slots=True)
class Stage:
    """A chain with the contracts that the kinds call."""

    chain: Chain
    token: str
    kinds: str
    random: random.Random
    fresh: int = 0

    def new_address(self) -> str:
        self.fresh += 1
        return "0x" + keccak(text=f"new {self.fresh}")[:20].hex()

    def market(self, tip: int = GWEI, most: int = 0) -> Fields:
        return {"maxFeePerGas": most or 20 * GWEI + tip, "maxPriorityFeePerGas": tip}


def prepared(chain: Chain, seed: int = 1) -> Stage:
    token, kinds = chain.deploy("token", 6), chain.deploy("kinds")
    chain.call(token, TRANSFER, HOLDER, 5)
    chain.send({"to": HOLDER, "value": 1})
    return Stage(chain, token, kinds, random.Random(seed))


def transfer(**more: Any) -> Callable[[Stage], Fields]:
    return lambda stage: {"to": HOLDER, "value": 1, "gas": 21_000, **stage.market(), **more}


def data_transfer(data: bytes) -> Callable[[Stage], Fields]:
    return lambda stage: {"to": HOLDER, "data": "0x" + data.hex(), "gas": 1_500_000, **stage.market()}


def token_transfer(to: str = HOLDER, amount: int = 7, **more: Any) -> Callable[[Stage], Fields]:
    return lambda stage: {"to": stage.token, "data": call_data(TRANSFER, to, amount), **stage.market(), **more}


def call(signature: str, *arguments: Any, **more: Any) -> Callable[[Stage], Fields]:
    def build(stage: Stage) -> Fields:
        data = call_data(signature, *arguments) if arguments else "0x" + keccak(text=signature)[:4].hex()
        return {"to": stage.kinds, "data": data, "gas": 8_000_000, **stage.market(), **more}

    return build


def creation(name: str, *arguments: int) -> Callable[[Stage], Fields]:
    def build(stage: Stage) -> Fields:
        code = compiled(name) + b"".join(number.to_bytes(32, "big") for number in arguments)
        return {"data": "0x" + code.hex(), "gas": 12_000_000, **stage.market()}

    return build


def legacy(build: Callable[[Stage], Fields]) -> Callable[[Stage], Fields]:
    def built(stage: Stage) -> Fields:
        fields = build(stage)
        del fields["maxFeePerGas"], fields["maxPriorityFeePerGas"]
        return fields | {"gasPrice": 12 * GWEI}

    return built


def listed(build: Callable[[Stage], Fields]) -> Callable[[Stage], Fields]:
    def built(stage: Stage) -> Fields:
        fields = build(stage)
        keys = ["0x" + f"{slot:064x}" for slot in (0, 1)]
        return fields | {"accessList": [{"address": fields["to"], "storageKeys": keys}]}

    return built


def type_1(build: Callable[[Stage], Fields]) -> Callable[[Stage], Fields]:
    return lambda stage: legacy(listed(build))(stage) | {"type": 1}


def capped(build: Callable[[Stage], Fields]) -> Callable[[Stage], Fields]:
    """The max fee leaves less than the tip."""

    def built(stage: Stage) -> Fields:
        base = int(stage.chain.rpc("eth_feeHistory", "0x1", "latest", [])["baseFeePerGas"][-1], 16)
        return build(stage) | {"maxFeePerGas": base + GWEI // 2, "maxPriorityFeePerGas": GWEI // 2 + 1}

    return built


def authorized(build: Callable[[Stage], Fields], amount: int) -> Callable[[Stage], Fields]:
    def built(stage: Stage) -> Fields:
        signed = []
        for _ in range(amount):
            authority = account(keccak(text=stage.new_address()))
            signed.append(
                authority.sign_authorization({"chainId": stage.chain.chain_id, "address": stage.kinds, "nonce": 0})
            )
        return build(stage) | {"authorizationList": signed}

    return built


def to_new(build: Callable[[Stage], Fields]) -> Callable[[Stage], Fields]:
    return lambda stage: build(stage) | {"to": stage.new_address()}


def new_holder(stage: Stage) -> Fields:
    return token_transfer(stage.new_address())(stage)


def pay_new(stage: Stage) -> Fields:
    return call("pay(address)", stage.new_address(), value=10)(stage)


def pay_many(stage: Stage) -> Fields:
    to = [stage.new_address() for _ in range(10)]
    return call("pay_many(address[])", to, value=100)(stage)


def proxy(stage: Stage) -> Fields:
    return call("create_minimal(address)", stage.token)(stage)


SIGNED: dict[str, Callable[[Stage], Fields]] = {
    "transfer": transfer(),
    "transfer, legacy": legacy(transfer()),
    "transfer, type 1 with access list": type_1(transfer(gas=40_000)),
    "transfer to a new account": to_new(transfer()),
    "transfer of nothing": transfer(value=0),
    "transfer to its sender": lambda stage: transfer()(stage) | {"to": stage.chain.account.address},
    "transfer without tip": transfer(maxPriorityFeePerGas=1),
    "transfer with a high tip": transfer(maxFeePerGas=80 * GWEI, maxPriorityFeePerGas=40 * GWEI),
    "transfer, max fee below base plus tip": capped(transfer()),
    "transfer with a limit of 2,000,000": transfer(gas=2_000_000),
    "transfer with a limit of 16,777,216": transfer(gas=1 << 24),
    "100 zero bytes": data_transfer(bytes(100)),
    "100 bytes": data_transfer(b"\x5a\x01" * 50),
    "1,000 bytes": data_transfer(bytes(range(1, 251)) * 4),
    "10,000 bytes": data_transfer(random.Random(5).randbytes(10_000)),
    "10,000 zero bytes": data_transfer(bytes(10_000)),
    "token transfer": token_transfer(),
    "token transfer, legacy": legacy(token_transfer()),
    "token transfer, type 1 with access list": type_1(token_transfer()),
    "token transfer, type 2 with access list": listed(token_transfer()),
    "token transfer to a new holder": new_holder,
    "token transfer to its sender": lambda stage: token_transfer(stage.chain.account.address)(stage),
    "token transfer of nothing": token_transfer(amount=0),
    "token transfer with a limit of 2,000,000": token_transfer(gas=2_000_000),
    "clear 1 slot (refund)": call("clear(uint256,uint256)", 0, 1),
    "clear 10 slots (refund)": call("clear(uint256,uint256)", 10, 10),
    "clear 30 slots (refund)": call("clear(uint256,uint256)", 20, 30),
    "fill 1 slot": call("fill(uint256,uint256)", 5000, 1),
    "fill 10 slots": call("fill(uint256,uint256)", 5010, 10),
    "fill 40 slots": call("fill(uint256,uint256)", 5100, 40),
    "fill 10 filled slots again": call("fill(uint256,uint256)", 5010, 10),
    "rewrite 1 slot 50 times": call("rewrite(uint256,uint256)", 6000, 50),
    "reads the gas price": call("only_at_a_price()"),
    "work by the gas price": call("price_dependent()"),
    "work by a high gas price": call("price_dependent()", maxFeePerGas=90 * GWEI, maxPriorityFeePerGas=3 * GWEI),
    "work once a block": call("accrue()"),
    "reads the base fee": call("base_fee_known()"),
    "log of 10 bytes": call("note(bytes)", b"0123456789"),
    "log of 4,096 bytes": call("note(bytes)", b"\x77" * 4096),
    "loop of 10": call("spin(uint256)", 10),
    "loop of 1,000": call("spin(uint256)", 1000),
    "loop of 5,000": call("spin(uint256)", 5000),
    "push 10": call("push(uint256)", 10),
    "pop 5 (refund)": call("pop(uint256)", 5),
    "pay a known account": call("pay(address)", HOLDER, value=3),
    "pay a new account": pay_new,
    "pay 10 new accounts": pay_many,
    "reads the sender's balance": call("rich_only()"),
    "create a proxy": proxy,
    "coins to a contract": lambda stage: transfer(gas=60_000)(stage) | {"to": stage.kinds},
    "hash precompile": lambda stage: data_transfer(b"hash me" * 30)(stage) | {"to": "0x" + "2".zfill(40)},
    "creation of a token": creation("token", 18),
    "creation of a token, legacy": legacy(creation("token", 18)),
    "creation of a large contract": creation("kinds"),
    "1 authorization": authorized(token_transfer(gas=500_000), 1),
    "5 authorizations": authorized(transfer(gas=500_000), 5),
}

# How much gas they use depends on the limit. Only a simulation at that limit shows it.
LIMIT_DEPENDENT: dict[str, Callable[[Stage], Fields]] = {
    "burns a third of its limit of 300,000": call("hungry()", gas=300_000),
    "burns a third of its limit of 2,000,000": call("hungry()", gas=2_000_000),
}


def until(seconds: int) -> Callable[[Stage], Fields]:
    def build(stage: Stage) -> Fields:
        newest = stage.chain.rpc("eth_getBlockByNumber", "latest", False)
        return call("only_until(uint256)", int(newest["timestamp"], 16) + seconds)(stage)

    return build


PERIOD = 2  # seconds between the blocks of the chains on which these are sent
DEADLINES: dict[str, Callable[[Stage], Fields]] = {
    f"deadline {seconds} s after the newest block": until(seconds) for seconds in (PERIOD, 6, 10)
}


def at_random(stage: Stage) -> Fields:
    """A random call with random arguments, size, type, price and limit."""
    pick = stage.random
    slot, amount = pick.randrange(10**6), pick.randrange(1, 20)
    common = [
        transfer(value=pick.randrange(10**9), gas=pick.choice((21_000, 50_000))),
        to_new(transfer(value=pick.randrange(1, 10**9))),
        token_transfer(pick.choice((HOLDER, STRANGER)), pick.randrange(10**6)),
        new_holder,
    ]
    rare = [
        data_transfer(pick.randbytes(pick.randrange(2000))),
        data_transfer(bytes(pick.randrange(2000))),
        call("fill(uint256,uint256)", slot, amount),
        call("rewrite(uint256,uint256)", slot, amount),
        call("spin(uint256)", pick.randrange(3000)),
        call("note(bytes)", pick.randbytes(pick.randrange(4096))),
        call("push(uint256)", amount % 5 + 1),
        call("price_dependent()"),
        call("only_at_a_price()"),
        call("accrue()"),
        call("rich_only()"),
        pay_new,
        proxy,
        creation("token", pick.randrange(2, 30)),
    ]
    build = pick.choice(common if pick.random() < 0.5 else rare)  # half are transfers, as on most chains
    tip = pick.randrange(1, 3 * GWEI)
    fields = pick.choice((build, build, build, legacy(build)))(stage)
    if "maxFeePerGas" in fields:
        fields |= stage.market(tip)
    return fields


def blob(stage: Stage) -> tuple[str, str]:
    """Canonical, and with one blob of zeros: its commitment and its proof are the point at infinity."""
    chain = stage.chain
    content, infinity = b"\0" * 131_072, b"\xc0" + b"\0" * 47
    versioned_hash = b"\x01" + sha256(infinity).digest()[1:]
    numbers = [chain.chain_id, chain.nonce(), GWEI, 30 * GWEI, 300_000]
    data = bytes.fromhex(call_data(TRANSFER, HOLDER, 7)[2:])
    payload = [*numbers, bytes.fromhex(stage.token[2:]), 0, data, [], GWEI, [versioned_hash]]
    signature = chain.account.unsafe_sign_hash(keccak(b"\x03" + rlp.encode(payload)))
    payload += [signature.v - 27, signature.r, signature.s]
    wrapped = [payload, [content], [infinity], [infinity]]
    return "0x03" + rlp.encode(payload).hex(), "0x03" + rlp.encode(wrapped).hex()
