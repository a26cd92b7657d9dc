"""Whether the home has data. Only few commands create a home, and they say so."""

from contextlib import closing
from pathlib import Path

from relaydeck.cli.output import print_note
from relaydeck.errors import OperatorError
from relaydeck.settings import Settings
from relaydeck.store.engines import open_reader_at
from relaydeck.store.master_key import read_master_key
from relaydeck.store.migrate import schema_version
from relaydeck.store.open_store import Store, open_store


def has_data(settings: Settings) -> bool:
    """Whether the configured database exists and has a schema. Creates nothing."""
    if isinstance(settings.database, Path) and not settings.database.exists():
        return False
    with closing(open_reader_at(settings.database)) as reader:
        return schema_version(reader) > 0


def require_data(settings: Settings) -> None:
    """Raises OperatorError rather than create a database or a master key that the command did not mean to make."""
    if not has_data(settings):
        raise OperatorError(
            f"there is no Relaydeck data at {settings.database}",
            "Create it with 'relaydeck serve' or 'relaydeck apply', or choose another home with --home or"
            " RELAYDECK_HOME.",
        )
    read_master_key(settings.master_key_path)


def open_or_create(settings: Settings) -> Store:
    """Announces what it creates: in the wrong folder, a command would otherwise seem to succeed."""
    has_key, is_new = settings.master_key_path.exists(), not has_data(settings)
    if has_key:
        read_master_key(settings.master_key_path)  # an unusable one is refused before anything is created
    store = open_store(settings)
    if is_new:
        created = f"database at {settings.database}" if has_key else f"home in {settings.home.absolute()}"
        print_note(f"relaydeck: created a new {created}")
    return store
