"""The site has every page, builds without a warning, loads nothing from elsewhere, and its search finds the pages."""

import json
import re
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from clients.typescript.make_types import node_command
from pages import site

ROOT = Path(__file__).parents[1]
FIRST_PAGE = 10  # of the results of a search
# What people ask, and the page that must be among the first results.
QUESTIONS = {
    "go to production checklist": "docs/production.html",
    "how do I create a token": "docs/reference/cli.html",
    "token expires": "docs/access.html",
    "rotate the master key": "docs/keys.html",
    "back up the database": "docs/backup.html",
    "restore a backup": "docs/backup.html",
    "move from SQLite to PostgreSQL": "docs/backup.html",
    "rolling upgrade": "docs/upgrade.html",
    "deprecated stable version": "docs/versions.html",
    "verify the signature of a webhook": "docs/events.html",
    "webhook retries": "docs/delivery.html",
    "relayer is disabled": "docs/monitor.html",
    "key in AWS KMS": "docs/key-systems.html",
    "Vault transit": "docs/key-systems.html",
    "check that a signer reaches its key": "docs/signers.html",
    "prometheus alerts": "docs/alerts.html",
    "what to do about an alert": "docs/runbook.html",
    "use from GitLab CI": "docs/ci.html",
    "list of metrics": "docs/reference/metrics.html",
    "rate limit across replicas": "docs/replicas.html",
    "429 Too Many Requests": "docs/http.html",
    "Relaydeck-Reason": "docs/http.html",
    "estimate a fee": "docs/fee-estimate.html",
    "OP stack L1 data fee": "docs/fee-estimate.html",
    "fee token price feed": "docs/fee-estimate.html",
    "apply file prune": "docs/apply.html",
    "apply in CI with a pinned plan": "docs/apply.html",
    "command against a server with a profile": "docs/remote.html",
    "sign in to the console": "docs/console.html",
    "RELAYDECK_WEBHOOK_ALLOW": "docs/events.html",
    "every setting with its default": "docs/settings.html",
    "private address of a node refused": "docs/monitor.html",
    "JSON Web Token issuer": "docs/settings.html",
    "verify the audit log": "docs/audit.html",
    "install with Kubernetes": "deploy/index.html",
    "systemd unit": "deploy/index.html",
    "uninstall": "index.html",
    "shell completion": "docs/reference/cli.html",
    "report a vulnerability": "SECURITY.html",
    "Python client retries": "docs/client.html",
    "TypeScript client": "clients/typescript/index.html",
    "writes do not work": "docs/availability.html",
    "single sign-on with OpenID Connect": "docs/sign-on.html",
    "scope of a token": "docs/access.html",
    "how long does the balance last": "docs/runway.html",
    "get started with a development node": "docs/first-relayer.html",
    "fields of an apply file": "docs/apply-file.html",
    "kinds of events": "docs/event-kinds.html",
    "writes return 500": "docs/troubleshooting-database.html",
    "idempotency key": "docs/admin.html",
    "memory for a million relayers": "docs/growth.html",
    "who changed this relayer": "docs/audit.html",
    "undo a change": "docs/console-forms.html",
    "second person must approve a change on mainnet": "docs/approvals.html",
    "emergency change without approval": "docs/approvals.html",
    "limit a team to its own relayers": "docs/access.html",
    "log in from a terminal with my company account": "docs/sign-on.html",
    "change the gas price cap of many relayers at once": "docs/console-forms.html",
    "webhook does not arrive": "docs/troubleshooting-traffic.html",
    "encryption key was leaked": "docs/keys.html",
    "lost the master key": "docs/keys.html",
    "how many workers and how much memory": "docs/sizing.html",
    "stop a replica without downtime behind a load balancer": "docs/replicas.html",
    "nodes disagree": "docs/troubleshooting-traffic.html",
    "revoke a stolen token": "docs/access.html",
    "GitHub Actions without a stored secret": "docs/ci.html",
    "two instances behind a balancer": "docs/replicas.html",
    "high availability with several replicas": "docs/replicas.html",
    "PgBouncer": "docs/sizing.html",
    "relayer stays disabled": "docs/monitor.html",
    "change the port": "docs/tour.html",
    "database failover": "docs/availability.html",
    "cannot delete a signer that is still used": "docs/admin.html",
    "export all records to a file": "docs/apply.html",
    "log level": "docs/settings.html",
    "run behind nginx with TLS": "deploy/index.html",
    "keep events longer than 30 days": "docs/delivery.html",
    "where are private keys stored": "docs/signers.html",
    "wrong clock": "docs/troubleshooting.html",
    "resend failed events": "docs/delivery.html",
}


def test_every_page_is_in_the_navigation_once() -> None:
    listed = re.findall(r": ([\w./-]+\.md)$", (ROOT / "properdocs.yml").read_text("utf-8"), flags=re.MULTILINE)
    assert sorted(listed) == sorted(each for each in site.names() if each.endswith(".md"))


def test_anchors_are_those_of_the_repository() -> None:
    assert site.slug("Where Relaydeck connects to", "-") == "where-relaydeck-connects-to"
    assert site.slug("`aws-kms` for `provider_a_kms`", "-") == "aws-kms-for-provider_a_kms"
    assert site.slug("0.1.0 – unreleased", "-") == "010--unreleased"


class Page(HTMLParser):
    """What a page links to, what it loads, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors.add(given.get("id") or "")
        if tag == "a":
            self.links.append(given.get("href") or "")
        else:
            self.loaded += filter(None, (given.get("src"), given.get("href")))


@pytest.fixture(scope="module")
def built() -> Path:
    """Raises when the build warns."""
    done = subprocess.run(["make", "site"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    return ROOT / "build" / "site"


@pytest.fixture(scope="module")
def pages(built: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text("utf-8")) for path in built.rglob("*.html") if path.name != "404.html"}


def broken(pages: dict[Path, Page]) -> Iterator[str]:
    for path, page in pages.items():
        for url in (*page.links, *page.loaded):
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file() or (parts.fragment and unquote(parts.fragment) not in pages[target].anchors):
                yield f"{path.name}: {url}"


@pytest.mark.prove
@pytest.mark.parallel
def test_no_link_is_broken(pages: dict[Path, Page]) -> None:
    assert sum(len(page.links) for page in pages.values()) > 1000
    assert list(broken(pages)) == []


@pytest.mark.prove
@pytest.mark.parallel
def test_nothing_is_loaded_from_elsewhere(built: Path, pages: dict[Path, Page]) -> None:
    assert [url for page in pages.values() for url in page.loaded if urlsplit(url).netloc] == []
    styles = "".join(path.read_text("utf-8") for path in built.rglob("*.css"))
    assert re.findall(r"(?:@import|url\()[\s\"']*(?:https?:)?//[^)]*", styles) == []


@pytest.mark.prove
@pytest.mark.parallel
def test_the_search_finds_what_people_ask(built: Path) -> None:
    command = [node_command(), str(ROOT / "tests" / "support" / "site_search.mjs"), str(built)]
    asked = json.dumps(list(QUESTIONS))
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=True)
    found = dict(zip(QUESTIONS, json.loads(done.stdout), strict=True))
    firsts = {question: [each.split("#")[0] for each in results[:FIRST_PAGE]] for question, results in found.items()}
    assert {question: firsts[question] for question, page in QUESTIONS.items() if page not in firsts[question]} == {}
