"""Every setting is read, checked, named when it is wrong, and on its page."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from pages import settings as settings_page
from relaydeck.cli.commands import cli
from relaydeck.errors import OperatorError
from relaydeck.secret import Secret
from relaydeck.settings.model import (
    OLD_NAMES,
    OTHER_VARIABLES,
    SETTINGS,
    Drivers,
    Settings,
    read_settings,
    setting_warnings,
    unknown_names,
)
from relaydeck.settings.values import SIGNER_TYPES, DatabaseUrl
from tests.support.running import Running, free_port, run_command
from tests.support.seeding import issue

WRONG = {
    "home": ["", "~nobody-of-this-name/x"],
    "host": ["", "two words", "a\nb", "[::1", "::1]", "[]"],
    "port": ["", "0", "65536", "0000001234567", "9" * 5000, "x", "-1", "²"],
    "issuers": [
        "",
        "{}",
        '[{"name": "ci"}]',
        '[{"name": "ci", "url": "http://ci.example.com", "audience": ["a"], "rules": []}]',
    ],
    "database_url": [
        "",
        "sqlite:///",
        "relaydeck.db",
        "mysql://x/y",
        "postgresql://",
        "postgresql://u:p@ss@host/y",
        "postgresql://u:p/ss@host/y",
        "postgresql://u:p#ss@host/y",
        "postgresql://u:p?ss@host/y",
        "postgresql://user:password/y",
        "postgresql://host:65x/y",
        "postgresql://a b/y",
    ],
    "master_key_file": [""],
    "master_key_from": [
        "vault-transit",
        "[]",
        "{}",
        '{"driver": ""}',
        '{"driver": 7}',
        '{"driver": "aws-kms", "key_id": 7}',
        '{"driver": "aws-kms", "endpoint": "x"}',
        '{"driver": "vault-transit", "role_id": "in clear"}',
        '{"driver": "google-kms", "service_account": {"client_email": "a"}}',
        '{"driver": "vault-transit", "address": {"file": 7}}',
        "[" * 100_000,
    ],
    "bootstrap_token_file": [""],
    "bootstrap_token_kind": ["", "root", "API"],
    "rate_limit_per_second": ["", "-1", "1.5", "x", "1e3", "²", "1000000001", "9" * 5000],
    "rate_limit_burst": ["0", "-1", " 1", "1000000001"],
    "limits_url": [
        "",
        "x",
        "http://host",
        "redis://",
        "redis:///0",
        "redis://host:x",
        "redis://host/x",
        "redis://host#x",
        "redis://u:p/w@host",
        "redis://host?timeout=1",
        "redis://host?db=x",
        "unix://",
        "unix://host/path",
    ],
    "limits_password_file": [""],
    "limits_timeout_seconds": ["0", "x"],
    "max_per_page": ["0", "x"],
    "max_body_bytes": ["0", "1MB"],
    "apply_max_body_bytes": ["0", "1MB"],
    "header_timeout_seconds": ["0", "soon"],
    "stop_timeout_seconds": ["0", ""],
    "stale_seconds": ["0", "forever"],
    "signer_config": ["", "all"],
    "signer_check_seconds": ["-1", "", "x", "86401"],
    "driver_ca_file": [""],
    "driver_deadline_seconds": ["0"],
    "rpc_deadline_seconds": ["0"],
    "rpc_try_timeout_seconds": ["-1"],
    "monitor_interval_seconds": ["-1", "", "x", "0.0", "86401"],
    "runway_warn_hours": ["-1", "x"],
    "balance_days": ["0", "x"],
    "monitor_rounds": ["0", "1.5"],
    "rpc_guard": ["", "yes", "1"],
    "rpc_allow": ["x", "10.0.0.1/8"],
    "driver_allow": ["x", "10.0.0.1/8"],
    "webhook_allow": ["x", "10.0.0.1/8"],
    "event_retention_days": ["0", "x"],
    "trusted_proxies": ["x", "10.0.0.1/8", "10.0.0.0/33"],
    "console": ["", "yes"],
    "core": ["", "yes"],
    "event_audit_head": ["", "yes"],
    "console_idle_seconds": ["0", "", "x", "86401"],
    "console_session_seconds": ["0", "", "x", "86401"],
    "metrics_relayers": [",".join(f"r{number}" for number in range(1001)), "r1,..", "r" * 256],
    "otel_endpoint": ["", "collector:4318", "http://u:p@collector:4318", "http://collector?key=k"],
    "operations_address": [
        "",
        "9000",
        "host",
        "host:0",
        "host:65536",
        ":9000",
        "host:x",
        "[::1:9000",
        "two words:9000",
    ],
    "log_format": ["", "xml"],
    "log_level": ["", "loud"],
}
WRONG_DRIVERS = {
    **{f"driver_{name}": ["two words", "-x", "x" * 65] for name in SIGNER_TYPES},
    **{f"driver_{name}_endpoint": ["", "x", "ftp://x"] for name in SIGNER_TYPES if name != "plain"},
}
WRONG_OLD = {
    "balance_minute_days": ["0", "x"],
    "balance_ten_minute_days": ["0", "x"],
    "balance_hour_days": ["0", "x"],
    "body_timeout_seconds": ["0", "-1", "nan", "inf", "x", "86401"],
    "write_timeout_seconds": ["0", "soon"],
    "driver_concurrency": ["0"],
    "rpc_probe_seconds": ["x"],
    "rpc_connections": ["0"],
    "lease_seconds": ["0", "x"],
    "priority_fee_percentile": ["-1", "101", "nan", "x"],
    "priority_fee_blocks": ["0"],
    "webhook_timeout_seconds": ["0"],
    "console_streams": ["0", "", "x"],
}
RIGHT = {
    "home": ("/x/y", Path("/x/y")),
    "host": ("[::1]", "::1"),
    "port": ("65535", 65_535),
    "database_url": ("sqlite:////x/y.db", DatabaseUrl("sqlite:////x/y.db")),
    "rate_limit_per_second": ("0", 0),
    "rate_limit_burst": ("1000000000", 1_000_000_000),
    "limits_url": ("rediss://u:p@host:1/2?ssl_ca_certs=/x", Secret("rediss://u:p@host:1/2?ssl_ca_certs=/x")),
    "max_per_page": ("007", 7),
    "body_timeout_seconds": ("0.5", 0.5),
    "signer_config": ("non_secret", "non_secret"),
    "signer_check_seconds": ("0", 0.0),
    "monitor_interval_seconds": ("0", 0.0),
    "lease_seconds": ("0.25", 0.25),
    "metrics_relayers": ("r1, r/2,r1,", ("r1", "r/2")),
    "operations_address": ("[::1]:9000", ("::1", 9000)),
    "log_format": ("text", "text"),
}


def test_a_setting_that_may_be_0_says_so() -> None:
    with pytest.raises(OperatorError) as error:
        read_settings({"RELAYDECK_MONITOR_INTERVAL_SECONDS": "-1"})
    expected = "0, or a number of seconds above 0, at most 86400"
    assert error.value.problem == f"RELAYDECK_MONITOR_INTERVAL_SECONDS must be {expected}"


def test_every_setting_is_tried_with_a_bad_value() -> None:
    assert set(WRONG) == {setting.name for setting in SETTINGS} - {"drivers"}
    assert set(WRONG_OLD) == set(OLD_NAMES)


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, texts in (WRONG | WRONG_DRIVERS | WRONG_OLD).items() for text in texts]
)
def test_a_bad_value_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(OperatorError) as error:
        read_settings({f"RELAYDECK_{name.upper()}": text})
    assert error.value.problem.startswith(f"RELAYDECK_{name.upper()} must be ")


@pytest.mark.parametrize("name", RIGHT)
def test_a_good_value_is_read(name: str) -> None:
    text, value = RIGHT[name]
    assert getattr(read_settings({f"RELAYDECK_{name.upper()}": text}), name) == value


def test_an_empty_environment_gives_the_defaults() -> None:
    assert read_settings({}) == Settings()


def test_every_bad_value_is_named_at_once() -> None:
    with pytest.raises(OperatorError) as error:
        read_settings({"RELAYDECK_MAX_PER_PAGE": "x", "RELAYDECK_LOG_LEVEL": "x"})
    assert error.value.problem == (
        "RELAYDECK_MAX_PER_PAGE must be a whole number from 1 to 1000000000; "
        "RELAYDECK_LOG_LEVEL must be debug or info or warning or error"
    )


def test_a_bad_value_is_not_quoted() -> None:
    with pytest.raises(OperatorError) as error:
        read_settings({"RELAYDECK_MAX_PER_PAGE": "planted"})
    assert "planted" not in str(error.value)


@pytest.mark.parametrize("url", ["redis://u:planted@host", "valkey://:planted@host:1/2", "unix://:planted@/run/valkey"])
def test_the_password_of_a_limits_url_is_in_no_repr(url: str) -> None:
    assert "planted" not in repr(read_settings({"RELAYDECK_LIMITS_URL": url}))


def test_a_bad_value_stops_the_start(home: Path) -> None:
    done = run_command(home, "serve", "--port", str(free_port()), max_body_bytes="1MB")
    assert (done.returncode, done.stdout, done.stderr, home.exists()) == (
        1,
        "",
        "relaydeck: RELAYDECK_MAX_BODY_BYTES must be a whole number from 1 to 1000000000\n"
        "Correct the settings and start again.\n",
        False,
    )


@pytest.mark.parametrize(("name", "text"), [(name, text) for name in ("host", "port") for text in WRONG[name]])
def test_an_option_is_refused_in_the_words_of_its_setting(home: Path, name: str, text: str) -> None:
    with pytest.raises(OperatorError) as error:
        read_settings({f"RELAYDECK_{name.upper()}": text})
    done = CliRunner().invoke(cli, ["serve", "--home", str(home), f"--{name}", text])
    assert (done.exit_code, done.output.splitlines()[-1]) == (
        2,
        error.value.problem.replace(f"RELAYDECK_{name.upper()}", f"Error: --{name}"),
    )


def test_an_unknown_name_is_reported_with_the_nearest() -> None:
    assert unknown_names(["RELAYDECK_MAX_PERPAGE", "RELAYDECK_MAX_PER_PAGE", "PATH"]) == [
        "RELAYDECK_MAX_PERPAGE is not a setting and is ignored; did you mean RELAYDECK_MAX_PER_PAGE?"
    ]


def test_a_name_that_is_near_none_gets_no_suggestion() -> None:
    assert unknown_names(["RELAYDECK_WORKERS"]) == ["RELAYDECK_WORKERS is not a setting and is ignored"]


def test_a_name_that_an_orchestrator_injects_is_reported() -> None:
    (warning,) = unknown_names(["RELAYDECK_PORT_8080_TCP"])
    assert warning.startswith("RELAYDECK_PORT_8080_TCP is not a setting and is ignored")


def test_a_service_link_of_kubernetes_is_not_a_port() -> None:
    environment = {"RELAYDECK_PORT": "tcp://10.0.0.1:8080"}
    assert read_settings(environment) == Settings()
    assert setting_warnings(environment) == [
        "RELAYDECK_PORT is a service link of Kubernetes, not a port, and is ignored"
    ]


def test_names_that_commands_read_are_not_reported() -> None:
    assert unknown_names(OTHER_VARIABLES) == []


def test_drivers_are_bound_one_by_one() -> None:
    environment = {
        "RELAYDECK_DRIVER_PLAIN": "",
        "RELAYDECK_DRIVER_PROVIDER_C": "vault-kv",
        "RELAYDECK_DRIVER_PROVIDER_C_ENDPOINT": "https://vault.example.com",
    }
    assert read_settings(environment).drivers == Drivers(
        {"provider_c": "vault-kv"}, {"provider_c": "https://vault.example.com"}
    )
    assert read_settings({}).drivers == Drivers({"plain": "local"}, {})


def test_an_old_name_still_works_and_is_warned_of() -> None:
    environment = {"RELAYDECK_BALANCE_HOUR_DAYS": "5", "RELAYDECK_LEASE_SECONDS": "3"}
    found = read_settings(environment)
    assert (found.balance_days, found.lease_seconds) == (5, 3.0)
    assert setting_warnings(environment) == [
        "RELAYDECK_BALANCE_HOUR_DAYS is called RELAYDECK_BALANCE_DAYS now: version 0.3.0 ignores the old name",
        "RELAYDECK_LEASE_SECONDS is not a setting any more: it still works, and version 0.3.0 ignores it",
    ]


def test_the_new_name_takes_precedence() -> None:
    assert read_settings({"RELAYDECK_BALANCE_HOUR_DAYS": "5", "RELAYDECK_BALANCE_DAYS": "6"}).balance_days == 6


def test_no_old_name_is_suggested() -> None:
    assert unknown_names(["RELAYDECK_CONSOLE_STREAM"]) == [
        "RELAYDECK_CONSOLE_STREAM is not a setting and is ignored; did you mean RELAYDECK_CONSOLE?"
    ]


def test_serve_warns_of_an_unknown_name_and_serves(home: Path) -> None:
    with Running(home, token=issue(home), max_perpage="5") as running:
        assert running.ask("GET", "/api/v1/signers").status == 200
    assert "RELAYDECK_MAX_PERPAGE is not a setting and is ignored; did you mean RELAYDECK_MAX_PER_PAGE?" in running.log


def test_the_page_of_settings_is_current() -> None:
    """When this fails: `make docs`."""
    assert settings_page.PAGE.read_text("utf-8") == settings_page.page()


def test_every_setting_is_on_the_page_with_its_meaning() -> None:
    rows = [line for line in settings_page.page().splitlines() if line.startswith("| `RELAYDECK_")]
    assert len(rows) == len(SETTINGS)
