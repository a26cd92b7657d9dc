"""Requests of drivers to HashiCorp Vault, logged in by AppRole."""

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from relaydeck.secret import Secret
from relaydeck.signers.drivers.driver_errors import AccessDenied, ConfigUnusable, KeyNotFound, WrongKeyKind
from relaydeck.signers.drivers.http_client import AccessToken, HttpDriver
from relaydeck.signers.drivers.interface import HttpAnswer
from relaydeck.signers.signer_types import SecretStoreConfig, TransitConfig
from relaydeck.web_addresses import header_value_problem, key_system_address_problem

VaultConfig = SecretStoreConfig | TransitConfig


class Place(NamedTuple):
    """Where a login is valid, and with what."""

    address: str
    namespace: str
    role_id: Secret
    secret_id: Secret


_NO_LOGIN = "Vault permits no AppRole login: nothing is enabled at auth/approle, or not in this namespace"
_LOGIN_REFUSALS = {
    400: (
        "Vault does not accept the role_id with the secret_id: one of them is wrong, or the secret_id has expired"
        " or is used up"
    ),
    403: _NO_LOGIN,
    404: _NO_LOGIN,
}


class VaultDriver(HttpDriver):
    async def _read(self, config: VaultConfig, path: str, body: Mapping[str, str] | None = None) -> HttpAnswer:
        """A GET, or a POST with a body, that Vault permits. Raises AccessDenied and KeyNotFound."""
        method = "GET" if body is None else "POST"
        place = self._place(config)
        answer = await self._tokens.send(
            place,
            lambda previous: self._obtain(place, previous),
            lambda token: self._send(place, method, path, token=token, body=body),
            revoked=403,  # which looks the same as a missing permission
        )
        if answer.status == 403:
            raise AccessDenied("Vault accepts the AppRole, but its policies do not permit this use of the key")
        if answer.status == 404:
            raise KeyNotFound("Vault has no such key at this mount point")
        if answer.status == 400 and body is not None:
            raise WrongKeyKind("Vault has no such key, or it cannot encrypt, or another key wrapped the master key")
        if answer.status != 200:
            raise AccessDenied(f"Vault refused the request with HTTP {answer.status}")
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
        lifetime, renewable = answer.find("auth.lease_duration", 0), answer.find("auth.renewable", False)
        return self._tokens.issued(answer.get("auth.client_token", str), lifetime, renewable=renewable)

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
        if not self._endpoint and (problem := key_system_address_problem(config.address)):
            raise ConfigUnusable(f"config.address {problem}: nothing was sent there")
        if config.namespace and (problem := header_value_problem(config.namespace)):
            raise ConfigUnusable(f"config.namespace {problem}: nothing was sent")
        address = (self._endpoint or config.address).rstrip("/")
        return Place(address, config.namespace or "", config.role_id, config.secret_id)


def _login_refusal(answer: HttpAnswer) -> Exception:
    """Vault does not tell a wrong role_id from a wrong secret_id."""
    problems: list[object] = answer.find("errors", [])
    if any("CIDR" in str(each) for each in problems):
        return AccessDenied(
            "Vault accepts this AppRole from other addresses only: see the CIDR restrictions of the role"
        )
    refused = f"Vault refused the AppRole login with HTTP {answer.status}"
    return AccessDenied(_LOGIN_REFUSALS.get(answer.status, refused))


def vault_path(text: str, field: str) -> str:
    """A path below `/v1/`, quoted. A path that climbs out of its place is refused."""
    parts = text.strip("/").split("/")
    if not text or any(part in ("", ".", "..") for part in parts):
        raise ConfigUnusable(f"config.{field} is not a path in Vault")
    return "/".join(quote(part, safe="") for part in parts)
