"""Runs the commands of a documentation page, in order, and compares what they print with what the page shows."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pages.examples import Page
from tests.support.fork_server import fork_server

_FORKED = Path(__file__).with_name("forked_relaydeck.py")

_VARIES = (
    (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "MOMENT"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b[0-9a-f]{4}…[0-9a-f]{4}\b", "UUID"),
    (r"\brdk_[\w-]+", "rdk_TOKEN"),
    (r"\b\d+[-:][0-9a-f]{64,96}\b", "REVISION"),
    (r"^(x-request-id|date|ratelimit): .*$", r"\1: …"),
)


def normal(text: str) -> str:
    text = text.replace("\r\n", "\n").strip()
    for pattern, name in _VARIES:
        text = re.sub(pattern, name, text, flags=re.MULTILINE)
    return "\n".join(line.rstrip() for line in text.splitlines())


def shows(expected: str, printed: str) -> bool:
    """Headers may come in any order: where a line `…` stands for lines, each other line must be somewhere."""
    shown, lines = normal(expected), normal(printed).splitlines()
    patterns = [".*".join(re.escape(each) for each in line.split("…")) for line in shown.splitlines()]
    if ".*" not in patterns:
        return len(patterns) == len(lines) and all(map(re.fullmatch, patterns, lines))
    return all(any(re.fullmatch(each, line) for line in lines) for each in patterns if each != ".*")


class Shell:
    """Runs commands one after another, in one folder; exported variables stay."""

    def __init__(self, folder: Path, environment: Mapping[str, str], named: Mapping[str, str]) -> None:
        """`named`: what a page calls an address or a folder, and what it is here."""
        is_measured = "COVERAGE_PROCESS_CONFIG" in environment  # each process is, from its start
        command = "-m relaydeck" if is_measured else f'-I -S "{_FORKED}"'
        self._folder, self._named = folder, dict(named)
        programs = folder.parent / "programs"
        programs.mkdir()
        for name, arguments in (("relaydeck", command), ("python", "")):
            (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
            (programs / name).chmod(0o755)
        self._environment = {**environment, "PATH": f"{programs}:{os.environ['PATH']}"}
        self._environment |= {"FORK_SERVER": str(fork_server().fileno())}
        self._exported = folder.parent / "exported"
        self._exported.touch()
        self._groups: list[int] = []

    def here(self, text: str) -> str:
        for name, place in self._named.items():
            text = text.replace(name, place)
        return text.replace(".venv/bin/relaydeck", "relaydeck")

    def call(self, text: str, meaning: str) -> None:
        self._named[text] = meaning

    def write(self, name: str, content: str) -> None:
        (self._folder / name).write_text(self.here(content), "utf-8")

    def run(self, command: str) -> tuple[int, str]:
        script = f'. "{self._exported}"\nset -e\ntrap \'export -p > "{self._exported}"\' EXIT\n{self.here(command)}\n'
        with subprocess.Popen(
            ["bash", "-c", script],
            cwd=self._folder,
            env=self._environment,
            pass_fds=[fork_server().fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as ran:
            self._groups.append(ran.pid)
            printed, _ = ran.communicate(timeout=180)
        return ran.returncode, printed.decode()

    def close(self) -> None:
        """End what the page has started in the background."""
        for group in self._groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)


def differences(page: Page, shell: Shell) -> list[str]:
    """Runs the page. Commands must succeed, unless the page shows what they print: then they print it."""
    found, printed = list[str](), ""
    for step in page.steps:
        if step.file:
            shell.write(step.file, step.content)
        status = 0
        if step.command:
            status, printed = shell.run(step.command)
        if step.called:
            shell.call(step.called, printed.strip())
        if status if step.output is None else not shows(shell.here(step.output), printed):
            found.append(f"{step.place}: {step.command.strip()}\n{printed}")
    return found
