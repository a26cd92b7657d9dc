"""A request that fails because of the database says so in the log, and does not blame the service."""

import json
import shutil
from pathlib import Path

from tests.support.running import Running, make_token


def test_a_read_of_a_database_that_is_replaced_is_logged_with_its_reason(tmp_path: Path) -> None:
    home = tmp_path / "home"
    token, file = make_token(home, "ops", "--kind", "admin"), home / "relaydeck.db"
    with Running(home, token=token) as running:
        shutil.copy(file, home / "copy.db")
        file.rename(home / "elsewhere.db")
        (home / "copy.db").rename(file)
        assert running.ask("GET", "/admin/v1/tokens").status == 500
        running.stop()
    (line,) = [json.loads(each) for each in running.log.splitlines() if '"error"' in each]
    assert (line["event"], line["reason"]) == (
        "a request failed: run 'relaydeck doctor' to check disk and database",
        f"the database failed: the database file {file} was deleted or replaced: put it back and restart Relaydeck",
    )
