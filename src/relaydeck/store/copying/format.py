"""The format of a backup file, the same for every database engine.

    RELAYDECK BACKUP 2\\n
    frames, each:   length (4)   zlib of a message in MessagePack
        a Header, then the Blocks of each table in turn, then a Footer
    SHA-256 (32) of everything before it
    MAC (32) of that digest, under a key derived from the master key

The SHA-256 detects damage without a key. The MAC detects forgery: it covers every byte, and nobody can compute it
without the master key. The first format ends with the SHA-256.

The header is read before the MAC is verified, so it has a bound of its own.
"""

import struct
import zlib
from typing import Any, BinaryIO

import msgspec

from relaydeck.store.catalogue import Table
from relaydeck.store.copying.contents import Content

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
