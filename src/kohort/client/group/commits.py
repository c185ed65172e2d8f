"""Commits to the group: by the user, by the clock, and before partitions are given up.

The rules: protocol/offsets.md#what-a-client-commits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from kohort.client.group.membership import COORDINATOR_MOVED, NO_GENERATION, Membership, not_a_member
from kohort.client.group.offset_messages import BY_NAME_COMMIT, TopicIds, build_commit, commit_errors
from kohort.client.reading.context import ConsumerContext
from kohort.client.requests.denials import answer_error
from kohort.client.requests.find_coordinator import COORDINATOR_LANE, CoordinatorLookup
from kohort.client.requests.request_state import Backoff, TimedRequests, TimedRequestState, retry_backoff
from kohort.client.requests.source import IDLE, Poll, Promise, Unsent
from kohort.errors import ApiError, ApiTimeout, CommitFailed, ErrorCode, KohortError
from kohort.model import NO_UUID, OffsetAndMetadata, TopicPartition
from kohort.wire.messages.offsets import OffsetCommitRequest, OffsetCommitResponse
from kohort.wire.schema import Message


class AskedFor(NamedTuple):
    """What a commit asks for of one partition."""

    number: int
    at: OffsetAndMetadata
    topic_id: bytes | None = None


Left = Mapping[TopicPartition, AskedFor]


class CommitOrder:
    """Order of a consumer's commits: a repeated commit never replaces the offset of a later one.

    A commit waits before it is repeated, and later ones are sent meanwhile. The order keeps the latest commit of each
    partition until all of them are done.
    """

    def __init__(self) -> None:
        self._last = 0
        self._written: dict[TopicPartition, int] = {}
        self._doubtful: dict[TopicPartition, AskedFor] = {}
        """The latest that was sent and may be written, or may not: its answer was lost, or leaves it open."""

    def next_number(self, *, is_alone: bool) -> int:
        """Return the place of a commit in the order. ``is_alone``: no other is to be done."""
        if is_alone:
            self._written.clear()
            self._doubtful.clear()
        self._last += 1
        return self._last

    def left_of(self, number: int, left: Left) -> dict[TopicPartition, AskedFor]:
        """Return what commit ``number`` is to say now of what it had left: nothing of what a later one has written, and
        what a later one said where nobody knows whether that is written."""
        return {
            partition: max(asked_for, self._doubtful.get(partition, asked_for), key=_number)
            for partition, asked_for in left.items()
            if self._written.get(partition, 0) < number
        }

    def note_written(self, left: Left) -> None:
        for partition, asked_for in left.items():
            self._written[partition] = max(asked_for.number, self._written.get(partition, 0))

    def note_doubtful(self, left: Left) -> None:
        for partition, asked_for in left.items():
            self._doubtful[partition] = max(asked_for, self._doubtful.get(partition, asked_for), key=_number)


def _number(asked_for: AskedFor) -> int:
    return asked_for.number


Offsets = dict[TopicPartition, OffsetAndMetadata]

COORDINATOR_DOUBTFUL: Final = COORDINATOR_MOVED | {ErrorCode.REQUEST_TIMED_OUT}
UNKNOWN_TOPIC: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
RETRIED: Final = COORDINATOR_DOUBTFUL | UNKNOWN_TOPIC | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
AUTO_COMMIT: Final = "auto-commit"


class _Commit(TimedRequestState):
    """A commit until it is done. Without a deadline it is tried once."""

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
        self.left = {p: AskedFor(number, at, topic_ids.get(p)) for p, at in offsets.items()}
        self.promise: Promise[Offsets] = Promise()
        self.generation = NO_GENERATION
        self.life: int | None = None
        """Of the member for which it was sent first."""
        self.before_revocation = before_revocation
        self.unknown_since_ms: int | None = None
        self.missing: KohortError | None = None


class Commits:
    def __init__(self, context: ConsumerContext, lookup: CoordinatorLookup, membership: Membership) -> None:
        config = context.config
        assert config.group_id is not None
        self._group_id: str = config.group_id
        self._config = config
        self._lookup = lookup
        self._note = context.notes.warn
        self._troubles = context.troubles
        self._membership = membership
        self._subscription = context.subscription
        self._metadata = context.metadata
        self._backoff = retry_backoff(config, context.rng)
        self._waiting: TimedRequests[_Commit] = TimedRequests()
        self._under_way: list[_Commit] = []
        self._order = CommitOrder()
        self._auto_at_ms: int | None = None
        self._auto: Promise[Offsets] | None = None
        self._metrics = context.metrics

    # What is asked of it

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
        """Commit ``offsets``: retried until ``deadline_ms``, or sent once without a deadline.

        An unknown topic is retried until the metadata, too, show that it does not exist. ``before_revocation``: the
        partitions are revoked next, so an unknown topic is an error at once, and errors are logged.
        """
        is_alone = not self._waiting and not self._under_way
        number = self._order.next_number(is_alone=is_alone)
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
        found: Offsets = {}
        for partition in partitions:
            state = self._subscription.assigned.get(partition)
            offset = state.to_commit() if state is not None else None
            if offset is not None:
                found[partition] = offset
        return found

    def auto_commit(self, now_ms: int) -> None:
        if not self._config.enable_auto_commit:
            return
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

    def _auto_committed(self, error: KohortError | None, now_ms: int) -> None:
        group = f"group {self._group_id!r}"
        if error is None:
            self._troubles.mended(AUTO_COMMIT, f"the positions in {group} are auto-committed", now_ms)
            return
        text = f"the positions in {group} could not be auto-committed: {error}"
        self._troubles.report(AUTO_COMMIT, text, now_ms)
        still_member = isinstance(error, CommitFailed) and self._refusal() is None
        unknown_topic = isinstance(error, ApiError) and error.code in UNKNOWN_TOPIC
        if still_member or (error.retriable and not unknown_topic):
            self._auto_at_ms = now_ms + self._backoff.delay_ms(1)

    def restart_auto_commit(self, now_ms: int) -> None:
        self._auto_at_ms = now_ms + self._config.auto_commit_interval_ms

    # The source

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
            refusal = self._refusal(commit.life)
            commit.left = self._order.left_of(commit.number, commit.left)
            self._drop_recreated(commit)
            if refusal is not None:
                self._fail(commit, refusal)
            elif not commit.left:
                self._end(commit)
            elif self._is_overtaken(commit):
                commit.repeated(now_ms)
                self._waiting.add(commit)
            else:
                unsent.append(self._send(node_id, commit))
        return Poll(unsent, self._waiting.wake_at_ms(now_ms))

    def _drop_recreated(self, commit: _Commit) -> None:
        current = {p: self._metadata.topic_id(p.topic) for p in commit.left}
        stale = [
            p for p, one in commit.left.items() if one.topic_id is not None and current[p] not in (None, one.topic_id)
        ]
        if stale:
            error = self._error(ErrorCode.UNKNOWN_TOPIC_ID, stale, ": the topic was deleted and created again")
            self._drop(commit, stale, error)

    def _drop(self, commit: _Commit, partitions: Collection[TopicPartition], error: ApiError) -> None:
        error.retriable = False
        commit.missing = error
        commit.left = {p: one for p, one in commit.left.items() if p not in partitions}

    def _is_overtaken(self, commit: _Commit) -> bool:
        return any(
            other.number > commit.number and not commit.left.keys().isdisjoint(other.left.keys())
            for other in self._under_way
        )

    def on_response(self, sent: Unsent, response: Message, now_ms: int) -> None:
        assert isinstance(sent.request, OffsetCommitRequest)
        assert isinstance(response, OffsetCommitResponse)
        commit: _Commit = sent.context
        self._under_way.remove(commit)
        errors = commit_errors(sent.request, response)
        written = {partition: one for partition, one in commit.left.items() if partition not in errors}
        self._order.note_written(written)
        if errors:
            self._metrics.refused(OffsetCommitRequest, next(iter(errors.values())))
        ids = {topic.name: topic.topic_id for topic in sent.request.topics if topic.topic_id != NO_UUID}
        errors = self._without_missing(commit, errors, ids, now_ms)
        if not errors:
            self._end(commit)
            return
        # An error of the group comes before those of topics: the coordinator answers unknown topics itself.
        code = next((c for c in errors.values() if c not in UNKNOWN_TOPIC), next(iter(errors.values())))
        error = self._error(code, [p for p, c in errors.items() if c is code])
        if code in RETRIED:
            if code in COORDINATOR_DOUBTFUL:
                self._doubt(commit)
            self._retry(commit, error, now_ms)
            return
        verdict = self._membership.judge_commit(commit.generation, error)
        # What is not assigned any more may be further by now, under somebody else.
        if verdict.may_retry and commit.offsets.keys() <= self._subscription.assigned.keys():
            self._retry(commit, verdict.error, now_ms)
        else:
            self._fail(commit, verdict.error)

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
        """Tell whether a retry is useless: newer metadata lack the partition, or it is revoked next."""
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
        self._under_way.remove(sent.context)
        if error.retriable:
            self._doubt(sent.context)
            self._retry(sent.context, error, now_ms)
        else:
            self._fail(sent.context, error)

    def _end(self, commit: _Commit) -> None:
        if commit.missing is None:
            commit.promise.resolve(commit.offsets)
        else:
            self._fail(commit, commit.missing)

    def _fail(self, commit: _Commit, error: KohortError) -> None:
        commit.promise.fail(error)
        if commit.before_revocation and self._config.enable_auto_commit:
            self._note(f"positions in group {self._group_id!r} were not committed before the revocation: {error}")

    def _doubt(self, commit: _Commit) -> None:
        self._lookup.mark_unknown()
        self._order.note_doubtful(commit.left)

    def _refusal(self, life: int | None = None) -> KohortError | None:
        """Return why a commit would be wrong now, or None. Without group subscription everybody may.

        What was sent in an earlier ``life`` of the member is of partitions that others may have by now.
        """
        if not self._subscription.mode.is_group:
            return None
        if life not in (None, self._membership.life):
            return not_a_member(self._group_id)
        return self._membership.commit_refusal()

    def _send(self, node_id: int, commit: _Commit) -> Unsent:
        subscribed = self._subscription.mode.is_group
        commit.generation = self._membership.generation if subscribed else NO_GENERATION
        commit.life = self._membership.life
        ids = {p.topic: self._metadata.topic_id(p.topic) or one.topic_id for p, one in commit.left.items()}
        instance_id = self._config.group_instance_id if subscribed else None
        self._under_way.append(commit)
        return Unsent(
            node_id,
            build_commit(self._group_id, commit.generation, instance_id, _offsets(commit.left), ids),
            self._config.request_timeout_ms,
            lane=COORDINATOR_LANE,
            max_version=None if all(ids.values()) else BY_NAME_COMMIT,
            context=commit,
        )

    def _retry(self, commit: _Commit, error: KohortError, now_ms: int) -> None:
        retry_at_ms = commit.failed(now_ms)
        if commit.deadline_ms is None or retry_at_ms >= commit.deadline_ms:
            self._fail(commit, error)
            return
        self._waiting.add(commit)


def _offsets(asked_for: Mapping[TopicPartition, AskedFor]) -> Offsets:
    return {partition: one.at for partition, one in asked_for.items()}
