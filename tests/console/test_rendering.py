"""Templates are compiled before the first page is shown: the event loop would wait for them. Values have words."""

import pytest

from relaydeck.console import formats, rendering


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
        (None, "tls_failed", "tls failed"),
        (
            None,
            "address_refused",
            "address refused (an address of the receiver is not public, and RELAYDECK_WEBHOOK_ALLOW of the service"
            " does not allow it)",
        ),
    ],
)
def test_the_result_of_an_attempt_is_in_words(status: int | None, problem: str | None, words: str) -> None:
    assert formats.failure(status, problem) == words
