"""Interrupts, by SIGTERM as by Ctrl-C: never raised between a write and the note that it was written."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Within it, SIGTERM, which service managers send, ends a command in order, as Ctrl-C does."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(_number: int, frame: FrameType | None) -> None:
    on_interrupt = signal.getsignal(signal.SIGINT)
    if callable(on_interrupt):
        on_interrupt(signal.SIGINT, frame)
    else:  # a process in the background of a shell has SIGINT ignored
        raise KeyboardInterrupt


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Within it, a first Ctrl-C or SIGTERM is raised at the end; a second at once, for a write that never ends.

    A buffered file looks for signals after its bytes have left: without this, ``flush`` may raise for bytes that
    the reader has.
    """
    found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    raising = {number: before for number, before in found.items() if callable(before)}
    if current_thread() is not main_thread() or not raising:  # where no interrupt is ever raised
        yield
        return
    waiting = False

    def note(_number: int, _frame: FrameType | None) -> None:
        nonlocal waiting
        if waiting:
            raise KeyboardInterrupt
        waiting = True

    for number in raising:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, before in raising.items():
            signal.signal(number, before)
        if waiting:
            raise KeyboardInterrupt
