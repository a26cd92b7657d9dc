"""Templates are compiled before the first page is shown: the event loop would wait for them. Values have words."""

import pytest

from relaydeck.console import rendering
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
