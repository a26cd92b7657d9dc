"""Accounts that sign, of an implementation that is not ours."""

import sys
from functools import cache
from typing import Any


def eth_account() -> Any:
    """The package, imported when a test needs it: that takes most of a second, in each process of a test run.

    What it imports raises the recursion limit of the process so far that deep JSON overflows the stack.
    """
    limit = sys.getrecursionlimit()
    import eth_account
    import eth_account.messages

    sys.setrecursionlimit(limit)
    return eth_account


@cache
def account(key: str | bytes) -> Any:
    return eth_account().Account.from_key(key)


def example() -> Any:
    """The account of the example in EIP-155."""
    return account("0x" + "46" * 32)
