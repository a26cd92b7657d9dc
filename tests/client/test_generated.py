"""The generated parts of the client are those of the present operations and records."""

import inspect
from types import ModuleType

import pytest

from pages import client_examples, client_methods, client_records
from relaydeck.api.operations import OPERATIONS
from relaydeck.client import records


@pytest.mark.parametrize(
    "generator", [client_records, client_methods, client_examples], ids=["records", "methods", "examples"]
)
def test_a_generated_file_is_current(generator: ModuleType) -> None:
    assert generator.PAGE.read_text("utf-8") == generator.page(), "run make docs"


def test_every_operation_has_an_example() -> None:
    """A problem, a proposal, and a delivery that can be replayed, take longer to come about."""
    problems = {"list_problems", "acknowledge_problem", "reopen_problem"}
    proposals = {f"{verb}_proposal" for verb in ("get", "approve", "reject", "withdraw", "force")} | {
        "delete_protection"
    }
    assert {each.name for each in OPERATIONS} - client_examples.EXAMPLES.keys() == {
        "replay_delivery",
        *problems,
        *proposals,
    }
    assert client_examples.EXAMPLES.keys() <= {each.name for each in OPERATIONS}


def test_a_repr_masks_what_may_be_secret() -> None:
    url = records.RpcUrl(url="https://user:word@node.example.com/key?key=other")
    assert repr(url) == "RpcUrl(url='https://node.example.com/…', weight=1)"
    fields = dict.fromkeys(each for each in records.NewToken.__struct_fields__ if each not in ("name", "kind", "token"))
    token = records.NewToken(name="ci", kind="api", token="rdk_x", **fields)  # type: ignore[arg-type]
    assert repr(token) == "NewToken(name='ci', kind='api', token='***')"


def test_generated_methods_say_what_they_take_and_return() -> None:
    from relaydeck.client import Admin

    signature = inspect.signature(Admin.list_relayers)
    assert str(signature.parameters["state"]) == "state: Optional[Literal['active', 'paused', 'disabled']] = None"
    assert str(signature.return_annotation) == "relaydeck.client.calls.Page[relaydeck.client.records.Relayer]"


def test_a_change_documents_its_reason_as_the_table_of_operations_does() -> None:
    from relaydeck.client import Admin

    for each in OPERATIONS:
        reasons = [f"`reason`: {parameter.description}" for parameter in each.query if parameter.name == "reason"]
        documented = inspect.getdoc(getattr(Admin, each.name)) or ""
        assert [line for line in documented.splitlines() if line.startswith("`reason`")] == reasons, each.name
