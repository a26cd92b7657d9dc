"""Templates: every value is escaped."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from relaydeck import __version__
from relaydeck.console import formats
from relaydeck.console.responses import ROOT, asset_version, path_to
from relaydeck.timestamps import utc


def _load() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "name": formats.name,
        "visible": formats.visible,
        "ago": formats.moment(),
        "coins": formats.coins,
        "gwei": formats.gwei,
        "with_coins": formats.with_coins,
        "lasts": formats.lasts,
        "short_address": formats.short_address,
        "utc": utc,
        "badge": formats.badge,
        "states": formats.states,
        "as_json": formats.as_json,
        "fact": formats.fact,
    }
    environment.globals |= {"root": ROOT, "link": _link, "asset": _asset, "version": __version__}
    return environment


def _link(*parts: str) -> str:
    return ROOT + path_to(*parts)


def _asset(name: str) -> str:
    return f"{ROOT}/assets/{asset_version()}/{name}"


_templates = _load()


def compile_templates() -> None:
    """In a thread: the event loop would wait for a template that is compiled when it is used first."""
    for template in _templates.list_templates():
        _templates.get_template(template)


def render(template: str, **values: Any) -> str:
    return _templates.get_template(template).render(values)
