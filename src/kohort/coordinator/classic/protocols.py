"""What a member says of itself in JoinGroup, and what a log says that it said: its protocols and timeouts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kohort.coordinator.classic.member import Member, Protocols
from kohort.coordinator.classic.round import Round
from kohort.coordinator.outcome import GroupRequest
from kohort.wire.messages.group_classic import JoinGroupRequest


class NamedMetadata(Protocol):
    """One protocol of a member, in a request or in a record."""

    @property
    def name(self) -> str: ...

    @property
    def metadata(self) -> bytes: ...


def protocols_of(said: Iterable[NamedMetadata]) -> Protocols:
    """Return the protocols in order of preference; of a name given twice the first stands.

    Without that, a member that names one twice would count as two who speak it, and the vote could fall on a protocol
    that others do not speak.
    """
    by_name: dict[str, bytes] = {}
    for protocol in said:
        by_name.setdefault(protocol.name, bytes(protocol.metadata))  # a large one is gathered in a bytearray
    return tuple(by_name.items())


def rebalance_timeout_of(request: GroupRequest, message: JoinGroupRequest) -> int:
    """Return the member's rebalance timeout in ms; v0 has none and uses the session timeout for both."""
    return message.rebalance_timeout_ms if request.api_version >= 1 else message.session_timeout_ms


def update_member(this: Round, member: Member, request: GroupRequest, protocols: Protocols) -> None:
    """Replace what a member said before by what it says when it joins again."""
    message = request.message
    assert isinstance(message, JoinGroupRequest)
    this.set_protocols(member, protocols)
    member.session_timeout_ms = message.session_timeout_ms
    member.rebalance_timeout_ms = rebalance_timeout_of(request, message)
