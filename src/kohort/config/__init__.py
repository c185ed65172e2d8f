"""Tables of all options: Kafka's name, type, default, bounds; the source of --help and of the pages on options."""

from kohort.config.broker import BrokerConfig
from kohort.config.options import Option, options_of, parse_config, unknown_option
from kohort.config.topic import TopicConfig, topic_config, topic_defaults

__all__ = [
    "BrokerConfig",
    "Option",
    "TopicConfig",
    "options_of",
    "parse_config",
    "topic_config",
    "topic_defaults",
    "unknown_option",
]
