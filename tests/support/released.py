"""The artifacts of a release. `make release` has the tests use those in place of builds of their own."""

import os
from pathlib import Path


def released(pattern: str = "") -> Path | None:
    """The artifact in the folder that RELEASED names, or the folder; None: a test builds what it needs."""
    if folder := os.environ.get("RELEASED"):
        return next(Path(folder).glob(pattern)) if pattern else Path(folder)
    return None
