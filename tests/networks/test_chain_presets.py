"""The presets of chains: well-formed, sourced, recomputed from the published formula, named, overridden and refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from msgspec.structs import replace

from pages import chains as page
from relaydeck.cli.commands import cli
from relaydeck.identifiers import identifier_problem
from relaydeck.networks.chains import (
    FACTS,
    PRESET_FIELDS,
    UNKNOWN,
    ChainFacts,
    Preset,
    facts_of,
    known_chains,
    preset_of,
)
from relaydeck.networks.evm.header import Header, next_base_fee
from relaydeck.networks.model import FeeModelName, Network
from relaydeck.provisioning.file import read_parsed

PRESETS = known_chains().presets
REFUSED = known_chains().refused
USED = (0, 1, 10_000_000, 15_000_000, 15_000_001, 29_999_999, 30_000_000)
BASE_FEES = (0, 1, 7, 10**9, 123_456_789_012)
FORMULAS = {
    "arbitrum",
    "celo",
    "mantle",
    "scroll",
}  # of fee models, recomputed in tests/fees/test_published_formulas.py


def given(preset: Preset) -> set[str]:
    """The names of the values that a preset has."""
    facts = {name for name in FACTS if getattr(preset.facts, name) != getattr(UNKNOWN, name)}
    tip = {"tip_floor"} if preset.tip_floor is not None else set()
    return {"chain_id", "native_symbol", "fee_model"} | tip | facts


def test_there_are_presets_for_the_chains_people_use() -> None:
    assert len(PRESETS) >= 30
    assert {"ethereum", "base", "optimism", "arbitrum-one", "polygon", "bsc", "avalanche", "zksync"} < PRESETS.keys()
    assert not PRESETS.keys() & REFUSED.keys()


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_well_formed(name: str) -> None:
    preset = PRESETS[name]
    assert not identifier_problem(name) and not identifier_problem(preset.native_symbol)
    assert preset.fee_model in get_args(FeeModelName)
    assert preset_of(preset.chain_id) == (name, preset)  # no other has its chain id
    facts = preset.facts
    assert facts.block_seconds is None or 0.1 <= facts.block_seconds <= 60
    assert facts.base_fee_denominator > 0 and facts.base_fee_elasticity > 0 and facts.base_fee_minimum >= 0


@pytest.mark.parametrize("name", PRESETS)
def test_each_value_has_a_source(name: str) -> None:
    preset = PRESETS[name]
    sourced = {value for source in preset.sources for value in source.values}
    assert given(preset) <= sourced <= {"chain_id", "native_symbol", "fee_model", "tip_floor", *FACTS}
    assert {source.url.split("/")[0] for source in preset.sources} == {"https:"}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_chain_has_a_reason_with_a_source(name: str) -> None:
    refused = REFUSED[name]
    assert refused.reason and preset_of(refused.chain_id) is None
    assert {value for source in refused.sources for value in source.values} == {"chain_id", "reason"}


# -- The formulas, written here from the published ones --


def by_eip_1559(base: int, used: int, limit: int, denominator: int, elasticity: int, least: int) -> int:
    """As in the specification of EIP-1559, with the minimum of BRIP-0002 and of the Jovian upgrade."""
    target = limit // elasticity
    if used == target:
        expected = base
    elif used > target:
        expected = base + max(base * (used - target) // target // denominator, 1)
    else:
        expected = base - base * (target - used) // target // denominator
    return max(expected, least)


def blocks(extra: str = "0x") -> Iterator[Header]:
    for base in BASE_FEES:
        for used in USED:
            yield Header(7, base, 30_000_000, {"gasUsed": hex(used), "extraData": extra})


def recomputed(header: Header, facts: ChainFacts) -> int:
    base, limit = header.base_fee or 0, header.gas_limit or 0
    if facts.base_fee_rule == "constant":
        return base
    used = int(header.fields["gasUsed"], 16)
    if facts.base_fee_rule == "op_stack":
        return by_eip_1559(base, used, limit, 250, 6, 1_000_000)
    rule = (facts.base_fee_denominator, facts.base_fee_elasticity, facts.base_fee_minimum)
    return by_eip_1559(base, used, limit, *rule)


@pytest.mark.parametrize("name", PRESETS)
def test_each_preset_rests_on_a_formula_or_there_is_a_reason(name: str) -> None:
    preset = PRESETS[name]
    has_formula = preset.facts.base_fee_rule is not None or preset.fee_model in FORMULAS
    assert preset.basis == ("recomputed" if has_formula else "stated")
    assert preset.facts.base_fee_rule is not None or preset.why.endswith(".")


@pytest.mark.parametrize("name", [name for name in PRESETS if PRESETS[name].facts.base_fee_rule is not None])
def test_the_base_fee_is_recomputed(name: str) -> None:
    facts = PRESETS[name].facts
    if (
        facts.base_fee_rule == "acp176"
    ):  # of a table in the tests of ava-labs/coreth; tests/networks/test_heads.py has all
        state = f"0x{0:016x}{2_704_386_192:016x}{13_605_152:016x}"
        assert next_base_fee(Header(7, 1, 1, {"extraData": state}), facts) == 10**9 + 2
        return
    # Of an OP-stack block: version 1, denominator 250, elasticity 6, at least 1,000,000 Wei.
    extra = "0x01" + f"{250:08x}{6:08x}{1_000_000:016x}"
    for header in blocks(extra):
        assert next_base_fee(header, facts) == recomputed(header, facts)


def test_a_base_fee_has_a_minimum() -> None:
    facts = ChainFacts("eip1559", 48, 2, base_fee_minimum=10**9)
    empty = Header(7, 10**9 + 5, 30_000_000, {"gasUsed": "0x0"})
    assert next_base_fee(empty, facts) == 10**9


# -- Networks that name a chain --


def read(**network: Any) -> tuple[dict[str, Any], list[str]]:
    declared = read_parsed({"networks": {"n": network}}, None)
    return (declared.records[0].values if declared.records else {}), [str(each) for each in declared.mistakes]


@pytest.mark.parametrize("name", PRESETS)
def test_a_chain_gives_what_a_network_needs(name: str) -> None:
    values, mistakes = read(chain=name)
    assert mistakes == []
    assert values == {"name": "n", **PRESETS[name].network_values()}
    assert Network(**values).facts == PRESETS[name].facts


def test_what_the_network_gives_itself_counts() -> None:
    own = {"chain_id": 31337, "native_symbol": "DEV", "fee_model": "ethereum", "tip_floor": 5, "gas_limit_cap": 99}
    values, mistakes = read(chain="polygon", **own)
    assert mistakes == []
    assert values == {"name": "n", "network_type": "evm", **own}
    assert read(chain="polygon", tip_floor=5)[0]["tip_floor"] == 5
    facts = {"gas_limit_cap": 99, "base_fee_rule": "constant", "base_fee_denominator": 5, "base_fee_elasticity": 3}
    declared = read(chain="ethereum", block_seconds="0.5", gas_margin_percent=7, **facts)
    assert declared[1] == []
    found = Network(**declared[0]).facts
    assert found == replace(facts_of(1), block_seconds=0.5, gas_margin_percent=7, **facts)


def test_a_network_that_leaves_the_base_fee_to_its_nodes() -> None:
    assert Network(**read(chain="ethereum", base_fee_rule="nodes")[0]).facts.base_fee_rule is None


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("block_seconds", "0", "must be greater than 0"),
        ("base_fee_denominator", 0, "expected an integer from 1 to 1000000"),
        ("base_fee_rule", "eip", "expected one of eip1559, op_stack, constant, acp176 or nodes"),
    ],
)
def test_facts_that_cannot_be_declared(name: str, value: Any, problem: str) -> None:
    _, (mistake,) = read(chain="ethereum", **{name: value})
    assert mistake.startswith(f"networks.n.{name}: ") and problem in mistake


def test_a_network_without_a_chain_needs_the_rest() -> None:
    assert read()[1] == [
        'networks.n.network_type: is missing; expected "evm"',
        "networks.n.chain_id: is missing; expected an integer from 1 to 9223372036854775807",
        "networks.n.native_symbol: is missing; expected a string",
    ]


@pytest.mark.parametrize(
    ("chain", "problem"),
    [
        ("bsae", "is not a known chain; did you mean base?"),
        ("?", "is not a known chain"),
        *((name, f"{name} cannot be estimated: {refused.reason}") for name, refused in REFUSED.items()),
        (5, "expected a string, found an integer"),
    ],
)
def test_a_chain_that_cannot_be_named(chain: Any, problem: str) -> None:
    assert read(chain=chain) == ({}, [f"networks.n.chain: {problem}"])


def test_the_fields_of_a_preset_are_fields_of_a_network() -> None:
    assert set(PRESET_FIELDS) < set(Network.__struct_fields__)


# -- relaydeck init --


def test_a_file_for_a_chain(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    done = CliRunner().invoke(cli, ["init", str(path), "--chain", "arbitrum-one", "--json"])
    assert (done.exit_code, json.loads(done.output)["example"]) == (0, "start")
    text = path.read_text("utf-8")
    assert "[networks.arbitrum-one]" in text and 'chain = "arbitrum-one"' in text
    assert 'id = "arbitrum-one-1"\nname = "Arbitrum one one"\nnetwork = "arbitrum-one"' in text
    assert "epolia" not in text and "SEPOLIA" not in text and "0x1c7D4B196" not in text.split("whitelist_receivers")[0]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--chain", "somnia"), f"somnia cannot be estimated: {REFUSED['somnia'].reason}"),
        (("--chain", "bsae"), "'bsae' is not a known chain; did you mean base?"),
        (("--chain", "base", "--example", "demo"), "--chain goes with --example start"),
    ],
)
def test_no_file_for_these(tmp_path: Path, arguments: tuple[str, ...], problem: str) -> None:
    done = CliRunner().invoke(cli, ["init", str(tmp_path / "mine.toml"), *arguments])
    assert done.exit_code == 2 and problem in done.output
    assert not list(tmp_path.iterdir())


def test_the_names_are_completed() -> None:
    def completed(incomplete: str) -> list[tuple[str, str | None]]:
        found = ShellComplete(cli, {}, "relaydeck", "_COMPLETE").get_completions(["init", "--chain"], incomplete)
        return [(each.value, each.help) for each in found]

    assert completed("arb") == [
        ("arbitrum-nova", "chain id 42170"),
        ("arbitrum-one", "chain id 42161"),
        ("arbitrum-sepolia", "chain id 421614"),
    ]
    assert [name for name, _ in completed("")] == sorted(PRESETS)
    assert completed("somnia") == []


def test_the_page_is_current() -> None:
    assert page.PAGE.read_text("utf-8") == page.page(), "run: make docs"
