"""Compares the fee data of several nodes: which of them agree, and which answer is believed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from relaydeck.networks.evm.figures import Figures
from relaydeck.networks.evm.landmark import may_follow
from relaydeck.networks.evm.node import Node
from relaydeck.networks.evm.view import within

_WITH_TIPS = 3  # by which prices with tips may differ: the tips of a few blocks vary more than base fees
_NOMINAL = 1000  # Wei: a base fee below it is no part of what a transaction pays


@dataclass(frozen=True, slots=True)
class Witness:
    """One node's answer to a question about fees."""

    node: Node
    value: Any
    figures: Figures

    @property
    def price(self) -> int:
        return self.figures.price or 0

    def agrees(self, other: "Witness", factor: int) -> bool:
        """Base fees differ only by the blocks between two answers; tips and suggestions of two nodes by some factor."""
        ours, theirs = self.figures, other.figures
        if ours.block is None or theirs.block is None:
            return within(self.price, other.price, factor)
        blocks = 1 + abs(ours.block - theirs.block)
        if not may_follow(ours.blob_price, theirs.blob_price, blocks):
            return False
        idle = self.price == ours.base_fee or other.price == theirs.base_fee  # no tips say nothing about the price
        tips_agree = idle or within(self.price, other.price, min(factor, _WITH_TIPS))
        return tips_agree and may_follow(ours.base_fee, theirs.base_fee, blocks)


def believed_by_quorum(witnesses: Sequence[Witness], quorum: int, factor: int) -> list[Witness]:
    """The one group of at least `quorum` witnesses that agree. Empty when there is none, or when there are two."""
    groups = [[other for other in witnesses if one.agrees(other, factor)] for one in witnesses]
    large = [group for group in groups if len(group) >= quorum]
    if not large or any(not one.agrees(other, factor) for group in large for one in group for other in large[0]):
        return []
    return large[0]


def believed_by_bounds(witnesses: Sequence[Witness], factor: int, base_fee: int | None) -> list[Witness]:
    """Those near the median price. Of two that are far apart, the higher one that the base fee makes plausible.

    Neither of the two where the chain has no base fee, or a nominal one that says nothing about the price.
    """
    middle = sorted(witnesses, key=_price)[len(witnesses) // 2]
    near = [each for each in witnesses if within(each.price, middle.price, factor)]
    if len(witnesses) != 2 or len(near) == 2:
        return near
    if base_fee is None or base_fee < _NOMINAL:
        return []
    plausible = [each for each in witnesses if each.price <= factor * base_fee]
    return [max(plausible, key=_price) if plausible else min(witnesses, key=_price)]


def testimony(witnesses: Sequence[Witness]) -> str:
    """What each of them answered. It contains hosts and prices only."""
    return ", ".join(f"{witness.node.shown} {witness.price} Wei" for witness in witnesses) or "no answer"


def _price(witness: Witness) -> int:
    return witness.price
