"""The lists of a credential with a scope, while records move into its scope and out of it."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from relaydeck.networks import network_rows
from relaydeck.networks.model import Network, RpcUrl
from relaydeck.relayers import relayer_rows
from relaydeck.scope import ClosedRecords, OpenRecords, Scope, Visible
from relaydeck.secret import Secret
from relaydeck.signers import signer_changes
from relaydeck.signers.signer_types import LocalConfig, NewSigner
from relaydeck.store import scoped_lists
from relaydeck.store.changes import remove_row
from relaydeck.store.database import Reader, Transaction
from tests.support.scoped_lists import ScopedLists
from tests.support.seeding import open_home, relayer
from tests.support.stored_rows import create_row

pytestmark = pytest.mark.slow

A, B = Scope(labels={"team": "a"}), Scope(labels={"team": "b"})
CLOSED = ClosedRecords((), B)
OPEN = (
    OpenRecords(None, (CLOSED,)),
    OpenRecords(Scope(networks=("dev",)), (CLOSED, ClosedRecords(("relayer",), Scope(relayers=("r1", "r3"))))),
    OpenRecords(A, (ClosedRecords(("signer",), None),)),
)
SCOPES = (A, B, Scope(networks=("dev",)), Scope(relayers=("r1", "r2", "r4")), Scope((), ("dev",), {"team": "a"}), *OPEN)


class Worker:
    """One process: a connection of its own, and what it keeps in memory."""

    def __init__(self, home: Path) -> None:
        self.store = open_home(home)
        self.lists = ScopedLists(self.store.database, self.store.vault)

    async def change(self, work: Callable[[Transaction], Any]) -> None:
        """In a thread where the server is another one, as the writer of a worker does."""

        def write() -> None:
            with self.store.database.transaction() as transaction:
                work(transaction)

        await asyncio.to_thread(write) if self.store.database.remote else write()

    async def network(self, name: str) -> None:
        network = Network(name, "evm", 1, "ETH", (RpcUrl("http://127.0.0.1:9/"),))
        await self.change(lambda t: create_row(network_rows.TABLE, t, self.store.vault, network))

    async def signer(self, name: str, **labels: str) -> None:
        new = signer_changes.prepare(NewSigner(name, "plain", LocalConfig(Secret("11" * 32)), labels))
        await self.change(lambda t: signer_changes.insert(t, self.store.vault, [new], origin="api", now=0))

    async def relayer(self, name: str, signer: str = "s0", network: str = "dev", **labels: str) -> None:
        made = replace(relayer(name, labels=labels), signer_id=signer, network=network)
        await self.change(lambda t: create_row(relayer_rows.TABLE, t, self.store.vault, made))

    async def update(self, table: str, name: str, **values: Any) -> None:
        if "labels" in values:
            values["labels"] = json.dumps(values["labels"], separators=(",", ":"))
        changed = ", ".join(f"{column} = :{column}" for column in (*values, "revision"))
        await self.change(
            lambda t: t.execute(
                f"UPDATE {table} SET {changed} WHERE id = :name", {**values, "revision": t.revision, "name": name}
            )
        )

    async def remove(self, table: str, name: str) -> None:
        def work(transaction: Transaction) -> None:
            (row,) = transaction.all(f"SELECT seq FROM {table} WHERE id = :name", {"name": name})
            remove_row(transaction, table, row.seq)

        await self.change(work)

    async def seen(self, scope: Visible) -> tuple[list[str], list[str]]:
        return await self.lists.names(scope, "relayers"), await self.lists.names(scope, "signers")

    def stored(self, visible: Visible) -> tuple[list[str], list[str]]:
        """What the statements of a scoped credential find, without what those of a closed protection find."""
        if isinstance(visible, Scope):
            return self.inside(visible)
        relayers, signers = self.inside(visible.scope)
        for each in visible.closed:
            gone = self.inside(each.scope)
            relayers = [name for name in relayers if "relayer" not in (each.kinds or "relayer") or name not in gone[0]]
            signers = [name for name in signers if "signer" not in (each.kinds or "signer") or name not in gone[1]]
        return relayers, signers

    def inside(self, scope: Scope | None) -> tuple[list[str], list[str]]:
        database = self.store.database
        with database.within(scope):
            relayers, signers = (database.read(f"SELECT id FROM {t} ORDER BY seq", {}) for t in ("relayers", "signers"))
        return [row.id for row in relayers], [row.id for row in signers]


Start = Callable[..., Worker]


@pytest.fixture
async def start(home: Path) -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:

        def starting() -> Worker:
            worker = Worker(home)
            stack.callback(worker.store.close)
            stack.push_async_callback(worker.lists.close)
            return worker

        yield starting


@pytest.fixture
async def worker(start: Start) -> Worker:
    made = start()
    await made.network("dev")
    await made.network("other")
    await made.signer("s0")
    await made.signer("s1", team="a")
    return made


async def test_what_is_created_changed_and_removed(worker: Worker) -> None:
    assert await worker.seen(A) == ([], ["s1"])
    await worker.relayer("r1", team="a")
    assert await worker.seen(A) == (["r1"], ["s0", "s1"])
    await worker.relayer("r2", "s1", team="b")
    await worker.relayer("r3", "s0", team="a", env="x")
    assert (await worker.seen(A), await worker.seen(B)) == ((["r1", "r3"], ["s0", "s1"]), (["r2"], ["s1"]))
    await worker.update("relayers", "r2", labels={"team": "a"})
    await worker.update("relayers", "r1", labels={"team": "b"})
    assert (await worker.seen(A), await worker.seen(B)) == ((["r2", "r3"], ["s0", "s1"]), (["r1"], ["s0"]))
    await worker.remove("relayers", "r3")
    assert (await worker.seen(A), await worker.seen(B)) == ((["r2"], ["s1"]), (["r1"], ["s0"]))


async def test_a_signer_is_inside_while_a_relayer_inside_uses_it_or_it_has_the_labels(worker: Worker) -> None:
    await worker.relayer("r1", team="a")
    await worker.relayer("r2", team="a")
    await worker.relayer("r3", team="b")
    assert (await worker.seen(A), await worker.seen(B)) == ((["r1", "r2"], ["s0", "s1"]), (["r3"], ["s0"]))
    await worker.update("relayers", "r1", signer_id="s1")
    assert (await worker.seen(A))[1] == ["s0", "s1"]
    await worker.update("relayers", "r2", signer_id="s1")
    await worker.update("signers", "s1", labels={})
    assert (await worker.seen(A), await worker.seen(B)) == ((["r1", "r2"], ["s1"]), (["r3"], ["s0"]))
    await worker.remove("relayers", "r1")
    await worker.remove("relayers", "r2")
    assert await worker.seen(A) == ([], [])
    await worker.update("signers", "s1", labels={"team": "a"})
    assert await worker.seen(A) == ([], ["s1"])
    await worker.remove("signers", "s1")
    assert await worker.seen(A) == ([], [])


async def test_a_relayer_that_changes_its_network_moves(worker: Worker) -> None:
    dev, other = Scope(networks=("dev",)), Scope(networks=("other",))
    await worker.relayer("r1")
    assert (await worker.seen(dev), await worker.seen(other)) == ((["r1"], ["s0"]), ([], []))
    await worker.update("relayers", "r1", network="other")
    assert (await worker.seen(dev), await worker.seen(other)) == (([], []), (["r1"], ["s0"]))


async def test_any_changes_leave_what_the_statements_of_a_scope_find(start: Start, worker: Worker) -> None:
    draw, workers = random.Random(44), (worker, start())
    relayers, signers = list[str](), ["s0", "s1"]
    for number in range(120):
        writer, labels = draw.choice(workers), draw.choice(({}, {"team": "a"}, {"team": "b", "env": "x"}))
        signer, network = draw.choice(signers), draw.choice(("dev", "other"))
        match draw.randrange(6):
            case 0:
                await writer.signer(f"s{number + 2}", **labels)
                signers.append(f"s{number + 2}")
            case 1 if relayers:
                relayers.remove(name := draw.choice(relayers))
                await writer.remove("relayers", name)
            case 2 if relayers:
                await writer.update("relayers", draw.choice(relayers), labels=labels, paused=True)
            case 3 if relayers:
                await writer.update("relayers", draw.choice(relayers), signer_id=signer, network=network)
            case 4:
                await writer.update("signers", signer, labels=labels)
            case _:
                await writer.relayer(f"r{number}", signer, network, **labels)
                relayers.append(f"r{number}")
        scope = draw.choice(SCOPES)
        for each in workers:
            assert await each.seen(scope) == each.stored(scope)


async def test_what_another_process_writes_is_in_the_next_list(start: Start, worker: Worker) -> None:
    there = start()
    assert await there.seen(A) == ([], ["s1"])
    await worker.relayer("r1", team="a")
    assert await there.seen(A) == (["r1"], ["s0", "s1"])


async def test_pages_and_totals(worker: Worker) -> None:
    for number in range(9):
        await worker.relayer(f"r{number}", team="ab"[number % 2])
    bodies = [json.loads(await worker.lists.page(B, "relayers", f"page={page}&per_page=3")) for page in (1, 2, 3)]
    assert [[each["id"] for each in body["data"]] for body in bodies] == [["r1", "r3", "r5"], ["r7"], []]
    assert [body["pagination"] for body in bodies] == [
        {"current_page": page, "per_page": 3, "total_items": 4} for page in (1, 2, 3)
    ]


async def test_as_many_scopes_and_entries_are_kept_as_are_allowed(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[Scope]()
    monkeypatch.setattr(scoped_lists, "MOST_SCOPES", 2)
    original = scoped_lists.read_inside

    def read_and_tell(scope: Scope, reader: Reader) -> Any:
        read.append(scope)
        return original(scope, reader)

    monkeypatch.setattr(scoped_lists, "read_inside", read_and_tell)
    dev = Scope(networks=("dev",))
    for scope in (A, B, A, dev, A, B):
        await worker.seen(scope)
        await worker.update("signers", "s0", labels={})  # no page is kept
    assert read == [A, B, dev, B]
    monkeypatch.setattr(scoped_lists, "MOST_ENTRIES", 1)
    await worker.relayer("r1", team="b")
    for scope in (B, A, B, A):
        assert await worker.seen(scope) == worker.stored(scope)
        await worker.update("signers", "s0", labels={})
    assert read[4:] == [A, B, A]


async def test_more_changes_than_are_compared_let_a_scope_be_read_again(worker: Worker) -> None:
    assert await worker.seen(A) == ([], ["s1"])
    vault, many = worker.store.vault, [f"r{n}" for n in range(scoped_lists.MOST_CHANGES + 1)]

    def create(transaction: Transaction) -> None:
        for name in many:
            made = replace(relayer(name, labels={"team": "a"}), signer_id="s0")
            create_row(relayer_rows.TABLE, transaction, vault, made)

    await worker.change(create)
    assert await worker.seen(A) == (many, ["s0", "s1"])


async def test_a_change_while_a_scope_is_read_is_not_missed(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, read = asyncio.Event(), asyncio.Event()

    async def reach(revision: int) -> None:
        opened.set()
        await read.wait()
        await worker.lists.follower.reach(revision)

    monkeypatch.setattr(worker.lists.scopes, "_reach", reach)
    asked = asyncio.create_task(worker.lists.names(A, "relayers"))
    await opened.wait()
    await worker.relayer("r1", team="a")
    assert await worker.lists.names(None, "relayers") == ["r1"]
    read.set()
    assert await asked == ["r1"]


async def test_lists_without_a_scope_are_as_they_were(worker: Worker) -> None:
    await worker.relayer("r1", team="a")
    before = [await worker.lists.page(None, table) for table in ("relayers", "signers")]
    await worker.seen(A)
    assert [await worker.lists.page(None, table) for table in ("relayers", "signers")] == before
