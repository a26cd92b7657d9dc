"""The signer's own key: there is no system, and nothing that could misbehave."""

from typing import ClassVar

from aiohttp import web

from relaydeck.secret import Secret
from relaydeck.signers.signer_types import Config, LocalConfig
from tests.signers.drivers.system import KeySystem


class LocalKey(KeySystem):
    signer_type: ClassVar[str] = "plain"
    driver: ClassVar[str] = "local"

    def config(self) -> Config:
        return LocalConfig(key=Secret("0x" + self.key.secret))

    def unknown_key(self) -> Config:
        raise NotImplementedError("a local key refers to nothing")

    def key_of_another_kind(self) -> Config:
        return LocalConfig(key=Secret("this is no key: " + self.key.secret))

    async def revoke_access(self) -> None:
        raise NotImplementedError("a local key needs no access")

    async def restore_access(self) -> None:
        raise NotImplementedError("a local key needs no access")

    def secrets(self) -> list[str]:
        return [self.key.secret]

    def throttled(self) -> web.Response:
        raise NotImplementedError("nobody throttles a local key")

    async def answer(self, request: web.BaseRequest, body: bytes) -> web.Response:
        raise AssertionError("the local driver sends nothing")
