"""Scripts of transactions for the differential harness: their requests in every state, errors included.

What is asked of the older protocol and of KIP-890's follows from the versions of a level, as with any client; in the
levels between, the two are mixed as no client mixes them, and brokers have to agree all the same.
"""

from __future__ import annotations

from typing import Any

from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.wire.messages.offsets import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kohort.wire.messages.producer_ids import InitProducerIdRequest
from kohort.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    DescribeTransactionsRequest,
    EndTxnRequest,
    ListTransactionsRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kohort.wire.record_batch import build_batch
from support.differential.harness import ScriptRun
from support.differential.log import id_of, produce, records
from support.waiting import eventually

UNDER_WAY = {"PrepareCommit", "PrepareAbort", "PrepareEpochFence"}
TRANSACTION = 1
UNKNOWN_PRODUCER_ID = 4_000_000_000
"""A producer id that no broker has assigned."""


class Writer:
    """A transactional producer with the values of its last responses. It asserts nothing; the harness compares."""

    def __init__(self, run: ScriptRun, name: str = "tx") -> None:
        self.run = run
        self.name = f"{name}-{run.broker.mark}"
        self.producer_id = self.epoch = -1
        self.sequence = 0

    def is_served(self) -> Writer:
        """Wait until the coordinator assigns the first epoch: a new cluster creates its topic first."""
        broker = self.run.broker
        broker.ask(FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[self.name]), 4)
        broker.eventually_serves(InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000), 4)
        return self

    def init(self, *, timeout_ms: int = 60_000, producer: tuple[int, int] = (-1, -1)) -> Any:
        """Send InitProducerId; ``producer``: producer id and epoch in the request (KIP-360)."""
        request = InitProducerIdRequest(
            transactional_id=self.name,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer[0],
            producer_epoch=producer[1],
        )
        answer = self.run.ask("coordinator", request)
        if answer is not None and not answer.error_code:
            self.producer_id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0
        return answer

    def also(self) -> Writer:
        """Return another process with the same transactional id."""
        other = Writer(self.run)
        other.name, other.producer_id, other.epoch = self.name, self.producer_id, self.epoch
        return other

    def add(self, topic: str, *partitions: int, producer_id: int | None = None, epoch: int | None = None) -> None:
        who = self.producer_id if producer_id is None else producer_id
        at = self.epoch if epoch is None else epoch
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))]
        one = AddPartitionsToTxnTransaction(
            transactional_id=self.name, producer_id=who, producer_epoch=at, verify_only=False, topics=topics
        )
        self.run.ask(
            "coordinator",
            AddPartitionsToTxnRequest(
                transactions=[one],
                v3_and_below_transactional_id=self.name,
                v3_and_below_producer_id=who,
                v3_and_below_producer_epoch=at,
                v3_and_below_topics=topics,
            ),
        )

    def write(self, topic: str, partition: int = 0, *, epoch: int | None = None) -> None:
        batch = build_batch(
            records(),
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=self.sequence,
            is_transactional=True,
        )
        answer = produce(self.run, topic, {partition: batch}, transactional_id=self.name)
        if answer is not None and not answer.responses[0].partition_responses[0].error_code:
            self.sequence += 3

    def add_group(self, group: str, *, epoch: int | None = None) -> None:
        at = self.epoch if epoch is None else epoch
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name, producer_id=self.producer_id, producer_epoch=at, group_id=group
        )
        self.run.ask("coordinator", request)

    def commit_offset(self, group: str, topic: str, offset: int, **member: Any) -> None:
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="m")
        topic_id = id_of(self.run, topic, TxnOffsetCommitRequest, 6)
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[partition])],
            **member,
        )
        self.run.ask("group", request)

    def end(self, *, commit: bool = True, producer_id: int | None = None, epoch: int | None = None) -> None:
        who = self.producer_id if producer_id is None else producer_id
        at = self.epoch if epoch is None else epoch
        request = EndTxnRequest(transactional_id=self.name, producer_id=who, producer_epoch=at, committed=commit)
        answer = self.run.ask("coordinator", request)
        if answer is not None and not answer.error_code and answer.producer_id >= 0:
            self.producer_id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0
        eventually(lambda: self.state() not in UNDER_WAY, "the markers are never written")

    def state(self) -> str:
        """Query the state outside the script: markers complete at a random time."""
        (described,) = self.run.broker.ask(
            DescribeTransactionsRequest(transactional_ids=[self.name]), 0
        ).transaction_states
        state: str = described.transaction_state
        return state


def ends(run: ScriptRun, topic: str) -> None:
    """Fetch the end offsets of written and of committed records."""
    for isolation_level in (0, 1):
        at = ListOffsetsPartition(partition_index=0, timestamp=-1)
        topics = [ListOffsetsTopic(name=topic, partitions=[at])]
        run.ask("reader", ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics))


def committed(run: ScriptRun, group: str, topic: str) -> None:
    """Fetch the group's offsets, and its stable offsets."""
    topic_id = id_of(run, topic, OffsetFetchRequest, 10)
    topics = [OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=[0])]
    for stable in (False, True):
        groups = [OffsetFetchRequestGroup(group_id=group, topics=topics)]
        run.ask("group", OffsetFetchRequest(group_id=group, topics=topics, groups=groups, require_stable=stable))


def describe(run: ScriptRun, *names: str) -> None:
    run.ask("administrator", DescribeTransactionsRequest(transactional_ids=list(names)))


def a_transaction(run: ScriptRun) -> None:
    topic, writer = run.topic(), Writer(run).is_served()
    writer.init()
    describe(run, writer.name)
    for commit in (True, False):
        writer.add(topic, 0, 1)
        describe(run, writer.name)
        writer.write(topic)
        writer.write(topic)
        ends(run, topic)
        writer.end(commit=commit)
        ends(run, topic)
        describe(run, writer.name)
        writer.end(commit=commit)  # a retry after a lost response
        writer.end(commit=not commit)
        describe(run, writer.name)
    writer.init(producer=(writer.producer_id, writer.epoch))
    writer.write(topic)
    writer.end(commit=False)
    ends(run, topic)
    describe(run, writer.name)


def what_is_no_transaction(run: ScriptRun) -> None:
    topic, missing_topic, writer = run.topic(), f"gone-{run.broker.mark}", Writer(run).is_served()
    for timeout_ms in (0, -1, 900_001):
        writer.init(timeout_ms=timeout_ms)
    writer.init(producer=(UNKNOWN_PRODUCER_ID, 0))
    writer.init()
    writer.end()
    writer.end(commit=False)
    writer.add(missing_topic, 0)
    writer.add(topic, 0, 7)
    describe(run, writer.name)
    for epoch in (writer.epoch + 1, writer.epoch - 1):
        writer.add(topic, 0, epoch=epoch)
        writer.end(epoch=epoch)
        writer.write(topic, epoch=epoch)
    writer.add(topic, 0, producer_id=UNKNOWN_PRODUCER_ID)
    writer.end(producer_id=UNKNOWN_PRODUCER_ID)
    stranger = Writer(run, "stranger")
    stranger.producer_id, stranger.epoch = UNKNOWN_PRODUCER_ID, 0
    stranger.add(topic, 0)
    stranger.add_group(f"g-{run.broker.mark}")
    stranger.end()
    describe(run, stranger.name, "", writer.name)


def who_comes_later_fences(run: ScriptRun) -> None:
    topic, first = run.topic(), Writer(run).is_served()
    first.init()
    second = first.also()
    first.add(topic, 0)
    first.write(topic)
    second.init()  # the open transaction of the first is aborted
    eventually(lambda: second.state() not in UNDER_WAY, "it is never aborted")
    second.init()
    ends(run, topic)
    first.write(topic)
    first.add(topic, 1)
    first.add_group(run.broker.group())
    first.end()
    first.init(producer=(first.producer_id, first.epoch))
    second.add(topic, 1)
    second.write(topic, 1)
    second.end()
    describe(run, second.name)


def offsets_in_transactions(run: ScriptRun) -> None:
    topic, group, writer = run.topic(), run.broker.group(), Writer(run).is_served()
    writer.init()
    for offset, commit in ((5, True), (9, False)):
        writer.add_group(group)
        writer.commit_offset(group, topic, offset)
        committed(run, group, topic)
        writer.end(commit=commit)
        committed(run, group, topic)
    writer.add_group(group)
    writer.commit_offset(group, topic, 11, generation_id=3, member_id="nobody")
    writer.commit_offset(group, topic, 11, generation_id=-1, member_id="nobody")
    writer.commit_offset(group, topic, 11, group_instance_id="nobody")
    writer.commit_offset(group, f"gone-{run.broker.mark}", 11)
    writer.add_group(nowhere := f"nowhere-{run.broker.mark}")
    writer.commit_offset(nowhere, topic, 11, generation_id=3, member_id="nobody")
    writer.add_group("")
    writer.add_group(group, epoch=writer.epoch + 1)
    writer.end(commit=False)
    committed(run, group, topic)


def listing_transactions(run: ScriptRun) -> None:
    topic, open_one, idle = run.topic(), Writer(run, "open").is_served(), Writer(run, "idle").is_served()
    open_one.init()
    idle.init()
    open_one.add(topic, 0)
    open_one.write(topic)
    for states in ([], ["Ongoing"], ["Empty", "no such state"], ["ongoing"]):
        run.ask("administrator", ListTransactionsRequest(state_filters=states))
    run.ask("administrator", ListTransactionsRequest(producer_id_filters=[idle.producer_id, UNKNOWN_PRODUCER_ID]))
    run.ask("administrator", ListTransactionsRequest(duration_filter=3_600_000))
    if run.can_say(ListTransactionsRequest, "transactional_id_pattern"):
        for pattern in ("open.*", "(", ""):
            run.ask("administrator", ListTransactionsRequest(transactional_id_pattern=pattern))
    open_one.end()


SCRIPTS = (
    a_transaction,
    what_is_no_transaction,
    who_comes_later_fences,
    offsets_in_transactions,
    listing_transactions,
)
