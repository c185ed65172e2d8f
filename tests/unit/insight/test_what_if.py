"""What-if predictions from group snapshots."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kohort.errors import UsageError
from kohort.insight.findings.what_if import WhatIfFinding
from kohort.insight.lag import lag_of
from kohort.insight.snapshot import GroupSnapshot
from kohort.insight.what_if.draining import flow_of
from kohort.insight.what_if.predict import ClusterFacts, what_if
from kohort.insight.what_if.scenario import Assumptions, Scenario
from support.machines.group_looks import look, member, tp

NINE = {n: (0, 10 * n) for n in range(9)}


def three(assignor: str | None = "cooperative-sticky", **more: object) -> GroupSnapshot:
    members = [member("a", 0, 1, 2), member("b", 3, 4, 5), member("c", 6, 7, 8)]
    return look(0, members, NINE, assignor=assignor, **more)


def loads(found: WhatIfFinding) -> dict[str, tuple[int | None, int | None]]:
    return {one.member_id: (one.partitions_before, one.partitions_after) for one in found.loads}


def test_what_if_of_added_members_predicts_two_cooperative_rebalances():
    found = what_if(three(), Scenario(newcomers=(("n1", None), ("n2", None), ("n3", None))))

    assert (found.rounds, len(found.moves), found.members_after, found.idle) == (2, 3, 6, ())
    assert {move.after for move in found.moves} == {"n1", "n2", "n3"}
    assert (found.pause_from_s, found.pause_to_s) == pytest.approx((0.3, 3 * 3.1)), "only moved partitions pause"


def test_what_if_of_eager_group_predicts_a_pause_of_all_partitions():
    found = what_if(three("sticky"), Scenario(newcomers=(("n1", None),)))

    assert (found.rounds, len(found.moves)) == (1, 2)
    assert (found.pause_from_s, found.pause_to_s) == pytest.approx((0.9, 9 * 3.1))


@pytest.mark.parametrize(
    ("how", "least_s", "most_s"), [("close", 0.3, 9.3), ("sigkill", 126.3, 144.3), ("poll", 900.3, 909.3)]
)
def test_what_if_of_killed_member_predicts_a_pause_until_its_session_expires(how: str, least_s: float, most_s: float):
    found = what_if(three(), Scenario(kill=(("a-id", how),)))  # type: ignore[arg-type]

    assert (found.rounds, len(found.moves), loads(found)["a-id"]) == (1, 3, (3, None))
    assert (found.pause_from_s, found.pause_to_s) == pytest.approx((least_s, most_s))


def test_what_if_of_rolling_restart_of_static_members_moves_no_partition():
    static = what_if(three(), Scenario(rolling_restart=True, all_static=True))
    dynamic = what_if(three(), Scenario(rolling_restart=True))

    assert (static.rounds, static.moves, static.moves_in_all) == (0, (), 0)
    assert "only 0 of 3 members have a group.instance.id now" in static.notes
    assert dynamic.rounds >= 6
    assert dynamic.moves_in_all >= 9
    assert [one.member_id for one in dynamic.loads] == ["a-id", "b-id", "c-id"], (
        "the member ids after the restart are those before it"
    )


def test_what_if_of_rolling_restart_moves_partitions_of_dynamic_members_only():
    members = [member("a", 0, 1, 2, instance_id="a"), member("b", 3, 4, 5, instance_id="b"), member("c", 6, 7, 8)]
    mixed = what_if(look(0, members, NINE, assignor="cooperative-sticky"), Scenario(rolling_restart=True))

    assert mixed.moves_in_all == 6, "three partitions move away and back"
    assert any("to avoid moves, give each member a group.instance.id" in note for note in mixed.notes)
    for rolled in (Scenario(rolling_restart=True), Scenario(rolling_restart=True, all_static=True)):
        static = [*members[:2], member("c", 6, 7, 8, instance_id="c")]
        found = what_if(look(0, static, NINE, assignor="cooperative-sticky"), rolled)
        assert (found.rounds, found.moves_in_all, found.pause_from_s, found.notes) == (0, 0, 45.0, ())


def test_what_if_of_static_members_with_another_change_predicts_one_rebalance():
    static = Scenario(rolling_restart=True, all_static=True)

    grown = what_if(three(), replace(static, partitions={"t": 12}))
    assert (len(grown.moves), grown.rounds) == (3, 1)
    other = what_if(three("range"), replace(static, assignor="roundrobin"))
    assert (other.assignor, other.rounds, len(other.moves)) == ("roundrobin", 1, 6)
    modern = what_if(three(), replace(static, to_consumer=True))
    assert (modern.protocol, modern.rounds, modern.moves) == ("consumer", 1, ())


def test_what_if_of_restart_longer_than_the_session_timeout_predicts_an_expiry():
    slow = Assumptions(restart_to_ms=60_000)
    found = what_if(three(), Scenario(rolling_restart=True, all_static=True), slow)

    assert "a member that is away for longer than the session timeout expires, and its partitions move" in found.notes


def test_what_if_assigns_matching_topics_to_member_with_subscription_pattern():
    both = [
        member("a", 0, 1, 2, topics=(), regex="t|u", matched=("t", "u"), protocol="consumer"),
        member("b", topics=("t",), protocol="consumer"),
    ]
    snapshot = replace(look(0, both, dict.fromkeys(range(3), (0, 0)), assignor="uniform"), protocol="consumer")
    snapshot = replace(snapshot, partition_counts={"t": 3, "u": 2})
    found = what_if(snapshot, Scenario())

    assert found.partitions == 5
    assert {(m.topic, m.partition): m.after for m in found.moves if m.topic == "u"} == {
        ("u", 0): "a-id",
        ("u", 1): "a-id",
    }
    unknown = replace(both[0], matched=None)
    assert any(
        "subscription pattern are unknown" in note
        for note in what_if(replace(snapshot, members=(unknown,)), Scenario()).notes
    )


def test_what_if_uses_racks_for_rack_aware_assignors_only():
    members = [member("a", 0, 1, 2, rack="north"), member("b", 3, 4, 5, rack="south")]
    snapshot = look(0, members, dict.fromkeys(range(6), (0, 0)), assignor="range")
    racks = {tp(n): frozenset(["south" if n < 3 else "north"]) for n in range(6)}

    assert what_if(snapshot, Scenario()).moves == ()
    assert len(what_if(snapshot, Scenario(), cluster=ClusterFacts(racks=racks)).moves) == 6


def test_what_if_of_restarted_single_member_predicts_a_pause_of_its_partitions():
    found = what_if(
        look(0, [member("a", 0, 1)], {0: (0, 0), 1: (0, 0)}, assignor="cooperative-sticky"),
        Scenario(rolling_restart="dynamic"),
    )

    assert (found.pause_from_s, found.pause_to_s) == pytest.approx((2 * 5.1, 2 * 33.1))


def test_what_if_of_more_members_than_partitions_names_idle_members():
    found = what_if(three("range"), Scenario(newcomers=tuple((f"n{n}", None) for n in range(8))))

    assert len(found.idle) == 2
    assert found.notes == ("the group uses at most 9 members: it has 9 partitions",)


def test_what_if_shows_added_partitions_without_old_owner_and_without_lag():
    found = what_if(three(), Scenario(partitions={"t": 12}))

    assert [(m.partition, m.before) for m in found.moves] == [(9, None), (10, None), (11, None)]
    assert [(one.lag_before, one.lag_after) for one in found.loads] == [(30, 30), (120, 120), (210, 210)]


def test_what_if_of_converting_a_balanced_group_moves_no_partition():
    found = what_if(three(), Scenario(to_consumer=True))

    assert (found.protocol, found.assignor, found.moves) == ("consumer", "uniform", ())


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        (Scenario(remove=("x",)), "member 'x' is not in the group"),
        (Scenario(assignor="uniform"), "unknown assignor 'uniform' of classic groups"),
        (Scenario(assignor="sticky", to_consumer=True), "unknown assignor 'sticky' of consumer groups"),
        (Scenario(partitions={"t": 3}), "topic 't' has 9 partitions: Kafka cannot reduce the number"),
        (Scenario(partitions={"u": 3}), "group 'g' does not read topic 'u'"),
        (Scenario(newcomers=(("a-id", None),)), "cannot add member 'a-id': it is already in the group"),
    ],
)
def test_what_if_of_impossible_scenario_raises_usage_error(scenario: Scenario, words: str):
    with pytest.raises(UsageError, match=words):
        what_if(three(), scenario)


def test_what_if_of_group_without_members_raises_usage_error():
    with pytest.raises(UsageError, match="has no members"):
        what_if(look(0, [], NINE), Scenario())


def rates(*looks: GroupSnapshot, **total: float) -> ClusterFacts:
    return ClusterFacts(rates=lambda counts: flow_of(lag_of(looks), counts, **total))


def test_what_if_lag_peaks_after_the_pause_and_drains_with_the_slowest_member():
    around = rates(three(), in_per_s=90.0, drain_per_s=60.0)
    found = what_if(three(), Scenario(kill=(("a-id", "sigkill"),)), cluster=around).drain

    assert found is not None
    assert (found.written_per_s, found.handled_from_per_s, found.unread) == (90.0, 60.0, 0)
    assert (found.peak_lag_from, found.peak_lag_to) == (360 + 1263, 360 + 1443)
    assert found.drained_from_s is not None
    assert found.members_with_growing_lag == (), "the two other members get 40 and 50 records/s"
    assert (found.drained_from_s, found.drained_to_s) == pytest.approx((98.2, 110.2))
    swamped = what_if(
        three(), Scenario(kill=(("a-id", "sigkill"),)), cluster=rates(three(), in_per_s=90.0, drain_per_s=40.0)
    )
    assert swamped.drain is not None
    assert (swamped.drain.drained_to_s, len(swamped.drain.members_with_growing_lag)) == (None, 2)


def test_what_if_drain_time_with_skewed_rates_is_the_drain_time_of_the_slowest_member():
    members = [member("a", 0), member("b", 1)]
    looks = [
        look(0, members, {0: (0, 100), 1: (0, 100)}, assignor="range"),
        look(10, members, {0: (500, 1000), 1: (400, 500)}, assignor="range"),
    ]
    found = what_if(looks[-1], Scenario(), cluster=rates(*looks)).drain

    assert found is not None
    assert (found.written_per_s, found.handled_from_per_s, found.handled_to_per_s) == (130.0, 40.0, 50.0)
    assert (found.slowest, found.members_with_growing_lag, found.drained_from_s) == ("a-id", ("a-id", "b-id"), None)
    quick = what_if(looks[-1], Scenario(), cluster=rates(*looks, drain_per_s=200.0)).drain
    assert quick is not None
    assert (quick.slowest, quick.members_with_growing_lag) == ("a-id", ())
    assert quick.drained_to_s == pytest.approx((500 + 90 * 3.1) / 110)


def test_what_if_without_known_rates_has_no_drain_time():
    assert what_if(three(), Scenario(), cluster=rates(three())).drain is None
    assert what_if(three(), Scenario(), cluster=rates(three(), drain_per_s=9.0)).drain is None
    idle = [look(at, [member("a", 0)], {0: (9 + at, 9 + at)}, assignor="range") for at in (0, 10)]
    assert what_if(idle[-1], Scenario(), cluster=rates(*idle)).drain is None, (
        "the highest rate of a member without lag is unknown"
    )


def test_what_if_predicts_that_unowned_partitions_never_drain():
    snapshot = look(0, [member("a", 0)], {0: (0, 10)}, assignor="range")
    found = what_if(snapshot, Scenario(remove=("a-id",)), cluster=rates(snapshot, in_per_s=1.0, drain_per_s=9.0)).drain

    assert found is not None
    assert (found.unread, found.drained_from_s, found.drained_to_s, found.slowest) == (1, None, None, None)


def test_what_if_splits_the_rate_of_a_grown_topic_evenly_over_its_partitions():
    members = [member("a", 0, 1)]
    looks = [
        look(0, members, {0: (0, 100), 1: (0, 100)}, assignor="range"),
        look(10, members, {0: (50, 200), 1: (50, 400)}, assignor="range"),
    ]
    flow = flow_of(lag_of(looks), {"t": 4})

    assert flow is not None
    assert dict(flow.written) == {tp(n): 10.0 for n in range(4)}
