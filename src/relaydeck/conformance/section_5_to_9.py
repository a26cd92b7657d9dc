"""Sections 5, 7, 8 and 9: credentials, errors, limits, versioning."""

import secrets
from functools import partial
from typing import Any

from relaydeck.conformance import shapes
from relaydeck.conformance.checks import add, contract
from relaydeck.conformance.probe import Probe
from relaydeck.conformance.samples import (
    RELAYERS,
    SIGNERS,
    config,
    notification_path,
    rpc_call,
    rpc_path,
    some_relayer,
)
from relaydeck.conformance.shapes import TOO_MANY_REQUESTS, UNAUTHORIZED, Answer, DidNotOccur, Differs, NotChecked


def _send(probe: Probe, operation: str, token: str) -> Answer:
    """One request of each operation, with another credential than the caller's."""
    nobody: str = probe.target.notification or f"{probe.name}-nobody"
    sent: dict[str, tuple[Any, ...]] = {
        "create-signer": ("POST", SIGNERS, {"type": "plain", "config": config("plain")[0]}),
        "list-signers": ("GET", SIGNERS),
        "update-notification": ("PATCH", notification_path(nobody), {}),
        "list-relayers": ("GET", RELAYERS),
        "rpc": ("POST", rpc_path(_any_relayer(probe)), rpc_call()),
    }
    send = probe.write if operation in ("create-signer", "update-notification") else probe.ask
    return send(*sent[operation], token=token)


def _any_relayer(probe: Probe) -> str:
    """Without a credential an unknown relayer has to be refused, too."""
    try:
        return str(some_relayer(probe)["id"])
    except (NotChecked, Differs):
        return f"{probe.name}-nobody"


def _without_credential(probe: Probe, operation: str) -> None:
    shapes.require_message(_send(probe, operation, ""), UNAUTHORIZED)


def _wrong_credential(probe: Probe, operation: str) -> None:
    shapes.require_message(_send(probe, operation, f"{secrets.token_hex(32)}-wrong"), UNAUTHORIZED)


for each in ("create-signer", "list-signers", "update-notification", "list-relayers", "rpc"):
    run = partial(_without_credential, operation=each)
    add("5", "contract", f"{each}-no-token", "no credential: Unauthorized", run, "5-unauthorized")
    run = partial(_wrong_credential, operation=each)
    add("5", "contract", f"{each}-wrong-token", "an invalid token: Unauthorized", run, "5-unauthorized")


@contract("7", "an error has data null, message and success false", "2.1-failure", "1-envelope")
def check_error_body(probe: Probe) -> None:
    shapes.require_error(probe.ask("GET", SIGNERS, token=""))


@contract("7", "a message is one of the seven", "7-messages", looks_back=True)
def check_messages(probe: Probe) -> str:
    """Of the answers to contract checks: the others ask for what the contract leaves open."""
    known = {"Bad Request", UNAUTHORIZED, TOO_MANY_REQUESTS, "Internal Server Error"}
    known |= {"Signer with this ID already exists", "Notification not found"}
    errors = [answer for answer in probe.answers if answer.error and answer.basis == "contract"]
    for answer in errors:
        is_relayer = answer.error.startswith("Relayer with ID ") and answer.error.endswith(" not found")
        if answer.error not in known and not is_relayer:
            raise Differs("one of the seven messages", answer.shown)
    return f"{len(errors)} error responses"


@contract("7", "every request was answered, and none made the server fail", "1-envelope", looks_back=True)
def check_no_server_error(probe: Probe) -> str:
    failed = [each for each in probe.answers if each.error == "Internal Server Error" or _is_broken(each)]
    if failed:
        raise Differs("no Internal Server Error", f"{len(failed)} responses, the first: {failed[0].shown}")
    if probe.unanswered:
        raise Differs("a response to every request", f"{probe.unanswered} of {probe.requests} without one")
    return f"{len(probe.answers)} responses"


def _is_broken(answer: Answer) -> bool:
    """Status codes are open, but a server error without any JSON is no answer of the interface."""
    return answer.status >= 500 and not isinstance(answer.json, dict)


@contract("8", 'over the limit: "Too Many Requests"', "8-limited", looks_back=True)
def check_too_many_requests(probe: Probe) -> str:
    limited = [answer for answer in probe.answers if answer.is_limited]
    if not limited:
        raise DidNotOccur("no request met the limit; the checks do not try to")
    for answer in limited:
        shapes.require_message(answer, TOO_MANY_REQUESTS)
    return f"{len(limited)} responses"


@contract("9", "the paths carry /api/v1", "9-prefix")
def check_prefix(probe: Probe) -> None:
    shapes.many(probe.signers, "GET /api/v1/signers")
