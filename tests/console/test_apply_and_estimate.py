"""Applying a file and estimating a fee in the console."""

import html
import re
from typing import Any

import pytest

from relaydeck.console.pages.apply import carried, carry
from relaydeck.console.pages.estimate import facts_of, sentences
from relaydeck.errors import BadRequest
from relaydeck.secret import Secret
from tests.console.conftest import Operator, plain
from tests.support.running import Answer, Running

KEY = "0x" + "37" * 32
FILE = f"""
[[signers]]
id = "applied"
type = "plain"
config = {{ key = "{KEY}" }}
"""


def field(answer: Answer, name: str) -> str:
    found = re.search(f'name="{name}" value="([^"]*)"', answer.body.decode())
    assert found
    return found[1]


def test_a_plan_is_shown_and_applied(served: Running, operator: Operator) -> None:
    planned = operator.post("/apply", {"file": FILE})
    assert (planned.status, "+ create signer applied" in plain(planned)) == (200, True)
    assert served.ask("GET", "/admin/v1/signers/applied").status == 404
    assert KEY not in planned.body.decode() and KEY[2:] not in planned.body.decode()
    form = {name: field(planned, name) for name in ("sealed", "revision")}
    done = operator.post("/apply/plan", form)
    assert (done.status, "Applied" in plain(done)) == (200, True)
    assert served.ask("GET", "/admin/v1/signers/applied").status == 200
    entry = served.ask("GET", "/admin/v1/audit?order=newest&per_page=1").json["data"][0]
    assert (entry["actor"], entry["origin"], entry["record"]) == ("token:root", "console", "applied")
    assert "Nothing to change" in plain(operator.post("/apply", {"file": FILE}))


def test_a_plan_that_has_changed_is_shown_again_instead_of_applied(served: Running, operator: Operator) -> None:
    file = (
        FILE.replace("applied", "applied later") + '[[signers]]\nid = "taken"\ntype = "plain"\nconfig = { key = "k" }\n'
    )
    planned = operator.post("/apply", {"file": file})
    form = {name: field(planned, name) for name in ("sealed", "revision")}
    assert (
        served.ask("POST", "/admin/v1/signers", {"id": "taken", "type": "plain", "config": {"key": "k"}}).status == 201
    )
    again = operator.post("/apply/plan", form)
    assert (again.status, "The plan is not the one that you saw." in plain(again)) == (412, True)
    assert served.ask("GET", "/admin/v1/signers/applied%20later").status == 404


def test_removals_are_counted_and_confirmed_by_their_number(served: Running, operator: Operator) -> None:
    both = FILE.replace("applied", "first of two") + FILE.replace("applied", "second of two")
    planned = operator.post("/apply", {"file": both})
    assert 'name="removals"' not in planned.body.decode()
    operator.post("/apply/plan", {name: field(planned, name) for name in ("sealed", "revision")})
    planned = operator.post("/apply", {"file": FILE, "prune": "true"})
    (typed,) = re.findall("Type ([0-9]+) to confirm that so many records are removed for good", plain(planned))
    removed = int(typed)
    assert removed == len(re.findall("remove signer|remove network|remove notification|remove relayer", plain(planned)))
    assert re.search(rf"{removed} records are removed: .*[0-9] signers", plain(planned))
    form = {name: field(planned, name) for name in ("sealed", "revision", "prune")}
    for typed in ({}, {"removals": ""}, {"removals": str(removed - 1)}, {"removals": "0"}):
        refused = operator.post("/apply/plan", form | typed)
        assert (refused.status, "Type the number of removals exactly." in plain(refused)) == (400, True)
    assert served.ask("GET", "/admin/v1/signers/first%20of%20two").status == 200


def test_mistakes_are_listed(operator: Operator) -> None:
    answer = operator.post("/apply", {"file": '[[signers]]\nid = "x"\ntype = "unknown"\n'})
    assert (answer.status, "The file has mistakes." in plain(answer)) == (400, True)
    answer = operator.post("/apply", {"file": "not = [toml"})
    assert (answer.status, "it is not TOML" in plain(answer)) == (400, True)


def test_a_carried_text_belongs_to_its_session() -> None:
    session = Secret("one")
    sealed = carry(session, "text")
    assert carried(session, sealed) == "text"
    for other, given in ((Secret("other"), sealed), (session, sealed[:-4]), (session, "ü")):
        with pytest.raises(BadRequest):
            carried(other, given)


def test_an_estimate_shows_its_steps_and_why_it_fails(operator: Operator) -> None:
    receiver = "d8da6bf26964af9d7eed9e03e53415d37aa96045"
    transaction = f"0x02f283aa36a7808459682f008504a817c80082520894{receiver}87038d7ea4c6800080c0"
    answer = operator.post("/estimate", {"relayer": "sepolia-1", "transaction": transaction})
    above, _, steps = plain(answer).partition("Estimate\n")
    assert answer.status == 200
    assert f"0x{receiver}" in steps.lower()
    assert re.search("No estimate: no node answers. .* Callers get “Node unreachable” \\(-32000\\).", above)


PRICE = {
    "step": "price",
    "base_fee": "520000000",
    "priority_fee": "100000000",
    "node": "node.example",
    "block": "12345",
    "seconds_old": "0.250",
    "per_gas_wei": "620000000",
    "capped": False,
    "used_per_gas_wei": "620000000",
}
FEE = {"step": "native fee", "gas": "21000", "per_gas_wei": "620000000", "fee_wei": str(21_000 * 620_000_000)}
GAS = {"step": "gas", "gas": "21000", "source": "eth_estimateGas", "node": "node.example"}


def told(*steps: dict[str, Any]) -> list[str]:
    return [html.unescape(re.sub("<[^>]*>", "", each)) for each in sentences({s["step"]: s for s in steps}, "ETH")]


def test_an_estimate_is_told_in_sentences() -> None:
    assert told(PRICE, GAS, FEE) == [
        "21,000 gas × (base fee 0.52 + tip 0.1 gwei) = 0.00001302 ETH",
        "The gas is what node.example measured with eth_estimateGas.",
        "The price is from block 12,345, read from node.example 0.250 s before.",
    ]


def test_an_estimate_in_a_token_with_a_cap_and_a_data_fee_is_told_in_sentences() -> None:
    capped = PRICE | {"capped": True, "used_per_gas_wei": "500000000"}
    fee = FEE | {"per_gas_wei": "500000000", "l1_data_fee_wei": "1000000000000", "fee_wei": "11500000000000"}
    own = {"step": "gas", "gas": "21000", "source": "the transaction's own limit (gas_limit_estimation is off)"}
    rate = {"step": "rate", "margin_percent": "1.5", "conversion_rate": "2500"}
    rounding = {"step": "rounding", "exact_fee": "0.02875", "decimals": "4", "rounded_up": "0.0288"}
    assert told({"step": "inputs", "fee_token": "USDC"}, capped, own, fee, rate, rounding) == [
        "21,000 gas × 0.5 gwei + l1 data fee 0.000001 ETH = 0.0000115 ETH",
        "The gas is the transaction's own limit (gas_limit_estimation is off).",
        "The price is from block 12,345, read from node.example 0.250 s before.",
        "The gas price cap of the relayer lowers it from 0.62 gwei to 0.5 gwei.",
        "1 ETH is 2500 USDC, with a margin of 1.5 %: 0.02875 USDC, rounded up at 4 decimals to 0.0288 USDC.",
    ]


def test_a_sum_that_is_not_the_fee_is_not_told() -> None:
    assert told(PRICE, FEE | {"fee_wei": "1000000000000000"})[0] == "The fee is 0.001 ETH."


def test_without_a_price_nothing_is_told() -> None:
    assert told(GAS) == []


def test_the_amounts_of_a_step_are_whole_coins_with_wei_beside() -> None:
    step = {"step": "fee", "gas": "21000", "per_gas_wei": "1500000000", "fee_wei": "31500000000000", "base_fee": None}
    assert facts_of(step | {"priority_fee": "1"}, "ETH") == [
        ("gas", "<bdi>21000</bdi>"),
        ("per gas", '<span class="amount" title="1,500,000,000 Wei">1.5 gwei</span>'),
        ("fee", '<span class="amount" title="31,500,000,000,000 Wei">0.0000315 ETH</span>'),
        ("priority fee", '<span class="amount" title="1 Wei">0.000000001 gwei</span>'),
    ]


def test_an_estimate_for_an_unknown_relayer(operator: Operator) -> None:
    answer = operator.post("/estimate", {"relayer": "none", "transaction": "0x"})
    assert (answer.status, "Relayer with ID none not found" in plain(answer)) == (404, True)
