"""`create --help` and `update --help` list the declared fields, and the examples in them work."""

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest

from relaydeck.cli.commands import cli
from relaydeck.fields import fields_of
from relaydeck.relayers.model import Policies, Relayer
from tests.conftest import DEMO
from tests.support.running import run_command


def help_of(*path: str) -> str:
    command: click.Command = cli
    wide: dict[str, Any] = {**cli.context_settings, "terminal_width": 1000, "max_content_width": 1000}
    context = click.Context(cli, info_name="relaydeck", **wide)
    for name in path:
        assert isinstance(command, click.Group)
        command = command.commands[name]
        context = click.Context(command, context, name, **wide)
    return command.get_help(context)


def listed(text: str) -> dict[str, str]:
    """The fields in a help text with their descriptions."""
    return dict(re.findall(r"^  ([a-z0-9_.]+) {2,}(.+)$", text[text.index("\nFields:") :], flags=re.MULTILINE))


def test_every_settable_field_of_a_relayer_is_listed() -> None:
    settable = [each for each in fields_of(Relayer) if not each.traits.read_only and each.name != "policies"]
    names = [each.name for each in settable] + [f"policies.{each.name}" for each in fields_of(Policies)]
    fields = listed(help_of("relayer", "create"))
    assert list(fields) == names
    assert fields["policies.min_balance"].endswith(
        "An integer of at least 0; optional. Example: policies.min_balance:=0"
    )
    assert fields["name"] == "Name for people. A string; required. Example: name='Sepolia one'"


def test_an_update_does_not_list_the_identity_nor_what_is_required() -> None:
    fields = listed(help_of("relayer", "update"))
    assert "id" not in fields
    assert fields["name"] == "Name for people. A string. Example: name='Sepolia one'"


def test_an_update_of_a_signer_lists_labels_only() -> None:
    shown = help_of("signer", "update")
    assert list(listed(shown)) == ["labels"]
    assert shown.splitlines()[2].startswith("  Change the labels of the signer with this ID.")


@pytest.mark.parametrize("command", ["show", "delete"])
def test_a_network_is_found_by_its_name_and_any_other_record_by_its_id(command: str) -> None:
    verb = command.capitalize()
    network = help_of("network", command)
    assert f"{command} [OPTIONS] NAME\n" in network and f"{verb} the network called NAME." in network
    for resource in ("signer", "notification", "relayer"):
        text = help_of(resource, command)
        assert f"{command} [OPTIONS] ID\n" in text and f"{verb} the {resource} with this ID." in text


def test_the_fields_of_every_type_of_signer_are_listed() -> None:
    text = help_of("signer", "create")
    assert "Fields with type=plain:" in text and "Fields with type=provider_b_kms:" in text
    assert "Example: config.region=eu-west-1" in text
    assert "config.key=@FILE" in text and "config.key=0x" not in text


@pytest.mark.parametrize("resource", ["network", "notification"])
def test_the_examples_create_a_record(resource: str, home: Path) -> None:
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    examples = [text.partition(" Example: ")[2] for text in listed(help_of(resource, "create")).values()]
    arguments = shlex.split(" ".join(examples))
    identity = "name" if resource == "network" else "id"
    secret = home / "secret"
    secret.write_text("a new signing key")
    given = [f"{identity}=new" if each.startswith(f"{identity}=") else each for each in arguments]
    given = [each.replace("=@FILE", f"=@{secret}") for each in given]
    created = run_command(home, resource, "create", *given)
    assert (created.returncode, created.stderr) == (0, f"created {resource} new\n")
