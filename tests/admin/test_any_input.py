"""Whatever is sent, the answer is a success or one of the described refusals: never a failure of the service."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pages.openapi.admin_schemas import examples
from tests.admin.conftest import Admin, problem
from tests.conftest import DEMO
from tests.support.running import Running, run_command
from tests.support.seeding import issue

scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**300) | st.floats(allow_nan=False) | st.text(max_size=8)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner))
EXAMPLES = examples()
FIELDS = sorted({field for example in EXAMPLES.values() for field in example} | {"env", "file", "weight", "url"})


@st.composite
def documents(draw: st.DrawFn) -> Any:
    """An example with some fields replaced by anything."""
    document = dict(EXAMPLES[draw(st.sampled_from(sorted(EXAMPLES)))])
    for field in draw(st.lists(st.sampled_from(FIELDS), max_size=3)):
        document[field] = draw(values | st.sampled_from([document.get(each, {}) for each in FIELDS]))
    return document


TARGETS = [
    ("POST", "networks"),
    ("POST", "signers"),
    ("POST", "notifications"),
    ("POST", "relayers"),
    ("POST", "tokens"),
    ("PATCH", "networks/sepolia"),
    ("PATCH", "notifications/pager"),
    ("PATCH", "relayers/sepolia-1"),
]


@pytest.fixture(scope="module")
def anything(tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = tmp_path_factory.mktemp("anything") / "home"
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    with Running(home, token=issue(home, "root", "admin")) as running:
        yield Admin(running)


@given(target=st.sampled_from(TARGETS), document=documents() | values)
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_document_breaks_it(anything: Admin, target: tuple[str, str], document: Any) -> None:
    answer = anything.ask(*target, document)
    assert answer.status in (200, 201, 400, 409), (answer.status, document)
    if answer.status == 400:
        assert problem(answer)[1] == "Bad Request"
        assert answer.headers["relaydeck-reason"]


@pytest.mark.parametrize(
    "body",
    [
        b'{"name": ' + b"[" * 300 + b"]" * 300 + b"}",
        b'{"policies": ' + b'{"a": ' * 17 + b"1" + b"}" * 17 + b"}",
        b'{"name": "\\ud800"}',
        b'{"policies": {"min_balance": ' + b"9" * 5000 + b"}}",
        b'{"policies": {"min_balance": 1e400}}',
        b'{"name": "\xff"}',
        b'{"name": "a\\u0000b"}',
    ],
)
def test_odd_bodies(anything: Admin, body: bytes) -> None:
    answer = anything.ask("PATCH", "relayers/sepolia-1", body)
    assert problem(answer) == (400, "Bad Request")


@given(query=st.text(alphabet="abcdefghijklmnopqrstuvwxyz=&%0123456789_", max_size=40))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_query_breaks_it(anything: Admin, query: str) -> None:
    for path in ("relayers", "audit", "events", "tokens"):
        assert anything.ask("GET", f"{path}?{query}").status in (200, 400)


def test_the_chain_still_holds(anything: Admin) -> None:
    assert run_command(anything.running.home, "audit", "verify").returncode == 0
