"""OffsetForLeaderEpoch (23), versions 2-4: end offset of a leader epoch, to detect truncation. KIP-320."""

from __future__ import annotations

from kohort.broker.api import PARTITIONS, AnswerBound, BrokerApi, Cost, NameKind, Parts
from kohort.broker.authorization import PASSED, TOPIC_DENIED, GuardResult, Rights, TopicsRule
from kohort.broker.leaders import led_log
from kohort.broker.request import Answer, Request, refusal_of
from kohort.broker.state import BrokerState
from kohort.errors import KohortError
from kohort.security.acls import Operation
from kohort.steps import Steps
from kohort.wire.messages import list_offsets as wire


def offset_for_leader_epoch(state: BrokerState, request: Request) -> Answer:
    message: wire.OffsetForLeaderEpochRequest = request.message
    return wire.OffsetForLeaderEpochResponse(
        topics=[
            wire.OffsetForLeaderTopicResult(
                topic=entry.topic, partitions=[_end(state, entry.topic, partition) for partition in entry.partitions]
            )
            for entry in message.topics
        ]
    )


def _end(state: BrokerState, topic: str, entry: wire.OffsetForLeaderPartition) -> wire.EpochEndOffset:
    try:
        log = led_log(state, topic, entry.partition, current_leader_epoch=entry.current_leader_epoch)
    except KohortError as error:
        return wire.EpochEndOffset(error_code=refusal_of(error).code, partition=entry.partition)
    epoch, end_offset = log.end_of_epoch(entry.leader_epoch)
    return wire.EpochEndOffset(partition=entry.partition, leader_epoch=epoch, end_offset=end_offset)


guard_topics = TopicsRule(
    Operation.DESCRIBE,
    wire.OffsetForLeaderEpochResponse,
    lambda p: wire.EpochEndOffset(error_code=TOPIC_DENIED, partition=p.partition),
    lambda topic, made: wire.OffsetForLeaderTopicResult(topic=topic.topic, partitions=made),
    name_of=lambda topic: topic.topic,
)


def guard_epochs(rights: Rights) -> GuardResult | Steps[GuardResult]:
    """Require CLUSTER_ACTION on the cluster (the right of follower replicas), or DESCRIBE on each topic."""
    if rights.may_on_cluster(Operation.CLUSTER_ACTION, quietly=True):
        return PASSED
    return guard_topics(rights)


OFFSET_FOR_LEADER_EPOCH = BrokerApi(
    wire.OffsetForLeaderEpochRequest,
    offset_for_leader_epoch,
    guard_epochs,
    Cost(AnswerBound.REQUEST, parts=Parts(PARTITIONS, PARTITIONS, 1_000)),
    names={"topics.topic": NameKind.TOPIC},
)
