"""The TypeScript types of both OpenAPI documents, made anew and checked with tsc."""

import shutil
from pathlib import Path

import pytest

from clients.typescript.make_types import HERE, check_types, make_types

pytestmark = pytest.mark.prove  # tsc takes as long as hundreds of other tests


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The types and the example that uses them, away from the source tree."""
    target = tmp_path_factory.mktemp("types")
    for name in ("tsconfig.json", "package.json", "example.ts"):
        shutil.copy(HERE / name, target)
    make_types(target)
    return target


def test_the_types_and_their_example_pass_tsc(folder: Path) -> None:
    """The example holds a mistake that tsc has to find (`@ts-expect-error`): without it, tsc would fail."""
    check_types(folder)


def test_every_path_of_both_documents_has_a_type(folder: Path) -> None:
    api, admin = (folder / "api.d.ts").read_text(), (folder / "admin.d.ts").read_text()
    assert '"/api/v1/relayers/{relayer_id}/rpc": {' in api
    assert '"/admin/v1/deliveries/replay": {' in admin
