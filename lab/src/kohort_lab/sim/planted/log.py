"""Bugs of the log and of the broker's volatile state."""

from __future__ import annotations

from typing import Any

from kohort.broker.purgatory import Purgatory
from kohort.log import recovery
from kohort.log.compaction_filter import EndedTransactions
from kohort.log.partition import PartitionLog
from kohort.log.producers import Producers
from kohort.log.segment import Segment
from kohort.log.topics import Topics
from kohort.wire.record_batch import with_offset
from kohort_lab.sim.planted.bugs import bug
from kohort_lab.sim.planted.patch import Patch


@bug("log", "a batch of several records takes only one offset")
def batch_takes_one_offset(patch: Patch) -> None:
    def append(real: Any, log: PartitionLog, *args: Any, **kwargs: Any) -> Any:
        appended = real(log, *args, **kwargs)
        if not appended.duplicate:
            log._next_offset = appended.base_offset + 1
        return appended

    patch.method(PartitionLog, "append", append)


@bug("log", "batches keep the base offset of their producer")
def base_offset_kept(patch: Patch) -> None:
    patch.function(with_offset, lambda real, batch, _offset, epoch: real(batch, 0, epoch))


@bug("log", "a producer's retry is appended again")
def retry_appended_again(patch: Patch) -> None:
    patch.method(Producers, "check", lambda *_, **__: None)


@bug("log", "recovery loses the producer state")
def producers_not_recovered(patch: Patch) -> None:
    def recover(real: Any, *args: Any) -> Any:
        found = real(*args)
        found.producers = Producers()
        return found

    patch.function(recovery.recover, recover)


@bug("log", "recovery keeps a torn batch")
def torn_batch_kept(patch: Patch) -> None:
    patch.method(Segment, "truncate", lambda *_: None)


@bug("log", "recovery loses the last batch")
def last_batch_lost(patch: Patch) -> None:
    def recover(real: Any, *args: Any) -> Any:
        found = real(*args)
        if found.next_offset > found.start_offset:
            found.next_offset -= 1
        return found

    patch.function(recovery.recover, recover)


@bug("log", "a log of several segments is read from its last one")
def last_segment_only(patch: Patch) -> None:
    patch.method(PartitionLog, "_index_of", lambda _real, log, _offset: len(log._segments) - 1)


@bug("log", "a failed write counts as written")
def refused_write_counts(patch: Patch) -> None:
    from kohort.errors import StorageError

    def append(real: Any, segment: Segment, *args: Any) -> None:
        try:
            real(segment, *args)
        except StorageError:
            return

    patch.method(Segment, "append", append)


@bug("log", "the index has an offset one batch too far")
def position_remembered_wrongly(patch: Patch) -> None:
    def remember(real: Any, segment: Segment, offset: int, position: int) -> None:
        real(segment, offset - 1, position)

    patch.method(Segment, "_remember", remember)


@bug("log", "compaction drops the marker of a transaction with remaining records", world="transactions")
def marker_dropped_early(patch: Patch) -> None:
    def end(real: Any, ended: EndedTransactions, *args: Any) -> bool:
        return real(ended, *args) or True

    patch.method(EndedTransactions, "end", end)


@bug("log", "the fetch of a closed connection stays parked")
def parked_for_ever(patch: Patch) -> None:
    patch.method(Purgatory, "forget", lambda *_: None)


@bug("log", "an append completes no waiting fetch")
def append_wakes_nobody(patch: Patch) -> None:
    patch.method(Purgatory, "appended", lambda *_, **__: None)


@bug("log", "any client may write to internal topics")
def own_topics_open(patch: Patch) -> None:
    def create(real: Any, topics: Topics, *args: Any, internal: bool = False, **kwargs: Any) -> Any:
        del internal
        return real(topics, *args, **kwargs)

    patch.method(Topics, "create", create)
