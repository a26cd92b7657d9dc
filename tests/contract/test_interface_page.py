"""Every curl line in docs/interface.md is run, and what it prints is what the page says."""

import os
import re
import subprocess
from pathlib import Path

from pages.openapi.contract import document
from pages.openapi.contract_schemas import MESSAGE, rpc_errors
from tests.support.running import Running, make_token, run_command

PAGE = (Path(__file__).parents[2] / "docs" / "interface.md").read_text("utf-8")
CONFIGURATION = re.compile(r"```toml\n(.*?)```", re.DOTALL)
EXAMPLE = re.compile(r"```sh\n(.*?)```\n```(?:json|http)\n(.*?)```", re.DOTALL)
DIFFERS_EACH_TIME = re.compile(r"^(x-request-id|date|ratelimit): .*$", re.MULTILINE)


def shape(output: str) -> str:
    return DIFFERS_EACH_TIME.sub(r"\1: …", output.replace("\r\n", "\n")).strip()


def test_examples_print_what_the_page_says(home: Path) -> None:
    found = CONFIGURATION.search(PAGE)
    assert found is not None
    done = run_command(home, "apply", "-", stdin=found[1])
    assert done.returncode == 0, done.stderr
    token = make_token(home, "reader")
    with Running(home) as running:
        environment = os.environ | {"RELAYDECK": f"http://127.0.0.1:{running.port}", "TOKEN": token}
        for command, expected in EXAMPLE.findall(PAGE):
            ran = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, timeout=60, check=True)
            assert shape(ran.stdout.decode()) == shape(expected), command


def test_the_page_tells_every_operation_message_and_code() -> None:
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            assert f"`{method.upper()} {path}`" in PAGE or f"| `{path}` |" in PAGE
            for status, response in operation["responses"].items():
                for content in response["content"].values():
                    if MESSAGE in response:
                        message = content["example"]["message"].replace("sepolia-9", "`<relayer_id>`")
                        assert f"| {status} | {message} |" in PAGE
    for code in rpc_errors():
        assert f"| {code} |" in PAGE
