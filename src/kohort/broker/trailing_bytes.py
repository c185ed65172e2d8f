"""Which clients send bytes behind the end of their requests.

Kafka reads a request to its last field and looks no further, so mistakes of clients there have gone unnoticed for
years: librdkafka from 2.1 on writes the null array of Metadata's topics with four bytes where one belongs. Such bytes
are ignored here, too, and logged, so that the reason of an odd request can be found.
"""

from __future__ import annotations

from typing import Final

from kohort.notes import Note, debug

REMEMBERED: Final = 100
"""Clients that are told of: after so many nothing more is told, whatever names a stranger makes up."""
NAME_LENGTH: Final = 100
"""Letters of a client id that are kept and shown."""


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
        """Return what is to be told, each given once."""
        notes, self._notes = self._notes, []
        return notes
