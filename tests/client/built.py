"""The calls that the client's methods build, without a connection to run them."""

from typing import Any

from relaydeck.client.admin import AdminOperations
from relaydeck.client.calls import Call
from relaydeck.client.clients import ContractOperations


class Builds:
    def _run(self, call: Call[Any]) -> Call[Any]:
        return call


class BuiltContract(Builds, ContractOperations):
    pass


class BuiltAdmin(Builds, AdminOperations):
    pass


contract: Any = BuiltContract()
admin: Any = BuiltAdmin()
