"""Effective quota of each client, and the clients that share it (KIP-55, KIP-257)."""

from __future__ import annotations

import pytest

from kohort.security.quotas.entities import Quota, entity_of
from kohort.security.quotas.rates import METER_BYTES, QuotaWindow, Usage, UsageRate
from kohort.security.quotas.table import Limit, QuotaTable

ORDER = [
    ({"user": "alice", "client-id": "app"}, ("alice", "app")),
    ({"user": "alice", "client-id": None}, ("alice", "app")),
    ({"user": "alice"}, ("alice", "")),
    ({"user": None, "client-id": "app"}, ("alice", "app")),
    ({"user": None, "client-id": None}, ("alice", "app")),
    ({"user": None}, ("alice", "")),
    ({"client-id": "app"}, ("", "app")),
    ({"client-id": None}, ("", "app")),
]


def table_of(entities):
    changes = {entity_of(e.items()): {"producer_byte_rate": float(i)} for i, e in enumerate(entities, 1)}
    return QuotaTable().altered(changes)


@pytest.mark.parametrize("place", range(len(ORDER)))
def test_most_specific_quota_applies(place):
    table = table_of([entity for entity, _ in reversed(ORDER[place:])])

    assert table.limit(Quota.PRODUCED, "alice", "app") == Limit(float(len(ORDER) - place), *ORDER[place][1])


def test_default_quota_is_counted_for_each_name():
    table = table_of([{"user": None}, {"client-id": None}])
    assert table.limit(Quota.PRODUCED, "bob", "x") == Limit(1.0, "bob", "")

    table = table_of([{"client-id": None}])
    assert table.limit(Quota.PRODUCED, "bob", "x") == Limit(1.0, "", "x")


def test_each_quota_is_looked_up_independently_of_other_quotas():
    alice, everybody = entity_of([("user", "alice")]), entity_of([("user", None)])
    table = QuotaTable().altered({alice: {"consumer_byte_rate": 1.0}, everybody: {"producer_byte_rate": 2.0}})

    assert table.limit(Quota.FETCHED, "alice", "") == Limit(1.0, "alice", "")
    assert table.limit(Quota.PRODUCED, "alice", "") == Limit(2.0, "alice", "")
    assert table.limit(Quota.FETCHED, "bob", "") is None
    assert table.limit(Quota.MUTATIONS, "alice", "") is None


def test_table_with_only_ip_quotas_has_no_request_quota():
    table = QuotaTable().altered({entity_of([("ip", "::1")]): {"connection_creation_rate": 1.0}})

    assert not table
    assert table.connection_rate("::1") == 1.0
    assert table.connection_rate("10.0.0.1") is None


def test_quota_table_survives_a_round_trip():
    table = table_of([entity for entity, _ in ORDER])

    assert dict(QuotaTable(table.as_section())) == dict(table)


WINDOW = QuotaWindow(11, 1000)


def test_idle_meters_expire_when_other_meters_are_added():
    usage = Usage(UsageRate, WINDOW)
    for i in range(100):
        usage.of(("", f"old {i}"), 0).record(1, 0, WINDOW)
    for i in range(60):
        usage.of(("", f"new {i}"), 11_000).record(1, 11_000, WINDOW)

    assert len(usage) == 60


def test_memory_of_meters_for_many_names_is_limited():
    usage = Usage(UsageRate, WINDOW, most_bytes=10 * METER_BYTES)
    for i in range(1000):
        usage.of(("", f"{i}"), i).record(1, i, WINDOW)
    assert len(usage) <= 10

    usage.of(("", "x" * 32_000), 1000)
    usage.of(("", "y" * 32_000), 1000)
    assert len(usage) == 1, "a long name takes the memory of many meters"


def test_longest_idle_meter_is_dropped_first():
    usage = Usage(UsageRate, WINDOW, most_bytes=3 * METER_BYTES)
    busy = usage.of(("alice", ""), 0)
    for i in range(20):
        busy.record(1, i, WINDOW)
        usage.of(("", f"{i}"), i).record(1, i, WINDOW)
        assert usage.of(("alice", ""), i) is busy
