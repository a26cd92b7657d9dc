"""Accounts that sign, of an implementation that is not ours."""

import sys
from functools import cache
from typing import Any


@cache
def account(key: str | bytes) -> Any:
    # Imported when a test needs it: that takes most of a second, in each process of a test run.
    limit = sys.getrecursionlimit()
    from eth_account import Account

    sys.setrecursionlimit(limit)  # what it imports raises the limit for the whole process
    return Account.from_key(key)


def example() -> Any:
    """The account of the example in EIP-155."""
    return account("0x" + "46" * 32)
