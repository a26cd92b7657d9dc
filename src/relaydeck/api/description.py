"""The description of an interface: `openapi.json` for machines, as `make docs` wrote it, and `docs` for people."""

import asyncio
import base64
import hashlib
import json
import re
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import msgspec

from relaydeck.bounded_toml import short_turns
from relaydeck.http.pipeline import JSON, Call, Reply

HTML = (b"content-type", b"text/html; charset=utf-8")
PLACEHOLDER = "http://HOST:PORT"  # stands in a page for the address of the service
_HOST = re.compile(rb"[A-Za-z0-9.:\[\]_-]{1,255}")
_PARAMETER = re.compile(r"\{(\w+)\}")


class Description:
    """That of `/api/v1` or `/admin/v1`.

    `serves_operations`: whether the operations are on the same port, so that the page can name their address.
    """

    def __init__(self, interface: Literal["api", "admin"], *, serves_operations: bool = True) -> None:
        self._interface = interface
        self._serves_operations = serves_operations

    async def openapi(self, _call: Call) -> Reply:
        return Reply(200, _document(self._interface), JSON)

    async def docs(self, call: Call) -> Reply:
        page = await asyncio.to_thread(_page, self._interface)
        return _with_own_address(page, call) if self._serves_operations else Reply(200, page, HTML)


@cache
def _document(interface: str) -> bytes:
    """Without the lines that the file has for its readers."""
    return msgspec.json.format(_file(f"{interface}.json"), indent=-1)


def _file(name: str) -> bytes:
    return files("relaydeck.api").joinpath("documents", name).read_bytes()


@cache
def _page(interface: str) -> bytes:
    """The document as a page. To render it takes some tenths of a second, once."""
    from jinja2 import Environment, StrictUndefined  # the core starts without it
    from markupsafe import Markup

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["json"] = lambda value, indent=None: json.dumps(value, indent=indent, ensure_ascii=False)
    style = _file("page.css").decode()
    with short_turns():
        html = environment.from_string(_file("page.html").decode()).render(
            document=json.loads(_document(interface)),
            contract=json.loads(_document("api")),
            style=Markup(style),  # noqa: S704 (a file of ours)
            digest=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
            placeholder=PLACEHOLDER,
            curl_line=curl_line,
            first_example=_first_example,
        )
    return html.lstrip().encode()


def curl_line(method: str, path: str, operation: dict[str, Any]) -> str:
    """A command line with the first example of an operation of a document."""
    examples = {each["name"]: each.get("example", "") for each in operation.get("parameters", [])}
    lines = [f'curl -s "$RELAYDECK{_PARAMETER.sub(lambda name: examples[name[1]], path)}"']
    if method not in ("get", "post"):
        lines.append(f"-X {method.upper()}")
    if operation.get("security") != []:
        lines.append('-H "Authorization: Bearer $TOKEN"')
    if "requestBody" in operation:
        body = _first_example(operation["requestBody"]["content"]["application/json"])
        lines += ["-H 'Content-Type: application/json'", f"-d '{json.dumps(body, indent=2)}'"]
    return " \\\n  ".join(lines)


def _first_example(content: dict[str, Any]) -> Any:
    for each in content.get("examples", {}).values():
        return each["value"]
    return content.get("example")


def _with_own_address(page: bytes, call: Call) -> Reply:
    """The page with the address as the sender reached it; the placeholder stays when the request names no host.

    No cache may keep it: one sender's Host would be shown to others.
    """
    host, headers = call.headers.get(b"host", b""), ((b"cache-control", b"no-store"),)
    if not _HOST.fullmatch(host):
        return Reply(200, page, HTML, headers)
    scheme = b"https" if call.headers.get(b"x-forwarded-proto") == b"https" else call.scheme.encode()
    return Reply(200, page.replace(PLACEHOLDER.encode(), scheme + b"://" + host), HTML, headers)
