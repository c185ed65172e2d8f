"""Members, times and numbers formatted as text. Text from clients is untrusted: control characters are removed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from kohort import notes
from kohort.coordinator.journal import ClientIdentity

_UUID_TAIL = re.compile(r"(^|-)([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
LONGEST_ID = 60
UNKNOWN = "an unknown client"
LONGEST_REASON = 255


def printable(text: str, limit: int = LONGEST_REASON) -> str:
    """Remove control characters from ``text``, and cut it at ``limit`` characters."""
    shown = notes.printable(text[:limit])
    return shown + "…" if len(text) > limit else shown


def short_id(member_id: str) -> str:
    return printable(_UUID_TAIL.sub(r"\1\2", member_id), LONGEST_ID)


def name_of(member: ClientIdentity) -> str:
    """Return the display name of a member: instance id if static, else client id and start of the member id."""
    if not member.member_id:
        return printable(member.client_id, LONGEST_ID) or UNKNOWN
    short = short_id(member.member_id)
    if (
        member.instance_id is not None
        or not member.client_id
        or short.startswith(printable(member.client_id, LONGEST_ID))
    ):
        return short
    return f"{printable(member.client_id, LONGEST_ID)}/{short}"


def name_and_place(member: ClientIdentity) -> str:
    place = printable(member.client_host, LONGEST_ID)
    details = [f"client {printable(member.client_id, LONGEST_ID)}"] if member.client_id else []
    if member.instance_id is not None:
        details.insert(0, f"static {printable(member.instance_id, LONGEST_ID)}")
    if member.classic:
        details.append("of the classic protocol")
    if not details and not place:
        return name_of(member)
    return f"{name_of(member)} ({', '.join(details)}{' at ' if details and place else ''}{place})"


def actor(member: ClientIdentity) -> str:
    """Describe the client that changed a group, with its host and principal."""
    principal = f" as {printable(member.principal, LONGEST_ID)}" if member.principal else ""
    if member.member_id:
        return f"{name_and_place(member)}{principal}"
    place = f" at {printable(member.client_host, LONGEST_ID)}" if member.client_host else ""
    return f"{name_of(member)}{place}{principal}"


def seconds(ms: int) -> str:
    """Format a duration: in ms below 0.1 s, then in seconds with one decimal, then in minutes."""
    if abs(ms) < 100:
        return f"{ms} ms"
    if abs(ms) < 120_000:
        return f"{ms / 1000:.1f} s"
    minutes, rest = divmod(round(ms / 1000), 60)
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def limit(ms: int) -> str:
    """Format a configured timeout: ``45 s`` instead of ``45.0 s``."""
    return f"{ms // 1000} s" if ms % 1000 == 0 and ms < 120_000 else seconds(ms)


def count(number: int, thing: str) -> str:
    return f"{number or 'no'} {thing}{'' if number == 1 else 's'}"


def names_of(members: Sequence[ClientIdentity]) -> str:
    """Format the names of the first three members, and the number of further members."""
    rest = len(members) - 3
    return ", ".join(name_of(member) for member in members[:3]) + (f" and {count(rest, 'other')}" if rest > 0 else "")


def partitions_text(places: Iterable[tuple[str, int]]) -> str:
    """Format the first five partitions as ``topic-3``, and the number of further partitions."""
    found = sorted(places)
    shown = [printable(f"{topic}-{partition}") for topic, partition in found[:5]]
    return ", ".join(shown) + (f" and {len(found) - 5} more" if len(found) > 5 else "")


def kind_text(name: str) -> str:
    return name.replace("_", " ")
