"""`relaydeck apply` and `relaydeck export` as they are typed."""

import os
import re
import subprocess
import threading
from pathlib import Path

import pytest

from relaydeck.notifications.webhook_rule import REFUSED
from tests.provisioning.conftest import ADDRESS, KEY, NETWORK, NOTIFICATION, RELAYER, SIGNER, WHOLE
from tests.support.running import COMMAND, Running, clean_environment, make_token, run_command

DEMO = Path(__file__).parents[2] / "examples" / "demo.toml"


def without_revision(plan: str) -> str:
    """The lines of a plan with changes before its last one, which is its revision."""
    *lines, last = plan.splitlines(keepends=True)
    assert re.fullmatch(r"revision: [0-9]+-[0-9a-f]{96}\n", last)
    return "".join(lines)


def test_the_demonstration(home: Path) -> None:
    planned = run_command(home, "apply", str(DEMO), "--plan")
    note = f"note: there is no Relaydeck data at {home / 'relaydeck.db'}: the plan starts from nothing, and has no"
    note += " revision before there is a master key\n"
    webhook = f"note: notifications[0].url {REFUSED}\n"
    assert (planned.returncode, planned.stderr) == (0, note + webhook)
    assert planned.stdout == (
        "+ network sepolia\n"
        "+ network local\n"
        "+ signer ops\n"
        "    type: plain\n"
        "+ signer vault\n"
        "    type: provider_a_kms\n"
        "    config.key_id: alias/ops\n"
        "    config.region: eu-west-1\n"
        "+ notification pager\n"
        "+ relayer sepolia-1\n"
        "+ relayer local-1\n"
        "+ relayer sepolia-2\n"
        "to create: 2 networks, 2 signers, 1 notification, 3 relayers\n"
    )
    done = run_command(home, "apply", str(DEMO))
    assert (done.returncode, done.stderr) == (0, f"relaydeck: created a new home in {home}\n{webhook}")
    assert done.stdout == "created: 2 networks, 2 signers, 1 notification, 3 relayers\n"
    again = run_command(home, "apply", str(DEMO))
    assert (again.stdout, again.stderr) == ("nothing to change: the stored records match the file\n", "")


@pytest.mark.parametrize("options", [[], ["--plan", "--detailed-exitcode"], ["--prune", "--yes"]])
def test_nothing_is_printed_with_quiet(home: Path, options: list[str]) -> None:
    run_command(home, "apply", str(DEMO))
    done = run_command(home, "apply", str(DEMO), "--quiet", *options)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_plan_with_changes_shows_in_its_exit_code_with_quiet(home: Path) -> None:
    run_command(home, "apply", "-", stdin=NETWORK)
    done = run_command(home, "apply", str(DEMO), "-q", "--plan", "--detailed-exitcode")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


@pytest.mark.parametrize("option", ["--json", "--plan"])
def test_quiet_is_refused_where_the_output_is_the_purpose(home: Path, option: str) -> None:
    done = run_command(home, "apply", str(DEMO), "--quiet", option)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--quiet prints nothing: leave --json out, and use --plan with --detailed-exitcode" in done.stderr


def test_what_would_change_is_shown_without_secrets(home: Path) -> None:
    run_command(home, "apply", "-", stdin=WHOLE)
    changed = (
        WHOLE.replace("node-key", "other-node-key")
        .replace("https://own.example/?key=own-key", "https://new.example/?key=new-key")
        .replace("a-signing-key", "another-signing-key")
        .replace("gas_price_cap = 100", f'gas_price_cap = 200\nwhitelist_receivers = ["{ADDRESS}"]')
    )
    assert without_revision(run_command(home, "apply", "-", "--plan", stdin=changed).stdout) == (
        "~ network sepolia\n"
        "    rpc_urls: (changed)\n"
        "~ notification pager\n"
        "    signing_key: (changed)\n"
        "~ relayer one (One)\n"
        "    custom_rpc_urls: [https://own.example weight 3] -> [https://new.example weight 3]\n"
        "    policies.gas_price_cap: 100 -> 200\n"
        f"    policies.whitelist_receivers: [] -> [{ADDRESS}]\n"
        "to change: 1 network, 1 notification, 1 relayer\n"
    )
    assert run_command(home, "apply", "-", stdin=changed).stdout == "changed: 1 network, 1 notification, 1 relayer\n"


def test_colour_is_there_when_it_is_wanted(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[32m+ network sepolia" in run_command(home, "apply", "-", "--plan", stdin=NETWORK).stdout


def test_a_file_with_mistakes(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text('[[signers]]\nid = "a"\ntype = "plain"\nconfig = { kee = "hunter2" }\n')
    refused = run_command(home, "apply", str(file))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        f"relaydeck: {file} has 2 mistakes:\n"
        '  signers[0].config.key: is missing; expected a string, { env = "NAME" } or { file = "path" }\n'
        "  signers[0].config.kee: is not a known key; did you mean key?\n"
        "Nothing was changed.\n"
    )
    assert not home.exists()


def test_the_first_apply_reads_a_secret_once(home: Path, tmp_path: Path) -> None:
    """It may come from a pipe."""
    pipe, file = tmp_path / "pipe", tmp_path / "file.toml"
    os.mkfifo(pipe)
    file.write_text(SIGNER.replace(f'"{KEY}"', '{ file = "pipe" }'))
    writer = threading.Thread(target=pipe.write_text, args=(KEY,))
    writer.start()
    done = run_command(home, "apply", str(file))
    writer.join()
    assert (done.returncode, done.stdout) == (0, "created: 1 signer\n")


def test_a_plan_of_another_home_creates_none(home: Path) -> None:
    refused = run_command(home, "apply", "-", "--revision", "7-0123456789abcdef", stdin=NETWORK)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"relaydeck: there is no Relaydeck data at {home / 'relaydeck.db'}\n")
    assert not home.exists()


def test_another_plan_than_the_reviewed_one_creates_no_home(home: Path) -> None:
    refused = run_command(home, "apply", "-", "--revision", "0-0123456789abcdef", stdin=NETWORK)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("relaydeck: the plan is not the one that was reviewed\n")
    assert not home.exists()


def test_a_file_without_records_creates_no_home(home: Path) -> None:
    assert run_command(home, "apply", "-", stdin="").returncode == 0
    assert not home.exists()


def test_the_plan_for_a_new_home_is_applied_by_its_revision(home: Path) -> None:
    home.mkdir(0o700)
    (home / "master.key").write_text("07" * 32)
    planned = run_command(home, "apply", "-", "--plan", stdin=NETWORK)
    revision = planned.stdout.splitlines()[-1].removeprefix("revision: ")
    assert run_command(home, "apply", "-", "--revision", revision, stdin=NETWORK).stdout == "created: 1 network\n"


@pytest.mark.parametrize("revision", ["abc", "-1", "9" * 26 + "-0123456789abcdef"])
def test_a_revision_that_is_none_is_refused(home: Path, revision: str) -> None:
    refused = run_command(home, "apply", "-", f"--revision={revision}", stdin=NETWORK)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "relaydeck: --revision must be the revision that --plan printed\nNothing was changed.\n"


def test_a_new_database_of_an_existing_home_is_announced_as_such(home: Path, tmp_path: Path) -> None:
    assert run_command(home, "apply", "-", stdin=NETWORK).returncode == 0
    other = tmp_path / "other.db"
    done = run_command(home, "apply", "-", stdin=NETWORK, database_url=f"sqlite:///{other}")
    assert (done.returncode, done.stderr) == (0, f"relaydeck: created a new database at {other}\n")


def test_a_file_that_is_not_there(home: Path) -> None:
    refused = run_command(home, "apply", "no.toml")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "relaydeck: the file no.toml cannot be read: No such file or directory\n"


def test_secrets_come_from_the_environment_and_from_files_beside_the_file(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPS_KEY", KEY)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "node.url").write_text("https://node.example/v1/node-key\n")
    (folder / "file.toml").write_text(
        SIGNER.replace(f'"{KEY}"', '{ env = "OPS_KEY" }')
        + NETWORK.replace('"https://node.example/v1/node-key"', '{ file = "node.url" }')
    )
    assert run_command(home, "apply", str(folder / "file.toml")).returncode == 0
    assert run_command(home, "apply", "-", stdin=NETWORK + SIGNER).stdout.startswith("nothing to change")


def test_an_export_piped_into_a_plan_changes_nothing(home: Path) -> None:
    run_command(home, "apply", "-", stdin=WHOLE)
    exported = run_command(home, "export")
    assert (exported.returncode, exported.stderr) == (0, "")
    planned = run_command(home, "apply", "-", "--plan", "--prune", stdin=exported.stdout)
    assert (planned.returncode, planned.stdout) == (0, "nothing to change: the stored records match the file\n")
    assert len(planned.stderr.splitlines()) == 5  # one note for each secret that is kept


def test_a_running_server_follows(home: Path) -> None:
    run_command(home, "apply", "-", stdin=WHOLE)
    with Running(home, token=make_token(home, "t"), rate_limit_per_second="0") as service:

        def listed() -> list[tuple[str, str]]:
            return [(each["id"], each["name"]) for each in service.ask("GET", "/api/v1/relayers").json["data"]]

        assert listed() == [("one", "One")]
        second = RELAYER.replace('id = "one"', 'id = "two"').replace('"One"', '"Two"')
        run_command(home, "apply", "-", stdin=second + RELAYER.replace('"One"', '"Uno"'))
        assert listed() == [("one", "Uno"), ("two", "Two")]
        pruned = run_command(home, "apply", "-", "--prune", "--yes", stdin=WHOLE)
        assert pruned.stdout == "changed: 1 relayer\nremoved: 1 relayer\n"
        assert listed() == [("one", "One")]


def test_a_long_apply_shows_its_progress_on_a_terminal(home: Path) -> None:
    many = "".join(RELAYER.replace('id = "one"', f'id = "{number}"') for number in range(1000))
    terminal, side = os.openpty()
    try:
        done = subprocess.run(
            [*COMMAND, "apply", "-"],
            input=(NETWORK + SIGNER + NOTIFICATION + many).encode(),
            env=clean_environment(home) | {"TERM": "xterm"},
            stdout=subprocess.PIPE,
            stderr=side,
            timeout=60,
            check=True,
        )
        shown = os.read(terminal, 65_536)
    finally:
        os.close(terminal)
        os.close(side)
    assert done.stdout == b"created: 1 network, 1 signer, 1 notification, 1000 relayers\n"
    assert b"applying" in shown


def test_a_home_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "occupied").write_text("a file where a folder should be")
    refused = run_command(tmp_path / "occupied" / "home", "apply", "-", stdin=WHOLE)
    assert refused.returncode == 1
    assert "cannot be created" in refused.stderr
