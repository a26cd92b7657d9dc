"""Every example in the client's docstrings runs against a real service and prints what it says."""

import doctest
from collections.abc import Iterator
from types import ModuleType

import pytest

from relaydeck.client import Client, admin, asynchronous, blocking, contract, retries, webhooks
from tests.client.conftest import serve
from tests.running import Running

TRANSACTION = (
    "0x02f283aa36a7808459682f008504a817c80082520894d8da6bf26964af9d7eed9e03e53415d37aa9604587038d7ea4c6800080c0"
)
MODULES = [contract, admin, blocking, asynchronous, retries, webhooks]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serve(tmp_path_factory.mktemp("examples") / "home") as running:
        yield running


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_examples_print_what_they_say(service: Running, module: ModuleType) -> None:
    url = f"http://127.0.0.1:{service.port}"
    with Client(url, service.token) as client:
        names = {
            "client": client,
            "URL": url,
            "TOKEN": service.token,
            "TRANSACTION": TRANSACTION,
            "Retry": retries.Retry,
        }
        found = doctest.DocTestFinder(exclude_empty=True).find(module, globs=names)
        found = [each for each in found if each.examples]
        assert found
        for example in sorted(found, key=lambda each: each.lineno or 0):
            runner = doctest.DocTestRunner(verbose=False)
            report: list[str] = []
            runner.run(example, out=report.append)
            assert not report, "".join(report)


@pytest.mark.parametrize("module", [contract, admin], ids=["contract", "admin"])
def test_every_operation_has_an_example(module: ModuleType) -> None:
    operations = [each for name, each in vars(module).items() if getattr(each, "__module__", "") == module.__name__]
    public = [each for each in operations if callable(each) and not each.__name__.startswith("_")]
    assert len(public) >= 8
    assert [each.__name__ for each in public if ">>> " not in (each.__doc__ or "")] == []
