"""Which of the five operations a request asks for."""

from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from relaydeck.errors import BadRequest, UnknownPath, WrongMethod
from relaydeck.http.front import Route
from relaydeck.identifiers import identifier_problem

SIGNERS = "/api/v1/signers"
RELAYERS = "/api/v1/relayers"
NOTIFICATIONS = "/api/v1/notifications"
ANY_KIND = frozenset({"api", "readonly", "admin"})
WRITING_KINDS = frozenset({"api", "admin"})


class ContractRoutes(NamedTuple):
    create_signer: Route
    list_signers: Route
    update_notification: Route
    list_relayers: Route
    relayer_rpc: Route


class Router:
    """Exact paths are one look-up, by method and path; only paths with an identifier in them are taken apart."""

    def __init__(self, others: dict[str, dict[str, Route]], contract: ContractRoutes | None = None) -> None:
        self._methods = dict(others)
        self._by_identifier: dict[bytes, dict[str, Route]] = {}
        if contract is not None:
            self._methods[SIGNERS] = {"GET": contract.list_signers, "POST": contract.create_signer}
            self._methods[RELAYERS] = {"GET": contract.list_relayers}
            self._by_identifier[b"notifications"] = {"PATCH": contract.update_notification}
            self._by_identifier[b"relayers"] = {"POST": contract.relayer_rpc}
        self.exact = {
            method + path: (route, "") for path, methods in self._methods.items() for method, route in methods.items()
        }

    def find(self, method: str, path: str, raw_path: bytes) -> tuple[Route, str]:
        """What is not in `exact`: the operation and the identifier in its path. Raises UnknownPath or WrongMethod."""
        if path in self._methods:
            raise WrongMethod(", ".join(self._methods[path]))
        match raw_path.split(b"/"):
            case [b"", b"api", b"v1", b"notifications" as kind, identifier] if identifier:
                methods = self._by_identifier.get(kind)
            case [b"", b"api", b"v1", b"relayers" as kind, identifier, b"rpc"] if identifier:
                methods = self._by_identifier.get(kind)
            case _:
                methods = None
        if methods is None:
            raise UnknownPath("nothing is served at this path")
        if method not in methods:
            raise WrongMethod(", ".join(methods))
        return methods[method], identifier.decode("latin-1")


def path_identifier(encoded: str) -> str:
    """The identifier in a path segment: percent-decoded, UTF-8. Raises BadRequest."""
    try:
        identifier = unquote_to_bytes(encoded).decode()
    except UnicodeDecodeError:
        raise BadRequest("the identifier in the path is not UTF-8") from None
    if problem := identifier_problem(identifier):
        raise BadRequest(f"the identifier in the path {problem}")
    return identifier
