"""The file of a SQLite database is deleted or replaced while it is open: nothing is written into nowhere."""

import json
import os
import shutil
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from relaydeck.admin.store_thread import StoreThread
from relaydeck.errors import OperatorError, ServerFailure, StoreTrouble
from relaydeck.settings.model import Settings
from relaydeck.store import files
from relaydeck.store.database import Transaction
from relaydeck.store.open_store import open_served_store, open_store
from relaydeck.store.writer import Writer
from relaydeck.worker.health_routes import store_readiness
from tests.support.running import Running, children, eventually, run_command
from tests.support.seeding import fill, issue, opened


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def replaced(path: Path) -> str:
    return f"the database file {path} was deleted or replaced: put it back and restart Relaydeck"


def delete(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


async def write_alone(writer: Writer, work: Callable[[Transaction], None]) -> None:
    await writer.write(work)


async def write_jointly(writer: Writer, work: Callable[[Transaction], None]) -> None:
    def work_for_one(transaction: Transaction, items: Sequence[None]) -> Sequence[None]:
        work(transaction)
        return items

    await writer.write_jointly(work_for_one, None)


@pytest.mark.parametrize("write_by", [write_alone, write_jointly])
@pytest.mark.parametrize("remove", [delete, replace])
async def test_a_write_is_not_acknowledged_when_the_file_goes_before_its_commit(
    home: Path,
    remove: Callable[[Path], None],
    write_by: Callable[[Writer, Callable[[Transaction], None]], Awaitable[None]],
) -> None:
    fill(home)
    with opened(home) as store:
        writer = Writer(store.database)

        def write(transaction: Transaction) -> None:
            transaction.execute("DELETE FROM signers")
            remove(home / "relaydeck.db")

        with pytest.raises(ServerFailure) as refused:
            await write_by(writer, write)
        problem = (
            f"the database file {home / 'relaydeck.db'} was deleted or replaced: put it back and restart Relaydeck"
        )
        assert refused.value.reason == f"the write may be lost: {problem}"
        await writer.stop()


@pytest.mark.parametrize("remove", [delete, replace])
async def test_a_database_file_that_is_gone_refuses_writes_and_is_not_ready(
    home: Path, remove: Callable[[Path], None]
) -> None:
    fill(home)
    with opened(home) as store:
        with store.database.transaction():
            pass
        assert (await store_readiness(store.database)).ready
        remove(home / "relaydeck.db")
        for begin in (store.database.transaction, store.database.transaction_at_once):
            transaction = begin()
            assert transaction is not None
            with (
                pytest.raises(StoreTrouble, match="was deleted or replaced: put it back and restart Relaydeck"),
                transaction,
            ):
                pass
        readiness = await store_readiness(store.database)
        assert (readiness.ready, "was deleted or replaced" in readiness.text) == (False, True)


def test_closing_creates_no_file_in_the_place_of_one_that_is_gone(home: Path) -> None:
    fill(home)
    with opened(home) as store:
        with store.database.transaction():
            pass
        store.database.write_signal.erasing = True
        delete(home / "relaydeck.db")
    assert not (home / "relaydeck.db").exists()


def test_nothing_is_created_in_the_place_of_a_file_whose_log_is_still_there(home: Path) -> None:
    fill(home)
    file, elsewhere = home / "relaydeck.db", home / "elsewhere.db"
    with opened(home) as store:
        with store.database.transaction() as transaction:
            transaction.execute("UPDATE clock SET revision = revision")
        file.rename(elsewhere)
        for open_again in (open_store, open_served_store):
            with pytest.raises(OperatorError) as refused:
                open_again(Settings(home=home))
            assert refused.value.problem == (
                f"the database file {file} is missing, and relaydeck.db-wal contains its newest writes"
            )
        assert not file.exists()
        elsewhere.rename(file)
        assert store.database.write_problem() == ""


@pytest.fixture
def forget_filess() -> Iterator[None]:
    """The files that this process serves are forgotten afterwards."""
    before = dict(files._served)
    yield
    files._served.clear()
    files._served.update(before)


async def test_a_running_service_opens_no_file_in_the_place_of_the_one_it_serves(
    home: Path, forget_filess: None
) -> None:
    fill(home)
    file, settings = home / "relaydeck.db", Settings(home=home)
    with closing(open_store(settings, to_serve=True)) as store:
        with store.database.transaction():
            pass
        shutil.copy(file, home / "copy.db")
        file.rename(home / "elsewhere.db")
        (home / "copy.db").rename(file)
        log = (home / "relaydeck.db-wal").read_bytes()
        thread = StoreThread(settings)
        with pytest.raises(StoreTrouble, match=replaced(file)):
            await thread.run(lambda other: other.database.read("SELECT 1 FROM clock"))
        thread.close()
        assert (home / "relaydeck.db-wal").read_bytes() == log
        (home / "elsewhere.db").rename(file)
        with closing(open_served_store(settings)) as served:
            assert served.database.write_problem() == ""


async def test_a_running_service_creates_no_database_for_its_first_admin_request(home: Path) -> None:
    fill(home)
    file = home / "relaydeck.db"
    thread = StoreThread(Settings(home=home))
    shutil.move(file, home / "elsewhere.db")
    with pytest.raises(StoreTrouble, match=f"the database file {file} is missing"):
        await thread.run(lambda store: store.database.read("SELECT 1 FROM clock"))
    assert not file.exists()
    thread.close()


@pytest.fixture
def restarted_beside_a_log(home: Path) -> Path:
    """A file that was replaced while it was open, as the next start finds it: with the log of the file before."""
    fill(home)
    file = home / "relaydeck.db"
    with opened(home) as store:
        shutil.copy(file, home / "copy.db")
        with store.database.transaction() as transaction:
            transaction.execute("DELETE FROM signers")
        file.rename(home / "elsewhere.db")
        (home / "copy.db").rename(file)
    return file


def signers_in(home: Path) -> int:
    with opened(home) as store:
        return len(store.database.read("SELECT id FROM signers"))


def test_a_start_does_not_write_the_log_of_a_replaced_file_into_another(restarted_beside_a_log: Path) -> None:
    file = restarted_beside_a_log
    log = file.with_name("relaydeck.db-wal").read_bytes()
    with pytest.raises(OperatorError) as refused:
        open_store(Settings(home=file.parent))
    assert refused.value.problem == (
        f"the database file {file} was replaced while Relaydeck was running, and relaydeck.db-wal contains the newest"
        " writes of the file before"
    )
    assert refused.value.remedy == (
        "Put that file back. If it is back already, as a copy, delete relaydeck.db-replaced. To continue with the file"
        " that is there now, without those writes, move relaydeck.db-wal away."
    )
    assert file.with_name("relaydeck.db-wal").read_bytes() == log


def put_back(home: Path) -> None:
    (home / "elsewhere.db").rename(home / "relaydeck.db")


def put_back_as_a_copy(home: Path) -> None:
    shutil.copy(home / "elsewhere.db", home / "relaydeck.db")
    (home / "relaydeck.db-replaced").unlink()


def move_the_log_away(home: Path) -> None:
    (home / "relaydeck.db-wal").rename(home / "elsewhere.db-wal")


@pytest.mark.parametrize(("remedy", "signers"), [(put_back, 0), (put_back_as_a_copy, 0), (move_the_log_away, 1)])
def test_each_remedy_for_a_replaced_file_works(
    restarted_beside_a_log: Path, remedy: Callable[[Path], None], signers: int
) -> None:
    home = restarted_beside_a_log.parent
    remedy(home)
    assert signers_in(home) == signers
    assert not (home / "relaydeck.db-replaced").exists()


def test_a_home_with_a_replaced_file_is_neither_examined_nor_backed_up(restarted_beside_a_log: Path) -> None:
    home = restarted_beside_a_log.parent
    (found,) = [each for each in run_command(home, "doctor").stdout.splitlines() if "FAIL" in each]
    assert f"database: the database file {restarted_beside_a_log} was replaced while Relaydeck was running" in found
    assert run_command(home, "backup", str(home / "backup")).returncode == 1
    assert not (home / "backup").exists()


def test_a_file_that_is_missing_is_not_taken_for_a_replaced_one(restarted_beside_a_log: Path) -> None:
    restarted_beside_a_log.unlink()
    files.refuse_replaced(restarted_beside_a_log)
    with pytest.raises(OperatorError, match=r"is missing, and relaydeck\.db-wal contains its newest writes"):
        open_store(Settings(home=restarted_beside_a_log.parent))


def test_a_copy_of_a_home_whose_file_was_put_back_is_opened(home: Path, tmp_path: Path) -> None:
    """Its log is a copy, too, of the writes of this file."""
    fill(home)
    with opened(home) as store:
        (home / "relaydeck.db").rename(home / "elsewhere.db")
        assert store.database.write_problem() == replaced(home / "relaydeck.db")
        put_back(home)
        with store.database.transaction() as transaction:
            transaction.execute("DELETE FROM signers")
        shutil.copytree(home, tmp_path / "copy")
    assert (tmp_path / "copy" / "relaydeck.db-replaced").exists()
    assert signers_in(tmp_path / "copy") == 0


def test_the_log_of_another_process_is_not_noted(home: Path) -> None:
    """The file was replaced while its log was empty, so that another process has opened the new one since."""
    fill(home)
    file = home / "relaydeck.db"
    with opened(home):
        shutil.copy(file, home / "copy.db")
        file.rename(home / "elsewhere.db")
        (home / "copy.db").rename(file)
        (home / "relaydeck.db-wal").unlink()
        with opened(home) as other, other.database.transaction() as transaction:
            transaction.execute("DELETE FROM signers")
    assert not (home / "relaydeck.db-replaced").exists()
    assert signers_in(home) == 0


def test_nothing_is_written_to_a_log_that_is_gone(home: Path) -> None:
    fill(home)
    with opened(home) as store:
        with store.database.transaction():
            pass
        (home / "relaydeck.db-wal").unlink()
        with (
            pytest.raises(StoreTrouble, match=r"the write-ahead log of the database file .* was deleted or replaced"),
            store.database.transaction(),
        ):
            pass


def test_a_file_with_the_inode_of_one_that_was_deleted_is_another_one(home: Path) -> None:
    fill(home)
    file = home / "relaydeck.db"
    with opened(home) as store:
        with store.database.transaction() as transaction:
            transaction.execute("DELETE FROM signers")
        file.unlink()
        assert store.database.write_problem() == replaced(file)
        mark = (home / "relaydeck.db-replaced").read_text()
    assert mark.split()[0] == "0"


def test_a_mark_that_a_full_disk_cut_off_refuses_nothing(restarted_beside_a_log: Path) -> None:
    home = restarted_beside_a_log.parent
    put_back(home)
    (home / "relaydeck.db-replaced").write_text("")
    assert signers_in(home) == 0


def test_a_service_logs_that_its_file_was_replaced(home: Path) -> None:
    token, file = issue(home), home / "relaydeck.db"
    with Running(home, token=token) as running:
        file.rename(home / "elsewhere.db")
        eventually(lambda: "writes fail" in running.log)
        (home / "elsewhere.db").rename(file)
    (logged,) = [json.loads(line) for line in running.log.splitlines() if "writes fail" in line]
    assert (logged["level"], logged["reason"], logged["problem"]) == ("error", "file_replaced", replaced(file))


def test_a_worker_that_is_started_again_opens_no_file_in_the_place_of_the_one_it_serves(home: Path) -> None:
    """It would discard the write-ahead log of the file before, and acknowledged writes with it."""
    token, file = issue(home), home / "relaydeck.db"
    signer = {"id": "ops", "type": "plain", "config": {"key": "11" * 32}}
    with Running(home, token=token) as running:
        assert running.ask("POST", "/api/v1/signers", signer).status == 201
        shutil.copy(file, home / "copy.db")
        file.rename(home / "elsewhere.db")
        (home / "copy.db").rename(file)
        for worker in children(running.process.pid):
            os.kill(worker, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while replaced(file) not in running.log:
            assert time.monotonic() < deadline, running.log
            time.sleep(0.01)
    (home / "elsewhere.db").rename(file)
    with Running(home, token=token) as running:
        assert [each["id"] for each in running.ask("GET", "/api/v1/signers").json["data"]] == ["ops"]
