"""Tables of all options: Kafka's name, type, default, bounds; the source of --help and of the pages on options."""

from kohort.config.broker import BrokerConfig
from kohort.config.options import options_of, parse_config
from kohort.config.topic import TopicConfig, topic_config

__all__ = ["BrokerConfig", "TopicConfig", "options_of", "parse_config", "topic_config"]
