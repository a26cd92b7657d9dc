"""`docs/reference/metrics.md`, which `make docs` writes from the declarations of the metrics."""

from pathlib import Path

from relaydeck.http.metrics import METRICS, PREFIX, Metric

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "metrics.md"


def page() -> str:
    rows = [f"| `{PREFIX}{each.name}` | {each.type} | {_label_text(each)} | {each.help} |" for each in METRICS]
    return "\n".join(
        [
            "# Metrics",
            "",
            "`GET /metrics` returns these metrics in the Prometheus text format, summed over all processes of the",
            "service. It needs no credential; `RELAYDECK_OPERATIONS_ADDRESS` moves it to another port.",
            "",
            "`make docs` writes this page from the declarations in `src/relaydeck/http/metrics.py`; a test keeps it",
            "current.",
            "",
            "| metric | type | labels | meaning |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


_NAMES = {"actor": "name", "network": "name", "relayer": "id", "host": "host and port"}


def _label_text(metric: Metric) -> str:
    labels = [f"`{label}`: {', '.join(values)}" for label, values in metric.labels.items()]
    return "; ".join([*(f"`{each}`: its {_NAMES[each]}" for each in metric.by), *labels]) or "–"
