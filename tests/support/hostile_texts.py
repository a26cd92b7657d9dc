"""Texts that make a careless parser slow, deep or large: each shape in any size."""

import random
from base64 import b64encode
from collections.abc import Callable

Shape = Callable[[int], str]


def _repeated(unit: str, start: str = "", end: str = "") -> Shape:
    return lambda size: start + unit * max(1, size // len(unit)) + end


def _numbered(unit: str, start: str = "", end: str = "") -> Shape:
    """`unit` contains a place for a number."""
    return lambda size: start + "".join(map(unit.format, range(max(1, size // (len(unit) + 3))))) + end


TOML: dict[str, Shape] = {
    "a key of many parts": _repeated("a.", end="a=1"),
    "a key of many parts with blanks": _repeated("a . ", end="a=1"),
    "a key of many quoted parts": _repeated('"a".', end="a=1"),
    "a header of many parts": _repeated("a.", "[", "a]"),
    "many keys of the most parts": _numbered("a." * 15 + "k{}=1\n"),
    "many headers of the most parts": _numbered("[" + "a." * 15 + "k{}]\n"),
    "many keys below the longest header": _numbered("b." * 15 + "k{}=1\n", "[" + "a." * 15 + "a]\n"),
    "many keys of an inline table": _numbered("a." * 14 + "k{}=1,", "a={", "z=1}"),
    "nested arrays": _repeated("[", "a="),
    "nested inline tables": _repeated("{a=", "a="),
    "arrays that are nested and closed": _repeated("[" * 30 + "]" * 30 + ",", "a=[", "]"),
    "tables of an array": _repeated("[[a]]\n"),
    "tables of an array with a long name": _repeated("[[aaaaaaaaaaaaaa]]\n"),
    "tables below tables of an array": _repeated("[[aaaaaaa]]\n[aaaaaaa.bbbbbbbbb]\n"),
    "many tables": _numbered("[tabletabletable{}]\n"),
    "many keys": _numbered("key{} = 1\n"),
    "the same key": _repeated("key = 1\n"),
    "zeros": _repeated("0,", "a=[", "]"),
    "integers": _repeated("1234567890,", "a=[", "]"),
    "an integer": _repeated("1", "a="),
    "a hexadecimal integer": _repeated("f", "a=0x"),
    "long integers": _repeated("9" * 900 + ",", "a=[", "]"),
    "long floats": _repeated("9." + "9" * 900 + ",", "a=[", "]"),
    "underscores": _repeated("1_" * 450 + "1,", "a=[", "]"),
    "dates": _repeated("1979-05-27T07:32:00Z,", "a=[", "]"),
    "half a date": _repeated("1979-05-27T", "a="),
    "a string": _repeated("x", 'a="', '"'),
    "escapes": _repeated("\\n", 'a="', '"'),
    "escapes of characters": _repeated("\\u00e9", 'a="', '"'),
    "escapes in several lines": _repeated("\\n", 'a="""', '"""'),
    "lines that continue": _repeated("\\\n", 'a="""', '"""'),
    "quotes in a string": _repeated('""x', 'a="""', '"""'),
    "quotes in a literal string": _repeated("''x", "a='''", "'''"),
    "strings": _repeated('"xxxxxxxxxx",', "a=[", "]"),
    "a string without an end": _repeated('\\"""', 'a="""'),
    "quotes": _repeated('"'),
    "strings without an end": _repeated("'\n", "a="),
    "comments": _repeated("#\n"),
    "a comment": _repeated("#"),
    "comments in an array": _repeated("#x\n", "a=[", "]"),
    "blanks": _repeated(" ", "a=", "1"),
    "empty lines": _repeated("\n", "a=[", "]"),
    "equals signs": _repeated("="),
    "NUL": _repeated("\0"),
    "signers": _numbered('[[signers]]\nid="{}"\ntype="plain"\nconfig={{key="k"}}\n'),
    "mistaken signers": _numbered('[[signers]]\nid="{}"\nx=1\n'),
}
JSON: dict[str, Shape] = {
    "zeros": _repeated("0,", "[", "0]"),
    "numbers": _repeated("12345678901,", "[", "0]"),
    "arrays": _repeated("[],", "[", "0]"),
    "objects": _repeated("{},", "[", "0]"),
    "spaced arrays": _repeated("[]         ,", "[", "0]"),
    "spaced objects": _repeated("{}         ,", "[", "0]"),
    "nested arrays": _repeated("["),
    "nested objects": _repeated('{"a":'),
    "arrays that are nested and closed": _repeated("[" * 12 + " " * 200 + "]" * 12 + ",", "[", "0]"),
    "a string": _repeated("a", '"', '"'),
    "escapes": _repeated("\\n", '"', '"'),
    "escapes of characters": _repeated("\\u00e9", '"', '"'),
    "halves of characters": _repeated("\\ud800", '"', '"'),
    "a string without an end": _repeated("a", '"'),
    "strings": _repeated('"aaaaaaaaaa",', "[", "0]"),
    "an integer": _repeated("1"),
    "long integers": _repeated("1" * 4000 + ",", "[", "0]"),
    "long floats": _repeated("1." + "9" * 700 + ",", "[", "0]"),
    "exponents": _repeated("1e400,     ", "[", "0]"),
    "names": _numbered('"name{}":0,', "{", '"z":0}'),
    "the same name": _repeated('"aaaaaaaaa":0,', "{", '"z":0}'),
    "one name in each object": _repeated('{"aaaaaaaaaa":0},', "[", "0]"),
    "blanks": _repeated(" ", "{", "}"),
    "a record of many values": _repeated("12345678901,", "[[", "0]]"),
    "relayers": _numbered('{{"id":"r{}","name":"r","network":"n","network_type":"evm","signer_id":"s"}},', "[", "{}]"),
    "signers": _numbered('{{"id":"s{}","type":"plain","config":{{"key":"k"}}}},', "[", "{}]"),
}


def mixtures(shapes: dict[str, Shape], count: int, seed: int) -> dict[str, Shape]:
    """Texts of pieces of several shapes, cut anywhere: mostly not valid."""

    def mixture(number: int) -> Shape:
        def text(size: int) -> str:
            random_ = random.Random(f"{seed} {number}")
            parts: list[str] = []
            while sum(map(len, parts)) < size:
                whole = random_.choice(list(shapes.values()))(random_.randrange(10, max(11, size // 2)))
                start = random_.randrange(len(whole)) if random_.random() < 0.3 else 0
                parts.append(whole[start : start + random_.randrange(1, size)] + random_.choice(["\n", ",", ""]))
            return "".join(parts)[:size]

        return text

    return {f"mixture {number}": mixture(number) for number in range(count)}


def pem(label: str, der: bytes) -> str:
    text = b64encode(der).decode()
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""])


def rsa_private_key(p: int, q: int, e: int = 65537, d: int = 0) -> bytes:
    """In the DER of PKCS #1, of any odd numbers: whether they are primes takes OpenSSL long to find out."""
    d = d or pow(e, -1, (p - 1) * (q - 1))
    return _der(0x30, b"".join(map(_integer, (0, p * q, e, d, p, q, d % (p - 1), d % (q - 1), pow(q, -1, p)))))


def dh_public_key(p: int) -> bytes:
    algorithm = _der(6, bytes.fromhex("2a864886f70d010301")) + _der(0x30, _integer(p) + _integer(2))
    return _der(0x30, _der(0x30, algorithm) + _der(3, b"\0" + _integer(3)))


def _integer(number: int) -> bytes:
    return _der(2, number.to_bytes(number.bit_length() // 8 + 1))


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([0x82, *size.to_bytes(2)])
    return bytes([tag]) + length + content


def _mersenne(*exponents: int) -> bytes:
    p, q = (2**each - 1 for each in exponents)
    return rsa_private_key(p, q)


# Well-formed, of numbers that are primes: a test for primes takes the longest with these.
PRIVATE_KEYS = {
    "an RSA key of large primes": pem("RSA PRIVATE KEY", _mersenne(4253, 4423)),
    "an RSA key of two primes of 2,200 bits": pem("RSA PRIVATE KEY", _mersenne(2203, 2281)),
    "an RSA key of a small and a large prime": pem("RSA PRIVATE KEY", _mersenne(521, 3217)),
    "an RSA key of a large exponent": pem("RSA PRIVATE KEY", rsa_private_key(2**1279 - 1, 2**1279 - 9, 2**4000 + 1)),
    "an RSA key whose numbers do not fit": pem("RSA PRIVATE KEY", rsa_private_key(2**607 - 1, 2**521 - 1, d=3)),
    "a text that is too long": pem("PRIVATE KEY", bytes(9000)),
}
PUBLIC_KEYS = {
    "a Diffie-Hellman key": pem("PUBLIC KEY", dh_public_key(2**4423 - 1)),
    "a large Diffie-Hellman key": pem("PUBLIC KEY", dh_public_key(2**11213 - 1)),
    "a text that is too long": pem("PUBLIC KEY", bytes(150_000)[:65_000]),
}
