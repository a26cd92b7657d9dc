"""A script is split where a database would end a statement, and nowhere else."""

import pytest

from relaydeck.store.database import Database
from relaydeck.store.dialect import to_postgres_schema
from relaydeck.store.postgres import PostgresDatabase
from relaydeck.store.sql_script import statements
from tests.statements import column


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("", []),
        (" ;; ", []),
        ("A; B;", ["A", "B"]),
        ("A; B", ["A", "B"]),
        ("SELECT ';'; B", ["SELECT ';'", "B"]),
        ("SELECT 'it''s; one'; B", ["SELECT 'it''s; one'", "B"]),
        (r"SELECT E'it\'s; one'; B", [r"SELECT E'it\'s; one'", "B"]),
        ('SELECT "a;b"; B', ['SELECT "a;b"', "B"]),
        ("SELECT '--', '/*'; B", ["SELECT '--', '/*'", "B"]),
        ("A -- don't; stop\n; B", ["A", "B"]),
        ("A /* don't; stop */ C; B", ["A C", "B"]),
        ("A\n\n  C;\tB", ["A C", "B"]),
        ("SELECT 'two  spaces'", ["SELECT 'two  spaces'"]),
        ("SELECT CASE WHEN 1 THEN 2 END; B", ["SELECT CASE WHEN 1 THEN 2 END", "B"]),
        ("CREATE TABLE t (begin INT, trigger_at INT); B", ["CREATE TABLE t (begin INT, trigger_at INT)", "B"]),
        (
            "CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT CASE WHEN 1 THEN 2 END; DELETE FROM b; END; B",
            ["CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT CASE WHEN 1 THEN 2 END; DELETE FROM b; END", "B"],
        ),
        ("CREATE FUNCTION f() AS $$ a; -- b\n c $$; B", ["CREATE FUNCTION f() AS $$ a; -- b\n c $$", "B"]),
        ("DO $body$ $$;$$ ; $other$ ; $body$; B", ["DO $body$ $$;$$ ; $other$ ; $body$", "B"]),
    ],
)
def test_statements(script: str, expected: list[str]) -> None:
    assert list(statements(script)) == expected


SQLITE_TRIGGER = """
CREATE TRIGGER copy AFTER INSERT ON log BEGIN
    UPDATE log SET text = 'seen; ' || CASE WHEN NEW.text = '' THEN 'nothing' ELSE NEW.text END WHERE text = NEW.text;
END;
"""
POSTGRES_TRIGGER = """
CREATE FUNCTION copied() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE word TEXT := 'seen; ';  -- what's written
BEGIN
    NEW.text := word || CASE WHEN NEW.text = '' THEN 'nothing' ELSE NEW.text END;
    RETURN NEW;
END $$;
CREATE TRIGGER copy BEFORE INSERT ON log FOR EACH ROW EXECUTE FUNCTION copied();
"""


def test_a_trigger_in_a_script_works_on_each_database(database: Database) -> None:
    trigger = POSTGRES_TRIGGER if isinstance(database, PostgresDatabase) else SQLITE_TRIGGER
    script = f"CREATE TABLE log (text TEXT); {trigger} INSERT INTO log VALUES ('100 %: :name'); -- the end"
    with database.migration() as execute:
        for statement in statements(script):
            execute(statement)
    assert column(database, "SELECT text FROM log") == ["seen; 100 %: :name"]


def test_only_types_of_columns_get_a_collation() -> None:
    assert to_postgres_schema("CREATE TABLE t (a TEXT DEFAULT 'TEXT')") == (
        "CREATE TABLE t (a TEXT COLLATE \"C\" DEFAULT 'TEXT')"
    )
