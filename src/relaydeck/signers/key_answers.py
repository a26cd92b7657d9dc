"""Which address a signer's key has, asked ahead of a change: a driver is never asked inside a transaction."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from relaydeck.signers.drivers.errors import DriverError
from relaydeck.signers.signer_types import Config

if TYPE_CHECKING:
    from relaydeck.signers.drivers.keys import SignerKeys


class KeyQuestion(NamedTuple):
    signer_type: str
    config: Config


class KeyAnswer(NamedTuple):
    """An address, or the problem that kept the driver from finding it."""

    address: str = ""
    problem: str = ""


Questions = Mapping[str, KeyQuestion]  # by the id of the signer
Answers = Mapping[str, KeyAnswer]


async def ask_keys(keys: "SignerKeys", questions: Questions) -> Answers:
    answers = await asyncio.gather(*(_ask(keys, each) for each in questions.values()))
    return dict(zip(questions, answers, strict=True))


async def _ask(keys: "SignerKeys", question: KeyQuestion) -> KeyAnswer:
    try:
        return KeyAnswer((await keys.identify(question.signer_type, question.config)).address)
    except DriverError as error:
        return KeyAnswer(problem=str(error))
