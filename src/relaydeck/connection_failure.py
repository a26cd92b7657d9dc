"""Why an outgoing HTTP request got no response, in one word for each cause."""

import errno
from enum import StrEnum

import aiohttp

from relaydeck.address_guard import AddressRefused


class ConnectionFailure(StrEnum):
    ADDRESS_REFUSED = "address_refused"  # by our own guard
    BAD_URL = "bad_url"
    NAME_NOT_RESOLVED = "name_not_resolved"
    CONNECTION_REFUSED = "connection_refused"
    NOT_CONNECTED = "not_connected"  # no route, network down
    TLS_FAILED = "tls_failed"
    TIMED_OUT = "timed_out"
    CONNECTION_LOST = "connection_lost"
    BAD_ANSWER = "bad_answer"  # not HTTP


def classify(error: Exception) -> ConnectionFailure:
    """The cause of an exception that aiohttp, its guarded connector or `asyncio.timeout` raised."""
    match error:
        case AddressRefused():
            return ConnectionFailure.ADDRESS_REFUSED
        case TimeoutError():
            return ConnectionFailure.TIMED_OUT
        case aiohttp.ClientConnectorDNSError():
            return ConnectionFailure.NAME_NOT_RESOLVED
        case aiohttp.ClientSSLError():
            return ConnectionFailure.TLS_FAILED
        case aiohttp.ClientConnectorError():
            return _without_connection(error.os_error)
        case aiohttp.InvalidURL() | ValueError():
            return ConnectionFailure.BAD_URL
        case aiohttp.ClientPayloadError() | aiohttp.ServerDisconnectedError() | OSError():
            return ConnectionFailure.CONNECTION_LOST
        case _:
            return ConnectionFailure.BAD_ANSWER


def _without_connection(error: OSError) -> ConnectionFailure:
    if error.errno == errno.ECONNREFUSED:
        return ConnectionFailure.CONNECTION_REFUSED
    return ConnectionFailure.TIMED_OUT if error.errno == errno.ETIMEDOUT else ConnectionFailure.NOT_CONNECTED
