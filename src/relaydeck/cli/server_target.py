"""A server as commands reach it, over its admin API. Every failure becomes words that an operator can act on."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_args

import msgspec

from relaydeck.api.operation import Operation
from relaydeck.api.operations import APPLY, EXPORT, RUN_DOCTOR, WHOAMI
from relaydeck.cli.output import progress_bar
from relaydeck.cli.reply import UNCHANGED, Json, Proposed, Refused, Reply
from relaydeck.client import Client, errors, records
from relaydeck.client.exchange import read_address
from relaydeck.doctor import Finding, Result
from relaydeck.errors import OperatorError
from relaydeck.identifiers import identifier_problem
from relaydeck.secret import Secret
from relaydeck.web_addresses import is_loopback

_TIMEOUT_SECONDS = 60.0  # of one attempt; a check of a key or of slow nodes takes its time
_PATIENT_SECONDS = 900.0
_PATIENT_BYTES = 1024 * 1024 * 1024  # an export of a large fleet
_OTHER_PORT = (
    "Name the port of the service: RELAYDECK_OPERATIONS_ADDRESS is for health and metrics only, and with --core a"
    " service has no admin API."
)
_UNCERTAIN = "The change may have been made: look before you repeat it."
_AT_ONCE = 4  # requests of one command
_MANY_RECORDS = 1000  # from which on a progress bar is useful
_NAMES = {"EventBody": "Event", "SignerCheckReport": "SignerCheck", "DeliveryWithAttempts": "Delivery"}


class ServerTarget:
    def __init__(self, url: str, token: Secret, timeout: float = _TIMEOUT_SECONDS, **options: Any) -> None:
        self.url = url
        self._token = token
        try:
            self._client = Client(url, token.reveal(), timeout=timeout, **options)
        except ValueError as error:
            raise OperatorError(str(error), "Check --server or RELAYDECK_URL, and the token.") from None

    def _patient(self) -> "ServerTarget":
        """The same server, for a request that takes minutes."""
        return ServerTarget(self.url, self._token, _PATIENT_SECONDS, max_response_bytes=_PATIENT_BYTES)

    def call(
        self,
        operation: Operation,
        identifier: str = "",
        *,
        document: Json | None = None,
        query: Mapping[str, str] | None = None,
        if_match: str | None = None,
        remedy: str = UNCHANGED,
    ) -> Reply:
        """Raises OperatorError; Refused when the server answered."""
        segments = [identifier if each == "{id}" else each for each in operation.path.split("/")]
        remedy = remedy if operation.is_change else ""
        if operation.has_identifier and (problem := identifier_problem(identifier)):
            raise OperatorError(f"the id {problem}", remedy)
        try:
            found = self._client.admin.request(
                operation.method, *segments, query=query, document=document, if_match=if_match
            )
            msgspec.convert(found.data, _kind(operation))
        except errors.ClientError as error:
            raise self._words(error, remedy) from None
        except msgspec.ValidationError as error:
            remedy = _UNCERTAIN if remedy else "Check that it is a Relaydeck service of this version."
            raise OperatorError(f"{self.url}: the response is not as described: {error}", remedy) from None
        page = found.pagination
        if page is None and operation.is_paged:
            raise OperatorError("the server's response has no pagination", "Check that it is a Relaydeck service.")
        reply = Reply(found.data, found.meta.logs, found.changed)
        return reply if page is None else reply._replace(total=page.total_items, per_page=page.per_page)

    def call_many(self, operation: Operation, identifiers: Sequence[str]) -> Iterator[Reply | Refused]:
        def call(identifier: str) -> Reply | Refused:
            try:
                return self.call(operation, identifier)
            except Refused as refusal:
                return refusal

        with ThreadPoolExecutor(_AT_ONCE) as threads:
            yield from threads.map(call, identifiers)

    def _words(self, error: errors.ClientError, remedy: str) -> OperatorError:
        if error.uncertain and remedy:
            remedy = _UNCERTAIN
        if isinstance(error, errors.ChangeProposed):
            return Proposed(error.problem)
        if isinstance(error, errors.Unauthorized) and self._token.reveal().startswith("p-"):
            words = f"{self.url}: your session has ended", "Sign in again with 'relaydeck login --sso'."
            return Refused(*words, error.status, error.problem)
        if isinstance(error, errors.ApiError):
            return Refused(*_refusal(error, self.url, remedy), error.status, error.problem)
        if isinstance(error, errors.ConnectFailed):
            return _unreachable(str(error))
        if isinstance(error, errors.ConnectionLost) and self.url.startswith("http:"):
            remedy = f"{remedy} If the server uses TLS, its URL starts with https://.".strip()
        return OperatorError(f"{self.url}: {error}", remedy)

    def plan(self, document: Json) -> Json:
        return self._send(document | {"plan_only": True}, "")

    def apply(self, document: Json, *, revision: str, reason: str) -> Json:
        return self._send(document, UNCHANGED, revision, reason)

    def export(self) -> Iterator[str]:
        yield self._patient().call(EXPORT).data["toml"]

    def _send(self, document: Json, remedy: str, revision: str = "", reason: str = "") -> Json:
        pinned, query = f'"{revision}"' if revision else None, {"reason": reason} if reason else None
        count = sum(len(each) for each in document["document"].values() if isinstance(each, dict | list))
        with progress_bar("the server applies the file", count, at_least=_MANY_RECORDS, elsewhere=True):
            found = self._patient().call(APPLY, document=document, query=query, if_match=pinned, remedy=remedy)
        applied: Json = found.data
        return applied

    def findings(self) -> Iterator[Finding]:
        """Whether it can be reached, and what its own doctor finds."""
        reached = self._reached()
        yield reached
        if is_unencrypted(self.url):
            text = "http:// sends the token unencrypted; use https:// outside this machine"
            yield Finding("warn", "encryption", text)
        if reached.result == "FAIL":
            return
        try:
            found = self._patient().call(RUN_DOCTOR).data
        except OperatorError as error:
            yield Finding("FAIL", "server", _one_line(error))
            return
        for each in found:
            result: Result = each["result"] if each["result"] in get_args(Result) else "FAIL"
            yield Finding(result, each["subject"], each["remark"])

    def _reached(self) -> Finding:
        try:
            self.call(WHOAMI)
        except OperatorError as error:
            return Finding("FAIL", "server", _one_line(error))
        return Finding("ok", "server", f"{self.url} answers and accepts the token")


def _kind(operation: Operation) -> Any:
    """The type of the data, so that commands need not doubt what they print."""
    if operation.response is None:
        return None
    name = operation.response.__name__
    kind: Any = getattr(records, _NAMES.get(name, name))
    return list[kind] if operation.is_list else kind


def _one_line(error: OperatorError) -> str:
    return ". ".join(filter(None, (error.problem, error.remedy)))


def is_unencrypted(url: str) -> bool:
    """Whether the token travels in clear text between machines."""
    address = read_address(url)
    return not address.secure and not is_loopback(address.host)


def _unreachable(problem: str) -> OperatorError:
    if "WRONG_VERSION_NUMBER" in problem:
        return OperatorError(
            f"{problem.partition(': [SSL')[0]}: this port does not use TLS", "Try the same URL with http:// instead."
        )
    if "certificate verify failed" not in problem:
        return OperatorError(problem, "Check --server or RELAYDECK_URL, and that the service is running.")
    server, _, reason = problem.partition(": [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: ")
    return OperatorError(
        f"{server}: its TLS certificate is not trusted: {reason.partition(' (_ssl')[0]}",
        "For a private certificate authority, set SSL_CERT_FILE to its certificate (PEM).",
    )


def _refusal(error: errors.ApiError, url: str, remedy: str) -> tuple[str, str]:
    if isinstance(error, errors.Unauthorized):
        return (
            f"{url} does not accept the token",
            "It is unknown, expired or revoked there.",
        )
    if isinstance(error, errors.Forbidden):
        reason = error.reason or error.message
        return f"{url}: {reason}", "'relaydeck whoami' shows your role and scope." if "credential" in reason else remedy
    if isinstance(error, errors.NotFound) and url.rstrip("/").endswith("/api/v1"):
        return f"{url} is the address of the interface, not of the service", "Leave out /api/v1."
    if isinstance(error, errors.NotFound) and not error.problem and error.reason:  # which only Relaydeck states
        return f"{url} is a port of Relaydeck without the admin API", _OTHER_PORT
    if isinstance(error, errors.NotFound) and not error.problem:
        return f"{url} is not a Relaydeck service with an admin API", "Check --server or RELAYDECK_URL."
    if isinstance(error, errors.TooManyRequests):
        return f"{url} limits the rate of requests of this token", "Wait a moment."
    if isinstance(error, errors.ServerError):
        return f"{url} failed: {error}", remedy
    return error.reason or error.message, remedy
