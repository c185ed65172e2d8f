"""Options of brokers that may change at run time: those with an effect, and those without one here."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kohort.config.broker import LONG_MAX, ONE_STORAGE, BrokerConfig
from kohort.config.options import Option, ValueRule, option, options_of
from kohort.config.topic import TopicConfig

_ONE_LOOP: Final = "all is done in one thread"
_OWN_CLEANER: Final = "a log is compacted as a whole, in one thread"
_NO_KERBEROS: Final = "no listener offers GSSAPI"
_NO_LOGIN: Final = "the nodes do not log in to each other"

OF_ONE_BROKER: Final = "sasl."
"""Prefix of options that Kafka accepts per broker, not as a default of all brokers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicBrokerConfig:
    """Options without effect (replicas, threads, Kerberos): checked, kept and described."""

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
    num_network_threads: int = option(
        "num.network.threads",
        3,
        "Threads that read requests and write answers, of each listener.",
        low=1,
        no_effect=_ONE_LOOP,
    )
    num_io_threads: int = option("num.io.threads", 8, "Threads that carry requests out.", low=1, no_effect=_ONE_LOOP)
    background_threads: int = option(
        "background.threads", 10, "Threads for what is done beside the requests.", low=1, no_effect=_ONE_LOOP
    )
    num_replica_fetchers: int = option(
        "num.replica.fetchers", 1, "Threads that copy from one leader.", low=1, no_effect=_ONE_LOOP
    )
    num_recovery_threads: int = option(
        "num.recovery.threads.per.data.dir", 2, "Threads that recover the logs of a folder.", low=1, no_effect=_ONE_LOOP
    )
    log_cleaner_threads: int = option(
        "log.cleaner.threads", 1, "Threads that compact logs.", low=0, no_effect=_OWN_CLEANER
    )
    log_cleaner_io_buffer_size: int = option(
        "log.cleaner.io.buffer.size", 524_288, "Bytes of a cleaner's buffers.", low=0, no_effect=_OWN_CLEANER
    )
    log_cleaner_load_factor: float = option(
        "log.cleaner.io.buffer.load.factor", 0.9, "How full a cleaner's table of keys may be.", no_effect=_OWN_CLEANER
    )
    log_cleaner_rate: float = option(
        "log.cleaner.io.max.bytes.per.second",
        sys.float_info.max,
        "Bytes per second that cleaners read and write.",
        no_effect=_OWN_CLEANER,
    )
    kerberos_service_name: str | None = option(
        "sasl.kerberos.service.name", None, "Name of the service that brokers run as.", no_effect=_NO_KERBEROS
    )
    kerberos_kinit_cmd: str = option(
        "sasl.kerberos.kinit.cmd", "/usr/bin/kinit", "Path of kinit.", no_effect=_NO_KERBEROS
    )
    kerberos_window_factor: float = option(
        "sasl.kerberos.ticket.renew.window.factor",
        0.8,
        "Part of a ticket's life after which it is renewed.",
        no_effect=_NO_KERBEROS,
    )
    kerberos_jitter: float = option(
        "sasl.kerberos.ticket.renew.jitter", 0.05, "Part of that time that is drawn.", no_effect=_NO_KERBEROS
    )
    kerberos_relogin: int = option(
        "sasl.kerberos.min.time.before.relogin",
        60_000,
        "Milliseconds between two logins.",
        bits=64,
        no_effect=_NO_KERBEROS,
    )
    kerberos_rules: list[str] = option(
        "sasl.kerberos.principal.to.local.rules",
        ["DEFAULT"],
        "Rules that make names of principals short.",
        no_effect=_NO_KERBEROS,
    )
    login_window_factor: float = option(
        "sasl.login.refresh.window.factor",
        0.8,
        "Part of a login's life after which it is renewed.",
        rule=ValueRule(lambda part: 0.5 <= part <= 1, "a number from 0.5 to 1"),
        no_effect=_NO_LOGIN,
    )
    login_jitter: float = option(
        "sasl.login.refresh.window.jitter",
        0.05,
        "Part of that time that is drawn.",
        rule=ValueRule(lambda part: 0 <= part <= 0.25, "a number from 0 to 0.25"),
        no_effect=_NO_LOGIN,
    )
    login_min_period: int = option(
        "sasl.login.refresh.min.period.seconds",
        60,
        "Seconds between two renewals at least.",
        low=0,
        high=900,
        bits=16,
        no_effect=_NO_LOGIN,
    )
    login_buffer: int = option(
        "sasl.login.refresh.buffer.seconds",
        300,
        "Seconds before a login's end in which it is not renewed.",
        low=0,
        high=3600,
        bits=16,
        no_effect=_NO_LOGIN,
    )


_ATTRIBUTES: Final = frozenset(
    {
        "log_cleaner_backoff_ms",
        "log_cleaner_dedupe_buffer_size",
        "max_connections",
        "max_connections_per_ip",
        "max_connections_per_ip_overrides",
        "max_connection_creation_rate",
        "producer_id_expiration_ms",
        "group_consumer_assignment_interval_ms",
    }
)
_DEFAULTS_OF_TOPICS: Final = frozenset(option.falls_back_to for option in options_of(TopicConfig))

OF_BROKER: Final[Mapping[str, Option]] = {
    option.name: option
    for option in options_of(BrokerConfig)
    if option.attribute in _ATTRIBUTES or option.attribute in _DEFAULTS_OF_TOPICS
}
"""Options of BrokerConfig that may change at run time, by Kafka's names: with effect at once."""
DYNAMIC: Final[Mapping[str, Option]] = {**{o.name: o for o in options_of(DynamicBrokerConfig)}, **OF_BROKER}
"""Every option that may change at run time, by Kafka's names."""
