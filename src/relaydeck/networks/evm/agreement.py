"""Decides what several nodes say: the newest block and verdicts by the majority, numbers by the median.

A node that the others outvote loses rank. Without a majority nobody is believed: the error names who said what.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import eq
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from relaydeck.networks.chains import ChainFacts
from relaydeck.networks.evm.calls import Answer, Call, Calls, Said
from relaydeck.networks.evm.errors import NoCurrentBlock, NodeError, NodesDisagree, refusal
from relaydeck.networks.evm.header import Header
from relaydeck.networks.evm.node import Node

T = TypeVar("T")
MOST_NODES = 5  # that are asked the same
_MOST_DISPUTES = 20  # that are kept
_MOST_WORDS = 5  # of a byte string in a message
_PARTS = 50  # two such numbers differ by at most one of so many parts
_SMALL = 1000  # Wei: near zero, a factor means nothing


def shown_answer(value: Any) -> str:
    """An answer as numbers: no text of a node is shown."""
    if isinstance(value, bytes):
        words = [int.from_bytes(value[start : start + 32], "big") for start in range(0, len(value), 32)]
        return " ".join(map(str, words[:_MOST_WORDS])) or "nothing"
    return str(value)


class Subject(msgspec.Struct, Generic[T], frozen=True, eq=False):
    """What nodes are asked about, and when two answers agree."""

    name: str  # in messages
    same: Callable[[T, T], bool] = eq
    size: Callable[[T], int] | None = None  # by which the median is taken; None: those that agree are equal
    shown: Callable[[T], str] = shown_answer
    refuses: Callable[[T], bool] = lambda _: False  # an answer that refuses what the caller wants; an error always does

    def agree(self, one: T | NodeError, other: T | NodeError) -> bool:
        if isinstance(one, NodeError) or isinstance(other, NodeError):
            return isinstance(one, NodeError) and isinstance(other, NodeError)
        return self.same(one, other)

    def is_refused(self, value: T | NodeError) -> bool:
        return isinstance(value, NodeError) or self.refuses(value)

    def said(self, value: T | NodeError) -> str:
        return refusal(value) if isinstance(value, NodeError) else self.shown(value)


def near(one: int, other: int) -> bool:
    """Of what nodes suggest by rules of their own: such numbers differ by more than base fees do."""
    low, high = sorted((one, other))
    return high <= 3 * low or high < _SMALL


def similar(one: int, other: int) -> bool:
    """Of nodes that search for a number and stop when they are near, such as the gas that a transaction needs."""
    return abs(one - other) * _PARTS <= max(one, other)


class Decision(NamedTuple):
    chosen: Said
    believed: list[Said]

    @property
    def nodes(self) -> str:
        return ", ".join(each.node.shown for each in self.believed)


def decide(said: Sequence[Said], quorum: int, about: Subject[Any]) -> Decision:
    """Believe the majority of those that answer, of at least two where several are asked. Raises `NodesDisagree`."""
    believed, values = majority(said, about), [each.value for each in said]
    if not believed:
        raise NodesDisagree(f"the nodes disagree about {about.name}: {testimony(said, about)}", values)
    if len(said) < least(quorum):
        alone = f"{quorum} nodes decide about {about.name}, and only one answers: {testimony(said, about)}"
        raise NodesDisagree(alone, values)
    return Decision(_median(believed, about), believed)


def least(quorum: int) -> int:
    """How many answers there must be at least: one says nothing where several nodes decide."""
    return min(quorum, 2)


def majority(said: Sequence[Said], about: Subject[Any]) -> list[Said]:
    """Those that agree with each other, if they are more than half; else none."""
    if len(said) == 1:
        return list(said)
    groups = [[other for other in said if about.agree(one.value, other.value)] for one in said]
    largest = max(groups, key=len, default=[])
    return largest if 2 * len(largest) > len(said) else []


def _median(believed: list[Said], about: Subject[Any]) -> Said:
    """Of an even number the higher of the two in the middle: an estimate is rather too high than too low."""
    size = about.size
    if size is None or isinstance(believed[0].value, NodeError):
        return believed[0]
    return sorted(believed, key=lambda each: size(each.value))[len(believed) // 2]


def testimony(said: Sequence[Said], about: Subject[Any], verb: str = "") -> str:
    """What each of them answered. It contains hosts, and answers in our words."""
    return "; ".join(f"{each.node.shown} {verb}{about.said(each.value)}" for each in said) or "no answer"


class Dispute(NamedTuple):
    """Nodes answered differently about something. It is over when all of them agree."""

    said: str  # in our words
    nodes: set[Node]


class Agreement:
    """Asks as many nodes as must agree, at the same time, and the others when those do not."""

    def __init__(self, calls: Calls, quorum: Callable[[], int], outvote: Callable[[Node, str], None]) -> None:
        self.disagreements = 0  # times that nodes answered differently
        self.disputes: dict[str, Dispute] = {}  # by subject
        self._calls = calls
        self._quorum = quorum
        self._outvote = outvote

    async def ask(self, call: Call[T], about: Subject[T]) -> Answer[T]:
        """Raises `NodeError` when the nodes agree on it, `NodesUnreachable`, `NodesDisagree`."""
        quorum = self._quorum()
        said = await self._calls.hear(call, quorum)
        if len(said) == 1 == quorum and not about.is_refused(said[0].value):  # one node decides
            return Answer(said[0].value, said[0].node.shown)
        decision = self.settle(await self._enough(said, call, about), about)
        if isinstance(decision.chosen.value, NodeError):
            raise decision.chosen.value
        return Answer(decision.chosen.value, decision.nodes)

    async def ask_each(self, call: Call[list[Any]], subjects: Sequence[Subject[Any]]) -> list[Decision | NodesDisagree]:
        """Several questions in one request. What is decided may be a `NodeError`."""
        whole: Subject[list[Any]] = Subject("", lambda one, other: _all_agree(subjects, one, other), refuses=_has_error)
        said = await self._enough(await self._calls.hear(call, self._quorum()), call, whole)
        return [self.settled(*each) for each in zip(by_question(said, len(subjects)), subjects, strict=True)]

    def settled(self, said: Sequence[Said], about: Subject[Any]) -> Decision | NodesDisagree:
        try:
            return self.settle(said, about)
        except NodesDisagree as failure:
            return failure

    async def _enough(self, said: list[Said], call: Call[T], about: Subject[T]) -> list[Said]:
        """What was said and, if that does not decide, what more nodes say."""
        if self._quorum() == 1 and about.is_refused(said[0].value):  # confirmed by a second node, if there is one
            said += await self._calls.hear_more(call, 1)
        if not majority(said, about):
            said += await self._calls.hear_more(call, MOST_NODES - len(said))
        return said

    def settle(self, said: Sequence[Said], about: Subject[T]) -> Decision:
        """Raises `NodesDisagree`."""
        if len(said) == 1 and self._quorum() == 1:
            return Decision(said[0], list(said))
        try:
            decision = decide(said, self._quorum(), about)
        except NodesDisagree as failure:
            self._note(said, about)
            for each in said if len(said) > 1 else ():
                others = testimony([other for other in said if other is not each], about, "answered ")
                each.node.note_dispute(f"answered {about.said(each.value)} about {about.name}; {others}")
            if len(said) >= least(self._quorum()):
                raise
            others = self._calls.problems([each.node for each in said])
            raise NodesDisagree(f"{failure}; {others}", failure.values) from None
        if len(decision.believed) < len(said):
            self._note(said, about)
            for each in said:
                if each not in decision.believed:
                    theirs, ours = about.said(each.value), about.said(decision.chosen.value)
                    self._outvote(each.node, f"answered {theirs} about {about.name}; the others answered {ours}")
        else:
            self._end_dispute(said, about)
        return decision

    def _end_dispute(self, said: Sequence[Said], about: Subject[Any]) -> None:
        """It is over when each of its nodes has agreed with another one."""
        dispute = self.disputes.get(about.name)
        if dispute is not None:
            dispute.nodes.difference_update(each.node for each in said)
            if not dispute.nodes:
                del self.disputes[about.name]

    def _note(self, said: Sequence[Said], about: Subject[Any]) -> None:
        self.note(about.name, Dispute(testimony(said, about), {each.node for each in said}))

    def note(self, name: str, dispute: Dispute) -> None:
        self.disagreements += 1
        if len(self.disputes) >= _MOST_DISPUTES and name not in self.disputes:
            del self.disputes[next(iter(self.disputes))]
        self.disputes[name] = dispute


def by_question(said: Sequence[Said], count: int) -> list[list[Said]]:
    """What each node answered to each of so many questions of one request."""
    lists = [each for each in said if not isinstance(each.value, NodeError)]
    return [[Said(each.node, each.value[place]) for each in lists] for place in range(count)]


def _all_agree(subjects: Sequence[Subject[Any]], one: list[Any], other: list[Any]) -> bool:
    return all(about.agree(ours, theirs) for about, ours, theirs in zip(subjects, one, other, strict=True))


def _has_error(answers: list[Any]) -> bool:
    return any(isinstance(each, NodeError) for each in answers)


# -- The newest block of a chain: the one that most nodes have --
# A node whose block does not fit its hash, or is too old to be the newest, does not count. A newer block vouches for
# its parent, so that a node which is one block ahead counts for the block that the others have.

FORGED = "sends a block that does not fit its hash"


class Poll(NamedTuple):
    """The blocks that nodes called their newest at one moment."""

    read: Mapping[Node, Header]
    problems: Mapping[Node, str]  # of those that do not count
    needed: int  # nodes that must have the same block

    @property
    def counted(self) -> dict[Node, Header]:
        """A node that tells only the number of its block is not counted beside nodes that show theirs."""
        usable = {node: header for node, header in self.read.items() if node not in self.problems}
        return {node: header for node, header in usable.items() if header.fields} or usable

    @property
    def number(self) -> int:
        """The highest that enough nodes have reached."""
        return sorted((header.number for header in self.counted.values()), reverse=True)[self.needed - 1]

    def unclear(self) -> list[Node]:
        """The nodes that are too far ahead to show which block of this number they have."""
        return [node for node, header in self.counted.items() if header.number > self.number + 1]

    def head(self, shown: Mapping[Node, Header]) -> Header:
        """`shown`: the blocks of this number that unclear nodes have. Raises `NodesDisagree`."""
        number, counted = self.number, self.counted | dict(shown)
        votes = [(_votes(header, counted), header) for header in counted.values() if header.number == number]
        most, head = max(votes, key=lambda vote: vote[0])
        rivals = any(other != head and count == most for count, other in votes)
        if most < self.needed or rivals or self._contradicts(head, counted):
            raise NodesDisagree(f"the nodes disagree about the newest block: {self._said()}")
        return head

    def _contradicts(self, head: Header, counted: Mapping[Node, Header]) -> bool:
        """Of two nodes neither is believed against the other about the block before the newest."""
        if len(counted) != 2 or not head.parent:
            return False
        return any(each.number == head.number - 1 and each.hash not in ("", head.parent) for each in counted.values())

    def _said(self) -> str:
        return "; ".join(f"{node.shown} {each.shown}" for node, each in self.read.items())


def poll(read: Mapping[Node, Header], quorum: int, facts: ChainFacts, now: float) -> Poll:
    """Raises `NoCurrentBlock`, and `NodesDisagree` when fewer nodes than the quorum have a current block."""
    problems = _problems(read, facts, now)
    count = len(Poll(read, problems, 0).counted)
    if not count:
        raise NoCurrentBlock("; ".join(f"{node.shown} {problem}" for node, problem in problems.items()))
    needed = 1 if quorum == 1 and count <= 2 else max(2, count // 2 + 1)
    if needed > count:
        others = "".join(f"; {node.shown} {problem}" for node, problem in problems.items())
        raise NodesDisagree(f"two nodes must have the same newest block, and one has a current one{others}")
    return Poll(read, problems, needed)


def _problems(read: Mapping[Node, Header], facts: ChainFacts, now: float) -> dict[Node, str]:
    problems = {node: problem for node, header in read.items() if (problem := _age_problem(header, facts, now))}
    current = {node: header for node, header in read.items() if node not in problems}
    genuine: list[Header] = []
    for header in current.values():
        if header not in genuine and header.is_genuine:
            genuine.append(header)
    if genuine:
        problems |= {node: FORGED for node, header in current.items() if header.fields and header not in genuine}
    return problems


def _age_problem(header: Header, facts: ChainFacts, now: float) -> str:
    most, moment = facts.stale_seconds, header.timestamp
    if most is None or moment is None or now - moment <= most:
        return ""
    return f"has no current block: its newest is {int(now - moment)} seconds old"


def _votes(head: Header, counted: Mapping[Node, Header]) -> int:
    return sum(
        each == head or (each.number == head.number + 1 and each.parent == head.hash != "") for each in counted.values()
    )
