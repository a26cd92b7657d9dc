"""Checks of the machine of a home: folders, disk, clock, limit server."""

import asyncio
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from relaydeck.doctor import CLOCK_SLACK_SECONDS, Finding
from relaydeck.http.metric_counts import read_silent, silence
from relaydeck.http.shared_limits import LimitClient, LimitServerError
from relaydeck.settings.model import Settings
from relaydeck.store.files import is_open_to_others
from relaydeck.timestamps import utc

_TIMEOUT_SECONDS = 5.0  # longer than the service waits, to tell a slow server from one that is down
_EARLIEST = 1_735_689_600  # 2025: a clock that shows less is wrong
_LATEST = 4_102_444_800  # 2100
_LOW_BYTES, _TOO_LOW_BYTES = 1_000_000_000, 50_000_000


def limits_findings(settings: Settings) -> Iterator[Finding]:
    if settings.limits_url is None:
        return
    client = LimitClient(settings.limits_url, settings.limits_password_file, _TIMEOUT_SECONDS)
    subject = f"shared limits {client.shown}"  # scheme, host and port only
    try:
        seconds = asyncio.run(_response_seconds(client))
    except LimitServerError as problem:
        yield Finding("FAIL", subject, f"{problem}; until it can be used, each machine limits on its own")
        return
    if seconds > settings.limits_timeout_seconds:
        slow = f"it responds in {seconds:.3f} s; the service waits {settings.limits_timeout_seconds:g} s"
        yield Finding("warn", subject, f"{slow} (RELAYDECK_LIMITS_TIMEOUT_SECONDS)")
    else:
        yield Finding("ok", subject, "it responds and accepts writes")


async def _response_seconds(client: LimitClient) -> float:
    try:
        await client.connect()
        began = time.perf_counter()
        await client.take(1, 1, {})
        return time.perf_counter() - began
    finally:
        await client.close()


class Machine(NamedTuple):
    """What the checks ask the operating system."""

    now: Callable[[], float] = time.time
    free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free
    owner: Callable[[Path], int] = lambda path: path.stat().st_uid


def home_finding(home: Path) -> Finding:
    choose = "choose another home with --home or RELAYDECK_HOME"
    try:
        mode = home.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return Finding("FAIL", "home", f"{home} does not exist; create it with 'relaydeck serve', or {choose}")
    except OSError as error:  # such as a folder above it that this user may not enter
        remark = f"{home} cannot be examined ({error.strerror}); give this user access to it, or {choose}"
        return Finding("FAIL", "home", remark)
    if not stat.S_ISDIR(mode):
        return Finding("FAIL", "home", f"{home} is not a folder; choose another with RELAYDECK_HOME")
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        remark = _unusable(home, f"this user cannot use {home}; correct its owner or permissions")
        return Finding("FAIL", "home", remark)
    return Finding("ok", "home", str(home))


def machine_findings(settings: Settings, machine: Machine) -> Iterator[Finding]:
    yield _disk(settings, machine)
    yield _clock(settings, machine.now())
    if silent := read_silent(settings.run_folder.glob("metrics-*")):
        numbers = " ".join(map(str, silent))
        remedy = f"if it is stopped, run 'kill -CONT {numbers}'; otherwise 'kill -9 {numbers}': the service replaces it"
        yield Finding("FAIL", "workers", f"{silence(len(silent))}; {remedy}")


def permission_findings(settings: Settings, machine: Machine) -> Iterator[Finding]:
    expected = [("home", settings.home, 0o700), ("master key", settings.master_key_path, 0o600)]
    if isinstance(settings.database, Path):
        expected.append(("database", settings.database, 0o600))
    present = [each for each in expected if each[1].exists()]
    loose = [(path, mode) for _, path, mode in present if is_open_to_others(path)]
    for path, mode in loose:
        remedy = f"mount it with the mode {mode:o}" if _is_read_only(path) else f"run: chmod {mode:o} {path}"
        yield Finding("warn", "permissions", f"other users can access {path}; {remedy}")
    strangers = list(_strangers([path for _, path, _ in present], settings.home, machine))
    yield from strangers
    for name, path, _ in present:
        # The master key is only read: it may be a secret that is mounted read-only.
        needed, words = (os.R_OK, "read") if name == "master key" else (os.R_OK | os.W_OK, "read and write")
        if not os.access(path, needed):
            remark = _unusable(path, f"this user cannot {words} {path}; correct its owner")
            yield Finding("FAIL", "permissions", remark)
    if not loose and not strangers:
        yield Finding("ok", "permissions", f"only this user can access {_listed([name for name, _, _ in present])}")


def _unusable(path: Path, otherwise: str) -> str:
    is_cause = _is_read_only(path) and os.access(path, os.R_OK)
    return f"{path} is on a file system that is mounted read-only; mount it writable" if is_cause else otherwise


def _is_read_only(path: Path) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def _listed(names: list[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _strangers(paths: list[Path], home: Path, machine: Machine) -> Iterator[Finding]:
    """The owner of a file can read and replace it, whatever its permissions are."""
    trusted = {0, machine.owner(home)}
    for path in paths:
        if (owner := machine.owner(path)) not in trusted:
            remedy = "only the owner of the home should own it: correct it with chown"
            yield Finding("FAIL", "permissions", f"{path} belongs to the user with the number {owner}; {remedy}")


def _disk(settings: Settings, machine: Machine) -> Finding:
    free = min(machine.free_bytes(folder) for folder in settings.data_folders)
    text = f"{free / 1_000_000_000:.1f} GB free"
    if free < _TOO_LOW_BYTES:
        return Finding("FAIL", "disk", f"{text}; writes will fail: free some space")
    if free < _LOW_BYTES:
        return Finding("warn", "disk", f"{text}; free some space before it runs out")
    return Finding("ok", "disk", text)


def _clock(settings: Settings, now: float) -> Finding:
    text = utc(now)
    if not _EARLIEST < now < _LATEST:
        return Finding("FAIL", "clock", f"it shows {text}; set it: tokens expire by this clock")
    written = max((path.stat().st_mtime for path in settings.home.iterdir()), default=0.0)
    if written > now + CLOCK_SLACK_SECONDS:
        behind = round(written - now)
        return Finding("warn", "clock", f"it shows {text}, {behind} s before a file in home was written; set it")
    return Finding("ok", "clock", text)
