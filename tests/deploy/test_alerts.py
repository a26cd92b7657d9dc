"""Each alert fires when its fault lasts, and clears when the fault is over: `promtool test rules` decides."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

RULES = Path(__file__).parent.parent.parent / "deploy" / "monitoring" / "alerts.yaml"
PROMTOOL = Path(sys.prefix) / "bin" / "promtool"
JOB = 'job="relaydeck"'
# In steps of a minute: well, the fault from minute 10 to 40, well again until minute 120.
GAUGE = "0+0x9 {bad}+0x30 0+0x80"
COUNTER = "0+0x9 0+{bad}x30 {end}+0x80"
HEALTHY = "1+0x9 0+0x30 1+0x80"
STEADY = "0+60x121"


def gauge(name: str, bad: int = 1, labels: str = "") -> list[dict[str, str]]:
    return [{"series": f"relaydeck_{name}{{{labels}}}", "values": GAUGE.format(bad=bad)}]


def counter(name: str, bad: int = 1, labels: str = "") -> list[dict[str, str]]:
    return [{"series": f"relaydeck_{name}{{{labels}}}", "values": COUNTER.format(bad=bad, end=30 * bad)}]


def steady(name: str, labels: str = "") -> list[dict[str, str]]:
    return [{"series": f"relaydeck_{name}{{{labels}}}", "values": STEADY}]


def relayers(state: str) -> list[dict[str, str]]:
    return gauge("relayers", 3, f'network="sepolia",state="{state}"')


# Each alert with the series that make it fire.
FAULTS: dict[str, list[dict[str, str]]] = {
    "RelaydeckDown": [{"series": f"up{{{JOB}}}", "values": HEALTHY}],
    "RelaydeckNotReady": [{"series": "relaydeck_ready{}", "values": HEALTHY}],
    "RelaydeckWritesStopped": [{"series": "relaydeck_writes_ok{}", "values": HEALTHY}],
    "RelaydeckWritesFailing": counter("writes_failed_total", 6, 'cause="lock_held"'),
    "RelaydeckWritesSlow": [
        *counter("request_seconds_bucket", 60, 'route="create_signer",le="+Inf"'),
        *counter("request_seconds_bucket", 30, 'route="create_signer",le="1"'),
        *counter("request_seconds_bucket", 60, 'route="create_signer",le="2.5"'),
    ],
    "RelaydeckMissing": [{"series": f"up{{{JOB}}}", "values": "1+0x9 _x31 1+0x80"}],
    "RelaydeckServerErrors": counter("requests_total", 10, 'status="500"') + steady("requests_total", 'status="200"'),
    "RelaydeckUnexpectedFailures": counter("unexpected_failures_total"),
    "RelaydeckDamagedValues": counter("damaged_values_total"),
    "RelaydeckHistoryChanged": counter("history_changes_total"),
    "RelaydeckForgedTokens": counter("forged_tokens_total"),
    "RelaydeckWorkersRestarting": counter("worker_restarts_total", labels='reason="signal"'),
    "RelaydeckMigrationLong": gauge("migrating"),
    "RelaydeckDiskLow": [{"series": "relaydeck_disk_free_bytes{}", "values": "2e9+0x9 5e8+0x30 2e9+0x80"}],
    "RelaydeckConnectionsLow": [
        {"series": "relaydeck_database_connections{}", "values": "20+0x9 90+0x30 20+0x80"},
        {"series": "relaydeck_database_connections_limit{}", "values": "97+0x121"},
    ],
    "RelaydeckClockOff": gauge("database_clock_ahead_seconds", -7200),
    "RelaydeckBackupOld": [],  # needs days: see its own test
    "RelaydeckLimitsAlone": gauge("limits_alone"),
    "RelaydeckLimitsFlapping": counter("limits_fallbacks_total"),
    "RelaydeckSlowLists": [
        *counter("request_seconds_bucket", 60, 'route="list_relayers",le="+Inf"'),
        *counter("request_seconds_bucket", 30, 'route="list_relayers",le="0.25"'),
        *counter("request_seconds_bucket", 60, 'route="list_relayers",le="0.5"'),
    ],
    "RelaydeckTooManyRequests": [
        *counter("requests_total", 60, 'route="list_relayers",status="429"'),
        *steady("requests_total", 'route="list_relayers",status="200"'),
    ],
    "RelaydeckGrowth": counter("stored_bytes_total", 2_000_000, 'route="create_signer"'),
    "RelaydeckLogLinesDropped": counter("log_lines_dropped_total"),
    "RelaydeckStoreAway": gauge("store_away"),
    "RelaydeckMasterKeyAway": gauge("master_key_away"),
    "RelaydeckReadModelOld": gauge("read_model_age_seconds", 90),
    "RelaydeckDeliveriesDead": counter("event_tries_total", labels='outcome="dead"'),
    "RelaydeckDeliveriesLate": gauge("oldest_pending_delivery_seconds", 4000),
    "RelaydeckRelayersDisabled": relayers("disabled"),
    "RelaydeckBalanceLow": relayers("low_balance"),
    "RelaydeckRunwayLow": relayers("low_runway"),
    "RelaydeckMonitorStopped": [
        {"series": "relaydeck_monitor_round_timestamp_seconds{}", "values": "0+60x9 540+0x30 2460+60x80"},
        {"series": 'relaydeck_relayers{network="sepolia",state="total"}', "values": "5+0x121"},
    ],
    "RelaydeckMonitorLate": gauge("monitor_lag_seconds", 120),
    "RelaydeckEstimatesFailing": [
        *counter("estimates_total", 60, 'outcome="failed"'),
        *steady("estimates_total", 'outcome="ok"'),
    ],
    "RelaydeckSignersFailing": gauge("signers_failing"),
    "RelaydeckNodeDown": [{"series": 'relaydeck_node_up{host="node:8545"}', "values": HEALTHY}],
}


def firing(alert: str, minute: int, count: int) -> dict[str, Any]:
    expected = [{"value": count}] if count else []
    query = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})'
    return {"expr": query, "eval_time": f"{minute}m", "exp_samples": expected}


def scenario(*alerts: str) -> dict[str, Any]:
    moments = [firing(each, minute, count) for each in alerts for minute, count in ((9, 0), (38, 1), (120, 0))]
    series = [each for alert in alerts for each in FAULTS[alert]]
    return {"interval": "1m", "input_series": series, "promql_expr_test": moments}


def test_every_alert_fires_and_clears(tmp_path: Path) -> None:
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    assert {rule["alert"] for group in groups for rule in group["rules"]} == FAULTS.keys()
    alone = "RelaydeckMissing"  # its fault is that a series of the others does not exist
    tests = [scenario(alone), scenario(*(each for each in FAULTS if FAULTS[each] and each != alone))]
    run_promtool(tmp_path, tests)


def test_an_old_backup_is_noticed_after_two_days(tmp_path: Path) -> None:
    backup = [{"series": "relaydeck_last_backup_timestamp_seconds{}", "values": "0+0x10 36000+0x60 252000+0x10"}]
    moments = [firing("RelaydeckBackupOld", hour * 60, count) for hour, count in ((0, 0), (49, 0), (62, 1), (72, 0))]
    run_promtool(tmp_path, [{"interval": "1h", "input_series": backup, "promql_expr_test": moments}], "1h")


@pytest.mark.parametrize("interval", ["15s", "1m"])
def test_without_a_successful_write_an_alert_fires_within_two_minutes_whatever_is_read(
    tmp_path: Path, interval: str
) -> None:
    """Lists are answered twenty times a second, and no client writes. The fault lasts from minute 10 on."""
    seconds = 15 if interval == "15s" else 60
    before, after = 600 // seconds - 1, 300 // seconds
    reads = 'relaydeck_requests_total{route="list_relayers",status="200"}'
    series = [
        {"series": "relaydeck_writes_ok{}", "values": f"1+0x{before} 0+0x{after}"},
        {"series": reads, "values": f"0+{20 * seconds}x{before + after}"},
    ]
    moments = [firing("RelaydeckWritesStopped", minute, count) for minute, count in ((9, 0), (12, 1))]
    run_promtool(tmp_path, [{"interval": interval, "input_series": series, "promql_expr_test": moments}], interval)


def run_promtool(folder: Path, tests: list[dict[str, Any]], interval: str = "1m") -> None:
    path = folder / "alerts_test.json"  # which is YAML too
    path.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": interval, "tests": tests}))
    done = subprocess.run([PROMTOOL, "test", "rules", str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_alert_about_nodes_is_about_a_host(tmp_path: Path) -> None:
    """A host is down only when none of its URLs answers."""
    annotations = {
        "command": "relaydeck doctor",
        "runbook": "docs/runbook-relayers.md#relaydecknodedown",
        "summary": "No URL of a node on the host node:8545 answers any worker on the right chain.",
    }
    expected = {"exp_labels": {"host": "node:8545", "severity": "ticket"}, "exp_annotations": annotations}
    at_fault = {"eval_time": "38m", "alertname": "RelaydeckNodeDown", "exp_alerts": [expected]}
    series = FAULTS["RelaydeckNodeDown"]
    run_promtool(tmp_path, [{"interval": "1m", "input_series": series, "alert_rule_test": [at_fault]}])
