"""A request that began before its token ended does not act after it."""

import json
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from relaydeck.credential import Credential
from relaydeck.credentials.token_cache import CallerWriter, TokenCache
from relaydeck.errors import Unauthorized
from relaydeck.store.database import Transaction
from relaydeck.store.writer import Writer
from tests.support import shapes
from tests.support.running import Running
from tests.support.seeding import issue, opened, withdraw


class Scene(NamedTuple):
    home: Path
    book: TokenCache
    writer: CallerWriter
    load: Callable[[], None]

    def accepted(self, token: str) -> Credential:
        return self.book.find(f"Bearer {token}".encode(), 0)


@pytest.fixture
async def scene(home: Path) -> AsyncIterator[Scene]:
    with opened(home) as store:
        book = TokenCache(store.vault.proofs, lambda token: None)
        writer = Writer(store.database)
        yield Scene(
            home, book, CallerWriter(writer, book, now=lambda: 0), lambda: book.replace(book.read_all(store.database))
        )
        await writer.stop()


def done(transaction: Transaction) -> str:
    return "done"


def all_done(transaction: Transaction, items: Sequence[int]) -> list[int]:
    return list(items)


async def test_a_live_token_writes(scene: Scene) -> None:
    token = issue(scene.home)
    scene.load()
    assert await scene.writer.write(scene.accepted(token), done) == "done"


@pytest.mark.parametrize("in_memory", [False, True])
async def test_a_token_revoked_since_the_request_began_does_not_write(scene: Scene, in_memory: bool) -> None:
    token = issue(scene.home)
    scene.load()
    caller = scene.accepted(token)
    withdraw(scene.home, "tests")
    if in_memory:
        scene.load()
    with pytest.raises(Unauthorized):
        await scene.writer.write(caller, done)


async def test_a_change_of_another_token_refuses_nothing(scene: Scene) -> None:
    token = issue(scene.home)
    scene.load()
    caller = scene.accepted(token)
    issue(scene.home, "another")
    assert await scene.writer.write(caller, done) == "done"


async def test_a_revoked_token_is_refused_alone_in_a_joint_write(scene: Scene) -> None:
    callers = [(issue(scene.home, name), name) for name in ("one", "two", "three")]
    scene.load()
    accepted = [scene.accepted(token) for token, _ in callers]
    withdraw(scene.home, "two")
    write = scene.writer.jointly(all_done)
    waiting = [write(caller, number) for number, caller in enumerate(accepted)]
    assert await waiting[0] == 0
    with pytest.raises(Unauthorized):
        await waiting[1]
    assert await waiting[2] == 2


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("callers") / "home") as running:
        yield running


@pytest.mark.parametrize("path", ["/api/v1/signers", "/admin/v1/signers"])
def test_a_body_that_ends_after_its_token_was_revoked_creates_nothing(served: Running, path: str) -> None:
    name = path.replace("/", " ")
    token = issue(served.home, name, "admin")
    body = json.dumps(shapes.request("plain")).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as client:
        client.sendall(head.encode() + body[:-1])
        served.ask("GET", "/healthz")  # by now the service waits for the rest of the body
        withdraw(served.home, name)
        client.sendall(body[-1:])
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    assert answer.split(b" ", 2)[1] == b"401", answer
