"""The audit: a line for every denial, in the words of Kafka's ``kafka.authorizer.logger``.

There is one line for each resource and request, and the log writes the first of a kind within a minute and counts the
others. A request that names very many resources has a few lines, and one about the rest.
"""

from __future__ import annotations

from typing import Final

from kohort.broker.request import Request
from kohort.notes import Note, info
from kohort.security.acls import Operation, ResourceType
from kohort.security.authorizer import Decision
from kohort.wire.apis import APIS

HELD_MOST: Final = 50
"""Lines that wait to be written."""
NAMES: Final = {
    ResourceType.TOPIC: "Topic",
    ResourceType.GROUP: "Group",
    ResourceType.CLUSTER: "Cluster",
    ResourceType.TRANSACTIONAL_ID: "TransactionalId",
    ResourceType.DELEGATION_TOKEN: "DelegationToken",
    ResourceType.USER: "User",
}


class Audit:
    """The lines that are not written yet."""

    def __init__(self) -> None:
        self._notes: list[Note] = []
        self._more = 0

    def denied(
        self, request: Request, operation: Operation, resource_type: ResourceType, name: str | None, decision: Decision
    ) -> None:
        """Note that ``request`` is refused something; ``name`` of None: on all resources of the type."""
        if len(self._notes) >= HELD_MOST:
            self._more += 1
            return
        caller = request.caller
        resource = f"{NAMES[resource_type]}:LITERAL:{'*' if name is None else name}"
        text = (
            f"Principal = {caller.principal} is Denied operation = {operation.name} from host = {caller.host} "
            f"on resource = {resource} for request = {APIS[request.reply_to.api_key].name} "
            f"based on rule {decision.because}"
        )
        self._notes.append(info(text, ("denied", caller.principal, operation, resource)))

    def take_notes(self) -> list[Note]:
        """Return what is to be told, each given once."""
        notes, self._notes = self._notes, []
        if self._more:
            notes.append(info(f"{self._more} more denials are not told one by one", "denials"))
            self._more = 0
        return notes
