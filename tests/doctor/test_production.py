"""`relaydeck doctor --production`: each check, wrong and right, and the page that lists them."""

import os
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from relaydeck.doctor import Finding, Result
from relaydeck.doctor.production import production_findings
from relaydeck.http.metric_counts import allocate
from relaydeck.settings.model import Settings
from relaydeck.settings.values import address_ranges
from tests.conftest import DEMO
from tests.provisioning.conftest import ProvisionedHome
from tests.support.running import Running, make_token, run_command
from tests.support.seeding import issue, opened

PAGE = Path(__file__).parents[2] / "docs" / "production.md"
DAY = 86_400
SUBJECTS = [
    *("master key", "backup", "rate limit"),
    *("retention", "plain signers", "owner tokens", "protections", "webhooks"),
]
REMEDY = "; pass --tls-cert and --tls-key, or put a TLS proxy in front and name it in RELAYDECK_TRUSTED_PROXIES"


def found(settings: Settings, now: float = 1_900_000_000.0) -> dict[str, Finding]:
    return {each.subject: each for each in production_findings(settings, lambda: now)}


def provision(home: Path, text: str) -> None:
    made = ProvisionedHome(home)
    with closing(made.store):
        made.apply(text)


def test_a_home_that_is_not_ready(home: Path) -> None:
    provision(home, DEMO + '[[notifications]]\nid = "open"\ntype = "webhook"\nurl = "https://hooks.example.com/"\n')
    issue(home, "boss", "owner")
    issue(home, "root", "admin")
    shown = found(Settings(home=home, rate_limit_per_second=0), now=4_000_000_000.0)
    assert {subject: each.result for subject, each in shown.items()} == {
        "master key": "warn",
        "backup": "FAIL",
        "rate limit": "warn",
        "retention": "warn",
        "plain signers": "warn",
        "owner tokens": "warn",
        "protections": "warn",
        "webhooks": "warn",
    }
    assert shown["owner tokens"].remark.startswith("without an expiry: 'boss', 'root'; ")
    assert "a token named console-ACCOUNT is made for links to the console" in shown["owner tokens"].remark
    assert shown["webhooks"].remark.startswith("without a signing key: 'open'; ")
    assert shown["plain signers"].remark.startswith("1 signer of the type plain; ")


def test_a_home_that_is_ready(home: Path, tmp_path: Path) -> None:
    make_token(home, "brief", "--expires", "1d")
    assert run_command(home, "protection", "create", "keys", "--kind", "signer").returncode == 0
    with opened(home):
        key = (home / "master.key").rename(tmp_path / "key")
    (home / "last-backup").touch()
    made = (home / "last-backup").stat().st_mtime
    settings = Settings(home=home, master_key_file=key)
    shown = found(settings, now=made + DAY)
    assert {each.result for each in shown.values()} == {"ok"}
    assert list(shown) == SUBJECTS
    assert found(settings, now=made + 3 * DAY)["backup"].result == "FAIL"


def test_a_token_of_an_owner_that_expires(home: Path) -> None:
    issue(home, "boss", "owner", lasts=DAY)
    assert found(Settings(home=home))["owner tokens"] == Finding("ok", "owner tokens", "without an expiry: none")


def test_protections_are_counted(home: Path) -> None:
    with opened(home):
        remark = (
            "0 protections of records; one person can change any record alone: 'relaydeck protection create' says which"
            " need a second one"
        )
    assert found(Settings(home=home))["protections"] == Finding("warn", "protections", remark)
    assert run_command(home, "protection", "create", "keys", "--kind", "signer").returncode == 0
    remark = "1 protection of records"
    assert found(Settings(home=home))["protections"] == Finding("ok", "protections", remark)


def test_without_a_database_the_other_checks_are_made(home: Path) -> None:
    home.mkdir()
    assert list(found(Settings(home=home))) == SUBJECTS[:3]


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_a_master_key_that_cannot_be_read_does_not_end_the_checks(home: Path, tmp_path: Path, key: str) -> None:
    """A folder, and a name that is too long: as a file of another user, which root may read."""
    with opened(home):
        path = tmp_path / "keys" / key
    shown = found(Settings(home=home, master_key_file=path))
    assert list(shown) == SUBJECTS
    assert shown["master key"] == Finding("ok", "master key", f"{path} is outside the home")


def test_a_running_service_and_its_scrapes(home: Path) -> None:
    make_token(home, "t")
    with Running(home, "--host", "127.0.0.1") as running:
        assert of_command(home, "alerts").startswith(
            "warn  alerts: /metrics was read 0 times since the service started; "
        )
        assert running.ask("GET", "/metrics").status == 200
        assert of_command(home, "alerts") == "ok    alerts: /metrics was read 1 time since the service started"
        assert of_command(home, "TLS", host="0.0.0.0") == (
            f"ok    TLS: the service is at http://127.0.0.1:{running.port},"
            " and RELAYDECK_TRUSTED_PROXIES names no proxy"
        )
    assert "  TLS: " not in run_command(home, "doctor", "--production").stdout


@pytest.mark.parametrize(
    ("served", "proxies", "result"),
    [
        ("https://0.0.0.0:8080", "", "ok"),
        ("http://[::1]:80", "", "ok"),
        ("http://[::]:80", "10.0.0.1", "ok"),
        ("http://0.0.0.0:80", "", "FAIL"),
    ],
)
def test_how_a_service_is_reached(home: Path, served: str, proxies: str, result: Result) -> None:
    settings = Settings(home=home, trusted_proxies=address_ranges(proxies) if proxies else ())
    settings.run_folder.mkdir(parents=True)
    allocate(settings.run_folder / f"metrics-{os.getpid()}", 1)
    settings.served_mark(os.getpid()).write_text(served, "utf-8")
    remark = f"the service is at {served}, and RELAYDECK_TRUSTED_PROXIES names {'a' if proxies else 'no'} proxy"
    assert found(settings)["TLS"] == Finding(result, "TLS", remark + (REMEDY if result == "FAIL" else ""))


def of_command(home: Path, subject: str, **settings: str) -> str:
    lines = run_command(home, "doctor", "--production", **settings).stdout.splitlines()
    (line,) = [each for each in lines if f"  {subject}: " in each]
    return line


def test_it_is_a_check_of_a_home(home: Path) -> None:
    done = run_command(home, "doctor", "--production", url="https://relaydeck.example.com", token="t")
    assert (done.returncode, done.stdout) == (2, "")
    assert "this command works on the home folder only" in done.stderr


def test_without_a_home_the_first_check_says_so(home: Path) -> None:
    done = run_command(home, "doctor", "--production")
    assert done.stdout.splitlines() == [
        f"FAIL  home: {home} does not exist; create it with 'relaydeck serve', or choose another home with --home or"
        " RELAYDECK_HOME"
    ]


def listed() -> Iterator[str]:
    yield from re.findall(r"^\| `([\w ]+)` \|", PAGE.read_text("utf-8"), flags=re.MULTILINE)


def test_the_page_lists_the_same_checks() -> None:
    source = Path(production_findings.__code__.co_filename).read_text("utf-8")
    checked = dict.fromkeys(re.findall(r'_graded\("([\w ]+)"', source))
    assert list(listed()) == ["permissions", *sorted(checked, key=list(listed()).index)]
