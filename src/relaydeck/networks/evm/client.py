"""JSON-RPC over HTTP to one URL: responses are bounded in size and checked. The pool sets the timeouts."""

import errno
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, TypeVar

import aiohttp
import msgspec

from relaydeck.address_guard import AddressRefused, server_guard
from relaydeck.connection_failure import ConnectionFailure, classify
from relaydeck.networks.evm.errors import AnswerTooLarge, ErrorKind, NodeError, UrlFailed, error_kind
from relaydeck.networks.evm.questions import Question
from relaydeck.outgoing_connections import NameResolver, guarded_connector, traces
from relaydeck.settings import AddressRange

T = TypeVar("T")
Inspect = Callable[[Question[Any], Any], None]  # raises `UrlFailed` for a result that is not believed

# Redirects are not followed: a URL's key must not be sent to a host that the operator did not configure.
_OPTIONS: dict[str, Any] = {
    "headers": {"Content-Type": "application/json", "Accept-Encoding": "identity"},
    "allow_redirects": False,
}
_KEEP_ALIVE_SECONDS = 30
_OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


_PROBLEMS = {
    ConnectionFailure.ADDRESS_REFUSED: "leads to an address that RELAYDECK_RPC_GUARD refuses",
    ConnectionFailure.BAD_URL: "is not a usable URL",
    ConnectionFailure.NAME_NOT_RESOLVED: "has a host name that does not resolve",
    ConnectionFailure.CONNECTION_REFUSED: "refused the connection",
    ConnectionFailure.NOT_CONNECTED: "cannot be reached",
    ConnectionFailure.TLS_FAILED: "failed the TLS handshake",
    ConnectionFailure.TIMED_OUT: "timed out",
    ConnectionFailure.CONNECTION_LOST: "closed the connection early",
    ConnectionFailure.BAD_ANSWER: "did not answer in HTTP",
}


class _Reply(msgspec.Struct):
    id: Any = None
    result: Any = msgspec.UNSET
    error: Any = None


class _Response(NamedTuple):
    status: int
    body: bytes
    wait: float | None  # seconds, from Retry-After


class BatchRefused(Exception):
    """The URL answers single questions but refuses batches."""


class Client:
    """One per event loop. Keeps connections alive; the slots of the pool limit how many are open."""

    def __init__(self, max_response_bytes: int, allow: Sequence[AddressRange] | None = None) -> None:
        """`allow`: see `server_guard`."""
        self._limit = max_response_bytes
        self._single = msgspec.json.Decoder(_Reply)
        self._any = msgspec.json.Decoder(_Reply | list[_Reply])
        self._number = 0
        self._session = aiohttp.ClientSession(
            connector=guarded_connector(server_guard(allow), NameResolver(), keep_alive_seconds=_KEEP_ALIVE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            trace_configs=traces("node call"),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )

    async def close(self) -> None:
        await self._session.close()

    async def ask(self, url: str, question: Question[T], inspect: Inspect | None = None) -> T:
        """Return the answer. Raises `NodeError` for the node's error object and `UrlFailed` for anything else."""
        self._number = number = self._number + 1
        response = await self._post(url, msgspec.json.encode(question.body(number)))
        if response.status == 200:
            return _read(question, _decode(self._single, response.body), number, response, inspect)
        return _read(question, self._error_reply(response), number, response, inspect)

    async def ask_batch(
        self, url: str, questions: Sequence[Question[Any]], inspect: Inspect | None = None
    ) -> list[Any]:
        """Return the answers in the order of the questions, with a `NodeError` for each error object."""
        first = self._number + 1
        self._number += len(questions)
        bodies = [question.body(first + i) for i, question in enumerate(questions)]
        response = await self._post(url, msgspec.json.encode(bodies))
        replies = self._batch_replies(response)
        by_number = {reply.id: reply for reply in replies if type(reply.id) is int}
        if len(replies) != len(questions) or len(by_number) != len(questions):
            raise UrlFailed("answered a batch with the wrong number of answers")
        return [_result(question, by_number, first + i, response, inspect) for i, question in enumerate(questions)]

    def _batch_replies(self, response: _Response) -> list[_Reply]:
        """Raises `BatchRefused` when one error stands for the whole batch, for example because it is too large."""
        if response.status != 200 and not response.body.lstrip().startswith(b"["):
            raise self._batch_refusal(response)
        replies = _decode(self._any, response.body)
        if not isinstance(replies, list) or _is_refusal(replies):
            raise _busy_reply(replies, response) or BatchRefused
        return replies

    def _batch_refusal(self, response: _Response) -> Exception:
        try:
            reply = self._error_reply(response)
        except NodeError:  # too large for this node
            return BatchRefused()
        except UrlFailed as failure:
            return failure if failure.busy or response.status >= 500 else BatchRefused()
        return _busy_reply(reply, response) or BatchRefused()

    def _error_reply(self, response: _Response) -> _Reply:
        """The JSON-RPC error in a response with another status than 200. Raises when there is none."""
        try:
            reply = self._single.decode(response.body)
            if reply.error is not None:
                return reply
        except (msgspec.MsgspecError, RecursionError, ValueError):
            pass
        raise _refusal(response)

    async def _post(self, url: str, body: bytes) -> _Response:
        try:
            try:
                return await self._once(url, body)
            except aiohttp.ClientConnectorError:
                raise
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                # The node may have closed a kept connection while we wrote. A read can be repeated: once.
                return await self._once(url, body)
        except (AddressRefused, aiohttp.ClientError, OSError, ValueError) as error:
            raise _failure(error) from None

    async def _once(self, url: str, body: bytes) -> _Response:
        async with self._session.post(url, data=body, **_OPTIONS) as response:
            wait = _seconds(response.headers.get("Retry-After", ""))
            chunks, size = [], 0
            while chunk := await response.content.readany():
                size += len(chunk)
                if size > self._limit:
                    raise AnswerTooLarge(f"answered more than {self._limit} bytes")
                chunks.append(chunk)
        return _Response(response.status, b"".join(chunks), wait)


def _is_refusal(replies: list[_Reply]) -> bool:
    """Whether one error stands for the whole batch, for example because it has too many requests."""
    return len(replies) == 1 and replies[0].id is None and replies[0].error is not None


def _busy_reply(replies: _Reply | list[_Reply], response: _Response) -> NodeError | None:
    """The error for a whole batch that a smaller batch would get too: the URL is over its limits."""
    reply = replies[0] if isinstance(replies, list) else replies
    if reply.error is None:
        return None
    error = _node_error(reply.error, response)
    return error if error_kind(error) is ErrorKind.BUSY else None


def _refusal(response: _Response) -> Exception:
    status = response.status
    if status == 429 or (status == 503 and response.wait is not None):
        return UrlFailed(f"answered HTTP {status}", busy=True, wait=response.wait)
    if status == 413:
        return NodeError(413, "the node accepts no request of this size (HTTP 413)", status=413)
    return UrlFailed(f"answered HTTP {status}")


def _seconds(retry_after: str) -> float | None:
    """Of the header's two forms, seconds and a date. None when it is neither."""
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after)
    try:
        moment = parsedate_to_datetime(retry_after)
    except (TypeError, ValueError):
        return None
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _failure(error: Exception) -> UrlFailed:
    if isinstance(error, OSError) and error.errno in _OUT_OF_RESOURCES:
        # This says nothing about the node: it is set aside for a moment as busy, not as failed.
        return UrlFailed("was not asked: this machine has no socket left for it", busy=True)
    return UrlFailed(_PROBLEMS[classify(error)], silent=True)  # not the exception's text, which may contain the URL


def _decode(decoder: msgspec.json.Decoder[T], raw: bytes) -> T:
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise UrlFailed("answered something other than a JSON-RPC response") from None


def _result(
    question: Question[Any], replies: dict[int, _Reply], number: int, response: _Response, inspect: Inspect | None
) -> Any:
    try:
        return _read(question, replies.get(number, _Reply()), number, response, inspect)
    except NodeError as error:
        return error


def _read(question: Question[T], reply: _Reply, number: int, response: _Response, inspect: Inspect | None) -> T:
    if reply.error is not None and reply.id is None:  # the node did not read the request as far as its id
        raise _node_error(reply.error, response)
    if type(reply.id) is not int or reply.id != number:
        raise UrlFailed("answered with another request's id")
    if reply.error is not None:
        raise _node_error(reply.error, response)
    if reply.result is msgspec.UNSET:
        raise UrlFailed("answered with neither result nor error")
    value = question.read(reply.result)
    if inspect is not None:
        inspect(question, reply.result)
    return value


def _node_error(error: Any, response: _Response) -> NodeError:
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        raise UrlFailed("answered with an error of the wrong shape")
    code = error.get("code")
    number = code if type(code) is int else 0
    return NodeError(number, error["message"], error.get("data"), status=response.status, wait=response.wait)
