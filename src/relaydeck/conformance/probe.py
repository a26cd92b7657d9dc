"""The checks that are registered, and what they use: requests that several of them send, and answers that are kept.

There is one whole config of each signer type, with secrets that can be looked for.
"""

import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from relaydeck.conformance import shapes
from relaydeck.conformance.exchange import Budget, OutOfBudget, Requests, Target
from relaydeck.conformance.shapes import FLAG, TEXT, Answer, Differs, Json, NotChecked, field, many, one

SIGNERS = "/api/v1/signers"
RELAYERS = "/api/v1/relayers"
BAD_REQUEST = "Bad Request"
TYPES = ("plain", "provider_a_kms", "provider_b_kms", "provider_c", "provider_c_transit", "provider_d", "provider_e")
# Every field that a config requires, with a value that a server which looks closer can take: only types are shown.
_STORE = {"address": "https://store.example.com", "key_name": "conform", "mount_point": "secret", "namespace": "team"}
_PUBLIC_KEY = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"
_SHOWN: dict[str, dict[str, str]] = {
    "provider_a_kms": {"key_id": "alias/conform", "region": "eu-west-1"},
    "provider_c": _STORE,
    "provider_c_transit": _STORE | {"pubkey": _PUBLIC_KEY},
    "provider_d": {
        "api_public_key": _PUBLIC_KEY,
        "organization_id": "5d5a8d4e-6a2f-4c8e-9b3a-1f0e2d3c4b5a",
        "private_key_id": "0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d",
        "public_key": _PUBLIC_KEY,
    },
    "provider_e": {"account_address": "0x" + "11" * 20, "api_key_id": "conform"},
}
# The contract calls them secret material by what they are; that a role_id is one is a ruling.
_SECRET_FIELDS = {
    "plain": ("key",),
    "provider_c": ("secret_id",),
    "provider_c_transit": ("secret_id",),
    "provider_d": ("api_private_key",),
    "provider_e": ("api_key_secret", "wallet_secret"),
}
WITH_SECRETS = tuple(_SECRET_FIELDS)
_WITH_ROLE = ("provider_c", "provider_c_transit")
_URL = "https://hooks.example.com/conform"
_TRANSACTION = (  # that any server can decode
    "0x02f283aa36a7808459682f008504a817c80082520894d8da6bf26964af9d7eed9e03e53415d37aa9604587038d7ea4c6800080c0"
)
_MOST_PAGES = 20


def config(kind: str) -> tuple[dict[str, Any], list[str]]:
    if kind == "provider_b_kms":
        return {"key": {"name": _secret()}, "service_account": {"private_key": _secret()}}, []
    names = _SECRET_FIELDS.get(kind, ())
    hidden = [_secret() for _ in names]
    role = {"role_id": _secret()} if kind in _WITH_ROLE else {}
    return dict(zip(names, hidden, strict=True)) | role | _SHOWN.get(kind, {}), hidden


def _secret() -> str:
    return secrets.token_hex(32)


def rpc_path(relayer_id: str) -> str:
    return f"{RELAYERS}/{quote(relayer_id, safe='', errors='replace')}/rpc"


def notification_path(notification_id: str) -> str:
    return f"/api/v1/notifications/{quote(notification_id, safe='', errors='replace')}"


def scratch_url(ending: str) -> str:
    return f"{_URL}/{ending}"


def rpc_call(method: Any = "conformNoSuchMethod", **more: Any) -> dict[str, Any]:
    """A JSON-RPC call, without the members that are given as `...`."""
    members = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {}} | more
    return {name: value for name, value in members.items() if value is not ...}


def is_rpc(answer: Answer) -> bool:
    body = answer.json
    return isinstance(body, dict) and "jsonrpc" in body and "success" not in body


class Probe(Requests):
    def __init__(self, target: Target, budget: Budget) -> None:
        super().__init__(target, budget)
        self.secrets: list[str] = []  # that were sent, and must not come back
        self._created: dict[str, Answer] = {}  # by type of signer
        self._notification: Json | None = None  # the caller's, before the first change
        self._key_changed = False

    # Signers

    def create(self, kind: str, **more: Any) -> Answer:
        """Create a signer; its secrets are looked for in every later answer."""
        chosen, hidden = config(kind)
        self.secrets += hidden
        return self.write("POST", SIGNERS, {"type": kind, "config": chosen} | more)

    def created(self, kind: str) -> Answer:
        """The answer to the first create of this type; later calls send nothing."""
        if kind not in self._created:
            self._created[kind] = self.create(kind, id=self.signer_id(kind))
        return self._created[kind]

    @cached_property
    def created_without_id(self) -> Answer:
        return self.create("plain")

    def signer(self, kind: str) -> Json:
        return one(self.created(kind), "a create")

    def signer_id(self, kind: str) -> str:
        return f"{self.name}-{kind}"

    # Lists

    @cached_property
    def signers(self) -> Answer:
        return self.ask("GET", SIGNERS)

    @cached_property
    def relayers(self) -> Answer:
        return self.ask("GET", RELAYERS)

    @cached_property
    def hundred_relayers(self) -> list[Json]:
        """The first hundred: one that is disabled may be anywhere."""
        listed = many(self.page(RELAYERS, 1, 100), "the list of relayers")
        if not listed:
            raise NotChecked("the server lists no relayer; it needs one")
        return listed

    def page(self, path: str, number: int, size: int) -> Answer:
        return self.ask("GET", f"{path}?page={number}&per_page={size}")

    def two_pages(self, path: str) -> tuple[Answer, Answer]:
        if path == SIGNERS and self.target.allow_writes:
            self.created("plain")
            self.created("provider_c")
        first = self.page(path, 1, 1)
        if shapes.pagination(first, path)["total_items"] < 2:
            if path == SIGNERS and not self.target.allow_writes:
                raise NotChecked("the server lists fewer than two signers: needs --allow-writes", "--allow-writes")
            raise NotChecked(f"{path} lists fewer than two items; it needs two")
        return first, self.page(path, 2, 1)

    def find(self, path: str, wanted: str) -> Json | None:
        """The listed item with this id. Its place is open: the ends of a long list are looked at first."""
        for answer in self._pages(path):
            for each in many(answer, f"the list {path}"):
                if each.get("id") == wanted:
                    return each
        return None

    def _pages(self, path: str) -> Iterator[Answer]:
        first = self.page(path, 1, 100)
        yield first
        size, total = len(many(first, path)), shapes.pagination(first, path)["total_items"]
        last = -(-total // size) if size else 1
        rest = [last - each for each in range(5)] + list(range(2, _MOST_PAGES + 1))  # the total may be any number
        for number in list(dict.fromkeys(each for each in rest if 1 < each <= last))[: _MOST_PAGES - 1]:
            yield self.page(path, number, 100)
        if last > _MOST_PAGES:
            raise NotChecked(f"not among {_MOST_PAGES} of {last} pages, and the order of a list is open")

    # The relayer that the caller chose, or the first that is listed. It has an id

    @cached_property
    def relayer(self) -> Json:
        chosen = self.target.relayer
        if chosen:
            with suppress(Differs, NotChecked):
                return self.find(RELAYERS, chosen) or {"id": chosen}
            return {"id": chosen}
        for each in shapes.objects(field(self.relayers.json, "data")):
            if isinstance(each.get("id"), str):
                return each
        raise NotChecked("the server lists no relayer with an id; it needs one")

    @property
    def _is_listed(self) -> bool:
        return self.relayer != {"id": self.target.relayer}

    @property
    def listed_relayer(self) -> Json:
        """The same, as it is listed; raises NotChecked when the relayer that the caller chose is not."""
        if not self._is_listed:
            raise NotChecked(f"no relayer {self.target.relayer} was found in the list", "--relayer ID")
        return self.relayer

    # JSON-RPC calls

    def call(self, body: Any, **more: Any) -> Answer:
        relayer_id = self.relayer["id"]
        answer = self.ask("POST", rpc_path(relayer_id), body, **more)
        if answer.error == f"Relayer with ID {relayer_id} not found" and not self._is_listed:
            raise NotChecked(f"there is no relayer {relayer_id}", "--relayer ID")
        return answer

    @cached_property
    def unknown_method(self) -> Answer:
        return self.call(rpc_call())

    def estimate_call(self, network: Any, **more: Any) -> dict[str, Any]:
        """A whole feeEstimate of the caller's transaction, or of one that any server can decode."""
        transaction, token = self.target.transaction or _TRANSACTION, self.target.fee_token or "ETH"
        params = {"fee_token": token, "network": str(network or ""), "transaction": transaction}
        return rpc_call("feeEstimate", params=params, **more)

    @cached_property
    def fee_estimate(self) -> Answer:
        return self.call(self.estimate_call(self.relayer.get("network")))

    def estimate(self) -> Any:
        """The result of an estimate; raises NotChecked with the server's reason when there is none."""
        result = field(self.fee_estimate.json, "result")
        if result is not None:
            return result
        reason = _failure(self.fee_estimate)
        options = [] if self.target.transaction else ["--transaction HEX", "--fee-token TOKEN"]
        if "unreachable" in reason.lower():  # no other transaction helps
            options = ["--relayer ID"]
        which = "the" if self.target.transaction else "a sample"
        raise NotChecked(f"no estimate of {which} transaction: {reason}", *options)

    # The notification that the caller named

    def update(self, body: Any) -> Answer:
        """Sends an update, after it was remembered what has to be put back.

        A signing key cannot be read, so one that is set is only changed with the caller's permission.
        """
        before, changes_key = self._notification_before(), field(body, "signing_key") is not None
        if changes_key and before["has_signing_key"] and not self.target.replace_signing_key:
            raise NotChecked("the notification has a signing key: needs --replace-signing-key", "--replace-signing-key")
        self._key_changed = self._key_changed or changes_key
        return self._send_update(body)

    def updated(self, body: Json) -> Json:
        return one(self.update(body), f"an update with {sorted(body)}")

    def _send_update(self, body: Any) -> Answer:
        return self.write("PATCH", notification_path(self.target.notification), body)

    def _notification_before(self) -> Json:
        """The notification as an empty update answers it, before anything is changed."""
        missing = [] if self.target.allow_writes else ["--allow-writes"]
        missing += [] if self.target.notification else ["--notification ID"]
        if missing:
            raise NotChecked.without(*missing)
        if self._notification is None:
            answer = self._send_update({})
            if answer.error == "Notification not found":
                raise NotChecked(f"there is no notification {self.target.notification}", "--notification ID")
            fields = {"url": TEXT, "has_signing_key": FLAG}
            self._notification = shapes.require_fields(one(answer, "an empty update"), fields, "notification")
        return self._notification

    def put_back(self) -> list[str]:
        """Gives the notification its url again, and a key only if it had one. Returns what could not be put back."""
        if self._notification is None:
            return []
        self.put_back_time()
        url, had_key = self._notification["url"], self._notification["has_signing_key"]
        label = f"notification {self.target.notification}"
        body = {"url": url}
        if self._key_changed:
            body["signing_key"] = _secret() if had_key else ""
        found = self._put_back(body) or self._put_back(body)
        left = []
        if found.get("url") != url:
            left.append(f"{label}: set its url again, which failed here; it is in {_kept(url)}")
        if found.get("has_signing_key") != had_key:
            left.append(f"{label}: {'set' if had_key else 'remove'} its signing key, which failed here")
        elif self._key_changed and had_key:
            left.append(f"{label}: a random signing key replaced its own; set the key again")
        return left

    def _put_back(self, body: Json) -> Json:
        try:
            return one(self._send_update(body), "an update")
        except (Differs, NotChecked, OutOfBudget):
            return {}


def _kept(url: str) -> str:
    """A new file that only this user can read: a URL may contain a key, and a report is shown to others."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", errors="replace", prefix="relaydeck-conform-", suffix=".url", delete=False
    ) as file:
        file.write(f"{url}\n")
    return file.name


def _failure(answer: Answer) -> str:
    """In the server's words."""
    if not is_rpc(answer):
        return str(shapes.require_error(answer)["message"])
    words = [field(answer.json, "error", name) for name in ("message", "description")]
    return shapes.without_paths(": ".join(each for each in words if isinstance(each, str) and each))


# Checks

Basis = Literal["contract", "ruling"]
Run = Callable[[Probe], str | None]


class Check(NamedTuple):
    """`run` returns what it saw; it raises Differs, NotChecked or DidNotOccur."""

    name: str
    section: str
    basis: Basis
    claim: str
    run: Run
    sentences: tuple[str, ...]  # keys of what it holds
    looks_back: bool = False  # at the answers to all requests of the run


CHECKS: list[Check] = []


def add(basis: Basis, section: str, name: str, claim: str, sentences: str, run: Run, looks_back: bool = False) -> None:
    CHECKS.append(Check(name, section, basis, claim, run, tuple(sentences.split()), looks_back))


def add_each(
    basis: Basis, section: str, values: Iterable[str], name: str, claim: str, sentences: str, run: Callable[..., Any]
) -> None:
    """One check for each value, which `{}` stands for and `run` takes."""
    for each in values:
        add(basis, section, name.format(each), claim.format(each), sentences.format(each), partial(run, each))


def _register(
    basis: Basis, section: str, claim: str, sentences: str, *, looks_back: bool = False
) -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        name = run.__name__.removeprefix("check_").replace("_", "-")
        add(basis, section, name, claim, sentences, run, looks_back)
        return run

    return register


contract = partial(_register, "contract")  # what the contract shows
ruling = partial(_register, "ruling")  # what the contract leaves open: expected is what Relaydeck does
