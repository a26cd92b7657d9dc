"""`relaydeck db move`."""

import sys

from relaydeck.cli.json_shapes import Copied
from relaydeck.cli.output import print_note, print_outcome, progress_bar
from relaydeck.database_url import DatabaseUrl
from relaydeck.errors import OperatorError
from relaydeck.settings import read_settings
from relaydeck.store.copying import move as copying
from relaydeck.store.copying.snapshot import require_database
from relaydeck.store.open_store import open_for_filling


def move(to: str, as_json: bool) -> None:
    settings = read_settings()
    require_database(settings.database)
    url = _parse(sys.stdin.readline().strip() if to == "-" else to)
    with open_for_filling(settings.home, url.sqlite_path or url) as target:
        loaded = copying.move(settings.database, target, progress_bar)
    kept = f" ({loaded.kept} tables had been moved before)" if loaded.kept else ""
    print_outcome(
        Copied(str(url), len(loaded.contents), loaded.rows, loaded.kept),
        as_json,
        f"moved {len(loaded.contents)} tables, {loaded.rows} rows to {url}{kept}; all read back equal",
    )
    print_note(
        "Set RELAYDECK_DATABASE_URL to the new database and start the service. It uses the same master key file,"
        f" {settings.master_key_path}. The old database, {settings.database}, is unchanged: archive or delete it."
    )


def _parse(text: str) -> DatabaseUrl:
    try:
        return DatabaseUrl(text)
    except ValueError as error:
        # The text itself is not quoted: it may contain a password.
        raise OperatorError(f"--to must be {error}", "Nothing was changed.") from None
