"""Bugs of fetching, positions and producing."""

from __future__ import annotations

from typing import Any

from kohort.client.group.commits import Commits
from kohort.client.reading.fetch_sessions import FetchSession
from kohort.client.reading.fetched import Fetched
from kohort.client.reading.fetcher import Fetcher
from kohort.client.reading.resets import Resets
from kohort.client.reading.subscription import PartitionState, SubscriptionState
from kohort.client.requests.request_state import RequestState
from kohort.client.writing.sender import Sender
from kohort.model import OffsetAndMetadata
from kohort_lab.sim.planted.bugs import bug
from kohort_lab.sim.planted.patch import Patch


@bug("fetcher", "commits contain the fetch position, not the delivered position")
def commits_what_was_fetched(patch: Patch) -> None:
    def positions(real: Any, commits: Commits, partitions: Any) -> Any:
        assigned = commits._subscription.assigned
        return {
            p: OffsetAndMetadata(max(assigned[p].fetch_offset, o.offset)) for p, o in real(commits, partitions).items()
        }

    patch.method(Commits, "positions", positions)


@bug("fetcher", "a position moves one record too far")
def position_too_far(patch: Patch) -> None:
    def advance(real: Any, state: PartitionState, offset: int, epoch: int) -> None:
        real(state, offset + 1, epoch)

    patch.method(PartitionState, "advance", advance)


@bug("fetcher", "the last record of a fetch is dropped")
def last_record_dropped(patch: Patch) -> None:
    def decode(real: Any, fetched: Fetched, **kwargs: Any) -> Any:
        first = fetched.records is None
        records = real(fetched, **kwargs)
        if first and len(records) > 1:
            records.pop()
        return records

    patch.method(Fetched, "decode_records", decode)


@bug("fetcher", "records of a batch before the position are delivered")
def whole_batches_handed_out(patch: Patch) -> None:
    def records(real: Any, fetched: Fetched, *args: Any, **kwargs: Any) -> Any:
        kept, fetched.start_offset = fetched.start_offset, 0
        try:
            return real(fetched, *args, **kwargs)
        finally:
            fetched.start_offset = kept

    patch.method(Fetched, "_records", records)


@bug("fetcher", "records fetched before a seek or a rebalance are delivered after it")
def stale_data_handed_out(patch: Patch) -> None:
    patch.method(Fetcher, "is_dropped", lambda *_: False)


@bug("fetcher", "records fetched before a seek back are delivered after it")
def seek_keeps_what_was_fetched(patch: Patch) -> None:
    def seek(real: Any, subscription: SubscriptionState, partition: Any, position: Any) -> None:
        state = subscription.state(partition)
        run = state.run
        real(subscription, partition, position)
        state.run = run

    patch.method(SubscriptionState, "seek", seek)


@bug("fetcher", "a fetch session continues after a lost response")
def session_survives_loss(patch: Patch) -> None:
    patch.method(FetchSession, "lost", lambda *_: None)


@bug("fetcher", "a fetch session does not send a changed position")
def session_not_told(patch: Patch) -> None:
    def build(real: Any, session: FetchSession, partitions: Any) -> Any:
        cached = {p: w for p, w in session._known.items() if p in partitions}
        return real(session, {**partitions, **cached})

    patch.method(FetchSession, "build", build)


@bug("fetcher", "without committed offset, reading starts at the end instead of the beginning")
def reset_to_the_end(patch: Patch) -> None:
    def no_offset(_real: Any, resets: Resets, partition: Any, state: PartitionState) -> None:
        del resets, partition
        state.await_reset("latest")

    patch.method(Resets, "no_offset", no_offset)


@bug("fetcher", "after an error, a node gets no more fetch requests")
def never_fetched_again(patch: Patch) -> None:
    def later(real: Any, fetcher: Fetcher, node_id: int, now_ms: int) -> None:
        real(fetcher, node_id, now_ms)
        fetcher._failed[node_id].retry_at_ms = now_ms + 3_600_000

    patch.method(Fetcher, "_back_off_node", later)


@bug("fetcher", "a failed request is never retried")
def back_off_without_end(patch: Patch) -> None:
    def failed(real: Any, request: RequestState, now_ms: int) -> int:
        real(request, now_ms)
        request.retry_at_ms = now_ms + 3_600_000
        return request.retry_at_ms

    patch.method(RequestState, "failed", failed)


@bug("fetcher", "a retried batch gets new sequence numbers")
def retry_renumbered(patch: Patch) -> None:
    def number(real: Any, sender: Sender, lineage: Any, batch: Any, now: Any) -> None:
        batch.base_sequence = -1
        real(sender, lineage, batch, now)

    patch.method(Sender, "_continue_sequence", number)


@bug("fetcher", "a failed batch is reported as delivered")
def failure_is_success(patch: Patch) -> None:
    def retry(_real: Any, sender: Sender, batch: Any, _error: Any, now_ms: int, **_kwargs: Any) -> None:
        sender._succeed(batch, 0, -1, now_ms)

    patch.method(Sender, "_retry", retry)
