"""Which version a build has, and that the source states one version everywhere."""

import re
import subprocess
from pathlib import Path

import pytest

from relaydeck import __version__
from relaydeck.settings.model import REMOVED_IN
from release.artifacts import build, notes_of, require_filled_in
from release.version import STATED_IN, ReleaseError, npm_version, version_of, write_version

ROOT = Path(__file__).parents[2]
DECLARES = Path("src/relaydeck/__init__.py")


@pytest.mark.parametrize("name", STATED_IN)
def test_each_file_states_the_version_of_the_source(name: str) -> None:
    stated = npm_version(__version__) if name.endswith("package.json") else __version__
    assert (ROOT / name).read_text("utf-8").count(stated) == 1


def test_a_copy_states_the_version_of_the_build(tmp_path: Path) -> None:
    for name in STATED_IN:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    write_version(tmp_path, "7.8.9.dev3+gabc1234")
    stated = [name for name in STATED_IN if "7.8.9.dev3+gabc1234" in (tmp_path / name).read_text("utf-8")]
    assert stated == [name for name in STATED_IN if not name.endswith("package.json")]
    assert '"version": "7.8.9-dev.3+gabc1234"' in (tmp_path / "clients/typescript/package.json").read_text("utf-8")


def test_the_page_about_versions_says_when_old_names_of_settings_end() -> None:
    assert f"names of settings from builds before 0.1.0 work until {REMOVED_IN}." in (
        ROOT / "docs" / "versions.md"
    ).read_text("utf-8")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with one commit, which declares the release 0.3.0."""
    (tmp_path / DECLARES).parent.mkdir(parents=True)
    (tmp_path / DECLARES).write_text('__version__ = "0.3.0.dev0"\n', "utf-8")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    commit(tmp_path, "one")
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, subject: str) -> str:
    git(folder, "commit", "--quiet", "--allow-empty", "--message", subject)
    return git(folder, "rev-parse", "--short=7", "HEAD")


def test_a_commit_before_the_first_release(clone: Path) -> None:
    assert version_of(clone) == f"0.3.0.dev1+g{git(clone, 'rev-parse', '--short=7', 'HEAD')}"


def test_a_commit_after_a_release_is_counted_from_it(clone: Path) -> None:
    git(clone, "tag", "v0.2.0")
    commit(clone, "two")
    newest = commit(clone, "three")
    assert version_of(clone) == f"0.3.0.dev2+g{newest}"


def test_the_commit_with_the_tag_is_the_release(clone: Path) -> None:
    git(clone, "tag", "v0.3.0")
    assert version_of(clone) == "0.3.0"


def test_a_tag_of_another_release_is_refused(clone: Path) -> None:
    git(clone, "tag", "v0.4.0")
    with pytest.raises(ReleaseError, match=r"the commit has the tag v0\.4\.0, but the source is that of 0\.3\.0"):
        version_of(clone)


CHANGELOG = "# Changelog\n\n## 0.3.0 – unreleased\n\nnew\n\n## 0.2.0 – 2026-01-01\n\nold\n"


@pytest.mark.parametrize(("version", "notes"), [("0.3.0", "new\n"), ("0.2.0", "old\n"), ("0.4.0.dev1+gabc", "new\n")])
def test_the_notes_are_those_of_the_version(version: str, notes: str) -> None:
    assert notes_of(CHANGELOG, version) == notes


def test_a_release_without_notes_is_refused() -> None:
    with pytest.raises(ReleaseError, match=r"CHANGELOG\.md has no section for 0\.9\.0"):
        notes_of(CHANGELOG, "0.9.0")


CONTACT, NO_CONTACT = "**Contact:** security@example.com\n", "**Contact:** TO BE FILLED IN by the owner\n"
DATED = CHANGELOG.replace("unreleased", "2026-02-01")


@pytest.mark.parametrize(
    ("security", "changelog", "problem"),
    [
        (NO_CONTACT, DATED, 'SECURITY.md says "TO BE FILLED IN": fill it in, commit, and move the tag'),
        (CONTACT, CHANGELOG, "CHANGELOG.md says that 0.3.0 is unreleased: set its date, commit, and move the tag"),
    ],
)
def test_a_release_that_is_not_filled_in_is_refused(clone: Path, security: str, changelog: str, problem: str) -> None:
    (clone / "SECURITY.md").write_text(security, "utf-8")
    (clone / "CHANGELOG.md").write_text(changelog, "utf-8")
    git(clone, "add", ".")
    commit(clone, "two")
    git(clone, "tag", "v0.3.0")
    with pytest.raises(ReleaseError) as refused:
        build(clone, clone / "dist", print)
    assert str(refused.value) == problem
    assert not (clone / "dist").exists()


@pytest.mark.parametrize(
    ("version", "security", "changelog"),
    [("0.3.0", CONTACT, DATED), ("0.3.0.dev1+gabc1234", NO_CONTACT, CHANGELOG), ("0.2.0", CONTACT, CHANGELOG)],
)
def test_a_release_that_is_filled_in_and_any_other_build_is_made(
    tmp_path: Path, version: str, security: str, changelog: str
) -> None:
    (tmp_path / "SECURITY.md").write_text(security, "utf-8")
    (tmp_path / "CHANGELOG.md").write_text(changelog, "utf-8")
    require_filled_in(tmp_path, version)


def test_the_changelog_has_the_parts_that_its_introduction_names() -> None:
    for version in re.split("^## ", (ROOT / "CHANGELOG.md").read_text("utf-8"), flags=re.MULTILINE)[1:]:
        parts = re.findall("^### (.+)$", version, flags=re.MULTILINE)
        assert parts == [each for each in ("Added", "Changed", "Fixed", "How to upgrade") if each in parts]
        assert re.findall(r"^### .*\n+(?=### |\Z)", version, flags=re.MULTILINE) == []  # no part is empty
