"""Runs the model of `test_model.py` again and again, each time with another seed."""

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_ROOT = Path(__file__).parents[3]
_TEST = "tests/proofs/explore/test_model.py"


class ModelRun(NamedTuple):
    seed: int
    output: str
    passed: bool

    def __str__(self) -> str:
        return f"model, --hypothesis-seed={self.seed}: {'as the service' if self.passed else self.output}"


def run_models(seed: int, end: float) -> Iterator[ModelRun]:
    """Until the monotonic clock reaches `end`. A run that has begun is finished."""
    dice = random.Random(seed)
    while time.monotonic() < end:
        yield _run(dice.randrange(1 << 32))


def _run(seed: int) -> ModelRun:
    command = [sys.executable, "-m", "pytest", "-q", "-m", "prove", f"--hypothesis-seed={seed}", _TEST]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    return ModelRun(seed, done.stdout + done.stderr, done.returncode == 0)
