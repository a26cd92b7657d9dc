"""Settings that name a driver, a file or a relayer that does not exist: `serve` stops or warns, `doctor` reports."""

import json
import sys
from pathlib import Path

import pytest

from relaydeck.doctor.all_checks import findings
from relaydeck.doctor.machine import Machine
from relaydeck.errors import OperatorError
from relaydeck.settings.model import Drivers, Settings
from relaydeck.signers.drivers.registry import load_driver
from tests.support.running import Running, free_port, run_command
from tests.support.seeding import fill, issue, relayer

DRIVERS = "aws-kms, cdp, google-kms, local, turnkey, vault-kv, vault-transit"
REMEDY = "Correct these settings, or provide what they need, and start again.\n"
NO_DRIVER = (
    f"RELAYDECK_DRIVER_PROVIDER_A_KMS cannot be used: there is no driver 'planted'. Installed drivers: {DRIVERS}"
)
NO_AUTHORITIES = "the certificates in {} cannot be read: RELAYDECK_DRIVER_CA_FILE must name a readable file in PEM form"
NO_PASSWORD = "RELAYDECK_LIMITS_PASSWORD_FILE names {}, which cannot be used: "
LIMITS_URL = "redis://127.0.0.1:1"


def refusal(home: Path, **settings: str) -> str:
    """What `serve` prints, before it has created anything."""
    done = run_command(home, "serve", "--port", str(free_port()), **settings)
    assert (done.returncode, done.stdout, home.exists()) == (1, "", False)
    return done.stderr


def test_a_driver_that_is_not_installed_stops_the_start(home: Path) -> None:
    assert refusal(home, driver_provider_a_kms="planted") == f"relaydeck: {NO_DRIVER}\n{REMEDY}"


def test_authorities_that_are_missing_stop_the_start(home: Path) -> None:
    problem = NO_AUTHORITIES.format("/nowhere")
    assert refusal(home, driver_ca_file="/nowhere") == f"relaydeck: {problem}\n{REMEDY}"


@pytest.mark.parametrize("content", ["", "text", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_a_file_without_certificates_stops_the_start(home: Path, tmp_path: Path, content: str) -> None:
    file = tmp_path / "authorities.pem"
    file.write_text(content)
    problem = NO_AUTHORITIES.format(file)
    assert refusal(home, driver_ca_file=str(file)) == f"relaydeck: {problem}\n{REMEDY}"


def test_a_password_file_that_is_missing_stops_the_start(home: Path) -> None:
    problem = NO_PASSWORD.format("/nowhere") + "No such file or directory"
    stopped = refusal(home, limits_password_file="/nowhere", limits_url=LIMITS_URL)
    assert stopped == f"relaydeck: {problem}\n{REMEDY}"


def test_a_password_file_that_is_no_text_stops_the_start_and_is_not_quoted(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes(b"planted\xff")
    problem = NO_PASSWORD.format(file) + "it is not UTF-8 text"
    stopped = refusal(home, limits_password_file=str(file), limits_url=LIMITS_URL)
    assert stopped == f"relaydeck: {problem}\n{REMEDY}"


def test_everything_that_is_missing_is_named_at_once(home: Path) -> None:
    settings = {"driver_provider_a_kms": "planted", "driver_ca_file": "/nowhere"}
    stopped = refusal(home, limits_password_file="/x", limits_url=LIMITS_URL, **settings)
    problems = [NO_DRIVER, NO_AUTHORITIES.format("/nowhere"), NO_PASSWORD.format("/x") + "No such file or directory"]
    assert stopped == f"relaydeck: {'; '.join(problems)}\n{REMEDY}"


def test_files_that_nothing_needs_are_only_warned_of(home: Path) -> None:
    settings = {"driver_plain": "", "driver_ca_file": "/nowhere", "limits_password_file": "/nowhere"}
    with Running(home, token=issue(home), **settings) as running:
        assert running.ask("GET", "/api/v1/signers").status == 200
    assert warnings(running) == [
        f"{NO_AUTHORITIES.format('/nowhere')}; nothing uses it now, because no driver is bound",
        f"{NO_PASSWORD.format('/nowhere')}No such file or directory;"
        " nothing uses it now, because RELAYDECK_LIMITS_URL is not set",
    ]


def test_a_password_is_not_needed_without_a_rate_limit(home: Path) -> None:
    settings = {"limits_password_file": "/nowhere", "limits_url": LIMITS_URL, "rate_limit_per_second": "0"}
    with Running(home, token=issue(home), **settings) as running:
        pass
    assert warnings(running) == [
        f"{NO_PASSWORD.format('/nowhere')}No such file or directory;"
        " the service does not use it, because there is no rate limit"
    ]


def warnings(running: Running) -> list[str]:
    lines = [json.loads(line) for line in running.log.splitlines()]
    return [line["event"] for line in lines if line["level"] == "warning"]


def test_doctor_reports_what_would_stop_the_start(home: Path) -> None:
    settings = Settings(home=home, drivers=Drivers({"provider_a_kms": "planted"}, {}), driver_ca_file=Path("/nowhere"))
    found = [(each.result, each.remark) for each in findings(settings, Machine()) if each.subject == "settings"]
    assert found == [("FAIL", NO_DRIVER), ("FAIL", NO_AUTHORITIES.format("/nowhere"))]


def test_relayers_that_do_not_exist_are_warned_of_once_before_serving(home: Path) -> None:
    fill(home)
    ids = [f"missing-{number}" for number in range(7)]
    with Running(home, "--workers", "2", token=issue(home), metrics_relayers=",".join(ids)) as running:
        assert running.ask("GET", "/api/v1/signers").status == 200
    lines = [json.loads(line) for line in running.log.splitlines()]
    assert [line["event"] for line in lines[:2]] == [
        "RELAYDECK_METRICS_RELAYERS names relayers that do not exist: they have no metrics until they are created",
        "serving",
    ]
    assert lines[0]["relayers"] == "missing-0, missing-1, missing-2, missing-3, missing-4 and 2 more"
    assert len(warnings(running)) == 1


def test_relayers_that_exist_are_not_warned_of(home: Path) -> None:
    fill(home, relayers=[relayer("r1")])
    with Running(home, token=issue(home), metrics_relayers="r1,missing") as running:
        pass
    assert json.loads(running.log.splitlines()[0])["relayers"] == "missing"


def test_a_driver_without_its_extra_says_how_to_install_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.auth", None)
    monkeypatch.delitem(sys.modules, "relaydeck.signers.drivers.aws_kms", raising=False)
    with pytest.raises(OperatorError) as refused:
        load_driver("aws-kms")
    assert str(refused.value) == (
        "the driver 'aws-kms' needs the package botocore.auth, which is not installed\n"
        "Install it: pip install 'relaydeck[aws]', or '.[aws]' in the clone."
    )
