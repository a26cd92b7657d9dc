"""Commands on a server, with nothing but its URL and a token: they do and print what they do on the home."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

import pytest

from tests.conftest import DEMO
from tests.support.fork_server import Done
from tests.support.running import Running, eventually, free_port, make_token, run_command


class Remote(NamedTuple):
    """A served home, and a machine elsewhere that knows its URL and an admin token."""

    service: Running
    elsewhere: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.service.port}"

    def there(self, *arguments: str, stdin: str = "", **settings: str) -> Done:
        """A command of the machine elsewhere."""
        given = {"url": self.url, "token": self.service.token} | settings
        return run_command(self.elsewhere, *arguments, stdin=stdin, **{name: v for name, v in given.items() if v})

    def here(self, *arguments: str, stdin: str = "") -> Done:
        """The same command on the home."""
        return run_command(self.service.home, *arguments, stdin=stdin, monitor_interval_seconds="0")

    def run(self, *arguments: str, stdin: str = "") -> str:
        """Standard output and error of a command elsewhere that succeeds."""
        done = self.there(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def json(self, *arguments: str, stdin: str = "") -> Any:
        return json.loads(self.run(*arguments, "--json", stdin=stdin))


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    home = tmp_path_factory.mktemp("remote") / "home"
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    token = make_token(home, "ops", "--kind", "admin")
    settings = {"rate_limit_per_second": "0", "monitor_interval_seconds": "0", "max_per_page": "2"}
    with Running(home, token=token, **settings) as running:
        yield Remote(running, home.parent / "elsewhere")


@pytest.fixture(autouse=True)
def _profiles_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


READS = [
    ["network", "list"],
    ["network", "show", "sepolia"],
    ["signer", "list", "--type", "plain"],
    ["signer", "show", "ops", "--json"],
    ["notification", "list", "--json"],
    ["notification", "show", "pager"],
    ["relayer", "list"],
    ["relayer", "list", "--state", "paused", "--json"],
    ["relayer", "show", "sepolia-1", "--json"],
    ["relayer", "show", "nobody"],
    ["notification", "show", "nobody"],
    ["token", "list"],
    ["token", "list", "--json"],
    ["token", "list", "--name", "OP", "--kind", "admin", "--state", "live"],
    ["token", "list", "--kind", "readonly", "--json"],
    ["token", "list", "--state", "refused"],
    ["event", "list"],
    ["event", "list", "--after", "1", "--json"],
    ["event", "deliveries", "--state", "dead"],
    ["event", "show", "nothing"],
    ["audit", "list", "--action", "relayer.created", "--json"],
    ["audit", "list", "--limit", "2"],
    ["audit", "head"],
    ["signer", "drivers"],
    ["signer", "drivers", "--json"],
    ["audit", "verify"],
    ["audit", "verify", "--head", "9999:" + "0" * 64],
    ["audit", "verify", "--head", "not one"],
    ["estimate", "sepolia-1", "0x00"],
    ["estimate", "sepolia-1", "0x00", "--json"],
    ["estimate", "nobody", "0x00"],
    ["relayer", "why", "nobody"],
    ["signer", "check", "nobody"],
    ["token", "revoke", "nobody"],
    ["token", "create", "ops"],
    ["token", "create", "ops", "--expires", "soon"],
    ["event", "replay", "nothing"],
    ["event", "replay", "--all-dead"],
    ["relayer", "resume", "sepolia-1"],
    ["relayer", "update", "sepolia-1", "nonsense=1"],
    ["relayer", "update", "sepolia-1"],
    ["signer", "delete", "ops"],
    ["network", "create", "name=sepolia", "network_type=evm", "chain_id:=1", "native_symbol=ETH"],
]


@pytest.mark.parametrize("arguments", READS, ids=" ".join)
def test_a_command_prints_the_same_on_a_server_as_on_the_home(remote: Remote, arguments: list[str]) -> None:
    assert remote.there(*arguments) == remote.here(*arguments)


def test_why_explains_the_same(remote: Remote) -> None:
    there, here = (
        json.loads(run("relayer", "why", "sepolia-1", "--json").stdout) for run in (remote.there, remote.here)
    )
    for explanation in (there, here):
        (node,) = explanation["nodes"]
        assert node.pop("milliseconds") >= 0
        del node["last_fault"], node["last_fault_at"]  # the workers write what they saw every few seconds
    assert there == here
    assert "refused the connection" in remote.run("relayer", "why", "sepolia-1")


def test_a_relayer_is_paused_and_resumed(remote: Remote) -> None:
    assert remote.run("relayer", "pause", "sepolia-1") == "paused relayer sepolia-1\n"
    assert remote.run("relayer", "pause", "sepolia-1") == "relayer sepolia-1 is already paused\n"
    assert remote.run("relayer", "resume", "sepolia-1") == "resumed relayer sepolia-1\n"
    assert [each["actor"] for each in remote.json("audit", "list", "--limit", "2")] == ["token:ops", "token:ops"]


def test_a_token_is_issued_and_revoked(remote: Remote) -> None:
    token = remote.run("token", "create", "ci", "--kind", "admin", "--expires", "1h").strip()
    assert remote.there("relayer", "list", token=token) == remote.here("relayer", "list")
    assert remote.run("token", "revoke", "ci") == "revoked ci\n"
    assert remote.there("relayer", "list", token=token).returncode == 1


def test_a_test_event_is_sent_and_shown(remote: Remote) -> None:
    event = json.loads(remote.there("notification", "test", "pager", "--json").stdout)
    shown = remote.json("event", "show", event["id"])
    assert (shown["type"], shown["notification_id"]) == ("notification.test", "pager")
    assert event["id"] in remote.run("event", "deliveries", "--notification-id", "pager")


def test_signers_are_checked_by_the_server(remote: Remote) -> None:
    (check,) = json.loads(remote.there("signer", "check", "ops", "--json").stdout)
    assert (check["signer_id"], check["outcome"]) == ("ops", "ok")
    every = remote.there("signer", "check", "--all")
    assert (every.returncode, every.stderr) == (0, "1 signer checked, 0 failed\n")
    assert remote.json("signer", "list")[0]["check"]["outcome"] == "ok"


def test_doctor_shows_what_it_finds_on_the_machine_of_the_server(remote: Remote) -> None:
    there, here = (json.loads(run("doctor", "--json").stdout) for run in (remote.there, remote.here))
    accepted = f"{remote.url} answers and accepts the token"
    assert there.pop(0) == {"result": "ok", "subject": "server", "remark": accepted}
    momentary = ("disk", "clock", "writes", "nodes on ")  # the last: what the service saw until then
    assert [each for each in there if not each["subject"].startswith(momentary)] == [
        each for each in here if not each["subject"].startswith(momentary)
    ]


def test_doctor_recognises_the_operations_port(tmp_path: Path) -> None:
    port, token = free_port(), make_token(tmp_path / "home", "ops", "--kind", "admin")
    with Running(tmp_path / "home", operations_address=f"127.0.0.1:{port}"):
        url = f"http://127.0.0.1:{port}"
        eventually(lambda: answers(url))
        done = run_command(tmp_path / "elsewhere", "doctor", url=url, token=token)
    assert done.returncode == 1
    assert done.stdout == (
        f"FAIL  server: {url} is a port of Relaydeck without the admin API. Name the port of the service:"
        " RELAYDECK_OPERATIONS_ADDRESS is for health and metrics only, and with --core a service has no admin API.\n"
    )


def answers(url: str) -> bool:
    with suppress(OSError), urlopen(f"{url}/healthz", timeout=60) as response:
        return bool(response.status == 200)
    return False


def test_an_address_with_the_prefix_of_the_interface_is_named(service: Running, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{service.port}/api/v1"
    done = run_command(tmp_path / "elsewhere", "whoami", url=url, token=service.token)
    said = f"relaydeck: {url} is the address of the interface, not of the service\nLeave out /api/v1.\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_doctor_with_a_token_that_the_server_does_not_accept(remote: Remote) -> None:
    wrong = remote.there("doctor", token="rdk_wrong")
    refusal = "does not accept the token. It is unknown, expired or revoked there."
    assert (wrong.returncode, wrong.stdout) == (1, f"FAIL  server: {remote.url} {refusal}\n")


def test_nothing_is_made_on_the_machine_that_runs_the_command(remote: Remote) -> None:
    remote.run("relayer", "list")
    assert not remote.elsewhere.exists()


def test_a_relayers_life(remote: Remote) -> None:
    fields = ("id=r2", "name=Second", "network=sepolia", "network_type=evm", "signer_id=ops")
    assert remote.run("relayer", "create", *fields) == "created relayer r2\n"
    changed = remote.json("relayer", "update", "r2", "policies.min_balance:=5", "notification_id=pager")
    assert (changed["policies"]["min_balance"], changed["notification_id"]) == (5, "pager")
    assert remote.run("relayer", "delete", "r2", "--yes") == "deleted relayer r2\n"
    gone = remote.there("relayer", "delete", "r2", "--yes")
    assert (gone.returncode, gone.stderr) == (1, "relaydeck: Relayer with ID r2 not found\nNothing was changed.\n")
    assert gone == remote.here("relayer", "delete", "r2", "--yes")


def test_a_reference_is_resolved_where_the_command_runs(remote: Remote, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("a signing key\n")
    whole = {"id": "chat", "type": "webhook", "url": "https://hooks.example.com/x"}
    referring = whole | {"signing_key": {"file": str(tmp_path / "key")}}
    created = remote.json("notification", "create", "--from", "-", stdin=json.dumps(referring))
    assert created["has_signing_key"] is True
    unset = json.dumps({"signing_key": {"env": "NOT_SET_ANYWHERE"}})
    refused = remote.there("notification", "update", "chat", "--from", "-", stdin=unset)
    assert refused.stderr == "relaydeck: signing_key: the environment variable NOT_SET_ANYWHERE is not set\n"
    assert remote.run("notification", "delete", "chat", "--yes") == "deleted notification chat\n"


def test_a_list_longer_than_a_page_is_whole(remote: Remote) -> None:
    for number in range(3):
        remote.run("notification", "create", f"id=n{number}", "type=webhook", "url=https://hooks.example.com/")
    listed = remote.there("notification", "list", "--limit", "2")
    assert listed == remote.here("notification", "list", "--limit", "2")
    assert listed.stderr == "note: 2 more are not shown; see --limit\n"
    for number in range(3):
        remote.run("notification", "delete", f"n{number}", "--yes")


# -- which server --------------------------------------------------------------------------------


def usage_error(done: Done) -> str:
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr.splitlines()[-1]


def test_options_name_a_server_too(remote: Remote, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{remote.service.token}\n")
    options = ("--server", remote.url, "--token-file", str(tmp_path / "token"))
    named = remote.there("relayer", "list", *options, url="http://127.0.0.1:9", token="wrong")
    assert named == remote.here("relayer", "list")


def test_home_wins_over_the_environment(remote: Remote) -> None:
    home = ("--home", str(remote.service.home))
    assert remote.there("relayer", "list", *home, url="http://127.0.0.1:9") == remote.here("relayer", "list")


def test_options_that_contradict_each_other_are_refused(remote: Remote) -> None:
    both = remote.there("relayer", "list", "--home", "x", "--server", remote.url)
    assert usage_error(both) == (
        "Error: --home and a server exclude each other: give one of --home, --server and --profile"
    )
    assert usage_error(remote.there("relayer", "list", token="")) == (
        "Error: a server needs a token: set RELAYDECK_TOKEN, or pass --token-file"
    )


@pytest.mark.parametrize("arguments", [["backup", "create", "x"], ["key", "rotate"], ["restore", "x"]], ids=" ".join)
def test_a_command_that_needs_the_home_refuses_a_server(remote: Remote, arguments: list[str]) -> None:
    expected = (
        "Error: this command works on the home folder only, not on a server: run it on the machine that holds the home,"
        " and pass --home if RELAYDECK_URL or RELAYDECK_PROFILE is set"
    )
    assert usage_error(remote.there(*arguments)) == expected
    assert usage_error(remote.there(*arguments, "--server", remote.url, url="", token="")) == expected


# -- profiles ------------------------------------------------------------------------------------


def test_a_profile_stands_for_a_server(remote: Remote, tmp_path: Path) -> None:
    stored = tmp_path / "config" / "relaydeck" / "profiles.json"
    login = remote.there("login", remote.url, "--profile", "staging", url="")
    assert (login.returncode, login.stdout, login.stderr) == (
        0,
        "",
        f"stored profile staging in {stored}; use it with --profile staging or RELAYDECK_PROFILE=staging\n",
    )
    assert (stored.stat().st_mode & 0o777, stored.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert remote.json("profile", "list") == [{"name": "staging", "url": remote.url}]
    assert remote.service.token not in remote.run("profile", "list")
    for named in ({"profile": "staging"}, {}):
        options = () if named else ("--profile", "staging")
        assert remote.there("relayer", "list", *options, url="", token="", **named) == remote.here("relayer", "list")
    assert remote.run("logout", "--profile", "staging") == "removed profile staging\n"
    assert remote.json("profile", "list") == []
    gone = remote.there("relayer", "list", "--profile", "staging", url="", token="")
    assert gone.stderr == (
        "relaydeck: there is no profile 'staging'\nSee 'relaydeck profile list', or run 'relaydeck login'.\n"
    )


def test_login_stores_no_token_that_the_server_does_not_accept(remote: Remote, tmp_path: Path) -> None:
    readonly = make_token(remote.service.home, "reader", "--kind", "readonly")
    for token in ("rdk_wrong", readonly):
        assert remote.there("login", remote.url, url="", token=token).returncode == 1
    assert not (tmp_path / "config").exists()


def test_profiles_that_others_may_read_are_refused(remote: Remote, tmp_path: Path) -> None:
    assert remote.there("login", remote.url, url="").returncode == 0
    stored = tmp_path / "config" / "relaydeck" / "profiles.json"
    stored.chmod(0o644)
    refused = remote.there("relayer", "list", "--profile", "default", url="")
    assert refused.stderr == f"relaydeck: {stored} contains tokens and others may read it\nRun 'chmod 600 {stored}'.\n"


# -- a server that does not answer as it should ----------------------------------------------------


def test_an_unknown_server_is_named(remote: Remote) -> None:
    port = free_port()
    done = remote.there("relayer", "list", url=f"http://127.0.0.1:{port}")
    assert (done.returncode, done.stderr) == (
        1,
        f"relaydeck: cannot connect to http://127.0.0.1:{port}: Connection refused\n"
        "Check --server or RELAYDECK_URL, and that the service is running.\n",
    )
    plain = remote.there("relayer", "list", url=remote.url.replace("http://", "https://"))
    assert plain.stderr == (
        f"relaydeck: cannot connect to {remote.url.replace('http://', 'https://')}: this port does not use TLS\n"
        "Try the same URL with http:// instead.\n"
    )
    misspelt = remote.there("relayer", "list", url="relay.example.com")
    assert misspelt.stderr.startswith("relaydeck: the service's URL must start with http:// or https://")


def test_a_wrong_token_and_one_of_another_kind_are_told_apart(remote: Remote) -> None:
    assert remote.there("relayer", "list", token="rdk_wrong").stderr == (
        f"relaydeck: {remote.url} does not accept the token\nIt is unknown, expired or revoked there.\n"
    )
    readonly = make_token(remote.service.home, "another", "--kind", "readonly")
    assert remote.there("relayer", "list", token=readonly).stderr == (
        f"relaydeck: {remote.url}: this needs a credential with the role viewer, operator, editor or owner\n"
        "'relaydeck whoami' shows your role and scope.\n"
    )


def test_a_credential_with_a_scope_learns_what_it_may_not(remote: Remote) -> None:
    team = make_token(remote.service.home, "team", "--role", "editor", "--label", "team=payments")
    shown = remote.there("whoami", token=team)
    assert [[*map(str.strip, line.split("│")[1:3])] for line in shown.stdout.splitlines() if "│" in line] == [
        ["actor", "token:team"],
        ["role", "editor"],
        ["limited to", "--label team=payments"],
        ["rule", "the token team"],
        ["until", "no end"],
    ]
    whole = "the credential is limited to a scope, and this is about the whole service"
    refused = remote.there("token", "list", token=team)
    said = f"relaydeck: {remote.url}: {whole}\n'relaydeck whoami' shows your role and scope.\n"
    assert (refused.returncode, refused.stderr) == (1, said)
    assert remote.there("doctor", token=team).stdout == (
        f"ok    server: {remote.url} answers and accepts the token\n"
        f"FAIL  server: {remote.url}: {whole}. 'relaydeck whoami' shows your role and scope.\n"
    )


@pytest.mark.parametrize("label", ["env", "file"])
def test_a_label_is_no_reference(remote: Remote, label: str) -> None:
    """Wherever the command runs, in both ways to write it."""
    fields = (f"id=of-{label}", "type=webhook", "url=https://hooks.example.com/")
    made = remote.json("notification", "create", *fields, "--label", f"{label}=prod")
    assert made["labels"] == {label: "prod"}
    update = ("notification", "update", f"of-{label}")
    for run in remote.there, remote.here:
        for words, value in (("--label", f"{label}=a"), "a"), ((f'labels:={{"{label}":"b"}}',), "b"):
            done = run(*update, *words, "--json")
            assert (done.returncode, json.loads(done.stdout or "{}").get("labels")) == (0, {label: value}), done.stderr
