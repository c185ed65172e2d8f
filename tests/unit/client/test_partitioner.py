"""Partitions by key, as every Kafka client computes them, and sticky ones without."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from kohort.client.producer import ProducerMachine
from kohort.client.writing.partitioner import StickyPartitioner, murmur2, partition_of_key
from kohort.config.client import ProducerConfig


@given(st.binary(max_size=200))
def test_the_hash_is_the_one_of_other_clients(key):
    assert murmur2(key) == kafka_python_murmur2(key) & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("key", "signed"), [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-longer-string", -1486304829)]
)
def test_the_hash_is_java_s(key, signed):
    assert murmur2(key) == signed & 0xFFFFFFFF


def test_equal_keys_meet_in_one_partition_and_all_partitions_are_used():
    chosen = [partition_of_key(b"key-%d" % n, 7) for n in range(200)]

    assert set(chosen) == set(range(7))
    assert chosen == [partition_of_key(b"key-%d" % n, 7) for n in range(200)]


def test_records_without_key_stick_to_a_partition_until_a_batch_is_full():
    sticky = StickyPartitioner(1000, random.Random(1))

    chosen = [sticky.pick(100, 4) for _ in range(40)]

    runs = [chosen[at : at + 10] for at in range(0, 40, 10)]
    assert all(len(set(run)) == 1 for run in runs)
    assert all(before[0] != after[0] for before, after in itertools.pairwise(runs))


def test_a_topic_that_shrank_is_no_trap():
    sticky = StickyPartitioner(1_000_000, random.Random(1))
    sticky.pick(1, 100)

    assert all(sticky.pick(1, 1) == 0 for _ in range(10))


def test_keys_may_be_left_out_of_account():
    config = ProducerConfig(bootstrap_servers=["one:9092"], partitioner_ignore_keys=True, batch_size=1_000)
    machine = ProducerMachine(config, random.Random(5))

    chosen = {machine.choose("t", b"key-%d" % n, 100, 7) for n in range(10)}

    assert len(chosen) == 1, "the sticky one, until so many bytes went there"
