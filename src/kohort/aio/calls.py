"""Client methods as generators, written once for the blocking and the asyncio API.

Where a method waits, its generator yields a wait request, and continues with the result of the wait. ``run_call``
blocks the caller's thread for each wait; ``run_call_async`` awaits each wait. ``consuming/waits.py`` and
``consuming/async_waits.py`` implement the waits of a consumer.

No method yields while it holds the client's lock: an interrupt (Ctrl-C) that ends a wait would leave the lock taken.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import wraps
from inspect import GEN_CLOSED, getgeneratorstate, isfunction, signature
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from kohort.client.consumer import CloseTimeout, ConsumerMachine
from kohort.client.group.membership import CallbackNeeded
from kohort.client.requests.source import Promise
from kohort.model import TopicPartition

F = TypeVar("F", bound=type)
P = ParamSpec("P")
R = TypeVar("R")
W = TypeVar("W")


def run_call(call: Generator[W, Any, R], wait_out: Callable[[W], Any]) -> R:
    """Run a client call in this thread and return its result. ``wait_out`` blocks until a wait request has its result.

    An error of a wait, or an interrupt (Ctrl-C), is raised at the call's ``yield``, so its ``finally`` clauses run and
    may wait.
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
    """Run a client call as a coroutine and return its result. ``wait_out`` awaits the result of a wait request."""
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
    """Convert a generator method to a blocking method with the same arguments, types and docstring."""

    @wraps(call)
    def wait(client: Any, /, *args: P.args, **options: P.kwargs) -> R:
        return cast("R", client._run(call(client._calls, *args, **options)))

    return _with_result_type(wait, call)


def awaiting(
    call: Callable[Concatenate[Any, P], Generator[Any, Any, R]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Convert a generator method to a coroutine method with the same arguments, types and docstring."""

    @wraps(call)
    async def wait(client: Any, /, *args: P.args, **options: P.kwargs) -> R:
        return cast("R", await client._run(call(client._calls, *args, **options)))

    return _with_result_type(wait, call)


def _with_result_type(method: R, call: Callable[..., Any]) -> R:
    described = signature(call)
    result = str(described.return_annotation).partition("[")[2].removesuffix("]")
    vars(method)["__signature__"] = described.replace(return_annotation=result)
    method.__annotations__ = {**call.__annotations__, "return": result}
    return method


def documented_as(blocking_class: type) -> Callable[[F], F]:
    """Copy docstrings of the blocking class to undocumented methods of the asyncio class."""

    def document(client: F) -> F:
        for name, method in vars(client).items():
            twin = getattr(blocking_class, {"__aiter__": "__iter__"}.get(name, name), None)
            if isfunction(method) and not method.__doc__ and twin is not None:
                method.__doc__ = twin.__doc__
        return client

    return document


@dataclass(slots=True)
class WaitFor:
    """Wait request: wait for the result or error of ``promise``.

    Raises ApiTimeout with the message ``too_late`` after ``timeout_ms``. With ``check`` the wait also raises errors of
    background work.
    """

    promise: Promise[Any]
    timeout_ms: int
    too_late: str
    check: bool = True


@dataclass(slots=True)
class WaitUntil:
    """Wait request: call ``ready`` under the lock until it returns a value; the result is None after ``timeout_ms``.

    During the wait a rebalance in flight makes no progress.
    """

    ready: Callable[[], Any]
    timeout_ms: int


@dataclass(slots=True)
class WaitLast:
    """Wait request during ``close()``: wait for ``promise`` until ``close_timeout``, and ignore its error."""

    promise: Promise[Any]
    close_timeout: CloseTimeout


@dataclass(slots=True)
class PollUntil:
    """Wait request: poll until ``ready`` returns a value; the result is None after ``timeout_ms``.

    During the wait the member counts as polling, and rebalances continue and call the listener. ``has_work`` is called
    under the lock; each time that it returns True, ``ready`` is called without the lock.
    """

    ready: Callable[[], Any]
    timeout_ms: int
    has_work: Callable[[], bool]


@dataclass(slots=True)
class Run:
    """Wait request: call a function of the user or of the client. The asyncio API awaits an awaitable result."""

    work: Callable[[], Any]


Wait = WaitFor | WaitUntil | WaitLast | PollUntil | Run
Call = Generator[Wait, Any, R]


class Waits:
    """Runs the wait requests of a consumer's calls. Calls the rebalance listener, and stores its first error."""

    machine: ConsumerMachine
    listener: Any
    guard: AbstractContextManager[Any]
    blocks = True
    """True if the thread of a call blocks for a schema registry, False if the task awaits it."""
    _listener_error: Exception | None = None

    def now_ms(self) -> int:
        raise NotImplementedError

    def kick(self) -> None: ...

    def wake_waiting(self) -> None:
        """Wake the waiting client calls, so that they check their conditions."""

    def run_listener(self, callback: CallbackNeeded) -> Any:
        """Call the rebalance listener, and store its first error. In asyncio, return an awaitable that does so."""

    def run_anywhere(self, call: Call[Any]) -> Any:
        """Run a client call in the current thread. In asyncio, return an awaitable that runs it in the current task."""

    @contextmanager
    def _listening(self, callback: CallbackNeeded) -> Iterator[Callable[[list[TopicPartition]], Any]]:
        """Yield the listener's method for ``callback``. The time in the ``with`` block counts as time between polls."""
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
        """Raise the stored error of the rebalance listener, and remove it."""
        if self._listener_error is not None:
            error, self._listener_error = self._listener_error, None
            raise error


def leave_group(waits: Waits, reason: str, close_timeout: CloseTimeout) -> Call[None]:
    """Call the rebalance listener, leave the group, and wait for the response. Raises the listener's error."""
    with waits.guard:
        callback = waits.machine.prepare_leave()
    if callback is not None:
        yield Run(lambda: waits.run_listener(callback))
    with waits.guard:
        promise = waits.machine.leave(reason)
    yield WaitLast(promise, close_timeout)
    waits.raise_listener_error()
