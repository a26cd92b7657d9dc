"""Requests to HashiCorp Vault, logged in by AppRole. A token that Vault refuses is dropped, and obtained once more."""

from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from relaydeck.secret import Secret
from relaydeck.signers.drivers.access_tokens import AccessToken, AccessTokens
from relaydeck.signers.drivers.driver_errors import AccessDenied, ConfigUnusable, KeyNotFound
from relaydeck.signers.drivers.interface import HttpAnswer, HttpClient
from relaydeck.signers.signer_types import SecretStoreConfig, TransitConfig
from relaydeck.web_addresses import header_value_problem, key_system_address_problem

VaultConfig = SecretStoreConfig | TransitConfig


class _Auth(msgspec.Struct):
    client_token: str
    lease_duration: int = 0
    renewable: bool = False


class _Login(msgspec.Struct):
    auth: _Auth


class _Problem(msgspec.Struct):
    errors: list[str] = []


class Place(NamedTuple):
    """Where a login is valid, and with what."""

    address: str
    namespace: str
    role_id: Secret
    secret_id: Secret


class VaultSession:
    def __init__(self, client: HttpClient, endpoint: str | None, clock: Callable[[], float]) -> None:
        self._client = client
        self._endpoint = endpoint
        self._tokens = AccessTokens(clock)

    def close(self) -> None:
        self._tokens.clear()

    async def read(self, config: VaultConfig, path: str) -> HttpAnswer:
        """A GET that Vault permits. Raises AccessDenied and KeyNotFound."""
        place = self._place(config)
        answer = await self._read_once(place, path)
        if answer.status == 403:  # the token may have been revoked, which looks the same as a missing permission
            answer = await self._read_once(place, path)
        if answer.status == 403:
            raise AccessDenied("Vault accepts the AppRole, but its policies do not permit reading the key")
        if answer.status == 404:
            raise KeyNotFound("Vault has no such key at this mount point")
        if answer.status != 200:
            raise AccessDenied(f"Vault refused the request with HTTP {answer.status}")
        return answer

    async def _read_once(self, place: Place, path: str) -> HttpAnswer:
        token = await self._tokens.get(place, lambda previous: self._obtain(place, previous))
        answer = await self._send(place, "GET", path, token=token.value)
        if answer.status == 403:
            self._tokens.drop(place, token)
        return answer

    async def _obtain(self, place: Place, previous: AccessToken | None) -> AccessToken:
        """Prolong the token we have; log in when there is none or Vault does not prolong it."""
        if previous is not None and previous.renewable:
            answer = await self._send(place, "POST", "auth/token/renew-self", token=previous.value, body={})
            if answer.status == 200 and (renewed := self._issued(answer)).renew_at > previous.renew_at:
                return renewed
        return await self._log_in(place)

    async def _log_in(self, place: Place) -> AccessToken:
        body = {"role_id": place.role_id.reveal(), "secret_id": place.secret_id.reveal()}
        answer = await self._send(place, "POST", "auth/approle/login", body=body)
        if answer.status != 200:
            raise _login_refusal(answer)
        return self._issued(answer)

    def _issued(self, answer: HttpAnswer) -> AccessToken:
        auth = answer.decode(_Login).auth
        return self._tokens.issued(auth.client_token, auth.lease_duration, renewable=auth.renewable)

    async def _send(
        self, place: Place, method: str, path: str, *, token: Secret | None = None, body: Any = None
    ) -> HttpAnswer:
        headers = {"X-Vault-Request": "true"}
        if token is not None:
            headers["X-Vault-Token"] = token.reveal()
        if place.namespace:
            headers["X-Vault-Namespace"] = place.namespace
        content = None if body is None else msgspec.json.encode(body)
        return await self._client.send(method, f"{place.address}/v1/{path}", headers, content)

    def _place(self, config: VaultConfig) -> Place:
        if self._endpoint is None and (problem := key_system_address_problem(config.address)):
            raise ConfigUnusable(f"config.address {problem}: nothing was sent there")
        if config.namespace and (problem := header_value_problem(config.namespace)):
            raise ConfigUnusable(f"config.namespace {problem}: nothing was sent")
        address = (self._endpoint or config.address).rstrip("/")
        return Place(address, config.namespace or "", config.role_id, config.secret_id)


def _login_refusal(answer: HttpAnswer) -> Exception:
    """Vault does not tell a wrong role_id from a wrong secret_id."""
    problem = answer.error(_Problem)
    if problem is not None and any("CIDR" in each for each in problem.errors):
        return AccessDenied(
            "Vault accepts this AppRole from other addresses only: see the CIDR restrictions of the role"
        )
    if answer.status == 400:
        return AccessDenied(
            "Vault does not accept the role_id with the secret_id: one of them is wrong, or the secret_id has expired"
            " or is used up"
        )
    if answer.status in (403, 404):
        return AccessDenied(
            "Vault permits no AppRole login: nothing is enabled at auth/approle, or not in this namespace"
        )
    return AccessDenied(f"Vault refused the AppRole login with HTTP {answer.status}")


def vault_path(text: str, field: str) -> str:
    """A path below `/v1/`, quoted. A path that climbs out of its place is refused."""
    parts = text.strip("/").split("/")
    if not text or any(part in ("", ".", "..") for part in parts):
        raise ConfigUnusable(f"config.{field} is not a path in Vault")
    return "/".join(quote(part, safe="") for part in parts)
