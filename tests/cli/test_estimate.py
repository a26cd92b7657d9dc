"""What `relaydeck estimate` prints."""

import pytest

from relaydeck.cli.estimate import print_report

INPUTS = {"step": "inputs", "relayer": "r1", "network": "dev", "fee_token": "USDC"}
RESULT = {"step": "result", "conversion_rate": "2000", "estimated_fee": "0.13"}
FAILURE = {"code": -32000, "message": "Node unreachable", "description": "no RPC URL answered"}


def last_line(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.splitlines()[-1]


def test_the_fee_is_printed_last_with_its_token(capsys: pytest.CaptureFixture[str]) -> None:
    print_report({"steps": [INPUTS, RESULT]})
    assert last_line(capsys) == "estimated fee: 0.13 USDC"


@pytest.mark.parametrize("steps", [[], [INPUTS]])
def test_without_a_fee_the_reason_is_printed_last(capsys: pytest.CaptureFixture[str], steps: list[object]) -> None:
    print_report({"steps": steps, "error": FAILURE})
    assert last_line(capsys) == "no estimate: -32000 Node unreachable: no RPC URL answered"
