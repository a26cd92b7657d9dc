"""A name server on loopback with answers that can change, and a resolver that uses it alone."""

import asyncio
import socket
import struct
from ipaddress import IPv4Address


class NameServer(asyncio.DatagramProtocol):
    """Answers each question for an IPv4 address with the next of `answers`; the last one stays."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def start(self) -> "NameServer":
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=("127.0.0.1", 0))
        self.address: tuple[str, int] = self._transport.get_extra_info("sockname")
        return self

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._reply = transport.sendto  # type: ignore[attr-defined]

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        question = data[12:]
        self.asked.append(_name_of(question))
        addresses = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        header = data[:2] + struct.pack(">HHHHH", 0x8180, 1, len(addresses), 0, 0)
        records = b"".join(
            struct.pack(">HHHIH", 0xC00C, 1, 1, 0, 4) + IPv4Address(address).packed for address in addresses
        )
        self._reply(header + question + records, addr)

    async def resolve(self, host: str, port: int) -> list[str]:
        return await asyncio.to_thread(_ask, self.address, host)

    def stop(self) -> None:
        self._transport.close()


def _name_of(question: bytes) -> str:
    labels, rest = [], question
    while rest[0]:
        labels.append(rest[1 : 1 + rest[0]].decode())
        rest = rest[1 + rest[0] :]
    return ".".join(labels)


def _ask(server: tuple[str, int], host: str) -> list[str]:
    name = b"".join(bytes([len(label)]) + label.encode() for label in host.split(".") if label) + b"\0"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(60)
        client.sendto(struct.pack(">HHHHHH", 7, 0x0100, 1, 0, 0, 0) + name + struct.pack(">HH", 1, 1), server)
        reply = client.recv(4096)
    count = struct.unpack(">H", reply[6:8])[0]
    start = 12 + len(name) + 4
    return [str(IPv4Address(reply[start + 16 * n + 12 : start + 16 * n + 16])) for n in range(count)]
