"""Requests made up from the OpenAPI document, good and bad, against a running service.

Every check of schemathesis is on: no 5xx, documented statuses, content types, headers and bodies, good
requests accepted, bad ones refused, credentials asked for, methods that do not exist refused.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import load_all_checks
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.pytest._test_builder import build_operation_test

from relaydeck.contract.openapi import document
from tests.conftest import DEMO
from tests.contract.promises import closed
from tests.running import Running, make_token, run_command

pytestmark = pytest.mark.prove  # to make requests up takes longer than to answer them
EXAMPLES = 60


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service for this module alone: the generated requests create many signers."""
    home = tmp_path_factory.mktemp("asked") / "home"
    done = run_command(home, "apply", "-", stdin=DEMO)
    assert done.returncode == 0, done.stderr
    with Running(home, token=make_token(home, "tests"), rate_limit_per_second="0") as running:
        yield running


def askable() -> dict[str, Any]:
    """The document without the header for revisions: which of them there are, only the service knows."""
    described: dict[str, Any] = closed(document())
    for operations in described["paths"].values():
        for operation in operations.values():
            kept = [each for each in operation.get("parameters", []) if each["name"] != "Relaydeck-Min-Revision"]
            operation["parameters"] = kept
    return described


schema = schemathesis.openapi.from_dict(askable())
# The credential is given below, and asking without one is a check of its own. Query names that are not
# described are ignored by ruling, so a request with one is not a bad request.
schema.config.generation.with_security_parameters = False
schema.config.generation.allow_extra_parameters = False


OPERATIONS = [f"{method.upper()} {path}" for path, methods in schema.raw_schema["paths"].items() for method in methods]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_made_up_requests_are_answered_as_documented(operation: str, asked: Running) -> None:
    """Its requests are made up here: `schema.parametrize` makes them up while pytest collects, in every process."""

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    def check(case: "schemathesis.Case[Any]") -> None:
        case.call_and_validate(
            base_url=f"http://127.0.0.1:{asked.port}", headers={"Authorization": f"Bearer {asked.token}"}
        )

    found = schema.find_operation_by_label(operation)
    assert found is not None
    load_all_checks()
    build_operation_test(
        config=schema.config, operation=found, test_func=check, given_kwargs={}, feedback=FeedbackSources()
    )()
