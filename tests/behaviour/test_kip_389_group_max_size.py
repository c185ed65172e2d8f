"""KIP-389: group.max.size limits the members of a group."""

from kohort.errors import ErrorCode
from support.raw.broker_under_test import settle


def full(broker):
    size = broker.config("group.max.size")
    assert size <= 20, f"group.max.size is {size}: the broker must be started with a small one"
    members = [broker.member(broker.group()) for _ in range(size)]
    broker.stable(*members)
    return members


def test_full_group_rejects_new_members(broker):
    ann, *_ = full(broker)

    answer = (late := broker.member(ann.group)).wire.ask(late.join_request(), 9)

    assert (answer.error_code, answer.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert ann.heartbeat() == 0


def test_pending_member_ids_do_not_count_for_the_size(broker):
    *members, last = [broker.member(broker.group()) for _ in range(broker.config("group.max.size"))]
    broker.stable(*members)
    late = broker.member(last.group)
    late.ask_for_id()
    last.join()
    broker.await_state(last.group, "PreparingRebalance")
    for member in members:
        member.start_join()
    broker.await_earlier_requests(last.group)

    assert late.refused_join() == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_full_group_lets_its_members_rejoin(broker):
    ann, *others = full(broker)

    broker.start_rebalance(ann, *others)
    for member in (ann, *others):
        member.joined()

    settle(ann, *others)


def test_leaving_member_makes_room(broker):
    ann, *others, ben = full(broker)
    ben.leave()
    late = broker.member(ann.group)

    late.join()
    for member in (ann, *others):
        member.start_join()
    for member in (ann, *others, late):
        member.joined()

    settle(ann, *others, late)
