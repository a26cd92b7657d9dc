"""The signal of a write is sent whatever other processes do."""

import fcntl
from pathlib import Path

from relaydeck.store.write_signal import WriteSignal


def test_a_signal_follows_the_one_before_it(tmp_path: Path) -> None:
    signal = WriteSignal(tmp_path / "signal")
    first = signal.send(of_tokens=False)
    second = signal.send(of_tokens=True)
    assert second.before == first.after == (first.after[0], first.before[1])
    assert (signal.last(), signal.last_of_tokens()) == second.after


def test_a_process_that_was_stopped_with_the_lock_does_not_stop_others(tmp_path: Path) -> None:
    signal = WriteSignal(tmp_path / "signal")
    known = signal.send(of_tokens=False).after
    with (tmp_path / "signal").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sent = signal.send(of_tokens=False)
    assert sent.before != known  # so nobody takes it for the only write since
    assert signal.last() == sent.after[0] != known[0]
