"""Backups that somebody without the master key wrote or changed: refused, or restored with every credential revoked."""

import hashlib
import json
import secrets
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from relaydeck.credentials.console_sessions import SessionLimits, issue_code, new_session_secret, open_session
from relaydeck.credentials.tokens import digest_of, new_token
from relaydeck.errors import OperatorError
from relaydeck.secret import Secret
from relaydeck.store.audit import AuditLog
from relaydeck.store.changes import ChangeContext
from relaydeck.store.copying import copy
from relaydeck.store.copying.backup import (
    FIRST_MAGIC,
    MAC_BYTES,
    MAGIC,
    BackupFile,
    Block,
    Footer,
    Frame,
    Header,
    encode_frame,
    read_frame,
    seal_master_key,
)
from relaydeck.store.copying.contents import Tally, copied_tables
from relaydeck.store.copying.mark import unfinished_copy_of
from relaydeck.store.migrate import migrate
from relaydeck.store.rows import Table
from relaydeck.store.sqlite import SqliteDatabase
from relaydeck.store.vault import MasterKey
from relaydeck.store.write_signal import WriteSignal
from tests.support.places import ENGINES, choose
from tests.support.postgres import PostgresServer
from tests.support.running import Running, make_token, run_command
from tests.support.seeding import fill, opened

THEIR_KEY = bytes(range(32))
EVIL = new_token()
REVOKED = [
    {"kind": "token", "name": "root"},
    {"kind": "token", "name": "console-me"},
    {"kind": "session", "name": "root"},
    {"kind": "link", "name": "console-me"},
]


class Genuine(NamedTuple):
    """A home and two backups of it: `replaced` is live in the earlier one and revoked in the later one."""

    home: Path
    token: str
    earlier: bytes
    later: bytes


@pytest.fixture(scope="module")
def genuine(tmp_path_factory: pytest.TempPathFactory) -> Genuine:
    home = tmp_path_factory.mktemp("genuine") / "home"
    fill(home)
    typed(home, "signer", "create", "id=here", "type=provider_a_kms", 'config:={"key_id": "k", "region": "r"}')
    token, *_others = [make_token(home, name, "--kind", "admin") for name in ("root", "console-me", "replaced")]
    earlier = back_up(home)
    typed(home, "token", "revoke", "replaced")
    with opened(home) as store, store.database.transaction() as transaction:
        open_session(transaction, AuditLog(store.vault), new_session_secret(), 1, SessionLimits(3600, 43_200), 10**10)
        issue_code(ChangeContext(transaction, AuditLog(store.vault), "cli:me", 10**10), "console-me")
    return Genuine(home, token, earlier, back_up(home))


def back_up(home: Path) -> bytes:
    path = home.parent / secrets.token_hex(4)
    typed(home, "backup", str(path))
    return path.read_bytes()


def typed(home: Path, *words: str, fails: bool = False) -> str:
    done = run_command(home, *words)
    assert (done.returncode, "Traceback" in done.stderr) == (int(fails), False), done
    return done.stderr if fails else done.stdout


@pytest.fixture(params=ENGINES)
def new_home(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder and an empty database to restore into."""
    home = tmp_path / "new"
    home.mkdir(0o700)
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        choose(home, server.url(server.fresh()))
    return home


def frames_of(backup: bytes, folder: Path) -> list[Frame]:
    path = folder / "frames"
    path.write_bytes(backup)
    with path.open("rb") as file:
        file.seek(len(MAGIC))
        return list(_frames(file))


def _frames(file: Any) -> Iterator[Frame]:
    while not isinstance(frame := read_frame(file)[0], Footer):
        yield frame
    yield frame


def written(frames: list[Frame], *, magic: bytes = MAGIC, mac: bytes = b"", key: bytes | None = None) -> bytes:
    """A backup with these frames and a SHA-256 that fits, with the given MAC, or with one under the given key."""
    body = magic + b"".join(encode_frame(frame) for frame in frames)
    digest = hashlib.sha256(body).digest()
    return body + digest + (MasterKey(key).backup_mac(digest) if key else mac)


def counted(frames: list[Frame]) -> list[Frame]:
    """The same frames, with a footer that fits."""
    header, footer = frames[0], frames[-1]
    assert isinstance(header, Header) and isinstance(footer, Footer)
    contents = {}
    for table in header.tables:
        tally = Tally(table, lambda _done: None)
        for block in frames[1:-1]:
            assert isinstance(block, Block)
            if block.table == table.name:
                list(tally.over(block.rows))
        counter = 99 if table.name in ("tokens", "console_sessions") else footer.contents[table.name].counter
        contents[table.name] = tally.content(counter)
    return [*frames[:-1], Footer(contents)]


def mac_of(backup: bytes) -> bytes:
    return backup[-MAC_BYTES:]


def table_of(frames: list[Frame], name: str) -> Table:
    assert isinstance(frames[0], Header)
    return next(table for table in frames[0].tables if table.name == name)


def with_evil_token(frames: list[Frame]) -> list[Frame]:
    table = table_of(frames, "tokens")
    values = {
        "seq": 99,
        "name": "evil",
        "kind": "admin",
        "digest": digest_of(EVIL.reveal().encode()),
        "created_at": 1,
        "revision": 1,
    }
    evil = tuple(values.get(name) for name in table.column_names)
    return counted(
        [
            Block("tokens", [*frame.rows, evil]) if isinstance(frame, Block) and frame.table == "tokens" else frame
            for frame in frames
        ]
    )


def of_schema_11(frames: list[Frame], folder: Path) -> list[Frame]:
    """Before there were proofs: every row, with the columns that it had then."""
    path = folder / f"{secrets.token_hex(4)}.db"
    with closing(SqliteDatabase(path, WriteSignal(folder / "write-signal"))) as database:
        migrate(database, to=11)
        tables = copied_tables(database)
    blocks: list[Frame] = [Block(table.name, list(_rows(frames, table))) for table in tables]
    header = Header("0.0", 11, 1, tables, None)
    return counted([header, *blocks, frames[-1]])


def _rows(frames: list[Frame], table: Table) -> Iterator[tuple[Any, ...]]:
    names = table_of(frames, table.name).column_names
    for block in frames[1:-1]:
        assert isinstance(block, Block)
        for row in block.rows if block.table == table.name else []:
            values = dict(zip(names, row, strict=True))
            yield tuple(values[name] for name in table.column_names)


def at(frames: list[Frame], table: str) -> int:
    return next(number for number, frame in enumerate(frames) if isinstance(frame, Block) and frame.table == table)


def replaced(frames: list[Frame], number: int, frame: Frame) -> list[Frame]:
    return [*frames[:number], frame, *frames[number + 1 :]]


def swapped(frames: list[Frame]) -> list[Frame]:
    one, other = at(frames, "tokens"), at(frames, "audit")
    return replaced(replaced(frames, one, frames[other]), other, frames[one])


def spliced(frames: list[Frame], earlier: list[Frame]) -> list[Frame]:
    """With the tokens of an earlier backup: one that was revoked since is live in it."""
    return counted(replaced(frames, at(frames, "tokens"), earlier[at(earlier, "tokens")]))


def moved_row(frames: list[Frame]) -> list[Frame]:
    """A sign-in link as a session."""
    (code,) = _rows(frames, table_of(frames, "console_codes"))
    names, sessions = table_of(frames, "console_codes").column_names, table_of(frames, "console_sessions")
    values = dict(zip(names, code, strict=True)) | {"seq": 9, "created_at": 10**10, "used_at": 10**10}
    number = at(frames, "console_sessions")
    block = frames[number]
    assert isinstance(block, Block)
    row = tuple(values[name] for name in sessions.column_names)
    return counted(replaced(frames, number, Block("console_sessions", [*block.rows, row])))


def with_header(frames: list[Frame], **changes: Any) -> list[Frame]:
    header = frames[0]
    assert isinstance(header, Header)
    values = {name: getattr(header, name) for name in header.__struct_fields__}
    return replaced(frames, 0, Header(**values | changes))


def without_last_rows(frames: list[Frame]) -> list[Frame]:
    number = at(frames, "audit")
    block = frames[number]
    assert isinstance(block, Block)
    return counted(replaced(frames, number, Block("audit", block.rows[:-1])))


def their_sealed_key() -> bytes:
    return seal_master_key(THEIR_KEY, Secret("known to the attacker"))


Forge = Callable[[Genuine, list[Frame], Path], bytes]
# Without a MAC, as older versions wrote them.
UNSIGNED: dict[str, Forge] = {
    "an older schema with a token more": lambda g, f, p: written(
        with_evil_token(of_schema_11(f, p)), magic=FIRST_MAGIC
    ),
    "the MAC removed": lambda g, f, p: written(f, magic=FIRST_MAGIC),
    "the MAC removed, with a token more": lambda g, f, p: written(with_evil_token(f), magic=FIRST_MAGIC),
    "the MAC removed, with older tokens": lambda g, f, p: written(
        spliced(f, frames_of(g.earlier, p)), magic=FIRST_MAGIC
    ),
}
ADDED = dict(
    zip(UNSIGNED, (["evil"], [], ["evil"], ["replaced"]), strict=True)
)  # the live tokens that it has in addition
# With a MAC that does not fit.
FORGED: dict[str, Forge] = {
    "an older schema, their key": lambda g, f, p: written(with_evil_token(of_schema_11(f, p)), key=THEIR_KEY),
    "unchanged, their key": lambda g, f, p: written(f, key=THEIR_KEY),
    "their key, sealed inside": lambda g, f, p: written(
        with_header(with_evil_token(f), sealed_master_key=their_sealed_key()), key=THEIR_KEY
    ),
    "an older schema, the genuine MAC": lambda g, f, p: written(
        with_evil_token(of_schema_11(f, p)), mac=mac_of(g.later)
    ),
    "a token more": lambda g, f, p: written(with_evil_token(f), mac=mac_of(g.later)),
    "entries of the audit log removed": lambda g, f, p: written(without_last_rows(f), mac=mac_of(g.later)),
    "the schema version changed": lambda g, f, p: written(with_header(f, schema=19), mac=mac_of(g.later)),
    "the time changed": lambda g, f, p: written(with_header(f, created_at=1), mac=mac_of(g.later)),
    "a row moved to another table": lambda g, f, p: written(moved_row(f), mac=mac_of(g.later)),
    "two backups spliced": lambda g, f, p: written(spliced(f, frames_of(g.earlier, p)), mac=mac_of(g.later)),
    "the MAC of another backup": lambda g, f, p: written(f, mac=mac_of(g.earlier)),
    "parts swapped": lambda g, f, p: written(swapped(f), mac=mac_of(g.later)),
    "a MAC of zeros": lambda g, f, p: written(f, mac=bytes(MAC_BYTES)),
}
DAMAGED: dict[str, Forge] = {
    "the MAC cut off": lambda g, f, p: g.later[:-MAC_BYTES],
    "the last byte cut off": lambda g, f, p: g.later[:-1],
    "a byte more": lambda g, f, p: g.later + b"\0",
    "only the first line changed": lambda g, f, p: FIRST_MAGIC + g.later[len(MAGIC) :],
}


def forged(forge: Forge, genuine: Genuine, folder: Path) -> Path:
    path = folder / "forged"
    path.write_bytes(forge(genuine, frames_of(genuine.later, folder), folder))
    return path


def give_key(genuine: Genuine, home: Path) -> None:
    (home / "master.key").write_bytes((genuine.home / "master.key").read_bytes())


def live_tokens(home: Path) -> list[str]:
    return [each["name"] for each in json.loads(typed(home, "token", "list", "--json")) if each["state"] == "live"]


@pytest.mark.parametrize("name", [*UNSIGNED, *FORGED, *DAMAGED])
def test_it_is_refused_and_nothing_is_written(name: str, genuine: Genuine, tmp_path: Path) -> None:
    """--unauthenticated only helps where there is no MAC."""
    path, home = forged((UNSIGNED | FORGED | DAMAGED)[name], genuine, tmp_path), tmp_path / "new"
    home.mkdir(0o700)
    give_key(genuine, home)
    commands = [["restore"], ["backup", "drill"], *([] if name in UNSIGNED else [["restore", "--unauthenticated"]])]
    for words in commands:
        assert ("damaged" if name in DAMAGED else "authentic") in typed(home, *words, str(path), fails=True)
    assert [each.name for each in home.iterdir()] == ["master.key"]


def test_the_attack_that_was_found_gives_no_token(genuine: Genuine, new_home: Path, tmp_path: Path) -> None:
    """A token in a backup that was rewritten as schema 11: the migration would prove its row, as it finds it."""
    path = forged(UNSIGNED["an older schema with a token more"], genuine, tmp_path)
    give_key(genuine, new_home)
    assert typed(new_home, "restore", str(path), fails=True) == (
        f"relaydeck: the backup {path} cannot be authenticated: it has no MAC"
        " (an older Relaydeck, or a forger, wrote it)\n"
        "Somebody could have added tokens to it. --unauthenticated restores it nevertheless, and revokes every token,"
        " session and sign-in link in it. Other records may be forged too: restore it only if nobody else could write"
        " the file.\n"
    )
    typed(new_home, "restore", "--unauthenticated", str(path))
    anew = make_token(new_home, "anew", "--kind", "admin")
    with Running(new_home, token=anew) as running:
        answers = [running.ask("GET", "/admin/v1/tokens", token=each) for each in (EVIL.reveal(), genuine.token, anew)]
    assert [answer.status for answer in answers] == [401, 401, 200]


def genuine_file(genuine: Genuine, folder: Path) -> Path:
    path = folder / "genuine"
    path.write_bytes(genuine.later)
    return path


@pytest.mark.parametrize("name", UNSIGNED)
def test_without_a_mac_every_credential_is_revoked_and_listed(
    name: str, genuine: Genuine, new_home: Path, tmp_path: Path
) -> None:
    path = forged(UNSIGNED[name], genuine, tmp_path)
    give_key(genuine, new_home)
    restored = json.loads(typed(new_home, "restore", "--unauthenticated", "--json", str(path)))
    assert restored["authentic"] is False
    added = [each for each in ("evil", "replaced") if {"kind": "token", "name": each} in restored["revoked"]]
    assert added == ADDED[name]
    assert [each for each in restored["revoked"] if each["name"] not in added] == REVOKED
    assert live_tokens(new_home) == []
    left_in_order(new_home)


def left_in_order(home: Path) -> None:
    """There is a way in, nothing looks forged, and the audit log names what was revoked."""
    assert typed(home, "token", "create", "anew", "--kind", "admin").startswith("rdk_")
    assert live_tokens(home) == ["anew"]
    with opened(home) as store:
        (restored,) = store.database.read("SELECT actor FROM audit WHERE action = 'database.restored_unauthenticated'")
        revoked = store.database.read("SELECT record FROM audit WHERE action = 'token.revoked' AND actor = 'restore'")
        assert not store.database.has_table("revoked_by_restore")
        for table in ("console_sessions", "console_codes"):
            assert store.database.read(f"SELECT * FROM {table}") == []
        assert store.database.read("SELECT id FROM signers WHERE set_locally") == []
    assert restored.actor == "restore" and "root" in {row.record for row in revoked}


@pytest.mark.parametrize("name", ["genuine", *UNSIGNED, *FORGED])
def test_without_the_master_key_at_hand_every_credential_is_revoked(
    name: str, genuine: Genuine, new_home: Path, tmp_path: Path
) -> None:
    """A file whose parts are in another order, or do not fit its version, is refused all the same."""
    path = forged((UNSIGNED | FORGED | {"genuine": lambda g, f, p: g.later})[name], genuine, tmp_path)
    refused = restore_without_key(new_home, path, fails=True)
    if name == "their key, sealed inside":
        assert "Pass it with --passphrase-file" in refused
        return
    assert "cannot be authenticated" in refused
    if name in ("parts swapped", "the schema version changed"):
        restore_without_key(new_home, path, "--unauthenticated", fails=True)
        return
    shown = restore_without_key(new_home, path, "--unauthenticated")
    assert "revoked the token root\n" in shown and "revoked the session of root\n" in shown
    give_key(genuine, new_home)
    assert live_tokens(new_home) == []
    left_in_order(new_home)


def restore_without_key(home: Path, path: Path, *options: str, fails: bool = False) -> str:
    return typed(home, "restore", *options, str(path), fails=fails)


def test_an_authentic_backup_keeps_its_tokens_whatever_is_said(
    genuine: Genuine, new_home: Path, tmp_path: Path
) -> None:
    """Also an earlier one: Relaydeck cannot know that a token in it was revoked since."""
    path = tmp_path / "earlier"
    path.write_bytes(genuine.earlier)
    give_key(genuine, new_home)
    restored = json.loads(typed(new_home, "restore", "--unauthenticated", "--json", str(path)))
    assert (restored["authentic"], restored["revoked"]) == (True, [])
    assert live_tokens(new_home) == ["root", "console-me", "replaced"]


def test_until_it_is_opened_with_the_key_it_is_not_copied_and_doctor_says_why(
    genuine: Genuine, new_home: Path, tmp_path: Path
) -> None:
    restore_without_key(new_home, genuine_file(genuine, tmp_path), "--unauthenticated")
    give_key(genuine, new_home)
    assert "restored from a backup that is not authentic" in typed(new_home, "backup", str(tmp_path / "b"), fails=True)
    assert "it was restored from a backup that is not authentic" in run_command(new_home, "doctor").stdout
    typed(new_home, "token", "list")
    typed(new_home, "backup", str(tmp_path / "b"))
    typed(new_home, "audit", "verify")
    assert "tokens: there is no live token" in run_command(new_home, "doctor").stdout


def test_the_mark_of_a_restore_brings_nothing_else_into_the_audit_log(new_home: Path) -> None:
    """Whoever can write to the database could otherwise have a token recorded as issued."""
    make_token(new_home, "root")
    with opened(new_home) as store, store.database.migration() as execute:
        execute("CREATE TABLE revoked_by_restore (kind TEXT, name TEXT, moment BIGINT)")
        execute("INSERT INTO revoked_by_restore VALUES ('token.created', 'root', 1), ('token', 'root', 1)")
    with opened(new_home) as store:
        rows = store.database.read("SELECT action, record FROM audit WHERE actor = 'restore'")
        assert [tuple(row) for row in rows] == [("token.revoked", "root")]


def test_a_file_that_is_changed_after_its_check_is_not_restored(genuine: Genuine, tmp_path: Path) -> None:
    path = genuine_file(genuine, tmp_path)
    frames = frames_of(genuine.later, tmp_path)
    with closing(SqliteDatabase(tmp_path / "target.db", WriteSignal(tmp_path / "signal"))) as target:
        with path.open("rb", buffering=0) as file:
            backup = BackupFile(path, file, ignored)
            backup.check_contents(ignored)
            path.write_bytes(written(with_evil_token(frames), mac=mac_of(genuine.later)))
            with pytest.raises(OperatorError, match=r"damaged|changed while it was restored"):
                copy.restore(backup, target, unwatched)
        assert unfinished_copy_of(target) is not None


def test_a_file_that_is_changed_between_its_two_readings_is_refused(genuine: Genuine, tmp_path: Path) -> None:
    path = genuine_file(genuine, tmp_path)
    frames = frames_of(genuine.later, tmp_path)
    with path.open("rb", buffering=0) as file:
        backup = BackupFile(path, file, ignored)
        path.write_bytes(written(with_evil_token(frames), mac=mac_of(genuine.later)))
        with pytest.raises(OperatorError, match="damaged or truncated"):
            backup.check_contents(ignored)


def test_one_whose_audit_log_cannot_be_continued_is_never_opened(genuine: Genuine, tmp_path: Path) -> None:
    frames, home = frames_of(genuine.later, tmp_path), tmp_path / "new"
    number = at(frames, "audit_keys")
    block = frames[number]
    assert isinstance(block, Block)
    spoilt = [tuple(bytes(60) if isinstance(value, bytes) else value for value in row) for row in block.rows]
    path = tmp_path / "forged"
    path.write_bytes(written(counted(replaced(frames, number, Block("audit_keys", spoilt))), magic=FIRST_MAGIC))
    home.mkdir(0o700)
    give_key(genuine, home)
    for words in (["restore", "--unauthenticated", str(path)], ["token", "list"]):
        assert typed(home, *words, fails=True) == (
            "relaydeck: this database was restored from a backup that is not authentic, and cannot be used: the change"
            " cannot be recorded in the audit log: the sealed key of audit_keys record 'chain' does not open\n"
            "Restore another backup into an empty database.\n"
        )


VALUES: tuple[Any, ...] = (None, 0, -1, 2**62, "", "x", b"", bytes(40), 1.5, True, "{}", [])


@pytest.mark.parametrize("table", ["data_keys", "tokens", "audit_keys", "signers", "clock"])
def test_no_value_in_any_column_ends_in_a_traceback_or_in_a_live_token(
    table: str, genuine: Genuine, tmp_path: Path
) -> None:
    frames, path = frames_of(genuine.later, tmp_path), tmp_path / "forged"
    number = at(frames, table)
    block = frames[number]
    assert isinstance(block, Block)
    for column in range(len(block.rows[0])):
        for value in (VALUES[column % len(VALUES)], VALUES[(column + 5) % len(VALUES)]):
            home = tmp_path / f"{column}-{type(value).__name__}"
            row = (*block.rows[0][:column], value, *block.rows[0][column + 1 :])
            path.write_bytes(written(counted(replaced(frames, number, Block(table, [row]))), magic=FIRST_MAGIC))
            home.mkdir(0o700, exist_ok=True)
            give_key(genuine, home)
            done = run_command(home, "restore", "--unauthenticated", str(path))
            assert "Traceback" not in done.stderr
            assert done.returncode == 1 or live_tokens(home) == []


def test_a_header_that_unpacks_to_much_more_is_refused_before_it_takes_memory(tmp_path: Path) -> None:
    """The header is read before the MAC is verified."""
    header = zlib.compress(msgspec.msgpack.encode({"type": "header", "program": "0" * 100_000_000}))
    body = MAGIC + len(header).to_bytes(4) + header
    path = tmp_path / "backup"
    path.write_bytes(body + hashlib.sha256(body).digest() + bytes(MAC_BYTES))
    tracemalloc.start()
    try:
        with path.open("rb") as file, pytest.raises(OperatorError, match="damaged or truncated"):
            BackupFile(path, file, ignored)
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


def ignored(done: int) -> None: ...


@contextmanager
def unwatched(_what: str, _total: int) -> Iterator[Callable[[int], None]]:
    yield ignored
