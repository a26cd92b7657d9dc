"""Backup files, the same for every database engine. One appears under its name when it is complete.

    RELAYDECK BACKUP 2\\n
    frames, each:   length (4)   zlib of a message in MessagePack
        a Header, then the Blocks of each table in turn, then a Footer
    SHA-256 (32) of everything before it
    MAC (32) of that digest, under a key derived from the master key

The SHA-256 detects damage without a key. The MAC detects forgery: it covers every byte, and nobody can compute it
without the master key. The first format ends with the SHA-256.

The header is read before the MAC is verified, so it has a bound of its own. It may contain the master key, sealed with
a passphrase (scrypt, RFC 7914, and AES-256-GCM):   version (1) | salt (16) | nonce (12) | ciphertext and tag

The whole file is checked before any row is used. First its bytes are hashed. Then `check_contents` reads every frame.
It hashes again, and a restore compares each table with the digest found then: a file that is changed in between is
refused.
"""

import hashlib
import hmac
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from relaydeck import __version__
from relaydeck.errors import OperatorError
from relaydeck.secret import Secret
from relaydeck.store.copying.contents import ROWS_AT_ONCE, Advance, Content, Source, Tally, Values, no_progress
from relaydeck.store.files import private_file, remove_old_drafts
from relaydeck.store.migrate import newest_version
from relaydeck.store.rows import Kind, Table
from relaydeck.store.sealing import decrypt, encrypt
from relaydeck.store.vault import MasterKey

MAGIC = b"RELAYDECK BACKUP 2\n"
FIRST_MAGIC = b"RELAYDECK BACKUP 1\n"  # without a MAC
ANY_MAGIC = b"RELAYDECK BACKUP "
DIGEST_BYTES = MAC_BYTES = 32
_LENGTH = struct.Struct(">I")
LARGEST_HEADER = 1024 * 1024  # about 20 KiB
LARGEST_FRAME = 256 * 1024 * 1024  # a block is about a megabyte, unless one row is larger


class Header(msgspec.Struct, tag="header"):
    program: str
    schema: int
    created_at: int
    tables: list[Table]
    sealed_master_key: bytes | None


class Block(msgspec.Struct, tag="block"):
    """Some rows of a table."""

    table: str
    rows: list[tuple[Any, ...]]


class Footer(msgspec.Struct, tag="footer"):
    contents: dict[str, Content]


Frame = Header | Block | Footer
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Frame).decode


class BadFrame(Exception):
    """The bytes at the file's position are not a frame."""


def encode_frame(frame: Frame) -> bytes:
    body = zlib.compress(_encode(frame), 6)
    return _LENGTH.pack(len(body)) + body


def read_frame(file: BinaryIO, largest: int = LARGEST_FRAME) -> tuple[Frame, bytes]:
    """The frame at the file's position, and its bytes. Raises BadFrame."""
    try:
        prefix = file.read(_LENGTH.size)
        (length,) = _LENGTH.unpack(prefix)
        if length > largest:
            raise BadFrame
        body = file.read(length)
        unpacking = zlib.decompressobj()
        message = unpacking.decompress(body, largest)
        if not unpacking.eof or unpacking.unused_data:
            raise BadFrame
        frame: Frame = _decode(message)
    except (struct.error, zlib.error, msgspec.MsgspecError):
        raise BadFrame from None
    return frame, prefix + body


LEAST_CHARACTERS = 12
_VERSION = b"\x01"
_SALT_BYTES = 16
_COST = 2**17  # 128 MiB and a few tenths of a second for each guess
_BOUND = b"relaydeck master key in a backup"


def seal_master_key(key: bytes, passphrase: Secret) -> bytes:
    salt = os.urandom(_SALT_BYTES)
    return _VERSION + salt + encrypt(_cipher(passphrase, salt), key, _BOUND)


def open_master_key(sealed: bytes, passphrase: Secret) -> bytes:
    version, salt, rest = sealed[:1], sealed[1 : 1 + _SALT_BYTES], sealed[1 + _SALT_BYTES :]
    try:
        if version != _VERSION:
            raise ValueError
        return decrypt(_cipher(passphrase, salt), rest, _BOUND)
    except (InvalidTag, ValueError):
        raise OperatorError(
            "the passphrase does not open the master key in this backup",
            "Use the passphrase that the backup was made with.",
        ) from None


def _cipher(passphrase: Secret, salt: bytes) -> AESGCM:
    return AESGCM(Scrypt(salt=salt, length=32, n=_COST, r=8, p=1).derive(passphrase.reveal().encode()))


class _Hashing:
    """Hashes what it writes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()

    def write(self, data: bytes) -> None:
        self._digest.update(data)
        self._file.write(data)

    def frame(self, frame: Frame) -> None:
        self.write(encode_frame(frame))

    def end(self, master: MasterKey) -> None:
        digest = self._digest.digest()
        self._file.write(digest + master.backup_mac(digest))


def write_backup(
    source: Source,
    path: Path,
    master: MasterKey,
    *,
    now: int,
    advance: Advance,
    force: bool = False,
    sealed_master_key: bytes | None = None,
) -> dict[str, Content]:
    """Returns the contents of the backup, by table. `master` authenticates it. Raises OperatorError when it exists."""
    refuse_existing(path, force)
    with _backup_file(path, force) as file:
        hashing = _Hashing(file)
        hashing.write(MAGIC)
        hashing.frame(Header(__version__, source.version, now, source.tables, sealed_master_key))
        contents = {table.name: _write_table(hashing, source, table, advance) for table in source.tables}
        hashing.frame(Footer(contents))
        hashing.end(master)
    return contents


def _write_table(hashing: _Hashing, source: Source, table: Table, advance: Advance) -> Content:
    tally = Tally(table, advance)
    for rows in _in_blocks(tally.over(source.rows(table))):
        hashing.frame(Block(table.name, rows))
    return tally.content(source.counter(table))


def _in_blocks(rows: Iterable[Values]) -> Iterator[list[Values]]:
    remaining = iter(rows)
    while block := list(islice(remaining, ROWS_AT_ONCE)):
        yield block


def refuse_existing(path: Path, force: bool) -> None:
    if path.exists() and not force:
        raise OperatorError(f"{path} exists", "Choose another file name, or replace the file with --force.")


@contextmanager
def _backup_file(path: Path, force: bool) -> Iterator[BinaryIO]:
    path = path.resolve()  # replace the file that a link points to, not the link
    if not path.parent.is_dir():
        raise OperatorError(f"there is no folder {path.parent}", "Create it, or choose a file elsewhere.")
    if path.exists() and not path.is_file():
        raise OperatorError(f"{path} is not a regular file", "Choose a file that does not exist yet.")
    remove_old_drafts(path)
    try:
        with private_file(path, replace=force) as file:
            yield file
    except FileExistsError:
        refuse_existing(path, force)


_TYPES: dict[Kind, type] = {"integer": int, "text": str, "bytes": bytes, "boolean": bool}
_CHUNK_BYTES = 1024 * 1024


class BackupFile:
    """A backup whose bytes are undamaged. After `check_contents` it is a `Source`, like a database."""

    def __init__(self, path: Path, file: BinaryIO, advance: Advance) -> None:
        """Raises OperatorError when it is damaged, truncated, not a backup, or newer than this program."""
        self._path, self._file = path, file
        self._magic = self._read_magic()
        self.digest, self._mac = self._check_digest(advance)
        self.header = self._read_header()
        self.version, self.tables = self.header.schema, self.header.tables
        self._refuse_newer()
        self._starts: dict[str, int] = {}
        self.contents: dict[str, Content] = {}

    @property
    def has_mac(self) -> bool:
        return self._magic == MAGIC

    def is_authentic(self, master: MasterKey) -> bool:
        """Whether a service with this master key wrote the file as it is."""
        return self.has_mac and hmac.compare_digest(self._mac, master.backup_mac(self.digest))

    def check_contents(self, advance: Advance) -> None:
        """Read every frame once; each table must match its entry in the footer. Raises OperatorError."""
        self._file.seek(len(self._magic))
        digest = hashlib.sha256(self._magic)
        tallies = {table.name: Tally(table, no_progress) for table in self.tables}
        self._frame(digest, advance)
        at, frame = self._file.tell(), self._frame(digest, advance)
        for table in self.tables:
            self._starts[table.name] = at
            while isinstance(frame, Block) and frame.table == table.name:
                self._tally(table, frame, tallies[table.name])
                at, frame = self._file.tell(), self._frame(digest, advance)
        if not isinstance(frame, Footer) or frame.contents.keys() != tallies.keys() or digest.digest() != self.digest:
            raise self._damaged()
        for name, tally in tallies.items():
            if tally.content(frame.contents[name].counter) != frame.contents[name]:
                raise self._damaged()
        self.contents = frame.contents

    def rows(self, table: Table) -> Iterator[Values]:
        """The rows of a table, up to the first frame of another one."""
        at = self._starts[table.name]
        while True:
            self._file.seek(at)  # the caller may have read elsewhere since the last row
            frame = self._frame()
            if not isinstance(frame, Block) or frame.table != table.name:
                return
            at = self._file.tell()
            yield from frame.rows

    def counter(self, table: Table) -> int:
        return self.contents[table.name].counter

    def content(self, table: Table, advance: Advance) -> Content:
        advance(self.contents[table.name].rows)
        return self.contents[table.name]

    def count(self) -> int:
        return sum(content.rows for content in self.contents.values())

    def data_keys(self) -> list[tuple[int, bytes]]:
        """The wrapped keys, to try a master key before anything is written."""
        return [
            (values["id"], values["wrapped"])
            for table in self.tables
            if table.name == "data_keys"
            for row in self.rows(table)
            for values in [dict(zip(table.column_names, row, strict=True))]
        ]

    def _read_magic(self) -> bytes:
        magic = self._file.read(len(MAGIC))
        if magic in (MAGIC, FIRST_MAGIC):
            return magic
        if magic.startswith(ANY_MAGIC):
            raise OperatorError(f"{self._path} is damaged, or was written by a newer Relaydeck")
        raise OperatorError(f"{self._path} is not a Relaydeck backup")

    def _check_digest(self, advance: Advance) -> tuple[bytes, bytes]:
        """The digest and the MAC that the file ends with."""
        end_bytes = DIGEST_BYTES + (MAC_BYTES if self.has_mac else 0)
        digest, held = hashlib.sha256(self._magic), b""
        while chunk := self._file.read(_CHUNK_BYTES):
            advance(len(chunk))
            held += chunk
            digest.update(held[:-end_bytes])
            held = held[-end_bytes:]
        if digest.digest() != held[:DIGEST_BYTES]:
            raise self._damaged()
        return held[:DIGEST_BYTES], held[DIGEST_BYTES:]

    def _read_header(self) -> Header:
        self._file.seek(len(self._magic))
        header = self._frame(largest=LARGEST_HEADER)
        if not isinstance(header, Header):
            raise self._damaged()
        return header

    def _refuse_newer(self) -> None:
        if self.version > newest_version():
            raise OperatorError(
                f"{self._path} has schema version {self.version}, this program knows {newest_version()}",
                f"Restore it with Relaydeck {self.header.program} or newer.",
            )

    def _tally(self, table: Table, block: Block, tally: Tally) -> None:
        """SQLite would store values of any type in any column."""
        kinds = [_TYPES[column.kind] for column in table.columns]
        accepted: set[tuple[type, ...]] = set()
        for row in tally.over(block.rows):
            types = tuple(map(type, row))
            if types not in accepted:
                if len(row) != len(kinds) or any(each not in (kinds[at], type(None)) for at, each in enumerate(types)):
                    raise self._damaged()
                accepted.add(types)

    def _frame(
        self,
        digest: "hashlib._Hash | None" = None,
        advance: Advance = no_progress,
        largest: int = LARGEST_FRAME,
    ) -> Frame:
        try:
            frame, data = read_frame(self._file, largest)
        except BadFrame:
            raise self._damaged() from None
        if digest is not None:
            digest.update(data)
        advance(len(data))
        return frame

    def _damaged(self) -> OperatorError:
        return OperatorError(f"the backup {self._path} is damaged or truncated", "Use another copy of it.")
