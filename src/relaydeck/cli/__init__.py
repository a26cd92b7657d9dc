"""The `relaydeck` command."""

import sys


def main() -> None:
    """Run the command line; what an operator can mend is told in a sentence, without a traceback."""
    from relaydeck.cli.commands import cli
    from relaydeck.errors import OperatorError, StoreError, operator_words

    try:
        cli()
    except BrokenPipeError:
        sys.exit(141)
    except (OperatorError, OSError, StoreError) as error:
        sys.stderr.write("relaydeck: " + "\n".join(filter(None, operator_words(error))) + "\n")
        sys.exit(1)
