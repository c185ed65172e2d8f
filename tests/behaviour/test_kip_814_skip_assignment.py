"""KIP-814: a static leader that returns skips the assignment."""

from kohort.errors import ErrorCode
from support.raw.broker_under_test import settle


def static_pair(broker, **options):
    group = broker.group()
    ann, ben = (broker.member(group, instance_id=i, **options) for i in ("a", "b"))
    broker.stable(ann, ben)
    return ann, ben


def test_join_version_9_tells_the_returning_leader_to_skip_the_assignment(broker):
    ann, ben = static_pair(broker)
    again = broker.member(ann.group, instance_id="a")

    answer = again.rejoin()

    assert answer.skip_assignment is True
    assert (answer.generation_id, answer.leader) == (2, again.member_id)
    assert {m.member_id for m in answer.members} == {again.member_id, ben.member_id}
    assert again.sync().assignment == ann.member_id.encode()


def test_returning_follower_skips_no_assignment(broker):
    ann, _ = static_pair(broker)
    again = broker.member(ann.group, instance_id="b")

    answer = again.rejoin()

    assert (answer.skip_assignment, answer.leader, answer.members) == (False, ann.member_id, [])


def test_join_before_version_9_names_the_previous_leader(broker):
    ann, _ = static_pair(broker)
    again = broker.member(ann.group, instance_id="a", join_version=8)

    answer = again.rejoin()

    assert (answer.leader, answer.members) == (ann.member_id, [])
    assert again.sync().assignment == ann.member_id.encode()


def test_returning_leader_leads_the_next_generation(broker):
    ann, ben = static_pair(broker)
    again = broker.member(ann.group, instance_id="a")
    again.rejoin()

    again.start_join()
    broker.await_state(ann.group, "PreparingRebalance")
    assert ben.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    ben.start_join()
    answer = again.joined()
    ben.joined()

    assert (answer.generation_id, answer.leader, answer.skip_assignment) == (3, again.member_id, False)
    settle(again, ben)
