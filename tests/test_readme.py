"""The tour has every operation, and every link on the first page leads to a file."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "README.md").read_text("utf-8")
TOUR = (ROOT / "docs" / "tour.md").read_text("utf-8")


def test_the_tour_has_every_operation() -> None:
    for path in ("/api/v1/relayers?", "/api/v1/signers ", "-X PATCH", "/rpc "):
        assert path in TOUR


def test_every_link_leads_somewhere() -> None:
    linked = {target.partition("#")[0] for target in re.findall(r"\]\(([^)]+)\)", PAGE) if "://" not in target}
    assert [target for target in sorted(linked) if not (ROOT / target).exists()] == []
