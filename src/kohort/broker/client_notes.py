"""Log lines about clients: denied operations, and bytes after the end of requests.

The audit has a line for each denied resource and request, in the format of Kafka's ``kafka.authorizer.logger``. The log
writes the first line of a kind within a minute and counts the others.

Kafka ignores bytes after the last field of a request. So does this broker, but it logs them: librdkafka from 2.1 on
writes the null array of Metadata's topics with four bytes instead of one.
"""

from __future__ import annotations

from typing import Final

from kohort.broker.request import Request
from kohort.notes import Note, debug, info
from kohort.security.acls import Operation, ResourceType
from kohort.security.authorizer import Decision
from kohort.wire.apis import APIS

HELD_MOST: Final = 50
"""Lines kept until they are written; further denials are counted."""
NAMES: Final = {
    ResourceType.TOPIC: "Topic",
    ResourceType.GROUP: "Group",
    ResourceType.CLUSTER: "Cluster",
    ResourceType.TRANSACTIONAL_ID: "TransactionalId",
    ResourceType.DELEGATION_TOKEN: "DelegationToken",
    ResourceType.USER: "User",
}
REMEMBERED: Final = 100
"""Clients that are logged; later ones are not."""
NAME_LENGTH: Final = 100


class Audit:
    def __init__(self) -> None:
        self._notes: list[Note] = []
        self._more = 0

    def denied(
        self, request: Request, operation: Operation, resource_type: ResourceType, name: str | None, decision: Decision
    ) -> None:
        """Log a denied operation; ``name`` of None: on all resources of the type."""
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
        notes, self._notes = self._notes, []
        if self._more:
            notes.append(info(f"{self._more} more denials are not logged one by one", "denials"))
            self._more = 0
        return notes


class TrailingBytes:
    """Logs bytes after a request, once per client id, API and version."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str, int]] = set()
        self._notes: list[Note] = []

    def seen(self, client_id: str, api: str, version: int, count: int) -> None:
        client = (client_id[:NAME_LENGTH], api, version)
        if len(self._known) == REMEMBERED or client in self._known:
            return
        self._known.add(client)
        name = repr(client[0])
        self._notes.append(
            debug(f"client {name} sends {count} bytes after the end of {api} version {version}: ignored")
        )
        if len(self._known) == REMEMBERED:
            self._notes.append(debug("further clients that send bytes after the end of a request are not logged"))

    def take_notes(self) -> list[Note]:
        notes, self._notes = self._notes, []
        return notes
