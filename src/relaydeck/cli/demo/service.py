"""The service of the demo: a real `relaydeck serve` on a free port, with a home in the demo's folder."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from relaydeck.cli.demo.loopback import HOST, answers, free_port
from relaydeck.cli.demo.process import child, wait_until
from relaydeck.credentials.tokens import new_token
from relaydeck.errors import OperatorError
from relaydeck.settings import PREFIX

_RELAYDECK = [sys.executable, "-m", "relaydeck"]


class DemoService(NamedTuple):
    process: "subprocess.Popen[bytes]"
    url: str
    home: Path
    token_file: Path
    environment: dict[str, str]

    def command(self, *arguments: str, content: str = "") -> str:
        """Run `relaydeck …` on the home of the demo; the output of a success."""
        ended = subprocess.run(  # noqa: S603 (our own command)
            [*_RELAYDECK, *arguments],
            env=self.environment,
            input=content,
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode:
            raise OperatorError(f"relaydeck {' '.join(arguments)}: {ended.stderr.strip()}")
        return ended.stdout.strip()

    def how_to_reach(self) -> Iterator[str]:
        yield "In another terminal:"
        yield ""
        yield f"  export RELAYDECK_HOME={self.home}"
        yield "  relaydeck relayer list"
        yield f'  curl -s {self.url}/api/v1/relayers -H "Authorization: Bearer $(cat {self.token_file})"'
        yield f"  {self.url}/docs describes the interface."
        yield ""


@contextmanager
def demo_service(folder: Path) -> Iterator[DemoService]:
    home, port, log = folder / "home", free_port(), folder / "service.log"
    token_file = folder / "token"
    token_file.touch(0o600)
    token_file.write_text(new_token().reveal(), "ascii")
    environment = _environment(home, token_file)
    with child([*_RELAYDECK, "serve", "--host", HOST, "--port", str(port)], log, environment) as process:
        wait_until(lambda: answers(port, "GET", "/healthz"), process, "the service", log)
        yield DemoService(process, f"http://{HOST}:{port}", home, token_file, environment)


def _environment(home: Path, token_file: Path) -> dict[str, str]:
    """Settings of the surrounding environment belong to another service."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    return kept | {
        "RELAYDECK_HOME": str(home),
        "RELAYDECK_BOOTSTRAP_TOKEN_FILE": str(token_file),
        "RELAYDECK_BOOTSTRAP_TOKEN_KIND": "admin",
        "RELAYDECK_WEBHOOK_ALLOW": "127.0.0.1/32",
    }
