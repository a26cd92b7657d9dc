"""`relaydeck db move`."""

import sys

from relaydeck.cli.backup import require_there
from relaydeck.cli.progress import watched
from relaydeck.database_url import DatabaseUrl
from relaydeck.errors import OperatorError
from relaydeck.settings import read_settings
from relaydeck.store.copying import move as moving
from relaydeck.store.open_store import open_for_filling


def move(to: str) -> None:
    settings = read_settings()
    require_there(settings.database)
    url = _read(sys.stdin.readline().strip() if to == "-" else to)
    with open_for_filling(settings.home, url.sqlite_path or url) as target:
        loaded = moving.move(settings.database, target, watched)
    kept = f" ({loaded.kept} tables were there already)" if loaded.kept else ""
    sys.stdout.write(
        f"moved {len(loaded.contents)} tables, {loaded.rows} rows to {url}{kept}; read back, all the same\n"
    )
    sys.stderr.write(
        "Now set RELAYDECK_DATABASE_URL to it and start the service. The master key file stays where it is:"
        f" {settings.master_key_path}. What was at {settings.database} is still there; put it away.\n"
    )


def _read(text: str) -> DatabaseUrl:
    try:
        return DatabaseUrl(text)
    except ValueError as error:
        # Not what was given: it may hold a password.
        raise OperatorError(f"--to must be {error}", "Nothing was changed.") from None
