"""Calls of ``ConsumerGroup.handle``, for threads and asyncio: attempts, retry topics, dead letters.

The faces (``record_threads.py``, ``record_tasks.py``) run them, and start records of different keys at the same time.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from kohort.aio.calls import Run
from kohort.aio.consuming.consumer_calls import checked_topics
from kohort.aio.consuming.record_reader import log_skipped
from kohort.aio.group.session_state import Session, SessionState
from kohort.aio.schema_registry import registry_of
from kohort.client.admin.model import ConfigResource, NewTopic
from kohort.client.consumer import ConsumerMachine
from kohort.client.handling.copies import COPIED, MOVING, configs_of_copies, existing_topics_pass, is_missing
from kohort.client.handling.failures import Failure, text_of_error, without_failure
from kohort.client.handling.rules import HandlerRules, MoveRecord, RetryInPlace
from kohort.client.partition_claims import ClaimState
from kohort.client.reading.deserializing import Deserializers
from kohort.client.reading.fetched import Fetched
from kohort.client.reading.subscription import PartitionState
from kohort.config.client import AdminConfig, ConsumerConfig
from kohort.config.handlers import HandlerConfig, handler_config
from kohort.config.options import options_of
from kohort.config.properties import as_filled
from kohort.errors import ApiError, ConfigError, DeadLetterFailed, ErrorCode, KohortError, UndecodableValue, UsageError
from kohort.model import Record, SubscriptionPattern
from kohort.schemas.serde import SchemaNeeded

R = TypeVar("R")
log = logging.getLogger(__name__)


@dataclass(slots=True)
class Pause:
    """Wait request: wait ``delay_ms``; the result is False if the session ends before."""

    delay_ms: int


RecordCall = Generator[Run | Pause, Any, R]


class Clients(Protocol):
    """Clients of a face: its producer and admin client, its wait for a delivery, and the wall clock."""

    def now_ms(self) -> int: ...

    def producer(self, options: Mapping[str, Any], /) -> Any: ...

    def admin(self, options: Mapping[str, Any], /) -> Any: ...

    def delivered(self, delivery: Any) -> Any:
        """Wait for a delivery. In asyncio, return an awaitable."""

    def fetch(self, needed: SchemaNeeded) -> Any:
        """Get a schema from its registry. In asyncio, return an awaitable."""


class ReadClaim(Protocol):
    """Private parts of ``Claim`` and ``AsyncClaim`` that the calls use."""

    _session: SessionState
    _state: ClaimState

    def _take(self) -> Any: ...


class RecordCalls:
    """Handles records by a function of the user, one call per attempt."""

    def __init__(
        self,
        machine: ConsumerMachine,
        topics: str | Iterable[str] | re.Pattern[str] | SubscriptionPattern,
        function: Callable[[Any], Any],
        options: Mapping[str, Any],
        clients: Clients,
    ) -> None:
        if not callable(function):
            raise UsageError(f"handle: expected a function of a record, not {function!r:.100}")
        config = machine.config
        self.config: HandlerConfig = handler_config(options)
        self._topics = checked_topics(topics)
        if self.config.retry_topics and not isinstance(self._topics, list):
            raise ConfigError("retry_topics=True needs topic names, not a pattern: retry topics are subscribed by name")
        names = self._topics if isinstance(self._topics, list) else None
        self.rules = HandlerRules(self.config, str(config.group_id), names)
        machine.subscription.read_from_start = frozenset(self.rules.retry_topics)
        self._function = function
        self._deserializers = Deserializers.of(config, registry_of(config))
        self._clients = clients
        self._options = connection_options(config)
        self._request_timeout_ms = config.request_timeout_ms
        self._producer: Any = None
        self._existing: set[str] = set()

    def prepare(self) -> RecordCall[Any]:
        """Create the producer and missing retry topics; return the topics to subscribe to."""
        if self.config.retry_topics or self.config.dead_letters:
            timeout_ms = max(120_000, self._request_timeout_ms)
            options = {**MOVING, "delivery.timeout.ms": timeout_ms, "linger.ms": 0}
            self._producer = yield Run(partial(self._clients.producer, {**self._options, **options}))
        if not isinstance(self._topics, list):
            return self._topics
        main_topics = {found.main_topic for found in self.rules.retry_topics.values()}
        for main_topic in main_topics:
            names = [name for name, found in self.rules.retry_topics.items() if found.main_topic == main_topic]
            yield from self._create_missing(names, main_topic)
        return [*self._topics, *self.rules.retry_topics]

    def close(self) -> RecordCall[None]:
        producer, self._producer = self._producer, None
        if producer is not None:
            yield Run(producer.close)

    def in_order(self, session: Session, claim: ReadClaim) -> RecordCall[None]:
        """Handle the records of a claim sequentially, until the session ends."""
        while (fetched := (yield Run(claim._take))) is not None:
            records = read(claim, fetched)
            if self.config.batches:
                yield from self._batch(session, claim, fetched, records)
            else:
                for record in records:
                    if session.ending or not (yield from self.attempts(record)):
                        return
                    mark(session, claim, fetched.state, record)
            claim._session.check_damage(claim._state, fetched)

    def attempts(self, record: Record) -> RecordCall[bool]:
        """Handle a record in one or more attempts, or send it to a retry or dead-letter topic.

        Returns False if the session ended first. Raises the error of the last attempt if the record has no such topic.

        A record that another group sent to a common retry topic is passed over.
        """
        if self.rules.is_foreign(record):
            return True
        wait_ms = self.rules.wait_ms(record, self._clients.now_ms())
        if wait_ms and not (yield Pause(wait_ms)):
            return False
        attempt = self.rules.attempt(record)
        while True:
            try:
                decoded = yield from self._decoded(record)
                if decoded is not None:
                    yield Run(partial(self._function, decoded))
            except Exception as failed:  # noqa: BLE001  # errors of the user's function
                error = failed
            else:
                return True
            after = self.rules.after(record, error, attempt, self._clients.now_ms())
            if after is None:
                raise error
            if isinstance(after, MoveRecord):
                yield from self._move([(record, after)])
                return True
            if not (yield from self._again(after, [record], attempt, error)):
                return False
            attempt += 1

    def _batch(self, session: Session, claim: ReadClaim, fetched: Fetched, records: list[Record]) -> RecordCall[None]:
        """Handle a list of records in one call; each attempt repeats the whole list."""
        decoded: list[Record] = []
        at, attempt = 0, 1
        while at < len(records):
            record = records[at]
            try:
                if (found := (yield from self._decoded(record))) is not None:
                    decoded.append(found)
            except UndecodableValue as error:
                after = self.rules.after(record, error, attempt, self._clients.now_ms())
                if isinstance(after, RetryInPlace):
                    if not (yield from self._again(after, [record], attempt, error)):
                        return
                    attempt += 1
                    continue
                if after is None:
                    fetched.undecodable = error
                    records = records[:at]
                    break
                yield from self._move([(record, after)])
            at, attempt = at + 1, 1
        if records and (not decoded or (yield from self._batch_attempts(records, decoded))):
            mark(session, claim, fetched.state, records[-1])

    def _batch_attempts(self, records: list[Record], decoded: list[Record]) -> RecordCall[bool]:
        raw = {record.offset: record for record in records}
        attempt = 1
        while True:
            try:
                yield Run(partial(self._function, decoded))
            except Exception as failed:  # noqa: BLE001  # errors of the user's function
                error = failed
            else:
                return True
            afters = [
                (raw[r.offset], self.rules.after(raw[r.offset], error, attempt, self._clients.now_ms()))
                for r in decoded
            ]
            moves = [(record, after) for record, after in afters if isinstance(after, MoveRecord)]
            if moves:
                yield from self._move(moves)
                return True
            after = afters[0][1]
            if not isinstance(after, RetryInPlace):
                raise error
            if not (yield from self._again(after, records, attempt, error)):
                return False
            attempt += 1

    def _again(
        self, after: RetryInPlace, records: Sequence[Record], attempt: int, error: Exception
    ) -> RecordCall[bool]:
        log.info(
            "attempt %d of %d to handle %s failed, the next follows in %d ms: %s: %.200s",
            attempt, self.config.attempts, place(records[0]), after.delay_ms, type(error).__name__,
            text_of_error(error),
        )  # fmt: skip
        return bool((yield Pause(after.delay_ms)))

    def _decoded(self, record: Record) -> RecordCall[Record | None]:
        """Deserialize a record; None if ``on_decode_error`` skips it."""
        if self._deserializers is None:
            return record
        while True:
            try:
                found = self._deserializers.apply(record)
            except SchemaNeeded as needed:
                yield Run(partial(self._clients.fetch, needed))
            else:
                if found is None:
                    log_skipped([record], [])
                return found

    def _move(self, moves: list[tuple[Record, MoveRecord]]) -> RecordCall[None]:
        """Send failed records to their next topic, and wait until the topic has them. Raises DeadLetterFailed."""
        first, move = moves[0]
        with moving(first, move):
            if move.topic not in self._existing:
                yield from self._create_missing([move.topic], move.main_topic)
            count = yield Run(partial(self._producer.partitions_for, move.topic))
            sent = []
            for record, after in moves:
                sent.append((record, after, (yield from self._send(record, after.topic, after.failure, count))))
        for record, after, delivery in sent:
            with moving(record, after):
                yield from self._delivered(record, after, count, delivery)
            log.log(
                logging.WARNING if after.is_last else logging.INFO,
                "%s is in topic %r after %d attempts: %s: %.200s",
                place(record), after.topic, after.failure.attempts, after.failure.exception, after.failure.message,
            )  # fmt: skip

    def _send(self, record: Record, topic: str, failure: Failure, count: int) -> RecordCall[Any]:
        return (
            yield Run(
                partial(
                    self._producer.send,
                    topic,
                    record.value,
                    record.key,
                    partition=record.partition % count,
                    headers=[*without_failure(record.headers), *failure.headers()],
                    timestamp_ms=record.timestamp_ms if record.timestamp_ms >= 0 else None,
                )
            )
        )

    def _delivered(self, record: Record, move: MoveRecord, count: int, delivery: Any) -> RecordCall[None]:
        """Wait for a delivery. If the record is too large with its stack trace, send it again without."""
        try:
            yield Run(partial(self._clients.delivered, delivery))
        except ApiError as error:
            if error.code not in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
                raise
            delivery = yield from self._send(record, move.topic, move.failure.without_stack(), count)
            yield Run(partial(self._clients.delivered, delivery))

    def _create_missing(self, names: list[str], main_topic: str) -> RecordCall[None]:
        """Create missing topics with partition count and limits of the main topic, if ``create_topics`` is true."""
        if not self.config.create_topics:
            return
        admin = yield Run(partial(self._clients.admin, self._options))
        try:
            found = yield Run(partial(admin.describe_topics, [main_topic, *names]))
            missing = [name for name in names if is_missing(found.errors.get(name))]
            if missing:
                partitions = -1 if main_topic in found.errors else len(found[main_topic].partitions)
                resource = ConfigResource("topic", main_topic)
                options = yield Run(partial(admin.describe_configs, [resource], names=COPIED))
                configs = {} if resource in options.errors else configs_of_copies(options[resource])
                new = [NewTopic(name, partitions, configs=configs) for name in missing]
                created = yield Run(partial(admin.create_topics, new, check=False))
                for name in missing:
                    with existing_topics_pass(name):
                        created[name]
        finally:
            yield Run(admin.close)
        self._existing.update(names)


@contextmanager
def moving(record: Record, move: MoveRecord) -> Iterator[None]:
    """Raise DeadLetterFailed for an error of a client in this block."""
    try:
        yield
    except KohortError as error:
        notes = " ".join(getattr(error, "__notes__", ()))
        raise DeadLetterFailed(
            f"{place(record)} failed ({move.failure.exception}: {move.failure.message}) and cannot be sent to topic "
            f"{move.topic!r}: {error}{'; ' if notes else ''}{notes}; it is not committed"
        ) from error


def place(record: Record) -> str:
    return f"{record.topic}-{record.partition} at offset {record.offset}"


def read(claim: ReadClaim, fetched: Fetched) -> list[Record]:
    """Decode and count fetched records; their keys and values stay bytes."""
    records = fetched.decode_records(check_crcs=claim._session.check_crcs)
    claim._session.count(fetched, len(records))
    return records


def mark(session: Session, claim: ReadClaim, reading: PartitionState | None, record: Record) -> None:
    """Mark a record, unless its topic was deleted and created again since its fetch from ``reading``."""
    if claim._state.state is reading:
        session.mark_message(record)


def connection_options(config: ConsumerConfig) -> dict[str, Any]:
    """Return the options of a consumer that other clients of the same cluster share, if not at their default."""
    given = {option.name: (getattr(config, option.attribute), option.default) for option in options_of(AdminConfig)}
    return as_filled({name: value for name, (value, default) in given.items() if value != default})
