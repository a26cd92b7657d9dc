"""Finds the operation of `/admin/v1` for a request.

A path has at most three segments: a collection, an identifier, a verb. Finding one is a look-up.
"""

from collections.abc import Awaitable, Callable

from relaydeck.credentials.kinds import Permission
from relaydeck.errors import Forbidden, UnknownPath, WrongMethod
from relaydeck.http.pipeline import Call, Reply, Route, with_head

Answer = Callable[[Call], Awaitable[Reply]]
Methods = dict[str, Answer]

ROOT = "/admin/v1"


class AdminRouter:
    def __init__(
        self, guarded: dict[str, Methods], open_to_all: dict[str, Methods], max_bodies: dict[str, int] | None = None
    ) -> None:
        """Paths below `/admin/v1`, with `{id}` for an identifier. `open_to_all` needs no credential.

        `max_bodies`: the paths that accept a body of another size than the rest.
        """
        sizes = max_bodies or {}
        self._routes = {path: _routes(methods, "manage", sizes.get(path, 0)) for path, methods in guarded.items()}
        self._routes |= {path: _routes(methods, None) for path, methods in open_to_all.items()}

    def find(self, method: str, _path: str, raw_path: bytes) -> tuple[Route, str]:
        """The operation and the identifier in its path. Raises UnknownPath or WrongMethod."""
        template, identifier = self._template(raw_path)
        methods = self._routes.get(template)
        if methods is None:
            raise UnknownPath("nothing is served at this path")
        if method not in methods:
            raise WrongMethod(", ".join(methods))
        return methods[method], identifier

    def _template(self, raw_path: bytes) -> tuple[str, str]:
        below = raw_path.decode("latin-1").removeprefix(f"{ROOT}/")
        if below in self._routes:
            return ("", "") if "{id}" in below else (below, "")
        match below.split("/"):
            case [resource, identifier, *verb] if identifier:
                return "/".join([resource, "{id}", *verb]), identifier
        return "", ""


def _routes(methods: Methods, permission: Permission | None, max_body: int = 0) -> dict[str, Route]:
    found = {
        method: Route("admin", permission, answer=answer, denied=Forbidden, max_body=max_body)
        for method, answer in methods.items()
    }
    return with_head(found)
