"""The addresses of signers, for a plan: derived from the config where that is enough, else as a driver answered."""

from relaydeck.signers.addresses import derived_address
from relaydeck.signers.key_answers import Answers, KeyAnswer, KeyQuestion
from relaydeck.signers.signer_types import NewSigner

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
            self.questions[signer.id] = KeyQuestion(signer.type, signer.config)
            return KeyAnswer()
        return self._answers.get(signer.id, _NOT_ASKED)
