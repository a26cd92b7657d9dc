"""The pages for operators name what exists: settings, commands, metrics, paths, log lines, and other pages."""

import re
from itertools import product
from pathlib import Path

import click
import pytest

from pages.site import parts
from relaydeck.api.operations import OPERATIONS
from relaydeck.cli.commands import cli
from relaydeck.http.metrics import METRICS
from relaydeck.settings.model import unknown_names
from relaydeck.store.migrate import steps
from tests.support.running import Running

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = {
    name: (DOCS / name).read_text("utf-8")
    for name in (
        "availability.md",
        "growth.md",
        "operations.md",
        "replicas.md",
        "runbook-relayers.md",
        "runbook.md",
        "sizing.md",
        "troubleshooting-database.md",
        "troubleshooting-traffic.md",
        "troubleshooting.md",
        "upgrade.md",
    )
}
SOURCE = "\n".join(path.read_text("utf-8") for path in sorted((ROOT / "src" / "relaydeck").rglob("*.py")))
CODE = re.compile(r"`([^`\n]+)`")

every_page = pytest.mark.parametrize("page", PAGES)
every_page_for_users = pytest.mark.parametrize("name", parts()["Start"] + parts()["Guides"])


@every_page_for_users
def test_every_setting_exists(name: str) -> None:
    assert unknown_names(set(re.findall(r"\bRELAYDECK_[A-Z_]*[A-Z]\b", (ROOT / name).read_text("utf-8")))) == []


@every_page_for_users
def test_every_command_exists(name: str) -> None:
    found = CODE.findall((ROOT / name).read_text("utf-8"))
    commands = [words for code in found if code.startswith("relaydeck ") for words in alternatives(code)]
    assert [words for words in commands if not is_command(words)] == []


def test_the_guides_name_every_operation() -> None:
    """In the table of the admin API by path, in that of the Python client by method."""
    admin, client = ((DOCS / name).read_text("utf-8") for name in ("admin.md", "client.md"))
    paths = {re.sub(r"{\w+}", "{id}", each) for each in CODE.findall(admin)}
    assert [each.name for each in OPERATIONS if each.path not in paths or f"`{each.name}`" not in client] == []


def alternatives(code: str) -> list[list[str]]:
    """In tables, `list\\|show` stands for two commands. What another command reads is left out."""
    words = (word.split("\\|") for word in code.partition(" | ")[0].split()[1:])
    return [list(each) for each in product(*words)]


def is_command(words: list[str]) -> bool:
    """Whether the words lead to a command; what follows it are its arguments. `backup` is short for `backup create`."""
    words = ["backup", "create"] if words == ["backup"] else words
    found: click.Command = cli
    for word in words:
        if not isinstance(found, click.Group):
            break
        if word not in found.commands:
            return False
        found = found.commands[word]
    options = {option for each in found.params for option in each.opts}
    return not isinstance(found, click.Group) and {word for word in words if word.startswith("--")} <= options


def test_what_the_test_of_commands_would_find() -> None:
    assert [
        is_command(words.split()) for words in ("key rotate", "key", "key burn", "audit verify --hed", "serve")
    ] == [
        True,
        False,
        False,
        False,
        True,
    ]


@every_page
def test_every_metric_with_its_labels_is_exposed(page: str, service: Running) -> None:
    service.ask("GET", "/api/v1/relayers")
    exposed = set(re.findall(r"^# TYPE (\w+)", service.ask("GET", "/metrics").body.decode(), re.MULTILINE))
    named = [re.split(r"[{]", code)[0] for code in CODE.findall(PAGES[page]) if code.startswith("relaydeck_")]
    assert set(named) <= exposed
    known = {(label, value) for metric in METRICS for label, values in metric.labels.items() for value in values}
    assert set(re.findall(r'\b(\w+)="([^"]+)"', PAGES[page])) <= known


@every_page
def test_every_path_is_served(page: str, service: Running) -> None:
    asked = {code for code in CODE.findall(PAGES[page]) if re.fullmatch(r"/\w[\w/]*", code)} - {"/api/v1", "/admin/v1"}
    assert {path: service.ask("GET", path).status for path in asked} == dict.fromkeys(asked, 200)


@every_page
def test_every_quoted_log_line_is_logged(page: str) -> None:
    quoted = re.findall(r'log: "([^"]+)"', PAGES[page])
    assert [line for line in quoted if f'"{line}"' not in SOURCE] == []
    assert bool(quoted) == page.startswith(("runbook", "troubleshooting"))


@every_page
def test_every_link_leads_somewhere(page: str) -> None:
    linked = {target for target in re.findall(r"\]\(([^)]+)\)", PAGES[page]) if "://" not in target}
    assert [target for target in sorted(linked) if not (DOCS / target.partition("#")[0]).exists()] == []


@pytest.mark.parametrize(("version", "sql"), steps())
def test_a_change_of_the_schema_only_adds(version: int, sql: str) -> None:
    """A replica of the version before may be running: it must not notice. (An index is only noticed by its speed.)"""
    assert re.findall(r"\b(DROP(?! INDEX)|RENAME|ALTER COLUMN|SET NOT NULL)\b", sql, re.IGNORECASE) == []
