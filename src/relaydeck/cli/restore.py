"""`relaydeck restore`."""

import time
from pathlib import Path

from relaydeck.cli.backup_key import checked_backup, write_master_key
from relaydeck.cli.json_shapes import Restored, RevokedByRestore
from relaydeck.cli.output import print_note, print_outcome, progress_bar
from relaydeck.settings import read_settings
from relaydeck.store.copying import move
from relaydeck.store.copying.mark import remove_mark, revoke_and_remove_mark
from relaydeck.store.open_store import open_for_filling, open_store

_REVOKED = {"token": "token {}", "session": "session of {}", "link": "sign-in link of {}"}


def restore(path: Path, passphrase_file: Path | None, unauthenticated: bool, as_json: bool) -> None:
    settings = read_settings()
    key_path = settings.master_key_path
    with (
        checked_backup(path, key_path, passphrase_file, unauthenticated) as backup,
        open_for_filling(settings.home, settings.database) as target,
    ):
        loaded = move.restore(backup.file, target, progress_bar)
        write_master_key(backup.key, key_path)
        if backup.is_authentic:
            revoked = []
            remove_mark(target)
        else:
            revoked = revoke_and_remove_mark(target, int(time.time()))
    if backup.key is not None and not backup.is_authentic:
        open_store(settings).close()  # records in the audit log what was revoked
    tables, rows = len(loaded.contents), loaded.rows
    listed = [RevokedByRestore(*each) for each in revoked]
    print_outcome(
        Restored(str(settings.database), tables, rows, loaded.kept, backup.is_authentic, listed),
        as_json,
        f"restored {tables} tables, {rows} rows to {settings.database}; all read back equal",
        *(f"revoked the {_REVOKED[each.kind].format(each.name)}" for each in revoked),
    )
    if backup.key is None:
        print_note(f"Copy the master key file to {key_path} before you start the service.")
    if not backup.is_authentic:
        print_note("No credential in the backup works any more. Create one with 'relaydeck token create NAME'.")
