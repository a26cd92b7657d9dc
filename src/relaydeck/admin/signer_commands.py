"""Creates signers, for the admin API and the commands."""

from relaydeck.admin.record_commands import read_record
from relaydeck.admin.views import RecordView
from relaydeck.signers import signer_changes
from relaydeck.signers.signer_types import NewSigner
from relaydeck.store.change_context import ChangeContext


def create_signer(context: ChangeContext, new: NewSigner) -> RecordView:
    creation = signer_changes.create(context, new)
    return read_record(context, "signers", new.id)._replace(notes=tuple(creation.hints))
