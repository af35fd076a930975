"""Tables of functions by class, which modules fill when they are imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_HandlerT = TypeVar("_HandlerT", bound=Callable[..., Any])


class Handlers(dict[type, Callable[..., Any]]):
    """For each class the function that works on its instances."""

    def of(self, kind: type) -> Callable[[_HandlerT], _HandlerT]:
        """Decorator: the function is for that class."""

        def register(function: _HandlerT) -> _HandlerT:
            self[kind] = function
            return function

        return register
