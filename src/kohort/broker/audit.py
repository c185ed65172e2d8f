"""Log lines about denied operations.

The broker logs a line for each denied resource of a request, in the format of Kafka's ``kafka.authorizer.logger``. If
equal denials repeat within a minute, the broker logs the first one and counts the repetitions.
"""

from __future__ import annotations

from typing import Final

from kohort.broker.request import Request
from kohort.notes import Note, info
from kohort.security.acls import Operation, ResourceType
from kohort.security.authorizer import Decision
from kohort.wire.apis import APIS

HELD_MOST: Final = 50
"""Maximum number of denials that are buffered for the server log; further denials are only counted."""


class Audit:
    def __init__(self) -> None:
        self._notes: list[Note] = []
        self._more = 0

    def denied(
        self, request: Request, operation: Operation, resource_type: ResourceType, name: str | None, decision: Decision
    ) -> None:
        """Log a denied operation; a ``name`` of None stands for all resources of the type."""
        if len(self._notes) >= HELD_MOST:
            self._more += 1
            return
        caller = request.caller
        kind = resource_type.name.title().replace("_", "")
        resource = f"{kind}:LITERAL:{'*' if name is None else name}"
        text = (
            f"Principal = {caller.principal} is Denied operation = {operation.name} from host = {caller.host} "
            f"on resource = {resource} for request = {APIS[request.reply_to.api_key].name} "
            f"based on rule {decision.reason}"
        )
        self._notes.append(info(text, ("denied", caller.principal, operation, resource)))

    def take_notes(self) -> list[Note]:
        notes, self._notes = self._notes, []
        if self._more:
            notes.append(info(f"{self._more} more denied operations are not logged one by one", "denials"))
            self._more = 0
        return notes
