"""Offset commits by the user, by auto-commit, and before a revocation (protocol/offsets.md#commits-of-a-client)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from kohort.client.group.membership import COORDINATOR_MOVED, NO_GENERATION, Membership, not_a_member
from kohort.client.group.offset_messages import BY_NAME_COMMIT, TopicIds, build_commit, commit_errors
from kohort.client.reading.context import ConsumerContext, ConsumerSource
from kohort.client.requests.denials import answer_error
from kohort.client.requests.find_coordinator import COORDINATOR_CHANNEL, CoordinatorLookup
from kohort.client.requests.request_state import Backoff, TimedRequests, TimedRequestState, retry_backoff
from kohort.client.requests.source import IDLE, Poll, Promise, Unsent
from kohort.errors import ApiError, ApiTimeout, CommitFailed, ErrorCode, KohortError
from kohort.model import NO_UUID, OffsetAndMetadata, TopicPartition
from kohort.wire.messages.offsets import OffsetCommitRequest, OffsetCommitResponse
from kohort.wire.schema import Message


class PendingOffset(NamedTuple):
    """Offset of one partition in an unfinished commit, and the sequence number of that commit."""

    number: int
    at: OffsetAndMetadata
    topic_id: bytes | None = None


PendingOffsets = Mapping[TopicPartition, PendingOffset]


class CommitOrder:
    """Order of a consumer's offset commits: a retried commit never replaces the offset of a later one.

    A failed commit waits for its retry, and later commits are sent meanwhile. The order keeps the latest commit of each
    partition until all commits are completed.
    """

    def __init__(self) -> None:
        self._last = 0
        self._written: dict[TopicPartition, int] = {}
        self._outcome_unknown: dict[TopicPartition, PendingOffset] = {}
        """Latest offset of each partition in a commit with unknown outcome: the broker may have written this offset."""

    def next_number(self, *, is_alone: bool) -> int:
        if is_alone:
            self._written.clear()
            self._outcome_unknown.clear()
        self._last += 1
        return self._last

    def still_pending(self, number: int, pending: PendingOffsets) -> dict[TopicPartition, PendingOffset]:
        """Return the offsets that commit ``number`` must still send.

        Omits a partition if a later commit of it succeeded. If the outcome of the later commit is unknown, returns the
        offset of the later commit instead.
        """
        return {
            partition: max(offset, self._outcome_unknown.get(partition, offset), key=_number)
            for partition, offset in pending.items()
            if self._written.get(partition, 0) < number
        }

    def note_written(self, written: PendingOffsets) -> None:
        for partition, offset in written.items():
            self._written[partition] = max(offset.number, self._written.get(partition, 0))

    def note_outcome_unknown(self, pending: PendingOffsets) -> None:
        for partition, offset in pending.items():
            self._outcome_unknown[partition] = max(offset, self._outcome_unknown.get(partition, offset), key=_number)


def _number(offset: PendingOffset) -> int:
    return offset.number


Offsets = dict[TopicPartition, OffsetAndMetadata]

OUTCOME_UNKNOWN: Final = COORDINATOR_MOVED | {ErrorCode.REQUEST_TIMED_OUT}
UNKNOWN_TOPIC: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
RETRIED: Final = OUTCOME_UNKNOWN | UNKNOWN_TOPIC | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
AUTO_COMMIT: Final = "auto-commit"


class _Commit(TimedRequestState):
    """Unfinished offset commit. A commit without a deadline is not retried."""

    def __init__(
        self,
        number: int,
        offsets: Offsets,
        topic_ids: Mapping[TopicPartition, bytes | None],
        backoff: Backoff,
        deadline_ms: int | None,
        *,
        before_revocation: bool,
    ) -> None:
        super().__init__(backoff, deadline_ms)
        self.number = number
        self.offsets = offsets
        self.pending = {p: PendingOffset(number, at, topic_ids.get(p)) for p, at in offsets.items()}
        self.promise: Promise[Offsets] = Promise()
        self.generation = NO_GENERATION
        self.incarnation: int | None = None
        self.before_revocation = before_revocation
        self.unknown_since_ms: int | None = None
        self.missing: KohortError | None = None


class Commits(ConsumerSource):
    def __init__(self, context: ConsumerContext, lookup: CoordinatorLookup, membership: Membership) -> None:
        super().__init__(context)
        self._lookup = lookup
        self._membership = membership
        self._backoff = retry_backoff(self._config, context.rng)
        self._waiting: TimedRequests[_Commit] = TimedRequests()
        self._in_flight: list[_Commit] = []
        self._order = CommitOrder()
        self._auto_at_ms: int | None = None
        self._auto: Promise[Offsets] | None = None

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)

    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        deadline_ms: int | None,
        *,
        before_revocation: bool = False,
    ) -> Promise[Offsets]:
        """Commit ``offsets`` and retry until ``deadline_ms``. Without a deadline, send the commit once only.

        If the coordinator does not know a topic, the commit is retried until new metadata lack the topic, too.
        ``before_revocation``: the partitions are revoked after the commit. Then an unknown topic fails at once, and
        errors are logged.
        """
        number = self._order.next_number(is_alone=not self._waiting and not self._in_flight)
        assigned = self._subscription.assigned
        ids = {p: state.topic_id for p in offsets if (state := assigned.get(p)) is not None}
        commit = _Commit(number, dict(offsets), ids, self._backoff, deadline_ms, before_revocation=before_revocation)
        if offsets:
            self._waiting.add(commit)
        else:
            commit.promise.resolve({})
        return commit.promise

    def commit_positions(
        self, partitions: Iterable[TopicPartition], deadline_ms: int | None, *, before_revocation: bool = False
    ) -> Promise[Offsets]:
        return self.commit(self.positions(partitions), deadline_ms, before_revocation=before_revocation)

    def positions(self, partitions: Iterable[TopicPartition]) -> Offsets:
        states = [(partition, self._subscription.assigned.get(partition)) for partition in partitions]
        return {p: at for p, state in states if state is not None and (at := state.to_commit()) is not None}

    def auto_commit(self, now_ms: int) -> bool:
        """Start an auto-commit if it is due. Return True if it was started."""
        if not self._config.enable_auto_commit:
            return False
        if self._auto is not None and self._auto.done:
            self._auto_committed(self._auto.error, now_ms)
            self._auto = None
        if self._auto_at_ms is None:
            self.restart_auto_commit(now_ms)
        assert self._auto_at_ms is not None
        if self._auto is None and now_ms >= self._auto_at_ms:
            self.restart_auto_commit(now_ms)
            positions = self.positions(self._subscription.assigned)
            if positions and self._refusal() is None:
                self._auto = self.commit(positions, None)
                return True
        return False

    def _auto_committed(self, error: KohortError | None, now_ms: int) -> None:
        group = f"group {self._group_id!r}"
        if error is None:
            self._outages.recovered(AUTO_COMMIT, f"auto-commit in {group} works again", now_ms)
            return
        self._outages.report(AUTO_COMMIT, f"auto-commit in {group} failed: {error}", now_ms)
        still_member = isinstance(error, CommitFailed) and self._refusal() is None
        unknown_topic = isinstance(error, ApiError) and error.code in UNKNOWN_TOPIC
        if still_member or (error.retriable and not unknown_topic):
            self._auto_at_ms = now_ms + self._backoff.delay_ms(1)

    def restart_auto_commit(self, now_ms: int) -> None:
        self._auto_at_ms = now_ms + self._config.auto_commit_interval_ms

    def poll(self, now_ms: int) -> Poll:
        if not self._waiting:
            return IDLE
        for late in self._waiting.take_expired(now_ms):
            self._fail(late, ApiTimeout(f"the offsets of group {self._group_id!r} were not committed in time"))
        node_id = self._lookup.require()
        if node_id is None:
            return Poll(wake_at_ms=self._waiting.deadline_ms)
        unsent: list[Unsent] = []
        for commit in self._waiting.take_due(now_ms):
            refusal = self._refusal(commit.incarnation)
            commit.pending = self._order.still_pending(commit.number, commit.pending)
            self._drop_recreated(commit)
            if refusal is not None:
                self._fail(commit, refusal)
            elif not commit.pending:
                self._finish(commit)
            elif self._overlaps_later_commit(commit):
                commit.repeated(now_ms)
                self._waiting.add(commit)
            else:
                unsent.append(self._send(node_id, commit))
        return Poll(unsent, self._waiting.wake_at_ms(now_ms))

    def _drop_recreated(self, commit: _Commit) -> None:
        topic_id = self._metadata.topic_id
        ids = [(p, one.topic_id) for p, one in commit.pending.items() if one.topic_id is not None]
        stale = [p for p, known in ids if topic_id(p.topic) not in (None, known)]
        if stale:
            error = self._error(ErrorCode.UNKNOWN_TOPIC_ID, stale, ": the topic was deleted and created again")
            self._drop(commit, stale, error)

    def _drop(self, commit: _Commit, partitions: Collection[TopicPartition], error: ApiError) -> None:
        error.retriable = False
        commit.missing = error
        commit.pending = {p: one for p, one in commit.pending.items() if p not in partitions}

    def _overlaps_later_commit(self, commit: _Commit) -> bool:
        return any(
            other.number > commit.number and not commit.pending.keys().isdisjoint(other.pending.keys())
            for other in self._in_flight
        )

    def on_response(self, sent: Unsent, response: Message, now_ms: int) -> None:
        assert isinstance(sent.request, OffsetCommitRequest)
        assert isinstance(response, OffsetCommitResponse)
        commit: _Commit = sent.context
        self._in_flight.remove(commit)
        errors = commit_errors(sent.request, response)
        written = {partition: one for partition, one in commit.pending.items() if partition not in errors}
        self._order.note_written(written)
        if errors:
            self._metrics.refused(OffsetCommitRequest, next(iter(errors.values())))
        ids = {topic.name: topic.topic_id for topic in sent.request.topics if topic.topic_id != NO_UUID}
        errors = self._without_missing(commit, errors, ids, now_ms)
        if not errors:
            self._finish(commit)
            return
        # Handle an error of the group before errors of unknown topics, because the member must rejoin after it.
        code = next((c for c in errors.values() if c not in UNKNOWN_TOPIC), next(iter(errors.values())))
        error = self._error(code, [p for p, c in errors.items() if c is code])
        if code in RETRIED:
            if code in OUTCOME_UNKNOWN:
                self._mark_outcome_unknown(commit)
            self._retry(commit, error, now_ms)
            return
        outcome = self._membership.on_commit_error(commit.generation, error)
        # Another member may have committed a later offset of a revoked partition, so do not retry.
        if outcome.may_retry and commit.offsets.keys() <= self._subscription.assigned.keys():
            self._retry(commit, outcome.error, now_ms)
        else:
            self._fail(commit, outcome.error)

    def _without_missing(
        self, commit: _Commit, errors: dict[TopicPartition, ErrorCode], topic_ids: TopicIds, now_ms: int
    ) -> dict[TopicPartition, ErrorCode]:
        unknown = {p: code for p, code in errors.items() if code in UNKNOWN_TOPIC}
        if not unknown:
            return errors
        missing = {p: code for p, code in unknown.items() if self._is_missing(commit, p, topic_ids)}
        if commit.unknown_since_ms is None:
            commit.unknown_since_ms = now_ms
        if len(missing) < len(unknown):
            self._metadata.request_refresh()
        if missing:
            self._drop(commit, missing, self._error(next(iter(missing.values())), missing))
        return {p: code for p, code in errors.items() if p not in missing}

    def _is_missing(self, commit: _Commit, partition: TopicPartition, topic_ids: TopicIds) -> bool:
        """True if an unknown topic in the response is a permanent error for the partition.

        That is so if the partition was deleted, or will be revoked after this commit.
        """
        if commit.before_revocation:
            return True
        since_ms, answered_at_ms = commit.unknown_since_ms, self._metadata.answered_at_ms
        is_newer = since_ms is not None and answered_at_ms is not None and answered_at_ms > since_ms
        return is_newer and self._metadata.lacks(partition, topic_ids.get(partition.topic))

    def _error(self, code: ErrorCode, partitions: Iterable[TopicPartition], why: str = "") -> ApiError:
        names = list(partitions)
        what = f"committing {', '.join(map(str, names))} for group {self._group_id!r}{why}"
        return answer_error(self._config, code, what, name=names[0].topic if code is TOPIC_DENIED else "")

    def on_failure(self, sent: Unsent, error: KohortError, now_ms: int) -> None:
        self._in_flight.remove(sent.context)
        if error.retriable:
            self._mark_outcome_unknown(sent.context)
            self._retry(sent.context, error, now_ms)
        else:
            self._fail(sent.context, error)

    def _finish(self, commit: _Commit) -> None:
        if commit.missing is None:
            commit.promise.resolve(commit.offsets)
        else:
            self._fail(commit, commit.missing)

    def _fail(self, commit: _Commit, error: KohortError) -> None:
        commit.promise.fail(error)
        if commit.before_revocation and self._config.enable_auto_commit:
            self._notes.warn(f"positions in group {self._group_id!r} were not committed before the revocation: {error}")

    def _mark_outcome_unknown(self, commit: _Commit) -> None:
        self._lookup.mark_unknown()
        self._order.note_outcome_unknown(commit.pending)

    def _refusal(self, incarnation: int | None = None) -> KohortError | None:
        """Return the error with which the coordinator would reject a commit now, or None.

        ``incarnation``: membership to which the commit belongs. In a later membership it is rejected, because other
        members may own its partitions.
        """
        if not self._subscription.mode.is_group:
            return None
        if incarnation not in (None, self._membership.incarnation):
            return not_a_member(self._group_id)
        return self._membership.commit_refusal()

    def _send(self, node_id: int, commit: _Commit) -> Unsent:
        subscribed = self._subscription.mode.is_group
        commit.generation = self._membership.generation if subscribed else NO_GENERATION
        commit.incarnation = self._membership.incarnation
        ids = {p.topic: self._metadata.topic_id(p.topic) or one.topic_id for p, one in commit.pending.items()}
        instance_id = self._config.group_instance_id if subscribed else None
        offsets = {partition: one.at for partition, one in commit.pending.items()}
        self._in_flight.append(commit)
        return Unsent(
            node_id,
            build_commit(self._group_id, commit.generation, instance_id, offsets, ids),
            self._config.request_timeout_ms,
            channel=COORDINATOR_CHANNEL,
            max_version=None if all(ids.values()) else BY_NAME_COMMIT,
            context=commit,
        )

    def _retry(self, commit: _Commit, error: KohortError, now_ms: int) -> None:
        retry_at_ms = commit.failed(now_ms)
        if commit.deadline_ms is None or retry_at_ms >= commit.deadline_ms:
            self._fail(commit, error)
            return
        self._waiting.add(commit)
