"""DescribeClientQuotas (48), AlterClientQuotas (49) (KIP-546). Both: 1 is flexible.

An entity has up to two parts, each with a type (user, client-id, ip) and a name; no name means the type's default.
"""

from __future__ import annotations

from kohort.wire.schema import Message, array, boolean, float64, int8, int16, int32, string


class QuotaFilterComponent(Message):
    entity_type: str = string()
    match_type: int = int8()
    """0: the name in ``match``, 1: the default, 2: any name."""
    match: str | None = string(nullable="0+")


class DescribeClientQuotasRequest(Message, api_key=48, versions="0-1", flexible="1+"):
    """An entity must match all components; no component matches every entity."""

    components: list[QuotaFilterComponent] = array(QuotaFilterComponent)
    strict: bool = boolean()


class QuotaEntityPart(Message):
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


class QuotaValue(Message):
    key: str = string()
    value: float = float64()


class DescribedQuotas(Message):
    entity: list[QuotaEntityPart] = array(QuotaEntityPart)
    values: list[QuotaValue] = array(QuotaValue)


class DescribeClientQuotasResponse(Message, api_key=48, versions="0-1", flexible="1+"):
    """``entries`` is null if there is an error."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entries: list[DescribedQuotas] | None = array(DescribedQuotas, nullable="0+")


class QuotaOperation(Message):
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class QuotaAlteration(Message):
    entity: list[QuotaEntityPart] = array(QuotaEntityPart)
    ops: list[QuotaOperation] = array(QuotaOperation)


class AlterClientQuotasRequest(Message, api_key=49, versions="0-1", flexible="1+"):
    entries: list[QuotaAlteration] = array(QuotaAlteration)
    validate_only: bool = boolean()


class AlteredQuotas(Message):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entity: list[QuotaEntityPart] = array(QuotaEntityPart)


class AlterClientQuotasResponse(Message, api_key=49, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32()
    entries: list[AlteredQuotas] = array(AlteredQuotas)
