"""A database knows which steps built it, and is not used by a program that has others."""

from pathlib import Path

import pytest

from relaydeck.errors import OperatorError
from relaydeck.store.database import Database
from relaydeck.store.migrate import Step, migrate, newest_version, schema_version, steps
from tests.store.conftest import Connect
from tests.support.statements import column


def checksums(database: Database) -> list[str | None]:
    return column(database, "SELECT checksum FROM schema_versions ORDER BY version")


def with_changed_step(version: int, script: str) -> list[Step]:
    return [Step(version, script) if step.version == version else step for step in steps()]


def test_each_applied_step_is_stored_with_its_checksum(database: Database) -> None:
    assert checksums(database) == [step.checksum for step in steps()]


def test_steps_applied_before_checksums_existed_are_recorded_at_the_next_start(connect: Connect) -> None:
    database = connect()
    with database.migration() as execute:
        execute("UPDATE schema_versions SET checksum = NULL WHERE version < 6")
    connect()
    assert checksums(database) == [step.checksum for step in steps()]


def test_a_changed_step_is_refused_and_nothing_changes(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    before = checksums(database)
    changed = with_changed_step(4, "CREATE TABLE troubles (other TEXT)")
    monkeypatch.setattr("relaydeck.store.migrate.steps", lambda: changed)
    with pytest.raises(OperatorError) as error:
        migrate(database)
    assert str(error.value) == (
        "migration step 4 of this program differs from the one that built the database\n"
        "Install an unmodified Relaydeck of the version that the database was last used with."
    )
    assert checksums(database) == before


def test_a_changed_step_is_refused_before_a_new_one_is_applied(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = [*with_changed_step(1, "SELECT 1"), Step(newest_version() + 1, "CREATE TABLE later (id INT)")]
    monkeypatch.setattr("relaydeck.store.migrate.steps", lambda: changed)
    with pytest.raises(OperatorError, match="migration step 1 of this program differs"):
        migrate(database)
    assert (database.has_table("later"), schema_version(database)) == (False, steps()[-1].version)


def test_a_comment_or_a_line_break_may_change(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    reworded = [Step(step.version, f"-- said differently\n{step.script}\n\n") for step in steps()]
    monkeypatch.setattr("relaydeck.store.migrate.steps", lambda: reworded)
    assert migrate(database) == newest_version()


def test_the_released_steps_are_as_they_were_released() -> None:
    """A failure here means that every database in use would be refused: add a new step instead."""
    released = Path(__file__).with_name("released_steps.txt").read_text("utf-8").split()
    assert [step.checksum for step in steps()][: len(released)] == released
