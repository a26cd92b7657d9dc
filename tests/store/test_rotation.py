"""`relaydeck key rotate`: every secret sealed anew, while the service runs, and after an interruption."""

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from relaydeck.credentials.people import EVERY_PROOF
from relaydeck.secret import Secret
from relaydeck.signers import signer_changes
from relaydeck.signers.signer_types import LocalConfig, NewSigner
from relaydeck.store.open_store import Store, open_reader_at
from relaydeck.store.rotation import Rotation
from relaydeck.store.sealed_columns import SEALED_COLUMNS
from relaydeck.store.sealing import sealing_key_of
from tests.conftest import DEMO
from tests.provisioning.conftest import DECLARABLE, ProvisionedHome
from tests.support.places import place_of
from tests.support.running import Running, make_token, run_command
from tests.support.seeding import open_home


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    store = opened(home)
    with closing(store):
        yield store


def opened(home: Path) -> Store:
    return open_home(home)


def add_signers(store: Store, *names: str) -> None:
    with store.database.transaction() as transaction:
        for name in names:
            new = NewSigner(name, "plain", LocalConfig(key=Secret(f"secret of {name}")))
            signer_changes.insert(transaction, store.vault, [signer_changes.prepare(new)], origin="api", now=0)


def secrets(store: Store) -> dict[str, str]:
    rows = store.database.read(f"SELECT {signer_changes.OPENED_COLUMNS} FROM signers ORDER BY seq")
    found = [signer_changes.opened(row, store.vault) for row in rows]
    return {each.id: each.config.key.reveal() for each in found}  # type: ignore[attr-defined]


def keys_in_use(store: Store) -> set[int]:
    return {
        sealing_key_of(row[0])
        for column in SEALED_COLUMNS
        for row in store.database.read(f"SELECT {column.column} FROM {column.table}")
        if row[0] is not None
    }


def data_keys(store: Store) -> list[int]:
    return [row[0] for row in store.database.read("SELECT id FROM data_keys ORDER BY id")]


def test_every_sealed_column_of_the_schema_is_known(tmp_path: Path) -> None:
    """A migration that adds a sealed column must be followed here."""
    with closing(opened(tmp_path / "home")) as store:
        tables = [row[0] for row in store.database.read("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = {(table, row[1]) for table in tables for row in store.database.read(f"PRAGMA table_info({table})")}
    sealed = {(table, column) for table, column in columns if column.startswith("sealed_")}
    assert sealed == {(column.table, column.column) for column in SEALED_COLUMNS}


def test_everything_is_sealed_anew_and_nothing_visible_changes(home: Path) -> None:
    made = ProvisionedHome(home)
    made.apply(DEMO)
    before = made.state()
    with closing(made.store) as store:
        revisions = [store.database.read(f"SELECT seq, revision FROM {table}") for table in DECLARABLE]
        assert (keys_in_use(store), data_keys(store)) == ({1}, [1])
        rotated = run_command(home, "key", "rotate")
        assert (rotated.returncode, rotated.stderr) == (0, "")
        assert rotated.stdout == "sealed 6 values with a new data key; removed 1 old data key\n"
        assert (keys_in_use(store), data_keys(store)) == ({2}, [2])
        assert revisions == [store.database.read(f"SELECT seq, revision FROM {table}") for table in DECLARABLE]
        assert made.state() == before


def test_an_interrupted_rotation_is_gone_on_with(store: Store, home: Path) -> None:
    names = [f"s{number}" for number in range(10)]
    add_signers(store, *names)
    stopped = Rotation(store, EVERY_PROOF)
    assert stopped.begin(now=0) == 10
    batches = stopped.batches(rows=3)
    assert [next(batches), next(batches)] == [3, 3]
    assert keys_in_use(store) == {1, 2}

    rotation = Rotation(store, EVERY_PROOF)
    assert rotation.begin(now=0) == 4
    assert list(rotation.batches(rows=3)) == [3, 1]
    assert rotation.finish() == (4, [], 1, 0)
    assert (keys_in_use(store), data_keys(store)) == ({2}, [2])
    assert secrets(store) == {name: f"secret of {name}" for name in names}


def test_one_stopped_before_the_old_key_was_removed_only_removes_it(store: Store) -> None:
    add_signers(store, "a")
    stopped = Rotation(store, EVERY_PROOF)
    stopped.begin(now=0)
    assert list(stopped.batches()) == [1]

    rotation = Rotation(store, EVERY_PROOF)
    assert rotation.begin(now=0) == 0
    assert list(rotation.batches()) == []
    assert rotation.finish() == (0, [], 1, 0)
    assert data_keys(store) == [2]


def test_each_rotation_makes_a_new_key(store: Store) -> None:
    for expected in (2, 3, 4):
        rotation = Rotation(store, EVERY_PROOF)
        rotation.begin(now=0)
        assert list(rotation.batches()) == [1] * (expected > 2)  # the audit key, which the first one made
        rotation.finish()
        assert data_keys(store) == [expected]


def test_what_is_damaged_stays_and_is_reported_and_keeps_its_key(store: Store, home: Path) -> None:
    add_signers(store, "whole", "moved")
    with store.database.transaction() as transaction:
        transaction.execute(
            "UPDATE signers SET sealed_config = (SELECT sealed_config FROM signers WHERE id = 'whole')"
            " WHERE id = 'moved'"
        )
    for newest in (2, 3):  # a second rotation is a rotation: damage does not make it go on with the first
        rotated = run_command(home, "key", "rotate")
        assert rotated.returncode == 1
        values, keys = {2: ("1 value", "0 old data keys"), 3: ("2 values", "1 old data key")}[newest]
        assert rotated.stdout == f"sealed {values} with a new data key; removed {keys}\n"
        assert rotated.stderr == (
            "relaydeck: 1 value could not be opened:\n"
            "  the sealed config of signers record 'moved' does not open\n"
            "They are unchanged, and the data keys they refer to were kept. Set them again, or delete the records.\n"
        )
        assert data_keys(store) == [1, newest]


def test_a_key_that_came_into_use_meanwhile_is_not_removed(store: Store) -> None:
    """The last look happens inside the transaction that removes."""
    add_signers(store, "a")
    rotation = Rotation(store, EVERY_PROOF)
    rotation.begin(now=0)
    old = store.database.read("SELECT sealed_config FROM signers")[0][0]
    assert list(rotation.batches()) == [1]
    with store.database.transaction() as transaction:
        transaction.execute("UPDATE signers SET sealed_config = :old", {"old": old})
    assert rotation.finish().retired == 0
    assert data_keys(store) == [1, 2]


def test_a_running_server_keeps_writing_and_reading(home: Path) -> None:
    made = ProvisionedHome(home)
    with closing(made.store) as store:
        made.apply(DEMO)
        add_signers(store, *(f"before-{number}" for number in range(300)))
    created: list[str] = []
    stop = threading.Event()
    with Running(home, token=make_token(home, "t")) as service:

        def create() -> None:
            while not stop.is_set():
                name = f"during-{len(created)}"
                body = {"id": name, "type": "plain", "config": {"key": f"secret of {name}"}}
                assert service.ask("POST", "/api/v1/signers", body).status == 201
                created.append(name)

        writer = threading.Thread(target=create)
        writer.start()
        try:
            rotations = [run_command(home, "key", "rotate") for _ in range(2)]
        finally:
            stop.set()
            writer.join()
        assert [rotated.returncode for rotated in rotations] == [0, 0]
        listed = service.ask("GET", "/api/v1/signers?per_page=1").json
        assert listed["pagination"]["total_items"] == 1 + 300 + len(created)
        # The relayer's URLs and its network's are opened for this call, with a key made after the start.
        call = {"jsonrpc": "2.0", "id": 1, "method": "feeEstimate", "params": {}}
        assert service.ask("POST", "/api/v1/relayers/sepolia-1/rpc", call).status == 200
    assert created
    with closing(opened(home)) as store:
        assert data_keys(store) == [3]
        assert keys_in_use(store) == {3}
        opened_secrets = secrets(store)
        assert opened_secrets.pop("ops").startswith("0x4c08")
        assert opened_secrets == {name: f"secret of {name}" for name in opened_secrets}
        assert set(created) < set(opened_secrets)


def test_a_wrong_master_key_stops_it(home: Path) -> None:
    opened(home).close()
    (home / "master.key").write_text("00" * 32)
    refused = run_command(home, "key", "rotate")
    assert refused.returncode == 1
    assert "the master key does not open" in refused.stderr
    with closing(open_reader_at(place_of(home))) as database:
        assert database.read("SELECT count(*) FROM data_keys") == [(1,)]
