"""`docs/reference/cli.md` is printed from the commands."""

from pathlib import Path

from relaydeck.cli.reference import cli_page

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text("utf-8") == cli_page(), "run `make docs`"
