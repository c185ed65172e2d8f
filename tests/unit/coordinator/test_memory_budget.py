"""What groups may hold in memory, and what is refused beyond it."""

from kohort.coordinator.memory_budget import LOOK_EVERY_MS
from kohort.errors import ErrorCode
from support.machines.coordinator_stage import RANGE, CoordinatorStage

LARGE = [("range", bytes(200_000))]


def join_code(stage: CoordinatorStage, **options: object) -> int:
    return stage.answer(stage.join(**options)).error_code


def test_groups_of_new_names_are_refused_when_there_is_no_room_and_others_go_on():
    stage = CoordinatorStage(group_coordinator_max_bytes=30_000)
    (member,), generation = stage.stable(1)

    codes = [join_code(stage, group=f"g{i}") for i in range(100)]

    assert codes.index(ErrorCode.COORDINATOR_NOT_AVAILABLE) >= 2
    assert set(codes) == {ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert stage.heartbeat(member, generation) == ErrorCode.NONE
    assert stage.commit({("t", 0): 5}, member_id=member, generation=generation) == [0]
    assert "group.coordinator.max.bytes" in stage.coordinator.take_notes()[0].text


def test_there_is_room_again_when_groups_are_gone():
    stage = CoordinatorStage(group_coordinator_max_bytes=30_000)
    codes = [join_code(stage, group=f"g{i}") for i in range(20)]
    assert codes[-1] == ErrorCode.COORDINATOR_NOT_AVAILABLE

    stage.advance(60_000 + LOOK_EVERY_MS)  # the ids that were handed out have expired

    assert join_code(stage, group="new") == ErrorCode.MEMBER_ID_REQUIRED


def test_what_members_say_counts():
    stage = CoordinatorStage(group_coordinator_max_bytes=1_000_000)
    ids = [stage.answer(stage.join(group=f"g{i}", protocols=LARGE)).member_id for i in range(20)]
    assert all(ids), "a member that has no id yet leaves nothing else behind"

    codes = [join_code(stage, member_id=each, group=f"g{i}", protocols=LARGE) for i, each in enumerate(ids)]

    assert codes == [ErrorCode.NONE] * 4 + [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 16


def test_commits_of_new_groups_are_refused_too():
    stage = CoordinatorStage(group_coordinator_max_bytes=10_000)
    codes = [stage.commit({("t", 0): 1}, group=f"g{i}")[0] for i in range(20)]

    assert codes[0] == 0
    assert codes[-1] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.commit({("t", 0): 2}, group="g0") == [0], "a group that is there"


def test_without_a_limit_none_is_refused():
    stage = CoordinatorStage(group_coordinator_max_bytes=-1)

    assert {join_code(stage, group=f"g{i}", protocols=RANGE) for i in range(100)} == {ErrorCode.MEMBER_ID_REQUIRED}
