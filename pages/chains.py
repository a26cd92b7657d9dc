"""`docs/reference/chains.md`, which `make docs` writes from the presets of chains."""

from collections.abc import Sequence
from pathlib import Path

from relaydeck.networks.chains import ChainFacts, Preset, Source, known_chains

_DOCS = Path(__file__).parents[1] / "docs"
PAGE = _DOCS / "reference" / "chains.md"
_PAID = _DOCS / "fee-estimate.md"
_MEASURED_ON = {"ethereum": "geth", "op_stack": "OP stack"}  # the rows of `make paid`, by fee model
_HEAD = """# Chains

A network can name its chain: `chain = "base"` in an apply file or a request, and `relaydeck init --chain base`. That
gives it `network_type`, `chain_id`, `native_symbol`, `fee_model` and `tip_floor`; a value that the network gives itself
counts. The other facts of this page follow from the chain id, also of a network that names no chain, unless the network
declares them: how the next base fee follows from a block (`base_fee_rule`, `base_fee_denominator`,
`base_fee_elasticity`), the block time (`block_seconds`), the highest gas limit of one transaction (`gas_limit_cap`) and
the margin in the gas (`gas_margin_percent`).
`–` means that a value is not known: then it is read from the nodes, or not checked. `relaydeck doctor` compares the
presets with the nodes.

`basis` says how we know that a preset is right:

- measured: fees were estimated, paid and compared on a node with the rules of the chain.
- recomputed: tests recompute from the published formula what the chain charges;
  [below](#what-is-not-recomputed) is what they leave out.
- stated: the chain states it, and [below](#what-is-not-recomputed) is why nothing is recomputed.

`error` is that of the fee model, from the lowest to the highest, where estimates were compared with
[what was paid](../fee-estimate.md#estimated-against-paid) on a node with its rules, though not on the chain itself; `–`
means that no such node can be run here. A [backtest](../fee-estimate.md#backtest) measures it on your network.

`make docs` writes this page from `src/relaydeck/networks/chains.toml`; a test keeps it current.

| chain | chain id | coin | fee model | next base fee | block time | gas limit | tip floor | basis | error | read |
|---|---|---|---|---|---|---|---|---|---|---|"""

_RULES = {
    "op_stack": "EIP-1559, by the extra data of the block",
    "constant": "that of the newest block",
    "acp176": "ACP-176, by the extra data of the block and the time until the next one",
}


def page() -> str:
    chains = known_chains()
    presets = sorted(chains.presets.items())
    return "\n".join(
        [
            _HEAD,
            *(_row(name, preset) for name, preset in presets),
            "",
            "## Refused",
            "",
            "The cost of a transaction on these chains cannot be computed. A network that names one is refused, with",
            "the reason.",
            "",
            "| chain | chain id | reason | read |",
            "|---|---|---|---|",
            *(f"| `{name}` | {each.chain_id} | {each.reason} | {each.read} |" for name, each in chains.refused.items()),
            "",
            "## What is not recomputed",
            "",
            *(f"- `{name}`: {preset.why}" for name, preset in presets if preset.why),
            "",
            "## Sources",
            "",
            *(f"- `{name}`: {_listed(preset.sources)}" for name, preset in presets),
            *(f"- `{name}`: {_listed(each.sources)}" for name, each in chains.refused.items()),
            "",
        ]
    )


def _row(name: str, preset: Preset) -> str:
    facts = preset.facts
    cells = (
        f"`{name}`",
        preset.chain_id,
        preset.native_symbol,
        f"`{preset.fee_model}`" + (f", margin {facts.gas_margin_percent} %" if facts.gas_margin_percent else ""),
        _rule(facts),
        "–" if facts.block_seconds is None else f"{facts.block_seconds:g} s",
        "–" if facts.gas_limit_cap is None else f"{facts.gas_limit_cap:,}",
        "–" if preset.tip_floor is None else f"{preset.tip_floor:,} Wei",
        preset.basis,
        _error(preset),
        preset.read,
    )
    return f"| {' | '.join(str(each) for each in cells)} |"


def _error(preset: Preset) -> str:
    """As `make paid` measured it of the fee model."""
    rows = [line.strip("| ").split(" | ") for line in _PAID.read_text("utf-8").splitlines() if line.startswith("| ")]
    names = next(row for row in rows if row[0] == "node")
    found = {row[0]: dict(zip(names, row, strict=True)) for row in rows if len(row) == len(names)}
    node = found.get(_MEASURED_ON.get(preset.fee_model, ""))
    return f"{node['lowest']} to {node['highest']}" if node else "–"


def _rule(facts: ChainFacts) -> str:
    if facts.base_fee_rule == "eip1559":
        least = f", at least {facts.base_fee_minimum:,} Wei" if facts.base_fee_minimum else ""
        return f"EIP-1559, 1/{facts.base_fee_denominator}, elasticity {facts.base_fee_elasticity}{least}"
    return _RULES.get(facts.base_fee_rule or "", "–")


def _listed(sources: Sequence[Source]) -> str:
    return "; ".join(f"[{', '.join(each.values)}]({each.url})" for each in sources)
