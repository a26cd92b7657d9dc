"""Every body of the described interface. Requests are checked while they are decoded.

A relayer, a notification and the parts of an envelope are declared where they belong; signer requests are derived
from the types of signers. The OpenAPI document is derived from all of them.
"""

from typing import Annotated, Any, Literal, Union

import msgspec
from msgspec import UNSET, UnsetType

from relaydeck import basis
from relaydeck.basis import contract, shown
from relaydeck.fields import field
from relaydeck.identifiers import Identifier
from relaydeck.notifications.model import NotificationType
from relaydeck.secret import Secret
from relaydeck.signers.signer_types import SHAPES, Config
from relaydeck.web_addresses import WebAddress

_RPC = shown("4.5")

# Requests: unknown fields are refused, null is refused unless a type names it.


class _SignerRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", kw_only=True):
    id: Annotated[
        Identifier | UnsetType,
        field(
            "Your identifier for the signer. Left out, a UUID is generated.",
            basis=shown("2.2").but(value=basis.IDENTIFIER_FORM),
            example="ops",
        ),
    ] = UNSET


# sentence: 4.1-required 2.2-types
def _signer_request(signer_type: str, shape: type[Config]) -> type[msgspec.Struct]:
    name = "".join(word.capitalize() for word in signer_type.split("_"))
    config = field("The config that the type requires. Its secrets are never returned.", basis=shown("2.2"))
    return msgspec.defstruct(
        f"{name}SignerRequest",
        [("config", Annotated[shape, config])],
        bases=(_SignerRequest,),
        tag=signer_type,
        frozen=True,
        kw_only=True,
    )


SIGNER_REQUESTS = {signer_type: _signer_request(signer_type, shape) for signer_type, shape in SHAPES.items()}
SignerRequest: Any = Union[tuple(SIGNER_REQUESTS.values())]  # noqa: UP007 (built at run time)


# sentence: 4.3-empty 4.3-bad-request 2.3-type
class NotificationUpdate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to change. Every field may be left out; an empty object changes nothing."""

    type: Annotated[
        NotificationType | UnsetType,
        field("The only type there is.", basis=shown("4.3").but(value=contract("2.3")), example="webhook"),
    ] = UNSET
    url: Annotated[
        WebAddress | UnsetType,
        field(
            "Where events are sent: an absolute http(s) URL with a host.",
            basis=shown("4.3").but(value=basis.URL_FORM),
            example="https://hooks.example.com/relaydeck",
        ),
    ] = UNSET
    signing_key: Annotated[
        Secret | UnsetType | None,
        field(
            "Left out or null: the key stays as it is. Empty: it is removed. Anything else becomes the key.",
            basis=shown("4.3").but(value=basis.FIELD_LENGTH),
            example="a new signing key",
            write_only=True,
        ),
    ] = UNSET


# sentence: 4.5-request 4.5-id-optional
class RpcRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One JSON-RPC 2.0 request. Batches and further members are refused."""

    # `params` and `id` stay as they were sent: the method decodes the one, the response repeats the other.
    jsonrpc: Annotated[
        Literal["2.0"], field("The protocol version.", basis=_RPC.but(value=basis.RPC_VERSION), example="2.0")
    ]
    method: Annotated[
        str,
        field(
            "`feeEstimate` is the one described method; any other returns error -32601.",
            basis=_RPC.but(value=contract("4.5") + basis.RPC_METHODS),
            example="feeEstimate",
        ),
    ]
    params: Annotated[
        msgspec.Raw,
        field("The parameters of the method: for `feeEstimate`, a FeeEstimateParams.", basis=_RPC, example={}),
    ]
    id: Annotated[
        msgspec.Raw,
        field(
            "String, number, null or left out. The response has it as a string.",
            basis=_RPC.but(type=contract("4.5") + basis.RPC_IDS, meaning=basis.RPC_IDS),
            example=1,
        ),
    ] = msgspec.Raw(b"null")


# Responses.


# sentence: 2.2-signer 2.2-response-config 3-no-state
class Signer(msgspec.Struct, frozen=True):
    id: Annotated[str, field("Identifier.", basis=shown("2.2").but(value=basis.IDENTIFIER_FORM), example="ops")]
    type: Annotated[
        str,
        field(
            "`plain` is shown as `local`; every other type as the request named it.",
            basis=shown("2.2").but(value=basis.OTHER_TYPES),
            example="provider_c",
        ),
    ]
    config: Annotated[
        dict[str, str],
        field(
            "The open part of the config. It never holds a secret.",
            basis=shown("2.2").but(value=basis.OTHER_CONFIGS),
            example={"address": "https://secrets.example.com", "key_name": "ops"},
        ),
    ]


# sentence: 4.5-result
class FeeEstimateResult(msgspec.Struct, frozen=True, kw_only=True):
    conversion_rate: Annotated[
        str,
        field(
            "Fee-token units for one native coin, as a plain decimal; `1` for the native one.",
            basis=_RPC.but(value=basis.FEE_MEANING, meaning=basis.FEE_MEANING),
            example="1",
        ),
    ]
    estimated_fee: Annotated[
        str,
        field(
            "The fee in fee-token units, as a plain decimal, rounded up.",
            basis=_RPC.but(value=basis.FEE_MEANING, meaning=basis.FEE_MEANING),
            example="0.000042000000000021",
        ),
    ]
    method: Annotated[
        Literal["feeEstimate"],
        field("The name of the method.", basis=_RPC.but(value=contract("4.5")), example="feeEstimate"),
    ] = "feeEstimate"


# sentence: 4.5-error
class RpcError(msgspec.Struct, frozen=True):
    """Why a method failed."""

    code: Annotated[
        int,
        field(
            "One of the codes listed here.",
            basis=_RPC.but(value=basis.RPC_CODES, meaning=basis.RPC_CODES),
            example=-32601,
        ),
    ]
    message: Annotated[
        str, field("One fixed phrase per code.", basis=_RPC.but(value=basis.RPC_CODES), example="Method not found")
    ]
    description: Annotated[
        str, field("What exactly went wrong.", basis=_RPC, example="feeEstimate is the only method.")
    ]


# sentence: 4.5-response
class RpcResponse(msgspec.Struct, frozen=True, kw_only=True):
    """One JSON-RPC 2.0 response, with exactly one of `result` and `error`."""

    jsonrpc: Annotated[
        Literal["2.0"], field("The protocol version.", basis=_RPC.but(value=basis.RPC_VERSION), example="2.0")
    ] = "2.0"
    id: Annotated[
        str | None,
        field(
            "The request's id as a string, a number as the text that was sent; null when there was none.",
            basis=_RPC.but(type=contract("4.5") + basis.RPC_IDS, value=basis.RPC_IDS, meaning=basis.RPC_IDS),
            example="1",
        ),
    ]
    result: Annotated[
        FeeEstimateResult | UnsetType,
        field(
            "The result of the method. Present exactly when `error` is not.", basis=_RPC.but(presence=basis.FAILURES)
        ),
    ] = UNSET
    error: Annotated[
        RpcError | UnsetType,
        field("Why there is no result. Present exactly when `result` is not.", basis=_RPC.but(presence=basis.FAILURES)),
    ] = UNSET
