"""Settings in a file: the same values as in the environment, which overrides them; nothing unknown, no password."""

import re
import socket
import tomllib
from pathlib import Path

import pytest

from relaydeck.errors import OperatorError
from relaydeck.scope import Scope
from relaydeck.settings.issuers import Issuer, Rule
from relaydeck.settings.model import Drivers, Settings, read_settings, setting_warnings
from relaydeck.settings.values import DatabaseUrl, KeySource
from tests.support.running import Running, free_port, run_command
from tests.support.seeding import issue

PAGE = (Path(__file__).parents[2] / "docs" / "settings.md").read_text("utf-8")


def settings_of(path: Path, content: str, **environment: str) -> Settings:
    path.write_text(content, "utf-8")
    return read_settings({"RELAYDECK_CONFIG": str(path)} | environment)


def refusal(path: Path, content: str) -> str:
    with pytest.raises(OperatorError) as error:
        settings_of(path, content)
    return error.value.problem.replace(str(path), "FILE")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


def test_every_kind_of_value_is_read(file: Path) -> None:
    content = (
        'home = "/x"\nport = 9000\nbody_timeout_seconds = 0.5\nwebhook_allow = ["10.0.0.0/8", "::1"]\n'
        'trusted_proxies = "10.0.0.1, 10.0.0.2"\nlog_format = "json"\n'
    )
    environment = {
        "RELAYDECK_HOME": "/x",
        "RELAYDECK_PORT": "9000",
        "RELAYDECK_BODY_TIMEOUT_SECONDS": "0.5",
        "RELAYDECK_WEBHOOK_ALLOW": "10.0.0.0/8,::1",
        "RELAYDECK_TRUSTED_PROXIES": "10.0.0.1,10.0.0.2",
        "RELAYDECK_LOG_FORMAT": "json",
    }
    assert settings_of(file, content) == read_settings(environment)


def test_the_environment_overrides_the_file(file: Path) -> None:
    found = settings_of(file, "max_per_page = 5\nport = 9000", RELAYDECK_MAX_PER_PAGE="7")
    assert (found.max_per_page, found.port) == (7, 9000)


def test_an_empty_file_gives_the_defaults(file: Path) -> None:
    assert settings_of(file, "") == Settings()


def test_every_unknown_name_is_refused_with_the_nearest(file: Path) -> None:
    assert refusal(file, "max_perpage = 5\nport = 1\nRELAYDECK_PORT = 1\n[xyz]\na = 1") == (
        "max_perpage in FILE is not a setting; did you mean max_per_page?; "
        "RELAYDECK_PORT in FILE is not a setting; did you mean port?; xyz in FILE is not a setting"
    )


@pytest.mark.parametrize("name", ["RELAYDECK_LOG_LEVEL", "relaydeck_log_level", "LOG_LEVEL", "RELAYDECK_LOGLEVEL"])
def test_the_name_of_a_variable_is_refused_with_its_name_in_a_file(file: Path, name: str) -> None:
    assert refusal(file, f'{name} = "info"') == (f"{name} in FILE is not a setting; did you mean log_level?")


@pytest.mark.parametrize("name", ["RELAYDECK_CONFIG", "config", "token"])
def test_what_only_the_environment_can_set(file: Path, name: str) -> None:
    assert refusal(file, f'{name} = "x"') == (
        f"{name} in FILE cannot be set in a file: use the environment or an option"
    )


def test_mistakes_of_all_kinds_are_named_together(file: Path) -> None:
    assert refusal(file, 'prot = 1\nmax_per_page = "planted"') == (
        "prot in FILE is not a setting; did you mean port?; "
        "max_per_page in FILE must be a whole number from 1 to 1000000000"
    )


def test_an_apply_file_is_recognised(file: Path) -> None:
    assert refusal(file, "[[signers]]\nid = 'ops'") == "FILE is an apply file, not a settings file"


@pytest.mark.parametrize(("value", "console"), [("true", "on"), ("false", "off")])
def test_a_truth_value_stands_for_on_or_off(file: Path, value: str, console: str) -> None:
    assert settings_of(file, f"console = {value}").console == console


def test_a_truth_value_where_none_is_expected(file: Path) -> None:
    assert refusal(file, "port = true") == "port in FILE must be a port from 1 to 65535"


@pytest.mark.parametrize("value", ["1979-05-27", "[1]", "{ file = 'x' }", "{}"])
def test_a_value_of_another_type_is_refused(file: Path, value: str) -> None:
    assert refusal(file, f"log_level = {value}") == (
        "log_level in FILE must be a string, a number or an array of strings"
    )


def test_a_bad_value_is_named_as_the_file_names_it_and_not_quoted(file: Path) -> None:
    assert refusal(file, 'max_per_page = "planted"') == (
        "max_per_page in FILE must be a whole number from 1 to 1000000000"
    )


def test_a_file_that_is_not_there(file: Path) -> None:
    with pytest.raises(OperatorError) as error:
        read_settings({"RELAYDECK_CONFIG": str(file)})
    assert error.value.problem == f"the settings file {file} cannot be read: No such file or directory"


def test_a_file_that_is_not_toml(file: Path) -> None:
    assert refusal(file, "port = \n") == "the settings file FILE is not TOML: Invalid value (at line 1, column 8)"


def test_a_file_that_is_not_text(file: Path) -> None:
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(OperatorError) as error:
        read_settings({"RELAYDECK_CONFIG": str(file)})
    assert error.value.problem == f"the settings file {file} is not UTF-8 text"


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("database_url", "postgresql://u:planted@host/x"),
        ("database_url", "postgresql://u@host/x?password=planted"),
        ("database_url", "postgresql://u@host/x?sslpassword=planted"),
        ("limits_url", "redis://:planted@host"),
    ],
)
def test_a_password_is_refused_and_not_quoted(file: Path, name: str, url: str) -> None:
    assert refusal(file, f'{name} = "{url}"') == (
        f'{name} in FILE contains a password: put the URL in a file and write {name} = {{ file = "path" }}'
    )


def test_a_url_without_a_password_is_read(file: Path) -> None:
    found = settings_of(file, 'database_url = "postgresql://relaydeck@db/relaydeck"')
    assert found.database_url == DatabaseUrl("postgresql://relaydeck@db/relaydeck")


def test_a_url_with_a_password_is_read_from_a_file_of_its_own(file: Path, tmp_path: Path) -> None:
    (tmp_path / "url").write_text("postgresql://u:planted@host/x\n", "utf-8")
    found = settings_of(file, f'database_url = {{ file = "{tmp_path}/url" }}')
    assert found.database_url == DatabaseUrl("postgresql://u:planted@host/x")
    assert "planted" not in repr(found)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ('{ file = "/nowhere" }', "refers to the file /nowhere, which cannot be read: No such file or directory"),
        ('{ path = "/x" }', 'must be a string or { file = "path" }'),
        ("5", 'must be a string or { file = "path" }'),
    ],
)
def test_a_reference_that_leads_nowhere(file: Path, value: str, problem: str) -> None:
    assert refusal(file, f"database_url = {value}") == f"database_url in FILE {problem}"


def test_the_example_of_the_page_is_read(file: Path, tmp_path: Path) -> None:
    example, *_ = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "database_url").write_text("sqlite:////x.db", "utf-8")
    content = example.replace("/run/secrets", str(tmp_path))
    assert len(tomllib.loads(content)) == 6
    found = settings_of(file, content)
    assert (found.rate_limit_per_second, found.drivers.bindings["provider_c"]) == (50, "vault-kv")


def test_a_table_binds_drivers(file: Path) -> None:
    (example,) = re.findall(r"```toml\n(\[drivers\].*?)```", PAGE, re.DOTALL)
    assert settings_of(file, example).drivers == Drivers(
        {"provider_a_kms": "aws-kms", "provider_c": "vault-kv"}, {"provider_c": "https://vault.example.com:8200"}
    )


def test_the_environment_overrides_one_driver_of_the_table(file: Path) -> None:
    content = '[drivers]\nprovider_c = "vault-kv"\nprovider_d = "turnkey"'
    found = settings_of(file, content, RELAYDECK_DRIVER_PROVIDER_C="other")
    assert found.drivers.bindings == {"plain": "local", "provider_c": "other", "provider_d": "turnkey"}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("drivers = 5", "drivers in FILE must be a table of signer types"),
        (
            "drivers.provider_cc = 'x'",
            "drivers in FILE has no signer type provider_cc; did you mean provider_c? The types are plain,"
            " provider_a_kms, provider_b_kms, provider_c, provider_c_transit, provider_d, provider_e",
        ),
        ("drivers.plain = 5", 'drivers in FILE must have plain = "driver" or { driver = "…", endpoint = "…" }'),
        ("drivers.plain.x = 'y'", 'drivers in FILE must have plain = "driver" or { driver = "…", endpoint = "…" }'),
        ("drivers.plain = '-x'", "drivers.plain in FILE must be the name of a driver, such as aws-kms, or nothing"),
        (
            "drivers.provider_c.endpoint = 'planted'",
            "drivers.provider_c.endpoint in FILE must be an absolute http(s) URL",
        ),
        (
            "drivers.plain.endpoint = 'http://x'",
            "drivers in FILE must not have an endpoint of plain: its keys are stored",
        ),
    ],
)
def test_a_wrong_table_of_drivers(file: Path, content: str, problem: str) -> None:
    assert refusal(file, content) == problem


def test_a_table_names_an_issuer_and_its_rules(file: Path) -> None:
    (example,) = re.findall(r"```toml\n(\[\[issuers\]\].*?)```", PAGE, re.DOTALL)
    rule = Rule(claims={"sub": "repo:acme/infra:ref:refs/heads/main"}, role="editor")
    url = "https://token.actions.githubusercontent.com"
    github = Issuer(name="github", url=url, audience=("https://relay.example.com",), rules=(rule,))
    assert settings_of(file, example).issuers == (github,)


def test_a_table_names_the_key_that_wraps_the_master_key(file: Path) -> None:
    (example,) = re.findall(r"```toml\n(\[master_key_from\].*?)```", PAGE, re.DOTALL)
    names = {each: {"file": f"/run/secrets/{each}"} for each in ("role_id", "secret_id")}
    fields = {"address": "https://vault.example.com:8200", "key_name": "relaydeck"} | names
    assert settings_of(file, example).master_key_from == KeySource("vault-transit", None, fields)


def scoped(scope: str, role: str = "api") -> str:
    return f"rules = [{{ claims = {{ a = 'b' }}, role = '{role}', scope = {scope} }}]"


def test_a_rule_has_a_scope(file: Path) -> None:
    scope = "{ relayers = ['r'], networks = ['n'], labels = { team = 'a' } }"
    issuer = "[[issuers]]\nname = 'ci'\nurl = 'https://ci.example.com'\naudience = ['a']\n"
    (found,) = settings_of(file, issuer + scoped(scope)).issuers
    assert found.rules[0].scope == Scope(("r",), ("n",), {"team": "a"})


def test_a_rule_for_people_has_a_scope_too(file: Path) -> None:
    provider = "url = 'https://login.example.com'\nclient_id = 'relaydeck'\n"
    provider += "redirect_uri = 'https://relay.example.com/console/sso/callback'\n"
    rules = scoped("{ networks = ['n'] }", "viewer")
    content = f"[[issuers]]\nname = 'company'\n{provider}{rules}"
    (issuer,) = settings_of(file, content).issuers
    assert [rule.scope for rule in issuer.rules] == [Scope(networks=("n",))]


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ("url = 'http://ci.example.com'", "must be an https URL without query (http: only on this machine)"),
        ("audience = []", "needs an audience for workloads, or a client_id for people"),
        ("algorithms = ['HS256']", "algorithms must be of RS256, RS384"),
        ("algorithms = ['none']", "algorithms must be of RS256, RS384"),
        ("clock_skew_seconds = 301", "clock_skew_seconds must be 0 to 300"),
        ("allow = ['x']", "addresses such as 10.0.0.5"),
        ("audiences = ['x']", "unknown field `audiences`"),
        ("rules = []", "needs 1 to 100 rules"),
        ("rules = [{ claims = {}, role = 'api' }]", "claims must name at least one claim"),
        ("rules = [{ claims = { a = 'b' }, role = 'root' }]", "role must be one of api, readonly, viewer"),
        ("rules = [{ claims = { a = '*' }, role = 'api' }]", "a claim of * alone says nothing"),
        ("rules = [{ claims = { a = 'b*c' }, role = 'api' }]", "a claim may have * only at its end"),
        (scoped("{}"), "scope must give relayers, networks or labels"),
        (scoped("{ labels = {} }"), "scope must give relayers, networks or labels"),
        (scoped("{ networks = ['..'] }"), "scope must not be a dot segment"),
        (scoped(r'{ relayers = ["a\u0000"] }'), "scope must not contain control characters"),
        (scoped("{ relayers = 'a' }"), "Expected `array`, got `str`"),
        (scoped("{ networks = [" + "'n', " * 1001 + "] }"), "Expected `array` of length <= 1000"),
        (scoped('{ labels = { team = "a\' OR 1" } }'), "matching regex"),
        (scoped("{ label = { team = 'a' } }"), "unknown field `label`"),
        (scoped("{ networks = ['n'] }", "owner"), "scope cannot limit an owner"),
        (scoped("{ networks = ['n'] }", "admin"), "scope cannot limit an owner"),
        (
            "rules = [{ claims = { a = 'b' }, role = 'api', networks = ['n'] }]",
            "unknown field `networks`",
        ),
    ],
)
def test_a_wrong_issuer(file: Path, changed: str, problem: str) -> None:
    right = {
        "name": "name = 'ci'",
        "url": "url = 'https://ci.example.com'",
        "audience": "audience = ['a']",
        "rules": "rules = [{ claims = { a = 'b' }, role = 'api' }]",
    }
    lines = right | {changed.partition(" ")[0]: changed}
    assert problem in refusal(file, "\n".join(["[[issuers]]", *lines.values()]))


def test_old_names_in_a_file_still_work_and_are_warned_of(file: Path) -> None:
    found = settings_of(file, 'driver_provider_c = "vault-kv"\nbalance_hour_days = 5\nlease_seconds = 3')
    assert (found.drivers.bindings["provider_c"], found.balance_days, found.lease_seconds) == ("vault-kv", 5, 3.0)
    assert [each.replace(str(file), "FILE") for each in setting_warnings({"RELAYDECK_CONFIG": str(file)})] == [
        "driver_provider_c in FILE belongs into the table drivers: version 0.3.0 ignores it",
        "balance_hour_days in FILE is called balance_days now: version 0.3.0 ignores the old name",
        "lease_seconds in FILE is not a setting any more: it still works, and version 0.3.0 ignores it",
    ]


def test_serve_reads_the_file_and_the_command_line_overrides_it(home: Path, file: Path) -> None:
    file.write_text("port = 1\nmax_per_page = 5\n", "utf-8")
    token = issue(home)
    with Running(home, "--config", str(file), token=token) as running:
        assert running.ask("GET", "/api/v1/signers?per_page=100").json["pagination"]["per_page"] == 5


@pytest.mark.parametrize("where", ["environment", "file"])
def test_serve_listens_on_the_host_and_port_that_are_set(home: Path, file: Path, where: str) -> None:
    """A taken port shows which one it is, without a service to wait for."""
    with socket.create_server(("127.0.0.2", 0)) as taken:
        host, port = taken.getsockname()
        file.write_text(f'host = "{host}"\nport = {port}\n', "utf-8")
        settings = {"config": str(file)} if where == "file" else {"host": host, "port": str(port)}
        done = run_command(home, "serve", **settings)
    assert (done.returncode, done.stderr) == (
        1,
        f"relaydeck: cannot listen on {host}:{port}: Address already in use\nChoose another --host or --port.\n",
    )


def test_an_operations_address_that_is_taken_is_named_before_anything_is_served(home: Path) -> None:
    issue(home)
    with socket.create_server(("127.0.0.2", 0)) as taken:
        host, port = taken.getsockname()
        done = run_command(home, "serve", "--port", str(free_port()), operations_address=f"{host}:{port}")
    assert (done.returncode, done.stderr) == (
        1,
        f"relaydeck: cannot listen on {host}:{port}: Address already in use\n"
        "Choose another RELAYDECK_OPERATIONS_ADDRESS.\n",
    )


def test_a_command_names_the_file_that_stops_it(home: Path, file: Path) -> None:
    file.write_text("prot = 1", "utf-8")
    done = run_command(home, "signer", "list", "--config", str(file))
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        f"relaydeck: prot in {file} is not a setting; did you mean port?\nCorrect the settings and start again.\n",
    )
