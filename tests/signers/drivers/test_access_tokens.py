"""Tokens live in memory, are shared, renewed in time, dropped when refused, and bounded in number."""

import asyncio

import pytest

from relaydeck.signers.drivers.driver_errors import AccessDenied
from relaydeck.signers.drivers.http_client import AccessToken, AccessTokens


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Issuer:
    def __init__(self, tokens: AccessTokens, lifetime: float = 600) -> None:
        self._tokens = tokens
        self._lifetime = lifetime
        self.previous: list[bool] = []

    async def __call__(self, previous: AccessToken | None) -> AccessToken:
        await asyncio.sleep(0)
        self.previous.append(previous is not None)
        return self._tokens.issued(f"token-{len(self.previous)}", self._lifetime)


async def test_many_who_need_one_at_once_obtain_one() -> None:
    tokens = AccessTokens(Clock())
    issuer = Issuer(tokens)
    found = await asyncio.gather(*(tokens.get("a", issuer) for _ in range(100)))
    assert ({each.value.reveal() for each in found}, len(issuer.previous)) == ({"token-1"}, 1)


@pytest.mark.parametrize(("passed", "obtained"), [(539, [False]), (540, [False, True]), (600, [False, False])])
async def test_a_token_is_renewed_before_it_expires(passed: float, obtained: list[bool]) -> None:
    clock = Clock()
    tokens = AccessTokens(clock)
    issuer = Issuer(tokens)
    await tokens.get("a", issuer)
    clock.now += passed
    await tokens.get("a", issuer)
    assert issuer.previous == obtained


async def test_a_short_token_is_renewed_in_its_last_fifth() -> None:
    assert AccessTokens(Clock()).issued("t", 10).renew_at == 1008


async def test_a_token_without_end_stays() -> None:
    clock = Clock()
    tokens = AccessTokens(clock)
    issuer = Issuer(tokens, 0)
    await tokens.get("a", issuer)
    clock.now += 1e9
    await tokens.get("a", issuer)
    assert len(issuer.previous) == 1


async def test_a_dropped_token_is_not_used_again() -> None:
    tokens = AccessTokens(Clock())
    issuer = Issuer(tokens)
    tokens.drop("a", await tokens.get("a", issuer))
    assert (await tokens.get("a", issuer)).value.reveal() == "token-2"


async def test_dropping_a_token_spares_its_successor() -> None:
    tokens = AccessTokens(Clock())
    issuer = Issuer(tokens)
    first = await tokens.get("a", issuer)
    tokens.drop("a", first)
    await tokens.get("a", issuer)
    tokens.drop("a", first)
    assert (await tokens.get("a", issuer)).value.reveal() == "token-2"


async def test_a_failed_login_is_tried_again() -> None:
    tokens = AccessTokens(Clock())

    async def refused(_: AccessToken | None) -> AccessToken:
        raise AccessDenied("no")

    with pytest.raises(AccessDenied):
        await tokens.get("a", refused)
    assert (await tokens.get("a", Issuer(tokens))).value.reveal() == "token-1"


async def test_the_number_of_tokens_is_bounded() -> None:
    tokens = AccessTokens(Clock())
    issuer = Issuer(tokens)
    for number in range(3000):
        await tokens.get(number, issuer)
    assert len(tokens._entries) == 1024
