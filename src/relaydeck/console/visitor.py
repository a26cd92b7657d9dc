"""Who is signed in."""

from typing import NamedTuple

from relaydeck.console.admin_calls import SessionCredential
from relaydeck.console.guard import form_token
from relaydeck.credentials.console_sessions import ConsoleSession
from relaydeck.secret import Secret


class Visitor(NamedTuple):
    """Who is signed in."""

    session: ConsoleSession
    secret: Secret
    credential: SessionCredential

    @classmethod
    def of(cls, session: ConsoleSession, secret: Secret) -> "Visitor":
        return cls(session, secret, SessionCredential(session))

    @property
    def name(self) -> str:
        return self.session.token_name

    @property
    def kind(self) -> str:
        return self.session.kind

    @property
    def may_change(self) -> bool:
        return self.credential.may_change

    @property
    def form_token(self) -> str:
        return form_token(self.secret)
