"""KIP-429: members keep their owned partitions, and may commit, during a cooperative rebalance."""

from kohort.errors import ErrorCode
from support.consumer_protocol import subscription
from support.raw.broker_under_test import settle


def cooperative(*topics, owned=()):
    return [("cooperative-sticky", subscription(*topics, owned=owned))]


def test_leader_gets_owned_partitions_of_members(broker):
    group = broker.group()
    ann, ben = (broker.member(group, protocols=cooperative("t")) for _ in range(2))
    broker.stable(ann, ben)
    ann.protocols = cooperative("t", owned=[("t", 0), ("t", 1)])
    broker.start_rebalance(ann, ben)

    members = {m.member_id: m.metadata for m in ann.joined().members}

    assert members == {ann.member_id: ann.protocols[0][1], ben.member_id: ben.protocols[0][1]}
    ben.joined()


def test_follower_with_changed_owned_partitions_starts_the_second_rebalance(broker):
    group = broker.group()
    ann, ben = (broker.member(group, protocols=cooperative("t", owned=[("t", i)])) for i in range(2))
    broker.stable(ann, ben)

    ben.protocols = cooperative("t")  # the metadata after the revocation
    ben.start_join()
    broker.await_state(group, "PreparingRebalance")

    assert ann.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    ann.start_join()
    assert (ann.joined().generation_id, ben.joined().generation_id) == (3, 3)
    settle(ann, ben)


def test_follower_with_unchanged_metadata_is_answered_immediately(broker):
    group = broker.group()
    ann, ben = (broker.member(group, protocols=cooperative("t")) for _ in range(2))
    broker.stable(ann, ben)

    answer = ben.rejoin()

    assert (answer.generation_id, answer.leader, answer.members) == (2, ann.member_id, [])
    assert broker.state(group) == "Stable"


def test_leader_with_unchanged_metadata_starts_a_rebalance(broker):
    group = broker.group()
    ann, ben = (broker.member(group, protocols=cooperative("t")) for _ in range(2))
    broker.stable(ann, ben)

    broker.start_rebalance(ann, ben)

    assert (ann.joined().generation_id, ben.joined().generation_id) == (3, 3)


def test_members_may_commit_while_preparing_and_not_while_completing_a_rebalance(broker):
    group, topic = broker.group(), broker.topic()
    ann, ben = (broker.member(group, protocols=cooperative(topic)) for _ in range(2))
    broker.stable(ann, ben)
    ann.start_join()
    broker.await_state(group, "PreparingRebalance")

    assert ben.commit(topic, {0: 5}) == [0]

    ben.start_join()
    ann.joined()
    ben.joined()
    assert ben.commit(topic, {0: 6}) == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert ben.commit(topic, {0: 6}, generation_id_or_member_epoch=2) == [ErrorCode.ILLEGAL_GENERATION]
    settle(ann, ben)
    assert broker.committed(group, topic, [0]) == [5]
