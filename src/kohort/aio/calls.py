"""Client methods as generators of their waits, written once for the blocking and the asyncio API.

A call yields each wait and continues with its result. ``run_call`` waits in the caller's thread, ``run_call_async``
awaits. ``consuming/waits.py`` and ``consuming/async_waits.py`` implement a consumer's waits.

No call yields while it holds the machine's lock: an interrupt (Ctrl-C) that ends a wait would leave the lock taken.
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
    """Run ``call``, blocking for each of its waits with ``wait_out``. Return its result.

    An error of a wait, also an interrupt, is raised at the ``yield``, so that ``finally`` clauses of a call can wait.
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
    """Run ``call``, awaiting ``wait_out`` for each of its waits. Return its result; errors as in ``run_call``."""
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
    """Return the blocking method that runs ``call``, with the same arguments, types and docstring."""

    @wraps(call)
    def wait(client: Any, /, *args: P.args, **options: P.kwargs) -> R:
        return cast("R", client._run(call(client._calls, *args, **options)))

    return _with_result_type(wait, call)


def awaiting(
    call: Callable[Concatenate[Any, P], Generator[Any, Any, R]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Return the coroutine method that runs ``call``, with the same arguments, types and docstring."""

    @wraps(call)
    async def wait(client: Any, /, *args: P.args, **options: P.kwargs) -> R:
        return cast("R", await client._run(call(client._calls, *args, **options)))

    return _with_result_type(wait, call)


def _with_result_type(method: R, call: Callable[..., Any]) -> R:
    described = signature(call)
    result = str(described.return_annotation).removeprefix("Call[").removesuffix("]")
    vars(method)["__signature__"] = described.replace(return_annotation=result)
    method.__annotations__ = {**call.__annotations__, "return": result}
    return method


def documented_as(blocking_class: type) -> Callable[[F], F]:
    """Copy missing docstrings of an asyncio class from the blocking class."""

    def document(client: F) -> F:
        for name, method in vars(client).items():
            twin = getattr(blocking_class, {"__aiter__": "__iter__"}.get(name, name), None)
            if isfunction(method) and not method.__doc__ and twin is not None:
                method.__doc__ = twin.__doc__
        return client

    return document


@dataclass(slots=True)
class WaitFor:
    """Wait for the result or error of ``promise``.

    Raises ApiTimeout with the message ``too_late`` after ``timeout_ms``; with ``check`` also errors of background work.
    """

    promise: Promise[Any]
    timeout_ms: int
    too_late: str
    check: bool = True


@dataclass(slots=True)
class WaitUntil:
    """Wait until ``ready``, called under the lock, returns a value; None after ``timeout_ms``. Rebalances pause
    meanwhile.
    """

    ready: Callable[[], Any]
    timeout_ms: int


@dataclass(slots=True)
class WaitLast:
    """Wait until ``promise`` is done, at most for ``close_timeout``; its error is not raised."""

    promise: Promise[Any]
    close_timeout: CloseTimeout


@dataclass(slots=True)
class PollUntil:
    """Poll until ``ready`` returns a value; None after ``timeout_ms``.

    Meanwhile the member counts as alive, rebalances continue and the listener is called. ``ready`` is called without
    the lock, after each ``has_work`` (under the lock) that returns True.
    """

    ready: Callable[[], Any]
    timeout_ms: int
    has_work: Callable[[], bool]


@dataclass(slots=True)
class Run:
    """Run user code or code of the API; the asyncio API awaits an awaitable result."""

    work: Callable[[], Any]


Wait = WaitFor | WaitUntil | WaitLast | PollUntil | Run
Call = Generator[Wait, Any, R]


class Waits(Protocol):
    machine: ConsumerMachine
    listener: Any

    @property
    def guard(self) -> AbstractContextManager[Any]: ...

    def now_ms(self) -> int: ...

    def kick(self) -> None: ...

    def wake_waiting(self) -> None:
        """Wake the waiting calls, so that they check their conditions."""

    def run_listener(self, callback: CallbackNeeded) -> Any:
        """Call the listener, or return the awaitable of its call; keep its first error."""

    def raise_listener_error(self) -> None: ...

    def run_anywhere(self, call: Call[Any]) -> Any:
        """Run a call in the current thread or task, or return an awaitable for it."""


class ListenerRuns:
    """Calls of a consumer's listener. Its first error is kept, because the rebalance must continue."""

    listener: Any
    machine: ConsumerMachine
    guard: AbstractContextManager[Any]
    _listener_error: Exception | None = None

    def now_ms(self) -> int:
        raise NotImplementedError

    @contextmanager
    def _listening(self, callback: CallbackNeeded) -> Iterator[Callable[[list[TopicPartition]], Any]]:
        """Yield the listener's method. A listener that hangs in this block does not keep the member alive."""
        with self.guard:
            called_at_ms = self.now_ms()
            self.machine.leave_poll(called_at_ms)
        try:
            yield getattr(self.listener, f"on_partitions_{callback.kind}")
        except Exception as error:  # noqa: BLE001  # raised after the rebalance
            self._listener_error = self._listener_error or error
        finally:
            with self.guard:
                now_ms = self.now_ms()
                self.machine.metrics.listeners[callback.kind].record(now_ms - called_at_ms, now_ms)
                self.machine.resume_poll(now_ms)

    def raise_listener_error(self) -> None:
        """Raise the kept error of the listener, once."""
        if self._listener_error is not None:
            error, self._listener_error = self._listener_error, None
            raise error


def leave_group(waits: Waits, reason: str, close_timeout: CloseTimeout) -> Call[None]:
    """Call the listener, leave the group, and wait for the response until ``close_timeout``. Raises the listener's
    error.
    """
    with waits.guard:
        callback = waits.machine.prepare_leave()
    if callback is not None:
        yield Run(lambda: waits.run_listener(callback))
    with waits.guard:
        promise = waits.machine.leave(reason)
    yield WaitLast(promise, close_timeout)
    waits.raise_listener_error()
