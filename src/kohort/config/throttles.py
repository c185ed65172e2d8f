"""The rates at which Kafka's replicas are copied: options of brokers that are only given while they run."""

from __future__ import annotations

from dataclasses import dataclass

from kohort.config.broker import LONG_MAX, ONE_STORAGE
from kohort.config.options import option


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleConfig:
    """Accepted, kept and shown, so that Kafka's tool for reassignments does its work."""

    leader_rate: int = option(
        "leader.replication.throttled.rate",
        LONG_MAX,
        "Bytes per second that leave a leader for throttled replicas.",
        low=0,
        no_effect=ONE_STORAGE,
    )
    follower_rate: int = option(
        "follower.replication.throttled.rate",
        LONG_MAX,
        "Bytes per second that reach throttled replicas.",
        low=0,
        no_effect=ONE_STORAGE,
    )
    log_dirs_rate: int = option(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        LONG_MAX,
        "Bytes per second between the folders of a broker.",
        low=0,
        no_effect="there is one folder",
    )
