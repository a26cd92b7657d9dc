"""Only serve, apply, restore and `token create` create a home. Every other command fails and leaves nothing behind."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from relaydeck.cli.commands import cli
from relaydeck.errors import OperatorError

CREATE_A_HOME = {"serve", "apply", "db migrate", "restore", "token create"}
NEED_DATA: dict[str, tuple[str, ...]] = {
    "audit archive": ("--before", "2020-01-31", "file"),
    "audit head": (),
    "audit list": (),
    "audit verify": (),
    "backup create": ("file",),
    "backup drill": (),
    "console": (),
    "db move": ("--to", "sqlite:///elsewhere.db"),
    "event deliveries": (),
    "event list": (),
    "event replay": ("--all-dead",),
    "event show": ("evt_1",),
    "event tail": (),
    "estimate": ("r", "0x"),
    "export": (),
    "key rotate": (),
    "find": ("x",),
    "network create": ("name=n",),
    "network delete": ("n", "--yes"),
    "network list": (),
    "network show": ("n",),
    "network update": ("n", "chain_id:=1"),
    "notification create": ("id=n",),
    "notification delete": ("n", "--yes"),
    "notification list": (),
    "notification send": ("n",),
    "notification show": ("n",),
    "notification test": ("n",),
    "notification update": ("n", "url=http://h.example"),
    "problem acknowledge": ("p", "note", "4h"),
    "problem list": (),
    "problem reopen": ("p",),
    "proposal approve": ("p",),
    "proposal force": ("p", "reason"),
    "proposal list": (),
    "proposal reject": ("p", "reason"),
    "proposal withdraw": ("p",),
    "proposal show": ("p",),
    "protection create": ("p",),
    "protection delete": ("p",),
    "protection list": (),
    "relayer create": ("name=r",),
    "relayer runway": (),
    "relayer delete": ("r", "--yes"),
    "relayer list": (),
    "relayer pause": ("r",),
    "relayer resume": ("r",),
    "relayer show": ("r",),
    "relayer update": ("r", "name=r"),
    "relayer why": ("r",),
    "signer check": ("s",),
    "signer create": ("id=s",),
    "signer delete": ("s", "--yes"),
    "signer drivers": (),
    "signer list": (),
    "signer show": ("s",),
    "signer update": ("s", "--label", "a=b"),
    "token list": (),
    "token revoke": ("t",),
    "token rotate": ("t",),
    "whoami": (),
}
NEED_NO_HOME = {"doctor", "conform", "demo", "diagnose", "drain", "init", "login", "logout", "profile list"}


def paths(command: click.Command, before: tuple[str, ...] = ()) -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield " ".join(before)
        return
    for name in command.list_commands(click.Context(command)):
        if not command.commands[name].hidden:
            yield from paths(command.commands[name], (*before, name))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("RELAYDECK_HOME", "RELAYDECK_DATABASE_URL", "RELAYDECK_MASTER_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(path: str, *arguments: str) -> None:
    cli.main([*path.split(), *arguments], standalone_mode=False)


def test_every_command_is_listed_here() -> None:
    assert set(paths(cli)) == {*CREATE_A_HOME, *NEED_DATA, *NEED_NO_HOME}


@pytest.mark.parametrize("path", NEED_DATA)
def test_a_command_in_an_empty_folder(path: str, folder: Path) -> None:
    with pytest.raises(OperatorError) as refused:
        run(path, *NEED_DATA[path])
    assert refused.value.problem.startswith("there is no ") and ".relaydeck/relaydeck.db" in refused.value.problem
    assert "RELAYDECK_HOME" in refused.value.remedy
    assert list(folder.iterdir()) == []


def test_a_database_without_a_schema_is_left_as_it_is(folder: Path) -> None:
    home = folder / ".relaydeck"
    home.mkdir()
    (home / "relaydeck.db").touch()
    with pytest.raises(OperatorError, match="there is no Relaydeck data"):
        run("audit verify")
    assert [(each.name, each.stat().st_size) for each in home.iterdir()] == [("relaydeck.db", 0)]


def test_a_plan_creates_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "file.toml").write_text('[networks.n]\nnetwork_type = "evm"\nchain_id = 1\nnative_symbol = "E"\n')
    run("apply", "file.toml", "--plan")
    assert capsys.readouterr().out == "+ network n\nto create: 1 network\n"
    assert [each.name for each in folder.iterdir()] == ["file.toml"]


def test_a_master_key_that_cannot_be_used_is_refused_before_anything_is_created(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "file.toml").write_text('[networks.n]\nnetwork_type = "evm"\nchain_id = 1\nnative_symbol = "E"\n')
    (folder / "key").write_text("zz")
    monkeypatch.setenv("RELAYDECK_MASTER_KEY_FILE", str(folder / "key"))
    with pytest.raises(OperatorError, match="master key"):
        run("apply", "file.toml")
    assert sorted(each.name for each in folder.iterdir()) == ["file.toml", "key"]
