"""Options of other Kafka clients and their kohort counterparts, for the error message of an unknown option."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PAGE: Final = "docs/guides/coming-from.md"
ON_COMMIT: Final = "commit_async(callback=...)"
ON_DELIVERY: Final = "add_done_callback() of the Delivery that send() returns"
LOGGING: Final = "logging, with the loggers kohort.consumer and kohort.producer"
SHARE: Final = "share consumers are not supported"
INSTEAD: Final[Mapping[str, str]] = {
    # kafka-python, aiokafka
    "consumer.timeout.ms": "poll(timeout_ms) returns without records",
    "rebalance.timeout.ms": "max.poll.interval.ms",
    "max.batch.size": "batch.size",
    "bootstrap.timeout.ms": "default.api.timeout.ms",
    "sasl.kerberos.name": "sasl.kerberos.principal",
    "proxy.url": "proxies are not supported",
    "socks5.proxy": "proxies are not supported",
    "loop": "an asyncio client uses the loop of its first call",
    "enforce.rebalance": "enforce_rebalance() of a consumer",
    "default.offset.commit.callback": ON_COMMIT,
    "kafka.client": "create a client of kohort",
    "topics": "subscribe(topics) of a consumer",
    "ssl.context": "use files: ssl.ca.location, ssl.certificate.location, ssl.key.location",
    # librdkafka
    "metadata.broker.list": "bootstrap.servers",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.max.bytes": "max.request.size",
    "compression.codec": "compression.type",
    "compression.level": "each codec uses its usual level",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.error.backoff.ms": "retry.backoff.ms",
    "enable.auto.offset.store": "mark_message() of a ConsumerGroup, or commit() with offsets",
    "auto.commit.enable": "enable.auto.commit",
    "enable.partition.eof": "lag(), or end_offsets()",
    "enable.gapless.guarantee": "transactions: an idempotent producer sends in order, but a record may fail",
    "message.timeout.ms": "delivery.timeout.ms",
    "message.send.max.retries": "retries",
    "request.required.acks": "acks",
    "queue.buffering.max.messages": "buffer.memory",
    "queue.buffering.max.kbytes": "buffer.memory",
    "queue.buffering.max.ms": "linger.ms",
    "batch.num.messages": "batch.size",
    "socket.timeout.ms": "request.timeout.ms",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    "topic.metadata.refresh.fast.interval.ms": "retry.backoff.ms",
    "topic.blacklist": "subscribe(re.compile(...)) with a pattern that leaves topics out",
    "statistics.interval.ms": "call metrics() of the client",
    "stats.cb": "call metrics() of the client",
    "debug": LOGGING,
    "log.level": LOGGING,
    "log.cb": LOGGING,
    "logger": LOGGING,
    "error.cb": "errors are raised, and logged by kohort.consumer and kohort.producer",
    "throttle.cb": "the metrics fetch-throttle-time-avg and produce-throttle-time-avg of metrics()",
    "rebalance.cb": "subscribe(topics, listener)",
    "consume.cb": "poll(), or the handler of a ConsumerGroup",
    "on.commit": ON_COMMIT,
    "offset.commit.cb": ON_COMMIT,
    "on.delivery": ON_DELIVERY,
    "dr.cb": ON_DELIVERY,
    "dr.msg.cb": ON_DELIVERY,
    "default.topic.conf": "give its options to the client",
    "broker.address.family": "name an address of that family in bootstrap.servers",
    # Java
    "buffer.bytes": "buffer.memory",
    "ssl.certificate.verify.cb": "ssl.ca.location, which names the trusted authorities",
    "ssl.ca.certificate.stores": "ssl.ca.location",
    "interceptors": "your own code around poll() and send()",
    "interceptor.classes": "your own code around poll() and send()",
    "partitioner.class": "partitioner= of a producer, a name or a function",
    "config.providers": "${NAME} and ${file:PATH} in values of options",
    "bootstrap.controllers": "bootstrap.servers",
    "share.acknowledgement.mode": SHARE,
    "share.acquire.mode": SHARE,
}
NO_EFFECT: Final[Mapping[str, str]] = dict.fromkeys(
    (
        "api.version", "api.version.auto.timeout.ms", "api.version.fallback.ms", "api.version.request",
        "api.version.request.timeout.ms", "broker.version.fallback",
    ),
    "client and broker negotiate API versions",
) | dict.fromkeys(
    (
        "fetch.queue.backoff.ms", "queued.max.messages.kbytes", "queued.min.messages",
    ),
    "a consumer prefetches automatically",
) | dict.fromkeys(
    (
        "background.event.cb", "broker.address.ttl", "builtin.features", "closesocket.cb", "connect.cb",
        "consume.callback.max.messages", "coordinator.query.interval.ms", "delivery.report.only.error",
        "enable.incremental.fetch.sessions", "enable.random.seed", "enabled.events", "group.protocol.type",
        "internal.termination.signal", "log.connection.close", "log.queue", "log.thread.name",
        "message.copy.max.bytes", "metric.group.prefix", "metrics.enabled", "msg.order.cmp",
        "offset.store.method", "offset.store.path", "offset.store.sync.interval.ms", "opaque", "open.cb",
        "plugin.library.paths", "produce.offset.report", "queue.buffering.backpressure.threshold",
        "queuing.strategy", "reconnect.backoff.jitter.ms", "resolve.cb", "selector", "sock.chunk.buffer.count",
        "sock.chunk.bytes", "socket.blocking.max.ms", "socket.cb", "socket.keepalive.enable",
        "socket.max.fails", "socket.nagle.disable", "socket.options",
        "ssl.engine.callback.data", "sticky.partitioning.linger.ms",
        "topic.metadata.propagation.max.ms", "topic.metadata.refresh.fast.cnt", "topic.metadata.refresh.sparse",
    ),
    "",
)  # fmt: skip
"""Options without effect in kohort. Value: reason, or an empty text for an obvious reason."""


def instead_of(name: str) -> str:
    """Return the hint for an option of another client, or an empty text."""
    if name in NO_EFFECT:
        reason = f": {NO_EFFECT[name]}" if NO_EFFECT[name] else ""
        return f": leave it out, it has no effect here{reason} ({PAGE})"
    found = INSTEAD.get(name)
    if found is None:
        return ""
    is_option = all(c.islower() or c == "." for c in found)
    return f": here {'it is ' if is_option else ''}{found} ({PAGE})"
