"""What the deployment files name exists: settings, paths, ports, metrics, files, and each other."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import pytest
import yaml

from relaydeck.cli.commands import cli
from relaydeck.http.metric_counts import Metrics
from relaydeck.http.metrics import ESTIMATE_SECONDS, METRICS
from relaydeck.settings.model import Settings, read_settings, unknown_names
from relaydeck.worker.health_routes import HealthRoutes, Readiness

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
FILES = [path for path in sorted(DEPLOY.rglob("*")) if path.is_file() and "secrets" not in path.parts]
CONTAINERFILE = (DEPLOY / "Containerfile").read_text("utf-8")


def load(path: str) -> Any:
    return yaml.safe_load((DEPLOY / path).read_text("utf-8"))


COMPOSE, CONFIG = load("compose.yaml"), load("kubernetes/configmap.yaml")["data"]
(SINGLE,) = load("compose-single.yaml")["services"].values()
DEPLOYMENT = load("kubernetes/deployment.yaml")
POD = DEPLOYMENT["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
IMAGE = dict(re.findall(r"(RELAYDECK_\w+)=(\S+)", CONTAINERFILE))
REPLICA = COMPOSE["services"]["relaydeck-1"]
ENVIRONMENTS = {"image": IMAGE, "compose": IMAGE | REPLICA["environment"], "kubernetes": IMAGE | CONFIG}
ENVIRONMENTS |= {"compose-single": IMAGE | SINGLE["environment"]}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_setting_that_is_named_exists(path: Path) -> None:
    named = set(re.findall(r"\bRELAYDECK_[A-Z_]*[A-Z]\b", path.read_text("utf-8")))
    groups = {name for name in named if name == "RELAYDECK_RATE_LIMIT"}  # with a star, in prose
    assert unknown_names(named - groups) == []


@pytest.mark.parametrize("where", ENVIRONMENTS)
def test_every_value_is_accepted(where: str) -> None:
    settings = read_settings(ENVIRONMENTS[where])
    assert (settings.host, settings.port, settings.operations_address) == ("0.0.0.0", 8080, ("0.0.0.0", 9090))


def test_a_single_container_keeps_its_state_in_a_volume_and_is_reached_from_this_machine_alone() -> None:
    assert read_settings(ENVIRONMENTS["compose-single"]).database == Path(IMAGE["RELAYDECK_HOME"]) / "relaydeck.db"
    assert SINGLE["volumes"] == [f"home:{IMAGE['RELAYDECK_HOME']}"]
    assert list(load("compose-single.yaml")["volumes"]) == ["home"]
    assert SINGLE["ports"] == ["127.0.0.1:8080:8080"]


@pytest.mark.parametrize("name", ["image", "build", "restart", "init", "read_only", "cap_drop", "security_opt"])
def test_a_single_container_is_confined_as_a_replica_is(name: str) -> None:
    assert SINGLE[name] == REPLICA[name]


def test_both_keep_their_data_in_postgresql_and_no_password_in_a_url() -> None:
    for where in ("compose", "kubernetes"):
        environment = ENVIRONMENTS[where]
        assert environment["RELAYDECK_DATABASE_URL"] == "postgresql://relaydeck@postgres/relaydeck"
        assert environment["RELAYDECK_LIMITS_URL"] == "valkey://relaydeck@valkey:6379/0"


def test_the_replicas_of_compose_are_alike() -> None:
    assert COMPOSE["services"]["relaydeck-2"] == REPLICA


def test_what_compose_mounts_is_there_and_is_mounted() -> None:
    declared = {name: Path(secret["file"]) for name, secret in COMPOSE["secrets"].items()}
    made = set(re.findall(r"keep (\S+)$", (DEPLOY / "make-secrets").read_text("utf-8"), re.MULTILINE))
    assert {path.name for path in declared.values()} == made
    used = {name for service in COMPOSE["services"].values() for name in service.get("secrets", [])}
    assert used == set(declared)
    files = {value for value in REPLICA["environment"].values() if value.startswith("/run/secrets/")}
    assert files == {f"/run/secrets/{name}" for name in REPLICA["secrets"]}
    for mount in COMPOSE["services"]["nginx"]["volumes"]:
        assert (DEPLOY / mount.split(":")[0]).is_file()


def test_what_compose_names_of_itself_exists() -> None:
    services = COMPOSE["services"]
    assert {name for service in services.values() for name in service.get("depends_on", [])} <= set(services)
    nginx = (DEPLOY / "nginx" / "nginx.conf").read_text("utf-8")
    assert re.findall(r"server (\S+):(\d+) ", nginx) == [("relaydeck-1", "8080"), ("relaydeck-2", "8080")]
    assert services["nginx"]["ports"] == ["127.0.0.1:8080:8080"]
    assert re.findall(r"listen (\S+);", nginx) == ["8080"]
    (network,) = COMPOSE["networks"]["inside"]["ipam"]["config"]
    assert REPLICA["environment"]["RELAYDECK_TRUSTED_PROXIES"] == network["subnet"]


def test_the_image_is_made_of_what_is_there_and_runs_as_nobody_special() -> None:
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", CONTAINERFILE, re.MULTILINE)
    assert {(ROOT / name).exists() for line in copied for name in line.split()} == {True}
    assert "--require-hashes -r requirements.lock" in CONTAINERFILE
    (user,) = map(int, re.findall(r"^USER (\d+):\1$", CONTAINERFILE, re.MULTILINE))
    assert user == POD["securityContext"]["runAsUser"] > 0
    assert [f"uid={user},gid={user}" in mount for mount in REPLICA["tmpfs"]] == [True, False]
    assert (REPLICA["read_only"], CONTAINER["securityContext"]["readOnlyRootFilesystem"]) == (True, True)


def test_the_steps_for_systemd_install_what_the_lock_file_pins() -> None:
    steps = (DEPLOY / "README.md").read_text("utf-8").partition("## systemd")[2].partition("## Compose")[0]
    assert re.findall(r"/pip (.*)$", steps, re.MULTILINE) == [
        "install --require-hashes -r requirements.lock",
        "install --no-deps --no-index --no-build-isolation .",
    ]


def pins(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / name).read_text("utf-8"), re.MULTILINE))


def test_the_extras_are_pinned_to_the_versions_that_the_tests_use() -> None:
    extras, project = pins("requirements-extras.lock"), tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wanted = [each for name in ("aws", "otel") for each in project["project"]["optional-dependencies"][name]]
    assert {re.split("[<>=]", each)[0] for each in wanted} <= extras.keys()
    assert extras.items() >= pins("requirements.lock").items()
    assert extras.items() <= pins("requirements-dev.lock").items()


def test_no_lock_file_names_a_host() -> None:
    assert [path.name for path in ROOT.glob("requirements*.lock") if "://" in path.read_text("utf-8")] == []


def test_the_image_contains_no_installer() -> None:
    build, image = CONTAINERFILE.split("\nFROM ")[1:]
    assert "/opt/relaydeck/bin/pip uninstall --yes --quiet flit_core setuptools pip\n" in build
    assert re.search(
        r"^RUN if .*; then python -m pip uninstall --yes .* setuptools wheel pip; fi$", image, re.MULTILINE
    )


def test_both_stages_have_the_base_image_that_a_digest_can_pin() -> None:
    assert re.findall(r"^FROM (\S+)", CONTAINERFILE, re.MULTILINE) == ["${BASE}", "${BASE}"]
    assert "--build-arg BASE=docker.io/library/python@sha256:" in CONTAINERFILE


def test_every_image_of_others_is_pinned_by_digest_and_among_those_to_update() -> None:
    (listed,) = re.findall(r"^for image in (.*); do$", (DEPLOY / "README.md").read_text("utf-8"), re.MULTILINE)
    (base,) = re.findall(r"^ARG BASE=(\S+)$", CONTAINERFILE, re.MULTILINE)
    images = [base, *(each["image"] for each in COMPOSE["services"].values() if "build" not in each)]
    assert [image for image in images if not re.search(r"@sha256:[0-9a-f]{64}$", image)] == []
    assert listed.split() == [image.partition("@")[0] for image in images]


def test_the_home_is_a_mount_that_can_be_written_to() -> None:
    home = IMAGE["RELAYDECK_HOME"]
    assert f"\nVOLUME {home}\n" in CONTAINERFILE
    assert CONFIG["RELAYDECK_HOME"] == home
    assert {"name": "home", "mountPath": home} in CONTAINER["volumeMounts"]
    assert REPLICA["tmpfs"][0].startswith(f"{home}:")


async def ready() -> Readiness:
    return Readiness(True)


def served_paths(tmp_path: Path) -> set[str]:
    return set(HealthRoutes(Metrics(tmp_path / "metrics"), ready).routes()) | {"/metrics"}


def test_probes_and_scrapes_ask_for_paths_that_are_served(tmp_path: Path) -> None:
    probes = {kind: CONTAINER[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
    assert {kind: probe["path"] for kind, probe in probes.items()} == {
        "startup": "/readyz",
        "liveness": "/healthz",
        "readiness": "/readyz",
    }
    annotations = DEPLOYMENT["spec"]["template"]["metadata"]["annotations"]
    asked = {probe["path"] for probe in probes.values()} | {annotations["prometheus.io/path"]}
    asked |= {"/" + path for path in re.findall(r"http://127\.0\.0\.1:9090/(\w+)", CONTAINERFILE)}
    assert asked <= served_paths(tmp_path)


def test_ports_agree(tmp_path: Path) -> None:
    ports = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
    operations = read_settings({"RELAYDECK_OPERATIONS_ADDRESS": CONFIG["RELAYDECK_OPERATIONS_ADDRESS"]})
    assert operations.operations_address is not None
    assert ports == {"http": 8080, "operations": operations.operations_address[1]}
    assert "\nEXPOSE 8080 9090\n" in CONTAINERFILE
    assert CONTAINER["args"][:5] == ["serve", "--host", "0.0.0.0", "--port", "8080"]
    assert {CONTAINER[f"{kind}Probe"]["httpGet"]["port"] for kind in ("startup", "liveness", "readiness")} <= set(ports)
    assert [port["targetPort"] for port in load("kubernetes/service.yaml")["spec"]["ports"]] == ["http", "operations"]
    rules = load("kubernetes/networkpolicy.yaml")["spec"]["ingress"]
    assert [port["port"] for rule in rules for port in rule["ports"]] == ["http", "operations"]
    annotations = DEPLOYMENT["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(ports["operations"])


def test_everything_in_the_cluster_selects_the_pods() -> None:
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    selectors = [
        DEPLOYMENT["spec"]["selector"]["matchLabels"],
        load("kubernetes/service.yaml")["spec"]["selector"],
        load("kubernetes/poddisruptionbudget.yaml")["spec"]["selector"]["matchLabels"],
        load("kubernetes/networkpolicy.yaml")["spec"]["podSelector"]["matchLabels"],
    ]
    assert selectors == [labels] * 4


def test_every_secret_file_of_the_cluster_is_in_the_template_and_none_is_filled_in() -> None:
    template = load("kubernetes/secret.yaml")["stringData"]
    (mount,) = [mount["mountPath"] for mount in CONTAINER["volumeMounts"] if mount["name"] == "secrets"]
    assert {value for value in CONFIG.values() if value.startswith(mount)} == {f"{mount}/{name}" for name in template}
    assert {"REPLACE" in value for value in template.values()} == {True}


def test_the_kustomization_lists_every_manifest() -> None:
    listed = set(load("kubernetes/kustomization.yaml")["resources"])
    assert listed == {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}


MANIFESTS = sorted(path.name for path in KUBERNETES.glob("*.yaml") if path.name != "kustomization.yaml")


@pytest.mark.parametrize("version", ["1.25", kubernetes_validate.latest_version()])
@pytest.mark.parametrize("name", MANIFESTS)
def test_the_schemas_of_kubernetes_accept_the_manifest(name: str, version: str) -> None:
    """Strictly: an unknown field is refused. The oldest version that the package has, and the newest one."""
    manifest = load(f"kubernetes/{name}")
    assert version.startswith(kubernetes_validate.validate(manifest, version, strict=True))
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifest | {"unknown": 1}, version, strict=True)


def test_nobody_is_killed_before_the_service_had_its_time_to_stop() -> None:
    stops = read_settings({"RELAYDECK_STOP_TIMEOUT_SECONDS": CONFIG["RELAYDECK_STOP_TIMEOUT_SECONDS"]})
    *_, drain = CONTAINER["lifecycle"]["preStop"]["exec"]["command"]
    waits = int(drain.removeprefix("kill -USR1 1 && sleep "))
    assert POD["terminationGracePeriodSeconds"] > stops.stop_timeout_seconds + waits
    for container in (REPLICA, SINGLE):
        assert int(container["stop_grace_period"].removesuffix("s")) > Settings().stop_timeout_seconds


def expressions() -> list[str]:
    rules = [rule["expr"] for group in load("monitoring/alerts.yaml")["groups"] for rule in group["rules"]]
    dashboard = json.loads((DEPLOY / "monitoring" / "dashboard.json").read_text("utf-8"))
    return rules + [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


@pytest.fixture
def exposed(tmp_path: Path) -> set[str]:
    metrics = Metrics(tmp_path / "metrics")
    metrics.claim_row()
    metrics.requests("list_relayers", 200, [1])
    metrics.observe(ESTIMATE_SECONDS, [1], "ok")
    looked_up = {each: {("x",) * len([*each.by, *each.labels]): 1} for each in METRICS if each.looked_up}
    return set(re.findall(r"^(relaydeck_\w+)", metrics.exposition(looked_up), re.MULTILINE))


@pytest.mark.parametrize("expression", expressions())
def test_every_metric_that_is_watched_is_exposed(expression: str, exposed: set[str]) -> None:
    named = set(re.findall(r"\brelaydeck_\w+", expression))
    assert named <= exposed
    assert bool(named) != (expression in ('up{job="relaydeck"} == 0', 'absent(up{job="relaydeck"})'))


@pytest.mark.parametrize("expression", expressions())
def test_every_label_value_that_is_watched_exists(expression: str) -> None:
    for label, pattern in re.findall(r'\b(route|status|state|outcome)=~?"([^"]+)"', expression):
        values = {value for each in METRICS for value in each.labels.get(label, ())}
        for part in pattern.split("|"):
            assert any(re.fullmatch(part, value) for value in values), part


def test_alerts_have_names_of_their_own_and_say_what_is_wrong() -> None:
    rules = [rule for group in load("monitoring/alerts.yaml")["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    assert {rule["labels"]["severity"] for rule in rules} == {"page", "ticket"}
    assert [rule["alert"] for rule in rules if not rule["annotations"]["summary"]] == []


def test_every_alert_has_its_section_in_the_runbook_and_points_to_it() -> None:
    rules = [rule for group in load("monitoring/alerts.yaml")["groups"] for rule in group["rules"]]
    pages = {name: (DEPLOY.parent / "docs" / name).read_text("utf-8") for name in ("runbook.md", "runbook-relayers.md")}
    sections = [each for text in pages.values() for each in text.split("\n## ")[1:]]
    assert sorted(each.partition("\n")[0] for each in sections) == sorted(rule["alert"] for rule in rules)
    parts = re.compile(r"\w+\n\n\*\*Means:\*\* .+\n\*\*Look at:\*\* .+\n\*\*Do:\*\* .+", re.DOTALL)
    assert [each for each in sections if not parts.fullmatch(each)] == []
    for rule in rules:
        page, _, anchor = rule["annotations"]["runbook"].removeprefix("docs/").partition("#")
        assert anchor == rule["alert"].lower() and f"\n## {rule['alert']}\n" in pages[page]


def test_every_alert_names_a_command_that_exists() -> None:
    rules = [rule for group in load("monitoring/alerts.yaml")["groups"] for rule in group["rules"]]
    for rule in rules:
        program, *words = rule["annotations"]["command"].split()
        command: click.Command = cli
        while isinstance(command, click.Group):
            command = command.commands[words.pop(0)]
        options = {option for each in command.params for option in each.opts}
        assert program == "relaydeck"
        assert {word for word in words if word.startswith("--")} <= options


def test_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    panels = json.loads((DEPLOY / "monitoring" / "dashboard.json").read_text("utf-8"))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = [
        (column, row)
        for place in (panel["gridPos"] for panel in panels)
        for column in range(place["x"], place["x"] + place["w"])
        for row in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(taken)) == len(taken)
    assert max(column for column, _ in taken) < 24


def test_the_page_names_every_file_and_says_what_was_run() -> None:
    page = (DEPLOY / "README.md").read_text("utf-8")
    named = {path.relative_to(DEPLOY).parts[0] for path in FILES} - {"README.md", "what-was-run.md", ".gitignore"}
    assert [name for name in sorted(named) if f"`{name}" not in page] == []
    assert "[What was run, and where](what-was-run.md)" in page
