"""Charts as SVG: the balance of a relayer over time, with forecast and top-ups, and the attempts to reach a receiver.

A chart has axes with units. Every point has an area of its own, which shows its moment and value under the pointer.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal

from markupsafe import Markup, escape

from relaydeck.console.formats import short_amount, visible
from relaydeck.notifications.delivery_queries import Hour
from relaydeck.relayers.balance_history import BalanceHistory
from relaydeck.relayers.runway import Runway

SPANS = {"1d": (86_400, 600), "7d": (7 * 86_400, 3600), "90d": (90 * 86_400, 12 * 3600)}  # seconds, and those of a step
_TICKS = {"1d": (4 * 3600, "%H:%M"), "7d": (86_400, "%b %d"), "90d": (15 * 86_400, "%b %d")}
_LEFT, _RIGHT, _TOP, _BOTTOM, _WIDTH, _HEIGHT = 76, 712, 22, 188, 720, 214
_LINE = 20  # between two lines of text
_LOW = 110  # the bottom of a lower chart
_ZONE = f'<text class="zone" x="{_RIGHT}" y="12" text-anchor="end">UTC</text>'
_AHEAD = 4  # the forecast takes one part in so many of the width


def balance_chart(history: BalanceHistory, runway: Runway, span: str) -> Markup:
    """Empty while fewer than two balances are known."""
    known = [each.balance for each in history.points if each.balance is not None]
    if len(known) < 2:
        return Markup("")
    return Markup("").join(map(Markup, _Chart(history, runway, span, max(*known, runway.min_balance, 4)).parts()))


class _Chart:
    def __init__(self, history: BalanceHistory, runway: Runway, span: str, highest: int) -> None:
        self._history, self._runway, self._span = history, runway, span
        self._start, self._now = _moment(history.start), _moment(history.end)
        self._end = self._now + (self._now - self._start) // (_AHEAD - 1)
        self._unit = _nice(Decimal(highest) / 4)
        self._highest = self._unit * -(-highest // int(self._unit))

    def parts(self) -> Iterator[str]:
        """Every text in them is escaped."""
        symbol = escape(visible(self._runway.native_symbol))
        yield f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="Balance in {symbol}">'
        yield f'<text x="4" y="12">{symbol}</text>{_ZONE}'
        yield from self._axes()
        yield f'<path class="line" d="{self._line()}"/>'
        yield from self._forecast()
        yield from self._top_ups()
        yield from self._values(symbol)
        yield "</svg>"

    def _x(self, moment: float) -> float:
        return _LEFT + (moment - self._start) / (self._end - self._start) * (_RIGHT - _LEFT)

    def _y(self, amount: int | Decimal) -> float:
        return _BOTTOM - float(Decimal(amount) / self._highest) * (_BOTTOM - _TOP)

    def _axes(self) -> Iterator[str]:
        amount = Decimal(0)
        while amount <= self._highest:
            y = self._y(amount)
            yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{_RIGHT}"/>'
            yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{short_amount(int(amount))}</text>'
            amount += self._unit
        length, form = _TICKS[self._span]
        for moment in range(self._start // length * length + length, self._end, length):
            x, label = self._x(moment), _at(moment, form)
            yield f'<path class="grid" d="M{x:.1f} {_BOTTOM}v5"/>'
            yield f'<text class="tick" x="{x:.1f}" y="{_BOTTOM + 18}" text-anchor="middle">{label}</text>'
        if self._runway.min_balance:
            y = self._y(self._runway.min_balance)
            yield f'<path class="minimum" d="M{_LEFT} {y:.1f}H{_RIGHT}"/>'
            yield f'<text x="{_RIGHT}" y="{y - 4:.1f}" text-anchor="end">minimum</text>'

    def _line(self) -> str:
        """Interrupted where no balance is known."""
        pieces, drawn = [], False
        for moment, balance in self._points():
            if balance is not None:
                pieces.append(f"{'L' if drawn else 'M'}{self._x(moment):.1f} {self._y(balance):.1f}")
            drawn = balance is not None
        return " ".join(pieces)

    def _points(self) -> Iterable[tuple[int, int | None]]:
        return ((_moment(each.at), each.balance) for each in self._history.points)

    def _forecast(self) -> Iterator[str]:
        """As much an hour as the forecast says, until the balance is used up."""
        spent, balance = self._runway.spent_per_hour, self._runway.balance
        if spent and balance is not None:
            until = min(self._end, self._now + balance * 3600 // spent)
            left = max(0, balance - spent * (until - self._now) // 3600)
            start = f"{self._x(self._now):.1f} {self._y(balance):.1f}"
            yield f'<path class="forecast" d="M{start}L{self._x(until):.1f} {self._y(left):.1f}"/>'
            minimum = self._y(self._runway.min_balance) if self._runway.min_balance else 0
            low = _BOTTOM - 4 if minimum < _BOTTOM - _LINE else minimum - 4 - _LINE  # above the word at the minimum
            yield f'<text x="{_RIGHT}" y="{low:.1f}" text-anchor="end">forecast</text>'

    def _top_ups(self) -> Iterator[str]:
        for each in self._history.top_ups:
            x = self._x(_moment(each.at))
            yield f'<path class="top-up" d="M{x:.1f} {_BOTTOM - 8}l5 8h-10z"/>'

    def _values(self, symbol: Markup) -> Iterator[str]:
        """An area around each point, in which a style shows its text."""
        step = (self._now - self._start) / max(1, len(self._history.points) - 1)
        width = step / (self._end - self._start) * (_RIGHT - _LEFT)
        added = {_moment(each.at): each.amount for each in self._history.top_ups}
        for moment, balance in self._points():
            received = sum(amount for at, amount in added.items() if moment - step < at <= moment)
            text = "not known" if balance is None else f"{short_amount(balance)} {symbol}"
            more = f", top-up {short_amount(received)}" if received else ""
            at = _at(moment, "%b %d %H:%M")
            yield (
                f'<g class="at"><rect x="{self._x(moment) - width / 2:.1f}" y="{_TOP}" width="{width:.1f}"'
                f' height="{_BOTTOM - _TOP}"/><text x="{_LEFT}" y="12">{at}: {text}{more}</text></g>'
            )


def attempts_chart(hours: Sequence[Hour]) -> Markup:
    """Attempts in each hour as bars: those that arrived, and on top of them those that failed. Empty without any."""
    highest = max(each.arrived + each.failed for each in hours)
    return Markup("").join(map(Markup, _bars(hours, highest))) if highest else Markup("")


def _bars(hours: Sequence[Hour], highest: int) -> Iterator[str]:
    step, height = (_RIGHT - _LEFT) / len(hours), _LOW - _TOP
    yield f'<svg class="chart" viewBox="0 0 {_WIDTH} {_LOW + 26}" role="img" aria-label="Attempts in each hour">'
    yield f'<text x="4" y="12">attempts an hour</text>{_ZONE}'
    yield f'<path class="grid" d="M{_LEFT} {_TOP}H{_RIGHT}M{_LEFT} {_LOW}H{_RIGHT}"/>'
    yield f'<text x="{_LEFT - 6}" y="{_TOP + 4}" text-anchor="end">{highest:,}</text>'
    yield f'<text x="{_LEFT - 6}" y="{_LOW + 4}" text-anchor="end">0</text>'
    for number, each in enumerate(hours):
        x, top, at = _LEFT + number * step, float(_LOW), _at(each.start, "%H:%M")
        for word, count in (("arrived", each.arrived), ("failed", each.failed)):
            tall = count / highest * height
            top -= tall
            yield f'<rect class="{word}" x="{x + 2:.1f}" y="{top:.1f}" width="{step - 4:.1f}" height="{tall:.1f}"/>'
        if number % 4 == 0:
            yield f'<text x="{x + step / 2:.1f}" y="{_LOW + 18}" text-anchor="middle">{at}</text>'
        yield (
            f'<g class="at"><rect x="{x:.1f}" y="{_TOP}" width="{step:.1f}" height="{height}"/>'
            f'<text x="{_LEFT}" y="12">{at}: {each.arrived:,} arrived, {each.failed:,} failed</text></g>'
        )
    yield "</svg>"


def _nice(least: Decimal) -> Decimal:
    """The least of 1, 2 and 5 with any number of zeros that is at least so much."""
    power = Decimal(10) ** least.adjusted()
    return next(power * each for each in (1, 2, 5, 10) if power * each >= least)


def _at(moment: int, form: str) -> str:
    """In UTC; a script writes it in local time for whoever wants that."""
    return f'<tspan data-at="{moment}">{datetime.fromtimestamp(moment, UTC).strftime(form)}</tspan>'


def _moment(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())
