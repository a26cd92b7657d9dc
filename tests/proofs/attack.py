"""The standing attack suite: `make attack`, or `python -m tests.proofs.attack`.

It runs the tests that attack Relaydeck as a stranger, a caller, a node, a receiver, a key system, a file, a browser or
a server would, in a network namespace that has loopback alone where this machine can make one. `SUITE` says what each
kind tries and what must hold; the table in SECURITY.md is made from it.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "SECURITY.md"
_BEGIN, _END = "<!-- attacks: written by make docs -->", "<!-- end of attacks -->"
_ALONE = 'ip link set lo up && exec "$@"'


class Attack(NamedTuple):
    """`first` runs in the short form too."""

    who: str
    tries: str
    bound: str
    first: str
    others: tuple[str, ...] = ()


SUITE = (
    Attack(
        "a client without a credential",
        "unfinished and oversized bodies, silent and slow connections, ambiguous framing, more connections than files",
        "a worker stays below 256 MB and shrinks again; lists go on; no refused request stays in memory",
        "tests/http/test_unread_bodies.py",
        (
            "tests/http/test_refused_requests.py",
            "tests/http/test_framing.py",
            "tests/http/test_broken_bodies.py",
            "tests/http/test_slow_clients.py",
            "tests/http/test_connection_guard.py",
            "tests/proofs/test_unfinished_bodies.py",
            "tests/proofs/test_strangers.py",
        ),
    ),
    Attack(
        "a caller with a credential",
        "input of every wrong kind on both APIs, values at their bounds, a plan that is not the one that was shown",
        "a described refusal, never a failure; nothing changed; 412 for each difference of a plan",
        "tests/admin/test_pinned_plans.py",
        (
            "tests/contract/test_bad_input.py",
            "tests/contract/test_bounds.py",
            "tests/admin/test_any_input.py",
            "tests/proofs/test_generated_requests.py",
        ),
    ),
    Attack(
        "a credential with a scope",
        "every operation and page outside of the scope and on closed records, known identifiers, pages, counts, moves",
        "each answer is that of a service in which the rest does not exist",
        "tests/admin/test_closed_protections.py",
        ("tests/admin/test_scope_leaks.py", "tests/console/test_scopes.py", "tests/proofs/test_scope_hunt.py"),
    ),
    Attack(
        "one person who acts for two",
        "approving one's own change by tokens, rotations and makers; replacing what the approver was shown",
        "a change is applied as it is shown, once, with the approval of another, or not at all",
        "tests/credentials/test_makers.py",
        ("tests/admin/test_proposals.py", "tests/proofs/test_proposals.py"),
    ),
    Attack(
        "somebody who claims to be another",
        "hostile JSON Web Tokens, keys, ID tokens, states, codes and providers; many sign-ins; unverified addresses",
        "refused; sessions of others go on; a provider is asked a bounded number of times",
        "tests/credentials/test_json_web_tokens.py",
        ("tests/console/test_single_sign_on.py", "tests/console/test_dex.py"),
    ),
    Attack(
        "a sender of webhooks",
        "changed, old, repeated and missing parts, several signatures, empty keys",
        "the client believes none that a holder of the key did not send",
        "tests/client/test_webhooks.py",
        ("tests/notifications/test_receivers_page.py",),
    ),
    Attack(
        "an address in a record",
        "more than 150 URLs in hostile spellings for webhooks, nodes, key systems and token endpoints; rebinding",
        "no connection is made",
        "tests/outgoing/test_address_guard.py",
        ("tests/networks/test_guarded_nodes.py",),
    ),
    Attack(
        "a node or a receiver",
        "lies, floods, endless and broken answers",
        "the event loop is not held, nothing of a URL that may be a key is shown",
        "tests/networks/test_http_connection.py",
        ("tests/networks/test_lies.py", "tests/networks/test_error_kind.py", "tests/proofs/test_flooding_peers.py"),
    ),
    Attack(
        "a file",
        "forged backups, hostile TOML and JSON",
        "refused, or every credential in it revoked; the event loop is held for 50 ms at most (best of three)",
        "tests/test_hostile_files.py",
        ("tests/cli/test_forged_backups.py",),
    ),
    Attack(
        "a browser",
        "forms of other sites and sessions, sign-in links used by others, streams without end, scripts in every value",
        "refused; no session locks out another; a readonly session sees no key",
        "tests/console/test_refusals.py",
        ("tests/console/test_getting_in.py", "tests/console/test_live.py", "tests/console/test_pages.py"),
    ),
    Attack(
        "somebody with the database",
        "rows of tokens and sessions that were added, changed or put back",
        "refused and reported",
        "tests/credentials/test_tokens.py",
    ),
    Attack(
        "a server that commands are pointed at",
        "rubbish of every kind, dropped connections, endless bodies",
        "a message and exit code 1, never a traceback",
        "tests/cli/test_rubbish_servers.py",
        ("tests/conformance/test_conform.py",),
    ),
    Attack(
        "a reader of everything that the service writes",
        "a marker in every secret place",
        "no marker in a response, page, log line, metric, event, trace or file",
        "tests/test_secrets_hunt.py",
        ("tests/admin/test_secrets.py",),
    ),
)


def table() -> str:
    rows = [f"| {each.who} | {each.tries} | {each.bound} |" for each in SUITE]
    return "\n".join(["| attacker | tries | what must hold |", "|---|---|---|", *rows])


def page() -> str:
    """SECURITY.md with its table as it should be."""
    before, _, rest = PAGE.read_text("utf-8").partition(_BEGIN)
    return f"{before}{_BEGIN}\n\n{table()}\n\n{_END}{rest.partition(_END)[2]}"


def _alone() -> list[str]:
    """The beginning of a command that runs without any network but loopback; empty if this machine cannot do that."""
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return []
    prefix = ["unshare", "--net", "sh", "-c", _ALONE, "sh"]
    tried = subprocess.run([*prefix, "true"], capture_output=True, check=False)
    return prefix if tried.returncode == 0 else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="one module of each kind, without the slow proofs")
    chosen = parser.parse_args()
    prefix = _alone()
    print("in a network of its own" if prefix else "in the network of this machine: it cannot make another one")
    paths = [path for each in SUITE for path in (each.first, *(() if chosen.short else each.others))]
    tier = "not prove" if chosen.short else "prove or not prove"
    processes = str(2 * (os.cpu_count() or 1))
    command = [sys.executable, "-m", "pytest", "-n", processes, "-m", tier, *paths]
    return subprocess.run([*prefix, *command], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
