"""A plain bar chart of ratios, as an SVG that reads well on light and on dark pages."""

from collections.abc import Sequence
from html import escape

from bench.rows import Row

_WIDTH, _LEFT, _BAR, _STEP, _TOP = 960, 500, 300, 30, 64

_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600 } .against { fill: #6e7781; font-size: 11px }
.reached { fill: #2da44e } .missed { fill: #cf222e } .plain { fill: #8c959f }
.goal { stroke: #24292f; stroke-width: 1.5; stroke-dasharray: 4 3 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .against { fill: #9198a1 } .goal { stroke: #e6edf3 }
  .reached { fill: #3fb950 } .missed { fill: #f85149 } .plain { fill: #6e7681 }
}
"""


def chart(rows: Sequence[Row]) -> str:
    """Rows with a goal, each on the scale of its goal; then the others, on one scale of their own."""
    measured = [row for row in rows if row.ratio is not None]
    goals = [row for row in measured if row.goal]
    others = [row for row in measured if not row.goal]
    second = _TOP + len(goals) * _STEP + 60
    height = second + len(others) * _STEP + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<title>Ratios against their goals</title><style>{_STYLE}</style>",
        *_panel("With a goal (dashed)", goals, _TOP, [_goal_of(row) for row in goals]),
        *_panel("For comparison (dashed: equal)", others, second, [1.0] * len(others)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _goal_of(row: Row) -> float:
    return row.at_most if row.at_most is not None else row.at_least or 1.0


def _panel(title: str, rows: Sequence[Row], top: int, units: Sequence[float]) -> list[str]:
    """Bars; the dashed line is one unit."""
    if not rows:
        return []
    lengths = [row.ratio.middle / unit for row, unit in zip(rows, units, strict=True) if row.ratio is not None]
    scale = _BAR / max(1.6, *lengths)
    line = _LEFT + scale
    bottom = top + len(rows) * _STEP
    parts = [f'<text class="title" x="16" y="{top - 24}">{escape(title)}</text>']
    for number, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        parts += _bar(row, top + number * _STEP, max(length, 0) * scale)
    return [*parts, f'<line class="goal" x1="{line:.1f}" y1="{top - 12}" x2="{line:.1f}" y2="{bottom - 4}"/>']


def _bar(row: Row, y: int, length: float) -> list[str]:
    kind = {True: "reached", False: "missed", None: "plain"}[row.reached]
    label = f"{row.shown} {f'(goal {row.goal})' if row.goal else ''}".strip()
    against = escape(_short(f"{row.measure}, against {row.against}"))
    return [
        f'<text x="{_LEFT - 10}" y="{y + 5}" text-anchor="end">{escape(row.what)}</text>',
        f'<text class="against" x="{_LEFT - 10}" y="{y + 18}" text-anchor="end">{against}</text>',
        f'<rect class="{kind}" x="{_LEFT}" y="{y - 6}" width="{length:.1f}" height="18" rx="2"/>',
        f'<text x="{_LEFT + max(length, 4) + 8:.1f}" y="{y + 8}">{escape(label)}</text>',
    ]


def _short(text: str) -> str:
    return text if len(text) <= 84 else text[:83] + "…"
