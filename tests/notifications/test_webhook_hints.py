"""Hints about webhooks that the service refuses to send events to, and about the setting that allows them."""

from ipaddress import ip_network
from pathlib import Path

import pytest

from relaydeck.notifications.attempt_errors import describe_error
from relaydeck.notifications.webhook_rule import REFUSED, WebhookRule
from tests.running import Running, make_token, run_command
from tests.seeding import fill

NOTE = f"note: url {REFUSED}\n"
LOCAL = "http://user:hunter2@127.0.0.1:9/hook"
PUBLIC = "https://hooks.example.com/relaydeck"


@pytest.mark.parametrize(
    ("url", "refused"),
    [
        ("http://127.0.0.1:9/hook", True),
        ("http://user:password@10.1.2.3/", True),
        ("http://[::1]/", True),
        ("http://[fe80::1%25eth0]/", True),
        ("http://127。0。0。1/", True),
        ("http://LOCALHOST:9/", True),
        ("https://93.184.216.34/", False),
        ("https://[2606:2800:220:1:248:1893:25c8:1946]/", False),
        ("https://127.0.0.1.example.com/", False),
        ("https://intranet/", False),  # not known: the name is not resolved
        ("http://127.1/", False),  # no URL that the client accepts, so no setting helps
    ],
)
def test_which_urls_get_a_hint(url: str, refused: bool) -> None:
    assert WebhookRule(()).hint(url) == (REFUSED if refused else "")


@pytest.mark.parametrize("allowed", ["127.0.0.0/8", "::1/128"])
def test_an_allowed_address_gets_no_hint(allowed: str) -> None:
    rule = WebhookRule((ip_network(allowed),))
    assert rule.hint("http://localhost/") == ""
    assert rule.hint("http://127.0.0.1/") == ("" if allowed == "127.0.0.0/8" else REFUSED)


def test_without_settings_there_is_no_hint() -> None:
    assert WebhookRule().hint(LOCAL) == ""


def test_commands_on_the_home_print_a_note(home: Path) -> None:
    fill(home)
    created = run_command(home, "notification", "create", "id=hook", "type=webhook", f"url={LOCAL}")
    assert (created.returncode, created.stderr) == (0, f"{NOTE}created notification hook\n")
    other = run_command(home, "notification", "update", "hook", "signing_key=k")
    assert other.stderr == "updated notification hook\n"  # the URL is as it was
    public = run_command(home, "notification", "update", "hook", f"url={PUBLIC}")
    assert public.stderr == "updated notification hook\n"
    local = run_command(home, "notification", "update", "hook", f"url={LOCAL}")
    assert local.stderr == f"{NOTE}updated notification hook\n"
    allowed = run_command(home, "notification", "update", "hook", "url=http://127.0.0.2/", webhook_allow="127.0.0.2")
    assert allowed.stderr == "updated notification hook\n"


def test_the_admin_api_adds_a_note_and_the_interface_does_not(home: Path) -> None:
    fill(home)
    logs = [{"level": "log", "message": f"url {REFUSED}"}]
    with Running(home, token=make_token(home, "t", "--kind", "admin")) as running:
        document = {"id": "hook", "type": "webhook", "url": LOCAL}
        created = running.ask("POST", "/admin/v1/notifications", document)
        assert (created.status, created.json["metadata"]) == (201, {"logs": logs, "traces": []})
        public = running.ask("PATCH", "/admin/v1/notifications/hook", {"url": PUBLIC})
        assert (public.status, public.json["metadata"]) == (200, {"logs": [], "traces": []})
        through_interface = running.ask("PATCH", "/api/v1/notifications/hook", {"url": "http://10.0.0.1/"})
        assert (through_interface.status, through_interface.json["metadata"]) == (200, {"logs": [], "traces": []})
        changed = running.ask("PATCH", "/admin/v1/notifications/hook", {"url": LOCAL})
        assert changed.json["metadata"] == {"logs": logs, "traces": []}


def test_a_refused_test_names_the_setting(home: Path) -> None:
    fill(home)
    run_command(home, "notification", "create", "id=hook", "type=webhook", f"url={LOCAL}")
    with Running(home, token=make_token(home, "t")):
        done = run_command(home, "notification", "test", "hook", "--wait")
    problem, _ = done.stderr.splitlines()
    assert done.returncode == 1
    assert problem.endswith(
        " failed: address_refused (an address of the receiver is not public, and"
        " RELAYDECK_WEBHOOK_ALLOW of the service does not allow it)"
    )


def test_other_errors_are_as_they_were() -> None:
    assert describe_error(None, "connection_refused") == "connection_refused"
    assert describe_error(503, None) == "status 503"
