"""Pages as responses: templates in which every value is escaped, assets, and the headers of every page."""

import csv
import hashlib
import inspect
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from relaydeck.console import formats
from relaydeck.console.forms import label_of
from relaydeck.errors import UnknownPath
from relaydeck.http.pipeline import Reply
from relaydeck.notifications.delivery_queries import describe_error
from relaydeck.provisioning.revert import reverted_resource, secret_resource
from relaydeck.timestamps import utc

ROOT = "/console"
_STATIC = Path(__file__).parent / "static"
_TYPES = {".css": b"text/css; charset=utf-8", ".js": b"text/javascript; charset=utf-8", ".svg": b"image/svg+xml"}
_HTML = (b"content-type", b"text/html; charset=utf-8")
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_PAGE_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", _POLICY),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    # Not no-referrer: with it, browsers send `Origin: null` with a form.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
Headers = tuple[tuple[bytes, bytes], ...]


def page(template: str, status: int = 200, **values: Any) -> Reply:
    formats.times.set(values.get("times", "ago"))
    html = _templates.get_template(template).render(values)
    return Reply(status, html.encode(), _HTML, _PAGE_HEADERS)


def csv_file(name: str, rows: Sequence[Mapping[str, object]]) -> Reply:
    """A file to download. What a spreadsheet would take for a formula begins with an apostrophe."""
    text = StringIO()
    names = [list(rows[0])] if rows else []
    csv.writer(text).writerows([*names, *([_cell(each) for each in row.values()] for row in rows)])
    return download(f"{name}.csv", b"text/csv; charset=utf-8", text.getvalue())


def download(name: str, kind: bytes, text: str) -> Reply:
    disposition = (b"content-disposition", f'attachment; filename="{name}"'.encode())
    return Reply(200, text.encode(), (b"content-type", kind), (*_PAGE_HEADERS, disposition))


# The wide forms are those of Japanese keyboards; in many countries, a spreadsheet begins a cell after a semicolon, too.
_FORMULA = re.compile(r"(?<![^;\t\r\n])(?=[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])")


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return _FORMULA.sub("'", text) if isinstance(value, str) else text


def picture(svg: str) -> Reply:
    return Reply(200, svg.encode(), (b"content-type", _TYPES[".svg"]), _PAGE_HEADERS)


def event_stream(stream: AsyncGenerator[bytes]) -> Reply:
    return Reply(200, b"", (b"content-type", b"text/event-stream"), _PAGE_HEADERS, stream)


def redirect(path: str, headers: Headers = ()) -> Reply:
    """To a path below the console, as a GET."""
    location = (b"location", f"{ROOT}{path}".encode())
    return Reply(303, b"", _HTML, (*_PAGE_HEADERS, location, *headers))


def path_to(*parts: str) -> str:
    """The path of a page, with identifiers percent-encoded."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


@cache
def asset_version() -> str:
    """Part of the address of every asset, so that a browser may keep it until it changes."""
    digest = hashlib.sha256()
    for path in sorted(_STATIC.iterdir()):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


@cache
def asset(name: str) -> Reply:
    """A style sheet or script. Raises UnknownPath."""
    path = _STATIC / name
    if path.parent != _STATIC or not path.is_file():
        raise UnknownPath("no such asset")
    headers = (
        (b"cache-control", b"public, max-age=31536000, immutable"),
        (b"x-content-type-options", b"nosniff"),
        (b"cross-origin-resource-policy", b"same-origin"),
    )
    return Reply(200, path.read_bytes(), (b"content-type", _TYPES[path.suffix]), headers)


def _load() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {name: each for name, each in vars(formats).items() if inspect.isfunction(each)}
    environment.filters |= {"utc": utc, "failure": describe_error, "label_of": label_of}
    environment.globals |= {"root": ROOT, "link": _link, "asset": _asset}
    environment.globals |= {"active_filters": _active_filters, "reverted_resource": reverted_resource}
    environment.globals |= {"secret_resource": secret_resource, "with_label": _with_label}
    return environment


def _link(*parts: str) -> str:
    return ROOT + path_to(*parts)


_NO_FILTERS = ("order", "days")  # how a list is shown


def _active_filters(active: dict[str, str], fields: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Label and value of each, and the query without it. `fields`: those of the form."""
    for name, value in active.items():
        parts = value.split(",") if name == "label" else [value]
        for part in parts if name not in _NO_FILTERS or name not in fields else ():
            others = ",".join(each for each in parts if each != part)
            kept = {key: each for key, each in (active | {name: others}).items() if each}
            yield label_of(name), part.replace("_", " ") if name == "problem" else part, urlencode(kept)


def _with_label(query: dict[str, str], key: str, value: str) -> str:
    """The query with one more label."""
    labels = [each for each in query.get("label", "").split(",") if each]
    return urlencode(query | {"label": ",".join(dict.fromkeys([*labels, f"{key}={value}"]))})


def _asset(name: str) -> str:
    return f"{ROOT}/assets/{asset_version()}/{name}"


_templates = _load()


def compile_templates() -> None:
    """In a thread: the event loop would wait for a template that is compiled when it is used first."""
    for template in _templates.list_templates():
        _templates.get_template(template)
