"""Where a passphrase comes from: a file or the terminal. Arguments and the environment can be seen by others."""

import sys
from pathlib import Path

import click

from relaydeck.errors import OperatorError
from relaydeck.secret import Secret
from relaydeck.store.copying.passphrase import LEAST_CHARACTERS


def new_passphrase(file: Path | None) -> Secret:
    passphrase = _from_file(file) if file else _asked("Passphrase for the master key", twice=True)
    if len(passphrase.reveal()) < LEAST_CHARACTERS:
        raise OperatorError(f"the passphrase is shorter than {LEAST_CHARACTERS} characters", "Nothing was written.")
    return passphrase


def known_passphrase(file: Path | None) -> Secret:
    return _from_file(file) if file else _asked("Passphrase of the master key in the backup", twice=False)


def _from_file(file: Path) -> Secret:
    lines = file.read_text("utf-8").splitlines()
    if len(lines) != 1 or not lines[0]:
        raise OperatorError(f"{file} does not hold one line with a passphrase", "Nothing was changed.")
    return Secret(lines[0])


def _asked(question: str, *, twice: bool) -> Secret:
    if not sys.stdin.isatty():
        raise OperatorError(
            "there is no terminal to ask for the passphrase", "Give it with --passphrase-file. Nothing was changed."
        )
    return Secret(click.prompt(question, hide_input=True, confirmation_prompt=twice, err=True))
