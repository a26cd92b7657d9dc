"""Of a URL, only scheme, host and port are shown."""

from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from relaydeck.web_addresses import shown_address

PARTS = ["http://", "https://", "a", "b.c", "A.example", "1.2.3.4", "[::1]", ":80", ":0", ":080", ":65535", ":99999"]
SEPARATORS = ["/", "?", "#", "@", ":", "user:pass@", "key", "%20", "\\", " ", "\n", "é", ""]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://hooks.example.com/secret?key=secret#secret", "https://hooks.example.com"),
        ("https://hooks.example.com:8443/secret", "https://hooks.example.com:8443"),
        ("http://127.0.0.1:1", "http://127.0.0.1:1"),
        ("https://user:secret@hooks.example.com/", "https://hooks.example.com"),
        ("https://secret@hooks.example.com", "https://hooks.example.com"),
        ("https://secret:80@hooks.example.com", "https://hooks.example.com"),
        ("HTTPS://Hooks.Example.Com/secret", "https://hooks.example.com"),
        ("http://[::1]:8080/secret", "http://[::1]:8080"),
        ("http://host:99999/secret", "an unreadable URL"),
    ],
)
def test_path_query_and_password_are_not_shown(url: str, shown: str) -> None:
    assert shown_address(url) == shown


def parsed(value: str) -> str:
    try:
        parts = urlsplit(value)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "an unreadable URL"
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{f':{port}' if port else ''}"


@given(st.lists(st.sampled_from(PARTS + SEPARATORS), max_size=8).map("".join))
@example("https://a:80@b.c/")
@example("https://a\n")
def test_every_url_is_shown_as_its_parts_read(url: str) -> None:
    assert shown_address(url) == parsed(url)
