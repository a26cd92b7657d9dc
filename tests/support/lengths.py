"""How often a slow proof repeats what it does: often by hand, and less often in CI, where it checks the same things."""

import os

_IS_SHORT = os.environ.get("PROOFS") == "short"


def times(usual: int, *, short: int, setting: str = "") -> int:
    """`setting`: an environment variable that sets any other number."""
    return int(os.environ.get(setting) or (short if _IS_SHORT else usual))
