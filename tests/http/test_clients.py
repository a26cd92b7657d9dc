"""Whose address a request is logged under."""

from collections.abc import Sequence
from ipaddress import ip_network

import pytest

from relaydeck.http.request import ClientAddress
from relaydeck.settings.values import AddressRange

PROXIES = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"), ip_network("192.0.2.7"))
PROXY = ("10.1.2.3", 4000)


def address(peer: tuple[str, int] | None, forwarded: bytes = b"", trusted: Sequence[AddressRange] = PROXIES) -> str:
    return ClientAddress(trusted).address_of(peer, forwarded)


def test_a_peer_is_its_own_address() -> None:
    assert address(("203.0.113.5", 1)) == "203.0.113.5"


def test_a_peer_that_is_no_proxy_is_not_believed() -> None:
    assert address(("203.0.113.5", 1), b"1.2.3.4") == "203.0.113.5"


def test_nobody_is_believed_when_no_proxy_is_trusted() -> None:
    assert address(PROXY, b"1.2.3.4", trusted=()) == "10.1.2.3"


def test_a_trusted_proxy_is_believed() -> None:
    assert address(PROXY, b"203.0.113.5") == "203.0.113.5"


def test_the_last_address_that_no_trusted_proxy_added_is_taken() -> None:
    assert address(PROXY, b"1.1.1.1, 203.0.113.5, 10.9.9.9 , 192.0.2.7") == "203.0.113.5"


def test_what_a_client_wrote_itself_is_not_believed() -> None:
    assert address(PROXY, b"10.0.0.1, 203.0.113.5") == "203.0.113.5"


def test_a_chain_of_trusted_proxies_ends_at_its_first() -> None:
    assert address(PROXY, b"10.0.0.1, 10.0.0.2") == "10.0.0.1"


def test_ipv6_is_understood() -> None:
    assert address(("fd00::1", 1), b"2001:DB8::0:5") == "2001:db8::5"


@pytest.mark.parametrize(
    "forwarded",
    [b"", b",", b"unknown", b"1.2.3.4:80", b"_hidden", b"<script>", b'","x":"', b"\xff", b"1.2.3", b"01.2.3.4"],
)
def test_what_is_no_address_is_the_peer(forwarded: bytes) -> None:
    assert address(PROXY, forwarded) == "10.1.2.3"


@pytest.mark.parametrize("forwarded", [b"fe80::1%eth0", b'fe80::1%"x', b"fe80::1%%"])
def test_an_address_with_a_zone_is_not_written_to_the_log(forwarded: bytes) -> None:
    assert address(PROXY, forwarded) == "10.1.2.3"


def test_what_stands_before_something_that_is_no_address_is_not_believed() -> None:
    assert address(PROXY, b"203.0.113.5, nonsense, 10.0.0.1") == "10.0.0.1"


def test_a_peer_without_an_address_is_a_dash() -> None:
    assert address(None, b"1.2.3.4") == "-"


def test_a_long_chain_is_read() -> None:
    assert address(PROXY, b"203.0.113.5, " + b", ".join([b"10.0.0.1"] * 5000)) == "203.0.113.5"
