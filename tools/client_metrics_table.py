"""Every metric of clients: its group and names, its tags, and what it says. The guide's table is made of it, and tests
hold it against what is emitted and against Kafka's Java clients."""

from __future__ import annotations

from typing import Final, NamedTuple

RATE, TOTAL = "rate", "total"


class MetricRow(NamedTuple):
    """Related metrics: ``stem`` with each of ``endings``, or ``stem`` alone."""

    group: str
    stem: str
    endings: tuple[str, ...]
    tags: tuple[str, ...]
    words: str

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(f"{self.stem}-{ending}" for ending in self.endings) or (self.stem,)

    @property
    def is_kafkas(self) -> bool:
        """True if Kafka's Java clients have these metrics."""
        return not self.group.startswith("kohort-")


METER: Final = (RATE, TOTAL)
SPREAD: Final = ("avg", "max")


def _of_every(prefix: str) -> list[MetricRow]:
    group, of_node, node = f"{prefix}-metrics", f"{prefix}-node-metrics", ("node-id",)
    return [
        MetricRow(group, "connection-count", (), (), "Connections that stand."),
        MetricRow(group, "connection-creation", METER, (), "Connections that were made."),
        MetricRow(group, "connection-close", METER, (), "Connections that ended."),
        MetricRow(group, "successful-authentication", METER, (), "Logins (SASL) that succeeded."),
        MetricRow(group, "failed-authentication", METER, (), "Connections that a login or TLS refused."),
        MetricRow(group, "outgoing-byte", METER, (), "Bytes of requests."),
        MetricRow(group, "incoming-byte", METER, (), "Bytes of answers."),
        MetricRow(group, "request-size", SPREAD, (), "Bytes of a request."),
        MetricRow(group, "request", METER, (), "Requests."),
        MetricRow(group, "response", METER, (), "Answers."),
        MetricRow(of_node, "outgoing-byte", METER, node, "Bytes of requests to a node."),
        MetricRow(of_node, "incoming-byte", METER, node, "Bytes of its answers."),
        MetricRow(of_node, "request-size", SPREAD, node, "Bytes of a request to it."),
        MetricRow(of_node, "request", METER, node, "Requests to it."),
        MetricRow(of_node, "response", METER, node, "Its answers."),
        MetricRow(of_node, "request-latency", SPREAD, node, "Milliseconds until its answers."),
    ]


_POLLS: Final = "consumer-metrics"
_GROUP: Final = "consumer-coordinator-metrics"
_FETCHES: Final = "consumer-fetch-manager-metrics"
_SENDING: Final = "producer-metrics"
_TO_TOPIC: Final = "producer-topic-metrics"
_REQUESTS: Final = "kohort-request-metrics"
_TOPIC: Final = ("topic",)
_PARTITION: Final = ("topic", "partition")
_OF_CONSUMERS: Final = [
    MetricRow(_POLLS, "time-between-poll", SPREAD, (), "Milliseconds from one poll to the next."),
    MetricRow(_POLLS, "last-poll-seconds-ago", (), (), "When the last poll began; -1 before the first."),
    MetricRow(_POLLS, "poll-idle-ratio-avg", (), (), "The share of time spent in polls, not in the user's work."),
    MetricRow(_POLLS, "commit-sync-time-ns-total", (), (), "How long `commit` waited."),
    MetricRow(_POLLS, "committed-time-ns-total", (), (), "How long `committed` waited."),
    MetricRow(_FETCHES, "fetch-latency", SPREAD, (), "Milliseconds of a fetch, its wait for records too."),
    MetricRow(_FETCHES, "fetch", METER, (), "Fetches."),
    MetricRow(_FETCHES, "fetch-size", SPREAD, (), "Bytes of records that a fetch brought; empty ones do not count."),
    MetricRow(_FETCHES, "bytes-consumed", METER, (), "Bytes of records that came."),
    MetricRow(_FETCHES, "records-consumed", METER, (), "Records that the user was given."),
    MetricRow(_FETCHES, "fetch-throttle-time", SPREAD, (), "Milliseconds that a quota held up a fetch."),
    MetricRow(_FETCHES, "bytes-consumed", METER, _TOPIC, "The same of a topic."),
    MetricRow(_FETCHES, "records-consumed", METER, _TOPIC, "The same of a topic."),
    MetricRow(_FETCHES, "fetch-size", SPREAD, _TOPIC, "Bytes of records that a fetch brought of one partition."),
    MetricRow(
        _FETCHES, "records-lag", (), _PARTITION, "Records behind the end that can be read, as of the last fetch."
    ),
    MetricRow(_FETCHES, "records-lead", (), _PARTITION, "Records from the begin of the log to the position."),
    MetricRow(
        _FETCHES, "preferred-read-replica", (), _PARTITION, "The replica that is read (KIP-392); -1: the leader."
    ),
    MetricRow(_FETCHES, "records-lag-max", (), (), "The lag now of the partition that is furthest behind."),
    MetricRow(_FETCHES, "records-lead-min", (), (), "The lead now of the partition that is nearest to losing records."),
    MetricRow(_GROUP, "commit-latency", SPREAD, (), "Milliseconds of a commit."),
    MetricRow(_GROUP, "commit", METER, (), "Commits that were answered."),
    MetricRow(_GROUP, "assigned-partitions", (), (), "Partitions that the group has assigned."),
    MetricRow(_GROUP, "heartbeat-response-time-max", (), (), "Milliseconds of the slowest heartbeat."),
    MetricRow(_GROUP, "heartbeat", METER, (), "Heartbeats that were answered."),
    MetricRow(_GROUP, "last-heartbeat-seconds-ago", (), (), "When the last heartbeat was sent; -1 before the first."),
    MetricRow(_GROUP, "join-time", SPREAD, (), "Milliseconds of a JoinGroup, its wait for others too; classic groups."),
    MetricRow(_GROUP, "join", METER, (), "Joins; classic groups."),
    MetricRow(_GROUP, "sync-time", SPREAD, (), "Milliseconds of a SyncGroup; classic groups."),
    MetricRow(_GROUP, "sync", METER, (), "Syncs; classic groups."),
    MetricRow(
        _GROUP, "rebalance-latency", ("avg", "max", TOTAL), (), "Milliseconds from the first join to the assignment."
    ),
    MetricRow(_GROUP, "rebalance-total", (), (), "Rebalances that came to an assignment."),
    MetricRow(_GROUP, "rebalance-rate-per-hour", (), (), "The same by the hour."),
    MetricRow(_GROUP, "failed-rebalance-total", (), (), "Joins and syncs that were refused or lost."),
    MetricRow(_GROUP, "failed-rebalance-rate-per-hour", (), (), "The same by the hour."),
    MetricRow(_GROUP, "last-rebalance-seconds-ago", (), (), "When the last one ended; -1 before the first."),
    MetricRow(_GROUP, "partition-assigned-latency", SPREAD, (), "Milliseconds that the listener took when told so."),
    MetricRow(_GROUP, "partition-revoked-latency", SPREAD, (), "The same."),
    MetricRow(_GROUP, "partition-lost-latency", SPREAD, (), "The same."),
    MetricRow("kohort-consumer-metrics", "last-rebalance-reason", (), (), "Why the last rebalance began: a text."),
    MetricRow("kohort-consumer-metrics", "rebalance-in-progress", (), (), "1 during a rebalance, else 0."),
]
_OF_PRODUCERS: Final = [
    MetricRow(_SENDING, "record-send", METER, (), "Records that were sent; those sent again count once."),
    MetricRow(_SENDING, "batch-size", SPREAD, (), "Bytes of a batch, as it is sent."),
    MetricRow(_SENDING, "record-size-avg", (), (), "Bytes of a record, as it is sent."),
    MetricRow(_SENDING, "record-queue-time", SPREAD, (), "Milliseconds from a batch's first record to its sending."),
    MetricRow(_SENDING, "compression-rate-avg", (), (), "Bytes of a batch by those before compression."),
    MetricRow(_SENDING, "records-per-request-avg", (), (), "Records of a request."),
    MetricRow(_SENDING, "record-retry", METER, (), "Records that had to be sent again."),
    MetricRow(_SENDING, "record-error", METER, (), "Records that failed."),
    MetricRow(_SENDING, "batch-split", METER, (), "Batches that were split, being too large for the topic."),
    MetricRow(_SENDING, "buffer-exhausted", METER, (), "Calls that found no room within `max.block.ms`."),
    MetricRow(_SENDING, "request-latency", SPREAD, (), "Milliseconds until a Produce is answered."),
    MetricRow(_SENDING, "produce-throttle-time", SPREAD, (), "Milliseconds that a quota held up a Produce."),
    MetricRow(_SENDING, "requests-in-flight", (), (), "Requests that wait for an answer."),
    MetricRow(_SENDING, "buffer-total-bytes", (), (), "`buffer.memory`."),
    MetricRow(_SENDING, "buffer-available-bytes", (), (), "How much of it is free."),
    MetricRow(_SENDING, "metadata-age", (), (), "Seconds since brokers told of the cluster; -1 before."),
    MetricRow(_SENDING, "bufferpool-wait-time-ns-total", (), (), "How long calls waited for room."),
    MetricRow(_SENDING, "metadata-wait-time-ns-total", (), (), "How long calls waited for a topic's partitions."),
    MetricRow(_SENDING, "flush-time-ns-total", (), (), "How long `flush` waited."),
    MetricRow(_SENDING, "txn-init-time-ns-total", (), (), "How long `init_transactions` waited."),
    MetricRow(_SENDING, "txn-send-offsets-time-ns-total", (), (), "How long `send_offsets_to_transaction` waited."),
    MetricRow(_SENDING, "txn-commit-time-ns-total", (), (), "How long `commit_transaction` waited."),
    MetricRow(_SENDING, "txn-abort-time-ns-total", (), (), "How long `abort_transaction` waited."),
    MetricRow(_TO_TOPIC, "record-send", METER, _TOPIC, "Records that were sent to a topic."),
    MetricRow(_TO_TOPIC, "byte", METER, _TOPIC, "Their bytes, as they are sent."),
    MetricRow(_TO_TOPIC, "compression-rate", (), _TOPIC, "Bytes of a batch by those before compression."),
    MetricRow(_TO_TOPIC, "record-retry", METER, _TOPIC, "Records that had to be sent again."),
    MetricRow(_TO_TOPIC, "record-error", METER, _TOPIC, "Records that failed."),
]
OF_ALL: Final = [
    MetricRow(_REQUESTS, "request-total", (), ("api",), "Requests of an API."),
    MetricRow(_REQUESTS, "request-refused-total", (), ("api",), "Answers that refused the request as a whole."),
    MetricRow(_REQUESTS, "request-latency", SPREAD, ("api",), "Milliseconds until its answer."),
    MetricRow(_REQUESTS, "throttle-time", SPREAD, ("api",), "Milliseconds that a quota held up the client."),
    MetricRow(
        "kohort-error-metrics",
        "error-total",
        (),
        ("api", "error"),
        "Errors, in answers by Kafka's name; of what was not answered by the class of the error.",
    ),
]
"""Metrics of every kohort client that Kafka's clients lack."""
METRICS: Final = {
    "consumer": [*_of_every("consumer"), *_OF_CONSUMERS, *OF_ALL],
    "producer": [*_of_every("producer"), *_OF_PRODUCERS, *OF_ALL],
    "admin": [*_of_every("admin-client"), *OF_ALL],
}
"""All rows, by the kind of client."""
