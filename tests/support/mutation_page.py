"""`python -m tests.support.mutation_page [PATTERN …]`: writes what `mutmut run PATTERN …` found to `docs/mutation.md`.

Each row says when its module was tested, and has the digest of the code that was. Rows of other modules stay.
"""

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from typing import NamedTuple

from tests.support.provenance import ROOT, here_and_now, region, with_region

PAGE = ROOT / "docs" / "mutation.md"
REGION = "mutants"
SOURCE = ROOT / "src" / "relaydeck"
_RESULTS = (
    ROOT / "mutants" / "src" / "relaydeck"
)  # of mutmut: a file for each module, with an exit code for each mutant
_COLUMNS = ("module", "mutants", "detected", "survived", "measured", "code")
_DETECTED, _SURVIVED = (1, 3, 24, -24, 36, 152, 255), (0,)  # exit codes: a test failed or did not end; none did


class Tested(NamedTuple):
    module: str
    mutants: str
    detected: str
    survived: str
    measured: str
    code: str


def digest(module: str) -> str:
    """Of the source of a module such as `fees/exact`, without lines that are comments."""
    lines = (SOURCE / f"{module}.py").read_text("utf-8").splitlines()
    code = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    return hashlib.sha256(code.encode()).hexdigest()[:12]


def read_rows(page: str) -> dict[str, Tested]:
    lines = [line.strip("| ").split(" | ") for line in region(page, REGION).splitlines() if line.startswith("| `")]
    return {row.module: row for line in lines if (row := Tested(line[0].strip("`"), *line[1:]))}


def table(rows: Sequence[Tested]) -> str:
    lines = [_COLUMNS, ["---"] * len(_COLUMNS), *((f"`{row.module}`", *row[1:]) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def results(patterns: Sequence[str]) -> Iterator[Tested]:
    """Of the modules whose mutants were all tested."""
    for file in sorted(_RESULTS.rglob("*.py.meta")):
        codes: dict[str, int | None] = json.loads(file.read_text("utf-8"))["exit_code_by_key"]
        asked = [each for each in codes if any(fnmatch(each, pattern) for pattern in patterns or ["*"])]
        counts = Counter(codes.values())
        detected, survived = (sum(counts[code] for code in group) for group in (_DETECTED, _SURVIVED))
        if codes and len(asked) == detected + survived == len(codes):
            module = str(file.relative_to(_RESULTS)).removesuffix(".py.meta")
            mutants = f"{len(codes)}"
            yield Tested(module, mutants, f"{detected}", f"{survived}", here_and_now().short, digest(module))


def main(patterns: Sequence[str]) -> None:
    page = PAGE.read_text("utf-8")
    rows = read_rows(page) | {row.module: row for row in results(patterns)}
    PAGE.write_text(with_region(page, REGION, table([rows[module] for module in sorted(rows)])), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
