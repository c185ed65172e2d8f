"""Bounds of topic options, as Apache Kafka 4.3 accepts and rejects these values."""

import pytest

from kohort.config import BrokerConfig, parse_config, topic_config
from kohort.errors import ConfigError

TAKEN = {
    "unclean.leader.election.enable": ["true", "FALSE"],
    "preallocate": ["true"],
    "file.delete.delay.ms": ["0"],
    "segment.jitter.ms": ["100"],
    "compression.gzip.level": ["-1", "1", "9"],
    "compression.lz4.level": ["1", "17"],
    "compression.zstd.level": ["-131072", "0", "22"],
    "leader.replication.throttled.replicas": ["", "*", "0:1", "0:1,1:2"],
    "follower.replication.throttled.replicas": ["", "*", "0:1", "0:1, 1:2"],
    "local.retention.ms": ["-2", "-1", "5", "99999999999"],
    "local.retention.bytes": ["-2", "-1", "5"],
    "remote.storage.enable": ["false"],
    "remote.log.copy.disable": ["false", "true"],
    "remote.log.delete.on.disable": ["true"],
    "retention.bytes": ["-5", "9223372036854775807"],
    "cleanup.policy": ["", "compact,compact"],
    "min.insync.replicas": ["2"],
}
REFUSED = {
    "unclean.leader.election.enable": ["yes"],
    "file.delete.delay.ms": ["-1"],
    "segment.jitter.ms": ["-1"],
    "compression.gzip.level": ["0", "10", "-2"],
    "compression.lz4.level": ["0", "18", "-1"],
    "compression.zstd.level": ["-131073", "23"],
    "leader.replication.throttled.replicas": ["none", "x", "0", "0:1,*", "*,0:1", "0:1:2", "0:\u00b2"],
    "local.retention.ms": ["-3"],
    "local.retention.bytes": ["-3"],
    "remote.storage.enable": ["true"],
    "remote.copy.disable": ["false"],
    "retention.ms": ["-2"],
    "segment.bytes": ["2147483648"],
    "max.message.bytes": ["2147483648"],
    "flush.ms": ["9223372036854775808"],
    "cleanup.policy": ["Delete"],
    "message.format.version": ["3.0"],
}


def pairs(table):
    return [(name, value) for name, values in table.items() for value in values]


@pytest.mark.parametrize(("name", "value"), pairs(TAKEN))
def test_topic_option_values_that_kafka_accepts_are_accepted(name, value):
    topic_config(BrokerConfig(), {name: value})


@pytest.mark.parametrize(("name", "value"), pairs(REFUSED))
def test_topic_option_values_that_kafka_rejects_are_rejected(name, value):
    with pytest.raises(ConfigError, match=name):
        topic_config(BrokerConfig(), {name: value})


def test_topic_option_error_has_allowed_values():
    for name, value, words in (
        ("compression.gzip.level", "0", "expected an integer from 1 to 9, or -1"),
        ("leader.replication.throttled.replicas", "x", "expected *, or a comma-separated list of PARTITION:NODE"),
        ("remote.storage.enable", "true", "expected false: tiered storage is not supported"),
        ("segment.bytes", "2147483648", "expected an integer >= 1024, in 32 bits"),
    ):
        with pytest.raises(ConfigError) as refused:
            topic_config(BrokerConfig(), {name: value})
        assert words in str(refused.value)


def test_topic_defaults_come_from_the_broker():
    options = {
        "log.preallocate": "true",
        "log.segment.delete.delay.ms": "5",
        "log.roll.jitter.ms": "6",
        "log.local.retention.ms": "7",
        "compression.lz4.level": "8",
        "min.insync.replicas": "2",
    }
    config = topic_config(parse_config(BrokerConfig, options), {})

    assert (config.preallocate, config.file_delete_delay_ms, config.segment_jitter_ms) == (True, 5, 6)
    assert (config.local_retention_ms, config.compression_lz4_level, config.min_insync_replicas) == (7, 8, 2)
