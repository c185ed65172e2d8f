"""Which way groups may be converted: ``group.consumer.migration.policy``."""

from __future__ import annotations

from typing import Final

from kohort.config import BrokerConfig

BOTH_WAYS: Final = "bidirectional"


def may_mix(config: BrokerConfig) -> bool:
    """Tell whether a member of the classic protocol may join a group of the new one."""
    return config.group_consumer_migration_policy != "disabled"


def may_upgrade(config: BrokerConfig) -> bool:
    """Tell whether a classic group with members may become one of the new protocol."""
    return config.group_consumer_migration_policy in (BOTH_WAYS, "upgrade")


def may_downgrade(config: BrokerConfig) -> bool:
    """Tell whether a group may become a classic one when the last member of the new protocol goes."""
    return config.group_consumer_migration_policy in (BOTH_WAYS, "downgrade")
