"""`POST /api/v1/signers`."""

import time
from collections.abc import Callable, Sequence

from relaydeck.contract.views import signer_view
from relaydeck.contract.wire import SignerRequest
from relaydeck.credentials.caller_writer import CallerWriter
from relaydeck.http.decoding import body_decoder
from relaydeck.http.envelope import encode_success
from relaydeck.http.pipeline import Call, Reply, Written, sender_of, written_at
from relaydeck.signers import signer_changes
from relaydeck.signers.signer_changes import SignerCreation
from relaydeck.store.audit import AuditLog
from relaydeck.store.database import Transaction

_decode = body_decoder(SignerRequest)


# sentence: 4.1-create 4.1-duplicate
class CreateSigner:
    """`widened`: whether responses show every field of the config that is not secret."""

    def __init__(
        self, writer: CallerWriter, audit: AuditLog, *, widened: bool, now: Callable[[], float] = time.time
    ) -> None:
        self._write = writer.jointly(self._store)
        self._audit = audit
        self._widened = widened
        self._now = now

    async def __call__(self, call: Call) -> Reply:
        request = _decode(call.headers, call.body)
        kind, caller = request.__struct_config__.tag, sender_of(call)
        creation = signer_changes.prepare_new(caller.actor, kind, request.config, request.id)
        new = creation.signer.new
        written = await self._write(caller, creation)
        view = signer_view(new.id, new.type, creation.signer.shown, widened=self._widened)
        return Reply(201, encode_success(view, creation.hints), headers=written)

    def _store(self, transaction: Transaction, many: Sequence[SignerCreation]) -> Sequence[Written | Exception]:
        """Creates that wait together are written together."""
        refusals = signer_changes.create_all(transaction, self._audit, many, origin="api", now=int(self._now()))
        written = written_at(transaction.revision)
        return [written if refusal is None else refusal for refusal in refusals]
