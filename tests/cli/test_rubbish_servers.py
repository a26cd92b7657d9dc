"""Every command against a server that answers rubbish: a message and exit code 1, never a traceback."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import click
import msgspec
import pytest

from relaydeck.cli.commands import cli
from relaydeck.client import records
from relaydeck.client.calls import Record
from tests.conftest import DEMO
from tests.support.lengths import times
from tests.support.running import run_command

ARGUMENTS = {
    "apply": ["-"],
    "audit head": [],
    "audit list": [],
    "audit verify": [],
    "doctor": [],
    "estimate": ["sepolia-1", "0x00"],
    "event deliveries": [],
    "event list": [],
    "event replay": ["--all-dead"],
    "event show": ["evt_1"],
    "event tail": [],
    "export": [],
    "find": ["x"],
    "network create": ["name=n", "network_type=evm", "chain_id=1", "native_symbol=ETH"],
    "network delete": ["n", "--yes"],
    "network list": [],
    "network show": ["n"],
    "network update": ["n", "chain_id=2"],
    "notification create": ["id=n", "type=webhook", "url=https://hooks.example.com"],
    "notification delete": ["n", "--yes"],
    "notification list": [],
    "notification send": ["n"],
    "notification show": ["n"],
    "notification test": ["n", "--wait", "--timeout", "1"],
    "notification update": ["n", "url=https://hooks.example.com"],
    "problem acknowledge": ["p", "told them", "4h"],
    "problem list": [],
    "problem reopen": ["p"],
    "proposal approve": ["p"],
    "proposal force": ["p", "reason"],
    "proposal list": [],
    "proposal reject": ["p", "reason"],
    "proposal withdraw": ["p"],
    "proposal show": ["p"],
    "protection create": ["p"],
    "protection delete": ["p"],
    "protection list": [],
    "relayer create": ["name=r", "network=n", "network_type=evm", "signer_id=s"],
    "relayer delete": ["r", "--yes"],
    "relayer runway": [],
    "relayer list": [],
    "relayer pause": ["r"],
    "relayer resume": ["r"],
    "relayer show": ["r"],
    "relayer update": ["r", "name=q"],
    "relayer why": ["r"],
    "signer check": ["--all"],
    "signer create": ["id=s", "type=plain", "config.key=" + "11" * 32],
    "signer delete": ["s", "--yes"],
    "signer drivers": [],
    "signer list": [],
    "signer show": ["s"],
    "signer update": ["s", "--label", "team=payments"],
    "token create": ["t"],
    "token list": [],
    "token revoke": ["t"],
    "token rotate": ["t"],
    "whoami": [],
}
FURTHER = [["relayer", "runway", "r"], ["signer", "check", "s"], ["event", "replay", "evt_1"], ["apply", "-", "--plan"]]
PATIENT = ("apply", "doctor", "export")  # they take a larger response


RETRIED = ("cut", "negative chunk", "not HTTP")  # with pauses, so not by every command; "dropped" is


def remote_commands(command: click.Command = cli, *path: str) -> Iterator[str]:
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            if not command.commands[name].hidden:
                yield from remote_commands(command.commands[name], *path, name)
    elif any("--server" in each.opts and not getattr(each, "hidden", False) for each in command.params):
        yield " ".join(path)


def test_every_command_that_takes_a_server_is_tried() -> None:
    assert sorted(remote_commands()) == sorted(ARGUMENTS)


def answer(body: bytes, status: str = "200 OK", *headers: str, kind: str = "application/json") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", "Connection: close"]
    return "\r\n".join([*lines, *headers, "\r\n"]).encode("latin-1") + body


def envelope(data: str, more: str = "") -> bytes:
    return answer(
        b'{"success":true,"error":"","data":%b,"metadata":{"logs":[],"traces":[]}%b}' % (data.encode(), more.encode())
    )


LONG = "9" * 5000
ODD = '{"id":5,"name":[],"token":{},"head":1,"toml":5,"runways":5,"steps":5,"sequence":"x","result":"?","type":[]}'
PLACE = ',"pagination":{"current_page":1,"per_page":10,"total_items":1}'
PROBLEM = b'{"type":"about:blank","title":"No","status":422,"detail":5,"mistakes":5,"changes":[5]}'
RUBBISH = {
    "dropped": b"",
    "not HTTP": b"SSH-2.0-OpenSSH_9.6\r\n",
    "cut": answer(b"{}").replace(b"Content-Length: 2", b"Content-Length: 20"),
    "no length": b"HTTP/1.1 200 OK\r\n\r\n{",
    "negative chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n{}\r\n0\r\n\r\n",
    "large": answer(b"{}").replace(b"Content-Length: 2", b"Content-Length: 99999999999999"),
    "empty": answer(b""),
    "not JSON": answer(b'{"success": tru', kind="text/plain"),
    "HTML": answer(b"<!doctype html><p>Welcome", kind="text/html"),
    "redirect": answer(b"", "302 Found", "Location: /elsewhere"),
    "not UTF-8": answer(b'{"success":true,"data":"\xff\xfe"}'),
    "nested": answer(b'{"success":true,"data":' + b"[" * 100_000),
    "nested error": answer(b"[" * 100_000, "400 Bad Request"),
    "unknown status": answer(b"{}", "799 Odd"),
    "a number": answer(b"5"),
    "a list": answer(b"[]"),
    "an object": answer(b"{}"),
    "a problem with status 200": answer(PROBLEM),
    "a problem of wrong types": answer(PROBLEM, "422 No"),
    "an error of wrong types": answer(b'{"message":5,"data":{},"success":"no"}', "404 Not Found"),
    "odd headers": answer(b"{}", "412 \xff", f"Retry-After: {LONG}", f"Relaydeck-Revision: {LONG}", "ETag: \xe9"),
    "odd numbers": answer(
        b'{"success":true,"data":5}', "200 OK", f"Relaydeck-Revision: {LONG}", "Relaydeck-Stale: \xb2"
    ),
    "data of a number": envelope("5", PLACE),
    "data of a text": envelope('"text"', PLACE),
    "data of an empty object": envelope("{}", PLACE),
    "data of numbers": envelope("[1, 2]", PLACE),
    "data of empty objects": envelope("[{}]", PLACE),
    "data of an odd record": envelope(ODD, PLACE),
    "data of odd records": envelope(f"[{ODD}]", PLACE),
    "no pagination": envelope('[{"id":5}]'),
    "odd pagination": envelope("[]", ',"pagination":{"current_page":"x"}'),
}

READ_BY_COMMANDS = [each for each in RUBBISH if each.startswith("data of") or each.endswith("pagination")]


@contextmanager
def server(send: Callable[[socket.socket], None]) -> Iterator[str]:
    """Reads each request and lets `send` answer it."""
    listener = socket.create_server(("127.0.0.1", 0))

    def handle(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(65_536)
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
            rest = length - len(head.partition(b"\r\n\r\n")[2])
            while rest > 0:
                rest -= len(connection.recv(65_536))
            send(connection)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=handle, args=(listener.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def outcomes(commands: list[list[str]], home: Path, url: str) -> dict[str, object]:
    """Those commands that do not end with a message and exit code 1."""
    found: dict[str, object] = {}
    for arguments in commands:
        done = run_command(home, *arguments, stdin=DEMO, url=url, token="rdk_x")
        said = done.stderr if arguments[0] != "doctor" else done.stdout
        if done.returncode != 1 or "Traceback" in done.stderr or not said.strip():
            found[" ".join(arguments)] = (done.returncode, done.stdout[-300:], done.stderr[-600:])
    return found


COMMANDS = [[*name.split(), *arguments] for name, arguments in ARGUMENTS.items()] + FURTHER


def quarter(kind: str, further: int = 0) -> list[list[str]]:
    """A quarter of the commands: the next one for the next kind, so that each command is tried with some kinds."""
    return COMMANDS[(list(RUBBISH).index(kind) + further) % 4 :: 4]


def outcomes_of(kind: str, commands: list[list[str]], home: Path) -> dict[str, object]:
    with server(lambda connection: connection.sendall(RUBBISH[kind])) as url:
        return outcomes(commands, home, url)


@pytest.mark.parametrize("kind", RUBBISH)
def test_rubbish_is_a_message_and_exit_code_1(kind: str, tmp_path: Path) -> None:
    """The client refuses most kinds, for all commands alike; every command reads the others by itself."""
    commands = COMMANDS if kind in READ_BY_COMMANDS else quarter(kind)
    assert outcomes_of(kind, commands, tmp_path) == {}


@pytest.mark.prove
@pytest.mark.parallel
@pytest.mark.parametrize("kind", [each for each in RUBBISH if each not in (*READ_BY_COMMANDS, *RETRIED)])
def test_rubbish_is_a_message_for_the_other_commands_too(kind: str, tmp_path: Path) -> None:
    commands = [each for further in range(1, times(4, short=2)) for each in quarter(kind, further)]
    assert outcomes_of(kind, commands, tmp_path) == {}


def least(kind: Any) -> Any:
    """The shortest value of a type."""
    if get_origin(kind) in (Union, UnionType):
        return None if NoneType in get_args(kind) else least(get_args(kind)[0])
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return {each.name: least(each.type) for each in msgspec.structs.fields(kind) if each.required}
    if kind is datetime:
        return "2026-03-01T12:00:00Z"
    if kind in (str, int, bool):
        return kind()
    return "0" if kind is Decimal else {} if get_origin(kind) is dict else []


def test_the_least_that_is_described_ends_no_command_in_a_traceback(tmp_path: Path) -> None:
    """One record with every required field of every type: a command may fail, and says why."""
    kinds = [each for each in vars(records).values() if isinstance(each, type) and issubclass(each, Record)]
    record: Any = {}
    for each in kinds:
        record |= least(each)
    one, many = (envelope(msgspec.json.encode(each).decode(), PLACE) for each in (record, [record]))
    for body in (one, many):
        with server(lambda connection, body=body: connection.sendall(body)) as url:  # type: ignore[misc]
            found = outcomes(COMMANDS, tmp_path, url)
        assert [each for each in found.values() if "Traceback" in str(each)] == []


def send_without_end(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        connection.sendall(b"100000\r\n" + b" " * 0x100000 + b"\r\n")


def test_a_response_without_end_is_a_message_and_exit_code_1(tmp_path: Path) -> None:
    commands = [each for each in COMMANDS if each[0] not in PATIENT]
    with server(send_without_end) as url:
        assert outcomes(commands[::8], tmp_path, url) == {}
