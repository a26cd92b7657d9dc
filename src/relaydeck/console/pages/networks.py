"""Networks: their nodes and what they answer, the tokens that can pay a fee with the age of each rate, and backtests.

Two pages take as long as the slowest node. Other pages load them after they are shown.

One form creates and edits a network. Its buttons send it to its own page, so that all of it works without a script:
what a chain gives is filled in, a URL is tested, the changes are shown, and then saved. The values of headers that
were typed travel sealed with a key of the session; stored ones stay where they are.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec

from relaydeck.api.list_filters import NETWORK_FAILS
from relaydeck.bounded_toml import parse_toml
from relaydeck.console.admin_calls import Json, Result
from relaydeck.console.confirmation import Edit, followed, newest_entries, opened, planned, save, values_when_opened
from relaydeck.console.confirmation import create as create_record
from relaydeck.console.forms import (
    Input,
    filled,
    in_coin,
    inputs_of,
    new_document,
    refused,
    submitted,
    text_of,
    weight_of,
)
from relaydeck.console.live import answer_with_result
from relaydeck.console.node_calls import NodeTest, read_network, read_networks
from relaydeck.console.page_request import RELAYERS, PageRequest, Services, deletion, get, post
from relaydeck.console.pages.apply import carried, carry
from relaydeck.console.rendering import path_to, redirect
from relaydeck.console.request import whole_number
from relaydeck.doctor.shared_run import SharedRun
from relaydeck.errors import BadRequest, Forbidden, MistakenRecord, NotPossible, RequestError
from relaydeck.fees.backtest import BacktestRun, counted_problems, run_backtest
from relaydeck.fees.model import fee_options
from relaydeck.fees.report import report_rates
from relaydeck.fields import fields_of
from relaydeck.http.pipeline import Reply
from relaydeck.networks.chains import PRESET_FIELDS, chain_problem, known_chains, preset_of
from relaydeck.networks.evm.options import usual_quorum
from relaydeck.networks.model import Network
from relaydeck.networks.node_rule import NodeRule
from relaydeck.provisioning.declared_records import settable_fields
from relaydeck.provisioning.document import merge_patch
from relaydeck.provisioning.export import written_key, written_table
from relaydeck.provisioning.file import read_parsed
from relaydeck.provisioning.planner import with_stored_headers
from relaydeck.scope import SHARED_RECORD
from relaydeck.secret import Secret
from relaydeck.store.rows import in_list
from relaydeck.timestamps import utc
from relaydeck.web_addresses import shown_address

_TESTED_BLOCKS = 50
_MOST_BACKTESTS = 8  # that are kept, each with a thread
_SET = "(set)"  # stands for the value of a header
_NODE = {
    "url": ("text", "http, https, ws or wss. A row without a URL is left out."),
    "weight": ("whole", "Its share of the calls. Left empty: 1."),
    "headers": ("lines", f"Authorization: Bearer key. Values are sealed and not shown again: {_SET} stands for one."),
}
_TOKENS = "As in an apply file, each with its rate."
_MOST_TOKENS_TEXT = 65_536
_MOST_NODES = 64
_NODES = "rpc_urls["  # begins the names of the fields of nodes
_FIRST = ("name", "chain", "chain_id", "native_symbol", "fee_model")
_FIELDS = [each.name for each in settable_fields(Network) if each.name != "name"]
_NAMED = (*_FIRST, "network_type", "rpc_urls", "fee_tokens", "runway_warn_hours", "quorum", "labels")
_MORE = inputs_of(Network, leave_out=_NAMED)  # what its page shows if it is set

deletion("networks", "One that a relayer uses cannot be removed.", typed="name")


# Of those whose nodes the monitor calls, because a relayer that is not paused uses them.
_CHECKED = (
    f"SELECT name, CASE WHEN {NETWORK_FAILS} THEN 'failing' ELSE 'ok' END AS state FROM networks WHERE EXISTS"
    " (SELECT 1 FROM relayers r WHERE r.network = networks.name AND r.sealed_rpc_urls IS NULL AND NOT r.paused)"
    " AND name IN"
)


@get("/networks", shows=("networks", "relayers", "troubles"))
async def show_list(request: PageRequest) -> Reply:
    found = await request.listed("list_networks")
    return request.page("networks.html", states=await _states(request, found["listed"]), **found)


async def _states(request: PageRequest, listed: list[Json]) -> dict[str, str]:
    if not listed or not request.services.settings.monitor_interval_seconds:
        return {}
    names, values = in_list([each["name"] for each in listed])
    rows = await request.read(lambda store: store.database.read(f"{_CHECKED} ({names})", values))
    return {row.name: row.state for row in rows}


@get("/networks/{id}", shows=(*RELAYERS, "networks"))
async def show(request: PageRequest) -> Reply:
    name = request.identifier
    found = await request.call("get_network", name)
    used = await request.used_by("network", name)
    entries = await newest_entries(request, "network", name)
    # Only scheme and host of a node: the rest of its URL may be a key.
    nodes = [(shown_address(each["url"]), each["weight"]) for each in found.data.get("rpc_urls", [])]
    weights = [weight for _, weight in nodes]
    return request.page(
        "network.html",
        network=found.data,
        nodes=nodes,
        quorum=found.data.get("quorum", usual_quorum(weights)),
        warn_hours=found.data.get("runway_warn_hours", request.services.settings.runway_warn_hours),
        more=[each for each in filled(_MORE, found.data) if each.value],
        used=used,
        entries=entries,
        notes=found.notes,
    )


@get("/nodes", shows=("networks", "nodes"))
async def show_nodes(request: PageRequest) -> Reply:
    networks = await request.read(read_networks)
    return request.page("nodes.html", nodes=await request.services.node_calls.call_all(networks))


@get("/networks/{id}/now", shows=("networks", "nodes"))
async def show_now(request: PageRequest) -> Reply:
    name, services = request.identifier, request.services
    network = await request.read(lambda store: read_network(store, name))
    nodes, rates = await asyncio.gather(services.node_calls.call(network), report_rates(services.estimator, network))
    shown = [(token, each, utc(each.updated_at)) for token, each in zip(network.fee_tokens, rates, strict=True)]
    return request.page("network_now.html", network=network, nodes=nodes, rates=shown)


@get("/networks/{id}/backtest", shows=())
async def show_backtest(request: PageRequest) -> Reply:
    """Of the newest blocks. Whoever asks while it runs gets the same result."""
    name, services = request.identifier, request.services
    network = await request.read(lambda store: read_network(store, name))
    return await answer_with_result(request, _backtest(services, network), partial(_backtest_page, request, network))


def _backtest(services: Services, network: Network) -> SharedRun[BacktestRun]:
    """Raises NotPossible while as many run as may."""
    runs = services.backtests
    if known := [run for tested, run in runs if tested == network]:
        return known[0]
    if len(runs) >= _MOST_BACKTESTS:
        ended = next((each for each in runs if not each[1].is_running), None)
        if ended is None:
            raise NotPossible(
                f"{_MOST_BACKTESTS} networks are being tested: try again when one of these tests has ended"
            )
        runs.remove(ended)
        ended[1].close()
    options = fee_options(services.settings)
    run = SharedRun(partial(run_backtest, network, options, _TESTED_BLOCKS), "backtest")
    runs.append((network, run))
    return run


def _backtest_page(request: PageRequest, network: Network, found: BacktestRun) -> Reply:
    return request.page(
        "backtest.html",
        network=network,
        found=found,
        problems=counted_problems(found.report),
        blocks=_TESTED_BLOCKS,
        tested_at=utc(time.time()),
        is_live=False,
    )


class _Form(NamedTuple):
    """What was typed. Nodes without a URL are left out, and the others follow each other."""

    values: dict[str, str]
    nodes: list[Json]
    name: str  # of the network to change; empty: of a new one
    tested: int | None = None  # the node to test
    spare: int = 1  # rows for more nodes
    is_lost: bool = False  # the values of its headers: they were typed in a session that has ended

    @property
    def inputs(self) -> list[Input]:
        return self.priced(_inputs(not self.name, min(len(self.nodes) + self.spare, _MOST_NODES)))

    def priced(self, inputs: list[Input]) -> list[Input]:
        return in_coin(inputs, self.values.get("native_symbol", "").strip())

    def sealed(self, session: Secret) -> str:
        """The values of the headers that were typed, by node; empty: none were."""
        typed = [
            {each["name"]: each["value"] for each in node.get("headers", ()) if "value" in each} for node in self.nodes
        ]
        return carry(session, msgspec.json.encode(typed).decode()) if any(typed) else ""

    @property
    def chain_id(self) -> int:
        """0: not known."""
        preset = known_chains().presets.get(self.values.get("chain", ""))
        number = whole_number(self.values.get("chain_id", "").strip())
        return number if number is not None else preset.chain_id if preset else 0

    @property
    def place(self) -> int:
        """Of the node that is tested: one without a URL becomes the first row that is empty."""
        return len(self.nodes) if self.tested is None else self.tested

    def document(self, stored: Json) -> tuple[Json, list[tuple[str, str]]]:
        """The record, and what is wrong with its fee tokens. A chain takes the place of what it gave until now."""
        plain = new_document(self.priced(_inputs(not self.name)), self.values)
        if self.values.get("chain"):
            plain = {k: v for k, v in plain.items() if k not in PRESET_FIELDS or v != stored.get(k)}
        document: Json = plain | {"network_type": "evm", "rpc_urls": self.nodes}
        text = self.values.get("fee_tokens", "").replace("\r\n", "\n")
        if len(text) > _MOST_TOKENS_TEXT:
            return document, [("fee_tokens", f"has more than {_MOST_TOKENS_TEXT} characters: use an apply file")]
        try:
            tokens = parse_toml(text)
        except ValueError as error:
            return document, [("fee_tokens", f"it is not TOML: {error}")]
        return document | {"fee_tokens": tokens}, []


def _inputs(is_new: bool, nodes: int = 0) -> list[Input]:
    """Those of nodes and fee tokens are left out, unless nodes are asked for."""
    inputs = inputs_of(Network, leave_out=("network_type", "rpc_urls", "fee_tokens", *(() if is_new else ("name",))))
    models = next(each.choices for each in fields_of(Network) if each.name == "fee_model")
    choices = {"chain": ("", *known_chains().presets), "fee_model": ("", *models)}
    inputs = [
        each._replace(kind="choice", choices=choices[each.name], value="") if each.name in choices else each
        for each in inputs
    ]
    if not nodes:
        return inputs
    rows = [Input(f"rpc_urls[{number}].{name}", *more) for number in range(nodes) for name, more in _NODE.items()]
    return [*inputs, *rows, Input("fee_tokens", "tables", _TOKENS)]


def _read_form(request: PageRequest, name: str) -> _Form:
    form, nodes, tested, is_lost = request.form, list[Json](), None, False
    known: list[dict[str, str]] = []
    if sealed := form.get("sealed", ""):
        try:
            known = msgspec.json.decode(carried(request.operator.secret, sealed))
        except BadRequest:
            is_lost = True
    values = {each: value for each, value in form.items() if not each.startswith(_NODES)}
    for number in range(_MOST_NODES):
        url, weight, headers = (form.get(f"rpc_urls[{number}].{each}", "").strip() for each in _NODE)
        if url:
            tested = len(nodes) if form.get("do") == f"test-{number}" else tested
            lines = [each.strip() for each in headers.splitlines() if each.strip()]
            values |= _row(len(nodes), url, weight, map(_shown_header, lines))
            typed = known[number] if number < len(known) else {}
            nodes.append(_node(url, weight, [_header(each, typed) for each in lines]))
    return _Form(values, nodes, name, tested, 3 if form.get("do") == "more" else 1, is_lost)


def _row(number: int, url: str, weight: str, headers: Iterable[str]) -> dict[str, str]:
    given = (url, weight, "\n".join(headers))
    return {f"rpc_urls[{number}].{name}": value for name, value in zip(_NODE, given, strict=True)}


def _node(url: str, weight: str, headers: list[Json]) -> Json:
    return {"url": url} | weight_of(weight) | ({"headers": headers} if headers else {})


def _header(line: str, typed: Mapping[str, str]) -> Json:
    """`Name: value`. For one that is set: what was typed before, or nothing, which keeps the stored one."""
    name, _, value = (each.strip() for each in line.partition(":"))
    value = typed.get(name, "") if value == _SET else value
    return {"name": name} | ({"value": value} if value else {})


def _shown_header(line: str) -> str:
    name, _, value = (each.strip() for each in line.partition(":"))
    return f"{name}: {_SET}" if value else name


def _form_of(record: Json) -> _Form:
    """What the form of a stored network contains."""
    nodes = record.get("rpc_urls", [])
    inputs = in_coin(_inputs(is_new=False), record["native_symbol"])
    values = {each.name: each.value for each in filled(inputs, record)}
    tokens = (written_table(f"[{written_key(symbol)}]", each) for symbol, each in record["fee_tokens"].items())
    values["fee_tokens"] = "\n".join(tokens)
    for number, node in enumerate(nodes):
        headers = (f"{each['name']}: {_SET}" for each in node.get("headers", ()))
        values |= _row(number, node["url"], str(node["weight"]), headers)
    return _Form(values, nodes, record["name"])


def _form_page(request: PageRequest, form: _Form, etag: str, **given: Any) -> Reply:
    shown: Json = {"inputs": submitted(form.inputs, form.values), "problem": "", "tested": None, "test": None} | given
    inputs: dict[str, Input] = {each.name: each for each in shown.pop("inputs")}
    first, tokens = [inputs.pop(each) for each in _FIRST if each in inputs], inputs.pop("fee_tokens")
    nodes = [inputs.pop(each) for each in list(inputs) if each.startswith("rpc_urls[")]
    rows = [nodes[start : start + len(_NODE)] for start in range(0, len(nodes), len(_NODE))]
    values: Json = {"first": first, "rows": rows, "tokens": tokens, "more": list(inputs.values())}
    chains: Json = {"preset": preset_of(form.chain_id), "refused": known_chains().refused}
    sealed = form.sealed(request.operator.secret)
    kept: Json = {"etag": etag, "sealed": sealed, "opened": form.values.get("opened", "")}
    return request.page("network_form.html", name=form.name, **kept, **values, **chains, **shown)


@get("/networks/new", shows=())
async def show_new(request: PageRequest) -> Reply:
    return _form_page(request, _Form({}, [], ""), "")


@get("/networks/{id}/edit", "update_network", shows=())  # with the whole URLs of nodes, which may contain keys
async def show_edit(request: PageRequest) -> Reply:
    found = await request.call("get_network", request.identifier)
    if not request.operator.may("update_network", found.data):
        raise Forbidden(SHARED_RECORD)
    form = _form_of(found.data)
    form.values["opened"] = opened(submitted(form.inputs, form.values))
    return _form_page(request, form, found.etag)


@post("/networks/new", "create_network")
async def create(request: PageRequest) -> Reply:
    return await _take(request, _read_form(request, ""))


@post("/networks/{id}/edit", "update_network")
async def edit(request: PageRequest) -> Reply:
    await request.call("get_network", request.identifier)  # whatever the button says, an unknown one is not found
    return await _take(request, _read_form(request, request.identifier))


async def _take(request: PageRequest, form: _Form) -> Reply:
    """What the button says that was pressed."""
    etag, button = request.form.get("etag", ""), request.form.get("do", "")
    try:
        if form.is_lost:
            raise BadRequest("type the values of headers again that you typed before you signed in anew")
        if button == "fill":
            return _form_page(request, _with_chain(form), etag)
        if button.startswith("test-"):
            return _form_page(request, form, etag, tested=form.place, test=await _test(request, form))
        if button in ("more", "back"):
            return _form_page(request, form, etag)
        return await (_save(request, form) if form.name else _create(request, form))
    except RequestError as error:
        return _form_page(request, form, etag, **refused(form.inputs, form.values, error))


def _with_chain(form: _Form) -> _Form:
    """With the values that the chosen chain gives. Raises MistakenRecord."""
    chain = form.values.get("chain", "")
    if problem := chain_problem(chain):
        raise MistakenRecord([("chain", problem)])
    given = known_chains().presets[chain].network_values()
    inputs = in_coin(_inputs(is_new=False), str(given["native_symbol"]))
    chosen = {each.name: text_of(each, given.get(each.name)) for each in inputs if each.name in PRESET_FIELDS}
    return form._replace(values=form.values | chosen)


async def _test(request: PageRequest, form: _Form) -> NodeTest:
    """One node of the form. It must be one that may be stored, and gets the stored headers only at its stored URL."""
    if form.tested is None:
        return NodeTest("is not called: type its URL")
    services, name = request.services, form.name
    network = {"network_type": "evm", "chain_id": 1, "native_symbol": "ETH", "rpc_urls": [form.nodes[form.tested]]}
    declared = read_parsed({"networks": {"tested": network}}, None)
    if declared.mistakes:
        places = ((each.place.rpartition("rpc_urls[0].")[2], each.problem) for each in declared.mistakes)
        return NodeTest("is not called: " + "; ".join(f"its {place} {problem}" for place, problem in places))
    stored = await request.read(lambda store: read_network(store, name)) if name else None
    known = {each.url: each for each in stored.rpc_urls} if stored else {}
    url = with_stored_headers(declared.records[0].values["rpc_urls"][0], known)
    if url is None:
        return NodeTest("is not called: type the value of each header")
    before = known.get(url.url)
    if before is None and (problem := NodeRule(services.settings.rpc_allowed_over_http).problem(url.url)):
        return NodeTest(problem)
    url = msgspec.structs.replace(url, set_over_http=before.set_over_http if before else True)
    test = await services.node_tests.test(url, form.chain_id)
    if stored is None or test.block is None:
        return test
    newest = max((each.block or 0 for each in await services.node_calls.call(stored) if not each.problem), default=0)
    return test._replace(behind=max(0, newest - test.block))


async def _create(request: PageRequest, form: _Form) -> Reply:
    """Raises RequestError."""
    document, mistakes = await asyncio.to_thread(form.document, {})
    name = form.values.get("name", "").strip()
    await create_record(request, "networks", document, mistakes)
    return redirect(f"{path_to('networks', name)}?done=created")


async def _save(request: PageRequest, form: _Form) -> Reply:
    """Raises RequestError."""
    found = await save(request, "networks", partial(_edit_of, request, form))
    return found if isinstance(found, Reply) else redirect(f"{path_to('networks', form.name)}?done=saved")


async def _edit_of(request: PageRequest, form: _Form, stored: Result) -> Edit:
    """Raises RequestError."""
    now = _form_of(stored.data)
    form = _followed(form, now)
    document, mistakes = await asyncio.to_thread(form.document, stored.data)
    if mistakes:
        await planned(request, "networks", form.name, document, mistakes)
    patch = merge_patch({each: value for each, value in stored.data.items() if each in _FIELDS}, document)
    if "rpc_urls" not in stored.data and not form.nodes:
        patch.pop("rpc_urls")
    typed = submitted(form.inputs, form.values)
    path, sealed = path_to("networks", form.name, "edit"), form.sealed(request.operator.secret)
    return Edit("networks", stored, patch, typed, submitted(now.inputs, now.values), path, sealed)


def _followed(form: _Form, now: _Form) -> _Form:
    """The form, with what is stored now in what is as it was when the form was opened. Nodes follow together.

    One that somebody else adds or removes moves those behind it: a row alone says nothing about its node. Raises
    BadRequest.
    """
    inputs = [each for each in submitted(now.inputs, now.values) if not each.name.startswith(_NODES)]
    values, before = followed(form.values, inputs), values_when_opened(form.values)
    has_typed_header = any("value" in each for node in form.nodes for each in node.get("headers", ()))
    if not before or has_typed_header or _rows(values) != _rows(before):
        return form._replace(values=values)
    others = {name: value for name, value in values.items() if not name.startswith(_NODES)}
    return form._replace(values=others | _rows(now.values), nodes=now.nodes)


def _rows(values: Mapping[str, str]) -> dict[str, str]:
    """Those of nodes, as far as they are filled in."""
    return {name: value for name, value in values.items() if name.startswith(_NODES) and value}
