"""What chains charge, recomputed from the formulas that they publish, and from the numbers of their own tests."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest
import rlp
from eth_utils.crypto import keccak

from relaydeck.fees.errors import InvalidParams, RpcFailure
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.gas import Gas
from relaydeck.fees.model import FeeOptions, Trace
from relaydeck.fees.models import MODELS
from relaydeck.fees.models.arbitrum import without_padding
from relaydeck.fees.models.scroll import compressed_size, data_fee
from relaydeck.networks.chains import facts_of
from relaydeck.networks.evm.errors import BadTransaction, NodeError
from relaydeck.networks.evm.transaction import Transaction, decode
from tests.support.accounts import example
from tests.support.fault_node import fault_nodes, words
from tests.support.fee_scene import ask, network

GAS = Gas(21_000, "eth_estimateGas", None, {})
TOKEN = "0x" + "77" * 20
CONFIG, RATE = "eth_call 0xeab43d97", "eth_call 0xefb7601d"
UNSIGNED_TRANSFER = [31337, 0, 0, 0, 0, b"\x99" * 20, 1, b"", []]  # without a gas limit

# -- Scroll: transactions of its mainnet, with the sizes in the tests of scroll-tech/go-ethereum --

ETH_TRANSFER = (
    "02f86b83082750830461a40183830fb782523f94802b65b5d9016621e66003aed0b16615093f328b8080c001a0a1fa6bbede5ae355eaec83fdcd"
    "a65eab240476895e649576552850de726596cca0424eb1f5221865817b270d85caf8611d35ea6d7c2e86c9c31af5c06df04a2587"
)
SCR_TRANSFER = (
    "02f8b28308275001830f4240840279876683015c2894d29687c813d741e2f938f4ac377128810e217b1b80b844a9059cbb000000000000000000"
    "000000687b50a70d33d71f9a82dd330b8c091e4d77250800000000000000000000000000000000000000000000000ac96dda943e512bb9c080a0"
    "fdacacd07ed7c708e2193b803d731d3d288dcd39c317f321f243cd790406868ba0285444ab799632c88fd47c874c218bceb1589843949b5bc0f3"
    "ead1df069f3233"
)
UNISWAP = (
    "f9014e830887e0836b92a7830493e094fc30937f5cde93df8d48acaf7e6f5d8d8a31f63680b8e45023b4df00000000000000000000000006efdb"
    "ff2a14a7c8e15944d1f4a48f9f95f663a4000000000000000000000000530000000000000000000000000000000000000400000000000000000000"
    "000000000000000000000000000000000000000001f4000000000000000000000000485ca81b70255da2fe3fd0814b57d1b08fce784e00000000"
    "0000000000000000000000000000000000000000006a94d74f43000000000000000000000000000000000000000000000000000000000000045a"
    "f675000000000000000000000000000000000000000000000000000000000000000083104ec4a0a527358d5bfb89dcc7939265c6add9faf46974"
    "15174723e509f795ad44021d98a0776f4a8a8a51da98b70d960a5bd1faf3c79b8dddc0bc2c642a4c2634c6990f02"
)


@pytest.mark.parametrize(("raw", "size"), [(ETH_TRANSFER, 110), (SCR_TRANSFER, 162), (UNISWAP, 197)])
def test_the_compressed_size_of_scroll(raw: str, size: int) -> None:
    assert compressed_size(bytes.fromhex(raw)) == size


def test_the_data_fee_of_scroll() -> None:
    """fee per byte × size × (1 + size / penalty factor) / precision."""
    per_byte = 10 * 10**9 + 20 * 10**9
    assert data_fee(100, 10**9, 10**9, 10, 20, 1_000) == per_byte * 100 * 11 // 10 // 10**9
    assert data_fee(100, 10**9, 10**9, 10, 20, 0) == per_byte * 100 * 101 // 10**9  # as if the factor were 1
    assert data_fee(10**6, 10**18, 10**18, 10**18, 10**18, 1) == 2**64 - 1


def test_a_signed_transaction_of_scroll_pays_for_its_own_bytes() -> None:
    signed = decode("0x" + SCR_TRANSFER, chain_id=534_352, max_bytes=1_000)
    prices = (1_500_000_000, 150_000_000, 10, 10, 5_000)
    charge = MODELS["scroll"].charge(signed, GAS, [value.to_bytes(32, "big") for value in prices])
    per_byte = 10 * 1_500_000_000 + 10 * 150_000_000
    assert charge.parts == {"l1_data_fee_wei": (per_byte * 162 + per_byte * 162 * 162 // 5_000) // 10**9}
    assert charge.facts == {"data_bytes": 181, "compressed_bytes": 162}


def test_an_unsigned_transaction_of_scroll_pays_for_a_signature() -> None:
    fields = rlp.decode(bytes.fromhex(SCR_TRANSFER)[1:])[:9]
    unsigned = decode("0x02" + rlp.encode(fields).hex(), chain_id=534_352, max_bytes=1_000)
    charge = MODELS["scroll"].charge(unsigned, GAS, [bytes(32)] * 5)
    assert abs(charge.facts["compressed_bytes"] - 162) <= 2


# -- Mantle: test_getL1Fee of its oracle, and the factor of its op-geth --


def test_the_data_fee_of_mantle_is_in_its_own_coin() -> None:
    of_oracle = 153_991_900 * (20 * 16 * 2 * 10**6 + 3 * 10**6 * 15) // 10**12
    assert of_oracle == 105_484
    answers = [value.to_bytes(32, "big") for value in (of_oracle, 111_214, 0, 0, 4_789)]
    charge = MODELS["mantle"].charge(Transaction(2, 5000, 0, 0, TOKEN, 0, b""), GAS, answers)
    assert charge.extra == 105_484 * 4_789


# -- Arbitrum: PosterDataCost and GetPosterGas of OffchainLabs/nitro, forwards --


def estimated_by_nitro(data_bytes: int, base_fee: int, unit_price: int, least: int) -> int:
    units = (16 * data_bytes + 256) * 10_100 // 10_000
    return units * unit_price * 11_000 // 10_000 // max(base_fee * 7 // 8, least)


@pytest.mark.parametrize("data_bytes", [90, 118, 500, 20_000])
@pytest.mark.parametrize(
    ("base_fee", "unit_price", "least"),
    [
        (10**7, 2 * 10**9, 10**7),
        (10**8, 2 * 10**9, 10**7),
        (12_345_678, 317_000_000, 10**7),
        (10**7, 70_000_000, 10**7),
    ],
)
def test_the_share_of_l1_on_arbitrum(data_bytes: int, base_fee: int, unit_price: int, least: int) -> None:
    padded = estimated_by_nitro(data_bytes, base_fee, unit_price, least)
    charged = 16 * data_bytes * unit_price // base_fee
    assert without_padding(padded, base_fee, unit_price, least) == charged
    assert padded > charged


@pytest.mark.parametrize(("base_fee", "unit_price"), [(0, 1), (1, 0)])
def test_a_share_of_l1_without_a_price_stays(base_fee: int, unit_price: int) -> None:
    assert without_padding(4_000, base_fee, unit_price, 1) == 4_000


def test_the_gas_of_arbitrum_is_that_of_the_execution_and_the_share_without_padding() -> None:
    padded = estimated_by_nitro(118, 10**7, 2 * 10**9, 10**7)
    values = (21_000 + padded, padded, 10**7, 2 * 10**9)
    answers = [b"".join(value.to_bytes(32, "big") for value in values), (10**7).to_bytes(32, "big")]
    charge = MODELS["arbitrum"].charge(
        Transaction(2, 1, 0, 0, TOKEN, 0, b""), Gas(21_000 + padded, "x", 0, {}), answers
    )
    assert charge.gas == 21_000 + 16 * 118 * 2 * 10**9 // 10**7


# -- Celo: a token that adds 50,000 gas, four units of it for three CELO --


async def celo_steps(raw: str, **answers: Any) -> dict[str, Any]:
    estimator, trace = Estimator(FeeOptions()), Trace()
    async with fault_nodes("healthy") as (node,):
        node.answers = {CONFIG: words(1, 50_000), RATE: words(4, 3), **answers}
        where = msgspec.structs.replace(network(node.url), fee_model="celo")
        try:
            await ask(estimator, where, raw, trace=trace)
        finally:
            await estimator.close()
    return {step["step"]: step for step in trace.steps}


def in_token(*, tip: int, most: int, signed: bool, currency: bytes = bytes.fromhex(TOKEN[2:])) -> str:
    fields = [31337, 0, tip, most, 90_000, b"\x99" * 20, 1, b"", [], currency]
    if signed:
        signature = example().unsafe_sign_hash(keccak(b"\x7b" + rlp.encode(fields)))
        fields += [signature.v - 27, signature.r, signature.s]
    return f"0x7b{rlp.encode(fields).hex()}"


async def test_a_token_adds_its_gas_on_celo() -> None:
    steps = await celo_steps(in_token(tip=1, most=2, signed=False))
    assert steps["native fee"]["fee_wei"] == str(71_000 * 110)
    assert steps["fee model"]["gas_for_currency"] == "50000"


async def test_the_prices_of_a_signed_transaction_are_in_its_token_on_celo() -> None:
    """A base fee of 100 Wei is 133 units; a tip of 20 units is 15 Wei."""
    steps = await celo_steps(in_token(tip=20, most=1_000, signed=True))
    assert steps["native fee"]["fee_wei"] == str(71_000 * 115)
    with pytest.raises(RpcFailure, match="below the next block's base fee of 100 Wei"):
        await celo_steps(in_token(tip=20, most=132, signed=True))


async def test_a_fee_currency_type_without_a_token_pays_in_celo() -> None:
    steps = await celo_steps(in_token(tip=20, most=1_000, signed=True, currency=b""))
    assert steps["native fee"]["fee_wei"] == str(21_000 * 120)


@pytest.mark.parametrize("answers", [{RATE: words(0, 1)}, {RATE: "0x"}, {CONFIG: {"code": 3, "message": "reverted"}}])
async def test_a_token_that_is_no_fee_currency_of_celo(answers: dict[str, Any]) -> None:
    with pytest.raises(InvalidParams, match=f"{TOKEN} is not a fee currency of the chain"):
        await celo_steps(in_token(tip=1, most=2, signed=False), **answers)


async def test_other_chains_do_not_take_transactions_of_celo() -> None:
    async with fault_nodes("healthy") as (node,):
        estimator = Estimator(FeeOptions())
        with pytest.raises(InvalidParams, match="transaction type 123 is not supported"):
            await ask(estimator, network(node.url), in_token(tip=1, most=2, signed=False))
        await estimator.close()


# -- ZKsync: the encodings in the documentation of zksync-ethers --

FROM, PAYMASTER = "0x36615cf349d7f6344891b1e7ca7c72883f5dc049", "0x" + "66" * 20
UNSIGNED = "0x71ea8080808080808082010e808082010e9436615cf349d7f6344891b1e7ca7c72883f5dc04982c350c080c0"
SIGNED = (
    "0x71f87f8080808094a61464658afeaf65cccaafd3a512b69a83b77618830f42408001a073a20167b8d23b610b058c05368174495adf7da3a4ed"
    "4a57eb6dbdeb1fafc24aa02f87530d663a0d061f69bb564d2c6fb46ae5ae776bbd4bd2a2a4478b9cd1b42a82010e9436615cf349d7f6344891b1"
    "e7ca7c72883f5dc04982c350c080c0"
)


@pytest.mark.parametrize("needed", [0, 1, 120_003, 5_000_000])
def test_the_gas_of_zksync_is_without_the_scale_factor_of_its_nodes(needed: int) -> None:
    """`get_txs_fee_in_wei` of matter-labs/zksync-era, forwards: the gas times 1.3, and an overhead."""
    estimated, transaction = needed * 13 // 10 + 10_000, of_zksync(UNSIGNED)
    for answer, source in ((estimated, "zks_estimateFee"), (NodeError(-32601, ""), "eth_estimateGas")):
        charge = MODELS["zksync"].charge(transaction, Gas(estimated, "eth_estimateGas", None, {}), [answer], 30)
        assert charge.gas == needed + 10_000
        assert charge.facts == {"gas_from": source, "margin_of_node": estimated - charge.gas}


async def test_the_margin_of_a_network_and_of_its_chain_count() -> None:
    """On a chain that charges the limit, and on ZKsync, whose preset has the factor of its nodes."""
    estimator = Estimator(FeeOptions())
    async with fault_nodes("healthy") as (node,):
        charged = msgspec.structs.replace(network(node.url), fee_model="gas_limit_charged", gas_margin_percent=20)
        found = await ask(estimator, charged, f"0x02{rlp.encode(UNSIGNED_TRANSFER).hex()}")
        await estimator.close()
    assert found.estimated_fee == f"0.{21_000 * 12 // 10 * 110:018d}".rstrip("0")
    assert facts_of(324).gas_margin_percent == facts_of(300).gas_margin_percent == 30


async def test_a_rule_that_a_network_declares_counts() -> None:
    """The nodes answer a next base fee of 100 Wei; by the declared rule it is that of the newest block."""
    estimator, trace = Estimator(FeeOptions()), Trace()
    async with fault_nodes("healthy") as (node,):
        declared = msgspec.structs.replace(network(node.url), base_fee_rule="constant", block_seconds=Decimal("0.5"))
        await ask(estimator, declared, f"0x02{rlp.encode(UNSIGNED_TRANSFER).hex()}", trace=trace)
        await estimator.close()
    price = next(step for step in trace.steps if "base_fee_from" in step)
    assert price["base_fee_from"] == "the chain's rule, from the newest block"
    assert "age_not_verified" not in price  # the block time is known


def of_zksync(raw: str) -> Transaction:
    return decode(raw, chain_id=270, max_bytes=1_000)


def test_a_transaction_of_zksync() -> None:
    signed = of_zksync(SIGNED)
    assert (signed.sender, signed.value, signed.chain_id) == (FROM, 1_000_000, 270)
    assert of_zksync(UNSIGNED).sender is None
    assert of_zksync(UNSIGNED).as_call(FROM) == {
        "from": FROM,
        "value": "0x0",
        "data": "0x",
        "type": "0x71",
        "eip712Meta": {"gasPerPubdata": "0xc350", "factoryDeps": []},
    }


def test_code_and_a_paymaster_of_zksync_reach_its_node() -> None:
    fields = rlp.decode(bytes.fromhex(UNSIGNED[4:]))
    fields[13:] = [[b"\x01\x02"], b"\x03" * 65, [bytes.fromhex(PAYMASTER[2:]), b"\x04"]]
    found = of_zksync("0x71" + rlp.encode(fields).hex())
    assert found.sender == FROM  # an account of its own signed it
    assert found.zksync_fields == {
        "gasPerPubdata": "0xc350",
        "factoryDeps": [[1, 2]],
        "paymasterParams": {"paymaster": PAYMASTER, "paymasterInput": [4]},
    }
    with pytest.raises(BadTransaction, match="a type 113 transaction has 16 fields, not 15"):
        of_zksync("0x71" + rlp.encode(fields[:15]).hex())
