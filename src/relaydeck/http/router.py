"""Finds the route of a request by its method and path."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

from relaydeck.errors import UnknownPath, WrongMethod
from relaydeck.http.pipeline import Find, Route, with_head

T = TypeVar("T")
Routes = dict[str, dict[str, Route]]  # by path and method; `{…}` as the fourth segment of a path is an identifier
_DOUBLED = re.compile(rb"^(/[a-z]+/v1)\1(?=/)")  # a client whose URL ends in what it adds
_IDENTIFIER = 4  # its place when a path is split, as in `/api/v1/notifications/pager`


# sentence: 9-prefix
class Router:
    """An exact path is one look-up; only a path that contains an identifier is split.

    Paths are compared as sent: only an identifier in a path may be percent-encoded.
    """

    def __init__(self, routes: Routes, below: Mapping[bytes, Find] = MappingProxyType({})) -> None:
        """`below`: finds the routes under a first segment."""
        self._below = below
        self.exact: dict[bytes, dict[str, tuple[Route, str]]] = {}
        self._templates: dict[tuple[bytes, ...], dict[str, Route]] = {}
        for path, methods in routes.items():
            if "{" in path:
                self._templates[_around(path.encode().split(b"/"))] = with_head(methods)
            else:
                self.exact[path.encode()] = {name: (route, "") for name, route in with_head(methods).items()}

    def find(self, method: str, path: str, raw_path: bytes) -> tuple[Route, str]:
        """The route and the identifier in its path. Raises UnknownPath or WrongMethod."""
        segments = raw_path.split(b"/")
        if len(segments) > 1 and segments[1] in self._below:
            return self._below[segments[1]](method, path, raw_path)
        if (exact := self.exact.get(raw_path)) is not None:
            return _of_method(exact, method)
        methods, identifier = self._with_identifier(segments)
        if methods is None:
            raise UnknownPath("nothing is served at this path" + self._near(raw_path))
        return _of_method(methods, method), identifier

    def _near(self, raw_path: bytes) -> str:
        """The mistake in a path that differs little from one that is served."""
        mistakes = {
            raw_path.rstrip(b"/"): ": leave out the slash at its end",
            _DOUBLED.sub(rb"\1", raw_path): ": its prefix occurs twice",
        }
        found = {path: text for path, text in mistakes.items() if path != raw_path}
        return next((text for path, text in found.items() if self._serves(path)), "")

    def _serves(self, raw_path: bytes) -> bool:
        return raw_path in self.exact or self._with_identifier(raw_path.split(b"/"))[0] is not None

    def _with_identifier(self, segments: list[bytes]) -> tuple[dict[str, Route] | None, str]:
        if len(segments) <= _IDENTIFIER or not segments[_IDENTIFIER]:
            return None, ""
        return self._templates.get(_around(segments)), segments[_IDENTIFIER].decode("latin-1")


def _of_method(methods: Mapping[str, T], method: str) -> T:
    if method not in methods:
        raise WrongMethod(", ".join(methods))
    return methods[method]


def _around(segments: list[bytes]) -> tuple[bytes, ...]:
    """The segments of a path without its identifier, in whose place none is empty."""
    return (*segments[:_IDENTIFIER], b"", *segments[_IDENTIFIER + 1 :])
