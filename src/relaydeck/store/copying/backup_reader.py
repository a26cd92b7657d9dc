"""Reads a backup file. The whole file is checked before any row is used."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from relaydeck.errors import OperatorError
from relaydeck.store.catalogue import Table
from relaydeck.store.copying.contents import Advance, Content, Tally, Values, no_progress
from relaydeck.store.copying.format import ANY_MAGIC, DIGEST_BYTES, MAGIC, BadFrame, Block, Footer, Header, read_frame
from relaydeck.store.migrate import newest_version

_CHUNK_BYTES = 1024 * 1024


class BackupFile:
    """A checked backup. It is a `Source`, like a database."""

    def __init__(self, path: Path, file: BinaryIO, advance: Advance) -> None:
        """Raises OperatorError when it is damaged, truncated, not a backup, or newer than this program."""
        self._path, self._file = path, file
        self.digest = self._check_digest(advance)
        self.header = self._header()
        self.version, self.tables = self.header.schema, self.header.tables
        self._refuse_newer()
        self._starts: dict[str, int] = {}
        self.contents = self._check_tables()

    def rows(self, table: Table) -> Iterator[Values]:
        self._file.seek(self._starts[table.name])
        return self._blocks(table)

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

    def _check_digest(self, advance: Advance) -> bytes:
        magic = self._file.read(len(MAGIC))
        if magic != MAGIC:
            self._refuse_other(magic)
        digest, held = hashlib.sha256(magic), b""
        while chunk := self._file.read(_CHUNK_BYTES):
            advance(len(chunk))
            held += chunk
            digest.update(held[:-DIGEST_BYTES])
            held = held[-DIGEST_BYTES:]
        if digest.digest() != held:
            raise self._damaged()
        return held

    def _refuse_other(self, magic: bytes) -> None:
        if magic.startswith(ANY_MAGIC):
            raise OperatorError(f"{self._path} is damaged, or was written by a newer Relaydeck")
        raise OperatorError(f"{self._path} is not a Relaydeck backup")

    def _header(self) -> Header:
        self._file.seek(len(MAGIC))
        header = self._frame()
        if not isinstance(header, Header):
            raise self._damaged()
        return header

    def _refuse_newer(self) -> None:
        if self.version > newest_version():
            raise OperatorError(
                f"{self._path} has schema version {self.version}, this program knows {newest_version()}",
                f"Restore it with Relaydeck {self.header.program} or newer.",
            )

    def _check_tables(self) -> dict[str, Content]:
        """Read every frame once; each table must match its entry in the footer."""
        tallies = {table.name: self._tally(table) for table in self.tables}
        footer = self._frame()
        if not isinstance(footer, Footer) or footer.contents.keys() != tallies.keys():
            raise self._damaged()
        for name, tally in tallies.items():
            if tally.content(footer.contents[name].counter) != footer.contents[name]:
                raise self._damaged()
        return footer.contents

    def _tally(self, table: Table) -> Tally:
        tally = Tally(table, no_progress)
        self._starts[table.name] = self._file.tell()
        for row in tally.over(self._blocks(table)):
            if len(row) != len(table.columns):
                raise self._damaged()
        return tally

    def _blocks(self, table: Table) -> Iterator[Values]:
        """The rows of a table, from the file's position on. Leaves the position at the first frame of another table."""
        at = self._file.tell()
        while True:
            self._file.seek(at)  # the caller may have read elsewhere since the last row
            frame = self._frame()
            if not isinstance(frame, Block) or frame.table != table.name:
                self._file.seek(at)
                return
            at = self._file.tell()
            yield from frame.rows

    def _frame(self) -> Header | Block | Footer:
        try:
            return read_frame(self._file)
        except BadFrame:
            raise self._damaged() from None

    def _damaged(self) -> OperatorError:
        return OperatorError(f"the backup {self._path} is damaged or truncated", "Use another copy of it.")
