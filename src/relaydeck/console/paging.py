"""Pages of a list, with links to the one before and after that keep the filters."""

from typing import NamedTuple
from urllib.parse import urlencode

PER_PAGE = 50


class Pager(NamedTuple):
    number: int
    total: int
    query: dict[str, str]
    per_page: int = PER_PAGE

    @property
    def last(self) -> int:
        return max(1, -(-self.total // self.per_page))

    @property
    def first_item(self) -> int:
        return min(self.total, (self.number - 1) * self.per_page + 1)

    @property
    def last_item(self) -> int:
        return min(self.total, self.number * self.per_page)

    def link(self, number: int) -> str:
        return "?" + urlencode(self.query | {"page": str(number)})


def page_number(query: dict[str, str]) -> int:
    """The page that a query names. The first for anything that is not a page number."""
    given = query.get("page", "1")
    return max(1, int(given)) if given.isascii() and given.isdigit() and len(given) < 16 else 1


def kept(query: dict[str, str], *names: str) -> dict[str, str]:
    """The parameters with these names that have a value."""
    return {name: query[name] for name in names if query.get(name)}
