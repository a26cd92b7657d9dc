"""The `relaydeck` command."""

import sys


def main() -> None:
    """Run the command line; what an operator can mend is told in one line, without a traceback."""
    from relaydeck.cli.commands import cli
    from relaydeck.errors import OperatorError

    try:
        cli()
    except OperatorError as error:
        sys.stderr.write(f"relaydeck: {error}\n")
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(141)
