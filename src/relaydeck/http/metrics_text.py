"""The Prometheus text format."""

from collections.abc import Iterator, Mapping

from relaydeck.http.metrics import BUCKETS_NS, METRICS, PREFIX, REQUESTS, Figures, LabelValues, Metric


def exposition(figures: Figures) -> str:
    """The metrics that have figures, in the order of their declarations."""
    lines = [line for metric in METRICS if metric in figures for line in _lines(metric, figures[metric])]
    return "\n".join(lines) + "\n"


def _lines(metric: Metric, found: int | Mapping[LabelValues, int | str | list[int]]) -> Iterator[str]:
    yield f"# HELP {PREFIX}{metric.name} {metric.help}"
    yield f"# TYPE {PREFIX}{metric.name} {metric.type}"
    names = (*metric.by, *metric.labels)
    for values, amount in {(): found}.items() if isinstance(found, int) else found.items():
        labels = [f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True)]
        if isinstance(amount, list):
            yield from _histogram(metric, labels, amount)
        elif amount or metric is not REQUESTS:
            yield _sample(metric.name, labels, amount)


def _escaped(value: str) -> str:
    """The value of a label, which may be a name from the database."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _histogram(metric: Metric, labels: list[str], cells: list[int]) -> Iterator[str]:
    *buckets, total_ns = cells
    if not any(buckets):
        return
    running = 0
    for bound, amount in zip((*(f"{ns / 1e9:g}" for ns in BUCKETS_NS), "+Inf"), buckets, strict=True):
        running += amount
        yield _sample(f"{metric.name}_bucket", [*labels, f'le="{bound}"'], running)
    yield _sample(f"{metric.name}_sum", labels, f"{total_ns / 1e9:.9f}")
    yield _sample(f"{metric.name}_count", labels, running)


def _sample(name: str, labels: list[str], value: int | str) -> str:
    shown = f"{{{','.join(labels)}}}" if labels else ""
    return f"{PREFIX}{name}{shown} {value}"
