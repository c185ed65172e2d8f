"""Patterns of several rebalances; for each pattern, similar rebalances without a pattern."""

import pytest
from msgspec.structs import replace

from kohort.insight.findings.model import MemberRef, MoveFinding, name_of_member
from kohort.insight.patterns import find_patterns, prefix_of
from support.rebalance_findings import GroupOfFindings


@pytest.fixture
def group():
    return GroupOfFindings()


def words(group):
    return [pattern.pattern for pattern in find_patterns(group.found, group.now_ms)]


def replicas(group, count=3, name="orders"):
    ids = [group.comes(f"{name}-{i}", f"/10.0.0.{i}") for i in range(count)]
    group.after(3600)
    del group.found[:]
    return ids


class TestDeploy:
    def test_rolling_deploy_is_found_if_a_new_member_replaces_each_leaving_member(self, group):
        for i, member_id in enumerate(replicas(group)):
            group.after(20).goes(member_id)
            group.after(15).comes(f"orders-{i}", f"/10.0.1.{i}")

        (pattern,) = find_patterns(group.found, group.now_ms)

        assert (pattern.pattern, pattern.group, pattern.confidence) == ("ROLLING_DEPLOY", "g", "high")
        assert pattern.sentence == "3 members of orders were replaced one by one: a deploy."
        assert len(pattern.rebalances) == 6
        assert pattern.advice.startswith("use static members")

    def test_deploy_that_starts_each_new_member_first_is_a_rolling_deploy(self, group):
        for i, member_id in enumerate(replicas(group)):
            group.after(20).comes(f"orders-{i}x7", f"/10.0.1.{i}")
            group.after(5).goes(member_id)

        assert words(group) == ["ROLLING_DEPLOY"]

    def test_rolling_deploy_of_pods_is_named_by_their_common_prefix(self, group):
        pods = [group.comes(f"orders-7d9f8b6c5-x{i}k2p", f"/10.0.0.{i}") for i in range(3)]
        group.after(3600)
        del group.found[:]
        for i, pod in enumerate(pods):
            group.after(20).goes(pod)
            group.after(10).comes(f"orders-5c4b3a291-z{i}q9w", f"/10.0.1.{i}")

        assert words(group) == ["ROLLING_DEPLOY"]

    @pytest.mark.parametrize("pause", [20, 60, 3600])
    def test_rolling_deploy_is_found_if_the_first_joins_of_the_members_are_in_the_same_journal(self, group, pause):
        ids = [group.comes(f"orders-{i}") for i in range(3)]
        group.after(pause)
        for i, member_id in enumerate(ids):
            group.after(20).goes(member_id)
            group.after(15).comes(f"orders-{i}")

        (pattern,) = find_patterns(group.found, group.now_ms)

        assert (pattern.pattern, pattern.sentence) == (
            "ROLLING_DEPLOY", "3 members of orders were replaced one by one: a deploy.",
        )  # fmt: skip
        assert [fact.value for fact in pattern.evidence] == [
            f"{name_of_member(MemberRef(member_id=old_id, client_id=old_id[:-2]))} by "
            f"{name_of_member(MemberRef(member_id=new_id, client_id=new_id[:-2]))}, 15.0 s later"
            for old_id, new_id in zip(ids, group.members, strict=True)
        ]

    def test_second_deploy_in_one_journal_is_a_rolling_deploy_of_its_own(self, group):
        for deploy in range(2):
            for member_id in list(group.members) or [group.comes(f"orders-{i}") for i in range(2 + deploy)]:
                group.after(10).goes(member_id)
                group.after(5).comes("orders")
            group.after(600).comes("orders")

        (pattern,) = [one for one in find_patterns(group.found, group.now_ms) if one.pattern == "ROLLING_DEPLOY"]

        assert pattern.sentence == "3 members of orders were replaced one by one: a deploy."

    def test_member_that_leaves_and_returns_repeatedly_is_no_rolling_deploy(self, group):
        group.comes("orders-0")
        for _ in range(4):
            member_id = group.after(40).comes("orders-1")
            group.after(30).goes(member_id)

        assert "ROLLING_DEPLOY" not in words(group)

    def test_restart_of_a_single_member_is_no_rolling_deploy(self, group):
        member_id = replicas(group)[0]
        group.goes(member_id)
        group.after(10).comes("orders-0")

        assert words(group) == []

    def test_replacement_of_failed_members_is_no_rolling_deploy(self, group):
        for i, member_id in enumerate(replicas(group)):
            group.after(20).dies(member_id)
            group.after(15).comes(f"orders-{i}", f"/10.0.1.{i}")

        assert "ROLLING_DEPLOY" not in words(group)

    def test_restart_of_the_whole_group_is_no_rolling_deploy(self, group):
        for member_id in replicas(group):
            group.after(1).goes(member_id)
        for i in range(3):
            group.after(5).comes(f"orders-{i}", f"/10.0.1.{i}")

        assert words(group) == []

    def test_replacement_by_members_of_another_program_is_no_rolling_deploy(self, group):
        for member_id in replicas(group)[:2]:
            group.after(20).goes(member_id)
            group.after(10).comes("billing")

        assert "ROLLING_DEPLOY" not in words(group)


class TestScaling:
    def test_joins_without_leaves_have_scale_out_pattern(self, group):
        replicas(group)
        for i in range(3, 6):
            group.after(10).comes(f"orders-{i}")

        (pattern,) = find_patterns(group.found, group.now_ms)

        assert (pattern.pattern, pattern.sentence) == ("SCALE_OUT", "3 members joined, and none left.")

    def test_joins_while_the_group_forms_have_no_scale_out_pattern(self, group):
        for i in range(4):
            group.after(10).comes(f"orders-{i}")

        assert words(group) == []

    def test_orderly_leaves_without_joins_have_scale_in_pattern(self, group):
        for member_id in replicas(group, 5)[2:]:
            group.after(10).goes(member_id)

        assert words(group) == ["SCALE_IN"]

    def test_expired_members_have_no_scale_in_pattern(self, group):
        for member_id in replicas(group, 5)[2:]:
            group.after(10).dies(member_id)

        assert words(group) == []

    def test_first_joins_of_a_group_have_no_scaling_pattern(self, group):
        group.comes("a")

        assert words(group) == []

    def test_joins_an_hour_apart_have_no_scaling_pattern(self, group):
        replicas(group)
        group.comes("orders-3")
        group.after(3600).comes("orders-4")

        assert words(group) == []


class TestCrashLoop:
    def crashing(self, group, times, pause):
        replicas(group)
        for _ in range(times):
            member_id = group.after(pause).comes("poisoned", "/10.0.0.9")
            group.after(pause).dies(member_id)

    def test_three_failures_of_a_client_in_ten_minutes_have_crash_loop_pattern(self, group):
        self.crashing(group, 3, 40)

        patterns = find_patterns(group.found, group.now_ms)

        assert patterns[0].pattern == "CRASH_LOOP"
        assert patterns[0].sentence == "Client poisoned at /10.0.0.9 joined and failed 3 times within 2 min 40 s."
        assert [fact.value.split(": ")[1] for fact in patterns[0].evidence] == [
            "session_expired", "came", "session_expired", "came", "session_expired",
        ]  # fmt: skip

    def test_departures_that_a_watcher_cannot_explain_have_crash_loop_pattern_with_medium_confidence(self, group):
        replicas(group)
        for _ in range(3):
            member_id = group.after(40).comes("poisoned", "/10.0.0.9")
            group.after(40).goes(member_id, "departed", "MEMBER_DEPARTED")

        (pattern,) = find_patterns(group.found, group.now_ms)

        assert (pattern.pattern, pattern.confidence) == ("CRASH_LOOP", "medium")
        assert pattern.sentence == "Client poisoned at /10.0.0.9 joined and departed 3 times within 2 min 40 s."

    def test_rare_failures_of_a_client_have_no_crash_loop_pattern(self, group):
        self.crashing(group, 2, 40)
        assert "CRASH_LOOP" not in words(group)
        group = GroupOfFindings()
        self.crashing(group, 3, 3600)
        assert "CRASH_LOOP" not in words(group)

    def test_failures_on_three_hosts_have_no_crash_loop_pattern(self, group):
        for member_id in replicas(group, 5)[:3]:
            group.after(40).dies(member_id)

        assert "CRASH_LOOP" not in words(group)

    def test_orderly_leaves_of_a_client_have_no_crash_loop_pattern(self, group):
        replicas(group)
        for _ in range(4):
            member_id = group.after(40).comes("cron")
            group.after(50).goes(member_id)

        assert "CRASH_LOOP" not in words(group)


class TestStorm:
    def test_ten_rebalances_in_ten_minutes_have_storm_pattern(self, group):
        replicas(group)
        for pause in (3, 40, 8, 70, 2, 33, 51, 9, 20, 11):
            group.after(pause).rebalances("METADATA_CHANGED")

        patterns = find_patterns(group.found, group.now_ms)

        assert [p.pattern for p in patterns] == ["REBALANCE_STORM"]
        assert patterns[0].sentence == "10 rebalances within 4 min 4 s."
        assert patterns[0].evidence[0].value == "METADATA_CHANGED: 10 times"

    def test_group_that_is_stable_less_than_half_of_the_time_has_storm_pattern(self):
        group = GroupOfFindings(took_ms=120_000)
        replicas(group)
        for pause in (1, 150, 170):
            group.after(pause).rebalances("METADATA_CHANGED")

        (pattern,) = find_patterns(group.found, group.now_ms + 60_000)

        assert pattern.pattern == "REBALANCE_STORM"
        assert pattern.sentence.startswith("Stable for 18 % of ")

    def test_watched_rebalances_of_unknown_duration_have_storm_pattern_only_if_frequent(self, group):
        replicas(group)
        for pause in (3600, 90_000, 150_000):
            group.after(pause).rebalances("METADATA_CHANGED")
        watched = [replace(this, origin="inferred", took_ms=None) for this in group.found]
        assert find_patterns(watched, group.now_ms) == []

        for pause in (30, 30, 30, 30, 30, 30, 30, 30, 30, 30):
            group.after(pause).rebalances("METADATA_CHANGED")
        watched = [replace(this, origin="inferred", took_ms=None) for this in group.found]
        confidence = {pattern.pattern: pattern.confidence for pattern in find_patterns(watched, group.now_ms)}
        assert confidence["REBALANCE_STORM"] == "high"

    def test_nine_rebalances_have_no_storm_pattern(self, group):
        replicas(group)
        for i in range(9):
            group.after(17 + i * i).rebalances("METADATA_CHANGED")
            group.after(1).rebalances("COOPERATIVE_FOLLOWUP")
        assert "REBALANCE_STORM" not in words(group)
        group.after(3600).rebalances("METADATA_CHANGED")
        assert "REBALANCE_STORM" not in words(group)


class TestFlappingPartition:
    def test_partition_that_moves_more_often_than_others_has_flapping_pattern(self, group):
        a, b, _ = replicas(group)
        for i in range(4):
            there, back = (a, b) if i % 2 else (b, a)
            group.after(100 + i * 31).rebalances("METADATA_CHANGED", (7, there, back), *([(1, a, b)] if i == 0 else []))

        (pattern,) = find_patterns(group.found, group.now_ms)

        assert (pattern.pattern, pattern.sentence) == ("FLAPPING_PARTITION", "Partition t-7 changed its owner 4 times.")

    def test_partitions_that_all_move_equally_often_have_no_flapping_pattern(self, group):
        a, b, _ = replicas(group)
        for i in range(4):
            there, back = (a, b) if i % 2 else (b, a)
            group.after(100 + i * 31).rebalances("METADATA_CHANGED", *((p, there, back) for p in range(6)))

        assert words(group) == []

    def test_moves_of_a_partition_at_joins_and_leaves_have_no_flapping_pattern(self, group):
        a, b, _ = replicas(group)
        for i in range(4):
            there, back = (a, b) if i % 2 else (b, a)
            group.after(300 + i * 31).comes(f"orders-{3 + i}")
            group.found[-1] = replace(
                group.found[-1], moves=(MoveFinding(topic="t", partition=7, before=there, after=back),)
            )

        assert "FLAPPING_PARTITION" not in words(group)

    def test_partition_that_returns_to_its_owner_has_no_flapping_pattern(self, group):
        a, _, _ = replicas(group)
        for i in range(4):
            group.after(100 + i * 31).rebalances("METADATA_CHANGED", (7, a, None), (7, None, a), (1, None, a))

        assert words(group) == []


class TestPeriodic:
    def test_rebalances_at_four_equal_intervals_have_periodic_pattern(self, group):
        replicas(group)
        for jitter in (0, 9, 0, -8):
            group.after(300 + jitter).rebalances("LEADER_REJOIN")

        (pattern,) = find_patterns(group.found, group.now_ms)

        assert pattern.pattern == "PERIODIC"
        assert pattern.sentence == "Every 5 min, 4 times: LEADER_REJOIN."

    def test_periodic_rebalances_are_found_among_other_rebalances(self, group):
        replicas(group)
        for i in range(4):
            group.after(250).rebalances("LEADER_REJOIN")
            group.after(20 + 9 * i).rebalances("SUBSCRIPTION_CHANGED")
            group.after(30 - 9 * i)

        assert words(group) == ["PERIODIC"]

    def test_rebalances_at_unequal_or_only_three_intervals_have_no_periodic_pattern(self, group):
        replicas(group)
        for pause in (300, 380, 290, 310):
            group.after(pause).rebalances("LEADER_REJOIN")
        assert words(group) == []
        group = GroupOfFindings()
        for _ in range(3):
            group.after(300).rebalances("LEADER_REJOIN")
        assert words(group) == []


class TestAutoscaler:
    def test_alternating_joins_and_leaves_have_autoscaler_pattern(self, group):
        replicas(group)
        for i in range(3):
            more = [group.after(7 * (i + j + 1)).comes(f"orders-{3 + j}") for j in range(2)]
            group.after(900 + 200 * i)
            for member_id in more:
                group.after(11 * (i + 1)).goes(member_id)
            group.after(1100 + 150 * i)

        patterns = find_patterns(group.found, group.now_ms)

        assert patterns[0].pattern == "AUTOSCALER"
        assert "6 times" in patterns[0].sentence
        assert "ROLLING_DEPLOY" not in [p.pattern for p in patterns]

    def test_deploys_and_crash_loops_have_no_autoscaler_pattern(self, group):
        for i, member_id in enumerate(replicas(group, 6)):
            group.after(20).goes(member_id)
            group.after(15 + i).comes(f"orders-{i}")

        assert "AUTOSCALER" not in words(group)


def test_patterns_are_searched_in_each_group_separately():
    assert find_patterns([]) == []


def test_patterns_ignore_events_without_a_rebalance(group):
    replicas(group)
    for _ in range(12):
        group.after(10).rebalances("STATIC_RESTART", end="no_rebalance")

    assert words(group) == []


@pytest.mark.parametrize(
    ("client_id", "prefix"),
    [
        ("orders-3", "orders"), ("orders", "orders"), ("42", "42"), ("a-b-c", "a-b-c"), ("app_17", "app"),
        ("orders-7d9f8b6c5-x2k2p", "orders"), ("x" * 70_000, "x" * 60 + "…"), ("-", "-"), ("a-1-2-3", "a"),
    ],
)  # fmt: skip
def test_prefix_of_member_is_the_common_name_of_replicas(client_id, prefix):
    assert prefix_of(MemberRef(member_id="m", client_id=client_id)) == prefix


@pytest.mark.heavy
def test_patterns_escape_control_characters_of_client_names_quickly(group):
    for _ in range(2000):
        member_id = group.after(1).comes("-" * 200 + "\x1b[2J\n", "/h\x07")
        group.after(1).dies(member_id)

    patterns = find_patterns(group.found, group.now_ms)

    assert {p.pattern for p in patterns} >= {"CRASH_LOOP", "REBALANCE_STORM"}
    assert all(p.sentence.isprintable() for p in patterns)
