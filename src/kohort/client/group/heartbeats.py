"""The three clocks of a member: the next heartbeat, the session, the time since the user last polled.

The rules: protocol/members.md#clocks-of-a-member.
"""

from __future__ import annotations

from kohort.client.requests.request_state import RequestState, retry_backoff
from kohort.clock import Rng
from kohort.config.client import ConsumerConfig


class PollClock:
    """How long the user may still work before the next poll."""

    def __init__(self, interval_ms: int) -> None:
        self.until_ms: int | None = None
        """None while the user is in poll(), and before the first one."""
        self._interval_ms = interval_ms

    def enter(self) -> None:
        self.until_ms = None

    def leave(self, now_ms: int) -> None:
        self.until_ms = now_ms + self._interval_ms

    def expired(self, now_ms: int) -> bool:
        return self.until_ms is not None and now_ms >= self.until_ms


class HeartbeatClocks:
    """Deadlines only; the membership acts on them. They run from the success of a JoinGroup until the next one."""

    def __init__(self, config: ConsumerConfig, rng: Rng) -> None:
        self._config = config
        self._request = RequestState(retry_backoff(config, rng))
        self._polling = False
        self.beat_at_ms = 0
        self.session_until_ms = 0
        self.poll_until_ms = 0

    def start(self, now_ms: int) -> None:
        self._request.succeeded()
        self.beat_at_ms = now_ms + self._config.heartbeat_interval_ms
        self.session_until_ms = now_ms + self._config.session_timeout_ms
        self.poll_until_ms = now_ms + self._config.max_poll_interval_ms

    def sent(self, now_ms: int) -> None:
        """Count the interval from here, not from the answer."""
        self.beat_at_ms = now_ms + self._config.heartbeat_interval_ms

    def received(self, now_ms: int) -> None:
        self._request.succeeded()
        self.session_until_ms = now_ms + self._config.session_timeout_ms

    def failed(self, now_ms: int) -> None:
        self.beat_at_ms = self._request.failed(now_ms)

    def enter_poll(self) -> None:
        self._polling = True

    def leave_poll(self, now_ms: int) -> None:
        self._polling = False
        self.poll_until_ms = now_ms + self._config.max_poll_interval_ms

    def session_expired(self, now_ms: int) -> bool:
        return now_ms >= self.session_until_ms

    def poll_expired(self, now_ms: int) -> bool:
        return not self._polling and now_ms >= self.poll_until_ms

    def renew_session(self, now_ms: int) -> None:
        self.session_until_ms = now_ms + self._config.session_timeout_ms

    def wake_at_ms(self, *, may_beat: bool) -> int:
        at_ms = self.session_until_ms
        if may_beat and self.beat_at_ms < at_ms:
            at_ms = self.beat_at_ms
        if not self._polling and self.poll_until_ms < at_ms:
            at_ms = self.poll_until_ms
        return at_ms
