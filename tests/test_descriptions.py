"""The OpenAPI documents that the service sends are those of the present operations and records."""

from pathlib import Path

import pytest

from pages.openapi import files

CONTENTS = files.contents()


@pytest.mark.parametrize("path", CONTENTS, ids=lambda path: path.name)
def test_a_document_is_current(path: Path) -> None:
    assert path.read_text("utf-8") == CONTENTS[path], "run `make docs`"


def test_there_is_no_other_document() -> None:
    page = {files.FOLDER / name for name in ("page.css", "page.html")}  # from which both pages are rendered
    assert set(files.FOLDER.iterdir()) == {*CONTENTS, *page}
