"""Labels of records: set, found and removed over the admin API, and never shown under `/api/v1`."""

import pytest

from tests.admin.conftest import Admin

LABELS = {"team": "payments", "env": "prod"}


def named(admin: Admin, path: str) -> list[str]:
    return [each.get("id") or each["name"] for each in admin.get(path)]


def test_each_kind_of_record_carries_labels(admin: Admin) -> None:
    """A signer, too, although nothing else of it changes."""
    for path in ("signers/ops", "networks/sepolia", "relayers/sepolia-1", "notifications/pager"):
        assert admin.ask("PATCH", path, {"labels": LABELS}).json["data"]["labels"] == LABELS
        collection, _, name = path.partition("/")
        listed = {
            query: named(admin, f"{collection}?label={query}") for query in ("team=payments", "env=prod,team=payments")
        }
        assert listed == {"team=payments": [name], "env=prod,team=payments": [name]}
        assert (
            named(admin, f"{collection}?label=team=pay")
            == named(admin, f"{collection}?label=team=payments,env=t")
            == []
        )
        assert admin.ask("PATCH", path, {"labels": {"env": None}}).json["data"]["labels"] == {"team": "payments"}
        assert not admin.ask("PATCH", path, {"labels": {"env": None}}).json["changed"]
    exported = admin.get("export")["toml"]
    assert exported.count('labels = { team = "payments" }') == 4
    for path in ("/api/v1/signers", "/api/v1/relayers"):
        assert b"payments" not in admin.running.ask("GET", path).body
    admin.ask("POST", "relayers/sepolia-1/pause")
    (event,) = admin.get("events")
    assert event["data"]["relayer"]["labels"] == {"team": "payments"}
    changed = admin.running.ask("PATCH", "/api/v1/notifications/pager", {})
    assert (changed.status, b"payments" in changed.body) == (200, False)
    assert [each["after"] for each in admin.audited() if each["action"] == "signer.updated"] == [
        {"labels": LABELS},
        {"labels": {"team": "payments"}},
    ]


def test_each_of_many_long_labels_is_found(admin: Admin) -> None:
    """The index has the beginning of them."""
    long = {f"label-{number:02}": "x" * 40 for number in range(20)}
    assert admin.ask("PATCH", "relayers/sepolia-1", {"labels": long}).status == 200
    found = [named(admin, f"relayers?label={name}={'x' * 40}") for name in long]
    assert found == [["sepolia-1"]] * 20
    assert named(admin, f"relayers?label=label-19={'x' * 39}") == []


@pytest.mark.parametrize(
    ("path", "labels"),
    [
        ("signers/ops", {"a b": "c"}),
        ("signers/ops", {"a": ""}),
        ("signers/ops", {f"l{number}": "x" for number in range(33)}),
        ("relayers/sepolia-1", {"a": "-"}),
        ("relayers/sepolia-1", {"a": 1}),
        ("relayers/sepolia-1", ["a"]),
        ("relayers/sepolia-1", {f"l{number}": "x" for number in range(33)}),
    ],
)
def test_labels_are_bounded(shared: Admin, path: str, labels: object) -> None:
    assert shared.ask("PATCH", path, {"labels": labels}).status == 400


@pytest.mark.parametrize("query", ["label=", "label=team", "label=a=b,", "label=%22a%22=b"])
def test_a_filter_by_labels_names_whole_pairs(shared: Admin, query: str) -> None:
    assert shared.ask("GET", f"relayers?{query}").status == (200 if query == "label=" else 400)
