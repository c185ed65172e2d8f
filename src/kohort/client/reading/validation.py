"""Is what was read still part of the log? Positions are validated when the leader changed (KIP-320).

The rules: protocol/fetching.md#validation.

The leader is asked where the epoch of the last record read ends. Before the position: the log was cut off there, and
reading goes on from the cut if there is a reset policy; without one the user decides.
"""

from __future__ import annotations

from kohort.client.reading.context import ConsumerContext
from kohort.client.reading.list_offsets import CONSUMER, REFRESHED
from kohort.client.reading.positions import FetchState, PartitionState, Position
from kohort.client.reading.resets import LeaderQuestions, Question, Resets
from kohort.client.requests.denials import answer_error
from kohort.client.requests.metadata import LeaderAndEpoch
from kohort.client.requests.source import IDLE, Poll, Unsent
from kohort.client.requests.troubles import READING
from kohort.errors import ErrorCode, KohortError, LogTruncated, UnsupportedVersion, error_code
from kohort.model import TopicPartition
from kohort.wire.messages.list_offsets import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kohort.wire.schema import Message


class Validation:
    def __init__(self, context: ConsumerContext, resets: Resets) -> None:
        self._config = context.config
        self._subscription = context.subscription
        self._metadata = context.metadata
        self._resets = resets
        self._questions = LeaderQuestions(FetchState.AWAIT_VALIDATION, context)
        self._failures = context.failures
        self._troubles = context.troubles
        self._note = context.notes.warn
        self._seen_version = -1

    def poll(self, now_ms: int) -> Poll:
        if self._seen_version != self._metadata.version:
            self._seen_version = self._metadata.version
            for partition in self._subscription.recreated():
                self._resets.recreated(partition)
            self._subscription.check_leaders()
        return self._questions.poll(now_ms, self._ask) if self._subscription.not_fetching else IDLE

    def _ask(self, node_id: int, asked: list[Question]) -> Unsent | None:
        """Build the request for one leader. A leader without an epoch has no history to compare with."""
        topics: dict[str, OffsetForLeaderTopic] = {}
        compared: list[Question] = []
        for question in asked:
            (topic, number), state, _, leader = question
            if leader.epoch < 0:
                state.validated(leader)
                continue
            assert state.position is not None
            compared.append(question)
            of_topic = topics.setdefault(topic, OffsetForLeaderTopic(topic=topic, partitions=[]))
            of_topic.partitions.append(
                OffsetForLeaderPartition(
                    partition=number, current_leader_epoch=leader.epoch, leader_epoch=state.position.offset_epoch
                )
            )
        if not compared:
            return None
        request = OffsetForLeaderEpochRequest(replica_id=CONSUMER, topics=list(topics.values()))
        return Unsent(node_id, request, self._config.request_timeout_ms, context=compared)

    def on_response(self, sent: Unsent, response: Message, now_ms: int) -> None:
        assert isinstance(response, OffsetForLeaderEpochResponse)
        answers = {TopicPartition(t.topic, p.partition): p for t in response.topics for p in t.partitions}
        for partition, state, _, leader in self._questions.ended(sent):
            answer = answers.get(partition)
            code = ErrorCode.UNKNOWN_SERVER_ERROR if answer is None else error_code(answer.error_code)
            if answer is not None and code is ErrorCode.NONE:
                self._questions.succeeded()
                self._judge(partition, state, leader, Position(answer.end_offset, answer.leader_epoch))
                continue
            self._questions.ask_again(state, now_ms)
            self._metadata.request_refresh()
            what = f"validating the position in {partition}"
            if code in REFRESHED or code.retriable or code is ErrorCode.UNKNOWN_SERVER_ERROR:
                self._troubles.refused((READING, partition), code, what, now_ms)
            else:
                self._failures.append(answer_error(self._config, code, what, name=partition.topic))

    def on_failure(self, sent: Unsent, error: KohortError, now_ms: int) -> None:
        for _, state, _, leader in self._questions.ended(sent):
            if isinstance(error, UnsupportedVersion):
                state.validated(leader)  # a broker too old to tell
            else:
                self._questions.ask_again(state, now_ms)
        if not error.retriable and not isinstance(error, UnsupportedVersion):
            self._failures.append(error)

    def _judge(self, partition: TopicPartition, state: PartitionState, leader: LeaderAndEpoch, end: Position) -> None:
        position = state.position
        assert position is not None
        undefined = end.offset < 0 or end.offset_epoch < 0
        if not undefined and end.offset >= position.offset:
            state.validated(leader)
        elif self._resets.has_policy:
            if undefined:
                self._resets.truncated(partition, state)
            else:
                self._note(f"{partition}: the log was cut off at {end.offset}, before position {position.offset}")
                state.seek(end)
                state.validated(leader)
        else:
            state.looking_up = True  # until the user seeks
            error = LogTruncated(str(partition), position.offset, None if undefined else end.offset)
            self._failures.append_about(partition, state, error)
