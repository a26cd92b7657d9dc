"""Every example in the client's docstrings and on its reference page runs against a real service, and is right."""

import doctest
from collections.abc import Iterator

import pytest

from pages import client_examples
from relaydeck.client import Admin, AsyncClient, Client, Retry, verify_webhook
from relaydeck.client.clients import ContractOperations
from tests.client.conftest import serve
from tests.support.running import Running

TRANSACTION = (
    "0x02f283aa36a7808459682f008504a817c80082520894d8da6bf26964af9d7eed9e03e53415d37aa9604587038d7ea4c6800080c0"
)
DOCUMENTED: dict[str, list[object]] = {
    "contract": list(vars(ContractOperations).values()),
    "request": [Admin.request],
    "clients": [Client, AsyncClient],
    "others": [Retry, verify_webhook],
}
EXAMPLES = {part: [each.__doc__ or "" for each in documented] for part, documented in DOCUMENTED.items()}
EXAMPLES["admin"] = [client_examples.PAGE.read_text("utf-8").replace("```", "")]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serve(tmp_path_factory.mktemp("examples") / "home") as running:
        yield running


@pytest.mark.parametrize("part", EXAMPLES)
def test_examples_print_what_they_say(service: Running, part: str) -> None:
    url = f"http://127.0.0.1:{service.port}"
    with Client(url, service.token) as client:
        names = {"client": client, "URL": url, "TOKEN": service.token, "TRANSACTION": TRANSACTION, "Retry": Retry}
        for each in EXAMPLES[part]:
            example = doctest.DocTestParser().get_doctest(each, names, part, None, None)
            report: list[str] = []
            doctest.DocTestRunner(verbose=False).run(example, out=report.append, clear_globs=False)
            assert not report, "".join(report)


def test_every_operation_has_an_example() -> None:
    operations = [each for each in vars(ContractOperations).values() if hasattr(each, "__wrapped__")]
    assert len(operations) > 5
    assert [each.__name__ for each in operations if ">>> " not in each.__doc__] == []
