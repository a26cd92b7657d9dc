"""The reason of a revert as text: Error(string), Panic(uint256), or the selector of a custom error."""

from relaydeck.networks.evm.errors import NodeError, returned_data

_ERROR = bytes.fromhex("08c379a0")
_PANIC = bytes.fromhex("4e487b71")
_PANICS = {
    0x00: "generic panic",
    0x01: "assertion failed",
    0x11: "arithmetic overflow or underflow",
    0x12: "division or modulo by zero",
    0x21: "conversion to an enum value that does not exist",
    0x22: "access to an incorrectly encoded storage byte array",
    0x31: "pop from an empty array",
    0x32: "array index out of bounds",
    0x41: "too much memory allocated",
    0x51: "call of an uninitialized function pointer",
}
_WORD = 32  # bytes
_LONGEST = 300


def reason(error: NodeError) -> str:
    """The decoded reason; the node's message only when it sent no data."""
    returned = returned_data(error)
    if returned is None:
        return printable(error.message) or "no reason given"
    return _decoded(returned)


def _decoded(returned: bytes) -> str:
    if not returned:
        return "no reason given"
    try:
        if returned.startswith(_ERROR):
            return printable(_text(returned[4:])) or "an empty reason"
        if returned.startswith(_PANIC):
            code = _number(returned[4:], 0)
            return f"panic 0x{code:02x}: {_PANICS.get(code, 'unknown')}"
    except ValueError:
        return f"return data that cannot be decoded, selector 0x{returned[:4].hex()}"
    if len(returned) < 4:
        return f"return data 0x{returned.hex()}"
    return f"custom error 0x{returned[:4].hex()}"


def _text(encoded: bytes) -> str:
    """An ABI-encoded string: the position of its length, and at that position its length and its bytes."""
    position = _number(encoded, 0)
    start = position + _WORD
    end = start + _number(encoded, position)
    if position < _WORD or end > len(encoded):
        raise ValueError
    return encoded[start:end].decode()


def _number(encoded: bytes, position: int) -> int:
    word = encoded[position : position + _WORD]
    if len(word) < _WORD:
        raise ValueError
    return int.from_bytes(word, "big")


def printable(words: str) -> str:
    """Text from outside, fit for a log: one line of bounded length."""
    line = "".join(letter if letter.isprintable() else " " for letter in words[: 2 * _LONGEST]).strip()
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
