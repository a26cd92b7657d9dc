"""`relaydeck conform`: our own server passes every check, and every check can fail."""

import json
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import msgspec
import pytest

from relaydeck.conformance.exchange import Budget, Refused, Target, Unreachable
from relaydeck.conformance.run import Report, as_junit, checks, conform
from relaydeck.conformance.run import as_json as report_as_json
from relaydeck.networks.model import RpcUrl
from relaydeck.relayers.model import DisabledReason
from tests.conformance.broken_servers import RUBBISH, UNREACHABLE, body, every, hang, serving
from tests.conformance.mutants import (
    BAD_REQUEST,
    CONFORMING,
    MUTANTS,
    RULINGS,
    Where,
    calls,
    lists,
    refuse,
    updates_with,
)
from tests.conformance.mutating_proxy import Asked, Mutation, answer_json, mutated
from tests.node.process import HARDHAT
from tests.node.process import running as running_node
from tests.support.running import COMMAND, Answer, Running, clean_environment, free_port, run_command
from tests.support.seeding import WEBHOOK, fill, issue, relayer

SECTION_OF = {check.name: check.section for check in checks()}
CONTRACT = [check.name for check in checks() if check.basis == "contract"]
# An unsigned transfer on chain 31337 (0x7a69), gas price rules of EIP-1559.
TRANSACTION = "0x02f1827a69808459682f008504a817c80082520894d8da6bf26964af9d7eed9e03e53415d37aa9604587038d7ea4c6800080c0"


NOTIFICATIONS = {"scratch": "key", "signed": "key", "unsigned": None}
FULL = Target(
    "",
    "token",
    "readonly",
    allow_writes=True,
    notification="scratch",
    replace_signing_key=True,
    relayer="r1",
    transaction=TRANSACTION,
    fee_token="ETH",
)


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
        own = f"http://127.0.0.1:{self.port}"
        return FULL._replace(url=url or own, token=self.token, readonly_token=self.readonly)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Conforming]:
    """With a real node, twelve relayers, one of them disabled, and notifications with and without a key."""
    home = tmp_path_factory.mktemp("conform") / "home"
    with running_node(HARDHAT) as node:
        reason = DisabledReason(type="NonceSyncFailed", details="no node answered")
        relayers = [relayer(f"r{number}") for number in range(1, 12)]
        disabled = relayer("r12", system_disabled=True, disabled_reason=reason, custom_rpc_urls=(RpcUrl(node),))
        fill(home, notifications=NOTIFICATIONS, relayers=[disabled, *relayers], node=node)
        token, readonly = issue(home), issue(home, "reader", "readonly")
        settings = {"rate_limit_burst": "100000", "rate_limit_per_second": "100000", "monitor_interval_seconds": "0"}
        with Running(home, token=token, **settings) as running:
            yield Conforming(running, readonly)


# sentence: 2.1-integers
def test_our_own_server_conforms(server: Conforming) -> None:
    report = conform(server.target())
    unlike = [result for result in report.results if result.verdict not in ("holds", "as ruled")]
    assert [(result.name, result.verdict, result.seen) for result in unlike] == [
        ("too-many-requests", "did not occur", "no request met the limit; the checks do not try to")
    ]
    assert report.verdict == "conforms"


def test_a_run_is_bounded(server: Conforming) -> None:
    assert conform(server.target()).requests < 200


def test_a_run_ends_when_its_requests_are_used_up(server: Conforming) -> None:
    report = conform(server.target(), Budget(requests=5))
    assert report.requests == 5
    unchecked = [result for result in report.results if result.seen == "the budget of requests or seconds is used up"]
    assert len(unchecked) > 100
    assert (report.failed, report.verdict) == ([], "incomplete")


def test_without_permission_nothing_is_written(server: Conforming) -> None:
    before = server.running.ask("GET", "/api/v1/signers").json["pagination"]
    report = conform(server.target()._replace(allow_writes=False))
    assert server.running.ask("GET", "/api/v1/signers").json["pagination"] == before
    unchecked = {result.name for result in report.results if "--allow-writes" in result.options}
    wanted = {"create-duplicate", "update-empty", "signer-uuid", "create-signer-no-token", "secrets-later"}
    assert wanted <= unchecked


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught_by_the_check_that_names_it(server: Conforming, name: str) -> None:
    with mutated(server.port, MUTANTS[name]) as url:
        report = conform(server.target(url), sections=["2.1", SECTION_OF[name]])
    assert name in [result.name for result in report.failed]


def test_every_contract_check_has_a_mutant() -> None:
    assert set(MUTANTS) == set(CONTRACT)
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


@pytest.mark.parametrize("name", CONFORMING)
def test_a_server_that_differs_only_in_rulings_conforms(server: Conforming, name: str) -> None:
    with mutated(server.port, CONFORMING[name]) as url:
        report = conform(server.target(url))
    assert [(each.name, each.expected, each.seen) for each in report.failed] == []
    assert report.verdict == "conforms"
    assert report.count("differs")


def test_a_server_that_limits_requests_conforms(server: Conforming) -> None:
    """The checks wait as long as it asks, and look at what it answered."""
    limited = answer_json(429, {"data": None, "message": "Too Many Requests", "success": False})
    limited = limited._replace(headers=limited.headers | {"retry-after": "0"})
    turns = iter(range(10**6))
    sometimes = Mutation(
        before=lambda asked: limited if lists("relayers")(asked) and next(turns) % 2 == 0 else asked,
    )
    with mutated(server.port, sometimes) as url:
        report = conform(server.target(url), sections=["4.4", "8"])
    assert (report.verdict, report.count("holds")) == ("conforms", 12)


def test_checks_that_a_limit_prevents_are_not_made(server: Conforming) -> None:
    limited = answer_json(429, {"data": None, "message": "Too Many Requests", "success": False})
    with mutated(server.port, refuse(calls, limited)) as url:
        report = conform(server.target(url), sections=["4.5"])
    assert (report.verdict, report.count("holds")) == ("incomplete", 0)
    assert {each.seen for each in report.unchecked} == {"the server answered Too Many Requests; give it a higher limit"}


# Records that do not exist, and credentials that may not do everything

UNAUTHORIZED = answer_json(401, {"data": None, "message": "Unauthorized", "success": False})
ALL_UPDATES = {check.name for check in checks(["4.3"]) if check.basis == "contract"} - {"update-unknown"}


def reasons(report: Report) -> dict[str, str]:
    return {each.name: each.seen for each in report.unchecked}


def test_a_notification_that_does_not_exist_is_not_the_servers_fault(server: Conforming) -> None:
    report = conform(server.target()._replace(notification="nosuch"), sections=["4.3"])
    assert reasons(report) == dict.fromkeys(ALL_UPDATES, "there is no notification nosuch")
    assert (report.verdict, report.failed, report.missing()) == ("incomplete", [], ["--notification ID"])


def test_a_notification_that_is_lost_after_the_first_update_fails(server: Conforming) -> None:
    lost = answer_json(404, {"data": None, "message": "Notification not found", "success": False})
    with mutated(server.port, refuse(updates_with("url", "https://hooks.example.com/conform/one"), lost)) as url:
        report = conform(server.target(url), sections=["4.3"])
    assert [each.name for each in report.failed] == ["update-url"]


def test_a_relayer_that_does_not_exist_is_not_the_servers_fault(server: Conforming) -> None:
    report = conform(server.target()._replace(relayer="nosuch"), sections=["4.5"])
    assert (report.verdict, report.failed, report.missing()) == ("incomplete", [], ["--relayer ID"])
    assert set(reasons(report).values()) == {"there is no relayer nosuch"}
    assert {"rpc-shape", "fee-estimate", "rpc-null-id"} <= reasons(report).keys()


def test_nothing_is_said_about_a_relayer_that_does_not_exist(server: Conforming) -> None:
    report = conform(server.target()._replace(relayer="nosuch"), sections=["2.4"])
    seen = {each.name: (each.verdict, each.seen) for each in report.results}
    unchecked = ("not checked", "no relayer nosuch was found in the list")
    assert [seen[name] for name in ("relayer-presence", "unset-fields", "amounts")] == [unchecked] * 3


def test_a_listed_relayer_that_is_not_found_fails(server: Conforming) -> None:
    lost = answer_json(404, {"data": None, "message": "Relayer with ID r1 not found", "success": False})
    with mutated(server.port, refuse(lambda asked: asked.path.endswith("/r1/rpc"), lost)) as url:
        report = conform(server.target(url), sections=["4.5"])
    assert "rpc-malformed" in [each.name for each in report.failed]


@pytest.mark.parametrize("where", [lambda asked: True, lists("signers")], ids=["everything", "the first list"])
def test_a_refused_credential_gives_no_verdict(server: Conforming, where: Where) -> None:
    with mutated(server.port, refuse(where, UNAUTHORIZED)) as url, pytest.raises(Refused):
        conform(server.target(url))


def test_what_a_credential_may_not_do_is_not_checked(server: Conforming) -> None:
    report = conform(server.target()._replace(token=server.readonly))
    assert [(each.name, each.seen) for each in report.failed] == []
    assert (report.verdict, "--token-file FILE" in report.missing()) == ("incomplete", True)
    refused = {name for name, seen in reasons(report).items() if seen == "this credential may not use the operation"}
    assert ALL_UPDATES | {"update-unknown", "create-duplicate", "rpc-shape", "rpc-unknown-relayer"} <= refused
    verdicts = {each.name: each.verdict for each in report.results}
    assert {verdicts[name] for name in ("relayers-second-page", "rpc-no-token", "update-notification-wrong-token")} == {
        "holds"
    }


def test_a_credential_that_is_refused_only_sometimes_fails(server: Conforming) -> None:
    """Not a permission: the same operation answered it before."""
    with mutated(server.port, refuse(updates_with("url", 1), UNAUTHORIZED)) as url:
        report = conform(server.target(url), sections=["4.3"])
    assert [each.name for each in report.failed] == ["update-url-no-string"]


# An estimate that fails


def failing_estimate(message: str, description: str) -> Mutation:
    error = {"code": -32000, "message": message, "description": description}
    body = {"jsonrpc": "2.0", "id": "7", "error": error}
    return refuse(lambda asked: calls(asked) and b"feeEstimate" in asked.body, answer_json(200, body))


@pytest.mark.parametrize(
    ("message", "description", "seen", "missing"),
    [
        (
            "Node unreachable",
            "http://127.0.0.1:9/key refused the connection",
            "Node unreachable: http://127.0.0.1:9/… refused the connection",
            ["--relayer ID"],
        ),
        (
            "Invalid params",
            "the \x1b[2J transaction is for chain 1",
            "Invalid params: the �[2J transaction is for chain 1",
            ["--transaction HEX", "--fee-token TOKEN"],
        ),
    ],
)
def test_a_failing_estimate_is_told_in_the_servers_words(
    server: Conforming, message: str, description: str, seen: str, missing: list[str]
) -> None:
    with mutated(server.port, failing_estimate(message, description)) as url:
        report = conform(server.target(url)._replace(transaction=""), sections=["4.5"])
    assert reasons(report) == {"fee-estimate": f"no estimate of a sample transaction: {seen}"}
    assert report.missing() == missing


def test_a_long_description_is_cut(server: Conforming) -> None:
    with mutated(server.port, failing_estimate("m", "d" * 10_000)) as url:
        report = conform(server.target(url), sections=["4.5"])
    assert len(reasons(report)["fee-estimate"]) == 301


# Servers that are broken


@pytest.mark.parametrize("name", UNREACHABLE)
def test_a_server_without_a_readable_response_is_not_reached_in_time(name: str) -> None:
    began = time.monotonic()
    with serving(UNREACHABLE[name]) as url, pytest.raises(Unreachable):
        conform(FULL._replace(url=url), Budget(seconds=4))
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("name", RUBBISH)
def test_rubbish_gives_a_report(name: str) -> None:
    began = time.monotonic()
    with serving(RUBBISH[name]) as url:
        report = conform(FULL._replace(url=url), Budget(seconds=20))
    assert time.monotonic() - began < 60
    assert report.verdict == "does not conform"
    ElementTree.fromstring(as_junit(report, strict=True))
    assert msgspec.json.decode(msgspec.json.encode(report_as_json(report)))["verdict"] == report.verdict


@pytest.mark.parametrize("seed", range(12))
def test_values_of_any_type_give_a_report(server: Conforming, seed: int) -> None:
    """One value of each answer, anywhere in it, is replaced by another one."""
    chance = random.Random(seed)

    def after(_: Asked, answer: Answer) -> Answer:
        found = json.loads(answer.body)
        return answer._replace(body=json.dumps(damaged(found, chance)).encode())

    with mutated(server.port, Mutation(after=after)) as url:
        report = conform(server.target(url)._replace(relayer=chance.choice(["", "r1"])))
    assert report.verdict == "does not conform"
    ElementTree.fromstring(as_junit(report, strict=True))
    assert msgspec.json.encode(report_as_json(report))


def damaged(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict | list) and value and chance.random() < 0.7:
        copy: Any = value.copy()
        key = chance.choice(list(copy) if isinstance(copy, dict) else range(len(copy)))
        copy[key] = damaged(copy[key], chance)
        return copy
    return chance.choice([None, True, False, -1, 1.5, 1e308, 10**30, "", "\ud800\x1b", [], [[]], {}, {"a": None}, [{}]])


def test_a_server_that_hangs_after_a_while_does_not_outlast_the_budget() -> None:
    answered = body(b'{"data": [], "success": true}')
    began = time.monotonic()
    with serving(every(3, hang, answered)) as url:
        report = conform(FULL._replace(url=url), Budget(seconds=6))
    assert time.monotonic() - began < 30
    assert report.verdict == "does not conform"
    assert {"the budget of requests or seconds is used up"} <= {each.seen for each in report.results}
    assert "--max-seconds N" in report.missing()


def test_dropped_connections_fail(server: Conforming) -> None:
    """One of 20 requests: no check of a server may hold that drops any."""
    turns = iter(range(10**6))
    with mutated(server.port, Mutation(before=lambda asked: None if next(turns) % 20 == 19 else asked)) as url:
        report = conform(server.target(url))
    assert report.unanswered == report.requests // 20
    assert "no-server-error" in [result.name for result in report.failed]
    assert {result.seen for result in report.failed if "none" in result.seen} == {"none: it closed the connection"}


def test_a_request_about_a_ruling_that_is_dropped_counts(server: Conforming) -> None:
    with mutated(server.port, Mutation(before=lambda asked: None if "999999" in asked.query else asked)) as url:
        report = conform(server.target(url), sections=["4.2"])
    assert (report.failed, report.unanswered, report.verdict) == ([], 1, "does not conform")


# What is put back


def notification(server: Conforming, name: str) -> dict[str, Any]:
    found = server.running.ask("PATCH", f"/api/v1/notifications/{name}", {}).json["data"]
    return {key: found[key] for key in ("url", "has_signing_key")}


def test_the_notification_is_as_it_was(server: Conforming) -> None:
    before = notification(server, "unsigned")
    report = conform(server.target()._replace(notification="unsigned", replace_signing_key=False))
    assert (report.verdict, report.left) == ("conforms", [])
    assert notification(server, "unsigned") == before == {"url": WEBHOOK, "has_signing_key": False}


def test_a_signing_key_is_only_replaced_with_permission(server: Conforming) -> None:
    target = server.target()._replace(notification="signed", replace_signing_key=False)
    report = conform(target, sections=["4.3"])
    assert {each.name for each in report.unchecked} == {
        "key-set",
        "key-removed",
        "key-absent",
        "key-null",
        "key-hidden",
        "update-key-no-string",
    }
    assert (report.verdict, report.missing()) == ("incomplete", ["--replace-signing-key"])
    assert notification(server, "signed") == {"url": WEBHOOK, "has_signing_key": True}


def test_a_replaced_key_is_told(server: Conforming) -> None:
    report = conform(server.target()._replace(notification="signed"), sections=["4.3"])
    assert report.left == ["notification signed: a random signing key replaced its own; set the key again"]
    assert notification(server, "signed") == {"url": WEBHOOK, "has_signing_key": True}


@pytest.mark.parametrize("problem", [KeyboardInterrupt, ZeroDivisionError])
def test_what_was_changed_is_put_back_after_an_interruption(server: Conforming, problem: type[BaseException]) -> None:
    """While the url is another one: a progress bar is the caller's code, and a key may be pressed at any time."""
    seen = []

    def interrupt() -> None:
        if notification(server, "unsigned")["url"] != WEBHOOK:
            seen.append(notification(server, "unsigned"))
            raise problem

    target = server.target()._replace(notification="unsigned")
    with pytest.raises(problem):
        conform(target, sections=["4.3"], advance=interrupt)
    assert len(seen) == 1
    assert notification(server, "unsigned") == {"url": WEBHOOK, "has_signing_key": False}


def test_a_lost_request_does_not_keep_the_url_from_being_put_back(server: Conforming) -> None:
    turns = iter(range(10**6))
    lost = updates_with("url", WEBHOOK)
    with mutated(server.port, Mutation(before=lambda asked: None if lost(asked) and not next(turns) else asked)) as url:
        report = conform(server.target(url)._replace(notification="unsigned"), sections=["4.3"])
    assert (next(turns), report.left) == (2, [])
    assert notification(server, "unsigned") == {"url": WEBHOOK, "has_signing_key": False}


def test_a_url_that_cannot_be_put_back_is_kept_in_a_private_file(
    server: Conforming, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may contain a key, which a report must not show."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    refused = refuse(updates_with("url", WEBHOOK))
    with mutated(server.port, refused) as url:
        report = conform(server.target(url)._replace(notification="unsigned"), sections=["4.3"])
    (file,) = tmp_path.iterdir()
    assert report.left == [
        f"notification unsigned: set its url again, which failed here; it is in {file}",
        "notification unsigned: remove its signing key, which failed here",
    ]
    assert (file.read_text("utf-8"), file.stat().st_mode & 0o777) == (f"{WEBHOOK}\n", 0o600)
    assert WEBHOOK not in json.dumps(report_as_json(report))
    changed = {"url": WEBHOOK, "signing_key": ""}
    assert server.running.ask("PATCH", "/api/v1/notifications/unsigned", changed).status == 200


def test_created_signers_are_told(server: Conforming) -> None:
    before = server.running.ask("GET", "/api/v1/signers").json["pagination"]["total_items"]
    report = conform(server.target())
    listed = server.running.ask("GET", "/api/v1/signers?per_page=1000").json["data"]
    assert [each["id"] for each in listed[before:]] == report.created_signers


# The command


def command(server: Conforming, url: str, *options: str) -> tuple[int, str, str]:
    token = server.home.parent / "token"
    token.write_text(server.token)
    base = ["conform", url, "--token-file", str(token), "--allow-writes", "--notification", "unsigned"]
    done = run_command(server.home, *base, "--relayer", "r1", "--transaction", TRANSACTION, *options)
    return done.returncode, done.stdout, done.stderr


def test_the_command_prints_a_table_and_succeeds(server: Conforming) -> None:
    code, printed, _ = command(server, f"http://127.0.0.1:{server.port}", "--section", "4.2")
    assert code == 0
    assert "  contract holds         signers-default-per-page       per_page defaults to 10\n" in printed
    assert max(map(len, printed.splitlines())) <= 100
    assert printed.splitlines()[-1].startswith("conforms: 11 contract checks hold; ")


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


def run(server: Conforming, *options: str, stdin: str = "", **settings: str) -> tuple[int, list[str], str]:
    """With no options but these."""
    done = run_command(server.home, "conform", f"http://127.0.0.1:{server.port}", *options, stdin=stdin, **settings)
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_a_run_that_checked_nothing_is_incomplete(server: Conforming) -> None:
    code, printed, _ = run(server, "--section", "4.3", token=server.token)
    assert code == 3
    assert printed[-6:] == [
        "contract: 14 not checked",
        "rulings:  1 not checked",
        "not checked: 13 contract, 1 ruling: needs --allow-writes and --notification",
        "not checked: 1 contract: needs --allow-writes",
        "incomplete: 14 of 14 contract checks were not made; 1 request",
        "for a complete run, give: --allow-writes --notification ID",
    ]


def test_a_refused_credential_is_a_message(server: Conforming) -> None:
    code, printed, reported = run(server, token="wrong")
    assert (code, printed) == (1, [])
    assert reported == (
        "relaydeck: the server refuses this credential: nothing was checked\n"
        "Give one that may list signers, with --token-file or RELAYDECK_TOKEN.\n"
    )


@pytest.mark.parametrize("section", ["9.9", "foo", "4."])
def test_an_unknown_section_is_a_mistake_in_the_command_line(server: Conforming, section: str) -> None:
    code, printed, reported = run(server, "--section", "9", "--section", section, token=server.token)
    assert (code, printed) == (2, [])
    known = "2.1, 2.2, 2.3, 2.4, 3, 4, 4.1, 4.2, 4.3, 4.4, 4.5, 5, 7, 8, 9"
    assert f"there is no section {section}; the sections are {known}" in " ".join(reported.split())


@pytest.mark.parametrize("ending", ["/api/v1", "/api/v1/"])
def test_a_url_with_the_prefix_of_the_paths_is_refused(server: Conforming, ending: str) -> None:
    done = run_command(server.home, "conform", f"http://127.0.0.1:{server.port}{ending}", token=server.token)
    assert done.returncode == 2
    assert "give the base address of the server as URL, without /api/v1" in done.stderr


def test_one_check_holds(server: Conforming) -> None:
    code, printed, _ = run(server, "--section", "9", token=server.token)
    assert (code, printed[-1]) == (0, "conforms: 1 contract check holds; 2 requests")


def test_a_budget_that_is_used_up_is_named_in_the_last_line(server: Conforming) -> None:
    code, printed, _ = run(server, "--section", "4.2", "--max-requests", "2", token=server.token)
    assert (code, printed[-2:]) == (
        3,
        ["for a complete run, give: --max-requests N", "for more rulings, give: --allow-writes"],
    )


def test_a_section_without_a_contract_check_is_incomplete(server: Conforming) -> None:
    code, printed, _ = run(server, "--section", "8", token=server.token)
    assert (code, printed[-1]) == (3, "incomplete: no contract check was made; 4 requests")


def test_strict_makes_an_incomplete_run_a_failure(server: Conforming, tmp_path: Path) -> None:
    junit = tmp_path / "report.xml"
    code, printed, _ = run(server, "--section", "4.3", "--strict", "--junit", str(junit), token=server.token)
    assert (code, printed[-2]) == (1, "incomplete: 14 of 14 contract checks were not made; 1 request")
    suites = ElementTree.parse(junit).getroot()
    assert suites.get("name") == "relaydeck conform: incomplete"
    assert [suite.attrib for suite in suites] == [
        {"name": "section 4.3", "tests": "15", "failures": "14", "skipped": "1"}
    ]


def test_strict_succeeds_when_everything_is_checked(server: Conforming) -> None:
    code, printed, _ = command(server, f"http://127.0.0.1:{server.port}", "--strict")
    assert (code, printed.splitlines()[-2].partition(":")[0]) == (0, "conforms")


def test_only_failures(server: Conforming) -> None:
    with mutated(server.port, MUTANTS["signers-page-0"]) as url:
        code, printed, _ = command(server, url, "--section", "4.2", "--failures-only")
    assert code == 1
    assert printed.splitlines()[:3] == [
        "section 4.2",
        "  contract FAILS         signers-page-0                 page=0 is accepted",
        "           expected: /api/v1/signers?page=0 answered with a success envelope",
    ]
    assert [line for line in printed.splitlines() if line.startswith("  ")] == printed.splitlines()[1:2] + [
        line for line in printed.splitlines() if line.startswith("      ")
    ]
    assert "does not conform: 1 of 11 contract checks fail; " in printed


def test_every_line_of_a_whole_report_fits_in_100_columns(server: Conforming) -> None:
    code, printed, _ = run(server, token=server.token)
    assert code == 3
    assert [line for line in printed if len(line) > 100] == []


@pytest.mark.parametrize("name", ["drops every connection", "no HTTP"])
def test_the_command_against_a_broken_server(server: Conforming, name: str) -> None:
    with serving(UNREACHABLE[name]) as url:
        code, printed, reported = command(server, url, "--max-seconds", "8")
    assert (code, printed, reported.startswith(f"relaydeck: {url} does not answer: ")) == (1, "", True)


@pytest.mark.parametrize("options", [[], ["--json"], ["--failures-only"]])
@pytest.mark.parametrize("name", ["lone surrogates", "terminal escapes", "deep nesting", "HTML"])
def test_the_command_against_rubbish(server: Conforming, name: str, options: list[str]) -> None:
    with serving(RUBBISH[name]) as url:
        code, printed, reported = command(server, url, "--max-seconds", "20", *options)
    assert (code, reported) == (1, "")
    assert "does not conform" in printed and "\x1b" not in printed


def test_ctrl_c_ends_with_a_report_and_everything_put_back(server: Conforming) -> None:
    reached, released = threading.Event(), threading.Event()

    def before(asked: Asked) -> Asked | Answer:
        if reached.is_set() or not updates_with("signing_key", "conform")(asked):
            return asked
        reached.set()
        released.wait(60)
        return BAD_REQUEST

    with mutated(server.port, Mutation(before=before)) as url:
        options = ["--allow-writes", "--notification", "unsigned", "--section", "4.3", "--failures-only"]
        environment = clean_environment(server.home, token=server.token)
        process = subprocess.Popen(
            [*COMMAND, "conform", url, *options],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a background job ignores it
        )
        assert reached.wait(60)
        process.send_signal(signal.SIGINT)
        printed, reported = process.communicate(timeout=60)
        released.set()
    assert (process.returncode, reported) == (3, ""), printed
    assert "not checked: 11 contract, 1 ruling: the run was interrupted\n" in printed
    assert notification(server, "unsigned") == {"url": WEBHOOK, "has_signing_key": False}


def test_a_token_can_come_from_standard_input(server: Conforming) -> None:
    code, _, reported = run(server, "--token-file", "-", "--section", "9", stdin=f"{server.token}\n")
    assert (code, reported) == (0, "")


@pytest.mark.parametrize("option", ["--token", "--readonly-token"])
def test_no_token_can_be_given_on_the_command_line(server: Conforming, option: str) -> None:
    """Other users of the machine can see it there."""
    code, _, reported = run(server, option, "secret")
    assert (code, f"No such option '{option}'" in reported, "secret" in reported) == (2, True, False)


def test_a_readonly_token_from_a_file(server: Conforming, tmp_path: Path) -> None:
    file = tmp_path / "readonly"
    file.write_text(server.readonly)
    options = ["--section", "5", "--readonly-token-file", str(file), "--json"]
    _, printed, _ = run(server, *options, token=server.token)
    verdicts = {each["name"]: each["verdict"] for each in json.loads("".join(printed))["results"]}
    assert (verdicts["readonly-lists"], verdicts["readonly-refused"]) == ("as ruled", "as ruled")


@pytest.mark.parametrize("token", ["zwölf", "two words", "line\nbreak"])
def test_a_token_that_no_header_can_carry_is_refused(server: Conforming, token: str) -> None:
    code, _, reported = run(server, token=token)
    assert (code, "the token contains a character that no header can carry" in reported) == (2, True)


@pytest.mark.parametrize("url", ["ftp://host", "http://", "http://[::1", "http://host:99999", "http://a b", "host"])
def test_a_url_that_names_no_server_is_refused(server: Conforming, url: str) -> None:
    done = run_command(server.home, "conform", url, token=server.token)
    assert (done.returncode, "URL must start with http:// or https:// and name a host" in done.stderr) == (2, True)


def test_the_command_needs_a_credential(server: Conforming) -> None:
    done = run_command(server.home, "conform", f"http://127.0.0.1:{server.port}")
    assert (done.returncode, "give a credential" in done.stderr) == (2, True)


def test_the_command_says_when_nothing_answers(server: Conforming) -> None:
    code, _, reported = command(server, f"http://127.0.0.1:{free_port()}")
    assert (code, "does not answer: it refused the connection" in reported) == (1, True)


def test_no_output_shows_a_credential(server: Conforming) -> None:
    for options in (["--json"], []):
        _, printed, reported = command(server, f"http://127.0.0.1:{server.port}", "--section", "5", *options)
        assert server.token not in printed + reported
