"""Lines for the broker's log about clients: denials, and bytes behind the end of requests.

The audit has one line for each denied resource and request, in the words of Kafka's ``kafka.authorizer.logger``. The
log writes the first of a kind within a minute and counts the others. A request that names very many resources has a few
lines, and one about the rest.

Kafka reads a request to its last field, so mistakes of clients behind it went unnoticed for years: librdkafka from 2.1
on writes the null array of Metadata's topics with four bytes instead of one. Such bytes are ignored here, too, and
logged.
"""

from __future__ import annotations

from typing import Final

from kohort.broker.request import Request
from kohort.notes import Note, debug, info
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
REMEMBERED: Final = 100
"""Clients with a line in the log; later ones have none."""
NAME_LENGTH: Final = 100
"""Letters of a client id that are kept and shown."""


class Audit:
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
        notes, self._notes = self._notes, []
        if self._more:
            notes.append(info(f"{self._more} more denials are not told one by one", "denials"))
            self._more = 0
        return notes


class TrailingBytes:
    """Tells once per client id, API and version."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str, int]] = set()
        self._notes: list[Note] = []

    def seen(self, client_id: str, api: str, version: int, count: int) -> None:
        """Note ``count`` bytes behind the end of a request, unless it is known of this client."""
        client = (client_id[:NAME_LENGTH], api, version)
        if len(self._known) == REMEMBERED or client in self._known:
            return
        self._known.add(client)
        name = repr(client[0])
        self._notes.append(
            debug(f"the client {name} writes {count} bytes behind the end of {api} version {version}: passed over")
        )
        if len(self._known) == REMEMBERED:
            self._notes.append(debug("more clients that write bytes behind the end of their requests are not told of"))

    def take_notes(self) -> list[Note]:
        notes, self._notes = self._notes, []
        return notes
