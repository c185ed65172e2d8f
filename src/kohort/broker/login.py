"""The login of one connection: what its frames mean before it is complete, and when it has to be renewed.

Only this machine sees the frames of a connection that is not logged in (protocol/security.md#logins). What it does
about them is in ``sasl_login.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kohort.notes import Note
from kohort.security.acls import Principal
from kohort.wire.codec import Buffer


@dataclass(frozen=True, slots=True)
class LoginStep:
    """What follows from one frame of a login."""

    buffers: Sequence[Buffer] = ()
    """What is answered now."""
    principal: Principal | None = None
    """As whom the connection is logged in from now on."""
    closing: Note | None = None
    """Why the connection is closed, once that is answered."""
    wait_ms: int = 0
    """How long to wait before ``Login.resume``; nothing is served meanwhile."""


class Login:
    """The login of one connection to a listener with SASL."""

    __slots__ = ("awaits_keys", "max_frame_bytes")

    max_frame_bytes: int
    """Of a frame that comes before it is complete."""
    awaits_keys: bool
    """Whether it waits for keys that are being fetched; it is resumed when they come."""

    @property
    def is_complete(self) -> bool:
        """Whether it is complete, and no new one has begun."""
        raise NotImplementedError

    def takes(self, frame: bytes | bytearray, now_ms: int) -> bool:
        """Tell whether a frame is the login's business: all are until it is complete."""
        raise NotImplementedError

    def step(self, frame: bytes | bytearray, now_ms: int) -> LoginStep:
        """Take such a frame."""
        raise NotImplementedError

    def resume(self, now_ms: int) -> LoginStep | None:
        """Go on after a wait, with what was held back; None where the wait was not for the login."""
        raise NotImplementedError
