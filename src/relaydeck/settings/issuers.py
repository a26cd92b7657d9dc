"""The issuers that the operator trusts, as the table `issuers` of the settings file describes them.

An issuer vouches for workloads, whose JSON Web Tokens are bearer credentials, or for people, who sign in to the console
with OpenID Connect. Its rules say who gets which role, and for which records: the first one whose claims all match
decides.
"""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from relaydeck.roles import ROLE_NAMES, permissions_of
from relaydeck.scope import Scope
from relaydeck.settings import values
from relaydeck.web_addresses import is_loopback, web_address_problem

ASYMMETRIC = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
MOST_ISSUERS, MOST_RULES, MOST_SKEW = 16, 100, 300
CALLBACK = "/console/sso/callback"
Claim = str | bool | int


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    claims: dict[str, Claim]
    role: str
    scope: Scope | None = None  # the records that it is limited to; None: every record

    def __post_init__(self) -> None:
        _require(bool(self.claims), "claims must name at least one claim")
        _require(self.role in ROLE_NAMES, f"role must be one of {', '.join(ROLE_NAMES)}")
        if self.scope is not None:
            _require(not self.scope.problem, f"scope {self.scope.problem}")
            decides = "own" in permissions_of(self.role)
            _require(not decides, "scope cannot limit an owner, who decides what others may do: use the role editor")
        patterns = [each for each in self.claims.values() if isinstance(each, str)]
        _require(all("*" not in each[:-1] for each in patterns), "a claim may have * only at its end")
        _require("*" not in patterns, "a claim of * alone says nothing: name a beginning")

    def matches(self, claims: dict[str, Any]) -> bool:
        return all(_matches(claims.get(name), wanted) for name, wanted in self.claims.items())

    def __str__(self) -> str:
        return ", ".join(f"{name} = {wanted}" for name, wanted in self.claims.items())


def _matches(found: Any, wanted: Claim) -> bool:
    """Equal, or a member of a list; a wanted text that ends with `*` is a beginning. `1` is not `true`."""
    if isinstance(found, list):
        return any(_matches(each, wanted) for each in found if not isinstance(each, list))
    if isinstance(wanted, str) and wanted.endswith("*"):
        return isinstance(found, str) and found.startswith(wanted[:-1])
    return type(found) is type(wanted) and bool(found == wanted)


class Issuer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str  # in the audit log and on the button of the console
    url: str
    audience: tuple[str, ...] = ()  # of tokens of workloads
    client_id: str = ""  # of Relaydeck at the provider, for people
    client_secret_file: str = ""
    redirect_uri: str = ""  # of the console, exactly as the provider knows it
    scopes: tuple[str, ...] = ("openid", "email", "profile", "offline_access")
    person: str = "email"  # the claim that names a person
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    clock_skew_seconds: int = 30
    jwks_uri: str = ""  # empty: as the issuer's discovery document says
    ca_file: str = ""
    allow: tuple[str, ...] = ()  # addresses where it may be although they are not public
    rules: tuple[Rule, ...] = ()

    def __post_init__(self) -> None:
        _require(
            self.name.isascii() and self.name.replace("-", "").isalnum() and len(self.name) < 64,
            "name must be letters, digits and hyphens",
        )
        for each in filter(None, (self.url, self.jwks_uri, self.redirect_uri)):
            _require(is_safe_url(each), f"{each} must be an https URL without query (http: only on this machine)")
        _require(
            bool(self.audience) != bool(self.client_id), "needs an audience for workloads, or a client_id for people"
        )
        _require(not self.client_id or self.redirect_uri.endswith(CALLBACK), f"redirect_uri must end with {CALLBACK}")
        unknown = [each for each in self.algorithms if each not in ASYMMETRIC]
        _require(not unknown and bool(self.algorithms), f"algorithms must be of {', '.join(ASYMMETRIC)}")
        _require(0 <= self.clock_skew_seconds <= MOST_SKEW, f"clock_skew_seconds must be 0 to {MOST_SKEW}")
        _require(0 < len(self.rules) <= MOST_RULES, f"needs 1 to {MOST_RULES} rules")
        values.address_ranges(",".join(self.allow))

    @property
    def is_for_people(self) -> bool:
        return bool(self.client_id)

    @property
    def client_secret_path(self) -> Path:
        return Path(self.client_secret_file)

    @property
    def allowed(self) -> tuple[values.AddressRange, ...]:
        return values.address_ranges(",".join(self.allow))

    @property
    def authorities(self) -> Path | None:
        return Path(self.ca_file) if self.ca_file else None

    def rule_for(self, claims: dict[str, Any]) -> Rule | None:
        """The first that matches. With some providers, people may claim any e-mail address that was not verified."""
        known = claims if has_verified_email(claims) else {**claims, "email": None}
        return next((rule for rule in self.rules if rule.matches(known)), None)


def has_verified_email(claims: dict[str, Any]) -> bool:
    return claims.get("email_verified") in (True, "true")  # some send it as text


def issuers(text: str) -> tuple[Issuer, ...]:
    """From JSON, as the environment has it; the settings file has tables. Raises ValueError."""
    try:
        found = msgspec.json.decode(text, type=tuple[Issuer, ...])
    except msgspec.DecodeError as problem:
        raise ValueError(f"issuers as docs/settings.md describes them: {problem}") from None
    _require(len(found) <= MOST_ISSUERS, f"at most {MOST_ISSUERS} issuers")
    _require(len({each.name for each in found}) == len(found), "issuers with different names")
    machines = [each.url for each in found if not each.is_for_people]
    _require(len(set(machines)) == len(machines), "issuers of workloads with different URLs")
    return found


def is_safe_url(url: str) -> bool:
    """Whether it is https, or on this machine, and a query may be added."""
    if web_address_problem(url) or urlsplit(url).query or urlsplit(url).username:
        return False
    return url.startswith("https://") or is_loopback(urlsplit(url).hostname or "")


def _require(holds: bool, expected: str) -> None:
    if not holds:
        raise ValueError(expected)
