"""The addresses of signers, for a plan: derived from the config where that is enough, else as a driver answered.

Drivers are asked ahead of a change, never inside a transaction: a key system may take its time.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from relaydeck.signers.addresses import derived_address
from relaydeck.signers.drivers.driver_errors import DriverError
from relaydeck.signers.key_access import KeyAccess
from relaydeck.signers.signer_types import Config, NewSigner

if TYPE_CHECKING:
    from relaydeck.signers.drivers.keys import SignerKeys


class KeyQuestion(NamedTuple):
    signer_type: str
    config: Config
    set_locally: bool | None = None  # None: by whoever asks


class KeyAnswer(NamedTuple):
    """An address, or the problem that kept the driver from finding it."""

    address: str = ""
    problem: str = ""


Questions = Mapping[str, KeyQuestion]  # by the id of the signer
Answers = Mapping[str, KeyAnswer]
_NOT_ASKED = KeyAnswer(problem="the signer changed while its key system was asked: try again")


class KnownAddresses:
    """A plan looks addresses up here and never asks a driver itself: it may be made inside a transaction.

    With `answers` of None it collects in `questions` what drivers have to be asked, for a plan that is not applied.
    """

    def __init__(self, bound_types: frozenset[str] = frozenset(), answers: Answers | None = None) -> None:
        self.asked_types = bound_types - {"plain"}  # a local key needs no driver to tell its address
        self._answers = answers
        self.questions: dict[str, KeyQuestion] = {}

    def find(self, signer: NewSigner) -> KeyAnswer:
        """Both parts are empty when the config does not tell the address, and no driver is bound to its type."""
        if signer.type not in self.asked_types:
            return KeyAnswer(derived_address(signer.config))
        if self._answers is None:
            self.questions[signer.id] = KeyQuestion(signer.type, signer.config, signer.set_locally)
            return KeyAnswer()
        return self._answers.get(signer.id, _NOT_ASKED)


class KeySource(NamedTuple):
    """The signer types that have a driver, and how to ask the drivers for addresses."""

    bound_types: frozenset[str] = frozenset()
    ask: Callable[[Questions], Answers] = lambda questions: {}

    def addresses(self, questions: Questions) -> KnownAddresses:
        return KnownAddresses(self.bound_types, self.ask(questions))


async def find_addresses(access: KeyAccess, questions: Questions) -> KnownAddresses:
    answers = await ask_keys(await access.keys(), questions) if questions else {}
    return KnownAddresses(access.bound_types, answers)


async def ask_keys(keys: "SignerKeys", questions: Questions, *, locally: bool = False) -> Answers:
    """`locally`: for a command on the server's machine."""
    answers = await asyncio.gather(*(_ask(keys, each, locally=locally) for each in questions.values()))
    return dict(zip(questions, answers, strict=True))


async def _ask(keys: "SignerKeys", question: KeyQuestion, *, locally: bool) -> KeyAnswer:
    local = locally if question.set_locally is None else question.set_locally
    try:
        return KeyAnswer((await keys.identify(question.signer_type, question.config, set_locally=local)).address)
    except DriverError as error:
        return KeyAnswer(problem=str(error))
