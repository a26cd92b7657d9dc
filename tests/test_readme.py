"""The README's tour runs as written, and every link on the first page leads to a file."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.running import Running, clean_environment, make_token

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "README.md").read_text("utf-8")
BLOCK = re.compile(r"^```\n(\$ .*?)^```", re.DOTALL | re.MULTILINE)
# Ports on which nothing listens, whatever else runs on the machine.
CLOSED = {"127.0.0.1:8545": "127.0.0.1:1", "127.0.0.1:8546": "127.0.0.1:2"}


def steps() -> list[tuple[str, str]]:
    """Each command of the tour with the output that the page shows."""
    found = []
    for block in BLOCK.findall(PAGE):
        command, output = [], block.removeprefix("$ ").splitlines()
        while output[0].endswith("\\"):
            command.append(output.pop(0))
        command.append(output.pop(0))
        found.append(("\n".join(command), "\n".join(output)))
    return found


def with_closed_ports(text: str) -> str:
    for named, closed in CLOSED.items():
        text = text.replace(named, closed)
    return text


def shows(expected: str, printed: str) -> bool:
    """Whether the output is as shown; a line `…` stands for any number of lines, headers may come in any order."""
    if "…" not in expected:
        return printed == expected
    return all(line in printed.splitlines() for line in expected.splitlines() if line != "…")


@pytest.mark.parametrize("place", ["home", "elsewhere"])
def test_the_tour_prints_what_the_page_shows(home: Path, tmp_path: Path, place: str) -> None:
    """On the machine of the home, and on one that has only the URL and a token."""
    (tmp_path / "examples").mkdir()
    demo = (ROOT / "examples" / "demo.toml").read_text("utf-8")
    (tmp_path / "examples" / "demo.toml").write_text(with_closed_ports(demo), "utf-8")
    token = make_token(home, "me")
    with Running(home) as running:
        environment = clean_environment(home) | {"TOKEN": token, "PATH": os.environ["PATH"]}
        if place == "elsewhere":
            environment["RELAYDECK_HOME"] = str(tmp_path / "elsewhere")
            environment["RELAYDECK_URL"] = f"http://127.0.0.1:{running.port}"
            environment["RELAYDECK_TOKEN"] = make_token(home, "admin", "--kind", "admin")
        for command, expected in steps():
            line = command.replace("http://127.0.0.1:8080", f"http://127.0.0.1:{running.port}")
            line = line.replace(".venv/bin/relaydeck", f"{sys.executable} -m relaydeck")
            ran = subprocess.run(
                ["bash", "-c", line],
                cwd=tmp_path,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=60,
                check=True,
            )
            printed = ran.stdout.decode().replace("\r\n", "\n").strip()
            assert shows(with_closed_ports(expected), printed), f"{command}\n{printed}"
    assert not (tmp_path / "elsewhere").exists()


def test_the_tour_has_every_operation() -> None:
    reported = " ".join(command for command, _ in steps())
    for path in ("/api/v1/relayers?", "/api/v1/signers ", "-X PATCH", "/rpc "):
        assert path in reported


def test_every_link_leads_somewhere() -> None:
    linked = {target.partition("#")[0] for target in re.findall(r"\]\(([^)]+)\)", PAGE) if "://" not in target}
    assert [target for target in sorted(linked) if not (ROOT / target).exists()] == []
