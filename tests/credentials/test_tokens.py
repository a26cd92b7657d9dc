"""Access tokens: their form, what each kind may do, and that an end holds at once in every worker."""

import json
import re
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from relaydeck.cli.commands import cli
from relaydeck.cli.serve import accept_bootstrap_token, read_bootstrap_token
from relaydeck.credentials import tokens
from relaydeck.credentials.grants import Grant
from relaydeck.credentials.token_cache import TokenCache, TokenCredential
from relaydeck.credentials.tokens import Token, all_tokens, digest_of, new_token
from relaydeck.errors import OperatorError, Unauthorized
from relaydeck.log import Log
from relaydeck.roles import Role
from relaydeck.store.audit import AuditLog
from relaydeck.store.changes import ChangeContext
from relaydeck.store.migrate import migrate
from relaydeck.store.open_store import Store
from relaydeck.store.sealing import PROOFS_SINCE
from relaydeck.store.sqlite import SqliteDatabase, SqliteTransaction
from relaydeck.store.vault import Vault, create_master_key
from relaydeck.store.write_signal import WriteSignal
from tests.support import shapes
from tests.support.running import Running, free_port, make_token, run_command
from tests.support.seeding import fill, issue, opened, relayer, withdraw
from tests.support.token_format import is_token

CALL = {"jsonrpc": "2.0", "id": 1, "method": "none", "params": {}}
LISTS = [("GET", "/api/v1/signers", None), ("GET", "/api/v1/relayers", None)]
WRITES = [
    ("POST", "/api/v1/signers", shapes.request("plain")),
    ("PATCH", "/api/v1/notifications/pager", {}),
    ("POST", "/api/v1/relayers/one/rpc", CALL),
]


# Form


# sentence: 5-tokens
def test_a_token_has_a_prefix_43_characters_and_a_checksum_of_6() -> None:
    assert re.fullmatch(r"rdk_[0-9A-Za-z]{43}[0-9A-Za-z]{6}", new_token().reveal())


def test_tokens_differ() -> None:
    assert len({new_token().reveal() for _ in range(1000)}) == 1000


def test_the_checksum_of_a_new_token_is_the_crc_32_of_the_rest() -> None:
    assert is_token(new_token().reveal())


def test_a_token_does_not_show_itself() -> None:
    token = new_token()
    assert (str(token), repr(token), f"{token}") == ("Secret(…)",) * 3


# The book


class Book(TokenCache):
    """A book of one home, brought up to date by hand."""

    def __init__(self, store: Store) -> None:
        self.forged: list[str] = []
        super().__init__(store.vault.proofs, lambda token: self.forged.append(token.name))
        self._reader = store.database
        self.read()

    def read(self) -> None:
        self.replace(self.read_all(self._reader))

    def look(self, seen: int) -> None:
        self.apply_changes(self.fetch_changes(self._reader.read, seen, removed=False))


@pytest.fixture
def book(home: Path) -> Iterator[Book]:
    with opened(home) as store:
        yield Book(store)


def test_only_the_digest_of_a_token_is_stored(home: Path) -> None:
    token = issue(home)
    with opened(home) as store:
        assert [each.digest for each in all_tokens(store.database)] == [digest_of(token.encode())]


def test_a_token_is_accepted_until_the_second_it_expires(home: Path, book: Book) -> None:
    token = issue(home, lasts=60)
    book.read()
    with opened(home) as store:
        ends = all_tokens(store.database)[0].expires_at
    assert ends is not None
    header = f"Bearer {token}".encode()
    assert book.find(header, ends - 0.001).name == "tests"
    with pytest.raises(Unauthorized):
        book.find(header, ends)


def test_a_remembered_header_expires_too(home: Path, book: Book) -> None:
    header = f"Bearer {issue(home, lasts=60)}".encode()
    book.read()
    book.find(header, 0)
    with pytest.raises(Unauthorized):
        book.find(header, 10**11)


def test_headers_that_differ_in_their_spaces_take_no_memory(home: Path, book: Book) -> None:
    token = issue(home).encode()
    book.read()
    tracemalloc.start()
    try:
        names = {book.find(b"Bearer" + b" " * spaces + token, 0).name for spaces in range(1, 2_001)}
        assert (names, tracemalloc.get_traced_memory()[0] < 100_000) == ({"tests"}, True)
    finally:
        tracemalloc.stop()


def test_a_revoked_token_is_unknown_at_the_next_look(home: Path, book: Book) -> None:
    header = f"Bearer {issue(home)}".encode()
    book.read()
    book.find(header, 0)
    withdraw(home, "tests")
    book.look(0)
    with pytest.raises(Unauthorized):
        book.find(header, 0)


def change_tokens(home: Path, sql: str, **values: object) -> None:
    """Write the table as someone does who has the database but not the master key."""
    with opened(home) as store, store.database.transaction() as transaction:
        transaction.execute(sql, values)


@pytest.mark.parametrize("proof", [None, bytes(32)])
def test_a_token_row_inserted_without_the_master_key_is_never_accepted(
    home: Path, book: Book, proof: bytes | None
) -> None:
    change_tokens(
        home,
        "INSERT INTO tokens (name, kind, digest, created_at, proof, revision)"
        " VALUES ('forged', 'admin', :digest, 0, :proof, 99)",
        digest=digest_of(b"forged"),
        proof=proof,
    )
    book.read()
    with pytest.raises(Unauthorized):
        book.find(b"Bearer forged", 0)
    assert book.forged == ["forged"]


@pytest.mark.parametrize("change", ["revoked_at = NULL", "revoked_at = NULL, kind = 'admin'"])
def test_a_revoked_token_is_not_revived_without_the_master_key(home: Path, book: Book, change: str) -> None:
    header = f"Bearer {issue(home)}".encode()
    withdraw(home, "tests")
    change_tokens(home, f"UPDATE tokens SET {change}, revision = revision + 1")
    book.read()
    with pytest.raises(Unauthorized):
        book.find(header, 0)
    assert book.forged == ["tests"]


@pytest.mark.parametrize("change", ["kind = 'admin'", "expires_at = NULL", "name = 'another'"])
def test_a_token_changed_without_the_master_key_is_refused(home: Path, book: Book, change: str) -> None:
    header = f"Bearer {issue(home, lasts=60)}".encode()
    change_tokens(home, f"UPDATE tokens SET {change}")
    book.read()
    with pytest.raises(Unauthorized):
        book.find(header, 0)


def test_tokens_that_an_earlier_version_stored_are_proven_by_the_upgrade(home: Path) -> None:
    home.mkdir(exist_ok=True)
    create_master_key(home / "master.key")
    with closing(SqliteDatabase(home / "relaydeck.db", WriteSignal(home / "signal"))) as database:
        migrate(database, to=PROOFS_SINCE - 1)
        # Each statement commits by itself: the end of a transaction writes a column that this schema does not have.
        transaction = SqliteTransaction(database.writer, lambda _: None)
        Vault(database, home / "master.key").add_data_key(transaction, 0)
        for name, revoked_at in (("kept", None), ("ended", 2)):
            transaction.execute(
                "INSERT INTO tokens (name, kind, digest, created_at, revoked_at, revision)"
                " VALUES (:name, 'api', :digest, 1, :revoked_at, 1)",
                {"name": name, "digest": digest_of(name.encode()), "revoked_at": revoked_at},
            )
    with opened(home) as store:
        book = Book(store)
        assert store.database.read("SELECT count(*) FROM tokens WHERE proof IS NULL")[0][0] == 0
    assert (book.find(b"Bearer kept", 0).name, book.forged) == ("kept", [])
    assert proven_by_upgrade(home) == {"kept", "ended"}
    doctor = [line for line in run_command(home, "doctor").stdout.splitlines() if "by an upgrade" in line]
    assert doctor == [
        "warn  tokens: 'kept' was proven first by an upgrade, which trusts what it finds;"
        " replace it if that may be wrong"
    ]
    run_command(home, "token", "revoke", "kept")
    run_command(home, "token", "create", "kept")
    assert proven_by_upgrade(home) == {"ended"}
    assert "by an upgrade" not in run_command(home, "doctor").stdout


def proven_by_upgrade(home: Path) -> set[str]:
    shown = json.loads(run_command(home, "token", "list", "--json").stdout)
    return {each["name"] for each in shown if each["migrated"]}


@pytest.mark.parametrize("command", [("doctor",), ("audit", "verify")])
def test_commands_report_a_token_row_that_does_not_verify(home: Path, command: tuple[str, ...]) -> None:
    issue(home, "mine")
    change_tokens(home, "UPDATE tokens SET kind = 'admin'")
    done = run_command(home, *command)
    assert done.returncode == 1
    assert "'mine' was added or changed by something other than Relaydeck" in done.stdout + done.stderr


@pytest.mark.parametrize("command", [("doctor",), ("audit", "verify")])
@pytest.mark.parametrize("is_replaced", [False, True])
def test_commands_report_a_token_that_was_put_back(home: Path, command: tuple[str, ...], is_replaced: bool) -> None:
    def change(now: int) -> ChangeContext:
        return ChangeContext(transaction, AuditLog(store.vault), "cli:me", now)

    with opened(home) as store:
        with store.database.transaction() as transaction:
            tokens.issue(change(1000), "mine", Grant(role="api"), new_token())
        (old,) = store.database.read("SELECT proof FROM tokens")
        with store.database.transaction() as transaction:
            tokens.revoke(change(2000), "mine")
            if is_replaced:
                tokens.issue(change(3000), "mine", Grant(role="api"), new_token())
        with store.database.transaction() as transaction:
            transaction.execute("DELETE FROM tokens WHERE revoked_at IS NULL")
            transaction.execute("UPDATE tokens SET revoked_at = NULL, proof = :proof", {"proof": old.proof})
    done = run_command(home, *command)
    assert done.returncode == 1
    assert "'mine' is an old one that was put back" in done.stdout + done.stderr


def test_token_list_shows_that_a_changed_token_is_refused(home: Path) -> None:
    issue(home, "mine")
    change_tokens(home, "UPDATE tokens SET kind = 'admin'")
    (shown,) = json.loads(run_command(home, "token", "list", "--json").stdout)
    assert (shown["name"], shown["state"]) == ("mine", "refused")


def test_a_name_may_hold_anything_and_is_logged_as_json() -> None:
    assert TokenCredential(Token(1, 'a"\nb', "api", b"", 0, None, None), "token:a").logged_name == '"a\\"\\nb"'


def test_two_live_tokens_cannot_have_one_name(home: Path) -> None:
    issue(home)
    with pytest.raises(OperatorError, match="a token named 'tests' exists already"):
        issue(home)


def test_a_revoked_name_can_be_used_again(home: Path) -> None:
    issue(home)
    withdraw(home, "tests")
    issue(home)


# Two workers


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("tokens") / "home"
    fill(home, notifications={"pager": None}, relayers=[relayer("one")])
    with Running(home, "--workers", "2", token=issue(home), rate_limit_per_second="0") as running:
        yield running


def statuses(running: Running, token: str, times: int = 40) -> set[int]:
    """What a token is answered on many new connections, so that both workers are met."""
    return {running.ask("GET", "/api/v1/signers", token=token).status for _ in range(times)}


def test_a_new_token_is_accepted_at_the_next_request_in_every_worker(served: Running) -> None:
    assert statuses(served, issue(served.home, "new")) == {200}


def test_a_revoked_token_is_refused_at_the_next_request_in_every_worker(served: Running) -> None:
    token = issue(served.home, "revoked")
    statuses(served, token)
    withdraw(served.home, "revoked")
    assert statuses(served, token) == {401}


def test_the_command_revokes_while_the_service_runs(served: Running) -> None:
    token = issue(served.home, "by command")
    statuses(served, token)
    done = run_command(served.home, "token", "revoke", "by command")
    assert (done.returncode, statuses(served, token)) == (0, {401})


def test_an_expired_token_is_refused_in_every_worker(served: Running) -> None:
    token = issue(served.home, "short", lasts=2)
    deadline = time.monotonic() + 60
    while 200 in (seen := statuses(served, token, 10)):
        assert time.monotonic() < deadline, seen
        time.sleep(0.05)
    assert statuses(served, token) == {401}


def test_a_refusal_does_not_tell_an_expired_token_from_an_unknown_one(served: Running) -> None:
    expired = served.ask("GET", "/api/v1/signers", token=issue(served.home, "over", lasts=-1))
    unknown = served.ask("GET", "/api/v1/signers", token="unknown")
    assert (expired.status, expired.body) == (unknown.status, unknown.body)


# Kinds


@pytest.fixture(scope="module")
def kinds(served: Running) -> dict[str, str]:
    return {kind: issue(served.home, f"kind {kind}", kind) for kind in ("api", "readonly", "admin")}


@pytest.mark.parametrize("kind", ["api", "admin"])
@pytest.mark.parametrize(("method", "path", "body"), [*LISTS, *WRITES])
def test_api_and_admin_tokens_may_use_the_five_operations(
    served: Running, kinds: dict[str, str], kind: str, method: str, path: str, body: Any
) -> None:
    assert served.ask(method, path, body, token=kinds[kind]).status < 300


@pytest.mark.parametrize(("method", "path", "body"), LISTS)
def test_a_readonly_token_may_list(served: Running, kinds: dict[str, str], method: str, path: str, body: Any) -> None:
    assert served.ask(method, path, body, token=kinds["readonly"]).status == 200


# sentence: 5-tokens
@pytest.mark.parametrize(("method", "path", "body"), WRITES)
def test_a_readonly_token_is_unauthorized_for_anything_else(
    served: Running, kinds: dict[str, str], method: str, path: str, body: Any
) -> None:
    answer = served.ask(method, path, body, token=kinds["readonly"])
    assert (answer.status, answer.json) == (401, shapes.UNAUTHORIZED)


# Commands


def test_token_create_prints_the_token_alone(home: Path) -> None:
    done = run_command(home, "token", "create", "ci", "--kind", "readonly", "--expires", "30d")
    assert done.returncode == 0
    assert is_token(done.stdout.removesuffix("\n"))
    with opened(home) as store:
        (token,) = all_tokens(store.database)
    assert (token.name, token.kind, token.expires_at) == ("ci", "readonly", token.created_at + 30 * 86_400)


@pytest.mark.parametrize(
    ("name", "kind", "expires", "said"),
    [
        ("x", "api", "soon", "--expires must be a number and a unit: 45m, 12h, 30d or 8w"),
        ("", "api", "", "the name of a token must have 1 to 255 characters"),
    ],
)
def test_token_create_says_what_is_wrong(name: str, kind: str, expires: str, said: str) -> None:
    with pytest.raises(OperatorError) as error:
        cli.main(["token", "create", name, "--kind", kind, "--expires", expires], standalone_mode=False)
    assert error.value.problem == said


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        (["--name", "C"], ["ci", "old-ci"]),
        (["--kind", "readonly"], ["ci"]),
        (["--state", "revoked"], ["old-ci"]),
        (["--kind", "api", "--state", "live"], ["dapp"]),
    ],
)
def test_token_list_takes_filters(home: Path, filters: list[str], names: list[str]) -> None:
    make_token(home, "dapp")
    make_token(home, "ci", "--kind", "readonly")
    make_token(home, "old-ci")
    assert run_command(home, "token", "revoke", "old-ci").returncode == 0
    listed = run_command(home, "token", "list", "--json", *filters)
    assert [each["name"] for each in json.loads(listed.stdout)] == names


def test_token_revoke_of_nobody_says_so(home: Path) -> None:
    make_token(home, "somebody")
    done = run_command(home, "token", "revoke", "nobody")
    assert (done.returncode, done.stderr) == (
        1,
        "relaydeck: no live token is named nobody\nSee 'relaydeck token list'.\n",
    )


# The bootstrap token

OWN, OTHER = "own-token-" + "o" * 32, "other-token-" + "p" * 32


def accept(home: Path, written: str, kind: str = "api") -> None:
    """What `serve` does with a bootstrap token file before it serves."""
    path = home.parent / "token"
    path.write_text(written)
    with opened(home) as store:
        accept_bootstrap_token(path, Role(kind), store, Log(as_json=True, level="error"))


def kind_of(home: Path, token: str) -> str | None:
    """What a token may do now; None when it is refused."""
    with opened(home) as store:
        book = Book(store)
        try:
            return book.find(f"Bearer {token}".encode(), time.time()).role
        except Unauthorized:
            return None


def test_a_served_home_accepts_its_bootstrap_token(home: Path) -> None:
    (home.parent / "token").write_text(OWN + "\n")
    with Running(home, bootstrap_token_file=str(home.parent / "token")) as running:
        assert running.ask("POST", "/api/v1/signers", shapes.request("plain"), token=OWN).status == 201


def test_a_bootstrap_token_is_of_kind_api(home: Path) -> None:
    accept(home, OWN)
    assert kind_of(home, OWN) == "api"


def test_a_bootstrap_token_is_accepted_at_every_start(home: Path) -> None:
    accept(home, OWN)
    accept(home, OWN)
    assert kind_of(home, OWN) == "api"


def test_a_replaced_bootstrap_token_takes_the_place_of_the_first(home: Path) -> None:
    accept(home, OWN)
    accept(home, OTHER)
    assert (kind_of(home, OWN), kind_of(home, OTHER)) == (None, "api")


def test_a_bootstrap_token_that_is_put_back_is_accepted_again(home: Path) -> None:
    accept(home, OWN)
    accept(home, OTHER)
    accept(home, OWN)
    assert (kind_of(home, OWN), kind_of(home, OTHER)) == ("api", None)


@pytest.mark.parametrize("kind", ["readonly", "admin"])
def test_a_bootstrap_token_of_another_kind_is_of_that_kind_from_the_next_start_on(home: Path, kind: str) -> None:
    accept(home, OWN)
    accept(home, OWN, kind)
    assert kind_of(home, OWN) == kind


def test_a_bootstrap_token_that_was_revoked_stays_so(home: Path) -> None:
    accept(home, OWN)
    withdraw(home, "bootstrap")
    accept(home, OWN)
    assert kind_of(home, OWN) is None


def test_a_bootstrap_token_that_was_revoked_is_replaced_by_another(home: Path) -> None:
    accept(home, OWN)
    withdraw(home, "bootstrap")
    accept(home, OTHER)
    assert (kind_of(home, OWN), kind_of(home, OTHER)) == (None, "api")


@pytest.mark.parametrize("written", ["", "short", "o" * 257, "a token with blanks, quite long enough"])
def test_a_bootstrap_token_file_that_holds_none_is_refused(home: Path, written: str) -> None:
    (home.parent / "token").write_text(written)
    with pytest.raises(OperatorError, match="32 to 256 characters"):
        read_bootstrap_token(home.parent / "token")


def test_a_missing_bootstrap_token_file_stops_the_start(home: Path) -> None:
    path = home.parent / "nowhere"
    done = run_command(home, "serve", "--port", str(free_port()), bootstrap_token_file=str(path))
    assert (done.returncode, done.stderr) == (
        1,
        f"relaydeck: the bootstrap token file {path} cannot be read: No such file or directory\n"
        "Create it, or correct RELAYDECK_BOOTSTRAP_TOKEN_FILE.\n",
    )
