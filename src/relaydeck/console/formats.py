"""How pages write values: moments, amounts, names, addresses, states.

A list has hundreds of them, so markup is an f-string of escaped parts: `Markup.format` takes six times as long.
"""

import re
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
from markupsafe import Markup, escape

from relaydeck.quantities import NATIVE_DECIMALS

_TONES = {
    "ok": ("active", "ok", "delivered", "live"),
    "warn": ("pending", "failing", "low_balance", "low_runway", "warning"),
    "idle": ("paused", "expired", "revoked", "off"),
}
_TONE_OF = {word: tone for tone, words in _TONES.items() for word in words}
_STEPS = ((60, "s", 1), (3600, "min", 60), (86_400, "h", 3600), (float("inf"), "d", 86_400))
_WEI = re.compile(r"\b(\d{1,78}) Wei\b")
# Characters that show nothing or change the direction of the text around them.
_INVISIBLE = re.compile("[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


def _markup(text: str) -> Markup:
    """For text of which every part that is not markup was escaped."""
    return Markup(text)  # noqa: S704


def name(value: Any) -> Markup:
    """Text that someone chose, isolated from the direction of the text around it."""
    return _markup(f"<bdi>{escape(visible(str(value)))}</bdi>")


def visible(text: str) -> str:
    """The text with invisible characters written as their code, so that no two names look alike by them."""
    return _INVISIBLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def moment(now: Callable[[], float] = time.time) -> Callable[[str | None], Markup]:
    def ago(text: str | None) -> Markup:
        """A moment relative to now, with the exact one as its title."""
        if not text:
            return Markup("–")
        seconds = datetime.fromisoformat(text).timestamp() - now()
        exact = escape(text)
        return _markup(f'<time datetime="{exact}" title="{exact}">{_distance(seconds)}</time>')

    return ago


def _distance(seconds: float) -> str:
    if abs(seconds) < 1.5:
        return "now"
    step = next(each for each in _STEPS if abs(seconds) < each[0])
    count = f"{abs(seconds) // step[2]:.0f} {step[1]}"
    return f"in {count}" if seconds > 0 else f"{count} ago"


def lasts(seconds: int) -> str:
    """A span of time in its greatest unit."""
    step = next(each for each in _STEPS if seconds < each[0])
    return f"{seconds // step[2]:,} {step[1]}"


def coins(wei: int | str, symbol: str = "") -> Markup:
    """An amount in whole coins, with the exact one in Wei as its title."""
    return _amount(int(wei), NATIVE_DECIMALS, symbol)


def gwei(wei: int | str) -> Markup:
    """The price of gas, with the exact one in Wei as its title."""
    return _amount(int(wei), 9, "gwei")


def _amount(wei: int, places: int, symbol: str) -> Markup:
    whole, rest = divmod(wei, 10**places)
    text = f"{whole:,}.{rest:0{places}d}".rstrip("0").rstrip(".")
    unit = escape(f" {visible(symbol)}".rstrip())
    return _markup(f'<span class="amount" title="{wei:,} Wei">{text}{unit}</span>')


def with_coins(text: str, symbol: str) -> Markup:
    """Text with its amounts in Wei written as whole coins."""
    parts = _WEI.split(visible(text))
    return Markup().join(coins(part, symbol) if number % 2 else part for number, part in enumerate(parts))


def short_address(address: str) -> Markup:
    return _markup(f'<code title="{escape(address)}">{escape(address[:8])}…{escape(address[-6:])}</code>')


def badge(word: str) -> Markup:
    """A state in its colour; one that is not known to be harmless is bad."""
    return _markup(f'<span class="badge {_TONE_OF.get(word, "bad")}">{escape(word.replace("_", " "))}</span>')


def states(relayer: dict[str, Any]) -> Markup:
    """The states of a relayer, which may be disabled and paused at once."""
    found = [word for word, field in (("disabled", "system_disabled"), ("paused", "paused")) if relayer[field]]
    return Markup(" ").join(badge(word) for word in found or ["active"])


def as_json(value: Any) -> str:
    """A JSON value as text for people."""
    lines = msgspec.json.format(msgspec.json.encode(value), indent=2).decode().split("\n")
    return "\n".join(visible(line) for line in lines)


def fact(value: Any) -> Markup:
    """A value of an audit entry or a plan, on one line."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return _markup(f"<bdi>{escape(visible(text))}</bdi>")
