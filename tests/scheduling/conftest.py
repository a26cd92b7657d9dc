"""A test with a `database` runs on every database, as those of the store do."""

from tests.store.conftest import connect, database, home

__all__ = ["connect", "database", "home"]
