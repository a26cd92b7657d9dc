"""`relaydeck diagnose`: what the file contains, and that a part which fails leaves the others."""

import json
import os
import stat
import zipfile
from pathlib import Path
from typing import Any

from tests.support.running import Running, eventually, free_port, run_command
from tests.support.seeding import issue

PARTS = {
    *("program.json", "settings.json", "doctor.json", "database.json", "healthz.txt", "readyz.txt", "metrics.txt"),
    *("machine.json", "processes.json", "home.json", "log.txt"),
}


def diagnosed(home: Path, *options: str, **settings: str) -> tuple[dict[str, str], dict[str, str]]:
    """The contents of the file, and the problems of the parts that could not be gathered."""
    file = home.parent / "diagnosis.zip"
    done = run_command(home, "diagnose", str(file), "--json", *options, **settings)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    with zipfile.ZipFile(file) as archive:
        contents = {name: archive.read(name).decode() for name in archive.namelist()}
    assert (told["file"], {each["name"] for each in told["parts"]}) == (str(file), PARTS)
    assert {each["name"]: each["bytes"] for each in told["parts"]} == {
        name: len(text) for name, text in contents.items()
    }
    return contents, {each["name"]: each["problem"] for each in told["parts"] if each["problem"]}


def part(contents: dict[str, str], name: str) -> Any:
    return json.loads(contents[f"{name}.json"])


def test_of_a_running_service_everything_is_gathered(home: Path) -> None:
    with Running(home, token=issue(home)) as running:
        assert running.ask("GET", "/api/v1/signers").status == 200
        eventually(lambda: '"route":"list_signers"' in running.log)
        contents, problems = diagnosed(home, "--url", f"http://127.0.0.1:{running.port}")
        assert problems == {}
        (processes,) = part(contents, "processes").values()
        assert processes[0]["pid"] == running.process.pid and len(processes) > 1
    assert contents["healthz.txt"] == "200\nok\n" and contents["readyz.txt"].startswith('200\n{"ready":true,')
    assert "relaydeck_requests_total" in contents["metrics.txt"]
    assert '"event": "serving"' in contents["log.txt"] and '"route":"list_signers"' in contents["log.txt"]
    assert {finding["subject"] for finding in part(contents, "doctor")} >= {"home", "database", "schema", "audit log"}
    assert part(contents, "settings")["values"]["RELAYDECK_HOME"] == str(home)
    assert "RELAYDECK_HOME" in part(contents, "settings")["not the default"]
    database = part(contents, "database")
    assert database["rows"]["tokens"] == 1
    assert database["schema version"] == database["newest version that the program knows"]
    assert part(contents, "home")[f"{home}/master.key"]["mode"] == "-rw-------"
    assert part(contents, "machine")["limits"]["RLIMIT_NOFILE"]
    assert part(contents, "program")["packages"]["relaydeck"] == part(contents, "program")["relaydeck"]


def test_a_log_that_cannot_be_read_again_is_asked_for(home: Path) -> None:
    reading, writing = os.pipe()
    with open(reading, "rb"), open(writing, "wb") as log:

        class Piped(Running):
            stderr = log

        with Piped(home):
            contents, _ = diagnosed(home)
    assert "it writes to pipe:[" in contents["log.txt"] and "journalctl" in contents["log.txt"]


def test_a_database_that_cannot_be_reached_leaves_the_rest(tmp_path: Path) -> None:
    home, port = tmp_path / "home", free_port()
    home.mkdir()
    contents, problems = diagnosed(
        home, database_url=f"postgresql://me:s3cret@127.0.0.1:{port}/x", port=str(free_port())
    )
    assert set(problems) == {"database.json", "healthz.txt", "readyz.txt", "metrics.txt", "log.txt"}
    assert problems["healthz.txt"].startswith("/healthz: cannot connect to http://127.0.0.1:")
    assert any(each["subject"] == "database" and each["result"] == "FAIL" for each in part(contents, "doctor"))
    shown = part(contents, "settings")["values"]["RELAYDECK_DATABASE_URL"]
    assert (shown, "s3cret" in "".join(contents.values())) == (f"postgresql://127.0.0.1:{port}/x", False)


def test_bad_settings_leave_the_rest(home: Path) -> None:
    issue(home)
    contents, problems = diagnosed(home, monitor_rounds="s3cret")
    assert set(problems) == {"settings.json", "database.json", "healthz.txt", "readyz.txt", "metrics.txt", "log.txt"}
    assert problems["settings.json"].startswith("RELAYDECK_MONITOR_ROUNDS must be ")
    assert part(contents, "doctor")[0]["remark"].startswith("RELAYDECK_MONITOR_ROUNDS must be ")
    assert f"{home}/master.key" in part(contents, "home")
    assert "s3cret" not in "".join(contents.values())


def test_a_file_is_never_overwritten(home: Path) -> None:
    file = home.parent / "diagnosis.zip"
    diagnosed(home)
    before = file.read_bytes()
    done = run_command(home, "diagnose", str(file))
    assert (done.returncode, f"{file} exists" in done.stderr, file.read_bytes()) == (1, True, before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_an_address_that_is_none_is_refused(home: Path) -> None:
    done = run_command(home, "diagnose", "--url", "nowhere")
    assert (done.returncode, done.stderr.startswith("relaydeck: --url must ")) == (1, True)
