"""Decode fetched data to records and Arrow batches, for both consumer APIs.

The caller's thread decodes without the consumer's lock, after it has scheduled the next fetch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kohort.aio.schema_registry import registry_of
from kohort.client.consumer import ConsumerMachine
from kohort.client.reading.deserializing import Deserializers, refuse_arrow
from kohort.client.reading.fetched import Fetched
from kohort.errors import SchemaRegistryError, UndecodableValue
from kohort.model import Record, TopicPartition
from kohort.schemas.serde import SchemaNeeded

if TYPE_CHECKING:
    import pyarrow

    from kohort.columns.avro_values.format import AvroFormat
    from kohort.columns.layout import Layout


log = logging.getLogger("kohort.consumer")


@dataclass(frozen=True, slots=True)
class TakenRange:
    """Offsets of one partition that the last Arrow batches cover, the missing ones included; ``end`` is exclusive."""

    partition: TopicPartition
    topic_id: bytes | None
    start: int
    end: int


class RecordReader:
    def __init__(self, machine: ConsumerMachine, guard: AbstractContextManager[Any], kick: Callable[[], None]) -> None:
        self._machine = machine
        self._guard = guard
        self._kick = kick
        self._check_crcs = machine.config.check_crcs
        self.taken: list[TakenRange] = []
        """Ranges of the batches that the last call of ``batches`` returned."""

    def records(self, most: int) -> list[Record] | None:
        """Return up to ``most`` buffered records; None if the buffer is empty.

        Raises CorruptRecord if the next record is damaged.
        """
        out: list[Record] = []
        while len(out) < most:
            fetched = self.next_fetched(may_raise=not out)
            if fetched is None:
                break
            records = self.hand_out(fetched, most - len(out))
            if not out:
                out = records
            else:
                out += records
        return out or None

    def hand_out(self, fetched: Fetched, most: int) -> list[Record]:
        """Return up to ``most`` records, which count as consumed. Return no records if the partition was revoked."""
        with self._guard:
            return self._machine.take_records(fetched, most)

    def one_by_one(self, fetched: Fetched, most: int) -> Iterator[Record]:
        """Yield up to ``most`` records of ``fetched``; end early if the partition is revoked.

        Each record counts as consumed when it is yielded.
        """
        guard, take_record = self._guard, self._machine.take_record
        for _ in range(most):
            with guard:
                record = take_record(fetched)
            if record is None:
                break
            yield record

    def next_fetched(self, *, may_raise: bool = True) -> Fetched | None:
        """Decode and return the oldest fetched data that has unread records.

        Raises CorruptRecord if the next record is damaged.
        """
        while True:
            with self._guard:
                fetched, is_new = self._machine.open_batch()
                may_fetch = is_new and self._machine.may_fetch
            if may_fetch:
                self._kick()  # send the next fetch before the fetched batch is decoded
            if fetched is None:
                return None
            records = fetched.decode_records(check_crcs=self._check_crcs)
            if fetched.at < len(records):
                return fetched
            if fetched.error is not None:
                with self._guard:
                    is_asked = self._machine.refetch_damaged(fetched)
                if is_asked:
                    self._kick()
                    continue
                if may_raise:
                    raise fetched.error
                return None
            self.hand_out(fetched, 0)  # the batch has only control records or compacted offsets: skip it

    def batches(self, layout: Layout, max_bytes: int) -> list[pyarrow.RecordBatch] | None:
        """Return buffered records as Arrow batches; None if the buffer is empty. The records count as consumed.

        ``max_bytes`` limits approximately the fetched bytes of these records. Raises CorruptRecord if the first record
        is damaged. Batches after a damaged batch return to the buffer.
        """
        with self._guard:
            taken = self._machine.take_batches(max_bytes)
            may_fetch = taken and self._machine.may_fetch
            topic_ids = [fetched.state.topic_id for fetched in taken]
        if may_fetch:
            self._kick()  # send the next fetch before the fetched batches are decoded
        batches: list[pyarrow.RecordBatch] = []
        self.taken = []
        for i, fetched in enumerate(taken):
            try:
                decoded = fetched.decode_arrow(check_crcs=self._check_crcs, layout=layout)
            except Exception:  # put the records back, for example after an error of a schema registry
                with self._guard:
                    self._machine.put_back(taken[i:])
                if batches:
                    break
                raise
            with self._guard:
                self._machine.count_records(fetched, sum(batch.num_rows for batch in decoded))
            batches += decoded
            end = fetched.next_offset if fetched.error is None else max(fetched.error.offset, fetched.start_offset)
            self.taken.append(TakenRange(fetched.partition, topic_ids[i], fetched.start_offset, end))
            if fetched.error is not None:
                with self._guard:
                    self._machine.return_corrupt(fetched, taken[i + 1 :])
                    is_asked = self._machine.refetch_damaged(fetched)
                if is_asked:
                    self._kick()
                elif not batches:
                    raise fetched.error
                break
        return batches or None


class DeserializingReader(RecordReader):
    """Reader of a consumer with deserializers. A rejected record raises UndecodableValue and stays unread.

    In asyncio a record without its schema raises SchemaNeeded, and stays unread, too.
    """

    def __init__(
        self,
        machine: ConsumerMachine,
        guard: AbstractContextManager[Any],
        kick: Callable[[], None],
        deserializers: Deserializers,
    ) -> None:
        super().__init__(machine, guard, kick)
        self._deserializers = deserializers

    def records(self, most: int) -> list[Record] | None:
        out: list[Record] = []
        try:
            while len(out) < most and (fetched := self.next_fetched(may_raise=not out)) is not None:
                out += self.hand_out(fetched, most - len(out))
        except (UndecodableValue, SchemaRegistryError, SchemaNeeded):
            if not out:
                raise
        return out or None

    def hand_out(self, fetched: Fetched, most: int) -> list[Record]:
        """Return up to ``most`` deserialized records, without skipped ones.

        Raises UndecodableValue, SchemaRegistryError or SchemaNeeded if the first record is the cause.
        """
        undecoded = (fetched.records or [])[fetched.at : fetched.at + most]
        found, read, error = self._deserializers.until_error(undecoded)
        if error is not None and not read:
            raise error
        taken = super().hand_out(fetched, read)
        if len(found) < read and taken:
            log_skipped(undecoded[:read], found)
        return found if taken else []

    def one_by_one(self, fetched: Fetched, most: int) -> Iterator[Record]:
        left = most
        while left and (at := fetched.at) < len(fetched.records or ()):
            found = self.hand_out(fetched, 1)
            if found:
                left -= 1
                yield found[0]
            elif fetched.at == at:
                break  # the partition was revoked

    def batches(self, layout: Layout, max_bytes: int) -> list[pyarrow.RecordBatch] | None:  # noqa: ARG002
        refuse_arrow(self._deserializers)
        return None


def log_skipped(records: list[Record], found: list[Record]) -> None:
    """Log a warning about the records that ``on_decode_error="skip"`` left out."""
    kept = {record.offset for record in found}
    first = next(record for record in records if record.offset not in kept)
    place = f"{first.topic}-{first.partition} at offset {first.offset}"
    log.warning("skipped %d undecodable records, the first in %s", len(records) - len(found), place)


def reader_of(
    machine: ConsumerMachine, guard: AbstractContextManager[Any], kick: Callable[[], None], *, blocks: bool = True
) -> RecordReader:
    deserializers = Deserializers.of(machine.config, registry_of(machine.config), blocks=blocks)
    if deserializers is None:
        return RecordReader(machine, guard, kick)
    return DeserializingReader(machine, guard, kick, deserializers)


def layout_of(
    schema: pyarrow.Schema | None,
    columns: Iterable[str] | None,
    json: pyarrow.Schema | None,
    *,
    json_errors: bool = False,
    avro: AvroFormat | None = None,
    avro_errors: bool = False,
) -> Layout:
    """Return the Arrow layout for the arguments of ``poll_arrow`` and ``iter_arrow``.

    Raises UsageError for an unknown column or type, and MissingExtra without ``kohort[arrow]``.
    """
    from kohort.columns.layout import Layout

    return Layout(schema, columns, json, json_errors=json_errors, avro=avro, avro_errors=avro_errors)
