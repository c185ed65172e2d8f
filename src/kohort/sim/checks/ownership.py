"""Never two owners of a partition in one generation; a member's generation never goes back while it lives."""

from __future__ import annotations

from kohort.model import TopicPartition
from kohort.sim.checks.broken import CheckFailed


class Ownership:
    """Who held what, by generation, as the consumers themselves saw it.

    An assignment reaches members only once it is written, so a generation that was given out twice, before and after
    a crash, cannot have been assigned twice.
    """

    def __init__(self) -> None:
        self._owners: dict[tuple[int, TopicPartition], str] = {}
        self._last: dict[str, int] = {}

    def owns(self, member_id: str, generation_id: int, owned: frozenset[TopicPartition]) -> None:
        """``member_id`` has taken its assignment of ``generation_id``."""
        last = self._last.get(member_id, -1)
        if generation_id < last:
            raise CheckFailed(f"{member_id}: generation {generation_id} after {last}")
        self._last[member_id] = generation_id
        for partition in owned:
            other = self._owners.setdefault((generation_id, partition), member_id)
            if other != member_id:
                raise CheckFailed(f"{partition} has two owners in generation {generation_id}: {other} and {member_id}")
