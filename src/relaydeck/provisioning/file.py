"""Reads what a file declares, and notes every mistake that the file alone can show."""

from collections.abc import Iterator
from typing import Any

from relaydeck.fields import fields_of
from relaydeck.identifiers import identifier_problem
from relaydeck.networks.chains import PRESET_FIELDS, chain_problem, known_chains
from relaydeck.networks.model import Network
from relaydeck.provisioning.declared_records import (
    CREATED_AS,
    IDENTITY,
    RECORD_TYPES,
    RESOURCES,
    SIGNER_FIELDS,
    Declared,
    DeclaredRecord,
    Mention,
    Resource,
    settable_fields,
)
from relaydeck.provisioning.mistakes import TooManyMistakes, kind_of, place_in
from relaydeck.provisioning.reader import Content, Reader, Values
from relaydeck.provisioning.references import Resolve
from relaydeck.signers.signer_types import SHAPES

_IGNORED = ("price_factor",)  # of a network: earlier versions compared nodes by it, and files may still have it


def read_parsed(document: dict[str, Any], resolve: Resolve | None) -> Declared:
    """The content of a file, however it was written. `resolve`: None if it must not contain references."""
    reader = Reader(resolve)
    try:
        return _read_document(document, reader)
    except TooManyMistakes:
        return Declared(reader.mistakes)


def _read_document(document: dict[str, Any], reader: Reader) -> Declared:
    declared = Declared(reader.mistakes)
    if "networks" in document and reader.is_table(document["networks"], "networks"):
        for name, content in document["networks"].items():
            _add_network(declared, name, content, reader)
    for resource in RESOURCES[1:]:
        for place, content in _tables(document, resource, reader):
            _add(declared, resource, place, content, reader)
    _note_shared_names(declared, reader)
    reader.note_unknown(document, "", RESOURCES)
    return declared


def _add_network(declared: Declared, name: str, content: Any, reader: Reader) -> None:
    place = declared.places["networks"][name] = place_in("networks", name)
    if problem := identifier_problem(name):
        reader.note(place, f"the name of a network {problem}")
    if reader.is_table(content, place):
        _add(declared, "networks", place, content, reader, name=name)


def _tables(document: dict[str, Any], resource: Resource, reader: Reader) -> Iterator[tuple[str, Content]]:
    records = document.get(resource, [])
    if type(records) is not list:
        reader.note(resource, f"expected an array of tables, found {kind_of(records)}")
        return
    for number, content in enumerate(records):
        if reader.is_table(content, f"{resource}[{number}]"):
            yield f"{resource}[{number}]", content


def _add(declared: Declared, resource: Resource, place: str, content: Content, reader: Reader, **known: str) -> None:
    """`known`: the name of a network, which stands outside its table."""
    seen = len(reader.mistakes)
    values: Values
    if resource == "signers":
        values = _read_signer(place, content, reader)
    elif resource == "networks":
        values = known | _read_network(place, content, reader)
        _note_ambiguous_tokens(reader, place, values)
    else:
        created_as = CREATED_AS if resource == "relayers" and reader.reads_file else ()
        values = reader.values(content, place, (*settable_fields(RECORD_TYPES[resource]), *created_as))
    name = values.get(IDENTITY[resource], "")
    first = declared.places[resource].setdefault(name, place) if name else place
    if first != place:
        reader.note(f"{place}.{IDENTITY[resource]}", f"is already the id of {first}")
    declared.mentions += _mentions(place, resource, values)
    if len(reader.mistakes) == seen:
        declared.records.append(DeclaredRecord(place, resource, name, values))


def _read_signer(place: str, content: Content, reader: Reader) -> Values:
    """The fields of its config depend on its type."""
    values = reader.values(content, place, SIGNER_FIELDS, others=["config"])
    shape = SHAPES.get(values.get("type", ""))
    if "config" not in content:
        reader.note(f"{place}.config", "is missing; expected a table")
    elif reader.is_table(content["config"], f"{place}.config") and shape is not None:
        values["config"] = reader.values(content["config"], f"{place}.config", settable_fields(shape))
    return values


def _read_network(place: str, content: Content, reader: Reader) -> Values:
    """What its chain gives, and over it what it declares itself. The chain is not a part of what is stored."""
    chain, given = content.get("chain"), {}
    fields = [each for each in settable_fields(Network) if each.name != "name"]
    if isinstance(chain, str) and (problem := chain_problem(chain)):
        reader.note(f"{place}.chain", problem)
    elif isinstance(chain, str):
        given = known_chains().presets[chain].network_values()
    if chain is not None and not given:  # one mistake, not one more for each field that it would have given
        fields = [each for each in fields if not each.traits.given_by or each.name in content]
    values = reader.values(given | content, place, fields, others=(*PRESET_FIELDS, *_IGNORED))
    values.pop("chain", None)
    return values


def _note_ambiguous_tokens(reader: Reader, place: str, network: Values) -> None:
    """An estimate names a fee token by symbol or address, in any case of letters: each must mean one token."""
    owners = {network.get("native_symbol", "").casefold(): "the native coin"}
    for token in network.get("fee_tokens", ()):
        for kind, name in (("symbol", token.symbol), ("address", token.address)):
            owner = owners.setdefault(name.casefold(), token.symbol)
            if owner != token.symbol:
                reader.note(f"{place}.fee_tokens", f"{token.symbol} has the same {kind} as {owner}")


def _mentions(place: str, resource: Resource, values: Values) -> Iterator[Mention]:
    record = RECORD_TYPES.get(resource)
    for field in fields_of(record) if record else ():
        if field.traits.refers_to and field.name in values:
            yield Mention(f"{place}.{field.name}", field.traits.refers_to, values[field.name])  # type: ignore[arg-type]


def _note_shared_names(declared: Declared, reader: Reader) -> None:
    """A relayer without an id is found again by its name, so two of them must not share one."""
    first: dict[str, str] = {}
    for relayer in declared.of("relayers"):
        owner = relayer.place if relayer.name else first.setdefault(relayer.values["name"], relayer.place)
        if owner != relayer.place:
            reader.note(f"{relayer.place}.name", f"is already the name of {owner}; give both an id")
