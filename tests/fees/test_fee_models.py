"""What each fee model charges, over scripted nodes."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest
from eth_abi.abi import encode

from relaydeck.fees.errors import RpcFailure
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.gas import Gas
from relaydeck.fees.model import FeeOptions, Trace
from relaydeck.fees.models import MODELS, Charge
from relaydeck.fees.models.base import contract_question
from relaydeck.fees.models.linea import read_tip
from relaydeck.fees.models.zksync import read_fee
from relaydeck.networks.evm.errors import NodeError, UrlFailed
from relaydeck.networks.evm.transaction import Transaction
from relaydeck.networks.model import FeeModelName, Network
from tests.support.fault_node import FaultNode, fault_nodes, words
from tests.support.fee_chain import call_data
from tests.support.fee_scene import ask, network, relayer, transaction

OPTIONS = FeeOptions(deadline=30.0, try_timeout=30.0)
BOUND = "eth_call 0xf1c7a58b"
L1_FEE, OPERATOR, COMPONENTS = "eth_call 0x49948e0e", "eth_call 0x275aedd2", "eth_call 0xc94e6eeb"
REVERTED = {"code": 3, "message": "execution reverted", "data": "0x"}


async def steps_of(node: FaultNode, model: FeeModelName, raw: str = "") -> dict[str, Any]:
    estimator, trace = Estimator(OPTIONS), Trace()
    where: Network = msgspec.structs.replace(network(node.url), fee_model=model)
    try:
        await ask(estimator, where, raw or transaction(), trace=trace)
    finally:
        await estimator.close()
    return {step["step"]: step for step in trace.steps}


def test_every_declared_model_exists() -> None:
    declared = Network.__annotations__["fee_model"].__args__[0].__args__
    assert set(MODELS) == set(declared)


@pytest.mark.parametrize("argument", [b"", b"\1" * 32, b"\2" * 33])
def test_arguments_are_encoded_as_the_abi_says(argument: bytes) -> None:
    question = contract_question("0x", "0x12345678", 7, 1, argument)
    expected = encode(["uint256", "bool", "bytes"], [7, True, argument]).hex()
    assert question.params[0]["data"] == "0x12345678" + expected


async def test_ethereum() -> None:
    async with fault_nodes("healthy") as (node,):
        steps = await steps_of(node, "ethereum")
    assert steps["fee model"] == {"step": "fee model", "name": "ethereum", "charged_gas": "21000"}
    assert steps["native fee"]["fee_wei"] == str(21_000 * 110)


async def test_op_stack_adds_the_data_fee_and_the_operator_fee() -> None:
    class Oracle(FaultNode):
        def _result(self, mood: str, method: str, params: Any) -> Any:
            if method == "eth_call" and params[0]["data"].startswith("0x275aedd2"):
                return words(int(params[0]["data"][10:], 16) * 500_000 // 1_000_000 + 77)
            return super()._result(mood, method, params)

    node = Oracle()
    await node.start()
    node.answers = {L1_FEE: words(5_000)}
    steps = await steps_of(node, "op_stack")
    await node.stop()
    fee = steps["native fee"]
    assert (fee["l1_data_fee_wei"], fee["operator_fee_wei"]) == ("5000", str(10_500 + 77))
    assert fee["fee_wei"] == str(21_000 * 110 + 5_000 + 10_577)


async def test_op_stack_before_the_operator_fee() -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = {L1_FEE: words(5_000), OPERATOR: REVERTED}
        steps = await steps_of(node, "op_stack")
    assert steps["native fee"]["fee_wei"] == str(21_000 * 110 + 5_000)


async def test_op_stack_falls_back_to_the_upper_bound() -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = {L1_FEE: REVERTED, BOUND: words(6_000), OPERATOR: REVERTED}
        steps = await steps_of(node, "op_stack")
    assert steps["fee model"]["l1_data_fee_from"] == "getL1FeeUpperBound"
    assert steps["native fee"]["fee_wei"] == str(21_000 * 110 + 6_000)


async def test_op_stack_prefers_the_fee_to_its_upper_bound() -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = {L1_FEE: words(5_000), BOUND: words(6_000), OPERATOR: REVERTED}
        steps = await steps_of(node, "op_stack")
    assert steps["fee model"]["l1_data_fee_from"] == "getL1Fee"
    assert steps["native fee"]["fee_wei"] == str(21_000 * 110 + 5_000)


async def test_op_stack_asks_everything_about_a_transaction_in_one_request() -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = {
            L1_FEE: words(5_000),
            OPERATOR: words(0),
            "eth_simulateV1": [{"number": "0x3e8", "calls": [{"gasUsed": "0x5208", "status": "0x1"}]}],
        }
        estimator = Estimator(OPTIONS, monotonic=lambda: 0.0)
        where = msgspec.structs.replace(network(node.url), fee_model="op_stack")
        await ask(estimator, where, transaction())
        before = node.requests
        await ask(estimator, where, transaction())
        assert node.requests == before + 1
        await estimator.close()


@pytest.mark.parametrize("model", ["op_stack", "scroll", "arbitrum"])
async def test_a_chain_of_another_family_is_a_wrong_configuration(model: FeeModelName) -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = {"eth_call": "0x"}
        with pytest.raises(RpcFailure, match="does not answer: fee_model of the network is probably wrong") as failure:
            await steps_of(node, model)
    assert failure.value.code == -32603


async def test_a_tip_of_its_own_counts_on_linea() -> None:
    """The answer of the chain's documentation; a node without the method: the tip that others pay."""
    estimate = {"baseFeePerGas": "0x7", "gasLimit": "0xcf08", "priorityFeePerGas": "0x43a82a4"}
    async with fault_nodes("healthy") as (node,):
        node.answers = {"linea_estimateGas": estimate}
        steps = await steps_of(node, "linea")
        node.answers = {}
        without = await steps_of(node, "linea")
    assert steps["native fee"]["fee_wei"] == str(21_000 * (100 + 0x43A82A4))
    assert without["native fee"]["fee_wei"] == str(21_000 * 110)


async def test_the_bounds_of_the_network_apply_to_a_tip_of_its_own() -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = {"linea_estimateGas": {"priorityFeePerGas": "0x43a82a4"}}
        estimator, where = Estimator(OPTIONS), network(node.url)
        where = msgspec.structs.replace(where, fee_model="linea", tip_ceiling=50)
        found = await ask(estimator, where, transaction())
        await estimator.close()
    assert Decimal(found.estimated_fee) == Decimal(21_000 * 150).scaleb(-18)


@pytest.mark.parametrize(("total", "gas"), [(21_000, 21_000), (26_000, 26_000)])
async def test_arbitrum_charges_the_confirmed_gas_at_the_base_fee(total: int, gas: int) -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = {
            COMPONENTS: words(total, 4_000, 100, 9),
            "eth_simulateV1": [
                {"number": "0x3e8", "calls": [{"gasUsed": "0x1", "status": "0x1"}]}
            ],  # it leaves out the share for L1
        }
        steps = await steps_of(node, "arbitrum")
    assert steps["fee model"]["gas_for_l1"] == "4000"
    assert steps["fee model"]["estimate_confirmed"] == (total == 21_000)
    assert steps["native fee"]["fee_wei"] == str(gas * 100)


@pytest.mark.parametrize(
    ("answers", "gas", "source"),
    [
        ({"zks_estimateFee": {"gas_limit": "0x7530"}}, 30_000, "zks_estimateFee"),
        ({}, 21_000, "eth_estimateGas"),
        ({"zks_estimateFee": {"code": -32603, "message": "Internal error"}}, 21_000, "eth_estimateGas"),
    ],
)
async def test_zksync_counts_published_data_as_gas(answers: dict[str, Any], gas: int, source: str) -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = answers
        steps = await steps_of(node, "zksync")
    facts = {"gas_from": source, "margin_of_node": "0"}
    assert steps["fee model"] == {"step": "fee model", "name": "zksync", "charged_gas": str(gas), **facts}
    assert steps["native fee"]["fee_wei"] == str(gas * 100)


@pytest.mark.parametrize(("limit", "gas"), [(90_000, 90_000), (0, 21_000)])
async def test_a_charged_limit(limit: int, gas: int) -> None:
    import rlp

    raw = "0x02" + rlp.encode([31337, 0, 1, 2, limit, b"\x99" * 20, 1, b"", []]).hex()
    async with fault_nodes("healthy") as (node,):
        steps = await steps_of(node, "gas_limit_charged", raw)
    assert steps["native fee"]["fee_wei"] == str(gas * 110)


# Without a node: what each model asks, and what it makes of the answers.

RECEIVER = "0x" + "99" * 20
SENDER = "0x" + "11" * 20
GAS = Gas(21_000, "eth_simulateV1", None, {})
ORACLE_ADDRESS = "0x420000000000000000000000000000000000000F"


def sent(to: str | None = RECEIVER, gas_limit: int = 0) -> Transaction:
    return Transaction(2, 1, 0, gas_limit, to, 7, b"data", unsigned=b"\x02unsigned")


def asked(model: FeeModelName, to: str | None = RECEIVER) -> list[Any]:
    call = sent(to).as_call(SENDER)
    return [(question.method, question.params) for question in MODELS[model].questions(sent(to), call)]


def call_of(address: str, signature: str, *arguments: Any, **fields: str) -> tuple[str, Any]:
    return "eth_call", ({"to": address, "data": call_data(signature, *arguments), **fields}, "latest")


def number(value: int) -> bytes:
    return value.to_bytes(32, "big")


def test_what_op_stack_asks() -> None:
    assert asked("op_stack") == [
        call_of(ORACLE_ADDRESS, "getL1Fee(bytes)", b"\x02unsigned"),
        call_of(ORACLE_ADDRESS, "getL1FeeUpperBound(uint256)", 9),
        call_of(ORACLE_ADDRESS, "getOperatorFee(uint256)", 0),
        call_of(ORACLE_ADDRESS, "getOperatorFee(uint256)", 10**12),
    ]


def test_what_scroll_asks() -> None:
    oracle = "0x5300000000000000000000000000000000000002"
    names = ("l1BaseFee()", "l1BlobBaseFee()", "commitScalar()", "blobScalar()", "penaltyFactor()")
    assert asked("scroll") == [call_of(oracle, name) for name in names]


def test_what_mantle_asks_in_addition() -> None:
    assert asked("mantle") == [*asked("op_stack"), call_of(ORACLE_ADDRESS, "tokenRatio()")]


def test_what_linea_asks() -> None:
    assert asked("linea") == [("linea_estimateGas", (sent().as_call(SENDER),))]


def test_what_celo_asks() -> None:
    directory, token = "0x15F344b9E6c3Cb6F0376A36A64928b13F62C6276", "0x" + "77" * 20
    paid = msgspec.structs.replace(sent(), fee_currency=token)
    found = MODELS["celo"].questions(paid, paid.as_call(SENDER))
    assert [(question.method, question.params) for question in found] == [
        call_of(directory, "getCurrencyConfig(address)", token),
        call_of(directory, "getExchangeRate(address)", token),
    ]
    assert asked("celo") == []


@pytest.mark.parametrize("to", [RECEIVER, None])
def test_what_arbitrum_asks(to: str | None) -> None:
    interface = "0x00000000000000000000000000000000000000C8"
    arguments = (to or "0x" + "00" * 20, to is None, b"data")
    question = call_of(
        interface, "gasEstimateComponents(address,bool,bytes)", *arguments, **{"from": SENDER, "value": "0x7"}
    )
    prices = "0x000000000000000000000000000000000000006C"
    assert asked("arbitrum", to) == [question, call_of(prices, "getMinimumGasPrice()")]


def test_what_zksync_asks() -> None:
    assert asked("zksync") == [("zks_estimateFee", (sent().as_call(SENDER),))]


FAILED = NodeError(3, "execution reverted")
CHARGES: list[tuple[FeeModelName, list[Any], Charge]] = [
    (
        "op_stack",
        [number(5), number(6), FAILED, FAILED],
        Charge(
            21_000, {"l1_data_fee_wei": 5, "operator_fee_wei": 0}, {"l1_data_fee_from": "getL1Fee", "data_bytes": 9}
        ),
    ),
    (
        "op_stack",
        [FAILED, number(6), number(1), FAILED],
        Charge(
            21_000,
            {"l1_data_fee_wei": 6, "operator_fee_wei": 0},
            {"l1_data_fee_from": "getL1FeeUpperBound", "data_bytes": 9},
        ),
    ),
    (
        "op_stack",
        [number(0), FAILED, number(7), number(10**12 + 7)],
        Charge(
            21_000,
            {"l1_data_fee_wei": 0, "operator_fee_wei": 21_007},
            {"l1_data_fee_from": "getL1Fee", "data_bytes": 9},
        ),
    ),
    (
        "mantle",
        [number(5), number(6), number(7), number(10**12 + 7), number(4_789)],
        Charge(
            21_000,
            {"l1_data_fee_wei": 5 * 4_789, "operator_fee_wei": 21_007},
            {"l1_data_fee_from": "getL1Fee", "data_bytes": 9, "token_ratio": 4_789},
        ),
    ),
    ("celo", [], Charge(21_000, {}, {})),
    (
        "arbitrum",
        [number(25_000) + number(4_000) + number(1) + number(2), FAILED],
        Charge(
            25_000,
            {},
            {"gas_components": 25_000, "estimate_confirmed": False, "gas_for_l1": 4_000, "padding_of_node": 0},
        ),
    ),
    ("linea", [7], Charge(21_000, {}, {"tip_from": "linea_estimateGas", "tip_wei": 7}, tip=7)),
    ("linea", [FAILED], Charge(21_000, {}, {"tip_from": "the blocks"})),
    ("zksync", [30_000], Charge(30_000, {}, {"gas_from": "zks_estimateFee", "margin_of_node": 0})),
    (
        "gas_limit_charged",
        [],
        Charge(21_000, {}, {"gas_used_at_most": 21_000, "own_limit": False, "margin_percent": 0}),
    ),
]


@pytest.mark.parametrize(("model", "answers", "charge"), CHARGES)
def test_what_each_model_charges(model: FeeModelName, answers: list[Any], charge: Charge) -> None:
    assert MODELS[model].charge(sent(), GAS, answers) == charge


def test_the_limit_is_charged_however_little_is_used() -> None:
    found = MODELS["gas_limit_charged"].charge(sent(gas_limit=90_000), GAS, [])
    assert found == Charge(90_000, {}, {"gas_used_at_most": 21_000, "own_limit": True})


@pytest.mark.parametrize(("is_signed", "charged"), [(True, 1), (False, 21_000)])
def test_a_limit_that_is_too_low_is_final_once_it_is_signed(is_signed: bool, charged: int) -> None:
    low = msgspec.structs.replace(sent(gas_limit=1), sender=SENDER if is_signed else None)
    found = MODELS["gas_limit_charged"].charge(low, GAS, [])
    facts = {"own_limit": True} if is_signed else {"own_limit": False, "margin_percent": 0}
    assert found == Charge(charged, {}, {"gas_used_at_most": 21_000, **facts})


@pytest.mark.parametrize(
    ("model", "answer", "facts"),
    [
        ("zksync", 157_396, {"gas_from": "the transaction's limit"}),
        ("arbitrum", number(157_396) + number(4_000) + number(1) + number(2), {}),
    ],
)
def test_the_own_limit_counts_where_gas_is_not_estimated(model: FeeModelName, answer: Any, facts: Any) -> None:
    own = Gas(90_000, "", None, {})
    assert MODELS[model].charge(sent(gas_limit=90_000), own, [answer, FAILED]) == Charge(90_000, {}, facts)


def test_arbitrum_counts_the_estimate_when_the_components_are_refused() -> None:
    refused = NodeError(-32000, "insufficient funds for gas * price + value")
    assert MODELS["arbitrum"].charge(sent(), GAS, [refused, FAILED]) == Charge(
        21_000, {}, {"estimate_confirmed": False}
    )


@pytest.mark.parametrize("estimation", [True, False])
async def test_a_question_that_a_node_cannot_answer_now_goes_to_the_next_one(estimation: bool) -> None:
    """Else the operator fee would be left out without a word."""
    async with fault_nodes("healthy", "healthy") as nodes:
        for node, operator in zip(nodes, ({"code": -32603, "message": "internal error"}, words(5)), strict=True):
            node.answers = {L1_FEE: words(700), OPERATOR: operator}
        where = msgspec.structs.replace(network(*(node.url for node in nodes)), fee_model="op_stack")
        estimator, who = Estimator(OPTIONS), relayer(gas_limit_estimation=estimation)
        fees = {(await ask(estimator, where, transaction(), who=who)).estimated_fee for _ in range(4)}
        await estimator.close()
    assert fees == {f"{Decimal(21_000 * 110 + 700 + 5).scaleb(-18):f}"}


@pytest.mark.parametrize(
    ("model", "contract"),
    [
        ("op_stack", f"the gas price oracle at {ORACLE_ADDRESS}"),
        ("mantle", f"the gas price oracle at {ORACLE_ADDRESS}"),
        ("scroll", "the L1 gas price oracle at 0x5300000000000000000000000000000000000002"),
        ("arbitrum", "the node interface at 0x00000000000000000000000000000000000000C8"),
    ],
)
def test_a_contract_that_is_not_there_is_named(model: FeeModelName, contract: str) -> None:
    with pytest.raises(RpcFailure) as failure:
        MODELS[model].charge(sent(), GAS, [FAILED] * len(asked(model)))
    words = "does not answer: fee_model of the network is probably wrong"
    assert failure.value.description == f"{contract} {words}"


def test_an_answer_of_zksync_that_is_no_fee() -> None:
    with pytest.raises(UrlFailed) as failure:
        read_fee("0x5208")
    assert failure.value.reason == "answered something other than a fee"


@pytest.mark.parametrize("answer", ["0x5208", None, []])
def test_an_answer_of_linea_that_is_no_estimate(answer: Any) -> None:
    with pytest.raises(UrlFailed) as failure:
        read_tip(answer)
    assert failure.value.reason == "answered something other than an estimate"
