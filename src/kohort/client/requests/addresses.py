"""Where nodes are: by the addresses that metadata gives, and before that by those that the user gave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kohort.client.requests.metadata import Metadata
from kohort.model import Node

FIRST_STAND_IN: Final = -2


class Addresses:
    """Bootstrap addresses stand for nodes -2, -3, ... until metadata names the real ones."""

    def __init__(self, bootstrap: Sequence[tuple[str, int]], metadata: Metadata) -> None:
        self.bootstrap = bootstrap
        self._metadata = metadata

    def of(self, node_id: int) -> tuple[str, int] | None:
        """Return the address of a node or of a stand-in; None for a node that has left."""
        if node_id <= FIRST_STAND_IN:
            at = FIRST_STAND_IN - node_id
            return self.bootstrap[at] if at < len(self.bootstrap) else None
        node = self._metadata.node(node_id)
        return None if node is None else (node.host, node.port)

    def candidates(self) -> list[int]:
        """Return known nodes, then the stand-ins at addresses that are none of theirs."""
        known = {(node.host, node.port) for node in self._metadata.nodes}
        unknown = [FIRST_STAND_IN - i for i, address in enumerate(self.bootstrap) if address not in known]
        return [node.node_id for node in self._metadata.nodes] + unknown

    def stand_in(self, node: Node) -> int | None:
        """Return which stand-in has the address of ``node``; None where none has."""
        address = (node.host, node.port)
        return FIRST_STAND_IN - self.bootstrap.index(address) if address in self.bootstrap else None
