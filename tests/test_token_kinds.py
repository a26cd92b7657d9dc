"""The roles are declared once: everything that lists or checks them agrees with the declaration."""

import pytest

from pages.openapi import admin as admin_openapi
from pages.openapi import contract as contract_openapi
from relaydeck.api.operation import CONTRACT_OPERATIONS
from relaydeck.api.operations import OPERATIONS
from relaydeck.cli.token_commands import token_create
from relaydeck.credentials.token_cache import TokenCredential
from relaydeck.credentials.tokens import Token
from relaydeck.roles import ROLE_NAMES, Role, describe_roles, permissions_of, requirement, roles_with
from relaydeck.settings.model import read_settings


def test_what_each_role_may_do() -> None:
    everything = ["approve", "call", "change", "list", "look", "operate", "own", "view"]
    assert {role.value: sorted(role.permissions) for role in Role} == {
        "api": ["call", "list"],
        "readonly": ["list", "look"],
        "viewer": ["list", "look", "view"],
        "operator": ["list", "look", "operate", "view"],
        "editor": ["call", "change", "list", "look", "operate", "view"],
        "owner": everything,
        "admin": everything,
    }


def test_a_refusal_names_the_roles_that_would_do() -> None:
    assert roles_with("change") == (Role.EDITOR, Role.OWNER, Role.ADMIN)
    assert requirement("call") == "this needs a credential with the role api, editor or owner"
    assert requirement("own") == "this needs a credential with the role owner"
    assert requirement("approve") == "this needs a credential with the role owner, or a token made with --approve"


def test_the_least_role_of_each_operation() -> None:
    """A new operation has to say here who may call it."""
    found = {each.name: next(iter(roles_with(each.permission))).value for each in (*CONTRACT_OPERATIONS, *OPERATIONS)}
    reading = {
        each.name: "viewer" for each in OPERATIONS if each.method == "GET" and each.name.startswith(("list_", "get_"))
    }
    assert found == reading | {
        "list_signers": "viewer",
        "list_relayers": "viewer",
        "update_notification": "editor",
        "create_signer": "editor",
        "relayer_rpc": "api",
        **dict.fromkeys(("explain_relayer", "export", "find", "verify_audit", "run_doctor"), "viewer"),
        **dict.fromkeys(("pause_relayer", "resume_relayer", "check_signer", "test_notification"), "operator"),
        **dict.fromkeys(("explain_estimate", "replay_delivery", "replay_dead", "send_waiting"), "operator"),
        **dict.fromkeys(("acknowledge_problem", "reopen_problem"), "operator"),
        **dict.fromkeys((f"{verb}_network" for verb in ("create", "update", "delete")), "editor"),
        **dict.fromkeys((f"{verb}_relayer" for verb in ("create", "update", "delete")), "editor"),
        **dict.fromkeys(
            ("create_notification", "delete_notification", "update_signer", "delete_signer", "apply"), "editor"
        ),
        **dict.fromkeys(("create_token", "rotate_token", "revoke_token"), "owner"),
        **dict.fromkeys(("create_protection", "delete_protection"), "owner"),
        **dict.fromkeys(("approve_proposal", "reject_proposal", "force_proposal"), "owner"),
        "withdraw_proposal": "operator",
        "whoami": "api",
    }


def test_a_role_that_only_a_newer_version_knows_grants_nothing() -> None:
    credential = TokenCredential(Token(1, "later", "auditor", b"", 0, None, None), "token:later")
    assert (credential.permissions, permissions_of("auditor")) == (frozenset(), frozenset())


def test_the_command_offers_every_role() -> None:
    (option,) = [each for each in token_create.params if each.name == "kind"]
    assert option.to_info_dict()["type"]["choices"] == tuple(ROLE_NAMES)


def test_the_admin_document_lists_every_role() -> None:
    schemas = admin_openapi.document()["components"]["schemas"]
    kinds = [schemas[name]["properties"]["kind"]["$ref"] for name in ("Token", "IssuedToken", "TokenRequest")]
    assert kinds == ["#/components/schemas/Role"] * 3
    assert schemas["Role"]["enum"] == sorted(ROLE_NAMES)


def test_the_contract_document_describes_every_role() -> None:
    bearer = contract_openapi.document()["components"]["securitySchemes"]["bearer"]
    assert describe_roles("`") in bearer["description"]


@pytest.mark.parametrize("role", ROLE_NAMES)
def test_the_setting_of_the_bootstrap_token_accepts_every_role(role: str) -> None:
    assert read_settings({"RELAYDECK_BOOTSTRAP_TOKEN_KIND": role}).bootstrap_token_kind == role
