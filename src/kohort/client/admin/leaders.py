"""How operations ask the leader of each partition: one request for each leader, and again where a leader moves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from kohort.client.admin.operations import Ask, Operation, Pause, Results, passes
from kohort.client.admin.topics import cluster
from kohort.client.requests.metadata import Metadata
from kohort.errors import ApiError, ErrorCode, KohortError, error_code
from kohort.model import TopicPartition
from kohort.wire.messages.metadata import MetadataResponse
from kohort.wire.schema import Message

V = TypeVar("V")

ROUNDS: Final = 10
"""How often partitions whose leader moves are looked for again before their error is told."""


def of_leaders(
    metadata: Metadata,
    partitions: Iterable[TopicPartition],
    request: Callable[[Iterable[TopicPartition]], Message],
    found: Callable[[Any], Iterable[tuple[TopicPartition, V, int]]],
) -> Operation[Results[TopicPartition, V]]:
    """Ask the leader of each partition; one whose leader moves is looked for again."""
    results: Results[TopicPartition, V] = Results()
    pending: dict[TopicPartition, KohortError | None] = dict.fromkeys(partitions)
    for attempt in range(1, ROUNDS + 1):
        response = yield from cluster(metadata, sorted({tp.topic for tp in pending}))
        by_leader = by_leader_of(response, pending, results)
        answers = yield [Ask(request(tps), node_id) for node_id, tps in by_leader.items()]
        for tps, answer in zip(by_leader.values(), answers, strict=True):
            if isinstance(answer, KohortError):
                pending |= dict.fromkeys(tps, answer)
                continue
            for tp, value, code in found(answer):
                if passes(code):
                    pending[tp] = ApiError(error_code(code), str(tp))
                else:
                    pending.pop(tp, None)
                    results.add_or_refuse(tp, value, code)
        if not pending:
            return results
        if not all(error is None or error.retriable for error in pending.values()):
            break
        yield Pause(attempt)
    for tp, error in pending.items():
        results.refuse(tp, error or ApiError(ErrorCode.LEADER_NOT_AVAILABLE, str(tp)))
    return results


def by_leader_of(
    response: MetadataResponse,
    pending: dict[TopicPartition, KohortError | None],
    results: Results[TopicPartition, V],
) -> dict[int, list[TopicPartition]]:
    """Return partitions by leader; those that do not exist are refused, those without a leader stay pending."""
    errors = {t.name: t.error_code for t in response.topics}
    leaders = {(t.name, p.partition_index): p.leader_id for t in response.topics for p in t.partitions}
    grouped: dict[int, list[TopicPartition]] = {}
    for tp in list(pending):
        code = error_code(errors.get(tp.topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if code is ErrorCode.NONE and tp not in leaders:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if code is not ErrorCode.NONE and not passes(code):
            del pending[tp]
            results.refuse(tp, ApiError(code, str(tp)))
        elif leaders.get(tp, -1) >= 0:
            grouped.setdefault(leaders[tp], []).append(tp)
    return grouped
