"""Each signal changes what readers compare."""

from pathlib import Path

from relaydeck.store.write_signal import WriteSignal


def test_a_signal_of_a_token_changes_both_cells_and_any_other_one(tmp_path: Path) -> None:
    signal, other = WriteSignal(tmp_path / "signal"), WriteSignal(tmp_path / "signal")
    seen = [(other.last(), other.last_of_tokens())]
    for of_tokens in (False, True):
        signal.send(of_tokens=of_tokens)
        seen.append((other.last(), other.last_of_tokens()))
    assert (len({every for every, _ in seen}), [tokens for _, tokens in seen]) == (3, [0, 0, seen[2][1]])
    assert seen[2][1] != 0
