"""What every step of a run shares: the load, the tools, a folder that goes away, and the progress bar."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench.comparing import Comparison, Side, compare
from bench.homes import Home
from bench.load import Load, Request, ask_once
from bench.processes import Server
from bench.service import await_quiet, first_answer, serve_bare, serve_relaydeck

SIGNERS = "/api/v1/signers"
RELAYERS = "/api/v1/relayers"


@dataclass(frozen=True)
class Pace:
    rounds: int
    fresh_sets: int  # of servers, where a goal is close: the luck of a start stays with a process for its life
    seconds: int
    starts: int
    starts_of_the_large: int
    middle: int
    large: int
    estimates: int
    delivery_rounds: int
    delivery_seconds: float  # of one slice
    visible_writes: int  # between replicas

    @property
    def rounds_of_a_set(self) -> int:
        return -(-self.rounds // self.fresh_sets)

    @property
    def fresh_seconds(self) -> float:
        """Of one side, in all sets."""
        return self.fresh_sets * self.rounds_of_a_set * self.seconds


FULL = Pace(
    rounds=9,
    fresh_sets=3,
    seconds=1,
    starts=9,
    starts_of_the_large=3,
    middle=10_000,
    large=1_000_000,
    estimates=300,
    delivery_rounds=9,
    delivery_seconds=1.2,
    visible_writes=200,
)
QUICK = Pace(
    rounds=3,
    fresh_sets=1,
    seconds=1,
    starts=3,
    starts_of_the_large=2,
    middle=1_000,
    large=20_000,
    estimates=50,
    delivery_rounds=2,
    delivery_seconds=0.5,
    visible_writes=20,
)


@dataclass
class Run:
    pace: Pace
    load: Load
    nginx: str | None
    folder: Path
    advance: Callable[[float], None]  # called with seconds of planned work that are done
    small_print: list[str] = field(default_factory=list)
    kept: dict[str, Home] = field(default_factory=dict)  # homes that several steps look at

    def compare(self, title: str, sides: Sequence[Side]) -> Comparison:
        return self._told(title, self._measured(sides, self.pace.rounds))

    def compare_fresh(self, title: str, start: Callable[[ExitStack], Sequence[Side]]) -> Comparison:
        """Compare several sets of servers, each started for its share of the rounds."""
        sets = []
        for _ in range(self.pace.fresh_sets):
            with ExitStack() as stack:
                sets.append(self._measured(start(stack), self.pace.rounds_of_a_set))
        return self._told(title, Comparison.together(sets))

    def _measured(self, sides: Sequence[Side], rounds: int) -> Comparison:
        seconds = self.pace.seconds
        return compare(
            self.load, sides, rounds=rounds, seconds=seconds, advance=lambda: self.advance(len(sides) * seconds)
        )

    def _told(self, title: str, found: Comparison) -> Comparison:
        self.small_print += [f"{title}, {line}" for line in found.lines()]
        return found

    def capture(self, name: str, server: Server, request: Request) -> Path:
        """Keep a whole answer, for servers that replay it."""
        path = self.folder / f"{name}.answer"
        path.write_bytes(ask_once(server.port, request))
        return path


def get(home: Home, path: str) -> Request:
    return Request("GET", path, {"Authorization": f"Bearer {home.token}"})


def started_relaydeck(
    stack: ExitStack, home: Home, path: str = SIGNERS, *, workers: int = 1, **settings: str
) -> Server:
    server = stack.enter_context(serve_relaydeck(home, workers=workers, **settings))
    first_answer(server, get(home, path))
    return server


def warm_relaydeck(stack: ExitStack, home: Home) -> Server:
    """Started, and finished with what a start does in the background: that is not part of serving a request."""
    server = started_relaydeck(stack, home)
    await_quiet(server)
    return server


def started_bare(stack: ExitStack, answer: Path) -> Server:
    server = stack.enter_context(serve_bare(answer))
    first_answer(server, Request("GET", "/", {}))
    return server
