"""Set quotas over the wire."""

from __future__ import annotations

from typing import Any

from kohort.wire.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    QuotaAlteration,
    QuotaEntityPart,
    QuotaOperation,
)
from support.machines.broker_stage import Peer

Names = dict[str, str | None]


def alteration(entity: Names, **values: float | None) -> QuotaAlteration:
    """Return the alteration of one entity's quotas; None removes a value."""
    return QuotaAlteration(
        entity=[QuotaEntityPart(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[QuotaOperation(key=k, value=v or 0.0, remove=v is None) for k, v in values.items()],
    )


def set_quotas(peer: Peer, entity: Names, **values: float | None) -> None:
    """Change the quotas of one entity; must succeed."""
    answer: Any = peer.ask(AlterClientQuotasRequest(entries=[alteration(entity, **values)]), 1, client_id="admin")
    assert isinstance(answer, AlterClientQuotasResponse)
    assert [(e.error_code, e.error_message) for e in answer.entries] == [(0, None)]
