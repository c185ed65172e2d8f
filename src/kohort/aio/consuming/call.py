"""A call: a verb of a client as a generator of its waits, written once for threads and for tasks.

A call uses the machine, yields what has to be waited for, and goes on with what came of it: it reads from top to
bottom like blocking code. It does no I/O; what a wait means is the business of ``waits.py`` for threads and of
``async_waits.py`` for tasks; ``kohort.aio.calls`` runs them.

No call yields while it holds the machine's guard: an interrupt (Ctrl-C) that ends a wait would leave it taken.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from kohort.client.consumer import ConsumerMachine
from kohort.client.group.callbacks import CallbackNeeded
from kohort.client.requests.close_timeout import CloseTimeout
from kohort.client.requests.promise import Promise

R = TypeVar("R")


@dataclass(slots=True)
class WaitFor:
    """Wait for the result of ``promise``, which is what came of it, or its error.

    ApiTimeout with the text ``too_late`` when time is up; with ``check`` also what failed in the background meanwhile.
    """

    promise: Promise[Any]
    timeout_ms: int
    too_late: str
    check: bool = True


@dataclass(slots=True)
class WaitUntil:
    """Wait until ``ready``, called under the guard, returns something; None came of it when time is up.

    Rebalances do not go on meanwhile.
    """

    ready: Callable[[], Any]
    timeout_ms: int


@dataclass(slots=True)
class WaitLast:
    """Wait until ``promise`` has a result or an error, which is not raised, at most for ``close_timeout``."""

    promise: Promise[Any]
    close_timeout: CloseTimeout


@dataclass(slots=True)
class PollUntil:
    """Be in a poll until ``ready`` returns something; None came of it when time is up.

    The member counts as alive, rebalances go on, and the listener is told. ``ready`` is called without the guard,
    again when ``has_work`` says so under it.
    """

    ready: Callable[[], Any]
    timeout_ms: int
    has_work: Callable[[], bool]


@dataclass(slots=True)
class Run:
    """Run what is the user's or the face's own; in tasks, what it returns is awaited if it can be."""

    work: Callable[[], Any]


Wait = WaitFor | WaitUntil | WaitLast | PollUntil | Run
Call = Generator[Wait, Any, R]


class Waits(Protocol):
    """What calls need of the waits of a face, besides that these run them."""

    machine: ConsumerMachine
    listener: Any

    @property
    def guard(self) -> AbstractContextManager[Any]:
        """Held while the machine is used."""

    def now_ms(self) -> int:
        """Return the time in milliseconds."""

    def kick(self) -> None:
        """Let the engine look at what changed."""

    def look_again(self) -> None:
        """Let whoever waits look again."""

    def tell(self, callback: CallbackNeeded) -> Any:
        """Run the listener, or return what has to be awaited for it. Its first error is kept."""

    def raise_listener_error(self) -> None:
        """Raise the error that was kept."""

    def run_anywhere(self, call: Call[Any]) -> Any:
        """Run a call in whatever thread or task, or return what has to be awaited for it."""


def leave_group(waits: Waits, reason: str, close_timeout: CloseTimeout) -> Call[None]:
    """Tell the listener, leave the group, and wait for the answer, but for no longer than ``close_timeout``.

    Raises the listener's error.
    """
    with waits.guard:
        callback = waits.machine.prepare_leave()
    if callback is not None:
        yield Run(lambda: waits.tell(callback))
    with waits.guard:
        promise = waits.machine.leave(reason)
    yield WaitLast(promise, close_timeout)
    waits.raise_listener_error()
