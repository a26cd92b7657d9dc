"""The result of one check."""

from typing import Literal, NamedTuple


class Finding(NamedTuple):
    result: Literal["ok", "warn", "FAIL"]
    subject: str
    remark: str
