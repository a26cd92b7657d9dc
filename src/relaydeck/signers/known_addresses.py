"""The addresses of signers, for a plan: derived from the config where that is enough, else as a driver answered.

Drivers are asked ahead of a change, never inside a transaction: a key system may take its time.
"""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from relaydeck.networks.evm.address import address_of_private_key, checksummed, is_evm_address
from relaydeck.signers.drivers.driver_errors import DriverError
from relaydeck.signers.drivers.keys import SignerKeys
from relaydeck.signers.signer_types import Config, LocalConfig, NewSigner, WalletServiceConfig, is_private_key


def derived_address(config: Config) -> str:
    """The address that the signer signs for; empty when the config alone does not determine it."""
    match config:
        case LocalConfig(key=key) if is_private_key(key.reveal()):
            return address_of_private_key(bytes.fromhex(key.reveal().removeprefix("0x")))
        case WalletServiceConfig(account_address=address) if is_evm_address(address):
            return checksummed(address)
    return ""


class KeyAnswer(NamedTuple):
    """An address, or the problem that kept the driver from finding it."""

    address: str = ""
    problem: str = ""


Questions = Mapping[str, NewSigner]  # by id; those that are not stored are set by whoever asks
Answers = Mapping[str, KeyAnswer]
_NOT_ASKED = KeyAnswer(problem="the signer changed while its key system was asked: try again")


class KnownAddresses:
    """A plan looks addresses up here and never asks a driver itself: it may be made inside a transaction.

    With `answers` of None it collects in `questions` what drivers have to be asked, for a plan that is not applied.
    """

    def __init__(self, bound_types: frozenset[str] = frozenset(), answers: Answers | None = None) -> None:
        self.asked_types = bound_types - {"plain"}  # a local key needs no driver to tell its address
        self._answers = answers
        self.questions: dict[str, NewSigner] = {}

    def find(self, signer: NewSigner) -> KeyAnswer:
        """Both parts are empty when the config does not tell the address, and no driver is bound to its type."""
        if signer.type not in self.asked_types:
            return KeyAnswer(derived_address(signer.config))
        if self._answers is None:
            self.questions[signer.id] = signer
            return KeyAnswer()
        return self._answers.get(signer.id, _NOT_ASKED)


async def find_addresses(keys: SignerKeys, questions: Questions, *, locally: bool = False) -> KnownAddresses:
    """`locally`: for a command on the server's machine."""
    answers = await asyncio.gather(*(_ask(keys, each, locally=locally) for each in questions.values()))
    return KnownAddresses(keys.bound_types, dict(zip(questions, answers, strict=True)))


async def _ask(keys: SignerKeys, signer: NewSigner, *, locally: bool) -> KeyAnswer:
    local = locally if signer.set_locally is None else signer.set_locally
    try:
        return KeyAnswer((await keys.identify(signer.type, signer.config, set_locally=local)).address)
    except DriverError as error:
        return KeyAnswer(problem=str(error))
