"""Calls of other clients, and what they are called here: for the text of an AttributeError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, NoReturn

from kohort.config.other_names import PAGE

OF_CONSUMERS: Final[Mapping[str, str]] = {
    "consume": "poll(timeout_ms, max_records=...)",
    "store_offsets": "commit(...), or mark_message() of a ConsumerGroup",
    "incremental_assign": "nothing: what is assigned is taken by itself",
    "incremental_unassign": "nothing: what is revoked is given up by itself",
    "get_watermark_offsets": "beginning_offsets([...]) and end_offsets([...])",
    "list_topics": "Admin(...).list_topics()",
    "partitions_for_topic": "partitions_for(topic)",
    "highwater": "lag()",
    "consumer_group_metadata": "group_metadata()",
    "start": "nothing: it begins with the first call",
    "stop": "close()",
}
OF_PRODUCERS: Final[Mapping[str, str]] = {
    "produce": "send(topic, value, key)",
    "poll": "nothing: callbacks run by themselves",
    "list_topics": "Admin(...).list_topics()",
    "send_and_wait": "send(...).result()",
    "start": "nothing: it begins with the first call",
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
    "poll": "nothing: each call waits for its answer",
}


class Elsewhere:
    """A call of another client in a class that has none of the name: it is not there, and the error says what is."""

    __slots__ = ("_called", "_name")

    def __init__(self, name: str, called: str) -> None:
        self._name = name
        self._called = called

    def __get__(self, instance: object, owner: type) -> NoReturn:
        who = f"type object {owner.__name__!r}" if instance is None else f"{owner.__name__!r} object"
        text = f"{who} has no attribute {self._name!r}: here it is {self._called} ({PAGE})"
        raise AttributeError(text, name=self._name, obj=owner if instance is None else instance)


class OtherNames:
    """What a client is asked for under another client's name is refused with its own.

    By a descriptor for each name: with ``__getattr__`` Python would look up every attribute of a client the slow way,
    the ones that are there too, which is a quarter of what ``send`` costs.
    """

    __slots__ = ()
    other_names: ClassVar[Mapping[str, str]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, called in cls.other_names.items():
            if not hasattr(cls, name):
                setattr(cls, name, Elsewhere(name, called))

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not isinstance(vars(type(self)).get(name), Elsewhere)]
