"""A result that a machine will have later: asked for by the user, completed by an answer."""

from __future__ import annotations

from typing import Generic, TypeVar, cast

from kohort.errors import KohortError

T = TypeVar("T")


class Promise(Generic[T]):
    """Completed once, with a value or an error; ``done`` is all that a waiter has to look at."""

    __slots__ = ("_value", "done", "error")

    def __init__(self) -> None:
        self.done = False
        self.error: KohortError | None = None
        self._value: T | None = None

    def resolve(self, value: T) -> None:
        if not self.done:
            self.done = True
            self._value = value

    def fail(self, error: KohortError) -> None:
        if not self.done:
            self.done = True
            self.error = error

    def result(self) -> T:
        assert self.done, "it is not done yet"
        if self.error is not None:
            raise self.error
        return cast("T", self._value)
