"""The scope of a credential: what it contains, and what is refused as one."""

import msgspec
import pytest
from msgspec import UNSET

from relaydeck.scope import Scope, label_problem

TEAM = {"team": "payments"}


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        (Scope(relayers=("r1", "r2")), True),
        (Scope(relayers=("r2",)), False),
        (Scope(networks=("sepolia",)), True),
        (Scope(networks=("mainnet",)), False),
        (Scope(labels=TEAM), True),
        (Scope(labels={**TEAM, "env": "prod"}), False),
        (Scope(("r1",), ("sepolia",), TEAM), True),
        (Scope(("r1",), ("mainnet",), TEAM), False),
    ],
)
def test_a_relayer_is_inside_if_each_given_criterion_holds(scope: Scope, expected: bool) -> None:
    assert scope.has_relayer("r1", "sepolia", {**TEAM, "env": "test"}) is expected


def test_a_record_without_labels_carries_none() -> None:
    assert [Scope(labels=TEAM).carried_by(each) for each in (UNSET, {}, TEAM)] == [False, False, True]
    assert not Scope(networks=("sepolia",)).carried_by(TEAM)


def test_scopes_that_mean_the_same_have_one_key() -> None:
    assert Scope(("a", "b"), labels={"x": "1", "y": "2"}).key == Scope(("b", "a", "a"), labels={"y": "2", "x": "1"}).key
    assert Scope(relayers=("a",)).key != Scope(networks=("a",)).key


def test_a_scope_in_words() -> None:
    assert str(Scope(("r1", "r2"), labels={"team": "a", "env": "b"})) == "relayers r1, r2; labels team=a, env=b"
    assert str(Scope(networks=("n",))) == "networks n"


@pytest.mark.parametrize(
    ("scope", "problem"),
    [
        (Scope(), "must give relayers, networks or labels"),
        (Scope(relayers=("",)), "must have 1 to 255 characters"),
        (Scope(networks=("\n",)), "must not contain control characters"),
        (Scope(relayers=("a",) * 1001), "must have at most 1000 relayers, 1000 networks and 32 labels"),
        (Scope(labels=TEAM), ""),
    ],
)
def test_a_scope_is_bounded_and_limits_something(scope: Scope, problem: str) -> None:
    assert scope.problem == problem


@pytest.mark.parametrize("text", ["a", "A9", "x" * 63, "a/b.c_d-e", "example.com/team"])
def test_labels_of_every_allowed_character(text: str) -> None:
    assert label_problem(text) == Scope(labels={text: text}).problem == ""


@pytest.mark.parametrize("text", ["", "x" * 64, "-a", "a-", "a b", 'a"b', "a:b", "ä", "a\n", "a\\"])
def test_other_labels_are_refused(text: str) -> None:
    assert label_problem(text) == Scope(labels={"a": text}).problem != ""
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode({"labels": {text: "a"}}), type=Scope)


def test_a_scope_is_stored_as_json_without_its_defaults() -> None:
    text = msgspec.json.encode(Scope(labels=TEAM))
    assert text == b'{"labels":{"team":"payments"}}'
    assert msgspec.json.decode(text, type=Scope) == Scope(labels=TEAM)
