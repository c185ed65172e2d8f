from __future__ import annotations

from dataclasses import replace

import pytest

import kohort
from kohort import KohortError, TopicPartition
from kohort.cli.group.describe import members_table, reconciling_note, state_table
from kohort.cli.terminal.show import Table, cell, is_numeric, lines_of
from kohort.cli.terminal.wording import in_ranges
from kohort.client.admin.model import GroupDescription, MemberDescription
from kohort.insight.findings.groups import find_group
from kohort.insight.snapshot import GroupSnapshot
from kohort.verbs.describing import described
from kohort.verbs.groups import check_described

POLLS = 100


def reader_of(broker, topic, client_id):
    consumer = kohort.Consumer(
        bootstrap_servers=broker.bootstrap, group_id="modern", group_protocol="consumer", client_id=client_id
    )
    consumer.subscribe([topic])
    return consumer


@pytest.fixture
def orders(run):
    run("topics", "create", "orders", "--partitions", "4")
    yield "orders"
    run("group", "delete", "modern", "--yes")
    run("topics", "delete", "orders", "--yes")


def test_describe_members_shows_partitions_to_revoke_and_to_assign(run, ask, broker, orders):
    with reader_of(broker, orders, "first") as first, reader_of(broker, orders, "second") as second:
        for _ in range(POLLS):
            first.poll(100)
            if len(first.assignment()) == 4:
                break
        for _ in range(POLLS):
            second.poll(100)
            about = ask("group", "describe", "modern")
            members = {m["client_id"]: m for m in about["members"]}
            fast = members.get("second", {"to_get": [], "member_epoch": 0})
            if fast["to_get"] and fast["member_epoch"] == about["group_epoch"]:
                break

        assert (about["group_type"], about["state"], about["group_epoch"]) == (
            ("consumer", "Reconciling", about["assignment_epoch"])
        )
        slow, fast = members["first"], members["second"]
        assert (len(slow["assignment"]), len(slow["to_revoke"]), slow["to_get"]) == (4, 2, [])
        assert (fast["assignment"], fast["to_get"]) == ([], slow["to_revoke"])
        assert slow["member_epoch"] < fast["member_epoch"] == about["group_epoch"]
        assert {m["member_type"] for m in members.values()} == {"consumer"}

        note = f"group 'modern' reconciles to its target assignment of epoch {about['assignment_epoch']}: "
        note += "2 partitions to revoke, 2 to assign"
        assert run("group", "describe", "modern").stderr.endswith(f"{note}; --members shows the members\n")
        result = run("group", "describe", "modern", "--members")
        assert result.stderr.endswith(f"{note}\n")
        rows = {row.split()[3]: row.split()[4:] for row in result.stdout.splitlines()}
        assert rows["CLIENT-ID"] == ["#PARTITIONS", "TO-REVOKE", "TO-GET", "STATE", "WHY"]
        moved = in_ranges(TopicPartition(orders, int(name[-1])) for name in slow["to_revoke"])
        assert rows["first"][:3] == ["4", moved, "-"]
        assert rows["second"][:3] == ["0", "-", moved]
        everything = run("group", "describe", "modern", "--members", "--verbose").stdout
        rows = {row.split()[3]: row.split()[4:] for row in everything.splitlines()}
        assert rows["CLIENT-ID"][1:5] == ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        epoch = str(about["assignment_epoch"])
        assert rows["first"][:4] == ["4", str(slow["member_epoch"]), "orders:0,1,2,3", epoch]
        assert rows["second"][:4] == ["0", epoch, "-", epoch]
        state = run("group", "describe", "modern", "--state").stdout.splitlines()[1].split()
        address, (group_epoch, epoch) = [broker.bootstrap, f"({about['coordinator_id']})"], state[7:9]
        assert state[1:6] == [*address, "uniform", "Reconciling", "2"]
        assert (int(group_epoch), int(epoch)) == (about["group_epoch"], about["assignment_epoch"])
        (listed,) = [g for g in ask("groups")["groups"] if g["group"] == "modern"]
        about = [listed[name] for name in ("health", "state", "members", "partitions", "assignor", "group_type")]
        assert about == ["REBALANCING", "Reconciling", 2, 4, "uniform", "consumer"]


@pytest.fixture
def moving():
    topic = "payments-by-region"
    has = tuple(TopicPartition(topic, n) for n in range(100, 120))

    def member(instance, epoch, assignment, target):
        return MemberDescription(
            f"{instance:0>22}", instance, "billing-service", "/10.20.30.40", (topic,), assignment, b"", b"",
            "consumer" if instance else "classic", epoch, target,
        )  # fmt: skip

    members = (member("billing-0", 1041, has, has[:10]), member("billing-1", 1042, (), has[10:]))
    return GroupDescription("billing", "Reconciling", "consumer", "uniform", 2, members, "consumer", 1042, 1042)


def shown(about):
    snapshot = GroupSnapshot(at_ms=0, group=about.group_id, state=about.state, protocol="consumer")
    return described(about, snapshot, "broker-1.kafka.example.com:9092"), find_group([snapshot])


def test_describe_of_consumer_group_fits_80_columns(moving):
    for columns, rows in (members_table(*shown(moving), verbose=False), state_table(*shown(moving), verbose=False)):
        cells = tuple(tuple(cell(value) for value in row) for row in rows)
        numeric = tuple(is_numeric([row[i] for row in rows]) for i in range(len(columns)))
        lines = lines_of(Table(columns, cells, numeric), 80)

        assert max(map(len, lines)) <= 80
    columns, (first, second) = members_table(*shown(moving), verbose=False)
    assert columns[2] == "GROUP-INSTANCE-ID"
    assert first[2:8] == ("billing-0", "/10.20.30.40", "billing-service", 20, "payments-by-region:110-119", "")
    assert second[2:8] == ("billing-1", "/10.20.30.40", "billing-service", 0, "", "payments-by-region:110-119")


def test_describe_verbose_shows_which_members_use_consumer_protocol(moving):
    first, second = moving.members
    mixed = replace(moving, members=(first, replace(second, member_type="classic")))

    columns, rows = members_table(*shown(mixed), verbose=True)

    assert columns[6:11] == ("CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT", "UPGRADED")
    assert [row[10] for row in rows] == ["true", "false"]
    assert "UPGRADED" not in members_table(*shown(moving), verbose=True)[0]


def test_describe_reports_outdated_target_assignment():
    about = GroupDescription("g", "Assigning", "consumer", "uniform", 1, (), "consumer", 3, 2)

    assert (
        reconciling_note(shown(about)[0], "offsets")
        == "group 'g' waits for a target assignment for group epoch 3; the present target assignment has epoch 2"
    )


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        ([], ""),
        ([("a", 3)], "a:3"),
        ([("b", 1), ("a", 7), ("a", 1), ("a", 0), ("a", 2)], "a:0-2,7;b:1"),
        ([("a", 1), ("a", 3), ("a", 4)], "a:1,3-4"),
    ],
)
def test_partition_numbers_are_printed_as_ranges(partitions, expected):
    assert in_ranges(TopicPartition(*at) for at in partitions) == expected


def test_describe_reports_group_of_another_type():
    with pytest.raises(
        KohortError, match=r"^group 'g' is a share group; only classic and consumer groups are described$"
    ):
        check_described("g", "share")
    for group_type in ("", "classic", "consumer"):
        check_described("g", group_type)
