"""A recording of a real broker, played again in the machine: the same inputs at the same times, the same decisions.

The invariants are checked after every event, as in every run of the simulator.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import IO

from kohort.broker.recording_broker import ReplayingBroker
from kohort.broker.recording_format import (
    UNCOMPARED,
    RecordedEvent,
    RecordingEnd,
    crc_of,
    crc_of_error,
    parse_events,
    parse_head,
)
from kohort.coordinator.invariants import InvariantBroken
from kohort.errors import ConfigError, NotARecording


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of a recording. ``difference``: the first event answered otherwise, or that broke an invariant."""

    events: int
    lasted_ms: int
    difference: str | None
    ended: str | None
    """Why the recording ends before the broker did, if it does."""


def replay_recording(file: IO[bytes]) -> Replayed:
    """Play a recording up to its end or its first difference. Raises NotARecording."""
    head = parse_head(file.read)
    try:
        broker = ReplayingBroker(head, random.Random(head.seed), checked=True)
    except ConfigError as error:
        raise NotARecording(f"it has options that make no broker: {error}") from error
    events, now_ms, ended, difference = 0, head.started_ms, None, None
    for entry in parse_events(file.read, file.tell()):
        if isinstance(entry, RecordingEnd):
            ended = entry.why
            break
        events += 1
        now_ms = entry.now_ms
        difference = _difference(broker, entry)
        if difference is not None:
            difference = f"event {events}, {type(entry.given).__name__} {now_ms - head.started_ms} ms in: {difference}"
            break
    return Replayed(events, now_ms - head.started_ms, difference, ended)


def _difference(broker: ReplayingBroker, entry: RecordedEvent) -> str | None:
    """Give the event to the broker; what came of it that is not what was recorded."""
    try:
        outputs = broker.handle(entry.given, entry.now_ms)
    except InvariantBroken as broken:
        return f"an invariant is broken: {broken}"
    except Exception as error:  # noqa: BLE001 - whatever the machine raised then, it raises again
        return None if crc_of_error(error) == entry.outputs_crc else f"it raises {error!r}, and did not then"
    if entry.outputs_crc != UNCOMPARED and crc_of(outputs) != entry.outputs_crc:
        return f"what follows is not what followed then: {outputs!r:.500}"
    return None
