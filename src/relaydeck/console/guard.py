"""Protection of forms: the same origin, a token bound to the session, and a limit on attempts to sign in."""

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from relaydeck.console.request import form_fields
from relaydeck.errors import Forbidden, TooManyRequests
from relaydeck.http.clients import ClientAddress
from relaydeck.http.pipeline import Call
from relaydeck.secret import Secret
from relaydeck.setting_values import AddressRange

_MOST_ATTEMPTS = 10
_PERIOD_SECONDS = 60.0
_MOST_CLIENTS = 4096


def require_same_origin(headers: Mapping[bytes, bytes]) -> None:
    """Refuse a form that another site sent. Raises Forbidden."""
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        if site != b"same-origin":
            raise Forbidden("the form comes from another site")
        return
    # Browsers leave Sec-Fetch-Site out over plain HTTP, and always send Origin with a form.
    origin = urlsplit(headers.get(b"origin", b"").decode("latin-1"))
    if not origin.netloc or origin.netloc.lower() != headers.get(b"host", b"").decode("latin-1").lower():
        raise Forbidden("the form comes from another site")


def require_form(call: Call, session: Secret) -> None:
    """Refuse a form of another site or another session. Raises Forbidden, BadRequest."""
    require_same_origin(call.headers)
    given = dict(form_fields(call)).get("form_token", "")
    if not hmac.compare_digest(form_token(session).encode(), given.encode()):
        raise Forbidden("the form does not belong to this session: load the page again")


def form_token(session: Secret) -> str:
    """The token that every form of a session contains."""
    return hmac.new(session.reveal().encode(), b"relaydeck console form", hashlib.sha256).hexdigest()


class SignInLimit:
    """Ten failed attempts a minute for each client address, in one worker."""

    def __init__(self, trusted_proxies: tuple[AddressRange, ...], now: Callable[[], float]) -> None:
        self._clients = ClientAddress(trusted_proxies)
        self._now = now
        self._attempts: OrderedDict[str, tuple[float, int]] = OrderedDict()  # when a period began, attempts in it

    def forgive(self, call: Call) -> None:
        """An attempt succeeded: the failures of its client are forgotten."""
        self._attempts.pop(self._client(call), None)

    def take(self, call: Call) -> None:
        """Count an attempt, which fails unless it is forgiven. Raises TooManyRequests."""
        client = self._client(call)
        began, count = self._attempts.pop(client, (0.0, 0))
        if self._now() - began >= _PERIOD_SECONDS:
            began, count = self._now(), 0
        self._attempts[client] = (began, count + 1)
        if len(self._attempts) > _MOST_CLIENTS:
            self._attempts.popitem(last=False)
        if count >= _MOST_ATTEMPTS:
            raise TooManyRequests(max(1, round(began + _PERIOD_SECONDS - self._now())))

    def _client(self, call: Call) -> str:
        return self._clients.address_of(call.peer, call.headers.get(b"x-forwarded-for"))
