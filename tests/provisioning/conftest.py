"""A home with its real database, and what the tests of this folder do with it."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from relaydeck.errors import MistakenDocument
from relaydeck.provisioning.apply import Apply
from relaydeck.provisioning.mistakes import Mistake
from relaydeck.provisioning.plan import Plan, Step
from relaydeck.provisioning.references import Resolver
from relaydeck.store.sealed_columns import SEALED_COLUMNS
from relaydeck.store.sealing import Place
from tests.support.declared import read_file, run_apply
from tests.support.places import ENGINES
from tests.support.seeding import open_home

KEY = "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
URL = ("sealed_url", "url_version")
DECLARABLE = ("networks", "signers", "notifications", "relayers")
ADDRESS = "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"  # of KEY, from the documentation of another library
OTHER_ADDRESS = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"

NETWORK = """
[networks.sepolia]
network_type = "evm"
chain_id = 11155111
native_symbol = "ETH"
rpc_urls = [{ url = "https://node.example/v1/node-key", weight = 1 }]
"""
SIGNER = f"""
[[signers]]
id = "ops"
type = "plain"
config = {{ key = "{KEY}" }}
"""
NOTIFICATION = """
[[notifications]]
id = "pager"
type = "webhook"
url = "https://hooks.example/relaydeck"
signing_key = "a-signing-key"
"""
RELAYER = """
[[relayers]]
id = "one"
name = "One"
network = "sepolia"
network_type = "evm"
signer_id = "ops"
notification_id = "pager"
custom_rpc_urls = [{ url = "https://own.example/?key=own-key", weight = 3 }]
[relayers.policies]
gas_price_cap = 100
"""
WHOLE = NETWORK + SIGNER + NOTIFICATION + RELAYER


class ProvisionedHome:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = open_home(folder)

    def _apply(self, text: str | bytes, environment: dict[str, str] | None, prune: bool, **making: Any) -> Apply:
        content = text if isinstance(text, bytes) else text.encode()
        file = read_file(content, Resolver(environment or {}, self.folder.parent))
        return Apply(self.store, file, prune, **making)

    def apply(
        self,
        text: str | bytes,
        *,
        environment: dict[str, str] | None = None,
        prune: bool = False,
        actor: str = "apply",
        **making: Any,
    ) -> Plan:
        return run_apply(self._apply(text, environment, prune, **making), actor)

    def plan(self, text: str | bytes, *, environment: dict[str, str] | None = None, prune: bool = False) -> Plan:
        with self.store.database.snapshot():
            return self._apply(text, environment, prune).make_plan()

    def mistakes(
        self, text: str | bytes, *, environment: dict[str, str] | None = None, prune: bool = False
    ) -> list[str]:
        """The messages for a file with mistakes; nothing may have changed."""
        before = self.revision
        found = self.mistakes_of(lambda: self.apply(text, environment=environment, prune=prune))
        assert self.revision == before
        return found

    def mistakes_of(self, apply: Callable[[], object]) -> list[str]:
        with pytest.raises(MistakenDocument) as refused:
            apply()
        return [str(Mistake(**each)) for each in refused.value.members["mistakes"]]

    def rows(self, sql: str) -> list[Any]:
        return self.store.database.read(sql)

    def write(self, sql: str, **values: Any) -> None:
        with self.store.database.transaction() as transaction:
            transaction.execute(sql, values)

    @property
    def revision(self) -> int:
        revision: int = self.rows("SELECT revision FROM clock")[0][0]
        return revision

    def state(self) -> dict[str, list[dict[str, Any]]]:
        """Everything that is stored and can be declared, secrets opened."""
        return {table: self._records(table) for table in DECLARABLE}

    def _records(self, table: str) -> list[dict[str, Any]]:
        cursor = self.store.database.reader.execute(f"SELECT * FROM {table} ORDER BY seq")  # type: ignore[attr-defined]
        names = [column[0] for column in cursor.description]
        records = [dict(zip(names, row, strict=True)) for row in cursor]
        for record in records:
            if record.get("sealed_url") is not None:
                place = Place(table, record["id"], "url", record["url_version"])
                record["url"] = self.store.vault.open(record["sealed_url"], place).decode()
            for undeclared in ("seq", "created_at", "revision", "sealed_previous_key", "previous_key_until", *URL):
                record.pop(undeclared, None)
            self._open(table, record, record.pop("secret_version"))
        return records

    def _open(self, table: str, record: dict[str, Any], version: int) -> None:
        (column,) = [each for each in SEALED_COLUMNS if each.table == table and each.column in record]
        if record[column.column] is not None:
            place = column.place(record[column.identity], version)
            record[column.column] = self.store.vault.open(record[column.column], place)


@pytest.fixture(params=ENGINES)
def provisioned(
    request: pytest.FixtureRequest, tmp_path: Path, lend: Callable[[Path, str], Path]
) -> Iterator[ProvisionedHome]:
    home = ProvisionedHome(lend(tmp_path / "home", request.param))
    with closing(home.store):
        yield home


def lines(steps: list[Step]) -> list[str]:
    """The steps of a plan in short: kind, resource, name and the fields that change."""
    return [
        f"{step.action.capitalize()} {step.resource} {step.name}"
        + "".join(f" | {each.name}: {each.before} -> {each.after}" for each in step.fields)
        for step in steps
    ]
