"""Finds the page of a request."""

from relaydeck.console.pages import PAGES
from relaydeck.console.services import Page, Pages, PageServices, Sources, page_services
from relaydeck.console.visit import Visit, Visits
from relaydeck.console.visitor import Visitor
from relaydeck.errors import RequestError, UnknownPath, WrongMethod
from relaydeck.http.pipeline import Call, Reply


def every_page(services: PageServices) -> Pages:
    """All pages by path. Several modules may serve methods of one path."""
    found: Pages = {}
    for pages in PAGES:
        for path, methods in pages(services).items():
            assert not found.get(path, {}).keys() & methods.keys(), f"two pages at {path}"
            found[path] = found.get(path, {}) | methods
    return found


class Router:
    def __init__(self, sources: Sources) -> None:
        self._services = page_services(sources)
        self._pages = every_page(self._services)
        self._visits = Visits(sources.find_admin, sources.read, sources.revision)

    def open(self, visitor: Visitor, call: Call, method: str, path: str) -> tuple[Page, Visit]:
        """The page, and the visit to show it. Raises UnknownPath, WrongMethod."""
        page, identifier = self._find(method, path)
        return page, self._visits.begin(visitor, call, path, identifier)

    def refuse(self, visitor: Visitor, call: Call, method: str, path: str, error: RequestError) -> Reply:
        visit = self._visits.begin_without_query(visitor, call, path)
        return visit.refusal(error, is_change=method != "GET")

    def close(self) -> None:
        self._services.verification.close()

    def _find(self, method: str, path: str) -> tuple[Page, str]:
        """The page and the identifier in its path. Raises UnknownPath, WrongMethod."""
        template, identifier = self._template(path)
        methods = self._pages.get(template)
        if methods is None:
            raise UnknownPath("there is no such page")
        if method not in methods:
            raise WrongMethod(", ".join(methods))
        return methods[method], identifier

    def _template(self, path: str) -> tuple[str, str]:
        if path in self._pages:
            return path, ""
        match path.split("/"):
            case ["", resource, identifier, *verb] if identifier:
                return "/".join(["", resource, "{id}", *verb]), identifier
        return path, ""
