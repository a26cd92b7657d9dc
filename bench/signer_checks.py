"""Lists while ten thousand signers are checked, against the same lists without checks."""

from contextlib import ExitStack
from functools import partial

from bench.comparing import Side
from bench.homes import Home, change, make_home
from bench.rows import THROUGHPUT, Row
from bench.run import SIGNERS, Run, get, started_relaydeck
from relaydeck.secret import Secret
from relaydeck.signers import signer_changes
from relaydeck.signers.signer_types import LocalConfig, NewSigner
from relaydeck.store.database import Transaction
from relaydeck.store.vault import Vault

_SIGNERS = 10_000
_ROUND_SECONDS = 600  # six times the default pace: 17 checks a second
_AT_LEAST = 0.9
_AGAINST = "the same service without checks"


def measure(run: Run) -> list[Row]:
    homes = {name: _home(run, name) for name in ("checked", "unchecked")}
    found = run.compare_fresh("lists during signer checks", partial(_sides, homes))
    name = f"list-signers during a round of {_SIGNERS} signer checks"
    return [Row(name, _AGAINST, THROUGHPUT, found.throughput("checked", "unchecked"), at_least=_AT_LEAST)]


def _home(run: Run, name: str) -> Home:
    home = make_home(run.folder / f"signers-{name}", signers=10, relayers=10)
    change(home, _add_signers)
    return home


def _add_signers(transaction: Transaction, vault: Vault) -> None:
    for number in range(1, _SIGNERS + 1):
        new = NewSigner(f"plain-{number:05d}", "plain", LocalConfig(key=Secret(f"{number:064x}")))
        signer_changes.insert(transaction, vault, [signer_changes.prepare(new)], origin="api", now=0)


def _sides(homes: dict[str, Home], stack: ExitStack) -> list[Side]:
    seconds = {"checked": str(_ROUND_SECONDS), "unchecked": "0"}
    return [
        Side(name, started_relaydeck(stack, home, signer_check_seconds=seconds[name]), get(home, SIGNERS))
        for name, home in homes.items()
    ]
