"""The kinds of token are declared once: everything that lists or checks them agrees with the declaration."""

import pytest

from relaydeck.admin import openapi as admin_openapi
from relaydeck.cli.token_commands import token_create
from relaydeck.contract import openapi as contract_openapi
from relaydeck.credentials.kinds import KIND_NAMES, TokenKind, describe_kinds, kinds_with, permissions_of
from relaydeck.credentials.token_book import TokenCredential
from relaydeck.credentials.token_rows import Token
from relaydeck.settings import read_settings


def test_what_each_kind_may_do() -> None:
    assert {kind.value: sorted(kind.permissions) for kind in TokenKind} == {
        "api": ["call", "list"],
        "readonly": ["list", "look"],
        "admin": ["call", "list", "look", "manage"],
    }


def test_the_kinds_that_grant_a_permission() -> None:
    assert (kinds_with("list"), kinds_with("call"), kinds_with("manage"), kinds_with("look")) == (
        ["admin", "api", "readonly"],
        ["admin", "api"],
        ["admin"],
        ["admin", "readonly"],
    )


def test_a_kind_that_only_a_newer_version_knows_grants_nothing() -> None:
    credential = TokenCredential(Token(1, "later", "auditor", b"", 0, None, None))
    assert (credential.permissions, permissions_of("auditor")) == (frozenset(), frozenset())


def test_the_command_offers_every_kind() -> None:
    (option,) = [each for each in token_create.params if each.name == "kind"]
    assert option.to_info_dict()["type"]["choices"] == tuple(KIND_NAMES)


def test_the_admin_document_lists_every_kind() -> None:
    schemas = admin_openapi.document()["components"]["schemas"]
    kinds = [schemas[name]["properties"]["kind"]["$ref"] for name in ("Token", "NewToken", "TokenRequest")]
    assert kinds == ["#/components/schemas/TokenKind"] * 3
    assert schemas["TokenKind"]["enum"] == sorted(KIND_NAMES)


def test_the_contract_document_describes_every_kind() -> None:
    bearer = contract_openapi.document()["components"]["securitySchemes"]["bearer"]
    assert describe_kinds("`") in bearer["description"]


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_the_setting_of_the_bootstrap_token_accepts_every_kind(kind: str) -> None:
    assert read_settings({"RELAYDECK_BOOTSTRAP_TOKEN_KIND": kind}).bootstrap_token_kind == kind
