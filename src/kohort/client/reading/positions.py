"""Where a consumer stands in one partition, and whether it may fetch there (protocol/fetching.md#positions).

    INITIALIZING ──committed offset──▶ AWAIT_VALIDATION ──same history──▶ FETCHING
         │                                   │ cut off                        │ newer leader epoch,
         └──nothing committed──▶ AWAIT_RESET ◀┘ ◀───── offset out of range ───┘ back to AWAIT_VALIDATION

``position`` is the next record to hand out, ``fetch_offset`` the next to ask for: what lies between is buffered. Any
move other than handing out (seek, reset, truncation) starts a new ``run``, and what was fetched for an older one is
dropped when it arrives.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

import msgspec

from kohort.client.requests.metadata import LeaderAndEpoch
from kohort.model import NO_EPOCH, OffsetAndMetadata


class FetchState(Enum):
    INITIALIZING = auto()
    AWAIT_RESET = auto()
    AWAIT_VALIDATION = auto()
    FETCHING = auto()


FETCHING: Final = FetchState.FETCHING
"""Asked for at every record that is handed out; Python 3.11 takes ten times as long to find a member of an Enum."""


class Position(msgspec.Struct, frozen=True, gc=False):
    """The next record to hand out, and the epoch of the batch before it (-1: not known)."""

    offset: int
    offset_epoch: int = NO_EPOCH


class TransitionCount:
    """How often any partition of one consumer went from one state to another: what was found by states is to be looked
    for again when this has changed."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Damage(NamedTuple):
    """Bytes that fail their checks: of which offset, their checksum, and how often something was wrong there."""

    offset: int
    checksum: int
    times: int


@dataclass(slots=True, eq=False)
class PartitionState:
    transitions: TransitionCount = field(default_factory=TransitionCount)
    state: FetchState = FetchState.INITIALIZING
    """Changed by the methods below alone: each change counts as one of ``transitions``."""
    position: Position | None = None
    topic_id: bytes | None = None
    """Id of the topic that ``position`` belongs to; None until the first fetch after a seek, or without ids."""
    fetch_offset: int = 0
    run: int = 0
    paused: bool = False
    pending_revocation: bool = False
    reset_to: str = ""
    """The policy of the reset under way: earliest, latest, or by_duration:..."""
    leader: LeaderAndEpoch | None = None
    """The leader under which ``position`` was last found good."""
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    log_start_offset: int | None = None
    preferred_replica: int = -1
    preferred_until_ms: int = 0
    retry_at_ms: int = 0
    refusals: int = 0
    looking_up: bool = False
    stuck: bool = False
    """The log is corrupt at ``fetch_offset``: there is no use in fetching it again."""
    damage: Damage | None = None

    @property
    def fetchable(self) -> bool:
        return self.state is FETCHING and not self.paused and not self.pending_revocation

    @property
    def has_position(self) -> bool:
        return self.position is not None and self.state in (FetchState.FETCHING, FetchState.AWAIT_VALIDATION)

    def seek(self, position: Position, leader: LeaderAndEpoch | None = None, *, trusted: bool = False) -> None:
        """Stand at ``position``; it is validated first where it carries an epoch, unless the leader itself has just
        named it (``trusted``)."""
        self._start_run()
        self.position = position
        self.fetch_offset = position.offset
        self.leader = leader
        needs_validation = position.offset_epoch != NO_EPOCH and not trusted
        self._go(FetchState.AWAIT_VALIDATION if needs_validation else FetchState.FETCHING)

    def fetch_again(self, position: Position) -> None:
        self.seek(position, self.leader, trusted=True)

    def await_reset(self, policy: str) -> None:
        self._start_run()
        self.position = None
        self.reset_to = policy
        self._go(FetchState.AWAIT_RESET)

    def await_validation(self) -> None:
        """Wait for validation: the leader is another since, and what was buffered may be of a history that is no
        more."""
        assert self.position is not None
        self._start_run()
        self.fetch_offset = self.position.offset
        self._go(FetchState.AWAIT_VALIDATION)

    def validated(self, leader: LeaderAndEpoch) -> None:
        self.leader = leader
        self._go(FetchState.FETCHING)

    def advance(self, offset: int, epoch: int) -> None:
        self.position = Position(offset, epoch)

    def to_commit(self) -> OffsetAndMetadata | None:
        """Return what a commit of this partition says; None without a position."""
        if self.position is None or not self.has_position:
            return None
        return OffsetAndMetadata(self.position.offset, "", self.position.offset_epoch)

    def visible_end(self, read_committed: bool) -> int | None:
        return self.last_stable_offset if read_committed else self.high_watermark

    def _go(self, state: FetchState) -> None:
        self.state = state
        self.transitions.count += 1

    def _start_run(self) -> None:
        self.run += 1
        self.retry_at_ms = 0
        self.looking_up = False
        self.stuck = False
