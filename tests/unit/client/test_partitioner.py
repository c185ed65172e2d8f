"""Partitions of keys as in other Kafka clients, and the sticky partition of records without a key."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from kohort.client.producer import ProducerMachine
from kohort.client.writing.partitioner import BY_NAME, StickyPartitioner, murmur2
from kohort.config.client import ProducerConfig
from kohort.config.client_options import client_config
from kohort.errors import ConfigError, UsageError


@pytest.mark.heavy
@given(st.binary(max_size=200))
def test_murmur2_equals_hash_of_other_clients(key):
    assert murmur2(key) == kafka_python_murmur2(key) & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("key", "signed"), [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-longer-string", -1486304829)]
)
def test_murmur2_equals_java_hash(key, signed):
    assert murmur2(key) == signed & 0xFFFFFFFF


def test_equal_keys_share_a_partition_and_all_partitions_are_used():
    chosen = [BY_NAME["murmur2"](b"key-%d" % n, 7) for n in range(200)]

    assert set(chosen) == set(range(7))
    assert chosen == [BY_NAME["murmur2"](b"key-%d" % n, 7) for n in range(200)]


def test_records_without_key_stick_to_partition_until_batch_is_full():
    sticky = StickyPartitioner(1000, random.Random(1))

    chosen = [sticky.pick(100, 4) for _ in range(40)]

    runs = [chosen[at : at + 10] for at in range(0, 40, 10)]
    assert all(len(set(run)) == 1 for run in runs)
    assert all(before[0] != after[0] for before, after in itertools.pairwise(runs))


def test_sticky_partition_that_no_longer_exists_is_replaced():
    sticky = StickyPartitioner(1_000_000, random.Random(1))
    sticky.pick(1, 100)

    assert all(sticky.pick(1, 1) == 0 for _ in range(10))


def test_partition_is_independent_of_key_with_partitioner_ignore_keys():
    config = ProducerConfig(bootstrap_servers=["one:9092"], partitioner_ignore_keys=True, batch_size=1_000)
    machine = ProducerMachine(config, random.Random(5))

    chosen = {machine.choose("t", b"key-%d" % n, 100, 7) for n in range(10)}

    assert len(chosen) == 1, "one sticky partition until batch.size bytes"


def machine_of(**options) -> ProducerMachine:
    config = client_config(ProducerConfig, {"bootstrap.servers": "one:9092"}, options)
    return ProducerMachine(config, random.Random(5))


KEYS = {"k": b"k", "key-17": b"key-17", "empty": b"", "umlaut": "ä".encode()}
OF_LIBRDKAFKA = {
    "murmur2": {"k": 8, "key-17": 0, "empty": 9, "umlaut": 5, "none": 9},
    "consistent": {"k": 1, "key-17": 3, "empty": 0, "umlaut": 11, "none": 0},
    "fnv1a": {"k": 10, "key-17": 9, "empty": 3, "umlaut": 2, "none": 3},
}
"""Partitions (of twelve) that librdkafka 2.16 selected for these keys."""


@pytest.mark.parametrize("name", ["murmur2", "consistent", "fnv1a"])
def test_named_partitioner_matches_librdkafka(name: str):
    machine = machine_of(partitioner=name)

    found = {label: machine.choose("t", key, 1, 12) for label, key in {**KEYS, "none": None}.items()}

    assert found == OF_LIBRDKAFKA[name]


@pytest.mark.parametrize(
    ("name", "spread"),
    [
        ("murmur2_random", {None}),
        ("consistent_random", {None, b""}),
        ("fnv1a_random", {None}),
        ("random", {None, b"k"}),
    ],
)
def test_random_partitioner_spreads_records_without_key(name: str, spread: set[bytes | None]):
    machine = machine_of(partitioner=name, batch_size=1)

    for key in spread:
        assert len({machine.choose("t", key, 1, 12) for _ in range(50)}) > 1


def test_partitioner_function_gets_key_and_number_of_partitions():
    machine = machine_of(partitioner=lambda key, partitions: None if key is None else len(key) % partitions)

    assert machine.choose("t", b"four", 1, 3) == 1
    assert machine.choose("t", None, 1, 3) in range(3)


@pytest.mark.parametrize("wrong", [3, -1, True, "0", 1.0])
def test_partitioner_function_with_invalid_result_raises_usage_error(wrong: object):
    machine = machine_of(partitioner=lambda _key, _partitions: wrong)

    with pytest.raises(UsageError, match=r"the partitioner returned .* not a partition from 0 to 2"):
        machine.choose("t", b"k", 1, 3)


def test_unknown_partitioner_name_raises_config_error():
    with pytest.raises(ConfigError, match="partitioner='murmur3': expected one of murmur2_random, "):
        machine_of(partitioner="murmur3")


def test_arrow_rows_use_same_partitions_as_single_records():
    pytest.importorskip("numba")
    from kohort.columns.encode import RecordColumns, encode_partitions

    machine = machine_of(partitioner="consistent_random")
    keys = [b"key-%d" % n for n in range(100)]

    batches = encode_partitions(RecordColumns(keys, keys), partitions=12, by_key=machine.partitioner)

    assert {b.partition: b.records for b in batches} == Counter(machine.choose("t", key, 1, 12) for key in keys)
