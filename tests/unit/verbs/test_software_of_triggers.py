from kohort.insight.findings.model import MemberRef, RebalanceFinding
from kohort.telemetry.report import ClientReport
from kohort.verbs.client_reports import NO_PUSH, NO_TRIGGER, NOT_JOURNALED, NOT_NAMED, software_of_triggers


def member(name):
    return MemberRef(member_id=f"{name}-1", client_id=name, host="/10.0.0.1", instance_id=None)


def rebalance(who, cause, group="g", origin="journal"):
    return RebalanceFinding(
        id=f"{group}/1", group=group, protocol="classic", opened_at_ms=1, end="stable", cause=cause, confidence="proof",
        sentence="", advice=None, evidence=(), trigger=who, origin=origin,
    )  # fmt: skip


def report(name, software, version, group="g", **labels):
    return ClientReport(
        at_ms=1, client_instance_id=name, client_id=name, host="/10.0.0.1", node_id=0, interval_ms=1,
        software_name=software, software_version=version, labels={"group_id": group, **labels},
    )  # fmt: skip


def test_software_with_most_rebalances_is_first_with_its_most_frequent_cause():
    reports = [
        report("old", "apache-kafka-java", "2.8.0", group_member_id="old-1"),
        report("new", "librdkafka", "2.6.0"),  # which names its group alone
    ]
    found = [rebalance(member("old"), cause) for cause in ("MAX_POLL_EXCEEDED", "MAX_POLL_EXCEEDED", "NEW_MEMBER")]

    rows = software_of_triggers([*found, rebalance(member("new"), "NEW_MEMBER")], {}, reports, "")

    assert [(one.software, one.rebalances, one.cause) for one in rows.software] == [
        ("apache-kafka-java 2.8.0", 3, "MAX_POLL_EXCEEDED"), ("librdkafka 2.6.0", 1, "NEW_MEMBER"),
    ]  # fmt: skip
    assert rows.unknown == {}


def test_unknown_software_is_counted_by_reason():
    reports = [report("shy", None, None), report("other", "x", "1", group="another")]
    found = [rebalance(None, "GROUP_FORMING"), rebalance(member("shy"), "A"), rebalance(member("other"), "A")]

    rows = software_of_triggers([*found, rebalance(member("silent"), "A")], {}, reports, "")

    assert rows.software == []
    assert rows.unknown == {NOT_JOURNALED: 2, NO_TRIGGER: 1, NOT_NAMED: 1}
    assert software_of_triggers(found[1:2], {}, None, "nobody keeps them").unknown == {"nobody keeps them": 1}


def test_journaled_software_precedes_client_metrics():
    reports = [report("a", "librdkafka", "2.6.0", group_member_id="a-1"), report("b", "librdkafka", "2.6.0")]
    journal = {"g": {"a-1": "apache-kafka-java 3.9.1"}, "another": {"b-1": "franz 1"}}

    rows = software_of_triggers([rebalance(member("a"), "A"), rebalance(member("b"), "B")], journal, reports, "")

    assert [(one.software, one.cause) for one in rows.software] == [
        ("apache-kafka-java 3.9.1", "A"), ("librdkafka 2.6.0", "B"),
    ]  # fmt: skip


def test_inferred_rebalances_take_software_from_client_metrics():
    inferred = rebalance(member("silent"), "A", origin="inferred")

    assert software_of_triggers([inferred], {}, [], "").unknown == {NO_PUSH: 1}
