"""Method names of other Kafka clients and the kohort methods to use instead, for the message of an AttributeError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, NoReturn

from kohort.config.other_names import PAGE

OF_CONSUMERS: Final[Mapping[str, str]] = {
    "consume": "poll(timeout_ms, max_records=...)",
    "store_offsets": "commit(...), or mark_message() of a ConsumerGroup",
    "incremental_assign": "nothing: assigned partitions are added automatically",
    "incremental_unassign": "nothing: revoked partitions are removed automatically",
    "get_watermark_offsets": "beginning_offsets([...]) and end_offsets([...])",
    "list_topics": "Admin(...).list_topics()",
    "partitions_for_topic": "partitions_for(topic)",
    "highwater": "lag()",
    "consumer_group_metadata": "group_metadata()",
    "start": "nothing: the first call starts the client",
    "stop": "close()",
}
OF_PRODUCERS: Final[Mapping[str, str]] = {
    "produce": "send(topic, value, key)",
    "poll": "nothing: callbacks run automatically",
    "list_topics": "Admin(...).list_topics()",
    "send_and_wait": "send(...).result()",
    "start": "nothing: the first call starts the client",
    "stop": "close()",
}
OF_DELIVERIES: Final[Mapping[str, str]] = {
    "get": "result(timeout_ms)",
    "add_callback": "add_done_callback(callback)",
    "add_errback": "add_done_callback(callback), and exception()",
    "succeeded": "done(), and exception()",
    "failed": "done(), and exception()",
}
OF_ADMINS: Final[Mapping[str, str]] = {
    "create_topic": "create_topics({name: partitions})",
    "delete_topic": "delete_topics([name])",
    "list_consumer_groups": "list_groups()",
    "describe_consumer_groups": "describe_groups([...])",
    "delete_consumer_groups": "delete_groups([...])",
    "list_consumer_group_offsets": "list_group_offsets(group)",
    "alter_consumer_group_offsets": "alter_group_offsets(group, {...})",
    "remove_members_from_consumer_group": "remove_group_members(group, [...])",
    "incremental_alter_configs": "alter_configs({...})",
    "poll": "nothing: each call waits for its response",
}


class ForeignName:
    """Attribute for a method name of another Kafka client: raises an AttributeError that names kohort's method."""

    __slots__ = ("_counterpart", "_name")

    def __init__(self, name: str, counterpart: str) -> None:
        self._name = name
        self._counterpart = counterpart

    def __get__(self, instance: object, owner: type) -> NoReturn:
        subject = f"type object {owner.__name__!r}" if instance is None else f"{owner.__name__!r} object"
        text = f"{subject} has no attribute {self._name!r}: use {self._counterpart} ({PAGE})"
        raise AttributeError(text, name=self._name, obj=owner if instance is None else instance)


class OtherNames:
    """Mixin: access to a method name of another Kafka client raises an error that names kohort's method.

    It uses descriptors, because ``__getattr__`` would slow down every attribute access, and ``send`` by a quarter.
    """

    __slots__ = ()
    other_names: ClassVar[Mapping[str, str]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, counterpart in cls.other_names.items():
            if not hasattr(cls, name):
                setattr(cls, name, ForeignName(name, counterpart))

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not isinstance(vars(type(self)).get(name), ForeignName)]
