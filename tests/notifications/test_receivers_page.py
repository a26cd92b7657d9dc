"""The verification code of `docs/events.md` runs, and agrees with what Relaydeck sends."""

import json
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from relaydeck.notifications import delivery_queue, events
from relaydeck.notifications.model import EventKind
from relaydeck.notifications.sender import message_headers
from relaydeck.secret import Secret
from tests.node.process import node_command
from tests.notifications.conftest import KEY

DOCS = Path(__file__).parents[2] / "docs"
PAGE = "\n".join((DOCS / name).read_text("utf-8") for name in ("events.md", "delivery.md", "event-kinds.md"))
KEYS = [KEY, "whsec_c2VjcmV0cw", "whsec_x", "whsec_not base64!", "plain ☂"]
BODY = '{"sequence": 1, "name": "☂"}'.encode()


def code(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found
    return found[1]


def in_python(headers: Mapping[str, Any], body: bytes, key: str) -> Any:
    names: dict[str, Any] = {}
    exec(code("python"), names)
    return names["verified"](headers, body, key)


def in_javascript(headers: Mapping[str, Any], body: bytes, key: str) -> Any:
    return all_in_javascript([headers], body, key)[0]


def all_in_javascript(many: Sequence[Mapping[str, Any]], body: bytes, key: str) -> list[Any]:
    values = f"headers, Buffer.from({json.dumps(body.decode())}), {json.dumps(key)}"
    results = f"{json.dumps(many)}.map((headers) => verified({values}))"
    script = f"{code('javascript')}\nconsole.log(JSON.stringify({results}));"
    said = subprocess.run([node_command(), "-e", script], capture_output=True, text=True, check=True)
    answers: list[Any] = json.loads(said.stdout)
    return answers


Verify = Callable[[Mapping[str, Any], bytes, str], Any]


def hostile_headers() -> list[dict[str, Any]]:
    """A message that was signed now, with each header missing, repeated or malformed in turn."""
    right: dict[str, Any] = dict(message_headers([Secret(KEY)], "evt_1", int(time.time()), BODY))
    found: list[dict[str, Any]] = [{}]
    for name, value in right.items():
        found.append({each: right[each] for each in right if each != name})
        others = [
            "",
            " ",
            "é",
            "\udce9",
            "☂",
            "\x00",
            "v1",
            "v1,",
            "v1,not base64!",
            "9" * 400,
            "-1",
            "1e9",
            "0x10",
            "NaN",
        ]
        others += ["Infinity", "١٢٣", "1 2", f"{value}, {value}x", value + "\n", value + "\x00"]
        found += [right | {name: other} for other in [*others, None, 5, True, [value], [value, value], {"a": 1}]]
    old = message_headers([Secret(KEY)], "evt_1", int(time.time()) - 301, BODY)
    return [*found, dict(old), right | {"webhook-timestamp": old["webhook-timestamp"]}]


def test_hostile_headers_are_refused_in_python() -> None:
    assert [each for each in hostile_headers() if in_python(each, BODY, KEY) is not False] == []


def test_hostile_headers_are_refused_in_javascript() -> None:
    """In one process, which an exception would end."""
    hostile = hostile_headers()
    assert len(hostile) > 60
    assert all_in_javascript(hostile, BODY, KEY) == [False] * len(hostile)


@pytest.mark.parametrize("verify", [in_python, in_javascript])
class TestVerification:
    @pytest.mark.parametrize("key", KEYS)
    def test_what_we_sign_is_verified(self, verify: Verify, key: str) -> None:
        assert verify(message_headers([Secret(key)], "evt_1", int(time.time()), BODY), BODY, key)

    def test_either_of_two_keys_verifies(self, verify: Verify) -> None:
        headers = message_headers([Secret("new"), Secret("old")], "evt_1", int(time.time()), BODY)
        assert verify(headers, BODY, "new") and verify(headers, BODY, "old") and not verify(headers, BODY, "other")

    def test_a_changed_body_is_refused(self, verify: Verify) -> None:
        assert not verify(message_headers([Secret(KEY)], "evt_1", int(time.time()), BODY), BODY + b" ", KEY)

    def test_an_old_message_is_refused(self, verify: Verify) -> None:
        assert not verify(message_headers([Secret(KEY)], "evt_1", int(time.time()) - 301, BODY), BODY, KEY)


def test_every_kind_is_described_as_it_is_declared() -> None:
    rows = re.findall(
        r"^\| `((?:relayer|signer|database|change|notification)\.\w+)` \| (.*?) \| (.*?) \|$", PAGE, re.MULTILINE
    )
    declared = [(kind.value, kind.description, ", ".join(f"`{name}`" for name in kind.details)) for kind in EventKind]
    assert [tuple(cell.strip() for cell in row) for row in rows] == declared


def test_the_schedule_is_the_one_in_force() -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| delay after the previous one"))
    units = {"s": 1, "min": 60, "h": 3600}
    reported = [cell.strip().split(" ") for cell in row.strip("|").split("|")[2:]]
    assert tuple(int(amount) * units[unit] for amount, unit in reported) == delivery_queue.DELAYS


def test_the_example_is_json_with_the_fields_of_an_event() -> None:
    example = json.loads(code("json"))
    event = events.Event(42, example["id"], example["type"], None, None, json.dumps(example["data"]), 1772366400)
    assert json.loads(event.body()) == example
