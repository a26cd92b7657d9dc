"""What a pool knows about its chain, and which answers that rules out."""

from collections import deque
from collections.abc import Callable
from statistics import median_low
from typing import NamedTuple

from relaydeck.networks.evm.figures import Figures
from relaydeck.networks.evm.landmark import Landmark, may_follow
from relaydeck.networks.evm.node import Node
from relaydeck.networks.evm.options import PoolRules

_SAMPLE_SECONDS = 120.0  # a price may move far in a longer time
_MAX_SAMPLES = 32
_MAX_JUMP = 1_000  # blocks between two comparisons


class _Sample(NamedTuple):
    moment: float
    node: Node
    price: int


class ChainView:
    def __init__(self, rules: PoolRules, monotonic: Callable[[], float]) -> None:
        self.rules = rules
        self.newest: Landmark | None = None  # that the nodes agree on
        self._claimed_block = 0  # the newest in any answer since then
        self._monotonic = monotonic
        self._samples: dict[str, deque[_Sample]] = {}  # accepted prices, by method
        self._claims: dict[tuple[Node, str], _Sample] = {}  # prices that were refused

    def problem(self, figures: Figures, node: Node, fresh: list[Node]) -> str:
        """Why the answer is not used, in our own words; empty when nothing speaks against it.

        `fresh` are the usable nodes. What only another node could do better is no problem while there is none.
        """
        problem = self._gas_problem(figures)
        if problem or fresh in ([], [node]):
            return problem
        problem = self._block_problem(figures) or self._price_problem(figures, node, fresh)
        if not problem and figures.block is not None and not node.stale:
            self.note_block(figures.block)
        return problem

    def _gas_problem(self, figures: Figures) -> str:
        if figures.gas is None:
            return ""
        if figures.gas < figures.least_gas:
            return "answered less gas than the transaction costs before it runs"
        limit = self.newest.gas_limit if self.newest else None
        return "answered more gas than a block has" if limit is not None and figures.gas > limit else ""

    def _block_problem(self, figures: Figures) -> str:
        if figures.block is None or self.newest is None:
            return ""
        behind = self._known_block(self.newest) - figures.block
        return f"answered {behind} blocks behind the other nodes" if behind > self.rules.max_lag_blocks else ""

    def _known_block(self, newest: Landmark) -> int:
        """No farther ahead than a node may be behind: the claim of one node must not make all others old."""
        return min(max(newest.number, self._claimed_block), newest.number + self.rules.max_lag_blocks)

    def _price_problem(self, figures: Figures, node: Node, fresh: list[Node]) -> str:
        if figures.price is None:
            return ""
        problem = ""
        if self._is_impossible(figures):
            problem = "answered a price that cannot follow the newest block's base fee"
        elif not self._fits_newest(figures) and self._is_far(figures.price, figures.price_from, node):
            problem = "answered a price far from that of the other nodes"
        return "" if problem and self._all_claim(figures.price, figures.price_from, node, fresh) else problem

    def _fits_newest(self, figures: Figures) -> bool:
        """Whether the block that the nodes agree on explains the price. Then other prices prove nothing against it."""
        base_fee = self.newest.base_fee if self.newest else None
        if base_fee is None or figures.price is None or not figures.is_whole_price:
            return False
        return within(figures.price, base_fee, self.rules.price_factor)

    def _is_far(self, price: int, method: str, node: Node) -> bool:
        others = [each.price for each in self._recent(method) if each.node is not node]
        return bool(others) and not within(price, median_low(others), self.rules.price_factor)

    def _is_impossible(self, figures: Figures) -> bool:
        newest = self.newest
        if newest is None or newest.base_fee is None or not figures.is_whole_price:
            return False
        if figures.base_fee is None:  # a price that no block would include
            return figures.price is not None and 2 * figures.price + 100 < newest.base_fee
        distance = abs(figures.block - newest.number) if figures.block is not None else 0
        return not may_follow(figures.base_fee, newest.base_fee, distance + 1)

    def _all_claim(self, price: int, method: str, node: Node, fresh: list[Node]) -> bool:
        """Whether every usable node answers the same: then what the pool knew is out of date."""
        now = self._monotonic()
        self._claims[node, method] = _Sample(now, node, price)
        held = [self._claims.get((each, method)) for each in fresh]
        return all(each and now - each.moment < _SAMPLE_SECONDS and within(each.price, price, 2) for each in held)

    def agree_on(self, newest: Landmark | None) -> None:
        """None: the nodes agree on nothing now, so what they agreed on before stays."""
        if newest is not None:
            self.newest = newest
            self._claimed_block = newest.number

    def note_block(self, number: int) -> None:
        """From an answer. One far ahead of what the nodes agree on is not believed."""
        if self.newest is not None and number <= self.newest.number + _MAX_JUMP:
            self._claimed_block = max(self._claimed_block, number)

    @property
    def is_outdated(self) -> bool:
        """Whether answers show blocks that are farther ahead than a node may be behind."""
        return self.newest is not None and self._claimed_block - self.newest.number > self.rules.max_lag_blocks

    def accept(self, node: Node, figures: Figures) -> None:
        if figures.price is not None:
            samples = self._samples.setdefault(figures.price_from, deque(maxlen=_MAX_SAMPLES))
            samples.append(_Sample(self._monotonic(), node, figures.price))

    def sampled(self, method: str) -> set[Node]:
        """The nodes that prices were accepted from lately."""
        return {each.node for each in self._recent(method)}

    def _recent(self, method: str) -> list[_Sample]:
        now = self._monotonic()
        return [each for each in self._samples.get(method, ()) if now - each.moment < _SAMPLE_SECONDS]


def within(one: int, other: int, factor: int) -> bool:
    low, high = sorted((one, other))
    return high <= low * factor or high < 1000  # Wei: near zero, factors mean nothing
