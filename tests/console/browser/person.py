"""A person who uses the console in a browser, with what each job costs: clicks, keys, and fields that are filled in."""

import re
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Locator, Page, expect

PAGE = Path(__file__).parents[3] / "docs" / "console.md"
MOST_CLICKS = 6
_WEI = re.compile(r"([\d,]+) Wei")


class Effort(NamedTuple):
    """What a job took."""

    job: str
    clicks: int
    keys: int
    fields: int

    @property
    def row(self) -> str:
        """As it is in the table of the documentation."""
        return f"| {self.job} | {self.clicks} |"

    @property
    def whole_row(self) -> str:
        return f"{self.row} {self.keys} | {self.fields} |"


class Person:
    """Counts what is done with the mouse and the keyboard. A field that is typed or pasted into counts as one field."""

    def __init__(self, page: Page, efforts: list[Effort]) -> None:
        self.page, self._efforts = page, efforts
        self.start()

    def start(self) -> None:
        self._clicks = self._keys = self._fields = 0

    def click(self, target: str | Locator, role: str = "link") -> None:
        """A link or button by its whole name, or an element."""
        found = target if isinstance(target, Locator) else self._named(target, role)
        self._clicks += 1
        found.click()

    def _named(self, name: str, role: str) -> Locator:
        return self.page.get_by_role(role, name=name, exact=True).first  # type: ignore[arg-type]

    def press(self, target: str | Locator) -> None:
        self.click(target, "button")

    def choose(self, field: Locator, option: str) -> None:
        """Opening the list is a click, and choosing is another."""
        self._clicks += 2
        field.select_option(option)

    def fill(self, target: str | Locator, text: str) -> None:
        field = target if isinstance(target, Locator) else self.page.get_by_label(target, exact=True).first
        self._fields += 1
        field.fill(text)

    def key(self, *keys: str) -> None:
        for each in keys:
            self._keys += 1
            self.page.keyboard.press(each)

    def go_back(self) -> None:
        self._keys += 1
        self.page.go_back()

    def reload(self) -> None:
        self._keys += 1
        self.page.reload()

    def search(self, text: str) -> None:
        """From any page, with the keyboard."""
        self.key("/")
        expect(self.page.get_by_label("Search everything")).to_be_focused()
        self._fields += 1
        self.page.keyboard.type(text)
        self.key("Enter")
        expect(self.page.locator("h1")).to_have_text("Search")

    def tab_to(self, name: str, most: int = 40) -> None:
        """Press Tab until the link or button with this name has the focus."""
        for _ in range(most):
            self.key("Tab")
            if (self.page.evaluate("document.activeElement.textContent") or "").strip() == name:
                return
        raise AssertionError(f"{name} cannot be reached with the keyboard")

    def sees(self, text: str | re.Pattern[str]) -> None:
        expect(self.page.locator("main")).to_contain_text(text)

    def has_done(self, job: str) -> None:
        """The job is over: it cost what the documentation says, and not more than six clicks."""
        effort = Effort(job, self._clicks, self._keys, self._fields)
        self._efforts.append(effort)
        assert effort.clicks <= MOST_CLICKS, effort
        assert effort.row in PAGE.read_text("utf-8").splitlines(), effort.row
        self.start()


def exact(amount: Locator) -> int:
    """The amount in Wei that is shown under the pointer."""
    found = _WEI.search(amount.get_attribute("title") or "")
    assert found is not None
    return int(found[1].replace(",", ""))
