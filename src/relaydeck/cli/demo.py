"""`relaydeck demo`: the whole story on one machine, in a temporary folder. Everything it starts, it stops."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Annotated, Any, Literal, NamedTuple, NoReturn

import click

from relaydeck.cli.examples import example_text
from relaydeck.cli.options import as_json
from relaydeck.cli.output import Shape, about, print_line, print_lines, print_note, show
from relaydeck.client import Client, ClientError, Event, WebhookError, verify_webhook
from relaydeck.client.blocking_transport import send_once
from relaydeck.client.calls import Request, Response
from relaydeck.credentials.tokens import new_token
from relaydeck.errors import OperatorError
from relaydeck.settings.model import PREFIX

HOST = "127.0.0.1"
_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.02
_ANSWER_BYTES = 1_000_000
_GWEI = 10**9
_TRANSFER_GAS = 21_000
_GAS_OF_A_ZERO_BYTE, _GAS_OF_A_BYTE = 4, 16  # EIP-2028
_FIXED: dict[str, Any] = {
    "eth_chainId": hex(31337),
    "eth_blockNumber": hex(1),
    "eth_gasPrice": hex(2 * _GWEI),
    "eth_maxPriorityFeePerGas": hex(_GWEI),
    "eth_blobBaseFee": hex(1),
    "eth_getTransactionCount": hex(0),
    "eth_getBalance": hex(10_000 * 10**18),
    "eth_feeHistory": {
        "oldestBlock": hex(1),
        "baseFeePerGas": [hex(_GWEI), hex(_GWEI)],
        "gasUsedRatio": [0.5],
        "reward": [[hex(_GWEI)]],
    },
}
_SCRIPT = "hardhat/internal/cli/bootstrap.js"
_CHAIN_ID = '{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}'
_CONFIG = "module.exports = { networks: { hardhat: {} } };\n"
_NODE, _RECEIVER = "http://127.0.0.1:8545", "http://127.0.0.1:9000"  # in the example
_RELAYER, _NETWORK, _COIN = "local-1", "local", "ETH"
# A transfer of 0.001 ETH on chain 31337 by EIP-1559, unsigned.
_TRANSFER = "0x02f0827a6980843b9aca0084773594008252089470997970c51812dc3a010c7d01b50e0d17dc79c887038d7ea4c6800080c0"
_NEXT = """
Next:

  relaydeck init                   write a commented apply file: your networks, signers, notifications, relayers
  relaydeck serve                  start a service that keeps its data; it prints your first access token
  relaydeck apply relaydeck.toml   create what the file describes (--plan: only show it)
  relaydeck demo --keep            leave all of this running, to look around
"""
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_RELAYDECK = [sys.executable, "-m", "relaydeck"]
_WAIT_SECONDS = 30.0


@contextmanager
def child(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """A session of its own, so that Ctrl-C reaches the demo, which stops its children in order."""
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 (our own command)
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process
    finally:
        _stop(process)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_until(answers: Callable[[], bool], process: "subprocess.Popen[bytes]", name: str, log: Path) -> None:
    """Raises OperatorError with the last lines of the log when the process ends or does not answer."""
    deadline = time.monotonic() + _START_SECONDS
    while not answers():
        if process.poll() is not None or time.monotonic() > deadline:
            problem = "ended" if process.poll() is not None else f"does not answer after {_START_SECONDS:g} s"
            tail = "\n".join(log.read_text("utf-8", "replace").splitlines()[-10:])
            raise OperatorError(f"{name} {problem}. Its last output:\n{tail}")
        time.sleep(_POLL_SECONDS)


class Handler(BaseHTTPRequestHandler):
    """Answers POST requests. A subclass implements `respond`."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, answer = self.respond(body)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def respond(self, body: bytes) -> tuple[int, bytes]:
        raise NotImplementedError

    def log_message(self, *_: object) -> None:
        """The output of the demo is its own."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A connection that its client breaks is no error of the demo."""


@contextmanager
def serving(handler: type[Handler]) -> Iterator[str]:
    with _Server((HOST, 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://{HOST}:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        port: int = server.getsockname()[1]
        return port


def answers(port: int, method: str, path: str, body: str = "") -> bool:
    request = Request(method, path, {"Content-Type": "application/json"}, body.encode())
    answer = send_once(f"http://{HOST}:{port}", request, 5.0, _ANSWER_BYTES)
    return isinstance(answer, Response) and answer.status == 200


class MinimalNode(Handler):
    def respond(self, body: bytes) -> tuple[int, bytes]:
        try:
            asked = json.loads(body)
        except ValueError:
            return 400, b"{}"
        found = [_answer(each) for each in asked] if isinstance(asked, list) else _answer(asked)
        return 200, json.dumps(found).encode()


def _answer(asked: Any) -> dict[str, Any]:
    method, params = asked.get("method"), asked.get("params") or [{}]
    answer = {"jsonrpc": "2.0", "id": asked.get("id")}
    if method == "eth_estimateGas":
        return answer | {"result": hex(_gas(params[0]))}
    if method in _FIXED:
        return answer | {"result": _FIXED[method]}
    return answer | {"error": {"code": -32601, "message": "the minimal node of the demo has no such method"}}


def _gas(transaction: dict[str, str]) -> int:
    """What any transaction costs before it runs code; this node has no code to run."""
    data = bytes.fromhex((transaction.get("data") or transaction.get("input") or "0x").removeprefix("0x"))
    zeros = data.count(0)
    return _TRANSFER_GAS + zeros * _GAS_OF_A_ZERO_BYTE + (len(data) - zeros) * _GAS_OF_A_BYTE


class DemoNode(Shape, frozen=True):
    kind: Annotated[Literal["hardhat", "minimal"], about("A Hardhat node, or the minimal one of Relaydeck.")]
    url: Annotated[str, about("Its address.")]
    description: Annotated[str, about("What it is, in words.")]


@contextmanager
def development_node(folder: Path) -> Iterator[DemoNode]:
    program = shutil.which("node")
    script = _hardhat_script(program) if program else ""
    if program and script:
        with _hardhat([program, script], folder) as url:
            yield DemoNode("hardhat", url, "a Hardhat development node")
        return
    missing = "Hardhat 2 is not installed in this folder" if program else "Node.js is not installed"
    with serving(MinimalNode) as url:
        yield DemoNode(
            "minimal",
            url,
            f"a minimal node that comes with Relaydeck: it answers estimates with fixed prices and is no blockchain"
            f" ({missing})",
        )


def _hardhat_script(program: str) -> str:
    """The script of the Hardhat that a project in the current folder would use; nothing if there is none."""
    code = f"process.stdout.write(require.resolve('{_SCRIPT}', {{paths: [process.cwd()]}}))"
    found = subprocess.run([program, "-e", code], capture_output=True, text=True, check=False)  # noqa: S603
    return found.stdout if found.returncode == 0 else ""


@contextmanager
def _hardhat(command: list[str], folder: Path) -> Iterator[str]:
    """A fresh chain, whatever the project in the current folder configures."""
    config, log, port = folder / "hardhat.config.js", folder / "node.log", free_port()
    config.write_text(_CONFIG, "utf-8")
    options = ["--config", str(config), "node", "--hostname", HOST, "--port", str(port)]
    environment = os.environ | {"HARDHAT_DISABLE_TELEMETRY_PROMPT": "true"}
    with child([*command, *options], log, environment) as process:
        wait_until(lambda: answers(port, "POST", "/", _CHAIN_ID), process, "the development node", log)
        yield f"http://{HOST}:{port}"


class DemoFee(Shape, frozen=True):
    amount: Annotated[Decimal, about("The estimated fee, as a string.")]
    token: Annotated[str, about("What it is paid in.")]


class DemoWebhook(Shape, frozen=True):
    id: Annotated[str, about("The event's identifier.")]
    type: Annotated[str, about("The event's type.")]
    verified: Annotated[Literal[True], about("The receiver verified its signature.")]


class Demo(Shape, frozen=True):
    service: Annotated[str, about("The address of the service.")]
    node: Annotated[DemoNode, about("The node.")]
    receiver: Annotated[str, about("The address of the webhook receiver.")]
    applied: Annotated[str, about("What `relaydeck apply` created.")]
    fee: Annotated[DemoFee, about("A fee estimate.")]
    webhook: Annotated[DemoWebhook, about("A delivered webhook.")]


class Receiver(NamedTuple):
    url: str
    received: "SimpleQueue[Event | str]"

    def next_event(self) -> Event:
        try:
            found = self.received.get(timeout=_WAIT_SECONDS)
        except Empty:
            raise OperatorError(f"no webhook arrived at {self.url} within {_WAIT_SECONDS:g} s") from None
        if isinstance(found, str):
            raise OperatorError(f"a webhook failed verification: {found}")
        return found


class DemoService(NamedTuple):
    process: "subprocess.Popen[bytes]"
    url: str
    home: Path
    token_file: Path
    environment: dict[str, str]

    def command(self, *arguments: str, content: str = "") -> str:
        """Run `relaydeck …` on the home of the demo; the output of a success."""
        ended = subprocess.run(  # noqa: S603 (our own command)
            [*_RELAYDECK, *arguments], env=self.environment, input=content, capture_output=True, text=True, check=False
        )
        if ended.returncode:
            raise OperatorError(f"relaydeck {' '.join(arguments)}: {ended.stderr.strip()}")
        return ended.stdout.strip()

    def how_to_reach(self) -> Iterator[str]:
        yield "In another terminal:"
        yield ""
        yield f"  export RELAYDECK_HOME={self.home}"
        yield "  relaydeck relayer list"
        yield f'  curl -s {self.url}/api/v1/relayers -H "Authorization: Bearer $(cat {self.token_file})"'
        yield f"  {self.url}/docs describes the interface."
        yield ""


@click.command(epilog="\b\nExamples:\n  relaydeck demo\n  relaydeck demo --keep")
@click.option("--keep", is_flag=True, help="Leave everything running until Ctrl-C.")
@as_json(Demo)
def demo(keep: bool, as_json: bool) -> None:
    """Try Relaydeck on this machine: serve, apply an example, estimate a fee, deliver a verified webhook.

    Starts a service in a temporary folder, a node and a webhook receiver, each on a free port of 127.0.0.1, and stops
    all of them at the end. The node is Hardhat if Node.js and Hardhat 2 are installed in the current folder; otherwise
    a minimal one that comes with Relaydeck, which answers estimates with fixed prices. Your settings and your data are
    neither read nor changed.
    """
    print_note("starting a node, a webhook receiver and a service …")
    with _stopped_by_signals(), ExitStack() as running:
        folder = Path(running.enter_context(TemporaryDirectory(prefix="relaydeck-demo-")))
        node = running.enter_context(development_node(folder))
        received = running.enter_context(running_receiver())
        service = running.enter_context(demo_service(folder))
        report = tell(service, node, received)
        show(report, as_json, print_steps)
        if keep:
            _wait(service, as_json)


def _wait(service: DemoService, as_json: bool) -> None:
    """Until a signal, or the end of the service."""
    if not as_json:
        print_lines(service.how_to_reach())
    print_note("Everything keeps running. Press Ctrl-C to stop it and to remove its folder.")
    try:
        service.process.wait()
    except KeyboardInterrupt:
        print_note("\nstopped; the folder is removed")


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Every signal that ends the command runs what stops the rest."""
    before = {each: signal.signal(each, _interrupt) for each in _STOP_SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def tell(service: DemoService, node: DemoNode, receiver: Receiver) -> Demo:
    example = example_text("laptop").replace(_NODE, node.url).replace(_RECEIVER, receiver.url)
    applied = service.command("apply", "-", content=example)
    try:
        with Client(service.url, service.token_file.read_text("ascii")) as client:
            fee = client.fee_estimate(_RELAYER, transaction=_TRANSFER, network=_NETWORK, fee_token=_COIN)
            webhook = _webhook(client, receiver)
    except ClientError as error:
        raise OperatorError(f"the service refused a step of the demo: {error}") from None
    return Demo(service.url, node, receiver.url, applied, DemoFee(fee.estimated_fee, _COIN), webhook)


def _webhook(client: Client, receiver: Receiver) -> DemoWebhook:
    """A pause is an event, which the service sends to the notification of the relayer."""
    client.admin.pause_relayer(_RELAYER)
    event = receiver.next_event()
    client.admin.resume_relayer(_RELAYER)
    return DemoWebhook(event.id, event.type, verified=True)


def print_steps(report: Demo) -> None:
    steps = {
        "service": report.service,
        "node": f"{report.node.url}, {report.node.description}",
        "receiver": f"{report.receiver}, which verifies signatures with relaydeck.client.verify_webhook",
        "apply": report.applied,
        "fee": f"{report.fee.amount:f} {report.fee.token} for a transfer through relayer local-1",
        "webhook": f"{report.webhook.type} {report.webhook.id}, signature verified by the receiver",
    }
    for name, text in steps.items():
        print_line(f"{name:<10}{text}")
    print_lines(_NEXT.splitlines())


@contextmanager
def running_receiver() -> Iterator[Receiver]:
    (notification,) = tomllib.loads(example_text("laptop"))["notifications"]
    received: SimpleQueue[Event | str] = SimpleQueue()

    class Receiving(Handler):
        def respond(self, body: bytes) -> tuple[int, bytes]:
            try:
                received.put(verify_webhook(dict(self.headers.items()), body, notification["signing_key"]))
            except WebhookError as error:
                received.put(str(error))
                return 401, b""
            return 200, b""

    with serving(Receiving) as url:
        yield Receiver(url, received)


@contextmanager
def demo_service(folder: Path) -> Iterator[DemoService]:
    home, port, log = folder / "home", free_port(), folder / "service.log"
    token_file = folder / "token"
    token_file.touch(0o600)
    token_file.write_text(new_token().reveal(), "ascii")
    environment = _environment(home, token_file)
    with child([*_RELAYDECK, "serve", "--host", HOST, "--port", str(port)], log, environment) as process:
        wait_until(lambda: answers(port, "GET", "/healthz"), process, "the service", log)
        yield DemoService(process, f"http://{HOST}:{port}", home, token_file, environment)


def _environment(home: Path, token_file: Path) -> dict[str, str]:
    """Settings of the surrounding environment belong to another service."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    return kept | {
        "RELAYDECK_HOME": str(home),
        "RELAYDECK_BOOTSTRAP_TOKEN_FILE": str(token_file),
        "RELAYDECK_BOOTSTRAP_TOKEN_KIND": "admin",
        "RELAYDECK_WEBHOOK_ALLOW": "127.0.0.1/32",
    }
