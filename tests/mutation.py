"""A pytest plugin for `make mutate`: mutmut 3.8 reads an attribute of test items that pytest 9 has renamed."""

import pytest


def pytest_configure() -> None:
    pytest.Item._nodeid = property(lambda item: item.nodeid)  # type: ignore[attr-defined]
