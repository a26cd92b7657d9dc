"""Protection of forms: the same origin, a token bound to the session, and a limit on failed attempts to sign in."""

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from relaydeck.console.request import Fields
from relaydeck.errors import Forbidden, TooManyRequests
from relaydeck.http.pipeline import Call
from relaydeck.http.request import ClientAddress
from relaydeck.secret import Secret

_MOST_FAILURES, _FAILURE_SECONDS = 10, 60.0
_MOST_OPENED, _OPENED_SECONDS = 200, 3600.0
_MOST_KEPT = 8192


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


def require_form_token(form: Fields, session: Secret) -> None:
    """Refuse a form of another session. Raises Forbidden."""
    given = dict(form).get("form_token", "")
    if not hmac.compare_digest(form_token(session).encode(), given.encode()):
        raise Forbidden("the form does not belong to this session: load the page again")


def form_token(session: Secret) -> str:
    """The token that every form of a session contains."""
    return hmac.new(session.reveal().encode(), b"relaydeck console form", hashlib.sha256).hexdigest()


class SignInLimits:
    """Refuses guesses after ten failures a minute of one address, or with one token or code, in one worker.

    Only failures are refused: what is valid signs in, however often others failed. Many people may share an address,
    such as that of a proxy, and none of them can lock out the others. One token or person signs in 200 times an hour,
    because the audit log keeps an entry of each.
    """

    def __init__(self, clients: ClientAddress, now: Callable[[], float]) -> None:
        self._clients = clients
        self._now = now
        self._counts: OrderedDict[str | bytes, tuple[float, int]] = OrderedDict()  # when a period began, and how many

    def opened(self, who: bytes) -> int:
        """Count a sign-in of a token or a person. Return after how many seconds it may be made; 0: at once."""
        return self._count(b"opened " + who, _MOST_OPENED, _OPENED_SECONDS)

    def failed(self, call: Call, tried: Secret) -> None:
        """Raises TooManyRequests."""
        address = self._clients.address_of(call.peer, call.headers.get(b"x-forwarded-for"))
        keys = (address, hashlib.sha256(tried.reveal().encode()).digest())
        waits = [self._count(key, _MOST_FAILURES, _FAILURE_SECONDS) for key in keys]
        if max(waits):
            raise TooManyRequests(max(waits))

    def _count(self, key: str | bytes, most: int, seconds: float) -> int:
        """Return after how many seconds another one is allowed; 0: this one is."""
        now = self._now()
        began, count = self._counts.pop(key, (0.0, 0))
        if now - began >= seconds:
            began, count = now, 0
        self._counts[key] = (began, count + 1)
        if len(self._counts) > _MOST_KEPT:
            self._counts.popitem(last=False)
        return max(1, round(began + seconds - now)) if count >= most else 0
