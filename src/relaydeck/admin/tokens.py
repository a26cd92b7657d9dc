"""Tokens: issued (shown once), listed, given a new secret, revoked. Who the caller is."""

from math import isinf

import msgspec

from relaydeck.admin.documents import Json
from relaydeck.admin.handling import Content, Request, Services, changes, handles
from relaydeck.admin.views import COLLECTIONS
from relaydeck.api.operations import CREATE_TOKEN, REVOKE_TOKEN, ROTATE_TOKEN, WHOAMI
from relaydeck.api.records import RotationRequest, TokenRequest, WhoAmI
from relaydeck.credential import Limits
from relaydeck.credentials.grants import Grant, Restrictions
from relaydeck.credentials.tokens import LIFETIMES, issue_new, lifetime_seconds, revoke, rotate
from relaydeck.errors import BadRequest, RecordNotFound
from relaydeck.roles import Role
from relaydeck.secret import Secret
from relaydeck.store.changes import ChangeContext
from relaydeck.timestamps import utc

_MACHINE = "whoever can use the machine and its master key may do everything"


@changes(CREATE_TOKEN)
def create_token(context: ChangeContext, _request: Request, new: TokenRequest) -> Content:
    seconds = _seconds("expires", new.expires) or None
    given = {name: getattr(new, name) for name in Restrictions.__struct_fields__}
    grant = Grant(role=new.kind, **given)
    if grant.problem:
        raise BadRequest(grant.problem)
    return Content(_shown(context, new.name, issue_new(context, new.name, grant, seconds, new.purpose or None)))


def _seconds(name: str, text: str | msgspec.UnsetType) -> int:
    """0 where nothing is given. Raises BadRequest."""
    seconds = 0 if text is msgspec.UNSET else lifetime_seconds(text)
    if seconds is None:
        raise BadRequest(f"{name} must be {LIFETIMES}")
    return seconds


@changes(ROTATE_TOKEN)
def rotate_token(context: ChangeContext, request: Request, asked: RotationRequest) -> Content:
    rotated = rotate(context, request.identifier, _seconds("overlap", asked.overlap))
    if rotated is None:
        raise RecordNotFound("token")
    token, old_name = rotated
    return Content(_shown(context, request.identifier, token) | {"old_name": old_name or None})


@changes(REVOKE_TOKEN)
def revoke_token(context: ChangeContext, request: Request, _body: None) -> Content:
    revoked = revoke(context, request.identifier)
    if not revoked:
        raise RecordNotFound("token")
    old = [each for each in revoked if each != request.identifier]
    return Content(None, notes=tuple(f"also revoked: {each}, which still worked since a rotation" for each in old))


def _shown(context: ChangeContext, name: str, token: Secret) -> Json:
    where = "name = :name AND revoked_at IS NULL"
    collection = COLLECTIONS["tokens"]
    row = context.transaction.all(
        f"SELECT {collection.columns} FROM tokens WHERE {where}", {"name": name, "now": context.now}
    )[0]
    return {**collection.show(row, context.vault).data, "token": token.reveal()}


@handles(WHOAMI)
async def whoami(services: Services, request: Request) -> Content:
    sender = request.sender
    if sender is None:
        actor, granted = services.local_actor, tuple(sorted(Role.OWNER.permissions))
        return Content(
            WhoAmI(actor=actor, role=Role.OWNER, permissions=granted, rule=_MACHINE, expires_at=None, approve=True)
        )
    limits = sender.limits or Limits()
    identity = WhoAmI(
        actor=sender.actor,
        role=sender.role,
        permissions=tuple(sorted(sender.permissions)),
        rule=sender.rule,
        expires_at=utc(None if isinf(sender.expires_at) else int(sender.expires_at)),
        scope=sender.scope,
        addresses=tuple(map(str, limits.addresses)),
        rate=limits.rate,
        burst=limits.burst,
        approve="approve" in sender.permissions,
    )
    return Content(identity)
