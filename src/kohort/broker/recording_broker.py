"""A broker that writes down what goes into it (broker/recording_format.py), up to a number of bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kohort.broker.broker import Broker
from kohort.broker.io import Input, Output
from kohort.broker.recording_format import RecordingHead, build_event, build_full, build_head, crc_of, crc_of_error
from kohort.clock import Rng
from kohort.log.storage import MemoryStorage
from kohort.notes import warning

MOST_BYTES: Final = 1 << 30


class RecordingBroker(Broker):
    """Begins with nothing, on storage in memory: what a recording does not hold must not matter. ``rng`` is that of
    ``head.seed``.

    ``write`` takes the bytes of the file in order. After ``most_bytes`` the broker goes on and is recorded no more; a
    note says so.
    """

    def __init__(
        self, head: RecordingHead, rng: Rng, write: Callable[[bytes], None], most_bytes: int = MOST_BYTES
    ) -> None:
        self._write = write
        self._room = most_bytes
        super().__init__(head.config, MemoryStorage(), rng, head.started_ms)
        self._record(build_head(head), head.started_ms)

    def handle(self, given: Input, now_ms: int) -> Sequence[Output]:
        if self._room <= 0:
            return super().handle(given, now_ms)
        try:
            outputs = super().handle(given, now_ms)
        except Exception as error:
            self._record(build_event(given, now_ms, crc_of_error(error)), now_ms)
            raise
        self._record(build_event(given, now_ms, crc_of(outputs)), now_ms)
        return outputs

    def _record(self, entry: bytes, now_ms: int) -> None:
        self._room -= len(entry)
        if self._room > 0:
            self._write(entry)
        else:
            self._write(build_full(now_ms))
            self._notes.append(warning("the recording is as large as it may be: nothing more is written to it"))
