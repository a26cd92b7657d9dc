"""The systemd unit: systemd accepts it, its command exists, and it lets the service do what it needs."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from relaydeck.cli.commands import cli
from relaydeck.settings.model import Settings, read_settings
from tests.deploy.test_files import DEPLOY
from tests.support.running import Running, children, clean_environment, make_token
from tests.test_serve import is_worker

FOLDER = DEPLOY / "systemd"
UNIT = (FOLDER / "relaydeck.service").read_text("utf-8")
BACKUP_UNIT = (FOLDER / "relaydeck-backup.service").read_text("utf-8")
PAGE = (DEPLOY / "README.md").read_text("utf-8")
DIRECTIVES = dict(re.findall(r"^(\w+)=(.*)$", UNIT, re.MULTILINE))
USER = DIRECTIVES["User"]


def test_the_command_exists_and_reads_the_installed_settings() -> None:
    program, *arguments = DIRECTIVES["ExecStart"].split()
    assert program == "/opt/relaydeck/bin/relaydeck"
    assert arguments == ["serve", "--config", "/etc/relaydeck/settings.toml"]
    serve = cli.commands[arguments[0]]
    assert arguments[1] in {name for option in serve.params for name in option.opts}


def test_the_settings_file_is_read() -> None:
    found = read_settings({"RELAYDECK_CONFIG": str(FOLDER / "settings.toml")})
    assert found == Settings(host="127.0.0.1", port=8080, log_format="json")


def test_what_the_settings_file_leaves_out_is_read_too(tmp_path: Path) -> None:
    """The lines that an operator takes the comment mark from."""
    content = re.sub(r"^# (\w+ = )", r"\1", (FOLDER / "settings.toml").read_text("utf-8"), flags=re.MULTILINE)
    (tmp_path / "settings.toml").write_text(content, "utf-8")
    found = read_settings({"RELAYDECK_CONFIG": str(tmp_path / "settings.toml")})
    assert found.operations_address == ("127.0.0.1", 9090) and found.trusted_proxies


def test_the_home_is_the_folder_that_systemd_creates() -> None:
    assert DIRECTIVES["Environment"] == f"RELAYDECK_HOME=/var/lib/{DIRECTIVES['StateDirectory']}"
    assert DIRECTIVES["ProtectSystem"] == "strict"


def test_the_service_has_its_time_to_stop() -> None:
    assert int(DIRECTIVES["TimeoutStopSec"]) > Settings().stop_timeout_seconds


def test_systemd_is_told_that_the_service_is_ready_and_alive_while_a_worker_is(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (DIRECTIVES["Type"], DIRECTIVES["WatchdogSec"]) == ("notify", "60")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "300000")
        with Running(home) as running:
            systemd.settimeout(60)
            assert systemd.recv(100) == b"READY=1\nWATCHDOG=1"
            [worker] = [pid for pid in children(running.process.pid) if is_worker(pid)]
            os.kill(worker, signal.SIGSTOP)
            try:
                systemd.settimeout(3)  # thirty messages later
                with pytest.raises(TimeoutError):
                    for _ in range(600):
                        systemd.recv(100)
            finally:
                os.kill(worker, signal.SIGCONT)
            systemd.settimeout(60)
            assert systemd.recv(100) == b"READY=1\nWATCHDOG=1"


def test_the_page_installs_what_the_unit_names() -> None:
    assert "python3 -m venv /opt/relaydeck\n" in PAGE
    assert "deploy/systemd/settings.toml /etc/relaydeck/settings.toml\n" in PAGE
    assert f"useradd --system --user-group --home-dir /var/lib/relaydeck --shell /usr/sbin/nologin {USER}\n" in PAGE


def test_the_daily_backup_keeps_what_is_newer_than_thirty_days(home: Path, tmp_path: Path) -> None:
    backups, old = tmp_path / "backups", time.time() - 31 * 86_400
    make_token(home, "me")
    backups.mkdir()
    for name, moment in (("old", old), ("newer", old + 2 * 86_400)):
        (backups / name).touch()
        os.utime(backups / name, (moment, moment))
    [script] = re.findall(r"^ExecStart=/bin/sh -euc '(.*)'$", BACKUP_UNIT, re.MULTILINE | re.DOTALL)
    for written, meant in (
        ("$$", "$"),
        ("%%", "%"),
        ("/var/backups/relaydeck", str(backups)),
        ("/opt/relaydeck/bin/relaydeck", f"{sys.executable} -m relaydeck"),
    ):
        script = script.replace(written, meant)
    done = subprocess.run(["/bin/sh", "-euc", script], env=clean_environment(home), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    kept = sorted(each.name for each in backups.iterdir())
    assert (len(kept), kept[1]) == (2, "newer") and re.fullmatch(r"[\dT-]{19}", kept[0])


def test_the_page_installs_the_daily_backup() -> None:
    assert "install -d -o relaydeck -m 0700 /var/backups/relaydeck\n" in PAGE
    assert (
        "deploy/systemd/relaydeck-backup.service deploy/systemd/relaydeck-backup.timer /etc/systemd/system/\n" in PAGE
    )


@pytest.fixture
def installed_unit(tmp_path: Path) -> Path:
    """The unit with a program that exists: systemd refuses one that does not."""
    unit = tmp_path / "relaydeck.service"
    unit.write_text(UNIT.replace("/opt/relaydeck/bin/relaydeck", sys.executable), "utf-8")
    return unit


def test_systemd_accepts_the_unit(installed_unit: Path) -> None:
    """On a machine without systemd this only shows that every line is a section, a comment or a directive."""
    assert re.sub(r"^(\[\w+\]|#.*|\w+=.*|)\n", "", UNIT, flags=re.MULTILINE) == ""
    if program := shutil.which("systemd-analyze"):
        (backup := installed_unit.with_name("relaydeck-backup.service")).write_text(BACKUP_UNIT, "utf-8")
        shutil.copy(FOLDER / "relaydeck-backup.timer", timer := installed_unit.with_name("relaydeck-backup.timer"))
        command: list[str | Path] = [program, "verify", installed_unit, backup, timer]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_unit_is_confined(installed_unit: Path) -> None:
    for directive in ("ProtectHome", "PrivateTmp", "PrivateDevices", "NoNewPrivileges", "RestrictNamespaces"):
        assert DIRECTIVES[directive] == "yes"
    if program := shutil.which("systemd-analyze"):
        limit = ["security", "--offline=true", "--threshold=15", "--no-pager"]
        done = subprocess.run([program, *limit, installed_unit], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
