"""The bare application for writes: decode the same body, group-commit one plain row, answer after the sync.

Run as `python -m bench.bare_create PORT FILE DATABASE`. Same durability as Relaydeck: SQLite in WAL with
synchronous=FULL, one writing thread that commits together whatever waits together. No credential, no limit,
no sealing, no identifier, no log, no counters.
"""

import asyncio
import queue
import sqlite3
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec

from bench.bare import Application, Receive, Send, live, parse_answer, serve


class Config(msgspec.Struct):
    key: str


class Body(msgspec.Struct):
    type: str
    config: Config


Waiting = tuple[Body, "asyncio.Future[None]"]


class GroupCommit:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._waiting: queue.SimpleQueue[Waiting] = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    async def add(self, body: Body) -> None:
        done = self._loop.create_future()
        self._waiting.put((body, done))
        await done

    def _run(self) -> None:
        database = sqlite3.connect(self._path, isolation_level=None)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("CREATE TABLE IF NOT EXISTS plain (seq INTEGER PRIMARY KEY, type TEXT, key TEXT)")
        while True:
            group = self._next_group()
            database.execute("BEGIN IMMEDIATE")
            database.executemany(
                "INSERT INTO plain (type, key) VALUES (?, ?)",
                [(body.type, body.config.key) for body, _ in group],
            )
            database.execute("COMMIT")
            self._loop.call_soon_threadsafe(_settle, group)

    def _next_group(self) -> list[Waiting]:
        group = [self._waiting.get()]
        while True:
            try:
                group.append(self._waiting.get_nowait())
            except queue.Empty:
                return group


def _settle(group: list[Waiting]) -> None:
    for _, done in group:
        if not done.done():
            done.set_result(None)


class CreateApplication:
    def __init__(self, raw: bytes, database: Path) -> None:
        self._headers, self._body = parse_answer(raw)
        self._database = database
        self._decode = msgspec.json.Decoder(Body).decode
        self._rows: GroupCommit

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            self._rows = GroupCommit(self._database)
            await live(receive, send)
            return
        await self._rows.add(self._decode((await receive())["body"]))
        await send({"type": "http.response.start", "status": 201, "headers": self._headers})
        await send({"type": "http.response.body", "body": self._body})


def application(raw: bytes, database: Path) -> Application:
    return CreateApplication(raw, database)


if __name__ == "__main__":
    answer, path = Path(sys.argv[2]).read_bytes(), Path(sys.argv[3])
    serve(int(sys.argv[1]), lambda: application(answer, path))
