"""Finds the route of a request: the five operations, and the paths beside them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from relaydeck.errors import UnknownPath, WrongMethod
from relaydeck.http.pipeline import Find, Route, with_head

SIGNERS = "/api/v1/signers"
RELAYERS = "/api/v1/relayers"
NOTIFICATIONS = "/api/v1/notifications"


Routes = dict[str, dict[str, Route]]  # by path and method


class ContractRoutes(NamedTuple):
    create_signer: Route
    list_signers: Route
    update_notification: Route
    list_relayers: Route
    relayer_rpc: Route


# sentence: 9-prefix
class Router:
    """An exact path is one look-up; only a path that contains an identifier is split.

    Paths are compared as sent: only an identifier in a path may be percent-encoded.
    """

    def __init__(
        self,
        others: Routes,
        contract: ContractRoutes | None = None,
        below: Mapping[bytes, Find] = MappingProxyType({}),
    ) -> None:
        """`below`: finds the routes under a first segment other than `api`."""
        self._below = below
        self._methods = dict(others)
        self._by_identifier: dict[bytes, dict[str, Route]] = {}
        if contract is not None:
            self._methods[SIGNERS] = {"GET": contract.list_signers, "POST": contract.create_signer}
            self._methods[RELAYERS] = {"GET": contract.list_relayers}
            self._by_identifier[b"notifications"] = {"PATCH": contract.update_notification}
            self._by_identifier[b"relayers"] = {"POST": contract.relayer_rpc}
        self.exact = {
            path.encode(): {method: (route, "") for method, route in with_head(methods).items()}
            for path, methods in self._methods.items()
        }

    def find(self, method: str, path: str, raw_path: bytes) -> tuple[Route, str]:
        """The route of a path that is not in `exact`, and the identifier in it. Raises UnknownPath or WrongMethod."""
        if raw_path in self.exact:
            raise WrongMethod(", ".join(self.exact[raw_path]))
        match raw_path.split(b"/"):
            case [b"", first, *_] if first in self._below:
                return self._below[first](method, path, raw_path)
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
