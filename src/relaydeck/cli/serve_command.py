"""`relaydeck serve`, and the group that the other commands join in `commands.py`: a service loads none of them."""

from typing import Any

import click

from relaydeck import __version__
from relaydeck import setting_values as values
from relaydeck.cli.options import PATH, as_json, serves_home, setting_value


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with 'relaydeck demo'. Then 'relaydeck init', 'relaydeck serve' and, in another terminal, "
    "'relaydeck apply'.",
)
@click.version_option(__version__, message="relaydeck %(version)s")
def cli() -> None:
    """Manage relayers, their signers and their notifications, and serve them over HTTP."""


@cli.command(epilog="Example:  relaydeck serve --port 8080 --workers 2")
@click.option(
    "--host",
    callback=setting_value(values.host),
    help="Address to listen on. Default: RELAYDECK_HOST, else 127.0.0.1.",
)
@click.option(
    "--port",
    metavar="INTEGER",
    callback=setting_value(values.port),
    help="Port to listen on, from 1 to 65535. Default: RELAYDECK_PORT, else 8080.",
)
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Worker processes.")
@click.option(
    "--core",
    flag_value="on",
    help="Serve the five operations and health, and nothing else. Default: RELAYDECK_CORE, else off.",
)
@click.option("--tls-cert", type=PATH, help="Certificate chain (PEM), to serve HTTPS. Requires --tls-key.")
@click.option("--tls-key", type=PATH, help="Private key of the certificate (PEM).")
@as_json("LogLine", text="Log in lines of JSON, whatever RELAYDECK_LOG_FORMAT is.")
@serves_home
def serve(as_json: bool, **options: Any) -> None:
    """Serve the HTTP interface until SIGTERM or Ctrl-C."""
    from relaydeck.cli.serve import run

    run(**options, log_format="json" if as_json else None)
