"""Headers of nodes in an apply file: given by reference, sealed, never shown, exported as references."""

import json

import pytest

from relaydeck.provisioning.export import exported
from tests.provisioning.conftest import NETWORK, ProvisionedHome

KEY = "Bearer hunter2"
ENVIRONMENT = {"NODE_KEY": KEY}
HEADERS = 'headers = [{ name = "Authorization", value = { env = "NODE_KEY" } }]'
URL = '{ url = "https://node.example/v1/node-key", weight = 1 }'
KEYED = NETWORK.replace(URL, f'{{ url = "wss://node.example", {HEADERS} }}')


def stored(home: ProvisionedHome) -> object:
    return json.loads(home.state()["networks"][0]["sealed_rpc_urls"])


def test_from_the_environment(provisioned: ProvisionedHome) -> None:
    provisioned.apply(KEYED, environment=ENVIRONMENT)
    headers = [{"name": "Authorization", "value": KEY}]
    assert stored(provisioned) == [{"url": "wss://node.example", "weight": 1, "headers": headers}]
    assert provisioned.plan(KEYED, environment=ENVIRONMENT).steps == []


def test_from_a_file(provisioned: ProvisionedHome) -> None:
    (provisioned.folder.parent / "node.key").write_text(f"{KEY}\n")
    provisioned.apply(KEYED.replace('env = "NODE_KEY"', 'file = "node.key"'))
    assert json.loads(json.dumps(stored(provisioned)))[0]["headers"][0]["value"] == KEY


def test_an_export_contains_a_reference(provisioned: ProvisionedHome) -> None:
    provisioned.apply(KEYED, environment=ENVIRONMENT)
    text = "".join(exported(provisioned.store))
    reference = '{ env = "NETWORK_SEPOLIA__HEADERS_1_VALUE_1" }'
    entry = f'{{ url = "wss://node.example", headers = [{{ name = "Authorization", value = {reference} }}] }}'
    assert f"rpc_urls = [{entry}]" in text
    assert "hunter2" not in text
    assert provisioned.plan(text, environment={"NETWORK_SEPOLIA__HEADERS_1_VALUE_1": KEY}).steps == []


def test_a_value_that_is_left_out_stays(provisioned: ProvisionedHome) -> None:
    provisioned.apply(KEYED, environment=ENVIRONMENT)
    place = "networks.sepolia.rpc_urls[0].headers[0].value"
    without = KEYED.replace(', value = { env = "NODE_KEY" }', "")
    plan = provisioned.plan(without)
    assert (plan.steps, plan.notes) == ([], [f"{place}: is missing; the stored value is kept"])
    assert provisioned.mistakes(without.replace("wss://node", "wss://other")) == [f"{place}: is missing"]
    assert provisioned.mistakes(without.replace('"Authorization"', '"X-Key"')) == [f"{place}: is missing"]
    unset = f"{place}: the environment variable NODE_KEY is not set; the stored value is kept"
    assert provisioned.plan(KEYED).notes == [unset]


def test_another_node_beside_it_does_not_need_the_value_again(provisioned: ProvisionedHome) -> None:
    provisioned.apply(KEYED, environment=ENVIRONMENT)
    other = '{ url = "wss://other.example" }, { url = "wss://node.example", weight = 5, '
    more = KEYED.replace('{ url = "wss://node.example", ', other).replace(', value = { env = "NODE_KEY" }', "")
    provisioned.apply(more)
    headers = [{"name": "Authorization", "value": KEY}]
    nodes = [
        {"url": "wss://other.example", "weight": 1},
        {"url": "wss://node.example", "weight": 5, "headers": headers},
    ]
    assert stored(provisioned) == nodes


def test_a_new_network_needs_the_value(provisioned: ProvisionedHome) -> None:
    place = "networks.sepolia.rpc_urls[0].headers[0].value"
    assert provisioned.mistakes(KEYED.replace(', value = { env = "NODE_KEY" }', "")) == [f"{place}: is missing"]


def test_a_plan_shows_that_a_value_changes_and_not_how(provisioned: ProvisionedHome) -> None:
    provisioned.apply(KEYED, environment=ENVIRONMENT)
    (step,) = provisioned.plan(KEYED, environment={"NODE_KEY": "Bearer another"}).steps
    assert ("hunter2" in repr(step), "another" in repr(step)) == (False, False)
    assert [tuple(each) for each in step.fields] == [("rpc_urls", "", "")]


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ('{ name = "Host", value = "x" }', "name: must not be a header that the service sets itself"),
        ('{ name = "content-length", value = "9" }', "name: must not be a header that the service sets itself"),
        ('{ name = "a b", value = "x" }', "name: must be the name of an HTTP header: letters, digits and hyphens"),
        ('{ name = "X-Key", value = "a\\r\\nb" }', "value: must contain printable ASCII characters only"),
        ('{ name = "X-Key", value = "" }', "value: must not be empty, and must not begin or end with a blank"),
    ],
)
def test_what_is_no_header(provisioned: ProvisionedHome, header: str, problem: str) -> None:
    file = KEYED.replace('{ name = "Authorization", value = { env = "NODE_KEY" } }', header)
    assert provisioned.mistakes(file) == [f"networks.sepolia.rpc_urls[0].headers[0].{problem}"]


def test_a_url_of_another_kind_is_refused(provisioned: ProvisionedHome) -> None:
    assert provisioned.mistakes(KEYED.replace("wss://", "ftp://"), environment=ENVIRONMENT) == [
        "networks.sepolia.rpc_urls[0].url: must begin with http://, https://, ws:// or wss://"
    ]
