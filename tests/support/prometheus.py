"""A real Prometheus on loopback, with the project's rules as they are or at sixty times their speed."""

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from tests.support.running import free_port

RULES = Path(__file__).parents[2] / "deploy" / "monitoring" / "alerts.yaml"
PROMETHEUS = Path(sys.prefix) / "bin" / "prometheus"
_SPEED = 60
_UNITS = {"s": 1, "m": 60, "h": 3600}
_DURATION = re.compile(r"\b(\d+)([smh])\b")
# Ages and delays, which the rules compare with a number of seconds.
_SECONDS = re.compile(r"((?:timestamp_seconds\)\)|delivery_seconds\)|age_seconds|lag_seconds\)) > )(\d+)")

# The service waits for up to ten seconds before it uses a limit server again, and does not hurry: within the minute
# that stands for an hour it cannot fall back as often.
_FALLBACKS = "fallbacks_total[60000ms]) > 10", "fallbacks_total[60000ms]) > 5"


def quicker(text: str) -> str:
    """An expression or a duration, with every duration in it divided by the speed."""
    shorter = _DURATION.sub(lambda found: f"{int(found[1]) * _UNITS[found[2]] * 1000 // _SPEED}ms", text)
    return _SECONDS.sub(lambda found: f"{found[1]}{int(found[2]) / _SPEED:g}", shorter)


def quick_rules() -> dict[str, Any]:
    rules: dict[str, Any] = yaml.safe_load(RULES.read_text("utf-8"))
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule["expr"] = quicker(rule["expr"]).replace(*_FALLBACKS)
            rule |= {"for": quicker(rule["for"])} if "for" in rule else {}
    return rules


def alert_names() -> list[str]:
    return [rule["alert"] for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"] for rule in group["rules"]]


class Prometheus:
    def __init__(self, folder: Path, *ports: int, quick: bool = True) -> None:
        """`quick`: at sixty times the speed. Otherwise it scrapes and evaluates every 15 seconds."""
        self._targets = folder / "targets.json"
        self._ports, self._quick = ports, quick
        self.show_target()
        rules = json.dumps(quick_rules()) if quick else RULES.read_text("utf-8")
        (folder / "rules.yml").write_text(rules)
        (folder / "prometheus.yml").write_text(json.dumps(self._configuration(folder)))
        self._address = f"127.0.0.1:{free_port()}"
        with (folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    PROMETHEUS,
                    f"--config.file={folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address={self._address}",
                ],
                stdout=log,
                stderr=log,
            )

    def _configuration(self, folder: Path) -> dict[str, Any]:
        found = {"files": [str(self._targets)], "refresh_interval": "1s"}
        scrape, timeout, evaluation = ("1s", "1s", "500ms") if self._quick else ("15s", "10s", "15s")
        return {
            "global": {"scrape_interval": scrape, "scrape_timeout": timeout, "evaluation_interval": evaluation},
            "rule_files": [str(folder / "rules.yml")],
            "scrape_configs": [{"job_name": "relaydeck", "file_sd_configs": [found]}],
        }

    def show_target(self) -> None:
        self._write_targets([{"targets": [f"127.0.0.1:{port}" for port in self._ports]}])

    def hide_target(self) -> None:
        self._write_targets([])

    def _write_targets(self, targets: list[Any]) -> None:
        new = self._targets.with_suffix(".new")
        new.write_text(json.dumps(targets))
        new.rename(self._targets)

    def alerts(self) -> dict[str, str]:
        """The alerts that are not inactive, each with its state: `pending` or `firing`."""
        states: dict[str, str] = {}
        for each in self._active():
            name = each["labels"]["alertname"]
            states[name] = "firing" if "firing" in (each["state"], states.get(name)) else each["state"]
        return states

    def firing(self, alert: str) -> set[int]:
        """The ports of the targets for which the alert fires."""
        firing = [each["labels"] for each in self._active() if each["state"] == "firing"]
        return {int(each["instance"].rpartition(":")[2]) for each in firing if each["alertname"] == alert}

    def _active(self) -> list[Any]:
        try:
            with urllib.request.urlopen(f"http://{self._address}/api/v1/alerts", timeout=60) as response:
                found: list[Any] = json.load(response)["data"]["alerts"]
        except (urllib.error.URLError, ConnectionError):
            return []  # it is starting
        return found

    @property
    def is_scraping(self) -> bool:
        """Whether every target has responded."""
        try:
            with urllib.request.urlopen(f"http://{self._address}/api/v1/targets", timeout=60) as response:
                targets = json.load(response)["data"]["activeTargets"]
        except (urllib.error.URLError, ConnectionError):
            return False  # it is starting
        return [each["health"] for each in targets] == ["up"] * len(self._ports)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)
