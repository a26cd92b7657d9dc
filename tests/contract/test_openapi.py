"""The OpenAPI document is valid, promises what the service does, and promises nothing else."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pages.openapi.contract import document as build_document
from pages.openapi.contract_schemas import rpc_errors, schemas
from relaydeck.api import wire
from relaydeck.fees.errors import RpcFailure
from relaydeck.signers.signer_types import SHAPES
from relaydeck.store.write_signal import WriteSignal
from tests.conftest import DEMO
from tests.support.promises import Json, Promises
from tests.support.running import Answer, Running, make_token, run_command

SIGNERS = "/api/v1/signers"
RELAYERS = "/api/v1/relayers"
NOTIFICATION = "/api/v1/notifications/{notification_id}"
RPC = "/api/v1/relayers/{relayer_id}/rpc"
UNKNOWN = "rdk_unknown"
THREE_MEBIBYTES = b'"' + b"a" * (3 << 20) + b'"'
CALL = {"jsonrpc": "2.0", "id": 1, "method": "feeEstimate", "params": {}}


@pytest.fixture(scope="module")
def promises(service: Running) -> Promises:
    return Promises(service.ask("GET", "/openapi.json", token="").json)


def served(home: Path, **settings: str) -> Running:
    done = run_command(home, "apply", "-", stdin=DEMO)
    assert done.returncode == 0, done.stderr
    return Running(home, token=make_token(home, "tests"), **settings)


@pytest.fixture(scope="module")
def hurried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service that allows one request a second."""
    home = tmp_path_factory.mktemp("hurried") / "home"
    with served(home, rate_limit_per_second="1", rate_limit_burst="1") as running:
        yield running


def used_up(hurried: Running, method: str, path: str, body: Any = None) -> Answer:
    """Asks until the allowance is used up, and gives the refusal."""
    answers = (hurried.ask(method, path, body) for _ in range(10))
    return next(answer for answer in answers if answer.status == 429)


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with a database that lacks a table every operation needs."""
    home = tmp_path_factory.mktemp("broken") / "home"
    with served(home, rate_limit_per_second="0") as running:
        with sqlite3.connect(home / "relaydeck.db") as database:
            database.execute("ALTER TABLE clock RENAME TO stopped_clock")
        database.close()
        WriteSignal(home / "run" / "write-signal").send(of_tokens=True)
        yield running


def holds(promises: Promises, method: str, path: str, answers: list[Answer], unseen: str = "") -> None:
    """Every answer is as documented, and every documented status is among them, but for the one that is unseen."""
    responses = promises.operation(method, path)["responses"]
    broken_promises = [problem for answer in answers if (problem := promises.kept(answer, responses))]
    assert broken_promises == []
    assert {str(answer.status) for answer in answers} == responses.keys() - {unseen}


def test_document_is_valid_openapi_3_1(promises: Promises) -> None:
    import schemathesis  # it takes long, and no other test of `make test` needs it

    assert promises.document["openapi"] == "3.1.0"
    schemathesis.openapi.from_dict(promises.document).validate()


def test_served_document_is_the_built_one(promises: Promises) -> None:
    assert promises.document == msgspec.json.decode(msgspec.json.encode(build_document()))


def test_every_wire_type_is_in_the_document() -> None:
    declared = {
        name
        for name, value in vars(wire).items()
        if isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__module__ == wire.__name__
    }
    assert {name for name in declared if not name.startswith("_")} <= schemas().keys()


def test_every_rpc_error_has_its_own_code_and_a_meaning() -> None:
    assert len(rpc_errors()) == len(RpcFailure.__subclasses__()) + 1
    assert {bool(message) and meaning.endswith(".") for message, meaning in rpc_errors().values()} == {True}


def test_secrets_are_marked_write_only() -> None:
    marked = {
        (name, field)
        for name, schema in schemas().items()
        for field, described in schema.get("properties", {}).items()
        if described.get("writeOnly") or any(each.get("writeOnly") for each in described.get("anyOf", ()))
    }
    assert marked == {
        ("LocalConfig", "key"),
        ("SecretStoreConfig", "role_id"),
        ("SecretStoreConfig", "secret_id"),
        ("TransitConfig", "role_id"),
        ("TransitConfig", "secret_id"),
        ("KeyServiceConfig", "api_private_key"),
        ("WalletServiceConfig", "api_key_secret"),
        ("WalletServiceConfig", "wallet_secret"),
        ("SecondKmsConfig", "key"),
        ("SecondKmsConfig", "service_account"),
        ("NotificationUpdate", "signing_key"),
    }


def examples_in(content: Json) -> list[Any]:
    return [each["value"] for each in content.get("examples", {}).values()] + [
        content[key] for key in ("example",) if key in content
    ]


def test_examples_are_as_their_schemas_say(promises: Promises) -> None:
    operations = [each for methods in promises.document["paths"].values() for each in methods.values()]
    bodies = [each["requestBody"] for each in operations if "requestBody" in each]
    bodies += [response for each in operations for response in each["responses"].values()]
    for body in bodies:
        for content in body["content"].values():
            for example in examples_in(content):
                promises.validator(content["schema"]).validate(example)


def test_request_examples_are_accepted(service: Running, promises: Promises) -> None:
    content = promises.operation("POST", SIGNERS)["requestBody"]["content"]["application/json"]
    sent = examples_in(content)
    assert {each["type"] for each in sent} == SHAPES.keys()
    for each in sent:
        assert service.ask("POST", SIGNERS, each | {"id": f"example-{each['type']}"}).status in (201, 409)


def test_create_signer_answers_as_documented(service: Running, broken: Running, promises: Promises) -> None:
    key = {"type": "plain", "config": {"key": "not a key"}}
    store = {
        "address": "x",
        "key_name": "k",
        "role_id": "r",
        "secret_id": "s",
        "mount_point": "m",
        "namespace": "n",
    }
    answers = [
        service.ask("POST", SIGNERS, key | {"id": "documented"}),
        service.ask("POST", SIGNERS, key | {"id": "documented"}),
        service.ask("POST", SIGNERS, {"type": "provider_c", "config": store}),
        service.ask("POST", SIGNERS, {"type": "plain"}),
        service.ask("POST", SIGNERS, key, token=UNKNOWN),
        service.ask("POST", SIGNERS, THREE_MEBIBYTES),
        broken.ask("POST", SIGNERS, key),
    ]
    holds(promises, "POST", SIGNERS, answers)


def test_list_signers_answers_as_documented(service: Running, broken: Running, promises: Promises) -> None:
    answers = [
        service.ask("GET", SIGNERS),
        service.ask("GET", SIGNERS + "?page=9&per_page=1001"),
        service.ask("GET", SIGNERS + "?page=-1"),
        service.ask("GET", SIGNERS, headers={"Authorization": "Basic eDp5"}),
        broken.ask("GET", SIGNERS),
    ]
    holds(promises, "GET", SIGNERS, answers)


def test_update_notification_answers_as_documented(service: Running, broken: Running, promises: Promises) -> None:
    path = NOTIFICATION.format(notification_id="pager")
    answers = [
        service.ask("PATCH", path, {}),
        service.ask("PATCH", path, {"url": "no URL"}),
        service.ask("PATCH", path, {}, token=UNKNOWN),
        service.ask("PATCH", NOTIFICATION.format(notification_id="nothing"), {}),
        service.ask("PATCH", path, THREE_MEBIBYTES),
        broken.ask("PATCH", path, {}),
    ]
    holds(promises, "PATCH", NOTIFICATION, answers)


def test_list_relayers_answers_as_documented(
    service: Running, broken: Running, hurried: Running, promises: Promises
) -> None:
    answers = [
        service.ask("GET", RELAYERS),
        service.ask("GET", RELAYERS + "?per_page=all"),
        service.ask("GET", RELAYERS, token=UNKNOWN),
        used_up(hurried, "GET", RELAYERS),
        broken.ask("GET", RELAYERS),
    ]
    assert answers[3].headers.keys() >= {"ratelimit", "ratelimit-policy", "retry-after"}
    holds(promises, "GET", RELAYERS, answers)


def test_relayer_rpc_answers_as_documented(
    service: Running, broken: Running, hurried: Running, promises: Promises
) -> None:
    path = RPC.format(relayer_id="sepolia-1")
    transaction = promises.operation("POST", RPC)["requestBody"]["content"]["application/json"]["examples"]
    answers = [
        service.ask("POST", path, CALL | {"method": "other", "id": None}),
        service.ask("POST", path, CALL),
        service.ask("POST", path, transaction["feeEstimate"]["value"]),
        service.ask("POST", path, [CALL]),
        service.ask("POST", path, CALL, token=UNKNOWN),
        service.ask("POST", RPC.format(relayer_id="no%2Fthing"), CALL),
        service.ask("POST", path, THREE_MEBIBYTES),
        used_up(hurried, "POST", path, CALL),
        broken.ask("POST", path, CALL),
    ]
    codes = [each.json["error"]["code"] for each in answers[:3]]
    assert codes == [-32601, -32602, -32000]
    holds(promises, "POST", RPC, answers)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/openapi.json", "/docs"])
def test_service_addresses_answer_as_documented(
    service: Running, broken: Running, promises: Promises, path: str
) -> None:
    answers = [service.ask("GET", path, token=""), broken.ask("GET", path, token="")]
    # `tests/proofs/test_liveness.py` stops a worker, which is then seen as 503.
    holds(promises, "GET", path, answers, unseen="503" if path == "/healthz" else "")


@pytest.mark.parametrize(
    ("method", "path", "named"),
    [
        ("GET", "/api/v1/nothing", "UnknownPath"),
        ("PATCH", "/api/v1/notifications/", "UnknownPath"),
        ("DELETE", SIGNERS, "WrongMethod"),
        ("GET", NOTIFICATION.format(notification_id="pager"), "WrongMethod"),
        ("POST", "/openapi.json", "WrongMethod"),
    ],
)
def test_what_is_not_served_answers_as_documented(
    service: Running, promises: Promises, method: str, path: str, named: str
) -> None:
    answer = service.ask(method, path)
    assert answer.status == {"UnknownPath": 404, "WrongMethod": 405}[named]
    assert promises.kept_by(answer, promises.document["components"]["responses"][named]) == ""


def test_every_documented_config_field_is_answered_when_widened(home: Path, promises: Promises) -> None:
    examples = promises.operation("POST", SIGNERS)["requestBody"]["content"]["application/json"]["examples"]
    with served(home, signer_config="non_secret") as running:
        for each in examples.values():
            assert running.ask("POST", SIGNERS, each["value"]).status == 201
        listed = running.ask("GET", SIGNERS)
    assert promises.kept(listed, promises.operation("GET", SIGNERS)["responses"]) == ""
    answered = {field for signer in listed.json["data"] for field in signer["config"]}
    assert answered | {"namespace"} == schemas()["SignerConfig"]["properties"].keys()


def test_an_undocumented_or_missing_field_is_noticed(service: Running, promises: Promises) -> None:
    """The comparison itself: without this, a lenient schema would make every test above pass."""
    responses = promises.operation("GET", RELAYERS)["responses"]
    answer = service.ask("GET", RELAYERS)
    assert promises.kept(answer, responses) == ""
    more, less = answer.json, answer.json
    more["data"][0]["policies"]["surprise"] = 1
    del less["data"][0]["policies"]["min_balance"]
    for changed in (more, less):
        assert promises.kept(answer._replace(body=msgspec.json.encode(changed)), responses)
    assert promises.kept(answer._replace(status=418), responses)
    assert promises.kept(answer._replace(headers=answer.headers | {"surprise": "1"}), responses)
