"""The columns of a SELECT follow the fields of the type that its rows become."""

from typing import NamedTuple

import pytest

from relaydeck.store.rows import columns_of


class _Delivery(NamedTuple):
    sequence: int
    state: str
    last_problem: str


def test_columns_have_the_names_and_the_order_of_the_fields() -> None:
    columns = columns_of(_Delivery._fields, "d", last_problem="(SELECT 'none')", sequence="d.seq")
    assert columns == "d.seq AS sequence, d.state, (SELECT 'none') AS last_problem"


def test_a_source_without_a_field_is_an_error() -> None:
    with pytest.raises(AssertionError):
        columns_of(_Delivery._fields, tries="tries")
