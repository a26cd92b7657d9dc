"""`relaydeck diagnose`: one file with what somebody who helps needs to know, and no secret.

Each part is gathered by itself: one that fails says why, and the others are there.
"""

import io
import os
import platform
import re
import resource
import shutil
import stat
import sys
import time
import zipfile
from collections.abc import Callable
from contextlib import closing, suppress
from importlib.metadata import distributions
from pathlib import Path
from typing import Annotated, Any

import click
import msgspec

from relaydeck import __version__
from relaydeck.cli.drain import running_services
from relaydeck.cli.home_target import HomeTarget
from relaydeck.cli.options import PATH, as_json, at_home
from relaydeck.cli.output import Shape, about, print_outcome, write_new_file
from relaydeck.client.blocking_transport import send_once
from relaydeck.client.calls import Request, Response
from relaydeck.errors import OperatorError, operator_words
from relaydeck.log import LEVELS
from relaydeck.process.figures import open_files
from relaydeck.secret import Secret
from relaydeck.settings.model import SETTINGS, SETTINGS_FILE, Settings, read_settings, variable
from relaydeck.settings.values import DatabaseUrl
from relaydeck.store.copying.mark import unfinished_copy_of
from relaydeck.store.migrate import newest_version, schema_version
from relaydeck.store.open_store import open_reader_at
from relaydeck.timestamps import utc
from relaydeck.web_addresses import host_in_url, shown_address, web_address_problem

_LOG_BYTES = 1_000_000
_ANSWER_BYTES = 10_000_000
_ANSWER_SECONDS = 10
_LOG_LINE = re.compile(rf'\{{"time": ?"|\d{{4}}-\d\d-\d\dT\S+ (?:{"|".join(LEVELS)}) ')
_CGROUP = ("memory.max", "memory.high", "memory.current", "memory.events", "cpu.max", "cpu.stat", "pids.max")
_STATUS = ("Name", "State", "PPid", "Threads", "VmRSS", "VmHWM", "VmSwap")


class DiagnosisPart(Shape, frozen=True):
    name: Annotated[str, about("Its name in the file.")]
    bytes: Annotated[int, about("Its size.")]
    problem: Annotated[str, about("Why it could not be gathered; empty if it was.")]


class Diagnosis(Shape, frozen=True):
    file: Annotated[str, about("The file that was written.")]
    parts: Annotated[list[DiagnosisPart], about("What it contains.")]


@click.command(
    epilog="\b\nExamples:\n  relaydeck diagnose\n  relaydeck diagnose /tmp/diagnosis.zip --url http://127.0.0.1:9090"
)
@click.argument("file", type=PATH, required=False)
@click.option("--url", default="", help="Address of the running service (default: host and port of the settings).")
@as_json(Diagnosis)
@at_home
def diagnose(file: Path | None, url: str, as_json: bool) -> None:
    """Write FILE (default: relaydeck-diagnosis-TIME.zip here) for those who help you. Never overwrites a file.

    It contains versions, settings, the findings of 'doctor', health and metrics of the running service, the number of
    records, the state of migrations, who holds the write lock, limits of the machine and its processes, and the log
    where standard error of the service is a file. It contains no secret: of a URL, only scheme, host and port.

    A part that cannot be gathered, because the database is unreachable for example, says why. The command prints what
    FILE contains. Look at it before you send it: names of records and hosts may be confidential.
    """
    if url and (problem := web_address_problem(url)):
        raise OperatorError(f"--url {problem}")
    file = file or Path(f"relaydeck-diagnosis-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.zip")
    archive, parts = io.BytesIO(), []
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written:
        for name, gather in _parts(url).items():
            content, problem = _gathered(gather)
            written.writestr(name, content)
            parts.append(DiagnosisPart(name, len(content), problem))
    write_new_file(file, archive.getvalue())
    lines = [
        f"{each.name:<14} {f'not gathered: {each.problem}' if each.problem else f'{each.bytes} bytes'}"
        for each in parts
    ]
    print_outcome(Diagnosis(str(file), parts), as_json, f"wrote {file}", *lines)


def _parts(url: str) -> dict[str, Callable[[], Any]]:
    return {
        "program.json": _program,
        "settings.json": _settings,
        "doctor.json": lambda: msgspec.to_builtins(list(HomeTarget().findings())),
        "database.json": _database,
        "healthz.txt": lambda: _answer(url, "/healthz"),
        "readyz.txt": lambda: _answer(url, "/readyz?detail"),
        "metrics.txt": lambda: _answer(url, "/metrics"),
        "machine.json": _machine,
        "processes.json": _processes,
        "home.json": _files,
        "log.txt": _log,
    }


def _gathered(gather: Callable[[], Any]) -> tuple[str, str]:
    try:
        found = gather()
    except Exception as error:  # whatever is broken, the rest helps
        problem = operator_words(error)[0]
        return f"not gathered: {problem}\n", problem
    return found if isinstance(found, str) else msgspec.json.format(msgspec.json.encode(found)).decode(), ""


def _home() -> Path:
    """Also where the settings are wrong."""
    try:
        return read_settings().home
    except OperatorError:
        return Path(os.environ.get("RELAYDECK_HOME", Settings().home))


def _program() -> Any:
    return {
        "relaydeck": __version__,
        "time": utc(time.time()),
        "python": sys.version,
        "system": platform.platform(),
        "packages": {each.name: each.version for each in sorted(distributions(), key=lambda each: each.name.lower())},
    }


def _settings() -> Any:
    settings, default = read_settings(), Settings()
    changed = [each for each in SETTINGS if getattr(settings, each.name) != getattr(default, each.name)]
    return {
        "settings file": os.environ.get(SETTINGS_FILE),
        "values": {variable(each): _shown(getattr(settings, each.name)) for each in SETTINGS},
        "not the default": [variable(each) for each in changed],
    }


def _shown(value: Any) -> Any:
    """A URL without what may be a secret: its user, path and query."""
    if isinstance(value, Secret) and not isinstance(value, DatabaseUrl):  # which prints no password
        return shown_address(value.reveal())
    if isinstance(value, dict):
        return {name: _shown(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return [_shown(each) for each in value]
    if isinstance(value, str) and "://" in value:
        return shown_address(value)
    return value if isinstance(value, str | int | float | None) else str(value)


def _database() -> Any:
    where = read_settings().database
    with closing(open_reader_at(where)) as database:
        holder, problem = database.write_lock_holder(), database.write_problem()
        with database.snapshot():
            version = schema_version(database)
            applied = (
                database.read("SELECT version, applied_at FROM schema_versions ORDER BY version") if version else []
            )
            names = [table.name for table in database.tables()]
            rows = {name: database.read(f"SELECT count(*) AS found FROM {name}")[0].found for name in names}
            return {
                "engine": "PostgreSQL" if isinstance(where, DatabaseUrl) else "SQLite",
                "place": str(where),
                "schema version": version,
                "newest version that the program knows": newest_version(),
                "applied": {row.version: row.applied_at for row in applied},
                "unfinished copy of": unfinished_copy_of(database),
                "cannot be written to": problem,
                "holder of the write lock": None if holder is None else str(holder),
                "rows": rows,
            }


def _answer(url: str, path: str) -> str:
    """Of the running service. What it answers to these paths needs no credential and contains no secret."""
    settings = read_settings()
    host, port = settings.operations_address or (settings.host, settings.port)
    address = url.rstrip("/") or f"http://{host_in_url(host)}:{port}"
    answer = send_once(address, Request("GET", path, {}, None), _ANSWER_SECONDS, _ANSWER_BYTES)
    if not isinstance(answer, Response):
        raise OperatorError(f"{path}: {answer}", "")
    return f"{answer.status}\n{answer.body.decode('utf-8', 'replace')}"


def _machine() -> Any:
    home = _home()
    limits = {name: resource.getrlimit(value) for name, value in vars(resource).items() if name.startswith("RLIMIT_")}
    return {
        "cpus": os.cpu_count(),
        "cpus that may be used": len(os.sched_getaffinity(0)),
        "load": os.getloadavg(),
        "memory": _lines("/proc/meminfo", ("MemTotal", "MemAvailable", "SwapTotal", "SwapFree")),
        "limits": {name: ["unlimited" if each < 0 else each for each in found] for name, found in limits.items()},
        "cgroup": _cgroup(),
        "disk": {str(each): shutil.disk_usage(each)._asdict() for each in (home, Path.cwd()) if each.exists()},
        "user": os.geteuid(),
    }


def _cgroup() -> dict[str, str]:
    """The limits of the container or unit that this command runs in; in version 1 of cgroups none is found."""
    own = Path("/proc/self/cgroup").read_text().rpartition("::")[2].strip().lstrip("/")
    folder = Path("/sys/fs/cgroup") / own
    folder = folder if (folder / "memory.max").exists() else Path("/sys/fs/cgroup")  # its own view, in a container
    return {name: (folder / name).read_text().strip() for name in _CGROUP if (folder / name).exists()}


def _lines(path: str, names: tuple[str, ...]) -> dict[str, str]:
    found = (line.partition(":") for line in Path(path).read_text().splitlines())
    return {name: value.strip() for name, _, value in found if name in names}


def _processes() -> Any:
    return {service.pid: [_process(pid) for pid in _family(service.pid)] for service in _services()}


def _services() -> Any:
    return [service for service in running_services(_home() / "run") if service.pid > 0]


def _family(pid: int) -> list[int]:
    children = [int(each) for path in Path(f"/proc/{pid}/task").glob("*/children") for each in path.read_text().split()]
    return [pid, *(member for child in children for member in _family(child))]


def _process(pid: int) -> Any:
    with suppress(OSError):
        files = open_files(Path(f"/proc/{pid}/fd"))
        return {"pid": pid, **_lines(f"/proc/{pid}/status", _STATUS), "open files": files}
    return {"pid": pid, "problem": "it has ended, or belongs to another user"}


def _files() -> Any:
    return {str(path): _file(path) for path in sorted([_home(), *_home().rglob("*")])}


def _file(path: Path) -> Any:
    try:
        found = path.lstat()
    except OSError as error:
        return {"problem": error.strerror}
    mode, changed = stat.filemode(found.st_mode), utc(found.st_mtime)
    return {"mode": mode, "owner": found.st_uid, "bytes": found.st_size, "changed": changed}


def _log() -> str:
    services = _services()
    if not services:
        raise OperatorError(f"no service of the home {_home()} is running on this machine", "")
    return "".join(f"process {service.pid}:\n{_log_of(service.pid)}\n" for service in services)


def _log_of(pid: int) -> str:
    """Its newest lines, where standard error is a file."""
    path = Path(f"/proc/{pid}/fd/2")
    if not stat.S_ISREG(path.stat().st_mode):
        kept = f"it writes to {path.readlink()}, which cannot be read again"
        return f"{kept}: add the log from where you keep it, such as 'journalctl -u relaydeck'"
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _LOG_BYTES))
        lines = file.read(_LOG_BYTES).decode("utf-8", "replace").splitlines()
    return "\n".join(line for line in lines if _LOG_LINE.match(line))  # another program may write to it too
