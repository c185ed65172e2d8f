"""How operations ask the coordinators of groups and of transactional ids: found for many names at once (KIP-699), and
asked about many at once where the API can be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kohort.client.admin.operations import Ask, Operation, Pause, Results, passes
from kohort.client.requests.find_coordinator import BATCHED_FROM, GROUP_KEY, WHAT, lookup_shape
from kohort.client.requests.metadata import Metadata
from kohort.errors import ApiError, ErrorCode, KohortError, ProtocolError, UnsupportedVersion, error_code
from kohort.model import Node
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.schema import Message

LOOKED_UP_AT_ONCE: Final = 1000
"""How many coordinators one FindCoordinator asks for."""

TRIES_BESIDE_OTHERS: Final = 6
"""How often a coordinator that loads is asked while other groups are known: some three seconds long."""

NOT_OF_THIS_API: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
"""What an API answers about a group of the other kind; the latter where the broker has that kind switched off."""


@dataclass(slots=True, frozen=True)
class Several:
    """How an API asks for many groups in one request."""

    request: Callable[[Sequence[str]], Message]
    split: Callable[[Any], Mapping[str, Any]]
    """From an answer to that of each group, as if it had been asked for alone."""
    at_once: int
    """More are asked for in further requests: how large an answer may grow is for the asker to say."""


@dataclass(slots=True)
class GroupCall:
    """How one API asks for one group, and what its answer says: an error code with its text, and the value."""

    request: Callable[[str], Message]
    read: Callable[[Any, str, int], tuple[int, str | None, Any]]
    shape: Callable[[Message, int], Message] | None = None
    max_version: int | None = None
    key_type: int = GROUP_KEY
    """What the names are to FindCoordinator: groups, or transactional ids."""
    several: Several | None = None
    otherwise: GroupCall | None = None
    """What is asked instead about groups that this API does not find, and where the broker does not serve it."""


def for_each_group(metadata: Metadata, groups: Iterable[str], call: GroupCall) -> Operation[Results[str, Any]]:
    """Ask each group's coordinator, all of them at once, and again those whose failure may pass: to the end of the time
    where nothing else was told, and a few times where other groups are known, which are not to wait for these."""
    results: Results[str, Any] = Results()
    pending = list(dict.fromkeys(groups))
    attempt = 0
    beside_others = 0
    while pending:
        coordinators, again = yield from _find_coordinators(metadata, pending, results, call.key_type)
        found = list(coordinators.items())
        answered = yield from _ask_coordinators(found, call)
        failures: dict[str, KohortError] = {}
        for (group, _), (code, outcome) in zip(found, answered, strict=True):
            if not isinstance(outcome, KohortError):
                results.add(group, outcome)
            elif passes(code) or (not code and outcome.retriable and attempt == 0):
                again.append(group)
                failures[group] = outcome
            else:
                results.refuse(group, outcome)
        pending = again
        attempt += 1
        beside_others += len(results) > len(results.errors)
        if beside_others >= TRIES_BESIDE_OTHERS:
            for group in pending:
                results.refuse(group, failures.get(group) or unavailable(call.key_type, group))
            break
        if pending:
            yield Pause(attempt)
    return results


def unavailable(key_type: int, group: str) -> ApiError:
    return ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the coordinator of {WHAT[key_type]} {group!r}")


def _ask_coordinators(found: Sequence[tuple[str, int]], call: GroupCall) -> Operation[list[tuple[int, Any]]]:
    """Ask about each group the node beside it; return the error code of its answer, 0 if it has none, and the value or
    the error."""
    answers = yield from _answers(found, call)
    outcomes: list[tuple[int, Any]] = []
    for (group, node_id), answer in zip(found, answers, strict=True):
        if isinstance(answer, KohortError):
            outcomes.append((0, answer))
            continue
        code, text, value = call.read(answer, group, node_id)
        named = f"{WHAT[call.key_type]} {group!r}"
        outcomes.append((code, ApiError(error_code(code), named + (f": {text}" if text else "")) if code else value))
    if call.otherwise is not None:
        places = [
            i
            for i, (code, outcome) in enumerate(outcomes)
            if code in NOT_OF_THIS_API or isinstance(outcome, UnsupportedVersion)
        ]
        others = yield from _ask_coordinators([found[i] for i in places], call.otherwise)
        for i, other in zip(places, others, strict=True):
            outcomes[i] = other
    return outcomes


def _answers(found: Sequence[tuple[str, int]], call: GroupCall) -> Operation[list[Any]]:
    answers: list[Any] = [None] * len(found)
    alone = list(range(len(found)))
    if call.several is not None and len(found) > 1:
        alone = []
        chunks = _chunks(found, call.several.at_once)
        asks = [
            Ask(call.several.request([found[i][0] for i in chunk]), found[chunk[0]][1], call.max_version, call.shape)
            for chunk in chunks
        ]
        for chunk, answer in zip(chunks, (yield asks), strict=True):
            if isinstance(answer, UnsupportedVersion):
                alone += chunk
                continue
            each = {} if isinstance(answer, KohortError) else call.several.split(answer)
            left_out = ProtocolError("the answer leaves out a group that was asked for")
            for i in chunk:
                answers[i] = answer if isinstance(answer, KohortError) else each.get(found[i][0], left_out)
    singly = yield [Ask(call.request(found[i][0]), found[i][1], call.max_version, call.shape) for i in alone]
    for i, answer in zip(alone, singly, strict=True):
        answers[i] = answer
    return answers


def _chunks(found: Sequence[tuple[str, int]], at_once: int) -> list[list[int]]:
    by_node: dict[int, list[int]] = {}
    for place, (_, node_id) in enumerate(found):
        by_node.setdefault(node_id, []).append(place)
    return [places[at : at + at_once] for places in by_node.values() for at in range(0, len(places), at_once)]


def _lookups(groups: Sequence[str], key_type: int) -> Operation[list[Any]]:
    if len(groups) > 1:
        chunks = [list(groups[at : at + LOOKED_UP_AT_ONCE]) for at in range(0, len(groups), LOOKED_UP_AT_ONCE)]
        asks = [Ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=c), shape=_many_keys) for c in chunks]
        answers = yield asks
        if not any(isinstance(answer, UnsupportedVersion) for answer in answers):
            left_out = ProtocolError("the answer leaves out a coordinator that was asked for")
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
    """Let a request for many keys pass. Raises UnsupportedVersion where the version takes one (KIP-699)."""
    if version < BATCHED_FROM:
        raise UnsupportedVersion(f"FindCoordinator {version} takes one key")
    return request


def _find_coordinators(
    metadata: Metadata, groups: Sequence[str], results: Results[str, Any], key_type: int
) -> Operation[tuple[dict[str, int], list[str]]]:
    """Return the coordinator of each group, and the groups to try again; the hopeless go to ``results``."""
    answers = yield from _lookups(groups, key_type)
    coordinators: dict[str, int] = {}
    again: list[str] = []
    for group, found in zip(groups, answers, strict=True):
        if isinstance(found, KohortError):
            results.refuse(group, found)
            continue
        code = error_code(found.error_code)
        if not found.error_code:
            metadata.learn_node(Node(found.node_id, found.host, found.port))
            coordinators[group] = found.node_id
        elif code.retriable:
            again.append(group)
        else:
            what = f"the coordinator of {WHAT[key_type]} {group!r}"
            text = f": {found.error_message}" if found.error_message else ""
            results.refuse(group, ApiError(code, f"{what}{text}"))
    return coordinators, again
