"""Turns the functions that build a call into methods that run it, with their documentation and signature."""

import inspect
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, TypeVar, get_args

Method = TypeVar("Method", bound=Callable[..., Any])


def documented(run: Method, build: Callable[..., Any], returns: Any = None) -> Method:
    """`run` with the name, text and parameters of `build`; it returns what the call returns, or `returns` of it."""
    update_wrapper(run, build)
    del run.__wrapped__  # type: ignore[attr-defined]  # its first parameter is not self
    built = inspect.signature(build)
    (result,) = get_args(built.return_annotation)
    self = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    run.__signature__ = built.replace(  # type: ignore[attr-defined]
        parameters=[self, *built.parameters.values()],
        return_annotation=result if returns is None else returns[result],
    )
    return run
