"""Reads a backup. It is checked from its first byte to its last before anything is taken from it."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from relaydeck.errors import OperatorError
from relaydeck.store.catalogue import Table
from relaydeck.store.copying.contents import Advance, Content, Tally, Values
from relaydeck.store.copying.format import ANY_MAGIC, DIGEST_BYTES, MAGIC, BadFrame, Block, Footer, Header, read_frame
from relaydeck.store.migrate import newest_version

_CHUNK_BYTES = 1024 * 1024


class BackupFile:
    """A checked backup: a source like a database."""

    def __init__(self, path: Path, file: BinaryIO, advance: Advance) -> None:
        """Raises OperatorError when it is damaged, cut short, something else, or newer than this program."""
        self._path, self._file = path, file
        self.digest = self._whole_digest(advance)
        self.header = self._header()
        self.version, self.tables = self.header.schema, self.header.tables
        self._refuse_newer()
        self._starts: dict[str, int] = {}
        self.contents = self._walked()

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
        """The wrapped keys: with them a master key can be tried before anything is written."""
        return [
            (values["id"], values["wrapped"])
            for table in self.tables
            if table.name == "data_keys"
            for row in self.rows(table)
            for values in [dict(zip(table.column_names, row, strict=True))]
        ]

    def _whole_digest(self, advance: Advance) -> bytes:
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
            raise OperatorError(f"{self._path} is damaged, or was written by a newer Relaydeck", "Nothing was changed.")
        raise OperatorError(f"{self._path} is not a Relaydeck backup", "Nothing was changed.")

    def _header(self) -> Header:
        self._file.seek(len(MAGIC))
        header = self._frame()
        if not isinstance(header, Header):
            raise self._damaged()
        return header

    def _refuse_newer(self) -> None:
        if self.version > newest_version():
            raise OperatorError(
                f"{self._path} is of schema version {self.version}, this program knows {newest_version()}",
                f"Restore it with Relaydeck {self.header.program} or newer. Nothing was changed.",
            )

    def _walked(self) -> dict[str, Content]:
        """Every frame looked at once; what the footer says of each table must be so."""
        tallies = {table.name: self._walk(table) for table in self.tables}
        footer = self._frame()
        if not isinstance(footer, Footer) or footer.contents.keys() != tallies.keys():
            raise self._damaged()
        for name, tally in tallies.items():
            if tally.content(footer.contents[name].counter) != footer.contents[name]:
                raise self._damaged()
        return footer.contents

    def _walk(self, table: Table) -> Tally:
        tally = Tally(table, _silent)
        self._starts[table.name] = self._file.tell()
        for row in tally.over(self._blocks(table)):
            if len(row) != len(table.columns):
                raise self._damaged()
        return tally

    def _blocks(self, table: Table) -> Iterator[Values]:
        """The rows of a table, from where the file stands; then it stands at the first frame of another."""
        at = self._file.tell()
        while True:
            self._file.seek(at)  # whoever takes the rows may have read elsewhere meanwhile
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
        return OperatorError(
            f"the backup {self._path} is damaged or cut short", "Take another copy of it. Nothing was changed."
        )


def _silent(rows: int) -> None: ...
