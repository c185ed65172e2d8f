"""Calls: methods of a client as generators of their waits, written once for threads and for tasks.

A call uses the machine, yields each wait, and goes on with its result: it reads from top to bottom like blocking code.
``run_call`` waits in the caller's thread, ``run_call_async`` awaits. A consumer's waits are in ``waits.py``
and ``async_waits.py``.

No call yields while it holds the machine's guard: an interrupt (Ctrl-C) that ends a wait would leave it taken.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import wraps
from inspect import GEN_CLOSED, getgeneratorstate, isfunction, signature
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from kohort.client.consumer import CloseTimeout, ConsumerMachine
from kohort.client.group.membership import CallbackNeeded
from kohort.client.requests.source import Promise
from kohort.model import TopicPartition

F = TypeVar("F", bound=type)
P = ParamSpec("P")
R = TypeVar("R")
W = TypeVar("W")


def run_call(call: Generator[W, Any, R], wait_out: Callable[[W], Any]) -> R:
    """Run ``call`` to its end, with a function that blocks for each of its waits. Return its result.

    What a wait raises, an interrupt too, is raised at the ``yield``: the ``finally`` clauses of a call may wait.
    """
    failed: BaseException | None = None
    while True:
        try:
            wait = next(call) if failed is None else call.throw(failed)
            while True:
                wait = call.send(wait_out(wait))
        except BaseException as error:
            if getgeneratorstate(call) == GEN_CLOSED:
                if isinstance(error, StopIteration):
                    return cast("R", error.value)
                raise
            failed = error


async def run_call_async(call: Generator[W, Any, R], wait_out: Callable[[W], Awaitable[Any]]) -> R:
    """Run ``call`` to its end, with a coroutine for each of its waits. Return its result; errors as of ``run_call``."""
    failed: BaseException | None = None
    while True:
        try:
            wait = next(call) if failed is None else call.throw(failed)
            while True:
                wait = call.send(await wait_out(wait))
        except BaseException as error:
            if getgeneratorstate(call) == GEN_CLOSED:
                if isinstance(error, StopIteration):
                    return cast("R", error.value)
                raise
            failed = error


def blocking(call: Callable[Concatenate[Any, P], Generator[Any, Any, R]]) -> Callable[Concatenate[Any, P], R]:
    """Return the method of a blocking face that runs ``call``: same arguments, types and docstring."""

    @wraps(call)
    def wait(face: Any, /, *args: P.args, **options: P.kwargs) -> R:
        return cast("R", face._run(call(face._calls, *args, **options)))

    return _with_result_type(wait, call)


def awaiting(
    call: Callable[Concatenate[Any, P], Generator[Any, Any, R]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Return the method of an asyncio face that runs ``call``: same arguments, types and docstring."""

    @wraps(call)
    async def wait(face: Any, /, *args: P.args, **options: P.kwargs) -> R:
        return cast("R", await face._run(call(face._calls, *args, **options)))

    return _with_result_type(wait, call)


def _with_result_type(method: R, call: Callable[..., Any]) -> R:
    """Give a method the signature of its call, with the result in place of ``Call[...]``."""
    described = signature(call)
    result = str(described.return_annotation).removeprefix("Call[").removesuffix("]")
    vars(method)["__signature__"] = described.replace(return_annotation=result)
    method.__annotations__ = {**call.__annotations__, "return": result}
    return method


def documented_as(blocking_face: type) -> Callable[[F], F]:
    """Give methods of an asyncio class that have no docstring the one of the blocking class."""

    def document(face: F) -> F:
        for name, method in vars(face).items():
            twin = getattr(blocking_face, {"__aiter__": "__iter__"}.get(name, name), None)
            if isfunction(method) and not method.__doc__ and twin is not None:
                method.__doc__ = twin.__doc__
        return face

    return document


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


class ListenerRuns:
    """Runs of a consumer's listener, whose first error is kept: the rebalance has to go on."""

    listener: Any
    machine: ConsumerMachine
    guard: AbstractContextManager[Any]
    _listener_error: Exception | None = None

    def now_ms(self) -> int:
        raise NotImplementedError

    @contextmanager
    def _listening(self, callback: CallbackNeeded) -> Iterator[Callable[[list[TopicPartition]], Any]]:
        """Give the listener's method. A listener that hangs in this block does not keep the member alive."""
        with self.guard:
            called_at_ms = self.now_ms()
            self.machine.leave_poll(called_at_ms)
        try:
            yield getattr(self.listener, f"on_partitions_{callback.kind}")
        except Exception as error:  # noqa: BLE001  # raised once the rebalance allows
            self._listener_error = self._listener_error or error
        finally:
            with self.guard:
                now_ms = self.now_ms()
                self.machine.metrics.listeners[callback.kind].record(now_ms - called_at_ms, now_ms)
                self.machine.resume_poll(now_ms)

    def raise_listener_error(self) -> None:
        """Raise the first error of the listener that was kept, once."""
        if self._listener_error is not None:
            error, self._listener_error = self._listener_error, None
            raise error


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
