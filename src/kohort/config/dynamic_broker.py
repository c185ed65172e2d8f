"""Broker options that can change at run time, with and without effect."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kohort.config.broker import LONG_MAX, ONE_STORAGE, BrokerConfig
from kohort.config.options import Option, ValueRule, option, options_of
from kohort.config.topic import TopicConfig

_ONE_LOOP: Final = "the broker has one thread"
_OWN_CLEANER: Final = "one thread compacts a whole log"
_NO_KERBEROS: Final = "no listener offers GSSAPI"
_NO_LOGIN: Final = "the nodes do not log in to each other"

OF_ONE_BROKER: Final = "sasl."
"""Prefix of options that Kafka accepts per broker, not as a default of all brokers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicBrokerConfig:
    """Options without effect (replicas, threads, Kerberos): checked, kept and described."""

    leader_replication_throttled_rate: int = option(
        LONG_MAX, "Bytes per second from a leader to throttled replicas.", low=0, no_effect=ONE_STORAGE
    )
    follower_replication_throttled_rate: int = option(
        LONG_MAX, "Bytes per second to throttled replicas.", low=0, no_effect=ONE_STORAGE
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = option(
        LONG_MAX, "Bytes per second between the log directories of a broker.", low=0, no_effect="there is one folder"
    )
    num_network_threads: int = option(
        3, "Threads per listener that read requests and write responses.", low=1, no_effect=_ONE_LOOP
    )
    num_io_threads: int = option(8, "Threads that process requests.", low=1, no_effect=_ONE_LOOP)
    background_threads: int = option(10, "Threads of background work.", low=1, no_effect=_ONE_LOOP)
    num_replica_fetchers: int = option(1, "Threads that replicate from one leader.", low=1, no_effect=_ONE_LOOP)
    num_recovery_threads_per_data_dir: int = option(
        2, "Threads that recover the logs of a directory.", low=1, no_effect=_ONE_LOOP
    )
    log_cleaner_threads: int = option(1, "Threads that compact logs.", low=0, no_effect=_OWN_CLEANER)
    log_cleaner_io_buffer_size: int = option(524_288, "Buffer size of the cleaner.", low=0, no_effect=_OWN_CLEANER)
    log_cleaner_io_buffer_load_factor: float = option(0.9, "Fill level of the key table.", no_effect=_OWN_CLEANER)
    log_cleaner_io_max_bytes_per_second: float = option(
        sys.float_info.max, "Bytes per second that cleaners read and write.", no_effect=_OWN_CLEANER
    )
    sasl_kerberos_service_name: str | None = option(None, "Kerberos service name of brokers.", no_effect=_NO_KERBEROS)
    sasl_kerberos_kinit_cmd: str = option("/usr/bin/kinit", "Path of kinit.", no_effect=_NO_KERBEROS)
    sasl_kerberos_ticket_renew_window_factor: float = option(
        0.8, "Share of a ticket's lifetime after which it is renewed.", no_effect=_NO_KERBEROS
    )
    sasl_kerberos_ticket_renew_jitter: float = option(
        0.05, "Random addition to the window factor.", no_effect=_NO_KERBEROS
    )
    sasl_kerberos_min_time_before_relogin: int = option(
        60_000, "Milliseconds between two logins.", bits=64, no_effect=_NO_KERBEROS
    )
    sasl_kerberos_principal_to_local_rules: list[str] = option(
        ["DEFAULT"], "Rules from principal names to short names.", no_effect=_NO_KERBEROS
    )
    sasl_login_refresh_window_factor: float = option(
        0.8,
        "Share of a login's lifetime after which it is renewed.",
        rule=ValueRule(lambda part: 0.5 <= part <= 1, "a number from 0.5 to 1"),
        no_effect=_NO_LOGIN,
    )
    sasl_login_refresh_window_jitter: float = option(
        0.05,
        "Random addition to the window factor.",
        rule=ValueRule(lambda part: 0 <= part <= 0.25, "a number from 0 to 0.25"),
        no_effect=_NO_LOGIN,
    )
    sasl_login_refresh_min_period_seconds: int = option(
        60, "Shortest time in seconds between two renewals.", low=0, high=900, bits=16, no_effect=_NO_LOGIN
    )
    sasl_login_refresh_buffer_seconds: int = option(
        300, "Seconds before a login's expiry without renewals.", low=0, high=3600, bits=16, no_effect=_NO_LOGIN
    )


_ATTRIBUTES: Final = frozenset(
    """
    log_cleaner_backoff_ms log_cleaner_dedupe_buffer_size max_connections max_connections_per_ip
    max_connections_per_ip_overrides max_connection_creation_rate producer_id_expiration_ms
    group_consumer_assignment_interval_ms
    """.split()  # noqa: SIM905 - eight words read better unquoted
)
_DEFAULTS_OF_TOPICS: Final = frozenset(option.falls_back_to for option in options_of(TopicConfig))

OF_BROKER: Final[Mapping[str, Option]] = {
    option.name: option
    for option in options_of(BrokerConfig)
    if option.attribute in _ATTRIBUTES or option.attribute in _DEFAULTS_OF_TOPICS
}
"""Options of BrokerConfig that can change at run time, by Kafka's names: effective at once."""
DYNAMIC: Final[Mapping[str, Option]] = {**{o.name: o for o in options_of(DynamicBrokerConfig)}, **OF_BROKER}
"""All options that can change at run time, by Kafka's names."""
