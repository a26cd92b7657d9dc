"""`apply` and `export` on a server: the same words as on the home, atomic, and only the plan that was reviewed."""

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cli.test_remote import Remote
from tests.conftest import DEMO
from tests.support.fork_server import Done
from tests.support.running import Running, make_token, run_command

NOTIFICATION = """
[[notifications]]
id = "{id}"
type = "webhook"
url = "https://hooks.example.com/{path}"
"""


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    home = tmp_path_factory.mktemp("remote") / "home"
    token = make_token(home, "ops", "--kind", "admin")
    with Running(home, token=token, rate_limit_per_second="0", monitor_interval_seconds="0") as running:
        yield Remote(running, home.parent / "elsewhere")


def declared(notification: str, path: str = "x") -> str:
    return NOTIFICATION.format(id=notification, path=path)


def revision_of(plan: str) -> str:
    return plan.splitlines()[-1].removeprefix("revision: ")


def test_a_file_is_planned_applied_and_exported(remote: Remote) -> None:
    plan = remote.run("apply", "-", "--plan", stdin=DEMO)
    assert plan == remote.here("apply", "-", "--plan", stdin=DEMO).stdout
    assert plan.splitlines()[:-1] == [
        "+ network sepolia",
        "+ signer ops",
        "    type: plain",
        "+ notification pager",
        "+ relayer sepolia-1",
        "to create: 1 network, 1 signer, 1 notification, 1 relayer",
    ]
    done = remote.run("apply", "-", "--revision", revision_of(plan), stdin=DEMO)
    assert done == "created: 1 network, 1 signer, 1 notification, 1 relayer\n"
    assert remote.run("apply", "-", stdin=DEMO) == "nothing to change: the stored records match the file\n"
    exported = remote.there("export")
    assert exported == remote.here("export")
    again = remote.there("apply", "-", "--plan", stdin=exported.stdout)
    assert (again.returncode, again.stdout) == (0, "nothing to change: the stored records match the file\n")
    assert again == remote.here("apply", "-", "--plan", stdin=exported.stdout)


def test_a_plan_shows_each_field_and_nothing_of_a_secret(remote: Remote) -> None:
    remote.run("apply", "-", stdin=declared("fields") + 'signing_key = "one"')
    changed = declared("fields").replace("hooks", "other") + 'signing_key = "another"'
    plan = remote.there("apply", "-", "--plan", "--detailed-exitcode", stdin=changed)
    assert (plan.returncode, plan.stdout.splitlines()[:-1]) == (
        2,
        [
            "~ notification fields",
            "    url: https://hooks.example.com -> https://other.example.com",
            "    signing_key: (changed)",
            "to change: 1 notification",
        ],
    )
    assert plan == remote.here("apply", "-", "--plan", "--detailed-exitcode", stdin=changed)


def test_exit_codes_of_a_plan(remote: Remote) -> None:
    flags = ("apply", "-", "--plan", "--detailed-exitcode")
    remote.run("apply", "-", stdin=declared("codes"))
    assert remote.there(*flags, stdin=declared("codes")).returncode == 0
    assert remote.there(*flags, stdin=declared("codes", "y")).returncode == 2
    assert remote.there(*flags, stdin="no toml").returncode == 1
    assert remote.there(*flags, "--no-such-option", stdin=declared("codes")).returncode == 1
    assert remote.there(*flags, token="", stdin=declared("codes")).returncode == 1
    assert remote.there("apply", "-", "--detailed-exitcode").returncode == 1


BROKEN = """
[networks.sepolia]
network_type = "evm"
chain_id = "1"
native_symbol = "ETH"

[[signers]]
id = "new"
type = "plain"
config = { key = { env = "NOT_SET_ANYWHERE" } }

[[relayers]]
name = "x"
network = "sepolia"
network_type = "evm"
signer_id = "nobody"
wieght = 1
"""


@pytest.mark.parametrize("content", [BROKEN, "no toml", 'signers = [{ id = { env = "no name" } }]'])
def test_mistakes_are_told_in_the_same_words(remote: Remote, content: str) -> None:
    for plan in ((), ("--plan",)):
        refused = remote.there("apply", "-", *plan, stdin=content)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused == remote.here("apply", "-", *plan, stdin=content)


@pytest.mark.parametrize("label", ["env", "file"])
def test_labels_are_no_references(remote: Remote, label: str) -> None:
    document = declared(f"with-{label}") + f'labels = {{ {label} = "prod" }}'
    assert remote.run("apply", "-", stdin=document) == "created: 1 notification\n"
    assert remote.json("notification", "show", f"with-{label}")["labels"] == {label: "prod"}
    assert remote.here("apply", "-", stdin=document).stdout == "nothing to change: the stored records match the file\n"


def test_references_are_resolved_where_the_command_runs(remote: Remote, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("whsec_from_a_file\n")
    file = tmp_path / "apply.toml"
    file.write_text(declared("referring") + 'signing_key = { file = "secret" }')
    assert remote.run("apply", str(file)) == "created: 1 notification\n"
    assert remote.json("notification", "show", "referring")["has_signing_key"] is True
    (tmp_path / "secret").unlink()
    kept = remote.there("apply", str(file))
    assert kept.stdout == "nothing to change: the stored records match the file\n"
    assert kept.stderr == (
        "note: notifications[0].signing_key: the file secret cannot be read: No such file or directory;"
        " the stored value is kept\n"
    )


def test_pruning_removes_what_an_earlier_apply_created(remote: Remote) -> None:
    remote.run("apply", "-", stdin=declared("pruned"))
    everything = remote.run("export")
    kept = "\n".join(part for part in everything.split("\n\n") if '"pruned"' not in part)
    plan = remote.there("apply", "-", "--plan", "--prune", stdin=kept)
    assert plan.stdout.splitlines()[:2] == ["- notification pruned", "to remove: 1 notification"]


def test_of_two_pipelines_one_wins_and_the_other_learns_what_changed(remote: Remote) -> None:
    ours, theirs = declared("contested", "ours"), declared("contested", "theirs")
    remote.run("apply", "-", stdin=declared("contested"))
    our_plan, their_plan = (remote.run("apply", "-", "--plan", stdin=file) for file in (ours, theirs))
    other = make_token(remote.service.home, "other-pipeline", "--kind", "admin")
    won = remote.there("apply", "-", "--revision", revision_of(their_plan), stdin=theirs, token=other)
    assert (won.returncode, won.stdout) == (0, "changed: 1 notification\n")
    lost = remote.there("apply", "-", "--revision", revision_of(our_plan), stdin=ours)
    first, different, record, since, change, remedy = lost.stderr.splitlines()
    assert (lost.returncode, lost.stdout, first, since) == (
        1,
        "",
        "relaydeck: the plan is not the one that was reviewed",
        "Changed since:",
    )
    assert (different, record) == ("Different from the reviewed plan:", "  notification contested")
    assert change.split("  ")[2:] == ["token:other-pipeline", "notification.updated", "contested"]
    assert remedy == "Nothing was changed. Plan again, and review the new plan."
    assert lost == remote.here("apply", "-", "--revision", revision_of(our_plan), stdin=ours)
    assert remote.json("notification", "show", "contested")["url"] == "https://hooks.example.com/theirs"


def test_pipelines_that_apply_at_the_same_moment(remote: Remote) -> None:
    remote.run("apply", "-", stdin=declared("race"))
    files = [declared("race", f"v{number}") for number in range(4)]
    revisions = [revision_of(remote.run("apply", "-", "--plan", stdin=file)) for file in files]

    def apply(number: int) -> Done:
        return remote.there("apply", "-", "--revision", revisions[number], stdin=files[number])

    with ThreadPoolExecutor(len(files)) as pool:
        outcomes = list(pool.map(apply, range(len(files))))
    assert sorted(each.returncode for each in outcomes) == [0, 1, 1, 1]
    assert {"notification.updated  race" in each.stderr for each in outcomes if each.returncode} == {True}
    winner = [each.returncode for each in outcomes].index(0)
    assert remote.json("notification", "show", "race")["url"] == f"https://hooks.example.com/v{winner}"


def test_a_change_that_does_not_concern_the_plan_does_not_matter(remote: Remote) -> None:
    plan = remote.run("apply", "-", "--plan", stdin=declared("calm"))
    remote.run("notification", "create", "id=unrelated", "type=webhook", "url=https://hooks.example.com/")
    done = remote.run("apply", "-", "--revision", revision_of(plan), stdin=declared("calm"))
    assert done == "created: 1 notification\n"


def test_a_relayer_without_an_id_keeps_its_plan(remote: Remote) -> None:
    file = DEMO + '[[relayers]]\nname = "No id"\nnetwork = "sepolia"\nnetwork_type = "evm"\nsigner_id = "ops"\n'
    plans = [remote.run("apply", "-", "--plan", stdin=file) for _ in range(2)]
    assert revision_of(plans[0]) == revision_of(plans[1])
    assert "relayer" in remote.run("apply", "-", "--revision", revision_of(plans[0]), stdin=file)


def test_another_file_is_not_the_plan_that_was_reviewed(remote: Remote) -> None:
    plan = remote.run("apply", "-", "--plan", stdin=declared("reviewed"))
    swapped = remote.there("apply", "-", "--revision", revision_of(plan), stdin=declared("swapped"))
    assert swapped.stderr.splitlines()[1:4] == [
        "Different from the reviewed plan:",
        "  notification (more than one, or not in this file)",
        "No record has changed since.",
    ]


# -- over HTTP -----------------------------------------------------------------------------------


def test_only_an_admin_token_may_apply_and_export(remote: Remote) -> None:
    token = make_token(remote.service.home, "plain-api")
    body: dict[str, object] = {"document": {}}
    for method, path in (("POST", "apply"), ("GET", "export")):
        assert remote.service.ask(method, f"/admin/v1/{path}", body, token=token).status == 403


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"document": {}, "references": [{"kind": "env", "name": "X"}]}, "either value or missing"),
        ({"document": {}, "unknown": 1}, "unknown field"),
        ({}, "document"),
    ],
)
def test_a_body_that_is_no_apply_request_is_refused(remote: Remote, body: object, reason: str) -> None:
    answer = remote.service.ask("POST", "/admin/v1/apply", body)
    assert answer.status == 400 and reason in answer.json["detail"]


def test_a_reference_without_a_value_is_a_mistake(remote: Remote) -> None:
    signer = {"id": "s9", "type": "plain", "config": {"key": {"env": "HOME"}}}
    answer = remote.service.ask("POST", "/admin/v1/apply", {"document": {"signers": [signer]}})
    assert (answer.status, answer.json["mistakes"]) == (
        400,
        [{"place": "signers[0].config.key", "problem": "has no value in the references of the request"}],
    )


def test_a_null_is_a_mistake(remote: Remote) -> None:
    relayer = {"name": None, "network": "dev", "network_type": "evm", "signer_id": "ops", "notification_id": None}
    document = {"relayers": [relayer, None], "signers": None}
    answer = remote.service.ask("POST", "/admin/v1/apply", {"document": document, "plan_only": True})
    assert (answer.status, answer.json["mistakes"][:4]) == (
        400,
        [
            {"place": "signers", "problem": "expected an array of tables, found null"},
            {"place": "relayers[0].name", "problem": "must not be null"},
            {"place": "relayers[0].notification_id", "problem": "must not be null"},
            {"place": "relayers[1]", "problem": "expected a table, found null"},
        ],
    )


def test_the_same_request_twice_is_applied_once(remote: Remote) -> None:
    document = {"notifications": [{"id": "once", "type": "webhook", "url": "https://hooks.example.com/"}]}
    key = {"Idempotency-Key": "apply-once"}
    first, second = (
        remote.service.ask("POST", "/admin/v1/apply", {"document": document}, headers=key) for _ in range(2)
    )
    assert (first.status, len(first.json["data"]["steps"])) == (200, 1)
    assert (second.body, second.headers["idempotency-replayed"]) == (first.body, "true")


def test_a_large_document_has_a_limit_of_its_own(remote: Remote) -> None:
    relayers = [
        {"name": f"r{number}", "network": "nowhere", "network_type": "evm", "signer_id": "nobody", "pad": "x" * 1000}
        for number in range(1500)
    ]
    assert len(json.dumps(relayers)) > 1_048_576
    answer = remote.service.ask("POST", "/admin/v1/apply", {"document": {"relayers": relayers}, "plan_only": True})
    more = {"place": "", "problem": "there are more than 1000 mistakes: correct these first"}
    assert (answer.status, len(answer.json["mistakes"]), answer.json["mistakes"][-1]) == (400, 1001, more)
    assert remote.service.ask("POST", "/admin/v1/networks", {"pad": "x" * 2_000_000}).status == 413


def test_a_half_sent_document_changes_nothing(remote: Remote) -> None:
    before = run_command(remote.service.home, "audit", "head").stdout
    body = json.dumps({"document": {"notifications": [{"id": "half", "type": "webhook", "url": "https://h.example/"}]}})
    head = (
        f"POST /admin/v1/apply HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {remote.service.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", remote.service.port)) as connection:
        connection.sendall((head + body[: len(body) // 2]).encode())
    assert remote.there("notification", "show", "half").returncode == 1
    assert run_command(remote.service.home, "audit", "head").stdout == before


def test_no_secret_of_a_document_is_shown_logged_or_stored_in_clear(remote: Remote) -> None:
    secret = "Pl4nted-in-an-apply-document"
    signer = {"id": "planted", "type": "provider_d", "config": {"api_private_key": {"env": "PLANTED"}}}
    shown = {"api_public_key": "a", "organization_id": "o", "private_key_id": "i", "public_key": "p"}
    whole = signer | {"config": signer["config"] | shown}  # type: ignore[operator]
    hook = {"id": "planted", "type": "webhook", "url": f"https://hooks.example.com/{secret}", "signing_key": secret}
    references = [{"kind": "env", "name": "PLANTED", "value": secret}]
    mistaken = {"networks": {"planted": {"chain_id": secret}}, "signers": [{"id": secret * 9, "type": secret}]}
    sent: list[tuple[object, bool, dict[str, str]]] = [
        ({"signers": [whole]}, True, {}),
        ({"signers": [whole]}, False, {"Idempotency-Key": "planted"}),
        ({"notifications": [hook | {"url": "https://hooks.example.com/"}]}, False, {}),
        ({"notifications": [hook]}, True, {}),
        (mistaken, False, {}),
        (mistaken, False, {"If-Match": '"0-0123456789abcdef"'}),
    ]
    answers = []
    for document, plan_only, headers in sent:
        body = {"document": document, "references": references, "plan_only": plan_only}
        answers.append(remote.service.ask("POST", "/admin/v1/apply", body, headers=headers))
    assert [each.status for each in answers] == [200, 200, 200, 200, 400, 400]
    kept = b"".join(path.read_bytes() for path in remote.service.home.rglob("*") if path.is_file())
    exported = remote.run("export").encode()
    for place in (*(each.body for each in answers), remote.service.log.encode(), kept, exported):
        assert secret.encode() not in place


def test_other_requests_are_answered_while_a_large_document_is_applied(remote: Remote) -> None:
    relayer = '[[relayers]]\nid = "many-{}"\nname = "x"\nnetwork = "sepolia"\nnetwork_type = "evm"\nsigner_id = "ops"\n'
    remote.run("apply", "-", stdin=DEMO)
    many = "".join(relayer.format(number) for number in range(3000))
    answered = 0
    with ThreadPoolExecutor(1) as thread:
        applied = thread.submit(remote.run, "apply", "-", stdin=many)
        while not applied.done():
            assert remote.service.ask("GET", "/admin/v1/signers?per_page=1").status == 200
            answered += 1
    assert applied.result() == "created: 3000 relayers\n"
    assert answered > 10
    assert "every link holds" in remote.run("audit", "verify")
