"""Decodable group and transaction records that no coordinator writes: the broker continues."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.coordinator.records import GroupWritten, build_record
from kohort.coordinator.transactions.states import TransactionState
from kohort.coordinator.transactions.transaction import Transaction
from kohort.coordinator.transactions.transaction import build_record as build_transaction
from kohort.model import TopicPartition
from kohort.wire.messages.group_admin import DescribeGroupsRequest, ListGroupsRequest
from kohort.wire.messages.group_classic import HeartbeatRequest
from kohort.wire.messages.group_records import GroupMetadataValue, MemberMetadata
from kohort.wire.record_batch import NewRecord, build_batch
from support.machines.broker_stage import BrokerStage
from support.machines.populated import OFFSETS, TRANSACTIONS, check_all_is_there, own_logs, populate
from support.raw.group_member import RawMember, committed
from support.raw.transactional import Transactional

SOME = settings(max_examples=60)
INT32 = st.sampled_from([0, -1, 1, 10_000, 2**31 - 1, -(2**31)])
INT64 = st.sampled_from([0, -1, 1_700_000_000_000, 2**63 - 1, -(2**63)])
words = st.sampled_from(["", "m", "n", "range", "consumer"])
blobs = st.sampled_from([b"", b"\x00", b"\x00\x01\x00\x00\x00\x01\x00\x01a\xff\xff\xff\xff"]) | st.binary(max_size=20)
members = st.builds(
    MemberMetadata,
    member_id=words,
    group_instance_id=st.none() | words,
    client_id=words,
    client_host=words,
    rebalance_timeout=INT32,
    session_timeout=INT32,
    subscription=blobs,
    assignment=blobs,
)
generations = st.builds(
    GroupMetadataValue,
    protocol_type=words,
    generation=INT32,
    protocol=st.none() | words,
    leader=st.none() | words,
    current_state_timestamp=INT64,
    members=st.lists(members, max_size=3),
)
topics = st.sampled_from(["", "a", OFFSETS, TRANSACTIONS, "../x"])
transactions = st.builds(
    Transaction,
    st.just("odd"),
    st.integers(-1, 3),
    st.sampled_from([-1, 0, 0x7FFE, 0x7FFF]),
    INT32,
    st.sampled_from(list(TransactionState)),
    st.frozensets(
        st.builds(
            TopicPartition,
            st.sampled_from(["", "a", OFFSETS, TRANSACTIONS, "../x"]),
            st.sampled_from([-1, 0, 2**31 - 1]),
        ),
        max_size=3,
    ),
    INT64,
    INT64,
    previous_producer_id=INT64,
    next_producer_id=INT64,
    client_version=st.sampled_from([0, 1, 2]),
)


class Unchecked(BrokerStage):
    """Skips the invariants, which are valid only for records that a coordinator wrote."""

    def check(self) -> None:
        """Check nothing."""


def write(log, key, value):
    log.append(build_batch([NewRecord(key, value, (), 1)]), 1_700_000_000_000, from_client=False)


@SOME
@given(written=st.lists(generations, min_size=1, max_size=2), again=st.booleans())
def test_a_group_of_odd_members_lets_others_join(written, again):
    stage = Unchecked(offsets_topic_num_partitions=1, transaction_state_log_num_partitions=1)
    ann = populate(stage)
    for generation in written:
        write(own_logs(stage)[OFFSETS], *build_record(GroupWritten("odd", generation)))

    stage.restart(cleanly=again)

    check_all_is_there(stage, ann)
    peer = stage.connect()
    peer.send(DescribeGroupsRequest(groups=["odd", "g"]), 5)
    peer.send(ListGroupsRequest(), 4)
    peer.send(HeartbeatRequest(group_id="odd", generation_id=written[-1].generation, member_id="m"), 4)
    bob = RawMember(stage.connect(), "odd", ["a"])
    bob.wire.send(bob.join_request(), 9)
    if (answer := bob.wire.take()) is not None and answer.error_code == 79:
        bob.member_id = answer.member_id
        bob.wire.send(bob.join_request(), 9)
    for _ in range(3):
        stage.advance(5_000)
        ann.heartbeat()
    stage.advance(100_000)
    assert committed(stage.connect(), "g", "a", [0]) == {0: 7}
    stage.restart()
    assert committed(stage.connect(), "g", "a", [0]) == {0: 7}


@SOME
@given(written=st.lists(transactions, min_size=1, max_size=2), again=st.booleans())
def test_an_odd_transaction_lets_others_go_on(written, again):
    stage = Unchecked(offsets_topic_num_partitions=1, transaction_state_log_num_partitions=1)
    ann = populate(stage)
    for transaction in written:
        write(own_logs(stage)[TRANSACTIONS], *build_transaction("odd", transaction))

    stage.restart(cleanly=again)

    check_all_is_there(stage, ann)
    odd = Transactional(stage.connect(), "odd")
    if odd.init() == 0:
        assert odd.add("a", 0) == 0
        assert odd.end(commit=True) == 0
    stage.advance(5_000)
    stage.restart()
    check_all_is_there(stage, ann)
