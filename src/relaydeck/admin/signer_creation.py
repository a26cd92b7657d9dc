"""`POST /admin/v1/signers`: the config of a signer depends on its type."""

import msgspec

from relaydeck.admin.bodies import SignerRequest
from relaydeck.admin.operation import Content, Operations, RepeatableChange, Request, record_content
from relaydeck.admin.signer_commands import create_signer
from relaydeck.admin.signer_request import read_signer
from relaydeck.errors import BadRequest
from relaydeck.http.decoding import reason_of
from relaydeck.store.change_context import ChangeContext


def signer_creation() -> Operations:
    return {"signers": {"POST": _create}}


async def _create(request: Request) -> RepeatableChange:
    try:
        new = read_signer(request.decode(SignerRequest))
    except msgspec.ValidationError as error:
        raise BadRequest(reason_of(error).replace("$", "$.config")) from None

    def work(context: ChangeContext) -> Content:
        return record_content(create_signer(context, new), 201)

    return RepeatableChange("signers.create", work)
