"""What an API of offsets says of whoever asks, in the words of neither protocol of groups.

A generation of a classic group and an epoch of a member are one field on the wire: ``epoch`` here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

NO_EPOCH: Final = -1
"""Of who is no member, or does not say."""


class Committing(NamedTuple):
    """A commit, as far as it matters to who may do it."""

    member_id: str
    instance_id: str | None
    epoch: int
    api_version: int
    places: Iterable[tuple[bytes, int]] = ()
    """Topic id and partition of all that is committed and exists."""
    in_transaction: bool = False

    @property
    def names_nobody(self) -> bool:
        return self.epoch < 0 and not self.member_id and self.instance_id is None


class Committer(Protocol):
    """A member that commits, of either protocol."""

    commits: int
    last_commit_ms: int | None
    last_progress_ms: int | None

    def note_commit(self, connection: int, now_ms: int) -> None:
        """Take a commit for what it is in this protocol: a sign of life, or evidence for the journal alone."""
