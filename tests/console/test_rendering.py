"""Templates are compiled before the first page is shown: the event loop would wait for them. Values have words."""

import pytest

from relaydeck.console import rendering
from relaydeck.console.formats import visible
from relaydeck.notifications.delivery_queries import describe_error


def test_every_template_is_compiled_at_once() -> None:
    templates = rendering._templates
    assert templates.cache is not None
    templates.cache.clear()
    rendering.compile_templates()
    assert len(templates.cache) == len(templates.list_templates()) > 0


@pytest.mark.parametrize(
    ("status", "problem", "words"),
    [
        (503, "", "HTTP 503 Service Unavailable"),
        (599, None, "HTTP 599"),
        (None, "tls_failed", "the receiver failed the TLS handshake"),
        (None, "receiver_removed", "the notification was deleted"),
        (
            None,
            "address_refused",
            "an address of the receiver is not public, and RELAYDECK_WEBHOOK_ALLOW of the service does not allow it",
        ),
    ],
)
def test_the_result_of_an_attempt_is_in_words(status: int | None, problem: str | None, words: str) -> None:
    assert describe_error(status, problem) == words


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("＝1+1", "'＝1+1"),
        ("x;=1+1", "x;'=1+1"),
        ("x;＠SUM(1)", "x;'＠SUM(1)"),
        ("a-b; c; -d", "a-b; c; -d"),
        ("https://example.com/?a=1;b=2", "https://example.com/?a=1;b=2"),
        (-5, "-5"),
    ],
)
def test_what_a_spreadsheet_would_take_for_a_formula_is_text(value: object, cell: str) -> None:
    assert rendering.csv_file("x", [{"name": value}]).body.decode() == f"name\r\n{cell}\r\n"


@pytest.mark.parametrize("hidden", "\u00a0\u00ad\u034f\u2003\u200b\u202e\u2066\u2800\u3164\ufe0f\uffa0\U000e0041")
def test_a_character_that_is_not_seen_is_shown_as_its_code(hidden: str) -> None:
    assert visible(f"ops{hidden}") == f"ops\\u{ord(hidden):04x}"
    assert visible("Ops 1, é, 田中　太郎, 💥") == "Ops 1, é, 田中　太郎, 💥"
