"""Getting in and out of the console."""

import html
import re
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from relaydeck.console.guard import SignInLimits
from relaydeck.credentials.console_sessions import (
    SessionLimits,
    close_session,
    find_session,
    has_existed,
    issue_code,
    new_session_secret,
    open_session,
    touch_session,
    use_code,
)
from relaydeck.credentials.tokens import digest_of
from relaydeck.http.request import ClientAddress
from relaydeck.store.audit import AuditLog
from relaydeck.store.changes import ChangeContext
from relaydeck.store.database import Database
from relaydeck.store.sealing import RowProofs
from tests.console.conftest import Operator, new_link, plain
from tests.support.running import COMMAND, Answer, Running, ask, clean_environment, free_port, run_command
from tests.support.seeding import issue, opened, withdraw
from tests.support.statements import run_statement


def test_the_root_leads_to_the_console(served: Running) -> None:
    answer = ask(served.port, "GET", "/")
    assert (answer.status, answer.headers["location"]) == (303, "/console")


def test_without_a_session_every_page_leads_to_the_sign_in(served: Running) -> None:
    answer = Operator(served.port).get("/relayers")
    assert (answer.status, answer.headers["location"]) == (303, "/console/sign-in?next=%2Frelayers")
    form = plain(Operator(served.port).get("/sign-in"))
    assert "Its role decides what you may do: owner everything, readonly only look." in form


@pytest.mark.parametrize("path", ["/relayers/sepolia-1", "/relayers/.ops", "/deliveries?state=dead&relayer_id=x"])
def test_signing_in_leads_to_the_page_that_was_asked_for(served: Running, path: str) -> None:
    operator = Operator(served.port)
    form = operator.get(operator.get(path).headers["location"].removeprefix("/console"))
    (wanted,) = re.findall(r'name="next" value="([^"]*)"', form.body.decode())
    answer = operator.post("/sign-in", {"token": issue(served.home, "deep", "readonly"), "next": html.unescape(wanted)})
    withdraw(served.home, "deep")
    assert (answer.status, answer.headers["location"]) == (303, f"/console{path}")


@pytest.mark.parametrize(
    "wanted",
    [
        "//evil.example/",
        "https://evil.example/",
        "/\\evil.example",
        ".evil.example",
        "/%2e%2e/admin",
        "@evil.example",
        "/../../evil",
        "/a//evil.example",
        "/relayers\r\nSet-Cookie: a=b",
        "/relayers\u2028",
    ],
)
def test_signing_in_leads_nowhere_else(served: Running, wanted: str) -> None:
    answer = Operator(served.port).post("/sign-in", {"token": issue(served.home, "lured", "readonly"), "next": wanted})
    withdraw(served.home, "lured")
    assert (answer.status, answer.headers["location"]) == (303, "/console")


def test_a_form_whose_session_has_ended_is_sent_again_after_signing_in(served: Running) -> None:
    operator = Operator(served.port).sign_in(issue(served.home, "author", "admin"))
    withdraw(served.home, "author")
    fields = {"id": 'a "name"', "url": "https://hooks.example.com/new", "signing_key": ""}
    ended = operator.post("/notifications", fields)
    assert (ended.status, "What you sent is kept." in plain(ended)) == (401, True)
    token = issue(served.home, "author", "admin")
    refused = operator.post("/sign-in", hidden_in(ended) | {"token": "wrong"})
    assert refused.status == 401
    again = operator.post("/sign-in", hidden_in(refused) | {"token": token})
    assert "The form that was sent to /notifications before has not been processed." in plain(again)
    assert "It has the fields id, url, signing_key." in plain(again)
    assert hidden_in(again) == fields | {"form_token": operator.form_token}
    assert operator.post("/notifications", hidden_in(again)).status == 303
    assert served.ask("DELETE", "/admin/v1/notifications/a%20%22name%22").status == 200
    withdraw(served.home, "author")


@pytest.mark.parametrize("ended_by", ["its token", "signing out"])
def test_a_large_form_is_kept_after_a_session(served: Running, ended_by: str) -> None:
    operator = Operator(served.port).sign_in(issue(served.home, "author", "admin"))
    cookie = operator.cookie
    if ended_by == "signing out":
        operator.post("/sign-out", {})
    withdraw(served.home, "author")
    operator.cookie, fields = cookie, {"id": "x" * 60_000, "url": "https://hooks.example.com/new"}
    ended = operator.post("/notifications", fields)
    assert (ended.status, "What you sent is kept." in plain(ended)) == (401, True)
    again = operator.post("/sign-in", hidden_in(ended) | {"token": issue(served.home, "author", "admin")})
    withdraw(served.home, "author")
    assert hidden_in(again).items() >= fields.items()


def test_a_form_with_a_cookie_that_was_no_session_is_bounded_as_one_without(served: Running) -> None:
    operator = Operator(served.port)
    operator.cookie = "relaydeck_session=invented"
    kept = operator.post("/notifications", {"id": "x" * 5000})
    assert "Your session has ended. Sign in again. What you sent is too large to be kept." in plain(kept)
    refused = operator.post("/sign-in", {"token": "wrong", "next": "/notifications", "kept.id": "x" * 5000})
    assert refused.status == 413


def test_a_form_of_another_site_is_not_kept(served: Running) -> None:
    operator = Operator(served.port)
    operator.cookie = "relaydeck_session=ended"
    answer = operator.post("/notifications", {"id": "lure"}, Sec_Fetch_Site="cross-site")
    assert (answer.status, b"lure" in answer.body) == (403, False)


def test_a_form_without_a_session_is_bounded(served: Running) -> None:
    operator = Operator(served.port)
    operator.cookie = "relaydeck_session=ended"
    answer = operator.post("/notifications", {"id": "x" * 65_536})
    assert (answer.status, b"xxx" in answer.body) == (401, False)
    assert "Your session has ended. Sign in again. What you sent is too large to be kept." in plain(answer)


@pytest.mark.parametrize(("path", "wanted"), [("/sign-out", ""), ("/apply/plan", "/apply")])
def test_a_form_that_makes_no_sense_in_another_session_is_not_kept(served: Running, path: str, wanted: str) -> None:
    operator = Operator(served.port)
    operator.cookie = "relaydeck_session=ended"
    answer = operator.post(path, {"sealed": "old"})
    assert (answer.status, hidden_in(answer)) == (401, {"next": wanted})


def hidden_in(answer: Answer) -> dict[str, str]:
    found = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', answer.body.decode())
    return {html.unescape(name): html.unescape(value) for name, value in found}


@pytest.mark.parametrize("kind", ["admin", "readonly"])
def test_a_token_signs_in(served: Running, kind: str) -> None:
    operator = Operator(served.port)
    answer = operator.post("/sign-in", {"token": issue(served.home, f"signs in as {kind}", kind)})
    assert (answer.status, answer.headers["location"]) == (303, "/console")
    assert f"signs in as {kind}" in operator.text("")


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(served: Running) -> None:
    answer = Operator(served.port).post("/sign-in", {"token": served.token})
    _, *attributes = answer.headers["set-cookie"].split("; ")
    assert attributes == ["Path=/console", "Max-Age=43200", "HttpOnly", "SameSite=Strict"]


def test_behind_tls_the_cookie_is_secure(served: Running) -> None:
    answer = Operator(served.port).post("/sign-in", {"token": served.token}, X_Forwarded_Proto="https")
    assert answer.headers["set-cookie"].endswith("; SameSite=Strict; Secure")


def test_an_unknown_token_is_refused(served: Running) -> None:
    answer = Operator(served.port).post("/sign-in", {"token": "rdk_unknown"})
    assert (answer.status, "set-cookie" in answer.headers) == (401, False)
    assert "This is not a live access token." in plain(answer)


def test_a_token_of_another_kind_is_refused(served: Running) -> None:
    answer = Operator(served.port).post("/sign-in", {"token": issue(served.home, "machine", "api")})
    assert (answer.status, "set-cookie" in answer.headers) == (403, False)


def test_a_link_signs_in_once(served: Running) -> None:
    link, operator = new_link(served), Operator(served.port)
    assert operator.enter(link).headers["location"] == "/console"
    assert "console-" in operator.text("")
    again = Operator(served.port).enter(link)
    assert (again.status, "set-cookie" in again.headers) == (401, False)
    assert "This link was used before or has expired." in plain(again)


def test_looking_at_a_link_does_not_use_it_up(served: Running) -> None:
    link, operator = new_link(served), Operator(served.port)
    looked = [operator.ask(method, link) for method in ("HEAD", "GET", "HEAD", "GET")]
    assert [(each.status, "set-cookie" in each.headers) for each in looked] == [(200, False)] * 4
    assert operator.enter(link).status == 303


def test_another_site_cannot_use_a_link_up(served: Running) -> None:
    link, operator = new_link(served), Operator(served.port)
    code = link.partition("code=")[2]
    for headers in ({"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "", "Origin": "https://evil.example"}):
        assert operator.post("/enter", {"code": code}, **headers).status == 403
    assert operator.enter(link).status == 303


def test_a_link_acts_as_a_token_of_its_account(served: Running) -> None:
    operator = Operator(served.port)
    operator.enter(new_link(served))
    operator.get("/relayers")
    operator.post("/relayers/sepolia-1/pause")
    operator.post("/relayers/sepolia-1/resume")
    entry = served.ask("GET", "/admin/v1/audit?order=newest&per_page=1").json["data"][0]
    assert entry["actor"].startswith("token:console-")
    assert entry["origin"] == "console"


def test_signing_out_ends_the_session(operator: Operator) -> None:
    cookie = operator.cookie
    assert operator.post("/sign-out").headers["location"] == "/console/sign-in"
    operator.cookie = cookie
    assert operator.get("").status == 303


def test_a_readonly_operator_can_sign_out(looker: Operator) -> None:
    assert looker.post("/sign-out").headers["location"] == "/console/sign-in"


def test_a_revoked_token_ends_its_session_on_the_next_request(served: Running) -> None:
    operator = Operator(served.port).sign_in(issue(served.home, "leaver", "admin"))
    withdraw(served.home, "leaver")
    answer = operator.get("")
    assert (answer.status, answer.headers["location"]) == (303, "/console/sign-in")


def test_a_form_without_a_session_is_refused(served: Running) -> None:
    answer = Operator(served.port).post("/relayers/sepolia-1/pause")
    assert answer.status == 401
    assert "Your session has ended. Sign in again." in plain(answer)


def test_failed_attempts_are_limited_by_address_and_by_what_is_tried(served: Running) -> None:
    with Running(served.home, trusted_proxies="127.0.0.1") as running:
        stranger = Operator(running.port)

        def fail(path: str, field: str, value: str, address: str) -> int:
            return stranger.post(path, {field: value}, X_Forwarded_For=address).status

        by_address = [fail("/sign-in", "token", f"guess {each}", "203.0.113.7") for each in range(11)]
        by_code = [fail("/enter", "code", "the same", f"203.0.113.{each}") for each in range(100, 111)]
        other = fail("/sign-in", "token", "another guess", "203.0.113.8")
    assert (by_address, by_code, other) == ([401] * 10 + [429], [401] * 10 + [429], 401)


def test_nobody_locks_out_others_at_the_same_address(served: Running) -> None:
    """Behind a proxy that is not trusted, everybody has its address."""
    link = new_link(served)
    with Running(served.home) as running:
        stranger, operator = Operator(running.port), Operator(running.port)
        looked = [stranger.get("/enter?code=x").status for _ in range(20)]
        guessed = [stranger.post(*guess) for guess in (("/enter", {"code": "x"}), ("/sign-in", {"token": "x"})) * 10]
        entered = [operator.enter(link).status, operator.post("/sign-in", {"token": served.token}).status]
    assert (looked, guessed[-1].status, entered) == ([200] * 20, 429, [303, 303])
    assert re.search(r"signing in is blocked until \d\d:\d\d:\d\d UTC", plain(guessed[-1]))


def test_one_token_signs_in_so_often_and_what_that_adds_is_counted(served: Running) -> None:
    token, other = issue(served.home, "eager", "readonly"), issue(served.home, "calm", "readonly")
    with Running(served.home) as running:
        eager = Operator(running.port)
        answers = [eager.post("/sign-in", {"token": token}) for _ in range(201)]
        calm = Operator(running.port).post("/sign-in", {"token": other}).status
        counted = running.ask("GET", "/metrics").body.decode()
        still = Operator(running.port)
        still.cookie = answers[-2].headers["set-cookie"].partition(";")[0]
        assert still.get("/relayers").status == 200
    assert ({each.status for each in answers[:-1]}, answers[-1].status, calm) == ({303}, 429, 303)
    said = r"This token has signed in too often. It can sign in again at \d\d:\d\d:\d\d UTC; its open sessions go on."
    assert re.search(said, plain(answers[-1]))
    assert 'relaydeck_created_records{actor="token:eager",kind="sessions"} 200\n' in counted
    assert re.search(r'relaydeck_created_bytes{actor="token:eager",kind="sessions"} [1-9]\d{4}\n', counted)


def test_a_token_that_signed_in_too_often_signs_in_again_after_an_hour() -> None:
    now = [5000.0]
    limits = SignInLimits(ClientAddress(()), lambda: now[0])
    first = [limits.opened(b"token") for _ in range(200)]
    now[0] += 3599
    waits = limits.opened(b"token"), limits.opened(b"another")
    now[0] += 1
    assert (set(first), waits, limits.opened(b"token")) == ({0}, (1, 0), 0)


def test_each_sign_in_and_sign_out_is_audited(served: Running) -> None:
    operator = Operator(served.port).sign_in(issue(served.home, "comes and goes", "readonly"))
    secret = operator.cookie.partition("=")[2]
    operator.post("/sign-out")
    entries = served.ask("GET", "/admin/v1/audit?order=newest&per_page=2&actor=token:comes%20and%20goes").json["data"]
    assert [(each["action"], each["origin"]) for each in entries] == [
        ("session.ended", "console"),
        ("session.opened", "console"),
    ]
    assert entries[0]["record"] == entries[1]["record"]
    assert secret not in str(entries)


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_a_token_has_at_most_twenty_sessions_and_the_one_idle_longest_ends(
    home: Path, engine: str, lend: object
) -> None:
    limits, secrets = SessionLimits(3600, 43_200), [new_session_secret() for _ in range(25)]
    lend(home, engine)  # type: ignore[operator]
    issue(home, "root", "admin")
    issue(home, "other", "admin")
    with opened(home) as store:
        find = partial(find_session, store.database.read, store.vault.proofs)
        audit = AuditLog(store.vault)
        for number, secret in enumerate(secrets):
            with store.database.transaction() as transaction:
                open_session(transaction, audit, secret, 1 if number else 2, limits, 1000 + number)
                if number == 20:  # the first of its token is used again
                    session = find(secrets[1], limits, 1020)
                    assert session is not None
                    touch_session(transaction, store.vault.proofs, secrets[1], session, 1020)
        live = [number for number, each in enumerate(secrets) if find(each, limits, 1030)]
        ended = store.database.read("SELECT action FROM audit WHERE action = 'session.ended'")
    assert live == [0, 1, *range(6, 25)]
    assert len(ended) == 4


def test_it_can_be_turned_off(home: Path) -> None:
    token = issue(home, "root", "admin")
    with Running(home, token=token, console="off") as running:
        assert running.ask("GET", "/").status == 404
        assert running.ask("GET", "/console").status == 404
    done = run_command(home, "console", console="off")
    assert (done.returncode, "the console is off" in done.stderr) == (1, True)


def test_a_link_to_a_port_where_nothing_answers_says_so(home: Path) -> None:
    assert run_command(home, "token", "create", "first").returncode == 0
    port = free_port()
    done = run_command(home, "console", port=str(port))
    assert done.stdout.startswith(f"http://127.0.0.1:{port}/console/enter?code=")
    assert done.stderr == (
        f"note: nothing answers at http://127.0.0.1:{port}; pass the address of the service with --url\n"
    )


def test_a_link_is_printed_for_a_host_that_no_name_can_be(home: Path) -> None:
    assert run_command(home, "token", "create", "first").returncode == 0
    done = run_command(home, "console", host="a..b")
    assert (done.returncode, done.stdout[:14]) == (0, "http://a..b:80")


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_a_session_ends_when_idle_and_at_its_greatest_age(home: Path, engine: str, lend: object) -> None:
    limits, secret = SessionLimits(3600, 43_200), new_session_secret()
    lend(home, engine)  # type: ignore[operator]
    issue(home, "root", "admin")
    with opened(home) as store:
        with store.database.transaction() as transaction:
            open_session(transaction, AuditLog(store.vault), secret, 1, limits, 1000)
        find = partial(find_session, store.database.read, store.vault.proofs, secret, limits)
        found = [find(1000 + age) is not None for age in (0, 3599, 3600)]
        assert found == [True, True, False]
        with store.database.transaction() as transaction:
            session = find(1000)
            assert session is not None
            touch_session(transaction, store.vault.proofs, secret, session, 44_199)
        found = [find(1000 + age) is not None for age in (43_199, 43_200)]
        assert found == [True, False]


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_a_session_is_known_for_a_day_after_its_end(home: Path, engine: str, lend: object) -> None:
    """As long as somebody may send a form in it. Others sign in meanwhile."""
    limits, secrets = SessionLimits(3600, 43_200), [new_session_secret() for _ in range(3)]
    lend(home, engine)  # type: ignore[operator]
    issue(home, "root", "admin")
    with opened(home) as store:
        known = []
        for secret, moment in zip(secrets, (1000, 90_999, 91_000), strict=True):
            with store.database.transaction() as transaction:
                open_session(transaction, AuditLog(store.vault), secret, 1, limits, moment)
            known.append([has_existed(store.database.read, each) for each in secrets])
    assert known == [[True, False, False], [True, True, False], [False, True, True]]


def copied_rows(database: Database, table: str, columns: str) -> Callable[[], None]:
    """The rows as they are now. Calling the result puts them back whole, as somebody who can write to the database."""
    rows = database.read(f"SELECT {columns} FROM {table}")

    def put_back() -> None:
        with database.transaction() as transaction:
            transaction.execute(f"DELETE FROM {table}")
            transaction.insert(table, columns.split(", "), rows)

    return put_back


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_a_session_that_was_signed_out_stays_ended_when_its_row_is_put_back(
    home: Path, engine: str, lend: object
) -> None:
    limits, secret = SessionLimits(3600, 43_200), new_session_secret()
    lend(home, engine)  # type: ignore[operator]
    issue(home, "root", "admin")
    with opened(home) as store:
        with store.database.transaction() as transaction:
            open_session(transaction, AuditLog(store.vault), secret, 1, limits, 1000)
        find = partial(find_session, store.database.read, store.vault.proofs, secret, limits, 1000)
        put_back = copied_rows(store.database, "console_sessions", "digest, token_seq, created_at, used_at, proof")
        put_back()
        assert find() is not None
        with store.database.transaction() as transaction:
            close_session(transaction, AuditLog(store.vault), secret, 1000)
        put_back()
        assert find() is None


def test_a_last_use_that_was_changed_in_the_database_ends_the_session(home: Path) -> None:
    """Otherwise an idle session could be kept for as long as a session may last."""
    issue(home, "root", "admin")
    limits, secret = SessionLimits(3600, 43_200), new_session_secret()
    with opened(home) as store:
        with store.database.transaction() as transaction:
            open_session(transaction, AuditLog(store.vault), secret, 1, limits, 1000)
            transaction.execute("UPDATE console_sessions SET used_at = 5000")
        assert find_session(store.database.read, store.vault.proofs, secret, limits, 5000) is None


def test_a_used_link_opens_nothing_when_its_row_is_put_back(home: Path) -> None:
    issue(home, "root", "admin")
    with opened(home) as store:
        with store.database.transaction() as transaction:
            code = issue_code(ChangeContext(transaction, AuditLog(store.vault), "cli:me", 1000), "console-me")
        put_back = copied_rows(store.database, "console_codes", "digest, token_seq, expires_at, proof")
        with store.database.transaction() as transaction:
            assert use_code(transaction, AuditLog(store.vault), code, 1000) is not None
        put_back()
        with store.database.transaction() as transaction:
            assert use_code(transaction, AuditLog(store.vault), code, 1000) is None


def test_a_session_row_inserted_without_the_master_key_opens_nothing(home: Path) -> None:
    """Whoever can write the database could otherwise act as any admin token."""
    issue(home, "root", "admin")
    limits, secret = SessionLimits(3600, 43_200), new_session_secret()
    with opened(home) as store:
        with store.database.transaction() as transaction:
            open_session(transaction, AuditLog(store.vault), secret, 1, limits, 1000)
            token = transaction.one("SELECT digest FROM tokens", {})
            assert token is not None
            row = (digest_of(secret.reveal().encode()), token.digest, 1000, 1000)
            forged = RowProofs(bytes(32)).of("console_sessions", row)
            transaction.execute("UPDATE console_sessions SET proof = :proof", {"proof": forged})
        assert find_session(store.database.read, store.vault.proofs, secret, limits, 1000) is None


def test_a_session_of_a_token_that_was_changed_in_the_database_has_ended(home: Path) -> None:
    issue(home, "root", "readonly")
    limits, secret = SessionLimits(3600, 43_200), new_session_secret()
    with opened(home) as store:
        with store.database.transaction() as transaction:
            open_session(transaction, AuditLog(store.vault), secret, 1, limits, 1000)
            transaction.execute("UPDATE tokens SET kind = 'admin'")
        assert find_session(store.database.read, store.vault.proofs, secret, limits, 1000) is None


SWAP_NUMBERS = ("UPDATE tokens SET seq = 99 WHERE seq = 2", "UPDATE tokens SET seq = 2 WHERE seq = 1")


def test_a_session_does_not_pass_to_the_token_that_gets_its_number(home: Path) -> None:
    issue(home, "root", "admin")
    issue(home, "viewer", "readonly")
    limits, secret = SessionLimits(3600, 43_200), new_session_secret()
    with opened(home) as store:
        with store.database.transaction() as transaction:
            open_session(transaction, AuditLog(store.vault), secret, 2, limits, 1000)
        run_statement(store.database, "PRAGMA foreign_keys = OFF")
        for statement in SWAP_NUMBERS:
            run_statement(store.database, statement)
        assert find_session(store.database.read, store.vault.proofs, secret, limits, 1000) is None


def test_a_code_does_not_pass_to_the_token_that_gets_its_number(home: Path) -> None:
    issue(home, "root", "admin")
    issue(home, "console-me", "admin")
    with opened(home) as store:
        with store.database.transaction() as transaction:
            code = issue_code(ChangeContext(transaction, AuditLog(store.vault), "cli:me", 1000), "console-me")
        run_statement(store.database, "PRAGMA foreign_keys = OFF")
        for statement in SWAP_NUMBERS:
            run_statement(store.database, statement)
        with store.database.transaction() as transaction:
            assert use_code(transaction, AuditLog(store.vault), code, 1000) is None


def test_a_code_inserted_without_the_master_key_opens_nothing(home: Path) -> None:
    issue(home, "root", "admin")
    code = new_session_secret()
    with opened(home) as store, store.database.transaction() as transaction:
        transaction.execute(
            "INSERT INTO console_codes (digest, token_seq, expires_at) VALUES (:digest, 1, 9999999999)",
            {"digest": digest_of(code.reveal().encode())},
        )
        assert use_code(transaction, AuditLog(store.vault), code, 1000) is None


@pytest.mark.parametrize(("age", "is_usable"), [(0, True), (599, True), (600, False)])
def test_a_code_expires_after_ten_minutes(home: Path, age: int, is_usable: bool) -> None:
    issue(home, "root", "admin")
    with opened(home) as store, store.database.transaction() as transaction:
        code = issue_code(ChangeContext(transaction, AuditLog(store.vault), "cli:me", 1000), "console-me")
        assert (use_code(transaction, AuditLog(store.vault), code, 1000 + age) is not None) is is_usable


def test_open_starts_a_browser_with_the_link(served: Running, tmp_path: Path) -> None:
    """BROWSER names the browser to use: here a script that notes what it was started with."""
    script, noted = tmp_path / "browser", tmp_path / "noted"
    script.write_text(f'#!/bin/sh\nprintf %s "$1" > {noted}\n')
    script.chmod(0o755)
    done = subprocess.run(
        [*COMMAND, "console", "--open", "--url", f"http://127.0.0.1:{served.port}"],
        env=clean_environment(served.home) | {"BROWSER": str(script)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    link = done.stdout.strip()
    assert noted.read_text() == link
    path = link.removeprefix(f"http://127.0.0.1:{served.port}/console")
    assert Operator(served.port).enter(path).headers["location"] == "/console"


def test_nothing_of_a_session_is_stored_in_clear(served: Running, operator: Operator) -> None:
    secret = operator.cookie.partition("=")[2].encode()
    for path in served.home.glob("relaydeck.db*"):
        assert secret not in path.read_bytes()


def test_the_link_leads_to_the_port_of_the_settings(home: Path) -> None:
    assert run_command(home, "token", "create", "root", "--kind", "admin").returncode == 0
    done = run_command(home, "console", host="::1", port="18080")
    assert done.stdout.startswith("http://[::1]:18080/console/enter?code=")
