"""Every example of the pages of the client runs, prints what the page says, and passes the type checker."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from tests.client.conftest import serve
from tests.support.running import Running

ROOT = Path(__file__).parents[2]
PAGE = "\n".join((ROOT / "docs" / name).read_text("utf-8") for name in ("client.md", "client-errors.md"))
EXAMPLES = re.findall(r"```python\n(.*?)```(?:\n```text\n(.*?)```)?", PAGE, re.DOTALL)


@pytest.fixture
def service(home: Path) -> Iterator[Running]:
    with serve(home) as running:
        yield running


def test_examples_print_what_the_page_says(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAYDECK_URL", f"http://127.0.0.1:{service.port}")
    monkeypatch.setenv("RELAYDECK_TOKEN", service.token)
    names: dict[str, Any] = {}
    assert len(EXAMPLES) > 8
    for code, expected in EXAMPLES:
        with redirect_stdout(StringIO()) as printed:
            exec(compile(code, "docs/client.md", "exec"), names)
        assert printed.getvalue() == expected, code


def test_examples_have_the_right_types(tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text("\n".join(code for code, _ in EXAMPLES))
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"), str(script)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert (ran.returncode, ran.stdout) == (0, "Success: no issues found in 1 source file\n")


def test_the_page_names_every_error_class_that_callers_catch() -> None:
    from relaydeck.client import errors

    classes = [name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, Exception)]
    assert [name for name in classes if name not in ("BodyTooLarge", "MethodNotAllowed") and name not in PAGE] == []
