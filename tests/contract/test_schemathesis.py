"""Requests made up from both OpenAPI documents, good and bad, against a running service.

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
from schemathesis.specs.openapi.checks import positive_data_acceptance

from pages.openapi import admin, contract
from tests.conftest import DEMO
from tests.support.lengths import times
from tests.support.promises import closed
from tests.support.running import Running, make_token, run_command

pytestmark = [pytest.mark.prove, pytest.mark.parallel]  # to make requests up takes longer than to answer them
# What a schema cannot say, so that a request which fits it may still be refused.
BEYOND_SCHEMA = {
    **{f"GET /admin/v1/{path}": "the form of labels" for path in ("networks", "signers", "notifications", "relayers")},
    "GET /admin/v1/runways": "the form of labels",
    "GET /admin/v1/find": "that a text must be given",
    "GET /admin/v1/export": "that a record needs its resource",
    "GET /admin/v1/audit": "that a moment or a day exists",
    "POST /admin/v1/protections": "that a scope limits something",
    "POST /admin/v1/tokens": "that a burst needs a rate",
    "GET /admin/v1/relayers/{id}/balances": "how many steps a range may have",
    "POST /admin/v1/apply": "all that holds for each record of a file",
    "POST /admin/v1/networks": "that no two fee tokens have the same address",
    "POST /admin/v1/relayers": "the checksum of an address",
    "PATCH /admin/v1/relayers/{id}": "the checksum of an address",
    "POST /admin/v1/signers": "which fields a type has",
}
STATEFUL = {"Relaydeck-Min-Revision", "If-Match", "Idempotency-Key"}
EXAMPLES = {"api": times(60, short=20), "admin": times(15, short=6)}  # for each operation


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service for this module alone: the generated requests create many signers."""
    home = tmp_path_factory.mktemp("asked") / "home"
    done = run_command(home, "apply", "-", stdin=DEMO)
    assert done.returncode == 0, done.stderr
    with Running(home, token=make_token(home, "tests", "--kind", "admin"), rate_limit_per_second="0") as running:
        yield running


def askable(document: dict[str, Any]) -> dict[str, Any]:
    """The document without headers whose good values only the service knows: revisions, and keys that were not used."""
    described: dict[str, Any] = closed(document)
    for operations in described["paths"].values():
        for operation in operations.values():
            kept = [each for each in operation.get("parameters", []) if each["name"] not in STATEFUL]
            operation["parameters"] = kept
            for each in kept:
                if each.get("allowEmptyValue"):
                    each["schema"] = {"anyOf": [each["schema"], {"const": ""}]}
    return described


def schema_of(document: dict[str, Any]) -> Any:
    """The credential is given below, and asking without one is a check of its own.

    Under `/api/v1`, query names that are not described are ignored by ruling: a request with one is not a bad request.
    """
    schema = schemathesis.openapi.from_dict(askable(document))
    schema.config.generation.with_security_parameters = False
    schema.config.generation.allow_extra_parameters = False
    schema.config.checks.negative_data_rejection.expected_statuses.append("413")  # what is too large is not read
    return schema


SCHEMAS = {"api": schema_of(contract.document()), "admin": schema_of(admin.document())}
OPERATIONS = [
    (name, f"{method.upper()} {path}")
    for name, schema in SCHEMAS.items()
    for path, methods in schema.raw_schema["paths"].items()
    for method in methods
]


@pytest.mark.parametrize(("document", "operation"), OPERATIONS)
def test_made_up_requests_are_answered_as_documented(document: str, operation: str, asked: Running) -> None:
    """Its requests are made up here: `schema.parametrize` makes them up while pytest collects, in every process."""

    @settings(
        max_examples=EXAMPLES[document],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    def check(case: "schemathesis.Case[Any]") -> None:
        case.call_and_validate(
            base_url=f"http://127.0.0.1:{asked.port}",
            headers={"Authorization": f"Bearer {asked.token}"},
            excluded_checks=[positive_data_acceptance] if operation in BEYOND_SCHEMA else [],
        )

    schema = SCHEMAS[document]
    found = schema.find_operation_by_label(operation)
    assert found is not None
    load_all_checks()
    build_operation_test(
        config=schema.config, operation=found, test_func=check, given_kwargs={}, feedback=FeedbackSources()
    )()
