"""Plans a file, inside one snapshot or one transaction."""

from typing import NamedTuple

from relaydeck.errors import MistakenDocument
from relaydeck.provisioning.file import ReadFile
from relaydeck.provisioning.mistakes import MOST_MISTAKES
from relaydeck.provisioning.plan import Plan
from relaydeck.provisioning.plan_revision import plan_revision, require_same
from relaydeck.provisioning.planner import key_questions, make_plan
from relaydeck.provisioning.stored import Stored
from relaydeck.provisioning.url_rules import NO_RULES, UrlRules
from relaydeck.signers.known_addresses import KnownAddresses, Questions
from relaydeck.store.database import ReadRows
from relaydeck.store.vault import Vault


class FilePlanner(NamedTuple):
    file: ReadFile
    prune: bool
    urls: UrlRules = NO_RULES

    def questions(self, read: ReadRows, vault: Vault, bound_types: frozenset[str]) -> Questions:
        """What drivers have to be asked before `plan`."""
        return key_questions(self.file.declared, Stored(read, vault), bound_types)

    def plan(self, read: ReadRows, vault: Vault, addresses: KnownAddresses) -> Plan:
        """With every mistake of the file."""
        plan = make_plan(self.file.declared, Stored(read, vault), addresses, prune=self.prune, urls=self.urls)
        plan.mistakes = self.file.mistakes + plan.mistakes
        if not plan.mistakes:
            plan.revision = plan_revision(plan, read, vault.plan_key, prune=self.prune)
        return plan

    def reviewed_plan(self, read: ReadRows, vault: Vault, addresses: KnownAddresses, expected: str) -> Plan:
        """Raises MistakenDocument, or PlanChanged when the plan is not the one with the expected revision."""
        plan = self.sound_plan(read, vault, addresses)
        require_same(plan, expected, read, vault.plan_key)
        return plan

    def forget(self) -> None:
        """Free the records one by one: to free many at once would stop all other threads."""
        for kept in (self.file.declared.records, self.file.declared.mentions):
            while kept:
                kept.pop()

    def sound_plan(self, read: ReadRows, vault: Vault, addresses: KnownAddresses) -> Plan:
        """Raises MistakenDocument."""
        plan = self.plan(read, vault, addresses)
        if plan.mistakes:
            raise MistakenDocument([each._asdict() for each in plan.mistakes[: MOST_MISTAKES + 1]])
        return plan
