"""The logins of a broker that is recorded: their outcomes are written down in the place of passwords and tokens, and a
broker that is played again takes them (broker/recording_format.py)."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kohort.broker.login import Login, LoginStep
from kohort.broker.request import ConnectionId
from kohort.notes import Level, Note
from kohort.security.principal import Principal


@dataclass(frozen=True, slots=True)
class LoginOutcome:
    """What a login made of a frame of its connection, or of a wait that was over: goes into a broker that is played
    again, before the event in which it happened. ``outcome`` is JSON; it holds no token."""

    connection: ConnectionId
    outcome: bytes


class RecordedLogin(Login):
    """A login whose outcomes are gathered in ``judged``."""

    __slots__ = ("_connection", "_frames", "_inner", "_judged")

    def __init__(self, inner: Login, connection: ConnectionId, judged: list[LoginOutcome]) -> None:
        self._inner = inner
        self._connection = connection
        self._judged = judged
        self._frames = 0
        self.max_frame_bytes, self.awaits_keys = inner.max_frame_bytes, inner.awaits_keys

    @property
    def is_complete(self) -> bool:
        return self._inner.is_complete

    def takes(self, frame: bytes | bytearray, now_ms: int) -> bool:
        self._frames += 1
        return self._inner.takes(frame, now_ms)

    def step(self, frame: bytes | bytearray, now_ms: int) -> LoginStep:
        return self._noted(self._inner.step(frame, now_ms), resumed=False)

    def resume(self, now_ms: int) -> LoginStep | None:
        step = self._inner.resume(now_ms)
        return None if step is None else self._noted(step, resumed=True)

    def _noted(self, step: LoginStep, *, resumed: bool) -> LoginStep:
        self.awaits_keys = self._inner.awaits_keys
        said = {
            "frame": self._frames,
            "resumed": resumed,
            "bytes": sum(len(buffer) for buffer in step.buffers),
            "user": step.principal and step.principal.name,
            "type": step.principal and step.principal.type,
            "closing": step.closing and step.closing.text,
            "level": step.closing and int(step.closing.level),
            "wait_ms": step.wait_ms,
            "awaits_keys": self.awaits_keys,
        }
        self._judged.append(LoginOutcome(self._connection, json.dumps(said).encode()))
        return step


class ReplayedLogin(Login):
    """A login that does what was written down."""

    __slots__ = ("_frames", "_judged")

    def __init__(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes, self.awaits_keys = max_frame_bytes, False
        self._frames = 0
        self._judged: deque[Mapping[str, Any]] = deque()

    @property
    def is_complete(self) -> bool:
        return not self._judged

    def add(self, outcome: bytes) -> None:
        """Take what comes next. Raises ValueError for what is no outcome."""
        self._judged.append(json.loads(outcome))

    def takes(self, frame: bytes | bytearray, now_ms: int) -> bool:  # noqa: ARG002 - what it holds was overwritten
        self._frames += 1
        return self._is_next(resumed=False)

    def step(self, frame: bytes | bytearray, now_ms: int) -> LoginStep:  # noqa: ARG002
        return self._next()

    def resume(self, now_ms: int) -> LoginStep | None:  # noqa: ARG002
        return self._next() if self._is_next(resumed=True) else None

    def _is_next(self, *, resumed: bool) -> bool:
        return bool(self._judged) and (self._judged[0]["frame"], self._judged[0]["resumed"]) == (self._frames, resumed)

    def _next(self) -> LoginStep:
        said = self._judged.popleft()
        self.awaits_keys = said["awaits_keys"]
        return LoginStep(
            buffers=[bytes(said["bytes"])] if said["bytes"] else (),
            principal=None if said["user"] is None else Principal(said["type"], said["user"]),
            closing=None if said["closing"] is None else Note(Level(said["level"]), said["closing"]),
            wait_ms=said["wait_ms"],
        )
