"""Signers: the config of a new one depends on its type, and each proves on request that it reaches its key."""

import msgspec
from msgspec import UNSET

from relaydeck.admin.handling import Change, Content, Request, Services, changes, handles
from relaydeck.admin.records import require_match
from relaydeck.admin.views import read_record
from relaydeck.api.operations import BY_NAME, CHECK_SIGNER, LIST_SIGNER_DRIVERS
from relaydeck.api.records import SignerChange, SignerDriver, SignerRequest
from relaydeck.errors import BadRequest
from relaydeck.http.body import reason_of
from relaydeck.secret import decode_secret
from relaydeck.signers import check_results, signer_changes
from relaydeck.signers.check import check_report, check_signer
from relaydeck.signers.signer_types import SHAPES, NewSigner, new_signer
from relaydeck.store.changes import ChangeContext


@changes(BY_NAME["create_signer"])
def create_signer(context: ChangeContext, _request: Request, asked: SignerRequest) -> Content:
    new = _read_signer(asked)
    hints = signer_changes.create(context, new).hints
    return read_record(context, "signers", new.id)._replace(notes=tuple(hints))


def _read_signer(request: SignerRequest) -> NewSigner:
    shape = SHAPES.get(request.type)
    if shape is None:
        raise BadRequest(f"type must be one of {', '.join(SHAPES)}")
    try:
        config = msgspec.json.decode(request.config, type=shape, dec_hook=decode_secret)
    except msgspec.ValidationError as error:
        raise BadRequest(reason_of(error).replace("$", "$.config")) from None
    return new_signer(request.type, config, request.id, request.labels or UNSET)


@changes(BY_NAME["update_signer"])
def update_signer(context: ChangeContext, request: Request, asked: SignerChange) -> Content:
    name = request.identifier
    before = read_record(context, "signers", name)
    require_match(before, request.if_match)
    labels = before.data.get("labels", {}) | (asked.labels or {})
    signer_changes.set_labels(context, name, {key: value for key, value in labels.items() if value is not None})
    after = read_record(context, "signers", name)
    return after._replace(changed=after.etag != before.etag)


@handles(LIST_SIGNER_DRIVERS)
async def list_drivers(services: Services, _request: Request) -> Content:
    """The bound drivers: `relaydeck signer check --all` checks the signers of these types."""
    return Content([SignerDriver(*each) for each in services.keys.bindings.items()])


@handles(CHECK_SIGNER)
async def check(services: Services, request: Request) -> Change:
    """The key system is asked before the transaction, which only saves the result."""
    name = request.identifier
    checked = await services.read(lambda store: check_results.find_signer(store.database.read, store.vault, name))
    found = await check_signer(services.keys, checked.signer)
    return lambda context: Content(check_report(check_results.settle(context, checked, found)[0]))
