"""Forms, derived from the declared fields of a record."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from relaydeck.console.request import reason_of, whole_number
from relaydeck.errors import MistakenRecord, RequestError
from relaydeck.fields import Field, fields_of
from relaydeck.quantities import parse_wei, write_wei
from relaydeck.secret import Secret

Json = dict[str, Any]
# What a description adds for readers of responses and of the interface's documentation.
_ABOUT_RESPONSES = re.compile(r" Left out(?:,| while) [^.]*\.")


class Input(NamedTuple):
    """One control of a form."""

    name: str  # `policies.min_balance`
    kind: str  # text, secret, json, flag, whole, amount, lines, nodes, tables, labels, choice
    description: str
    value: str = ""
    required: bool = False
    choices: tuple[str, ...] = ()
    problem: str = ""
    is_focused: bool = False
    unit: str = ""  # of an amount: what a number alone is in, `coin` or `gwei`
    coin: str = ""  # its symbol; empty: not known

    @property
    def label(self) -> str:
        return label_of(self.name)

    @property
    def wei(self) -> int | None:
        """An amount as it is typed, in Wei. None: it is none, or written in Wei."""
        is_shown = self.kind != "amount" or "wei" in self.value.split()
        return None if is_shown else parse_wei(self.value, self.unit, self.coin)

    @property
    def written_in(self) -> str:
        """What a number alone is in."""
        return "gwei" if self.unit == "gwei" else self.coin or "the coin of the network"

    @property
    def example(self) -> str:
        return f"Enter an amount such as 0.5 {self.coin or 'ETH'} or 50 gwei."

    @property
    def control(self) -> str:
        """The identifier of the control in the page."""
        return f"field-{self.name.replace('.', '-')}"


# What people call a field, where its name with blanks is not that.
_LABELS = {
    "api_key_id": "API key id",
    "api_key_secret": "API key secret",
    "api_private_key": "API private key",
    "api_public_key": "API public key",
    "block_seconds": "Seconds between blocks",
    "custom_rpc_urls": "Nodes of its own",
    "eip1559_pricing": "EIP-1559 pricing",
    "fee_horizon_blocks": "Full blocks to allow for",
    "gas_limit_estimation": "Gas limit by the node",
    "gas_margin_percent": "Gas margin in percent",
    "id": "Id",
    "key_id": "Key id",
    "max_lag_blocks": "Blocks that a node may be behind",
    "min_balance": "Minimum balance",
    "native_symbol": "Coin",
    "notification_id": "Notification",
    "pubkey": "Public key",
    "relayer_id": "Relayer",
    "rpc_urls": "Nodes",
    "runway_warn_hours": "Warn at hours of runway",
    "sequencer_grace_seconds": "Seconds without rates after an outage",
    "signer_id": "Signer",
    "url": "URL",
    "whitelist_receivers": "Allowed receivers",
}


# What a form says about a field, where the description of the interface is for programs.
_HELP = {
    "Relayer.id": "How commands, events and addresses of pages refer to it; it never changes. Left empty, one is made.",
    "Relayer.name": "Shown in lists and alerts. Several relayers may have the same.",
    "Relayer.network": "Its fee model and fee tokens apply, and its nodes unless this relayer has its own.",
    "Relayer.address": "Left empty, it is derived from the key of the signer. One of another key is refused.",
    "Relayer.signer_id": "The key that signs. Another signer means another address.",
    "Relayer.notification_id": "Receives its events. Left empty: they are only recorded.",
    "Relayer.custom_rpc_urls": "Called instead of those of its network. Left empty: those of its network.",
    "Policies.eip1559_pricing": "Estimates use base fee and tip. Off: the legacy gas price.",
    "Policies.gas_limit_estimation": "The node says how much gas a transaction needs. Off: its own limit counts.",
    "Policies.gas_price_cap": "Estimates assume no higher price of gas. Left empty: any price.",
    "Policies.min_balance": "Below it, the notification gets an event, and the relayer is listed with a problem.",
    "Policies.private_transactions": "Stored for programs that read it. Nothing here acts on it.",
    "Policies.whitelist_receivers": "Estimates for any other receiver are refused. Left empty: any receiver.",
    "Relayer.network_type": "That of its network: evm is the only one there is.",
    "Notification.id": "How relayers and commands refer to it; it never changes.",
    "Notification.url": "Each event is sent here by POST: http or https, with a host.",
    "LocalConfig.key": "32 bytes, as 64 hexadecimal digits with or without 0x.",
    "KmsConfig.key_id": "As the key system lists it. An alias such as alias/ops works, too.",
    "KmsConfig.region": "Where the key system keeps it: eu-west-1.",
    "SecretStoreConfig.key_name": "The path of the secret, below the mount point.",
    "TransitConfig.key_name": "As it is called below the mount point.",
    "TransitConfig.pubkey": "The check of the signer compares what the store has with it.",
    "KeyServiceConfig.api_private_key": "Signs each request to the service.",
    "KeyServiceConfig.api_public_key": "Belongs to the private one: compressed, hexadecimal.",
    "KeyServiceConfig.organization_id": "The account at the service that owns the key.",
    "KeyServiceConfig.private_key_id": "By which the service knows the key that signs. It is not secret.",
    "KeyServiceConfig.public_key": "Hexadecimal. The check of the signer compares the key of the service with it.",
    "WalletServiceConfig.account_address": "Relayers with this signer have it: 0x and 40 hexadecimal digits.",
    "WalletServiceConfig.api_key_id": "By which the service knows who sends a request.",
    "WalletServiceConfig.api_key_secret": "Signs each request. The service shows it when the key is made.",
    "WalletServiceConfig.wallet_secret": "Without it, the service signs nothing.",
    "SecondKmsConfig.key": "A JSON object that says which key of the system signs.",
    "SecondKmsConfig.service_account": "The JSON file of the account that may sign with the key.",
    **{
        f"{store}.{name}": words
        for store in ("SecretStoreConfig", "TransitConfig")
        for name, words in {
            "address": "Scheme, host and port: https://secrets.example.com:8200.",
            "role_id": "Together with the secret id, it logs in to the store.",
            "secret_id": "Together with the role id, it logs in to the store.",
            "mount_point": "The engine that has the key. Left empty: the usual one of the driver.",
            "namespace": "For a store that is divided into several. Left empty: its root.",
        }.items()
    },
    "Notification.signing_key": "Signs the events. Left empty: they are not signed.",
    "Network.name": "How relayers and commands refer to it; it never changes.",
    "Network.chain": "A known one gives chain id, coin, fee model and tip floor, where these are left empty.",
    "Network.chain_id": "Nodes that answer with another one are not used.",
    "Network.native_symbol": "Its symbol, such as ETH. Balances are shown in it.",
    "Network.tip_floor": "Estimates assume no lower tip. Left empty: none.",
    "Network.tip_ceiling": "Estimates assume no higher tip. Left empty: none.",
}


def label_of(name: str) -> str:
    """`policies.min_balance` for people."""
    last = name.rpartition(".")[2]
    return _LABELS.get(last) or last.replace("_", " ").capitalize()


def inputs_of(record: type[msgspec.Struct], prefix: str = "", leave_out: Iterable[str] = ()) -> list[Input]:
    """The inputs for every field that a request can set, filled with the declared defaults."""
    found: list[Input] = []
    for field in fields_of(record):
        name = f"{prefix}{field.name}"
        if field.traits.read_only or name in leave_out:
            continue
        if field.record is not None and not field.is_list:
            found += inputs_of(field.record, f"{name}.")
        else:
            found.append(_input(field, name, _HELP.get(f"{record.__name__}.{field.name}", "")))
    return found


def grouped(inputs: list[Input], groups: Mapping[str, Iterable[str]]) -> dict[str, list[Input]]:
    """The inputs under headings. One without names has all that are named under no other."""
    rest = {each.name: each for each in inputs}
    named = {heading: [rest.pop(name) for name in names if name in rest] for heading, names in groups.items()}
    return {heading: named[heading] if names else [*rest.values()] for heading, names in groups.items()}


def _input(field: Field, name: str, shown: str) -> Input:
    required = field.required and not field.traits.generated and not field.traits.given_by
    choices = ("", *field.choices) if field.choices and field.may_be_unset else field.choices
    kind, description = _kind(field), shown or _help(field.description)
    empty = Input(name, kind, description, required=required, choices=choices, unit=field.unit)
    return empty if field.required or field.may_be_unset else empty._replace(value=text_of(empty, field.default))


def _help(description: str) -> str:
    """The description of a field for somebody who fills in a form."""
    return _ABOUT_RESPONSES.sub("", description.replace("`", "")).replace("Left out:", "Left empty:")


def _kind(field: Field) -> str:
    if field.is_list:
        return "nodes" if field.record is not None else "lines"
    if field.choices:
        return "choice"
    if field.is_table:
        return "labels"
    if field.unit:
        return "amount"
    return {Secret: "secret", msgspec.Raw: "json", bool: "flag", int: "whole"}.get(field.type, "text")


def in_coin(inputs: list[Input], symbol: str) -> list[Input]:
    """The inputs with amounts in this coin."""
    return [each._replace(coin=symbol) if each.kind == "amount" else each for each in inputs]


def filled(inputs: list[Input], record: Json) -> list[Input]:
    """The inputs with the values of a record."""
    return [each._replace(value=text_of(each, _at(record, each.name))) for each in inputs]


def submitted(inputs: list[Input], form: Mapping[str, str]) -> list[Input]:
    """The inputs with what was typed. Secrets have to be typed again."""
    return [
        each if each.kind in ("secret", "json") else each._replace(value=form.get(each.name, "")) for each in inputs
    ]


def refused(inputs: list[Input], form: Mapping[str, str], error: RequestError) -> Json:
    """What was typed, with every problem beside its field or above all: values of the page that shows it."""
    typed = {each.name: each for each in submitted(inputs, form)}
    found = error.mistakes if isinstance(error, MistakenRecord) else [("", reason_of(error))]
    others, wrong = list[str](), list[str]()
    for place, problem in found:
        name = max((each for each in typed if re.match(rf"{re.escape(each)}\b", place)), key=len, default="")
        if name:
            wrong.append(name)
            within = place[len(name) :].lstrip(".")
            said = _said(typed[name], within, problem) if form.get(name, "").strip() else "Fill this in."
            before = typed[name].problem
            said = before if said in before else f"{before} {said}".strip()
            typed[name] = typed[name]._replace(problem=said, is_focused=name == wrong[0])
        else:
            others.append(f"{place}: {problem}" if place else problem)
    return {"status": error.status, "inputs": list(typed.values()), "problem": "; ".join(others)}


def _said(field: Input, within: str, problem: str) -> str:
    """`within`: the part of the field that is wrong; empty: the whole field."""
    if field.kind == "amount":
        return field.example
    if field.kind == "json":
        return "Enter a JSON object."
    problem = problem.removesuffix(".")
    return f"{within}: {problem}." if within else f"{problem[0].upper()}{problem[1:]}."


def document_of(inputs: list[Input], form: Mapping[str, str]) -> Json:
    """The document that a form describes; null where a field is left empty, or has only blanks."""
    document: Json = {}
    for each in inputs:
        *parents, last = each.name.split(".")
        place = document
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value_of(each, form.get(each.name, ""))
    return document


def new_document(inputs: list[Input], form: Mapping[str, str]) -> Json:
    """The same without the fields that are left empty."""
    return _without_nulls(document_of(inputs, form))


def without_others(change: Json, record: Json) -> Json:
    """A change whose labels take the place of those of the record: a merge patch alone would keep the others."""
    if not change.get("labels"):
        return change
    return change | {"labels": dict.fromkeys(record.get("labels", ())) | change["labels"]}


def _without_nulls(document: Json) -> Json:
    return {
        name: _without_nulls(value) if isinstance(value, dict) else value
        for name, value in document.items()
        if value is not None
    }


def value_of(field: Input, text: str) -> Any:
    match field.kind:
        case "flag":
            return bool(text)
        case "whole":
            number = whole_number(text.replace(",", "").strip())
            return (text or None) if number is None else number
        case "amount":  # false is refused where an integer is expected
            wei = parse_wei(text, field.unit, field.coin)
            return (False if wei is None else wei) if text.strip() else None
        case "lines":
            return [line.strip() for line in text.splitlines() if line.strip()]
        case "labels":
            pairs = (line.partition("=") for line in text.splitlines() if line.strip())
            return {key.strip(): value.strip() for key, _, value in pairs} or None
        case "nodes":
            return [_node(line) for line in text.splitlines() if line.strip()]
        case "json":
            return _json(text)
    return text.replace("\r\n", "\n") if text.strip() else None


def _node(line: str) -> Json:
    """`https://node.example.com 3`: a URL and, after a blank, its weight."""
    url, _, weight = line.strip().partition(" ")
    return {"url": url} | weight_of(weight.strip())


def weight_of(text: str) -> Json:
    """Of a node; text that is no whole number is left for the check of the record to refuse."""
    number = whole_number(text)
    return {"weight": text if number is None else number} if text else {}


def _json(text: str) -> Any:
    """What is not JSON stays text, which no such field accepts."""
    try:
        return msgspec.json.decode(text) if text.strip() else None
    except msgspec.DecodeError:
        return text


def _at(record: Json, name: str) -> Any:
    value: Any = record
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def text_of(field: Input, value: Any) -> str:
    if value is None or value is False:
        return ""
    match field.kind:
        case "flag":
            return "true"
        case "amount":
            return write_wei(value, field.unit, field.coin or "ETH")
        case "lines":
            return "\n".join(value)
        case "labels":
            return "\n".join(f"{key}={each}" for key, each in value.items())
        case "nodes":
            return "\n".join(f"{node['url']} {node['weight']}" for node in value)
    return str(value)
