"""Sections 5, 7, 8 and 9: credentials, errors, limits, versioning."""

from functools import partial
from typing import Any

from relaydeck.conformance import shapes
from relaydeck.conformance.checks import add, contract
from relaydeck.conformance.probe import Answer, Probe
from relaydeck.conformance.samples import (
    RELAYERS,
    SIGNERS,
    config,
    notification_path,
    rpc_call,
    rpc_path,
    unknown_method,
)
from relaydeck.conformance.verdicts import Differs, NotChecked

UNAUTHORIZED = "Unauthorized"
_OPERATIONS = ("create-signer", "list-signers", "update-notification", "list-relayers", "rpc")


def _send(probe: Probe, operation: str, **more: Any) -> Answer:
    """One request of each operation, with another credential than the caller's."""
    match operation:
        case "create-signer":
            return probe.write("POST", SIGNERS, {"type": "plain", "config": config("plain")[0]}, **more)
        case "update-notification":
            return probe.write("PATCH", notification_path(probe.notification), {}, **more)
        case "rpc":
            return probe.ask("POST", rpc_path(probe.relayer["id"]), rpc_call(), **more)
    return probe.ask("GET", SIGNERS if operation == "list-signers" else RELAYERS, **more)


def _without_credential(probe: Probe, operation: str) -> None:
    shapes.require_message(_send(probe, operation, token=""), UNAUTHORIZED)


def _wrong_credential(probe: Probe, operation: str) -> None:
    shapes.require_message(_send(probe, operation, token=f"{probe.target.token}x"), UNAUTHORIZED)


for each in _OPERATIONS:
    add(
        "5", "contract", f"{each}-no-token", "no credential: Unauthorized", partial(_without_credential, operation=each)
    )
    add(
        "5",
        "contract",
        f"{each}-wrong-token",
        "a wrong token: Unauthorized",
        partial(_wrong_credential, operation=each),
    )


@contract("5", "a credential that is not of the form Bearer <token> is Unauthorized")
def check_other_scheme(probe: Probe) -> None:
    headers = {"Authorization": f"Basic {probe.target.token}"}
    shapes.require_message(probe.ask("GET", SIGNERS, token="", headers=headers), UNAUTHORIZED)


@contract("7", "an error has exactly data null, message and success false")
def check_error_body(probe: Probe) -> None:
    answer = probe.ask("GET", SIGNERS, token="")
    body = answer.json
    expected = {"data": None, "success": False}
    if not isinstance(body, dict) or not isinstance(body.get("message"), str):
        raise Differs("a message", answer.shown)
    shapes.equal({name: value for name, value in body.items() if name != "message"}, expected, "beside message")


@contract("7", "every response is JSON")
def check_json_content_type(probe: Probe) -> None:
    for answer in (probe.signers, probe.relayers, unknown_method(probe), probe.ask("GET", SIGNERS, token="")):
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" and not kind.endswith("+json"):
            raise Differs("a JSON content type", kind or "none")


@contract("7", "a message is one of the seven")
def check_messages(probe: Probe) -> str:
    """Of the error answers to the five operations that the checks before this one received."""
    known = {
        "Bad Request",
        UNAUTHORIZED,
        "Signer with this ID already exists",
        "Notification not found",
        "Too Many Requests",
        "Internal Server Error",
    }
    errors = [
        answer for answer in probe.answers if isinstance(answer.json, dict) and answer.json.get("success") is False
    ]
    for answer in errors:
        message = str(answer.json.get("message"))
        if message not in known and not (message.startswith("Relayer with ID ") and message.endswith(" not found")):
            raise Differs("one of the seven messages", answer.shown)
    return f"{len(errors)} error responses"


@contract("7", "no request made the server fail")
def check_no_server_error(probe: Probe) -> str:
    failed = [answer for answer in probe.answers if answer.status >= 500]
    if failed:
        raise Differs("no Internal Server Error", f"{len(failed)} responses, the first: {failed[0].shown}")
    return f"{len(probe.answers)} responses"


@contract("8", 'over the limit the answer is "Too Many Requests"')
def check_too_many_requests(probe: Probe) -> str:
    limited = [answer for answer in probe.answers if answer.status == 429]
    if not limited:
        raise NotChecked("no request met the limit; the checks do not try to")
    for answer in limited:
        shapes.require_message(answer, "Too Many Requests")
    return f"{len(limited)} responses"


@contract("9", "the paths carry /api/v1")
def check_prefix(probe: Probe) -> None:
    shapes.many(probe.signers, "GET /api/v1/signers")
    answer = probe.ask("GET", f"/{probe.name}/signers")
    if isinstance(answer.json, dict) and answer.json.get("success") is True:
        raise Differs("no list outside /api/v1", answer.shown)
