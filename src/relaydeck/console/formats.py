"""How pages write values: moments, amounts, names, addresses."""

import re
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
from markupsafe import Markup

_STEPS = ((60, "s", 1), (3600, "min", 60), (86_400, "h", 3600), (float("inf"), "d", 86_400))
_WEI = re.compile(r"\b(\d{1,78}) Wei\b")
# Characters that show nothing or change the direction of the text around them.
_INVISIBLE = re.compile("[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


def name(value: Any) -> Markup:
    """Text that someone chose, isolated from the direction of the text around it."""
    return Markup("<bdi>{}</bdi>").format(visible(str(value)))


def visible(text: str) -> str:
    """The text with invisible characters written as their code, so that no two names look alike by them."""
    return _INVISIBLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def moment(now: Callable[[], float] = time.time) -> Callable[[str | None], Markup]:
    def ago(text: str | None) -> Markup:
        """A moment relative to now, with the exact one as its title."""
        if not text:
            return Markup("–")
        seconds = datetime.fromisoformat(text).timestamp() - now()
        return Markup('<time datetime="{0}" title="{0}">{1}</time>').format(text, _distance(seconds))

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
    return _amount(int(wei), 18, symbol)


def gwei(wei: int | str) -> Markup:
    """The price of gas, with the exact one in Wei as its title."""
    return _amount(int(wei), 9, "gwei")


def _amount(wei: int, places: int, symbol: str) -> Markup:
    whole, rest = divmod(wei, 10**places)
    text = f"{whole:,}.{rest:0{places}d}".rstrip("0").rstrip(".")
    return Markup('<span class="amount" title="{} Wei">{}{}</span>').format(
        f"{wei:,}", text, f" {visible(symbol)}".rstrip()
    )


def with_coins(text: str, symbol: str) -> Markup:
    """Text with its amounts in Wei written as whole coins."""
    parts = _WEI.split(visible(text))
    return Markup().join(coins(part, symbol) if number % 2 else part for number, part in enumerate(parts))


def short_address(address: str) -> Markup:
    return Markup('<code title="{0}">{1}…{2}</code>').format(address, address[:8], address[-6:])


def as_json(value: Any) -> str:
    """A JSON value as text for people."""
    lines = msgspec.json.format(msgspec.json.encode(value), indent=2).decode().split("\n")
    return "\n".join(visible(line) for line in lines)


def fact(value: Any) -> Markup:
    """A value of an audit entry or a plan, on one line."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return Markup("<bdi>{}</bdi>").format(visible(text))
