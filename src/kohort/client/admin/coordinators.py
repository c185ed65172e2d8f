"""Requests to coordinators of groups and of transactional ids. One request can query several groups (KIP-699)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kohort.client.admin.operations import Ask, Operation, Pause, Results, is_transient
from kohort.client.requests.find_coordinator import BATCHED_FROM, GROUP_KEY, KEY_NAMES, lookup_shape
from kohort.client.requests.metadata import Metadata
from kohort.errors import ApiError, ErrorCode, KohortError, ProtocolError, UnsupportedVersion, error_code
from kohort.model import Node
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.schema import Message

MAX_KEYS_PER_LOOKUP: Final = 1000

MAX_TRIES_WITH_RESULTS: Final = 6
"""Maximum number of attempts while some groups have a result and others fail with a transient error.

The attempts take about 3 s.
"""

WRONG_TYPE: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
"""Error codes of a describe request for the wrong type of group, such as ConsumerGroupDescribe for a classic group.

A broker that disables a group type returns UNSUPPORTED_VERSION.
"""


@dataclass(slots=True, frozen=True)
class BatchedCall:
    """Request for up to ``max_groups`` groups at once. The response has one result for each group."""

    request: Callable[[Sequence[str]], Message]
    max_groups: int

    def one(self, group: str) -> Message:
        return self.request([group])


@dataclass(slots=True)
class CoordinatorCall:
    """API of a coordinator: ``request`` builds the request for one group, and ``read`` reads the response.

    ``read`` returns error code, message and value.
    """

    request: Callable[[str], Message]
    read: Callable[[Any, str, int], tuple[int, str | None, Any]]
    shape: Callable[[Message, int], Message] | None = None
    max_version: int | None = None
    key_type: int = GROUP_KEY
    batched: BatchedCall | None = None
    fallback: CoordinatorCall | None = None
    """API to call instead if this API does not find the group, or if the broker does not support this API."""


def ask_coordinators(metadata: Metadata, groups: Iterable[str], call: CoordinatorCall) -> Operation[Results[str, Any]]:
    """Send a request to the coordinator of each group, in parallel; retry transient errors.

    While no group has a result, retry until the deadline. As soon as a group has a result, make at most
    ``MAX_TRIES_WITH_RESULTS`` attempts, so that the caller soon gets the available results.
    """
    results: Results[str, Any] = Results()
    pending = list(dict.fromkeys(groups))
    attempt = 0
    tries_with_results = 0
    while pending:
        coordinators, retried = yield from _find_coordinators(metadata, pending, results, call.key_type)
        found = list(coordinators.items())
        answered = yield from _call_coordinators(found, call)
        failures: dict[str, KohortError] = {}
        for (group, _), (code, outcome) in zip(found, answered, strict=True):
            if not isinstance(outcome, KohortError):
                results.add(group, outcome)
            elif is_transient(code) or (not code and outcome.retriable and attempt == 0):
                retried.append(group)
                failures[group] = outcome
            else:
                results.refuse(group, outcome)
        pending = retried
        attempt += 1
        tries_with_results += len(results) > len(results.errors)
        if tries_with_results >= MAX_TRIES_WITH_RESULTS:
            for group in pending:
                results.refuse(group, failures.get(group) or unavailable(call.key_type, group))
            break
        if pending:
            yield Pause(attempt)
    return results


def ask_coordinator(metadata: Metadata, group: str, call: CoordinatorCall) -> Operation[Any]:
    """Send a request to the coordinator of one group. Return the value in the response, or raise its error."""
    return (yield from ask_coordinators(metadata, [group], call))[group]


def unavailable(key_type: int, group: str) -> ApiError:
    return ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the coordinator of {KEY_NAMES[key_type]} {group!r}")


def _call_coordinators(found: Sequence[tuple[str, int]], call: CoordinatorCall) -> Operation[list[tuple[int, Any]]]:
    answers = yield from _answers(found, call)
    outcomes: list[tuple[int, Any]] = []
    for (group, node_id), answer in zip(found, answers, strict=True):
        if isinstance(answer, KohortError):
            outcomes.append((0, answer))
            continue
        code, text, value = call.read(answer, group, node_id)
        named = f"{KEY_NAMES[call.key_type]} {group!r}"
        outcomes.append((code, ApiError(error_code(code), named + (f": {text}" if text else "")) if code else value))
    if call.fallback is not None:
        places = [
            i
            for i, (code, outcome) in enumerate(outcomes)
            if code in WRONG_TYPE or isinstance(outcome, UnsupportedVersion)
        ]
        others = yield from _call_coordinators([found[i] for i in places], call.fallback)
        for i, other in zip(places, others, strict=True):
            outcomes[i] = other
    return outcomes


def _answers(found: Sequence[tuple[str, int]], call: CoordinatorCall) -> Operation[list[Any]]:
    answers: list[Any] = [None] * len(found)
    alone = list(range(len(found)))
    if call.batched is not None and len(found) > 1:
        alone = []
        chunks = _chunks(found, call.batched.max_groups)
        asks = [
            Ask(call.batched.request([found[i][0] for i in chunk]), found[chunk[0]][1], call.max_version, call.shape)
            for chunk in chunks
        ]
        for chunk, answer in zip(chunks, (yield asks), strict=True):
            if isinstance(answer, UnsupportedVersion):
                alone += chunk
                continue
            each, otherwise = {}, answer
            if not isinstance(answer, KohortError):
                each = {group.group_id: type(answer)(groups=[group]) for group in answer.groups}
                otherwise = ProtocolError("the response lacks a requested group")
            for i in chunk:
                answers[i] = each.get(found[i][0], otherwise)
    singly = yield [Ask(call.request(found[i][0]), found[i][1], call.max_version, call.shape) for i in alone]
    for i, answer in zip(alone, singly, strict=True):
        answers[i] = answer
    return answers


def _chunks(found: Sequence[tuple[str, int]], max_groups: int) -> list[list[int]]:
    by_node: dict[int, list[int]] = {}
    for place, (_, node_id) in enumerate(found):
        by_node.setdefault(node_id, []).append(place)
    return [places[at : at + max_groups] for places in by_node.values() for at in range(0, len(places), max_groups)]


def _lookups(groups: Sequence[str], key_type: int) -> Operation[list[Any]]:
    if len(groups) > 1:
        chunks = [list(groups[at : at + MAX_KEYS_PER_LOOKUP]) for at in range(0, len(groups), MAX_KEYS_PER_LOOKUP)]
        asks = [Ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=c), shape=_many_keys) for c in chunks]
        answers = yield asks
        if not any(isinstance(answer, UnsupportedVersion) for answer in answers):
            left_out = ProtocolError("the response lacks a requested coordinator")
            found: list[Any] = []
            for chunk, answer in zip(chunks, answers, strict=True):
                if isinstance(answer, KohortError):
                    found += [answer] * len(chunk)
                    continue
                each = {c.key: c for c in answer.coordinators}
                found += [each.get(key, left_out) for key in chunk]
            return found
    answers = yield [Ask(FindCoordinatorRequest(key=g, key_type=key_type), shape=lookup_shape) for g in groups]
    return [
        answer.coordinators[0] if isinstance(answer, FindCoordinatorResponse) and answer.coordinators else answer
        for answer in answers
    ]


def _many_keys(request: Message, version: int) -> Message:
    if version < BATCHED_FROM:
        raise UnsupportedVersion(
            f"FindCoordinator version {version} looks up one key per request; several keys need version 4 (KIP-699)"
        )
    return request


def _find_coordinators(
    metadata: Metadata, groups: Sequence[str], results: Results[str, Any], key_type: int
) -> Operation[tuple[dict[str, int], list[str]]]:
    """Look up the coordinator of each group.

    Returns the node id of each group's coordinator, and the groups to retry. Adds permanent errors to ``results``.
    """
    answers = yield from _lookups(groups, key_type)
    coordinators: dict[str, int] = {}
    retried: list[str] = []
    for group, found in zip(groups, answers, strict=True):
        if isinstance(found, KohortError):
            results.refuse(group, found)
            continue
        code = error_code(found.error_code)
        if not found.error_code:
            metadata.learn_node(Node(found.node_id, found.host, found.port))
            coordinators[group] = found.node_id
        elif code.retriable:
            retried.append(group)
        else:
            text = f": {found.error_message}" if found.error_message else ""
            results.refuse(group, ApiError(code, f"the coordinator of {KEY_NAMES[key_type]} {group!r}{text}"))
    return coordinators, retried
