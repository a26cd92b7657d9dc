"""An old sealed value that is put back into its row does not open; with its version put back too, it is reported."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from relaydeck.credentials.people import EVERY_PROOF
from relaydeck.errors import Damaged
from relaydeck.store.migrate import migrate
from relaydeck.store.open_store import Store, open_store_at
from relaydeck.store.rotation import Rotation
from relaydeck.store.sealed_columns import SEALED_COLUMNS, VERSIONS_SINCE, PutBack, SealedColumn, check_all
from relaydeck.store.sqlite import SqliteDatabase
from relaydeck.store.vault import create_master_key, read_master_keys
from relaydeck.store.write_signal import WriteSignal
from tests.provisioning.conftest import NETWORK, NOTIFICATION, SIGNER, WHOLE, ProvisionedHome
from tests.support.running import run_command

COLUMNS = {each.column + " of " + each.table: each for each in SEALED_COLUMNS if each.audited}
WITH_URL = WHOLE.replace("hooks.example/relaydeck", "hooks.example/relaydeck?key=first")
CHANGED = (
    WITH_URL.replace("key=first", "key=second")
    .replace("node-key", "newer-node-key")
    .replace("own-key", "newer-key")
    .replace("a-signing-key", "another-key")
)


@pytest.fixture
def provisioned(home: Path) -> Iterator[ProvisionedHome]:
    made = ProvisionedHome(home)
    made.apply(WITH_URL)
    with closing(made.store):
        yield made


def problems(made: ProvisionedHome) -> list[Damaged]:
    with made.store.database.snapshot():
        return [each for each in check_all(made.store.database, made.store.vault) if each is not None]


def stored(made: ProvisionedHome, column: SealedColumn) -> dict[str, Any]:
    (row,) = made.store.database.read(
        f"SELECT {column.column} AS value, {column.version_column} AS version FROM {column.table}"
    )
    return {"value": row.value, "version": row.version}


def put_back(made: ProvisionedHome, column: SealedColumn, old: dict[str, Any], *, with_version: bool) -> None:
    also = f", {column.version_column} = :version" if with_version else ""
    values = old if with_version else {"value": old["value"]}
    made.write(f"UPDATE {column.table} SET {column.column} = :value{also}", **values)


def change(made: ProvisionedHome) -> None:
    made.apply(CHANGED)


def remove_and_create(made: ProvisionedHome) -> None:
    made.apply("", prune=True)
    made.apply(WITH_URL)


def replaced_columns() -> list[tuple[str, Callable[[ProvisionedHome], None]]]:
    never_changed = {"sealed_config of signers", "sealed_previous_key of notifications"}
    changing = [(name, change) for name in COLUMNS if name not in never_changed]
    return [*changing, *((name, remove_and_create) for name in COLUMNS if "previous" not in name)]


each_replaced = pytest.mark.parametrize(
    ("name", "replace"), replaced_columns(), ids=lambda each: getattr(each, "__name__", each)
)


@each_replaced
def test_an_old_value_put_back_does_not_open_and_is_found_with_its_version_too(
    provisioned: ProvisionedHome, name: str, replace: Callable[[ProvisionedHome], None]
) -> None:
    column = COLUMNS[name]
    old = stored(provisioned, column)
    replace(provisioned)
    assert problems(provisioned) == []
    put_back(provisioned, column, old, with_version=False)
    (damage,) = problems(provisioned)
    assert (type(damage), damage.table) == (Damaged, column.table)
    put_back(provisioned, column, old, with_version=True)
    found = {(type(damage), damage.table) for damage in problems(provisioned)}
    # The previous key of a notification has the version of its row, and no longer opens beside the old version.
    assert found - {(Damaged, "notifications")} == {(PutBack, column.table)}


def test_a_removed_signing_key_put_back_is_found(provisioned: ProvisionedHome) -> None:
    column = COLUMNS["sealed_signing_key of notifications"]
    old = stored(provisioned, column)
    provisioned.apply(WITH_URL.replace("a-signing-key", ""))
    put_back(provisioned, column, old, with_version=True)
    (damage,) = problems(provisioned)
    assert str(damage) == (
        "the sealed signing_key of notifications record 'pager'"
        " is an old one: the audit log shows that it was replaced or removed"
    )


def test_the_previous_signing_key_does_not_open_as_the_current_one(provisioned: ProvisionedHome) -> None:
    change(provisioned)
    provisioned.write("UPDATE notifications SET sealed_signing_key = sealed_previous_key")
    (damage,) = problems(provisioned)
    assert str(damage) == "the sealed signing_key of notifications record 'pager' does not open"


def test_changes_of_other_fields_leave_no_problem(provisioned: ProvisionedHome) -> None:
    provisioned.apply(CHANGED)
    provisioned.apply(CHANGED.replace('name = "One"', 'name = "Two"').replace("hooks.example", "other.example"))
    provisioned.apply(CHANGED)
    assert problems(provisioned) == []


def test_a_rotation_keeps_the_versions(provisioned: ProvisionedHome) -> None:
    change(provisioned)
    before = {name: stored(provisioned, column)["version"] for name, column in COLUMNS.items()}
    rotation = Rotation(provisioned.store, EVERY_PROOF)
    rotation.begin(0)
    for _ in rotation.batches():
        pass
    assert rotation.finish().damaged == []
    assert {name: stored(provisioned, column)["version"] for name, column in COLUMNS.items()} == before
    assert problems(provisioned) == []


@pytest.mark.parametrize("command", [("doctor",), ("audit", "verify")])
def test_commands_report_an_old_value(tmp_path: Path, command: tuple[str, ...]) -> None:
    made = ProvisionedHome(tmp_path / "home")
    with closing(made.store):
        made.apply(NETWORK + SIGNER + NOTIFICATION)
        column = COLUMNS["sealed_signing_key of notifications"]
        old = stored(made, column)
        made.apply(NOTIFICATION.replace("a-signing-key", "another-key"))
        made.apply(NOTIFICATION.replace("a-signing-key", ""))
        put_back(made, column, old, with_version=True)
    done = run_command(tmp_path / "home", *command)
    assert done.returncode == 1
    shown = " ".join((done.stdout + done.stderr).split())
    assert "the sealed signing_key of notifications record 'pager' is an old one" in shown


def test_values_of_an_earlier_version_are_sealed_again_by_the_upgrade(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    create_master_key(home / "master.key")
    key = bytes(range(32))

    def sealed(table: str, record: str, field: str, plain: bytes) -> bytes:
        header, nonce = b"\1\0\0\0\1", len(plain).to_bytes(12, "big")
        bound = f"{len(table)}:{table},{len(record)}:{record},{len(field)}:{field}".encode()
        return header + nonce + AESGCM(key).encrypt(nonce, plain, header + bound)

    with closing(SqliteDatabase(home / "relaydeck.db", WriteSignal(home / "signal"))) as database:
        migrate(database, to=VERSIONS_SINCE - 1)
        database.writer.execute(
            "INSERT INTO data_keys (wrapped, created_at) VALUES (?, 0)",
            (read_master_keys(home / "master.key")[0].wrap(key),),
        )
        database.writer.execute(
            "INSERT INTO notifications (id, type, url, sealed_signing_key, sealed_previous_key, previous_key_until,"
            " origin, created_at, revision) VALUES ('pager', 'webhook', 'https://h.example', ?, ?, 9, 'api', 0, 1)",
            (
                sealed("notifications", "pager", "signing_key", b"current"),
                sealed("notifications", "pager", "signing_key", b"before it"),
            ),
        )
    with closing(open_store_at(home, home / "relaydeck.db", home / "master.key")) as store:
        assert opened(store, "notifications") == [b"current", b"before it"]
        with store.database.transaction() as transaction:
            old = sealed("notifications", "pager", "signing_key", b"current")
            transaction.execute("UPDATE notifications SET sealed_signing_key = :old", {"old": old})
        with pytest.raises(Damaged):  # it has no version
            opened(store, "notifications")


def opened(store: Store, table: str) -> list[bytes]:
    return [
        store.vault.open(row.sealed, column.place_of(row))
        for column in SEALED_COLUMNS
        if column.table == table
        for row in store.database.read(f"SELECT {column.selected} FROM {table} WHERE {column.column} IS NOT NULL")
    ]
