"""`relaydeck conform`: our own server passes every check, and every check can fail."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

from relaydeck.conformance.probe import Budget, Target
from relaydeck.conformance.run import checks, conform
from relaydeck.relayers.model import DisabledReason
from tests.conformance.mutants import MUTANTS, RULINGS
from tests.conformance.mutating_proxy import Mutation, mutated
from tests.node.process import HARDHAT
from tests.node.process import running as running_node
from tests.running import Running, free_port, run_command
from tests.seeding import fill, issue, relayer

SECTION_OF = {check.name: check.section for check in checks()}
CONTRACT = [check.name for check in checks() if check.basis == "contract"]
# An unsigned transfer on chain 31337 (0x7a69), gas price rules of EIP-1559.
TRANSACTION = "0x02f1827a69808459682f008504a817c80082520894d8da6bf26964af9d7eed9e03e53415d37aa9604587038d7ea4c6800080c0"
EMPTY_SECRETS = {"secrets-provider_a_kms"}  # its config holds no secret, so nothing can be echoed


class Conforming(NamedTuple):
    """A served home and what the checks may use there."""

    running: Running
    readonly: str

    @property
    def home(self) -> Path:
        return self.running.home

    @property
    def port(self) -> int:
        return self.running.port

    @property
    def token(self) -> str:
        return self.running.token

    def target(self, url: str = "") -> Target:
        return Target(
            url or f"http://127.0.0.1:{self.port}",
            self.token,
            self.readonly,
            allow_writes=True,
            notification="scratch",
            relayer="r1",
            transaction=TRANSACTION,
            fee_token="ETH",
        )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Conforming]:
    """With a real node, twelve relayers, one of them disabled, and a notification that may be changed."""
    home = tmp_path_factory.mktemp("conform") / "home"
    with running_node(HARDHAT) as node:
        reason = DisabledReason(type="NonceSyncFailed", details="no node answered")
        relayers = [relayer(f"r{number}") for number in range(1, 12)]
        disabled = relayer("r12", system_disabled=True, disabled_reason=reason)
        fill(home, notifications={"scratch": "key"}, relayers=[disabled, *relayers], node=node)
        token, readonly = issue(home), issue(home, "reader", "readonly")
        settings = {"rate_limit_burst": "100000", "rate_limit_per_second": "100000", "monitor_interval_seconds": "0"}
        with Running(home, token=token, **settings) as running:
            yield Conforming(running, readonly)


def test_our_own_server_conforms(server: Conforming) -> None:
    report = conform(server.target())
    unlike = [result for result in report.results if result.verdict not in ("holds", "as ruled")]
    assert [(result.name, result.verdict, result.seen) for result in unlike] == [
        ("too-many-requests", "not checked", "no request met the limit; the checks do not try to")
    ]


def test_a_run_is_bounded(server: Conforming) -> None:
    assert conform(server.target()).requests < 200


def test_a_run_ends_when_its_requests_are_used_up(server: Conforming) -> None:
    report = conform(server.target(), Budget(requests=5))
    assert report.requests > 5
    unchecked = [result for result in report.results if result.seen == "the budget of requests or seconds is used up"]
    assert len(unchecked) > 100
    assert report.failed == []


def test_without_permission_nothing_is_written(server: Conforming) -> None:
    before = server.running.ask("GET", "/api/v1/signers").json["pagination"]
    report = conform(server.target()._replace(allow_writes=False))
    assert server.running.ask("GET", "/api/v1/signers").json["pagination"] == before
    unchecked = {result.name for result in report.results if result.seen == "needs --allow-writes"}
    assert {"create-duplicate", "update-empty", "signer-uuid", "create-signer-no-token"} <= unchecked


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught_by_the_check_that_names_it(server: Conforming, name: str) -> None:
    with mutated(server.port, MUTANTS[name]) as url:
        report = conform(server.target(url), sections=["2.1", SECTION_OF[name]])
    assert name in [result.name for result in report.failed]


def test_every_contract_check_has_a_mutant() -> None:
    assert set(MUTANTS) == set(CONTRACT) - EMPTY_SECRETS
    assert len(MUTANTS) >= 40


def test_a_proxy_that_changes_nothing_is_not_caught(server: Conforming) -> None:
    with mutated(server.port, Mutation()) as url:
        assert conform(server.target(url), sections=["4.1", "4.3", "7"]).failed == []


@pytest.mark.parametrize("name", RULINGS)
def test_another_ruling_is_told_and_fails_nothing(server: Conforming, name: str) -> None:
    mutation, seen = RULINGS[name]
    with mutated(server.port, mutation) as url:
        report = conform(server.target(url), sections=[SECTION_OF[name]])
    (result,) = [result for result in report.results if result.name == name]
    assert (result.basis, result.verdict, seen in result.seen) == ("ruling", "differs", True)


# The command


def command(server: Conforming, url: str, *options: str) -> tuple[int, str, str]:
    token = server.home.parent / "token"
    token.write_text(server.token)
    base = ["conform", url, "--token-file", str(token), "--allow-writes", "--notification", "scratch"]
    done = run_command(server.home, *base, "--relayer", "r1", "--transaction", TRANSACTION, *options)
    return done.returncode, done.stdout, done.stderr


def test_the_command_prints_a_table_and_succeeds(server: Conforming) -> None:
    code, printed, _ = command(server, f"http://127.0.0.1:{server.port}", "--section", "4.2")
    assert code == 0
    assert "signers-default-per-page" in printed and "contract" in printed and "oldest first" in printed
    assert printed.splitlines()[-1].startswith("conforms: ")


def test_the_command_fails_with_what_was_expected_and_seen(server: Conforming, tmp_path: Path) -> None:
    junit = tmp_path / "report.xml"
    with mutated(server.port, MUTANTS["signers-default-per-page"]) as url:
        code, printed, _ = command(server, url, "--section", "4.2", "--json", "--junit", str(junit))
    report = json.loads(printed)
    (failed,) = [each for each in report["results"] if each["name"] == "signers-default-per-page"]
    assert (code, report["conforms"], failed["verdict"]) == (1, False, "FAILS")
    assert (failed["expected"], failed["seen"]) == ("per_page without per_page: 10", "20")
    cases = ElementTree.parse(junit).findall(".//failure")
    assert any("expected per_page without per_page: 10\nseen 20" in (case.text or "") for case in cases)


def test_the_command_needs_a_credential(server: Conforming) -> None:
    done = run_command(server.home, "conform", f"http://127.0.0.1:{server.port}")
    assert (done.returncode, "give a credential" in done.stderr) == (2, True)


def test_the_command_says_when_nothing_answers(server: Conforming) -> None:
    code, _, reported = command(server, f"http://127.0.0.1:{free_port()}")
    assert (code, "does not answer: ConnectionRefusedError" in reported) == (1, True)


def test_no_output_shows_a_credential(server: Conforming) -> None:
    for options in (["--json"], []):
        _, printed, reported = command(server, f"http://127.0.0.1:{server.port}", "--section", "5", *options)
        assert server.token not in printed + reported
