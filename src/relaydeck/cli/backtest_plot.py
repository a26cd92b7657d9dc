"""The plot of a backtest: how many estimates are off by how much."""

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from html import escape

_WIDEST = 10  # percent; what is further off is counted at the edge
_WIDTH, _HEIGHT, _BAR = 660, 260, 28


def plot(network: str, percents: Sequence[Decimal]) -> str:
    """An SVG document with a bar for each whole percent."""
    counts = Counter(max(-_WIDEST, min(_WIDEST, round(percent))) for percent in percents)
    highest = max(counts.values(), default=1)
    bars = "".join(_bar(percent, counts[percent], highest) for percent in range(-_WIDEST, _WIDEST + 1))
    title = f"Estimated against paid on {escape(network)}: {len(percents)} transactions, error in percent"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'font-size="11"><title>{title}</title><text x="20" y="20">{title}</text>{bars}</svg>\n'
    )


def _bar(percent: int, count: int, highest: int) -> str:
    x, height = 30 + (percent + _WIDEST) * _BAR, 180 * count // highest
    label = f'<text x="{x + 4}" y="{_HEIGHT - 12}">{percent:+d}</text>'
    if not count:
        return label
    top = _HEIGHT - 30 - height
    box = f'<rect x="{x}" y="{top}" width="{_BAR - 4}" height="{height}" fill="#3564c4"/>'
    return f'{label}{box}<text x="{x + 4}" y="{top - 4}">{count}</text>'
