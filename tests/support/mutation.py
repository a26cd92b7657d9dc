"""A pytest plugin for `make mutate`."""

import pytest

NODES = {"hardhat", "ganache"}


def pytest_configure() -> None:
    # mutmut 3.8 reads an attribute of test items that pytest 9 has renamed.
    pytest.Item._nodeid = property(lambda item: item.nodeid)  # type: ignore[attr-defined]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that start a node: each mutant would start it again."""
    slow = [item for item in items if NODES & set(getattr(item, "fixturenames", ()))]
    items[:] = [item for item in items if item not in slow]
    config.hook.pytest_deselected(items=slow)
