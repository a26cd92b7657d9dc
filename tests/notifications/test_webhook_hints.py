"""Hints about webhooks that the service refuses to send events to, and about the setting that allows them."""

from ipaddress import ip_network
from pathlib import Path

import pytest

from relaydeck.notifications.delivery_queries import describe_error
from relaydeck.notifications.delivery_queue import ReceiverResponse
from relaydeck.notifications.sender import Sender
from relaydeck.notifications.webhook_rule import REFUSED, UNREADABLE, WebhookRule
from tests.support.running import Running, make_token, run_command
from tests.support.seeding import fill

NOTE = f"note: url {REFUSED}\n"
LOCAL = "http://user:hunter2@127.0.0.1:9/hook"
PUBLIC = "https://hooks.example.com/relaydeck"


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("http://127.0.0.1:9/hook", REFUSED),
        ("http://user:password@10.1.2.3/", REFUSED),
        ("http://[::1]/", REFUSED),
        ("http://[fe80::1%25eth0]/", REFUSED),
        ("http://127。0。0。1/", REFUSED),
        ("http://0x7f000001/", REFUSED),
        ("http://LOCALHOST:9/", REFUSED),
        ("http://localhost./", REFUSED),
        ("https://db.localhost", REFUSED),
        ("https://localhost.localdomain:443", REFUSED),
        ("https://93.184.216.34/", ""),
        ("https://[2606:2800:220:1:248:1893:25c8:1946]/", ""),
        ("https://127.0.0.1.example.com/", ""),
        ("https://hooks.example.com", ""),
        ("https://mylocalhost.example.com?x", ""),
        ("https://user@HOOKS.example.com./", ""),
        ("https://intranet/", ""),  # not known: the name is not resolved
        ("http://127.1/", UNREADABLE),
        ("http://127.0.0.1./", UNREADABLE),
        ("http://2130706433/", UNREADABLE),
        ("http://256.1.1.1/", UNREADABLE),
        ("http://two..dots/", UNREADABLE),
        (f"http://{'a' * 64}.example.com/", UNREADABLE),
        ("http://soft\u00adhyphen.example.com/", UNREADABLE),
    ],
)
def test_which_urls_get_a_hint(url: str, hint: str) -> None:
    assert WebhookRule(()).hint(url) == hint


@pytest.mark.parametrize("url", ["http://127.1/", "http://two..dots/", f"http://{'a' * 64}.example.com/"])
async def test_the_sender_cannot_read_such_a_url_either(url: str) -> None:
    sender = Sender((ip_network("0.0.0.0/0"),), 30)
    try:
        assert await sender.post(url, {}, b"{}") == ReceiverResponse(problem="bad_url")
    finally:
        await sender.close()


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


def test_a_refused_test_names_the_setting(home: Path) -> None:
    fill(home)
    run_command(home, "notification", "create", "id=hook", "type=webhook", f"url={LOCAL}")
    with Running(home, token=make_token(home, "t")):
        done = run_command(home, "notification", "test", "hook", "--wait")
    problem, _ = done.stderr.splitlines()
    assert done.returncode == 1
    assert problem.endswith(
        " failed: an address of the receiver is not public, and"
        " RELAYDECK_WEBHOOK_ALLOW of the service does not allow it"
    )


def test_other_errors_are_said_in_words() -> None:
    assert describe_error(None, "connection_refused") == "the receiver refused the connection"
    assert describe_error(503, None) == "HTTP 503 Service Unavailable"
