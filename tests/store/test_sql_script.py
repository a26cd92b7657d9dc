"""A script is split where a database would end a statement, and nowhere else."""

import pytest

from relaydeck.store.database import Database
from relaydeck.store.migrate import statements
from relaydeck.store.postgres_connection import to_postgres_schema
from tests.support.statements import column


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("", []),
        (" ;; ", []),
        ("A; B;", ["A", "B"]),
        ("A; B", ["A", "B"]),
        ("SELECT ';'; B", ["SELECT ';'", "B"]),
        ("SELECT 'it''s; one'; B", ["SELECT 'it''s; one'", "B"]),
        ('SELECT "a;b"; B', ['SELECT "a;b"', "B"]),
        ("SELECT '--', 2; B", ["SELECT '--', 2", "B"]),
        ("A -- don't; stop\n; B", ["A", "B"]),
        ("A\n\n  C;\tB", ["A C", "B"]),
        ("SELECT 'two  spaces'", ["SELECT 'two  spaces'"]),
        ("SELECT CASE WHEN 1 THEN 2 END; B", ["SELECT CASE WHEN 1 THEN 2 END", "B"]),
        ("CREATE TABLE t (begin INT, trigger_at INT); B", ["CREATE TABLE t (begin INT, trigger_at INT)", "B"]),
    ],
)
def test_statements(script: str, expected: list[str]) -> None:
    assert list(statements(script)) == expected


def test_quoted_text_in_a_script_is_stored_as_it_is(database: Database) -> None:
    script = "CREATE TABLE log (text TEXT); INSERT INTO log VALUES ('100 %: :name; -- it''s'); -- the end"
    with database.migration() as execute:
        for statement in statements(script):
            execute(statement)
    assert column(database, "SELECT text FROM log") == ["100 %: :name; -- it's"]


def test_only_types_of_columns_get_a_collation() -> None:
    assert to_postgres_schema("CREATE TABLE t (a TEXT DEFAULT 'TEXT')") == (
        "CREATE TABLE t (a TEXT COLLATE \"C\" DEFAULT 'TEXT')"
    )
