"""Who somebody is: a type and a name, as ACLs and quotas name them (``User:alice``)."""

from __future__ import annotations

from typing import Final, NamedTuple

USER: Final = "User"


class Principal(NamedTuple):
    """Who is behind a connection. Kafka's own listeners make ``User`` alone; ACLs may name other types."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""Whoever came without authentication."""


def user(name: str) -> Principal:
    """Return the principal of a user."""
    return Principal(USER, name)


def parse_principal(text: str) -> Principal:
    """Return the principal that ``Type:name`` names. Raises ValueError, with Kafka's words."""
    kind, colon, name = text.partition(":")
    if not colon:
        raise ValueError(
            f"Could not parse principal from `{text}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    return Principal(kind, name)
