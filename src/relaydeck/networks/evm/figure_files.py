"""The figures of nodes of all workers: each worker writes its own to a file, and whoever reads them adds them up."""

import os
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from relaydeck.networks.evm.node import Fault
from relaydeck.networks.evm.node_figures import NodeFigures

_FRESH_SECONDS = 15.0  # a file that is older belongs to a worker that has ended
_decode = msgspec.json.Decoder(NodeFigures).decode


def write_figures(folder: Path, figures: NodeFigures) -> None:
    """A disk that is full costs the figures, not the service."""
    path = folder / f"nodes-{os.getpid()}"
    fresh = path.with_suffix(".new")
    with suppress(OSError):
        fresh.write_bytes(msgspec.json.encode(figures))
        fresh.replace(path)


def read_figures(folder: Path) -> NodeFigures:
    found = NodeFigures(hosts={})
    for path in sorted(folder.glob("nodes-*")):
        with suppress(OSError, msgspec.MsgspecError):  # it may have been removed
            if path.suffix:
                continue
            if time.time() - path.stat().st_mtime > _FRESH_SECONDS:
                path.unlink()
                continue
            found.add(_decode(path.read_bytes()))
    return found


def read_faults(folder: Path) -> dict[str, Fault]:
    """What last went wrong with each URL, in any worker; by `fault_key`."""
    return read_figures(folder).faults
