"""Reads a backup file. The whole file is checked before any row is used.

First its bytes are hashed: that detects damage, and the MAC of the digest tells whether Relaydeck wrote the file. Then
`check_contents` reads every frame. It hashes again, and a restore compares each table with the digest found then: a
file that is changed in between is refused.
"""

import hashlib
import hmac
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from relaydeck.errors import OperatorError
from relaydeck.store.catalogue import Kind, Table
from relaydeck.store.copying.contents import Advance, Content, Tally, Values, no_progress
from relaydeck.store.copying.format import (
    ANY_MAGIC,
    DIGEST_BYTES,
    FIRST_MAGIC,
    LARGEST_FRAME,
    LARGEST_HEADER,
    MAC_BYTES,
    MAGIC,
    BadFrame,
    Block,
    Footer,
    Frame,
    Header,
    read_frame,
)
from relaydeck.store.master_key import MasterKey
from relaydeck.store.migrate import newest_version

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
