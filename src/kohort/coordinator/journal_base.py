"""What all entries of the journal have, and members as people know them."""

from __future__ import annotations

from typing import ClassVar

import msgspec


class Who(msgspec.Struct, frozen=True, omit_defaults=True):
    """A member as people know it."""

    member_id: str
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    classic: bool = False
    """It speaks the classic protocol, in a modern group, which may have members of both."""
    principal: str = ""
    """As whom it is logged in (``User:alice``); told of those who act on others."""


class JournalEntry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="kind"):
    """Something that happened to a group."""

    CLAIMS_WRITTEN: ClassVar[bool] = False
    """The entry says that records are on the log, so it goes when their append fails."""

    QUIET: ClassVar[bool] = False
    """It may wait to be written, with an entry that may not, or for somebody who asks for the journal."""

    at_ms: int
    group: str
    observed: bool = False
    """Whoever wrote it is not the coordinator: it has looked at the cluster from the outside (``kohort.watch``)."""
