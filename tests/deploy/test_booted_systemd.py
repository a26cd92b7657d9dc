"""The systemd units, installed and run as deploy/README.md says, by a systemd that was booted for it.

It is the process 1 of its own namespaces, on this machine's file system below a layer that is thrown away, with control
groups and a network of its own.
"""

import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.test_systemd import PAGE
from tests.support.running import children, eventually

pytestmark = [pytest.mark.prove, pytest.mark.parallel]

ROOT = Path(__file__).parents[2]
SYSTEMD = "/lib/systemd/systemd"
# Python and the source are bound where ProtectHome= hides nothing. With what this environment has of requirements.lock,
# /opt/relaydeck is as pip would leave it.
_BOOT = f"""
set -eu
mount -t tmpfs layer "$FOLDER"
mkdir "$FOLDER/upper" "$FOLDER/work" "$FOLDER/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$FOLDER/upper,workdir=$FOLDER/work" "$FOLDER/root"
cd "$FOLDER/root"
mkdir -p source opt/python opt/relaydeck/bin "opt/relaydeck/lib/$VERSION/site-packages" old
mount --rbind "$SOURCE" source
mount --rbind "$PYTHON" opt/python
mount --rbind "$PACKAGES" "opt/relaydeck/lib/$VERSION/site-packages"
ln -s /opt/python/bin/python3 opt/relaydeck/bin/python
echo "home = /opt/python/bin" > opt/relaydeck/pyvenv.cfg
printf '#!/bin/sh\\nexport PYTHONPATH=/source/src\\nexec /opt/relaydeck/bin/python -m relaydeck "$@"\\n' \\
    > opt/relaydeck/bin/relaydeck
chmod 755 opt/relaydeck/bin/relaydeck
echo /opt/python/lib > etc/ld.so.conf.d/python.conf
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
for name in null zero full random urandom tty; do
    touch dev/$name
    mount --bind /dev/$name dev/$name
done
mkdir dev/shm dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ip link set lo up
pivot_root . old
umount -l /old
ldconfig
exec env -i container=test PATH=/opt/python/bin:/usr/sbin:/usr/bin:/sbin:/bin {SYSTEMD} --unit=basic.target
"""
_UNSHARED = (
    "--mount",
    "--pid",
    "--ipc",
    "--uts",
    "--net",
    "--cgroup",
    "--fork",
    "--kill-child",
    "--propagation=private",
)
_VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
_INSIDE = {"PATH": "/opt/python/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


class Machine:
    """What systemd runs on."""

    def __init__(self, first: int) -> None:
        self._first = str(first)  # its process 1, as this machine numbers it

    def attempt(self, script: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["nsenter", "--target", self._first, "--all", "sh", "-euc", f"cd /source\n{script}"],
            env=_INSIDE,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def run(self, script: str) -> str:
        done = self.attempt(script)
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}{self.attempt('journalctl -n 40').stdout}"
        return done.stdout.strip()

    def shows(self, *names: str) -> list[str]:
        """Properties of the service."""
        options = " ".join(f"--property={each}" for each in names)
        found = dict(line.split("=", 1) for line in self.run(f"systemctl show relaydeck {options}").splitlines())
        return [found[each] for each in names]

    def health(self) -> str:
        return self.run(
            "python3 -c 'import urllib.request as r; print(r.urlopen(\"http://127.0.0.1:8080/healthz\").status)'"
        )

    def processes(self) -> list[int]:
        """Those of the service."""
        (group,) = self.shows("ControlGroup")
        found = self.attempt(f"cat /sys/fs/cgroup{group}/cgroup.procs")
        return [int(each) for each in found.stdout.split()] if group else []


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    # Not every machine has them mounted, and none at the same place.
    groups, layer = tmp_path / "groups", tmp_path / "layer"
    groups.mkdir()
    layer.mkdir()
    subprocess.run(["mount", "-t", "cgroup2", "cgroup2", str(groups)], check=True)
    group = groups / f"relaydeck-test-{tmp_path.parent.name}-{tmp_path.name}"
    group.mkdir()
    folders = {"FOLDER": layer, "SOURCE": ROOT, "PYTHON": sys.base_prefix, "PACKAGES": sysconfig.get_path("purelib")}
    started = subprocess.Popen(
        ["sh", "-c", 'echo $$ > "$GROUP/cgroup.procs" && exec unshare "$@"', "sh", *_UNSHARED, "sh", "-c", _BOOT],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "GROUP": str(group), "VERSION": _VERSION}
        | {name: str(each) for name, each in folders.items()},
    )
    try:
        eventually(lambda: _is_booted(started))
        machine = Machine(children(started.pid)[0])
        eventually(lambda: machine.attempt("systemctl is-system-running").stdout in ("running\n", "degraded\n"))
        yield machine
    finally:
        started.kill()  # and with it process 1, and with that all the others
        started.wait()
        for each in sorted([group, *(path for path in group.rglob("*") if path.is_dir())], reverse=True):
            eventually(lambda processes=each / "cgroup.procs": not processes.read_text("utf-8"))  # type: ignore[misc]
            each.rmdir()
        subprocess.run(["umount", str(groups)], check=True)


def _is_booted(started: "subprocess.Popen[bytes]") -> bool:
    assert started.poll() is None, "systemd needs root, namespaces, overlays and control groups of version 2"
    return any(Path(f"/proc/{each}/comm").read_text("utf-8") == "systemd\n" for each in children(started.pid))


def steps() -> list[str]:
    """The blocks of the page that install and operate the units, with the program that every machine has for sudo."""
    section = PAGE.partition("## systemd")[2].partition("## Compose")[0]
    return [
        each.replace("sudo -u relaydeck", "runuser -u relaydeck --")
        for each in re.findall(r"^```\n(.*?)^```$", section, re.M | re.S)
    ]


def test_the_units_do_under_systemd_what_the_page_says(machine: Machine) -> None:
    install, commands, backup = steps()
    machine.run(install[install.index("useradd") :])
    state = machine.shows("ActiveState", "SubState", "NRestarts")
    assert (state, machine.health()) == (["active", "running", "0"], "200")  # it was started when it served
    assert machine.run(commands).startswith("rdk_")
    confined(machine)

    before = machine.processes()
    machine.run(f"kill -KILL {machine.shows('MainPID')[0]}")
    restarted(machine, 1, "signal", before)

    # A watchdog that need not be waited for: the unit has a minute.
    machine.run("mkdir /etc/systemd/system/relaydeck.service.d")
    machine.run("printf '[Service]\\nWatchdogSec=5\\n' > /etc/systemd/system/relaydeck.service.d/soon.conf")
    machine.run("systemctl daemon-reload && systemctl restart relaydeck")
    (parent,), before = machine.shows("MainPID"), machine.processes()
    machine.run(f"kill -STOP {' '.join(str(each) for each in before if str(each) != parent)}")
    restarted(machine, 1, "watchdog", before)

    machine.run(backup)
    machine.run("systemctl start relaydeck-backup")
    assert len(machine.run("ls /var/backups/relaydeck").split()) == 1
    assert machine.run("systemctl is-active relaydeck-backup.timer") == "active"

    machine.run("systemctl stop relaydeck")
    assert machine.shows("ActiveState", "Result", "ExecMainStatus") == ["inactive", "success", "0"]
    assert machine.processes() == []


def confined(machine: Machine) -> None:
    """The main process has what the unit leaves it."""
    (parent,), user = machine.shows("MainPID"), machine.run("id -u relaydeck")
    status = dict(re.findall(r"^(\w+):\t(.*)$", machine.run(f"cat /proc/{parent}/status"), re.MULTILINE))
    assert (status["Uid"].split(), status["CapEff"], status["CapBnd"]) == ([user] * 4, "0" * 16, "0" * 16)
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    inside = f"nsenter --target {parent} --mount"
    for folder in ("/etc", "/usr", "/opt/relaydeck", "/source", "/var/lib"):
        refused = machine.attempt(f"{inside} touch {folder}/new")
        assert (refused.returncode, "Read-only file system" in refused.stderr) == (1, True), refused
    machine.run(f"{inside} touch /var/lib/relaydeck/new && rm /var/lib/relaydeck/new")
    assert machine.run(f"{inside} ls -A /home") == ""
    assert machine.run("stat --format='%U %a' /var/lib/relaydeck") == "relaydeck 700"


def restarted(machine: Machine, times: int, cause: str, before: list[int]) -> None:
    """By systemd, and nothing that ran before runs on."""
    eventually(lambda: machine.shows("NRestarts", "ActiveState") == [str(times), "active"])
    ended = machine.run("journalctl --unit=relaydeck --output=cat --no-pager")
    assert (machine.health(), f"Failed with result '{cause}'." in ended) == ("200", True), ended
    assert set(machine.processes()) & set(before) == set()
