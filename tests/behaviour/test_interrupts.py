from __future__ import annotations

import contextlib
import dis
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import kohort
from kohort import Consumer, TopicPartition, Wakeup
from kohort.aio.consuming import consumer as consumer_module
from kohort.aio.consuming import waits

TRACED = {
    *(str(path) for path in (Path(kohort.__file__).parent / "aio").rglob("*.py")),
    contextlib.__file__,
    threading.__file__,
}
OUT_OF_OUR_HANDS = {"wait"}
LOOKS_FOR_SIGNALS = {"CALL", "CALL_KW", "CALL_FUNCTION_EX", "RESUME", "JUMP_BACKWARD"}


class Interrupt(Exception):
    pass


def run_to(place: int, call: Callable[[], Any]) -> None:
    passed = 0
    before: dict[FrameType, str] = {}
    me = threading.current_thread()

    def in_frame(frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal passed
        if event == "opcode":
            if before.get(frame) in LOOKS_FOR_SIGNALS:
                passed += 1
                if passed == place:
                    raise Interrupt
            before[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
        return in_frame

    def at_call(frame: FrameType, _event: str, _arg: Any) -> Any:
        code = frame.f_code
        if code.co_filename not in TRACED or code.co_name in OUT_OF_OUR_HANDS or threading.current_thread() is not me:
            return None
        frame.f_trace_opcodes = True
        return in_frame

    sys.settrace(at_call)
    try:
        call()
    finally:
        sys.settrace(None)


def is_free(consumer: Consumer) -> bool:
    thread = threading.Thread(target=consumer.wakeup, daemon=True)
    thread.start()
    thread.join(20)
    return not thread.is_alive()


@pytest.fixture(scope="module")
def broker() -> Iterator[kohort.Broker]:
    with kohort.Broker() as broker:
        yield broker


@pytest.mark.parametrize("call", ["poll", "pause", "commit", "position"])
def test_interrupt_at_any_point_leaves_no_lock_taken(broker: kohort.Broker, call: str) -> None:
    partition = TopicPartition(f"interrupted-{call}", 0)
    with Consumer(bootstrap_servers=broker.bootstrap, group_id="g", auto_offset_reset="earliest") as consumer:
        with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics({partition.topic: 1})
        consumer.assign([partition])
        consumer.position(partition)
        calls: dict[str, Callable[[], Any]] = {
            "poll": lambda: consumer.poll(timeout_ms=1),
            "pause": lambda: consumer.pause([partition]),
            "commit": lambda: consumer.commit(timeout_ms=20_000),
            "position": lambda: consumer.position(partition),
        }
        place, interrupted = 1, True
        while interrupted:
            interrupted = False
            try:
                run_to(place, calls[call])
            except Interrupt:
                interrupted = True
                assert is_free(consumer), f"still locked after an interrupt at place {place} of {call}"
                with contextlib.suppress(Wakeup):
                    consumer.poll()
            place += 1
        assert place > 10, "the trace found the places"
        assert {consumer_module.__file__, waits.__file__} <= TRACED, "the consumer's own files are among them"
        assert consumer.position(partition) == 0
