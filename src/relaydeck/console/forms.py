"""Forms, derived from the declared fields of a record."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from relaydeck.console.request import reason_of
from relaydeck.errors import MistakenRecord, RequestError
from relaydeck.fields import Field, fields_of
from relaydeck.secret import Secret

Json = dict[str, Any]
# What a description adds for readers of responses and of the interface's documentation.
_ABOUT_RESPONSES = re.compile(r" Left out(?:,| while) [^.]*\.")


class Input(NamedTuple):
    """One control of a form."""

    name: str  # `policies.min_balance`
    kind: str  # text, secret, json, flag, whole, lines, nodes, tables, labels, choice
    description: str
    value: str = ""
    required: bool = False
    choices: tuple[str, ...] = ()
    problem: str = ""
    is_focused: bool = False

    @property
    def label(self) -> str:
        return self.name.rpartition(".")[2].replace("_", " ")

    @property
    def control(self) -> str:
        """The identifier of the control in the page."""
        return f"field-{self.name.replace('.', '-')}"


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
            found.append(_input(field, name))
    return found


def _input(field: Field, name: str) -> Input:
    required = field.required and not field.traits.generated and not field.traits.given_by
    choices = ("", *field.choices) if field.choices and field.may_be_unset else field.choices
    empty = Input(name, _kind(field), _help(field.description), required=required, choices=choices)
    return empty if field.required or field.may_be_unset else empty._replace(value=_text(empty, field.default))


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
    return {Secret: "secret", msgspec.Raw: "json", bool: "flag", int: "whole"}.get(field.type, "text")


def filled(inputs: list[Input], record: Json) -> list[Input]:
    """The inputs with the values of a record."""
    return [each._replace(value=_text(each, _at(record, each.name))) for each in inputs]


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
            said = _said(place[len(name) :].lstrip("."), problem) if form.get(name, "").strip() else "Fill this in."
            before = typed[name].problem
            said = before if said in before else f"{before} {said}".strip()
            typed[name] = typed[name]._replace(problem=said, is_focused=name == wrong[0])
        else:
            others.append(f"{place}: {problem}" if place else problem)
    return {"status": error.status, "inputs": list(typed.values()), "problem": "; ".join(others)}


def _said(within: str, problem: str) -> str:
    """`within`: the part of the field that is wrong; empty: the whole field."""
    return f"{within}: {problem}." if within else f"{problem[0].upper()}{problem[1:]}."


def document_of(inputs: list[Input], form: Mapping[str, str]) -> Json:
    """The document that a form describes; null where a field is left empty, or has only blanks."""
    document: Json = {}
    for each in inputs:
        *parents, last = each.name.split(".")
        place = document
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = _value(each, form.get(each.name, ""))
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


def _value(field: Input, text: str) -> Any:
    match field.kind:
        case "flag":
            return bool(text)
        case "whole":
            digits = text.replace(",", "").strip()
            return int(digits) if digits.isascii() and digits.isdigit() else (text or None)
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
    given = weight.strip()
    return {"url": url} | ({"weight": int(given) if given.isascii() and given.isdigit() else given} if given else {})


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


def _text(field: Input, value: Any) -> str:
    if value is None or value is False:
        return ""
    match field.kind:
        case "flag":
            return "true"
        case "lines":
            return "\n".join(value)
        case "labels":
            return "\n".join(f"{key}={each}" for key, each in value.items())
        case "nodes":
            return "\n".join(f"{node['url']} {node['weight']}" for node in value)
    return str(value)
