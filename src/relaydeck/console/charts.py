"""Charts, drawn on the server as SVG without styles of their own."""

from collections.abc import Sequence

from markupsafe import Markup

_WIDTH, _HEIGHT, _MARGIN = 600, 120, 4


def line(amounts: Sequence[int | None], label: str) -> Markup:
    """Amounts at equal steps. A step that is not known interrupts the line. Empty when there is nothing to draw."""
    known = [each for each in amounts if each is not None]
    if len(known) < 2:
        return Markup("")
    low, high = min(known), max(known)
    path = " ".join(_piece(amounts, number, low, high) for number in range(len(amounts)))
    return Markup(
        '<svg class="spark" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<path d="{}"/></svg>'
    ).format(_WIDTH, _HEIGHT, label, path)


def _piece(amounts: Sequence[int | None], number: int, low: int, high: int) -> str:
    amount = amounts[number]
    if amount is None:
        return ""
    across = number * _WIDTH / max(1, len(amounts) - 1)
    share = (amount - low) / (high - low) if high > low else 0.5
    down = _MARGIN + (1 - share) * (_HEIGHT - 2 * _MARGIN)
    starts = number == 0 or amounts[number - 1] is None
    return f"{'M' if starts else 'L'}{across:.1f} {down:.1f}"
