"""Calls of other clients, and what they are called here: for the text of an AttributeError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final

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
    "incremental_alter_configs": "alter_configs({...})",
    "poll": "nothing: each call waits for its answer",
}


class OtherNames:
    """What a client is asked for under another client's name is refused with its own."""

    __slots__ = ()
    other_names: ClassVar[Mapping[str, str]]

    if not TYPE_CHECKING:  # who checks types is to hear of every name that is not there

        def __getattr__(self, name: str) -> object:
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            known = self.other_names.get(name)
            hint = f": here it is {known} ({PAGE})" if known else ""
            raise AttributeError(text + hint, name=name, obj=self)
