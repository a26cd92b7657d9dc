"""Reads the request for a new signer: the fields of its config depend on its type."""

import msgspec

from relaydeck.admin.bodies import SignerRequest
from relaydeck.admin.documents import Json
from relaydeck.errors import BadRequest
from relaydeck.http.decoding import reason_of
from relaydeck.secret import decode_secret
from relaydeck.signers.signer_types import SHAPES, NewSigner, new_signer


def read_signer(request: SignerRequest) -> NewSigner:
    """Raises BadRequest, or msgspec's ValidationError for a config that does not fit the type."""
    shape = SHAPES.get(request.type)
    if shape is None:
        raise BadRequest(f"type must be one of {', '.join(SHAPES)}")
    config = msgspec.json.decode(request.config, type=shape, dec_hook=decode_secret)
    return new_signer(request.type, config, request.id)


def read_signer_document(document: Json) -> NewSigner:
    """Raises BadRequest."""
    try:
        return read_signer(msgspec.json.decode(msgspec.json.encode(document), type=SignerRequest))
    except msgspec.ValidationError as error:
        raise BadRequest(reason_of(error)) from None
