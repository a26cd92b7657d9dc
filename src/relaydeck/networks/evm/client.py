"""JSON-RPC to nodes over HTTP or a WebSocket: answers are bounded in size and checked. The pool sets the timeouts."""

import asyncio
import gc
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from yarl import URL

from relaydeck.networks.evm import errors
from relaydeck.networks.evm.node import SMALL_BATCH, Node
from relaydeck.networks.evm.questions import Question
from relaydeck.networks.evm.websocket import WebSocketEndpoint
from relaydeck.networks.model import RpcUrl
from relaydeck.networks.node_rule import UNGUARDED, NodeGuards
from relaydeck.outgoing.address_guard import AddressGuard
from relaydeck.outgoing.connections import (
    ConnectionFailed,
    ConnectionFailure,
    NameResolver,
    Opener,
    Resolve,
    ResponseTooLarge,
)
from relaydeck.outgoing.http_client import Limits, Response, Server, request_head, requested_delay
from relaydeck.process.background import gather_some

T = TypeVar("T")
_LARGE = 32 * 1024  # bytes of an answer
_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "relaydeck"}


class _Reply(msgspec.Struct):
    id: Any = None
    result: Any = msgspec.UNSET
    error: Any = None


class BatchRefused(Exception):
    """The URL answers single questions but refuses batches."""


class Client:
    """One per event loop. Keeps connections alive; the slots of the pools limit how many are open.

    URLs with different guards share no connection: one that is kept alive is not checked again.
    """

    def __init__(self, max_response_bytes: int, guards: NodeGuards = UNGUARDED, resolve: Resolve | None = None) -> None:
        self._limit, self._guards, self._resolve = max_response_bytes, guards, resolve or NameResolver()
        self._endpoints: dict[RpcUrl, WebSocketEndpoint | HttpEndpoint] = {}
        self._openers: dict[AddressGuard, Opener] = {}
        self._single = msgspec.json.Decoder(_Reply)
        self._any = msgspec.json.Decoder(_Reply | list[_Reply])
        self._number = 0
        self._large = asyncio.Lock()

    async def ask(self, url: RpcUrl, question: Question[T]) -> T:
        """Return the answer. Raises `NodeError` for the node's error object and `UrlFailed` for anything else."""
        self._number = number = self._number + 1
        response = await self.send(url, msgspec.json.encode(question.body(number)), (number,))
        if response.status == 200:
            return _read(question, _decode(self._single, response.body), number, response)
        return _read(question, self._error_reply(response), number, response)

    async def ask_batch(self, url: RpcUrl, questions: Sequence[Question[Any]]) -> list[Any]:
        """Return the answers in the order of the questions, with a `NodeError` for each error object."""
        first = self._number + 1
        self._number += len(questions)
        bodies = [question.body(first + i) for i, question in enumerate(questions)]
        numbers = range(first, first + len(questions))
        response = await self.send(url, msgspec.json.encode(bodies), numbers)
        replies = self._batch_replies(response)
        by_number = {reply.id: reply for reply in replies if type(reply.id) is int}
        if len(replies) != len(questions) or len(by_number) != len(questions):
            raise errors.UrlFailed("answered a batch with the wrong number of answers")
        return [_result(question, by_number, first + i, response) for i, question in enumerate(questions)]

    async def send(self, url: RpcUrl, body: bytes, numbers: Sequence[int]) -> Response:
        """Send a request with these JSON-RPC ids. Raises `UrlFailed` and nothing else."""
        response = await (self._endpoints.get(url) or self._endpoint(url)).send(body, numbers)
        if len(response.body) > _LARGE:
            async with self._large:  # one in a turn of the event loop: the caller decodes it before it waits again
                await asyncio.sleep(0)
        return response

    def _batch_replies(self, response: Response) -> list[_Reply]:
        """Raises `BatchRefused` when one error stands for the whole batch, for example because it is too large."""
        if response.status != 200 and not response.body.lstrip().startswith(b"["):
            raise self._batch_refusal(response)
        replies = _decode(self._any, response.body)
        if not isinstance(replies, list) or _is_refusal(replies):
            raise _busy_reply(replies, response) or BatchRefused
        return replies

    def _batch_refusal(self, response: Response) -> Exception:
        try:
            reply = self._error_reply(response)
        except errors.NodeError:  # too large for this node
            return BatchRefused()
        except errors.UrlFailed as failure:
            return failure if failure.busy or response.status >= 500 else BatchRefused()
        return _busy_reply(reply, response) or BatchRefused()

    def _error_reply(self, response: Response) -> _Reply:
        """The JSON-RPC error in a response with another status than 200. Raises when there is none."""
        try:
            reply = _decode_json(self._single, response.body)
            if reply.error is not None:
                return reply
        except (msgspec.MsgspecError, RecursionError, ValueError):
            pass
        raise _refusal(response)

    def _endpoint(self, url: RpcUrl) -> "WebSocketEndpoint | HttpEndpoint":
        guard = self._guards.over_http if url.set_over_http else self._guards.others
        opener = self._openers.get(guard)
        if opener is None:
            opener = self._openers[guard] = Opener(guard, self._resolve)
        try:
            address, headers = URL(url.url), dict(url.revealed_headers)
            kind = WebSocketEndpoint if address.scheme in ("ws", "wss") else HttpEndpoint
            endpoint = self._endpoints[url] = kind(address, headers, opener, self._limit)
        except ValueError:
            raise errors.failure_of(ConnectionFailed(ConnectionFailure.BAD_URL)) from None
        return endpoint

    async def drop(self, urls: Sequence[RpcUrl]) -> None:
        """These are not used any more. Another pool that uses one of them connects again."""
        for url in urls:
            if endpoint := self._endpoints.pop(url, None):
                endpoint.close()
        await asyncio.sleep(0)  # in which the transports close their sockets

    async def close(self) -> None:
        while self._endpoints:
            self._endpoints.popitem()[1].close(abort=True)
        await asyncio.sleep(0)


def _is_refusal(replies: list[_Reply]) -> bool:
    """Whether one error stands for the whole batch, for example because it has too many requests."""
    return len(replies) == 1 and replies[0].id is None and replies[0].error is not None


def _busy_reply(replies: _Reply | list[_Reply], response: Response) -> errors.NodeError | None:
    """The error for a whole batch that a smaller batch would get too: the URL is over its limits."""
    reply = replies[0] if isinstance(replies, list) else replies
    if reply.error is None:
        return None
    error = _node_error(reply.error, response)
    return error if errors.error_kind(error) is errors.ErrorKind.BUSY else None


def _refusal(response: Response) -> Exception:
    if response.status == 413:
        return errors.NodeError(413, "the node accepts no request of this size (HTTP 413)", status=413)
    return errors.refused(response.status, requested_delay(response.retry_after))


def _decode_json(decoder: msgspec.json.Decoder[T], raw: bytes) -> T:
    """Without garbage collections: a large answer may have several hundred thousand values, and JSON has no cycles."""
    if len(raw) <= _LARGE or not gc.isenabled():
        return decoder.decode(raw)
    gc.disable()
    try:
        return decoder.decode(raw)
    finally:
        gc.enable()


def _decode(decoder: msgspec.json.Decoder[T], raw: bytes) -> T:
    try:
        return _decode_json(decoder, raw)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise errors.UrlFailed("answered something other than a JSON-RPC response") from None


def _result(question: Question[Any], replies: dict[int, _Reply], number: int, response: Response) -> Any:
    try:
        return _read(question, replies.get(number, _Reply()), number, response)
    except errors.NodeError as error:
        return error


def _read(question: Question[T], reply: _Reply, number: int, response: Response) -> T:
    if reply.error is not None and reply.id is None:  # the node did not read the request as far as its id
        raise _node_error(reply.error, response)
    if type(reply.id) is not int or reply.id != number:
        raise errors.UrlFailed("answered with another request's id")
    if reply.error is not None:
        raise _node_error(reply.error, response)
    if reply.result is msgspec.UNSET:
        raise errors.UrlFailed("answered with neither result nor error")
    return question.read(reply.result)


def _node_error(error: Any, response: Response) -> errors.NodeError:
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        raise errors.UrlFailed("answered with an error of the wrong shape")
    code = error.get("code")
    number = code if type(code) is int else 0
    return errors.NodeError(
        number, error["message"], error.get("data"), status=response.status, wait=requested_delay(response.retry_after)
    )


class HttpEndpoint:
    """JSON-RPC over HTTP to one URL, whose part of each request is built once."""

    def __init__(self, url: URL, headers: dict[str, str], opener: Opener, limit: int) -> None:
        own = {name.lower() for name in headers}
        given = {name: value for name, value in _HEADERS.items() if name.lower() not in own}
        self._head = request_head("POST", url, {**given, **headers})
        self._limit = limit
        self._server = Server(url, opener, Limits(limit), "node call")
        self.close = self._server.close

    async def send(self, body: bytes, numbers: Sequence[int]) -> Response:
        try:
            return await self._server.read(self._head, body)
        except ResponseTooLarge:
            raise errors.AnswerTooLarge(f"answered more than {self._limit} bytes") from None
        except ConnectionFailed as error:
            raise errors.failure_of(error) from None


# -- Questions to one node of a pool, singly or in batches of a size that it accepts --

_MAX_TOGETHER = 16  # requests of one batch that a node does not take whole


class OneNode:
    """One URL of a pool, also for a caller that adapts its questions to what this node offers."""

    def __init__(self, node: Node, client: Client) -> None:
        self.key = node  # the same object in every conversation with this URL
        self._client = client

    async def ask(self, *questions: Question[Any]) -> list[Any]:
        """Independent questions in one request. An answer may be a `NodeError`. Raises `UrlFailed`, or the `NodeError`
        of a node over its limits."""
        if len(questions) == 1:
            try:
                return [await self._client.ask(self.key.url, questions[0])]
            except errors.NodeError as error:
                answers = [error]
        else:
            answers = await self.ask_batch(questions)
        for answer in answers:
            if isinstance(answer, errors.NodeError) and errors.error_kind(answer) is errors.ErrorKind.BUSY:
                self.key.shrink_batches(len(questions))
                raise answer
        return answers

    async def ask_batch(self, questions: Sequence[Question[Any]]) -> list[Any]:
        """Independent questions. An answer may be a `NodeError`."""
        if len(questions) == 1:
            return [await self._ask_without_raising(questions[0])]
        size = self.key.batch_size
        parts = [questions[start : start + size] for start in range(0, len(questions), size)]
        answers = await gather_some(_MAX_TOGETHER, self._ask_part, parts)
        return [each for part in answers for each in part]

    async def _ask_part(self, questions: Sequence[Question[Any]]) -> list[Any]:
        """In one request, unless the node refuses batches: then in several smaller ones, or one by one."""
        node = self.key
        if node.batches and len(questions) > 1:
            try:
                answers = await self._client.ask_batch(node.url, questions)
                node.grow_batches(len(questions))
                return answers
            except BatchRefused:
                if len(questions) > SMALL_BATCH:  # smaller batches may be accepted
                    node.shrink_batches(len(questions))
                    return await self.ask_batch(questions)
                node.batches = False
            except (errors.UrlFailed, asyncio.CancelledError):  # cancelled: it timed out
                node.shrink_batches(len(questions))
                raise
        return await gather_some(_MAX_TOGETHER, self._ask_without_raising, questions)

    async def _ask_without_raising(self, question: Question[T]) -> T | errors.NodeError:
        try:
            return await self._client.ask(self.key.url, question)
        except errors.NodeError as error:
            return error
