"""DescribeClientQuotas (48), AlterClientQuotas (49), versions 0-1. KIP-546, KIP-599, KIP-612.

Each entry of AlterClientQuotas succeeds or fails as a whole. Changes are durable before the response
(protocol/security.md#altering-quotas).
"""

from __future__ import annotations

from typing import Final

from kohort.broker.api import AnswerBound, BrokerApi, Cost
from kohort.broker.authorization import REFUSE_US, guard_cluster
from kohort.broker.request import NO_ERROR, AnswerInSteps, Refusal, Request, refusal_of
from kohort.broker.state import BrokerState
from kohort.errors import ApiError, ErrorCode
from kohort.security.acls import Operation
from kohort.security.quotas.entities import ENTITY_TYPES, Entity, entity_of, filter_of
from kohort.security.quotas.table import checked_change
from kohort.steps import Pace, Steps, each
from kohort.wire.messages import quotas as wire
from kohort.wire.schema import Message

ITEM_US: Final = 3
CHECK_US: Final = 8


def describe_client_quotas(state: BrokerState, request: Request) -> AnswerInSteps:
    message: wire.DescribeClientQuotasRequest = request.message
    try:
        entity_filter = filter_of(
            ((c.entity_type, c.match_type, c.match) for c in message.components), strict=message.strict
        )
    except ApiError as error:
        return wire.DescribeClientQuotasResponse(entries=None, **refusal_of(error).fields)
    pace = Pace()
    found = []
    for entity, values in list(state.cluster.quotas.table):
        if entity_filter.takes(entity):
            told = [wire.QuotaValue(key=str(quota), value=value) for quota, value in sorted(values.items())]
            found.append(wire.DescribedQuotas(entity=_parts(entity), values=told))
        if pace.is_due(ITEM_US):
            yield
    return wire.DescribeClientQuotasResponse(error_message="", entries=found)


def alter_client_quotas(state: BrokerState, request: Request) -> AnswerInSteps:
    message: wire.AlterClientQuotasRequest = request.message
    pace = Pace()
    changes: dict[Entity, dict[str, float | None]] = {}
    results: dict[Entity, wire.AlteredQuotas] = {}
    for alteration in message.entries:
        refusal = NO_ERROR
        entity = _named(alteration)
        try:
            change = _change(alteration)
            if entity in results:
                raise _named_twice(entity)
            changes[entity] = change
        except ApiError as error:
            refusal = refusal_of(error)
            changes.pop(entity, None)
        results[entity] = _altered(entity, refusal)
        if pace.is_due(CHECK_US * (1 + len(alteration.ops))):
            yield
    if changes and not message.validate_only:
        try:
            state.cluster.quotas.alter(changes)
        except ApiError as error:
            refusal = refusal_of(error)
            results.update({entity: _altered(entity, refusal) for entity in changes})
    return wire.AlterClientQuotasResponse(entries=list(results.values()))


def _change(alteration: wire.QuotaAlteration) -> dict[str, float | None]:
    entity = entity_of((part.entity_type, part.entity_name) for part in alteration.entity)
    if len({op.key for op in alteration.ops}) < len(alteration.ops):
        raise _named_twice(entity)
    return checked_change(entity, ((op.key, None if op.remove else op.value) for op in alteration.ops))


def _named_twice(entity: Entity) -> ApiError:
    words = ", ".join(f"{kind}={'<default>' if name is None else name}" for kind, name in entity)
    return ApiError(ErrorCode.INVALID_REQUEST, f"Ignoring duplicate entity ClientQuotaEntity(entries={{{words}}})")


def _named(alteration: wire.QuotaAlteration) -> Entity:
    named = {part.entity_type: part.entity_name for part in alteration.entity}
    known = [(kind, named[kind]) for kind in ENTITY_TYPES if kind in named]
    return (*known, *((kind, name) for kind, name in named.items() if kind not in ENTITY_TYPES))


def _altered(entity: Entity, refusal: Refusal) -> wire.AlteredQuotas:
    return wire.AlteredQuotas(entity=_parts(entity), **refusal.fields)


def _parts(entity: Entity) -> list[wire.QuotaEntityPart]:
    return [wire.QuotaEntityPart(entity_type=kind, entity_name=name) for kind, name in entity]


def _no_quotas_altered(message: wire.AlterClientQuotasRequest, code: int, words: str) -> Steps[Message]:
    refused = yield from each(
        message.entries,
        lambda one: wire.AlteredQuotas(error_code=code, error_message=words, entity=one.entity),
        REFUSE_US,
    )
    return wire.AlterClientQuotasResponse(entries=refused)


DESCRIBE_CLIENT_QUOTAS = BrokerApi(
    wire.DescribeClientQuotasRequest,
    describe_client_quotas,
    guard_cluster(
        Operation.DESCRIBE_CONFIGS,
        lambda _message, code, text: wire.DescribeClientQuotasResponse(
            error_code=code, error_message=text, entries=None
        ),
    ),
    Cost(AnswerBound.STATE),
)
ALTER_CLIENT_QUOTAS = BrokerApi(
    wire.AlterClientQuotasRequest,
    alter_client_quotas,
    guard_cluster(Operation.ALTER_CONFIGS, _no_quotas_altered),
    Cost(AnswerBound.REQUEST),
)
