"""A broker that writes down what goes into it (broker/recording_format.py), up to a number of bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from kohort.broker.broker import Broker
from kohort.broker.concealing import Concealer
from kohort.broker.io import Disconnected, Input, Output, Received
from kohort.broker.recorded_logins import LoginOutcome, RecordedLogin, ReplayedLogin
from kohort.broker.recording_format import (
    UNCOMPARED,
    RecordingHead,
    build_event,
    build_full,
    build_head,
    crc_of,
    crc_of_error,
)
from kohort.broker.request import Caller, ConnectionId
from kohort.clock import Rng
from kohort.log.storage import MemoryStorage
from kohort.notes import warning
from kohort.secret import HIDDEN, Secret

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
        self._concealers: dict[ConnectionId, Concealer] = {}
        self._judged: list[LoginOutcome] = []
        """What logins made of frames in the event that is being handled."""
        super().__init__(head.config, MemoryStorage(), rng, head.started_ms)
        self._record(build_head(head), head.started_ms)

    def handle(self, given: Input, now_ms: int) -> Sequence[Output]:
        number = getattr(given, "connection", -1)
        if isinstance(given, Disconnected):
            self._concealers.pop(number, None)
        concealer = self._concealers.get(number) if isinstance(given, Received) else None
        if concealer is None or not isinstance(given, Received):
            return self._handle(given, given, now_ms)
        if self._room <= 0:
            return super().handle(Received(number, concealer.take_held() + given.data), now_ms)
        outputs: list[Output] = []
        for piece in concealer.pieces(given.data):
            written = Received(number, piece.written)
            outputs += self._handle(Received(number, piece.given), written, now_ms, is_exact=piece.is_exact)
        return outputs

    def _handle(self, given: Input, written: Input, now_ms: int, *, is_exact: bool = True) -> Sequence[Output]:
        """Take an event, and write down another in its place."""
        if self._room <= 0:
            return super().handle(given, now_ms)
        try:
            outputs = super().handle(given, now_ms)
        except Exception as error:
            self._write_down(written, crc_of_error(error), now_ms)
            raise
        crc = UNCOMPARED if self._judged or not is_exact else crc_of(outputs)
        self._write_down(written, crc, now_ms)
        return outputs

    def _write_down(self, written: Input, crc: int, now_ms: int) -> None:
        judged = self._judged[:]
        self._judged.clear()
        for one in judged:
            self._record(build_event(one, now_ms, UNCOMPARED), now_ms)
        self._record(build_event(written, now_ms, crc), now_ms)

    def _connect(self, number: ConnectionId, caller: Caller, now_ms: int, out: list[Output]) -> None:
        super()._connect(number, caller, now_ms, out)
        connection = self._connections.get(number)
        if connection is None:
            return
        login = connection.login
        if login is not None:
            connection.begin_login(RecordedLogin(login, number, self._judged))
        self._concealers[number] = Concealer(
            self._state.config.socket_request_max_bytes, lambda: login is not None and not login.is_complete
        )

    def _record(self, entry: bytes, now_ms: int) -> None:
        self._room -= len(entry)
        if self._room > 0:
            self._write(entry)
        elif self._room + len(entry) > 0:
            self._write(build_full(now_ms))
            self._notes.append(warning("the recording is as large as it may be: nothing more is written to it"))


class ReplayingBroker(Broker):
    """A broker that is played again from a recording: nobody logs in there, but as it is written down."""

    def __init__(self, head: RecordingHead, rng: Rng, *, checked: bool = False) -> None:
        config = head.config
        if config.sasl_jaas_config is None:  # secrets are not recorded
            config = replace(config, sasl_jaas_config=Secret(HIDDEN))
        super().__init__(config, MemoryStorage(), rng, head.started_ms, checked=checked)

    def handle(self, given: Input | LoginOutcome, now_ms: int) -> Sequence[Output]:
        """Take one event, or what a login made of the next one. Raises ValueError for an outcome that is none."""
        if not isinstance(given, LoginOutcome):
            return super().handle(given, now_ms)
        connection = self._connections.get(given.connection)
        if connection is not None and isinstance(connection.login, ReplayedLogin):
            connection.login.add(given.outcome)
        return ()

    def _connect(self, number: ConnectionId, caller: Caller, now_ms: int, out: list[Output]) -> None:
        super()._connect(number, caller, now_ms, out)
        connection = self._connections.get(number)
        if connection is not None and connection.login is not None:
            connection.begin_login(ReplayedLogin(connection.login.max_frame_bytes))
