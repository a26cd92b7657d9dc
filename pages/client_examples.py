"""`docs/reference/client.md`: an example of each method of `client.admin`. A test runs them, in this order."""

import ast
from pathlib import Path

from relaydeck.api.operation import Operation
from relaydeck.api.operations import OPERATIONS

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "client.md"
_HEAD = """\
# Methods of the client for the admin API

An example of each method of `client.admin` ([the client](../client.md)), in an order in which they succeed: `client` is
a `Client` with a token of an owner. Those of an `AsyncClient` are awaited. Your editor shows their arguments.

`make docs` writes this page from `pages/client_examples.py`; a test runs the examples.
"""
# A call, and what it equals. A problem, a proposal, and a delivery that can be replayed, take longer to come about.
EXAMPLES = {
    "list_networks": "list_networks().items[0].chain_id == 11155111",
    "create_network": 'create_network("dev", 31337, "ETH").name == "dev"',
    "get_network": 'get_network("sepolia").native_symbol == "ETH"',
    "update_network": 'update_network("dev", native_symbol="DEV").native_symbol == "DEV"',
    "delete_network": 'delete_network("dev")',
    "list_signers": 'list_signers(type="plain", order="newest").items[-1].id == "ops"',
    "create_signer": 'create_signer("provider_a_kms", {"key_id": "ops", "region": "eu"}, id="cloud").id == "cloud"',
    "get_signer": 'get_signer("ops").type == "local"',
    "update_signer": 'update_signer("cloud", labels={"team": "payments"}).labels == {"team": "payments"}',
    "delete_signer": 'delete_signer("cloud")',
    "check_signer": 'check_signer("ops").outcome == "ok"',
    "list_signer_drivers": 'list_signer_drivers().items[0].type == "plain"',
    "list_notifications": 'list_notifications(id="page").total_items == 1',
    "create_notification": 'create_notification("night", "https://hooks.example.com/").has_signing_key == False',
    "get_notification": 'get_notification("pager").has_signing_key == True',
    "update_notification": 'update_notification("night", signing_key="a key").has_signing_key == True',
    "delete_notification": 'delete_notification("night")',
    "test_notification": 'test_notification("pager").type == "notification.test"',
    "send_waiting": 'send_waiting("pager").replayed == 0',
    "list_relayers": 'list_relayers(network="sepolia", state="active").total_items == 1',
    "create_relayer": 'create_relayer("Sepolia two", "sepolia", "ops", id="sepolia-2").id == "sepolia-2"',
    "get_relayer": 'get_relayer("sepolia-1").policies.gas_price_cap == 100_000_000_000',
    "update_relayer": 'update_relayer("sepolia-2", name="Second").name == "Second"',
    "delete_relayer": 'delete_relayer("sepolia-2")',
    "pause_relayer": 'pause_relayer("sepolia-1").paused == True',
    "resume_relayer": 'resume_relayer("sepolia-1").paused == False',
    "explain_relayer": 'explain_relayer("sepolia-1").nodes[0].problem == "refused the connection"',
    "get_relayer_balances": 'get_relayer_balances("sepolia-1", step="1h").step == "1h"',
    "explain_estimate": 'explain_estimate("sepolia-1", TRANSACTION).steps[0]["step"] == "inputs"',
    "get_relayer_runway": 'get_relayer_runway("sepolia-1").unknown == "no balance was read yet"',
    "list_runways": "list_runways(first=3).runways == ()",
    "apply": 'apply({"notifications": []}, plan_only=True).steps == ()',
    "export": 'export().toml.splitlines()[0] == "[networks.sepolia]"',
    "list_tokens": 'list_tokens(kind="admin").items[0].state == "live"',
    "create_token": 'create_token("ci", kind="readonly", expires="30d").state == "live"',
    "rotate_token": 'rotate_token("ci", overlap="1h").old_name.startswith("ci (issued ") == True',
    "revoke_token": 'revoke_token("ci")',
    "list_events": 'list_events(per_page=1).items[0].type == "notification.test"',
    "get_event": "get_event(next(client.admin.events()).id).sequence == 1",
    "list_deliveries": 'list_deliveries(notification_id="pager", per_page=1).items[0].sequence == 1',
    "get_delivery": "get_delivery(next(client.admin.deliveries()).id).sequence == 1",
    "replay_dead": "replay_dead().replayed == 0",
    "list_audit": 'list_audit(record="pager", action="notification.created").total_items == 1',
    "whoami": 'whoami().role == "admin"',
    "get_audit_head": 'get_audit_head().head.split(":")[0].isdecimal() == True',
    "verify_audit": "verify_audit(head=client.admin.get_audit_head().head).problem == None",
    "find": 'find(text="5C23").items[0].id == "sepolia-1"',
    "create_protection": 'create_protection("keys", kinds=["signer"], scope={"relayers": ["none"]}).note == ""',
    "list_protections": "list_protections().total_items == 0",
    "list_proposals": 'list_proposals(state="open").total_items == 0',
    "run_doctor": 'run_doctor().items[0].result == "ok"',
}


def page() -> str:
    return "\n".join([_HEAD, *(_section(each) for each in OPERATIONS if each.name in EXAMPLES)])


def _section(operation: Operation) -> str:
    """As a doctest: the call, and the value that it equals."""
    call, _, value = EXAMPLES[operation.name].partition(" == ")
    shown = f"\n{ast.literal_eval(value)!r}" if value not in ("", "None") else ""
    return f"{operation.help}:\n\n```python\n>>> client.admin.{call}{shown}\n```\n"
