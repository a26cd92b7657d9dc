"""Changes that need approval, typed: on a home and on a server, with the exit codes that a pipeline acts on."""

import json
import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from relaydeck.client import Retry
from relaydeck.credentials.grants import Grant
from relaydeck.scope import Scope
from tests.conftest import DEMO
from tests.support.fork_server import Done
from tests.support.running import Running, run_command
from tests.support.seeding import issue

CHANGED = DEMO.replace("gas_price_cap = 100000000000", "gas_price_cap = 7")


@pytest.fixture
def protected(home: Path) -> Path:
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    assert run_command(home, "protection", "create", "main", "--network", "sepolia").returncode == 0
    return home


@pytest.fixture
def running(protected: Path) -> Iterator[Running]:
    with Running(protected, token=issue(protected, "author", "owner"), monitor_interval_seconds="3600") as served:
        yield served


def typed(running: Running, *words: str, stdin: str = "", token: str = "") -> Done:
    at = {"url": f"http://127.0.0.1:{running.port}", "token": token or running.token}
    return run_command(running.home, *words, stdin=stdin, **at)


def newest(running: Running) -> str:
    identifier: str = running.ask("GET", "/admin/v1/proposals?order=newest").json["data"][0]["id"]
    return identifier


def test_on_a_home_a_change_waits_and_is_forced(protected: Path) -> None:
    done = run_command(protected, "relayer", "update", "sepolia-1", "name=Other", "--reason", "tidy up")
    (found,) = json.loads(run_command(protected, "proposal", "list", "--json").stdout)
    assert (done.returncode, done.stdout, done.stderr.splitlines()) == (
        3,
        "",
        [
            f"relaydeck: the change needs approval: it is now proposal {found['id']},"
            " and somebody else has to approve it",
            f"Nothing was changed yet. See 'relaydeck proposal show {found['id']}'.",
        ],
    )
    shown = run_command(protected, "proposal", "show", found["id"]).stdout.splitlines()
    assert shown[-2:] == ["~ relayer sepolia-1", "    name: Sepolia one -> Other"]
    own = run_command(protected, "proposal", "approve", found["id"])
    assert (own.returncode, "cannot be approved by its author" in own.stderr) == (1, True)
    assert run_command(protected, "proposal", "force", found["id"], "alone here").returncode == 0
    assert json.loads(run_command(protected, "relayer", "show", "sepolia-1", "--json").stdout)["name"] == "Other"


def test_a_proposal_that_removes_a_value_says_so(protected: Path) -> None:
    assert run_command(protected, "relayer", "update", "sepolia-1", "policies.gas_price_cap:=null").returncode == 3
    (found,) = json.loads(run_command(protected, "proposal", "list", "--json").stdout)
    shown = run_command(protected, "proposal", "show", found["id"]).stdout.splitlines()
    assert shown[-1] == "    policies.gas_price_cap: 100000000000 -> unset"


def test_on_a_home_an_apply_waits_too_and_a_wrong_file_is_refused_as_ever(protected: Path) -> None:
    wrong = run_command(protected, "apply", "-", stdin=CHANGED.replace('signer_id = "ops"', 'signer_id = "none"'))
    assert (wrong.returncode, "there is no such signer, in this file or stored" in wrong.stderr) == (1, True)
    assert run_command(protected, "apply", "-", stdin=CHANGED).returncode == 3
    (found,) = json.loads(run_command(protected, "proposal", "list", "--json").stdout)
    assert run_command(protected, "proposal", "force", found["id"], "alone here").returncode == 0
    again = run_command(protected, "apply", "-", stdin=CHANGED)
    assert (again.returncode, again.stdout) == (0, "nothing to change: the stored records match the file\n")


def test_an_apply_on_a_server_is_pinned_to_the_reviewed_plan(running: Running) -> None:
    plan = json.loads(typed(running, "apply", "-", "--plan", "--json", stdin=CHANGED).stdout)
    done = typed(running, "apply", "-", "--revision", plan["revision"], "--reason", "ü", stdin=CHANGED)
    found = running.ask("GET", f"/admin/v1/proposals/{newest(running)}").json["data"]
    fingerprint = plan["revision"].partition("-")[2]
    assert (done.returncode, found["revision"].strip('"').partition("-")[2], found["reason"]) == (3, fingerprint, "ü")


def await_proposal(running: Running, waiting: "Future[Done]") -> None:
    while not running.ask("GET", "/admin/v1/proposals").json["data"]:
        assert not waiting.done(), waiting.result()


def waited(running: Running, decision: str, *reason: str) -> Done:
    """`apply --wait`, while another decides."""
    approver = issue(running.home, "approver", "owner")
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(typed, running, "apply", "-", "--wait", "10m", stdin=CHANGED)
        await_proposal(running, waiting)
        assert typed(running, "proposal", decision, newest(running), *reason, token=approver).returncode == 0
        return waiting.result()


def test_a_waiting_apply_ends_with_the_approval(running: Running) -> None:
    done = waited(running, "approve")
    assert (done.returncode, done.stdout) == (0, "changed: 1 relayer\n")
    assert done.stderr == f"waiting for the approval of proposal {newest(running)}\n"


def test_a_waiting_apply_ends_with_the_rejection(running: Running) -> None:
    done = waited(running, "reject", "not before Monday")
    assert (done.returncode, done.stdout) == (4, "")
    words = [f"relaydeck: the proposal {newest(running)} is rejected", "not before Monday"]
    assert done.stderr.splitlines()[1:] == words


def test_a_waiting_apply_of_a_scoped_job_ends_with_the_approval(running: Running) -> None:
    job = issue(running.home, "job", Grant(role="editor", scope=Scope(networks=("sepolia",))).stored)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(typed, running, "apply", "-", "--wait", "10m", stdin=CHANGED, token=job)
        await_proposal(running, waiting)
        assert typed(running, "proposal", "approve", newest(running)).returncode == 0
        done = waiting.result()
    assert (done.returncode, done.stdout) == (0, "changed: 1 relayer\n")


def test_a_waiting_apply_whose_token_ends_leaves_the_proposal_open(running: Running) -> None:
    job = issue(running.home, "job", "editor")
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(typed, running, "apply", "-", "--wait", "10m", stdin=CHANGED, token=job)
        await_proposal(running, waiting)
        assert typed(running, "token", "revoke", "job").returncode == 0
        done = waiting.result()
    proposal = newest(running)
    assert (done.returncode, done.stdout, done.stderr.splitlines()[1:]) == (
        3,
        "",
        [
            "relaydeck: the change needs approval, and this credential cannot wait for it any longer:"
            f" http://127.0.0.1:{running.port} does not accept the token",
            f"Nothing was changed yet, and proposal {proposal} stays open. Follow it with another credential:"
            f" 'relaydeck proposal show {proposal}'.",
        ],
    )
    assert running.ask("GET", f"/admin/v1/proposals/{proposal}").json["data"]["state"] == "open"


def test_a_waiting_apply_outlasts_a_restart_of_the_service(protected: Path) -> None:
    token = issue(protected, "author", "owner")
    with ThreadPoolExecutor(1) as thread, Running(protected, token=token) as first:
        waiting = thread.submit(typed, first, "apply", "-", "--wait", "10m", stdin=CHANGED)
        await_proposal(first, waiting)
        proposal = newest(first)
        first.stop()
        with socket.create_server(("127.0.0.1", first.port)) as down:
            for _ in range(2 * Retry().attempts):  # more than one request makes
                down.accept()[0].close()
        with Running(protected, token=token, at=str(first.port)) as again:
            words = ("proposal", "force", proposal, "at night")
            assert typed(again, *words).returncode == 0
            done = waiting.result()
    assert (done.returncode, done.stdout) == (0, "changed: 1 relayer\n")


def test_its_author_withdraws_it(running: Running) -> None:
    assert typed(running, "apply", "-", stdin=CHANGED).returncode == 3
    words = ("proposal", "withdraw", newest(running))
    other = typed(running, *words, token=issue(running.home, "other", "owner"))
    assert (other.returncode, "only its author can withdraw a proposal" in other.stderr) == (1, True)
    done = typed(running, *words)
    assert (done.stdout, done.stderr) == ("", f"withdrew proposal {words[2]}\n")
    assert json.loads(typed(running, "proposal", "list", "--state", "open", "--json").stdout) == []


def test_a_waiting_apply_ends_with_its_time(running: Running) -> None:
    done = typed(running, "apply", "-", "--wait", "1s", stdin=CHANGED)
    assert (done.returncode, done.stdout) == (3, "")
    assert typed(running, "apply", "-", "--wait", "soon", stdin=CHANGED).returncode == 2


def test_a_change_that_somebody_made_meanwhile_is_named(running: Running) -> None:
    assert typed(running, "apply", "-", stdin=CHANGED).returncode == 3
    first = newest(running)
    assert typed(running, "relayer", "update", "sepolia-1", "name=Other").returncode == 3
    assert typed(running, "proposal", "force", newest(running), "at night").returncode == 0
    done = typed(running, "proposal", "approve", first, token=issue(running.home, "approver", "owner"))
    assert (done.returncode, "relayer.updated" in done.stderr, "token:author" in done.stderr) == (1, True, True)
    assert done.stderr.splitlines()[-1] == "Nothing was changed. Its author has to propose the change again."


@pytest.mark.parametrize("command", [("token", "create"), ("protection", "create")])
@pytest.mark.parametrize("label", ["payments", "=payments", "team="])
def test_a_label_of_a_scope_has_a_key_and_a_value(home: Path, command: tuple[str, str], label: str) -> None:
    done = run_command(home, *command, "one", "--label", label)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, "Error: --label must be KEY=VALUE")
