"""Options of other Kafka clients and their kohort counterparts, for the error message of an unknown option."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PAGE: Final = "docs/guides/coming-from.md"
NEGOTIATED: Final = "client and broker negotiate API versions"
NO_CODE: Final = "keys and values are bytes: decode and encode them in your own code"
BY_ITSELF: Final = "a consumer prefetches automatically"
INSTEAD: Final[Mapping[str, str]] = {
    # kafka-python, aiokafka
    "value.deserializer": NO_CODE,
    "key.deserializer": NO_CODE,
    "value.serializer": NO_CODE,
    "key.serializer": NO_CODE,
    "consumer.timeout.ms": "poll(timeout_ms) returns without records",
    "api.version": NEGOTIATED,
    "api.version.auto.timeout.ms": NEGOTIATED,
    "loop": "an asyncio client uses the loop of its first call",
    # librdkafka
    "metadata.broker.list": "bootstrap.servers",
    "api.version.request": NEGOTIATED,
    "broker.version.fallback": NEGOTIATED,
    "queued.max.messages.kbytes": BY_ITSELF,
    "queued.min.messages": BY_ITSELF,
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "enable.auto.offset.store": "mark_message() of a ConsumerGroup, or commit() with offsets",
    "enable.partition.eof": "lag(), or end_offsets()",
    "message.timeout.ms": "delivery.timeout.ms",
    "message.send.max.retries": "retries",
    "request.required.acks": "acks",
    "queue.buffering.max.messages": "buffer.memory",
    "queue.buffering.max.kbytes": "buffer.memory",
    "queue.buffering.max.ms": "linger.ms",
    "socket.timeout.ms": "request.timeout.ms",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    "debug": "logging, with the loggers kohort.consumer and kohort.producer",
    "error.cb": "errors are raised, and logged by kohort.consumer and kohort.producer",
    "on.commit": "commit_async(callback=...)",
    "on.delivery": "add_done_callback() of the Delivery that send() returns",
    # Java
    "buffer.bytes": "buffer.memory",
    "interceptor.classes": "your own code around poll() and send()",
    "partitioner.class": "partitioner= of a producer, a name or a function",
    "config.providers": "${NAME} in an options file, for environment variables",
    "bootstrap.controllers": "bootstrap.servers",
    "share.acknowledgement.mode": "share consumers are not supported",
    "share.acquire.mode": "share consumers are not supported",
}


def instead_of(name: str) -> str:
    """Return the hint for an option of another client, or an empty text."""
    found = INSTEAD.get(name)
    if found is None:
        return ""
    is_option = all(c.islower() or c == "." for c in found)
    return f": here {'it is ' if is_option else ''}{found} ({PAGE})"
