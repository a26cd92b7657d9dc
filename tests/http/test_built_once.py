"""Answers that are built by the first request for them."""

import asyncio

import pytest

from relaydeck.http.built_once import BuiltOnce


class Workshop:
    """Builds when it is told to."""

    def __init__(self) -> None:
        self.begun = 0
        self.go = asyncio.Event()
        self.failure: Exception | None = None

    async def build(self) -> bytes:
        self.begun += 1
        await self.go.wait()
        if self.failure is not None:
            raise self.failure
        return b"built"


async def test_requests_at_the_same_time_and_later_share_what_is_built() -> None:
    workshop = Workshop()
    answer = BuiltOnce(workshop.build)
    workshop.go.set()
    assert list(await asyncio.gather(answer.get(), answer.get())) == [b"built", b"built"]
    assert (await answer.get(), workshop.begun) == (b"built", 1)


async def test_a_request_that_ends_early_does_not_stop_the_building() -> None:
    workshop = Workshop()
    answer = BuiltOnce(workshop.build)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await answer.get()
    workshop.go.set()
    assert (await answer.get(), workshop.begun) == (b"built", 1)


async def test_what_failed_is_built_again() -> None:
    workshop = Workshop()
    answer = BuiltOnce(workshop.build)
    workshop.go.set()
    workshop.failure = MemoryError()
    with pytest.raises(MemoryError):
        await answer.get()
    workshop.failure = None
    assert (await answer.get(), workshop.begun) == (b"built", 2)
