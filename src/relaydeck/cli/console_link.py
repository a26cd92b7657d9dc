"""The one-time link that signs an operator in to the console: printed by `relaydeck serve` and `relaydeck console`."""

import socket
import sys
import webbrowser
from typing import Annotated
from urllib.parse import urlencode

import click

from relaydeck.cli.home import actor, change_in, existing_store
from relaydeck.cli.options import as_json, at_home
from relaydeck.cli.output import Shape, about, print_note, print_outcome
from relaydeck.credentials.console_sessions import issue_code
from relaydeck.errors import OperatorError
from relaydeck.settings.model import Settings, read_settings
from relaydeck.store.open_store import Store
from relaydeck.web_addresses import host_in_url, web_address_problem


class ConsoleLink(Shape, frozen=True):
    link: Annotated[str, about("Signs its user in to the console: once, within ten minutes.")]


def print_link_on_terminal(store: Store, settings: Settings, address: str) -> None:
    """Elsewhere nothing is printed: a log must not contain a code."""
    if settings.console == "off" or not sys.stdout.isatty():
        return
    sys.stdout.write(
        f"\nOpen the console with this link, which works once, within ten minutes:\n\n  {_new_link(store, address)}\n\n"
    )
    sys.stdout.flush()


@click.command(epilog="Example:  relaydeck console --open")
@click.option("--url", default="", help="Address of the running service (default: host and port of the settings).")
@click.option("--open", "opened", is_flag=True, help="Open the link in a browser.")
@as_json(ConsoleLink)
@at_home
def console(url: str, opened: bool, as_json: bool) -> None:
    """Print a link that signs you in to the console of a running service. It works once, for ten minutes.

    The session may change everything. In the audit log it appears as a token named after your account.
    """
    settings = read_settings()
    address = url or f"http://{host_in_url(settings.host)}:{settings.port}"
    if problem := web_address_problem(address):
        raise OperatorError(f"--url {problem}")
    if settings.console == "off":
        raise OperatorError("the console is off", "Remove RELAYDECK_CONSOLE=off and start the service again.")
    if settings.core == "on":
        raise OperatorError("the core has no console", "Remove RELAYDECK_CORE=on and start the service again.")
    with existing_store() as store:
        link = _new_link(store, address)
    if not url and not _is_open(settings.host, settings.port):
        print_note(f"note: nothing answers at {address}; pass the address of the service with --url")
    print_outcome(ConsoleLink(link), as_json, link)
    if opened and not webbrowser.open(link):
        raise OperatorError("there is no browser to open", "Open the link yourself.")


def _is_open(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except (OSError, UnicodeError):  # the latter: no name of a host
        return False
    return True


def _new_link(store: Store, address: str) -> str:
    """The session acts as a token named after the account, so that the audit log shows who it was."""
    with change_in(store) as change:
        code = issue_code(change, f"console-{actor().removeprefix('cli:')}")
    return f"{address.rstrip('/')}/console/enter?{urlencode({'code': code.reveal()})}"
