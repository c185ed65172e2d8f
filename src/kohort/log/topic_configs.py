"""Options of topics: the broker's defaults overlaid with the overrides of each topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kohort.config import BrokerConfig, TopicConfig, topic_config
from kohort.config.topic import check_lags
from kohort.errors import ApiError, ConfigError, ErrorCode

CONFIGS_KEPT: Final = 100
"""Sets of overrides whose configuration is cached: most topics share one."""


class TopicConfigs:
    """Configurations by overrides; equal overrides share one object."""

    def __init__(self, broker: BrokerConfig) -> None:
        self._broker = broker
        self._by_overrides: dict[tuple[tuple[str, str | None], ...], TopicConfig] = {}

    def __len__(self) -> int:
        return len(self._by_overrides)

    def of(self, overrides: Mapping[str, str | None]) -> TopicConfig:
        """Return the configuration of a topic with valid overrides. Raises ConfigError."""
        given = tuple(sorted(overrides.items()))
        known = self._by_overrides.get(given)
        if known is None:
            known = topic_config(self._broker, overrides)
            if len(self._by_overrides) == CONFIGS_KEPT:
                self._by_overrides.clear()
            self._by_overrides[given] = known
        return known

    def check(self, overrides: Mapping[str, str | None]) -> TopicConfig:
        """Return the configuration of a topic to create or alter. Raises ApiError INVALID_CONFIG."""
        try:
            config = self.of(overrides)
            check_lags(config)
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
        return config
