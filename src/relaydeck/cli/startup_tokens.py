"""The tokens that `relaydeck serve` sets up before it serves: the bootstrap token, and the first token."""

import re
import sys
import time
from pathlib import Path

from relaydeck.cli.local.store import change_in
from relaydeck.credentials import token_changes, token_rows
from relaydeck.credentials.kinds import TokenKind
from relaydeck.credentials.tokens import digest_of, new_token
from relaydeck.errors import OperatorError
from relaydeck.log import Log
from relaydeck.secret import Secret
from relaydeck.store.open_store import Store

_BOOTSTRAP_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{32,256}")


def accept_bootstrap_token(path: Path | None, kind: TokenKind, store: Store, log: Log) -> None:
    """Make the token in the file at `path` the only one named `bootstrap`."""
    if path is None:
        return
    token = read_bootstrap_token(path)
    digest = digest_of(token.reveal().encode())
    last = _last_bootstrap_token(store)
    if last is not None and last.is_authentic(store.vault.proofs) and _is_current(last, digest, kind, log):
        return
    with change_in(store) as change:
        token_changes.revoke(change, "bootstrap")
        # An earlier file may have contained the same token, or the same token as another kind: start afresh.
        token_rows.forget(change.transaction, digest)
        token_changes.issue(change, "bootstrap", kind, token)


def _last_bootstrap_token(store: Store) -> token_rows.Token | None:
    return next((token for token in reversed(token_rows.all_tokens(store.database)) if token.name == "bootstrap"), None)


def _is_current(last: token_rows.Token, digest: bytes, kind: TokenKind, log: Log) -> bool:
    if last.digest != digest:
        return False
    if last.revoked_at is not None:
        log.event("warning", "the bootstrap token is revoked and stays revoked: put another one in its file")
        return True
    return last.kind == kind


def read_bootstrap_token(path: Path) -> Secret:
    try:
        token = path.read_text("ascii").strip()
    except OSError as error:
        raise OperatorError(
            f"the bootstrap token file {path} cannot be read: {error.strerror}",
            "Create it, or correct RELAYDECK_BOOTSTRAP_TOKEN_FILE.",
        ) from None
    except UnicodeDecodeError:
        token = ""
    if not _BOOTSTRAP_TOKEN.fullmatch(token):
        raise OperatorError(
            f"the bootstrap token file {path} cannot be used",
            "It must contain 32 to 256 characters of A-Z a-z 0-9 - . _ ~ + / = and nothing else.",
        )
    return Secret(token)


def print_first_token(store: Store, address: str, documentation: str, log: Log) -> None:
    """On a terminal, issue a token if there is none; elsewhere only log, because logs must not contain tokens."""
    tokens = token_rows.all_tokens(store.database)
    if any(token.is_live(time.time()) and token.is_authentic(store.vault.proofs) for token in tokens):
        return
    if not sys.stdout.isatty():
        log.event("warning", "there is no access token yet: create one with 'relaydeck token create NAME'")
        return
    token = new_token()
    with change_in(store) as change:
        token_changes.issue(change, _unused_name(store, "first"), TokenKind.API, token)
    sys.stdout.write(_welcome(token, address, documentation))
    sys.stdout.flush()


def _unused_name(store: Store, wanted: str) -> str:
    used = {token.name for token in token_rows.all_tokens(store.database)}
    return wanted if wanted not in used else f"{wanted}-{len(used) + 1}"


def _welcome(token: Secret, address: str, documentation: str) -> str:
    return f"""
This is your first access token, for /api/v1. It is shown only once: keep it somewhere safe.

  export TOKEN={token.reveal()}

Try it:

  curl -s {address}/api/v1/signers -H "Authorization: Bearer $TOKEN"
  curl -s {address}/api/v1/signers -H "Authorization: Bearer $TOKEN" \\
    -H "Content-Type: application/json" \\
    -d '{{"type": "provider_a_kms", "config": {{"key_id": "alias/ops", "region": "eu-west-1"}}}}'
{
        documentation
        and f'''
Documentation: {documentation}
'''
    }
"""
