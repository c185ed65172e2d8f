from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import kohort
from kohort import AclBinding, OffsetAndMetadata, TopicPartition
from kohort.cli.main import main
from kohort.testing.staged import StagedBroker
from support.security.alice import AS_ALICE, ASKS_FOR_RIGHTS


@pytest.fixture
def places():
    with kohort.Broker(ASKS_FOR_RIGHTS) as broker, kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics({"seen": 1, "hidden": 1})
        for group in ("g", "h"):
            for topic in ("seen", "hidden"):
                admin.alter_group_offsets(group, {TopicPartition(topic, 0): OffsetAndMetadata(0)})

        def run(*words: str, code: int):
            settings = [word for option in AS_ALICE.items() for word in ("--set", "=".join(option))]
            found = CliRunner().invoke(main, [*words, "--bootstrap", broker.bootstrap_of("SASL"), *settings])
            assert found.exit_code == code, found.output
            return found

        yield admin, run


def may(admin: kohort.Admin, kind: str, name: str) -> None:
    admin.create_acls([AclBinding(kind, name, "User:alice", "describe")])


def test_group_that_cannot_be_described_is_reported_in_exit_code(places):
    admin, run = places
    may(admin, "cluster", "kafka-cluster")
    may(admin, "group", "g")
    may(admin, "topic", "seen")
    may(admin, "topic", "hidden")

    listed = run("groups", "--output", "json", code=6)
    assert [row["group"] for row in json.loads(listed.stdout)["groups"]] == ["g"]
    assert "kohort groups: not sampled: GROUP_AUTHORIZATION_FAILED" in listed.stderr
    examined = run("doctor", code=7)
    assert "kohort doctor: not sampled: GROUP_AUTHORIZATION_FAILED" in examined.stderr
    assert "the health of some groups is unknown: they could not be sampled" in examined.stderr


def test_partition_that_cannot_be_described_is_reported_in_exit_code(places):
    admin, run = places
    may(admin, "group", "m")
    options = {"bootstrap_servers": admin.config.bootstrap_servers, "group_id": "m"}
    with kohort.Consumer(**options) as consumer:
        consumer.subscribe(["hidden"])
        while not consumer.assignment():
            consumer.poll(50)
        listed = run("groups", "--output", "json", code=1)
        examined = run("doctor", "m", code=7)

    assert [row["group"] for row in json.loads(listed.stdout)["groups"]] == ["m"]
    assert "not sampled: 1 partition of group 'm': not authorised to describe the topic" in listed.stderr
    assert "the health of some groups is unknown: they could not be sampled" in examined.stderr


def test_doctor_reports_no_problem_of_group_and_topics_with_describe_right(places):
    admin, run = places
    for name in ("seen", "hidden"):
        may(admin, "topic", name)
    may(admin, "group", "g")
    assert "no problem in 1 group" in run("doctor", code=0).stderr
    run("groups", code=0)


def test_groups_of_other_brokers_are_listed_while_one_broker_loads_groups():
    with StagedBroker(nodes=2) as broker, kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics(["t"])
        for number in range(12):
            admin.alter_group_offsets(f"g{number}", {TopicPartition("t", 0): OffsetAndMetadata(0)})
        command = ["groups", "--no-journal", "--output", "json", "--bootstrap", broker.bootstrap]
        # ListGroups is sent up to twice to each of the two brokers: with three errors, one broker answers
        broker.fail("ListGroups", "COORDINATOR_LOAD_IN_PROGRESS", times=3)

        partly = CliRunner().invoke(main, command)
        broker.fail("ListGroups", "COORDINATOR_LOAD_IN_PROGRESS", times=4)
        nothing = CliRunner().invoke(main, command)
        whole = CliRunner().invoke(main, command)

    assert (partly.exit_code, nothing.exit_code, whole.exit_code) == (4, 4, 0), (partly.output, nothing.output)
    assert 0 < len(json.loads(partly.stdout)["groups"]) < len(json.loads(whole.stdout)["groups"]) == 12
    assert "not sampled: broker " in partly.stderr
    assert "COORDINATOR_LOAD_IN_PROGRESS" in partly.stderr
    assert nothing.stdout == ""
