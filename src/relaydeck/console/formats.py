"""How pages write values: moments, amounts, names, addresses, states, charts, QR codes.

A list has hundreds of them, so markup is an f-string of escaped parts: `Markup.format` takes six times as long.
"""

import re
import time
from contextvars import ContextVar
from datetime import datetime
from io import BytesIO
from typing import Any

import msgspec
import segno
from markupsafe import Markup, escape

from relaydeck.quantities import NATIVE_DECIMALS
from relaydeck.timestamps import utc

times = ContextVar("times", default="ago")  # how the page that is rendered shows moments
_TONES = {
    "ok": ("active", "ok", "delivered", "live", "applied", "done"),
    "warn": ("open", "pending", "failing", "receiver_failing", "low_balance", "low_runway", "warning"),
    "idle": ("paused", "expired", "revoked", "off", "to do"),
}
_TONE_OF = {word: tone for tone, words in _TONES.items() for word in words}
_SIGNIFICANT = 5
_UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
_WEI = re.compile(r"\b(\d{1,78}) Wei\b")
_MOMENT = re.compile(r"\b(20\d\d-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\dZ)")
# Characters that show nothing, look like a blank, or change the direction of the text around them.
_INVISIBLE = re.compile(
    "[\u0000-\u001f\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def _markup(text: str) -> Markup:
    """For text of which every part that is not markup was escaped."""
    return Markup(text)  # noqa: S704


def name(value: Any) -> Markup:
    """Text that someone chose, isolated from the direction of the text around it."""
    return _markup(f"<bdi>{escape(visible(str(value)))}</bdi>")


def visible(text: str) -> str:
    """The text with invisible characters written as their code, so that no two names look alike by them."""
    return _INVISIBLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def ago(text: str | None) -> Markup:
    """A moment relative to now, with the exact one as its title; or the other way round, as the person chose."""
    if not text:
        return Markup("–")
    shown, moment = _distance(datetime.fromisoformat(text).timestamp() - time.time()), escape(text)
    exact = f"{moment[:10]} {moment[11:19]} UTC"
    shown, title = (shown, exact) if times.get() == "ago" else (exact, shown)
    return _markup(f'<time datetime="{moment}" title="{title}">{shown}</time>')


def _distance(seconds: float) -> str:
    if abs(seconds) < 1.5:
        return "now"
    return f"in {lasts(seconds)}" if seconds > 0 else f"{lasts(-seconds)} ago"


def lasts(seconds: float) -> str:
    """A span of time in its greatest unit, and of hours and days also in the next one."""
    unit, length = next((each for each in _UNITS if seconds >= each[1]), _UNITS[-1])
    count, rest = divmod(int(seconds), length)
    minor, part = {"d": ("h", rest // 3600), "h": ("min", rest // 60)}.get(unit, ("", 0))
    return f"{count:,} {unit}" + (f" {part} {minor}" if part else "")


_LONGEST_LEFT = 100 * 365 * 86_400


def until(seconds: float) -> str:
    """How long it takes until a balance has fallen to a limit."""
    return lasts(seconds) if seconds > 0 else "reached"


def left(seconds: float) -> Markup:
    """As `until`; a script counts down what has a date in its calendar."""
    if seconds > _LONGEST_LEFT:
        return _markup(until(seconds))
    at = utc(int(time.time() + seconds))
    return _markup(f'<time class="left" datetime="{at}" title="{at[:10]} {at[11:19]} UTC">{until(seconds)}</time>')


def moment(text: str) -> Markup:
    """A moment in a sentence: not relative to now, unless as its title."""
    distance = _distance(datetime.fromisoformat(text).timestamp() - time.time())
    shown = f"{text[:10]} {text[11:19]} UTC"
    return _markup(f'<time class="exact" datetime="{escape(text)}" title="{distance}">{escape(shown)}</time>')


def coins(wei: int | str, symbol: str = "") -> Markup:
    """An amount in whole coins, with the exact one in Wei as its title."""
    return _amount(int(wei), NATIVE_DECIMALS, symbol)


def gwei(wei: int | str, unit: str = "gwei") -> Markup:
    """The price of gas, with the exact one in Wei as its title."""
    return _amount(int(wei), 9, unit)


def _amount(wei: int, places: int, symbol: str) -> Markup:
    unit = escape(f" {visible(symbol)}".rstrip())
    return _markup(f'<span class="amount" title="{wei:,} Wei">{short_amount(wei, places)}{unit}</span>')


def exact_amount(text: str, wei: int) -> Markup:
    """An amount that is written exactly, with the number of Wei as its title."""
    return _markup(f'<span class="amount" title="{wei:,} Wei">{escape(visible(text))}</span>')


def short_amount(wei: int, places: int = NATIVE_DECIMALS) -> str:
    """With five significant digits, or every digit before the point; never more than there is."""
    whole, rest = divmod(wei, 10**places)
    digits = f"{rest:0{places}d}"
    first = places - len(str(rest)) if not whole else -len(str(whole))  # zeros before the first significant digit
    shown = digits[: max(0, first + _SIGNIFICANT)].rstrip("0")
    return f"{whole:,}.{shown}" if shown else f"{whole:,}"


def with_coins(text: str, symbol: str) -> Markup:
    """Text with its amounts in Wei written as whole coins, and its moments as those of pages."""
    parts = _WEI.split(visible(text))
    return Markup().join(coins(part, symbol) if number % 2 else with_moments(part) for number, part in enumerate(parts))


def with_moments(text: str | Markup) -> Markup:
    parts = _MOMENT.split(escape(text))
    return Markup().join(moment(part) if number % 2 else _markup(part) for number, part in enumerate(parts))


def short_address(address: str) -> Markup:
    return _markup(f'<code title="{escape(address)}">{escape(address[:8])}…{escape(address[-6:])}</code>')


def badge(word: str) -> Markup:
    """A state in its colour; one that is not known to be harmless is bad."""
    return _markup(f'<span class="badge {_TONE_OF.get(word, "bad")}">{escape(word.replace("_", " "))}</span>')


def states(record: dict[str, Any], problem: str = "") -> Markup:
    """One word for the state of a relayer or a receiver, beside its worst problem. A disabled one is not active."""
    problem = "disabled" if record.get("system_disabled") else problem
    state = "paused" if record.get("paused") else "" if problem == "disabled" else "active"
    shown = _markup(f'<span class="badge idle">{state}</span>') if state and problem else badge(state or problem)
    return Markup(" ").join([shown, badge(problem)] if state and problem else [shown])


def as_json(value: Any) -> str:
    """A JSON value as text for people."""
    lines = msgspec.json.format(msgspec.json.encode(value), indent=2).decode().split("\n")
    return "\n".join(visible(line) for line in lines)


def fact(value: Any) -> Markup:
    """A value of an audit entry or a plan, on one line. An amount is markup already."""
    if isinstance(value, Markup):
        return value
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return _markup(f"<bdi>{escape(visible(text))}</bdi>")


def address_code(address: str) -> Markup:
    code = BytesIO()
    segno.make(address, error="m", micro=False).save(
        code, kind="svg", xmldecl=False, svgns=False, svgclass=None, lineclass=None, omitsize=True, border=2
    )
    return Markup(code.getvalue().decode())  # noqa: S704 (drawn from an address that the service has checked)
