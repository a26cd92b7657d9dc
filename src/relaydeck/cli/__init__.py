"""The `relaydeck` command."""

import io
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relaydeck.process.wrapped_keys import KeySystem


def main() -> None:
    """Run the command line. An error that the operator can correct is one message, not a traceback."""
    from relaydeck.cli.commands import cli
    from relaydeck.cli.output import print_note
    from relaydeck.errors import OperatorError, StoreError, operator_words
    from relaydeck.process.wrapped_keys import WRAPPED_KEYS

    WRAPPED_KEYS.find_system = _key_system
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal's encoding may not have every character
    try:
        cli()
    except BrokenPipeError:
        sys.exit(141)
    except (OperatorError, OSError, StoreError) as error:
        print_note("relaydeck: " + "\n".join(filter(None, operator_words(error))))
        sys.exit(error.exit_code if isinstance(error, OperatorError) else 1)


def _key_system() -> "KeySystem | None":
    """What wraps the master key, by the settings of this process."""
    from relaydeck.cli.home import key_system
    from relaydeck.settings.model import read_settings

    return key_system(read_settings())
