"""Applying a file and estimating a fee in the console."""

import re

import pytest

from relaydeck.console.pages.apply import carried, carry
from relaydeck.console.pages.estimate import facts_of
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
    assert f"0x{receiver}" in steps.lower() and "No estimate:" in above


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
