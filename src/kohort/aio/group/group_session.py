"""What the sessions and the claims of both handler-style groups show to the users' handlers."""

from __future__ import annotations

from kohort.aio.group.session_state import SessionState
from kohort.client.partition_claims import ClaimState
from kohort.model import OffsetAndMetadata, Record, TopicPartition


class Session:
    """One membership of one generation, from ``setup`` to ``cleanup``.

    ``member_id`` and ``generation_id`` are the group's names for it, ``partitions`` what it claims.
    """

    def __init__(self, state: SessionState) -> None:
        self.member_id = state.generation.member_id
        self.generation_id = state.generation.generation_id
        self.partitions = tuple(state.claims.by_partition)
        self._state = state
        self._marks = state.claims

    @property
    def ending(self) -> bool:
        """Whether the session is over for its claims: handlers that work on something long should look now and then."""
        return self._state.ending

    def mark_message(self, record: Record, metadata: str = "") -> None:
        """Say that ``record``, and all before it in its partition, is handled: what a commit tells the group.

        A mark never goes back. ``metadata`` is a text that is committed with it. Raises UsageError for a partition that
        the session does not claim, and for metadata that is no text.
        """
        self._marks.mark_record(record, metadata)

    def mark_offset(self, partition: TopicPartition, offset: int, metadata: str = "") -> None:
        """Say that everything before ``offset`` is handled: it is the next one to read.

        A mark never goes back. Raises as ``mark_message``, and UsageError for a negative offset.
        """
        self._marks.mark(partition, OffsetAndMetadata(offset, metadata))

    def reset_offset(self, partition: TopicPartition, offset: int, metadata: str = "") -> None:
        """Let the next session begin at ``offset``, also where the mark is behind it. Raises as ``mark_offset``."""
        self._marks.reset(partition, OffsetAndMetadata(offset, metadata))


class SessionClaim:
    """One partition during one session: ``topic``, ``partition``, and where the session began, ``initial_offset``."""

    def __init__(self, session: SessionState, state: ClaimState) -> None:
        self.topic = state.partition.topic
        self.partition = state.partition.partition
        self.initial_offset = state.start.offset
        self._session = session
        self._state = state

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition, with its topic."""
        return self._state.partition

    @property
    def high_watermark(self) -> int | None:
        """The offset behind the last record of the log, as the last fetch told it; None before."""
        return self._state.state.high_watermark
