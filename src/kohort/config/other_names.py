"""Options of other clients and their counterparts here, for the error that rejects them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PAGE: Final = "docs/guides/coming-from.md"
NO_CODE: Final = "keys and values are bytes: decode and encode them in your own code"
BY_ITSELF: Final = "a consumer fetches ahead by itself"
INSTEAD: Final[Mapping[str, str]] = {
    # kafka-python, aiokafka
    "value.deserializer": NO_CODE,
    "key.deserializer": NO_CODE,
    "value.serializer": NO_CODE,
    "key.serializer": NO_CODE,
    "consumer.timeout.ms": "poll(timeout_ms) ends when nothing came",
    "api.version": "the versions are agreed on with the broker",
    "api.version.auto.timeout.ms": "the versions are agreed on with the broker",
    "loop": "a client of asyncio lives on the loop that it is first used on",
    # librdkafka
    "metadata.broker.list": "bootstrap.servers",
    "api.version.request": "the versions are agreed on with the broker",
    "broker.version.fallback": "the versions are agreed on with the broker",
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
    "error.cb": "errors are raised, and told to the loggers kohort.consumer and kohort.producer",
    "on.commit": "commit_async(callback=...)",
    "on.delivery": "add_done_callback() of the Delivery that send() returns",
    # Java
    "buffer.bytes": "buffer.memory",
    "interceptor.classes": "your own code around poll() and send()",
    "partitioner.class": "partitioner= of a producer, a name or a function",
    "config.providers": "${NAME} in a file of options, for what is in the environment",
    "bootstrap.controllers": "bootstrap.servers",
    "share.acknowledgement.mode": "there is no share consumer",
    "share.acquire.mode": "there is no share consumer",
}


def instead_of(name: str) -> str:
    """Return the hint for an option of another client; empty without one."""
    found = INSTEAD.get(name)
    if found is None:
        return ""
    is_option = all(c.islower() or c == "." for c in found)
    return f": here {'it is ' if is_option else ''}{found} ({PAGE})"
