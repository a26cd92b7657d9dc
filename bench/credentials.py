"""Compares kinds of credentials: `python -m bench.credentials [RELAYERS]`.

A list of relayers, and then creates, by a token without a scope, by one that may see one of a hundred, and by a JSON
Web Token, in turns on one server. A ratio above 1 means that the first needs more processor time than the second.
`python -m bench.versions COMMIT` compares both with an earlier commit.
"""

import argparse
import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import tools
from bench.comparing import Side, compare
from bench.creates import create_request
from bench.homes import Home, change, make_home
from bench.load import Request, choose
from bench.run import RELAYERS, get
from bench.service import await_quiet, first_answer, serve_relaydeck
from relaydeck.credentials import tokens
from relaydeck.credentials.grants import Grant
from relaydeck.credentials.tokens import new_token
from relaydeck.roles import Role
from relaydeck.scope import Scope
from relaydeck.store.database import Transaction
from relaydeck.store.vault import Vault
from tests.support.issuer import SUBJECT, serving_issuer

_REQUESTS: dict[str, Callable[[Home], Request]] = {
    "list": lambda home: get(home, RELAYERS),
    "create in a service": create_request,
}
_LABELS = {"team": "payments"}
_ONE_OF = 100
_LABEL_SOME = f"UPDATE relayers SET labels = '{json.dumps(_LABELS, separators=(',', ':'))}' WHERE seq % {_ONE_OF} = 0"


def _add_scope(home: Home) -> str:
    """Label some relayers, and return a token that may see no others."""
    token = new_token()

    def work(transaction: Transaction, vault: Vault) -> None:
        transaction.execute(_LABEL_SOME, {})
        granted = Grant(role=Role.API, scope=Scope(labels=_LABELS)).stored
        tokens.add(transaction, vault.proofs, "scoped", granted, token, now=0)

    change(home, work)
    return token.reveal()


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.credentials", description=__doc__.partition("\n")[0])
    parser.add_argument("relayers", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    with TemporaryDirectory() as name, serving_issuer() as issuer, ExitStack() as stack:
        folder = Path(name)
        load = choose(tools.find("wrk"), folder)
        home = make_home(folder / "home", signers=10, relayers=given.relayers)
        scoped = home._replace(token=_add_scope(home))
        rules = [{"claims": {"sub": SUBJECT}, "role": "api"}]
        issuers = json.dumps([issuer.settings(rules=rules)])
        server = stack.enter_context(serve_relaydeck(home, issuers=issuers))
        homes = {"token": home, "scoped token": scoped, "JSON Web Token": home._replace(token=issuer.token())}
        for what, request in _REQUESTS.items():
            sides = [Side(name, server, request(each)) for name, each in homes.items()]
            for side in sides:
                first_answer(server, side.request)
            await_quiet(server)
            found = compare(load, sides, rounds=given.rounds, seconds=1, advance=lambda: None)
            print(f"CPU of a {what} of {given.relayers:,} relayers, as a share of that by a token without a scope")
            for kind in list(homes)[1:]:
                ratio = found.cpu(kind, "token")
                print(f"{kind:16} {ratio.middle:.2f} ({ratio.low:.2f}–{ratio.high:.2f})")


if __name__ == "__main__":
    _main()
