"""Tree server as an I/O-free machine.

Nodes have paths and text data. A session lives while messages arrive within its timeout, on any connection; its
ephemeral nodes end with it. A read sets a watch, which fires once: changes before the next read are not reported. A
session without connection gets its fired watches after it reconnects.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from kohort_lab.sim.tree.messages import (
    NO_NODE,
    NODE_EXISTS,
    Changed,
    Create,
    Delete,
    End,
    Expired,
    Numbered,
    OpenSession,
    Ping,
    Read,
    ReadEach,
    SessionOpened,
    ToClient,
    ToServer,
    TreeAnswer,
    TreeRequest,
    Write,
)

Outgoing = list[tuple[int, ToClient]]
"""Messages with the link of their receiver."""


@dataclass(slots=True)
class TreeNode:
    """Node: data, children in creation order, and session of an ephemeral node."""

    data: str = ""
    session_id: int = 0
    children: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class TreeLife:
    """Session from its first connection to its end."""

    session_id: int
    timeout_ms: int
    contact_ms: int
    link: int | None
    ephemeral: dict[str, None] = field(default_factory=dict)
    missed: list[Changed] = field(default_factory=list)
    """Watches that fired without a connection."""


class TreeServer:
    """Nodes, sessions and watches."""

    def __init__(self) -> None:
        self._nodes: dict[str, TreeNode] = {"/": TreeNode()}
        self._sessions: dict[int, TreeLife] = {}
        self._by_link: dict[int, TreeLife] = {}
        self._watches_of_data: dict[str, dict[int, None]] = {}
        self._watches_of_children: dict[str, dict[int, None]] = {}
        self._ends: list[tuple[int, int]] = []
        self._last_session = 0
        self._outgoing: Outgoing = []

    def received(self, link: int, message: ToServer, now_ms: int) -> Outgoing:
        """Handle a message; return the messages to send."""
        if isinstance(message, OpenSession):
            self._open(link, message, now_ms)
        elif (life := self._by_link.get(link)) is not None:
            life.contact_ms = now_ms
            if isinstance(message, Numbered):
                self._outgoing.append((link, self._answer(life, message)))
            elif isinstance(message, Ping):
                self._outgoing.append((link, message))
            elif isinstance(message, End):
                self._end(life)
        return self._take_outgoing()

    def link_closed(self, link: int) -> None:
        """Handle a closed connection; its session continues."""
        life = self._by_link.pop(link, None)
        if life is not None:
            life.link = None

    def tick(self, now_ms: int) -> Outgoing:
        """End the expired sessions."""
        while self._ends and self._ends[0][0] <= now_ms:
            _, session_id = heapq.heappop(self._ends)
            life = self._sessions.get(session_id)
            if life is None:
                continue
            if life.contact_ms + life.timeout_ms > now_ms:
                heapq.heappush(self._ends, (life.contact_ms + life.timeout_ms, session_id))
                continue
            if life.link is not None:
                self._outgoing.append((life.link, Expired()))
            self._end(life)
        return self._take_outgoing()

    @property
    def wake_at_ms(self) -> int | None:
        """Next session expiry; None without sessions."""
        return self._ends[0][0] if self._ends else None

    @property
    def sessions(self) -> int:
        """Number of sessions."""
        return len(self._sessions)

    def holds(self, path: str) -> str | None:
        """Return a node's data; None without the node."""
        node = self._nodes.get(path)
        return None if node is None else node.data

    def _take_outgoing(self) -> Outgoing:
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    def _open(self, link: int, request: OpenSession, now_ms: int) -> None:
        life = self._sessions.get(request.session_id)
        if life is None and request.session_id:
            self._outgoing.append((link, Expired()))
            return
        if life is None:
            self._last_session += 1
            life = TreeLife(self._last_session, request.timeout_ms, now_ms, link)
            self._sessions[life.session_id] = life
            heapq.heappush(self._ends, (now_ms + life.timeout_ms, life.session_id))
        if life.link is not None:
            self._by_link.pop(life.link, None)
        life.link, life.contact_ms = link, now_ms
        self._by_link[link] = life
        missed, life.missed = life.missed, []
        self._outgoing += [(link, SessionOpened(life.session_id)), *((link, event) for event in missed)]

    def _end(self, life: TreeLife) -> None:
        del self._sessions[life.session_id]
        if life.link is not None:
            self._by_link.pop(life.link, None)
        for path in list(life.ephemeral):
            self._remove(path)

    def _answer(self, life: TreeLife, numbered: Numbered) -> TreeAnswer:
        request = numbered.request
        node = self._nodes.get(request.path)
        error, data, children = "", "", {}
        match request:
            case Create(path=path, data=content, ephemeral=ephemeral):
                if node is None:
                    self._make(path, content, life if ephemeral else None)
                else:
                    error, data = NODE_EXISTS, node.data
            case Write(path=path, data=content):
                self._write(path, content)
            case Delete(path=path):
                error = NO_NODE if node is None else ""
                self._remove(path)
            case Read():
                error, data = (NO_NODE, "") if node is None else ("", node.data)
            case ReadEach(path=path):
                names = node.children if node is not None else ()
                children = {name: self._nodes[_below(path, name)].data for name in names}
        self._maybe_watch(life, request)
        return TreeAnswer(numbered.number, error, data, children)

    def _maybe_watch(self, life: TreeLife, request: TreeRequest) -> None:
        if isinstance(request, Read | ReadEach) and request.watch:
            watches = self._watches_of_data if isinstance(request, Read) else self._watches_of_children
            watches.setdefault(request.path, {})[life.session_id] = None

    def _make(self, path: str, data: str, life: TreeLife | None) -> None:
        parent, name = _parent(path)
        if parent not in self._nodes:
            self._make(parent, "", None)
        self._nodes[path] = TreeNode(data, life.session_id if life is not None else 0)
        self._nodes[parent].children[name] = None
        if life is not None:
            life.ephemeral[path] = None
        self._fire(self._watches_of_data, path)
        self._fire(self._watches_of_children, parent)

    def _write(self, path: str, data: str) -> None:
        if path not in self._nodes:
            self._make(path, data, None)
            return
        self._nodes[path].data = data
        self._fire(self._watches_of_data, path)

    def _remove(self, path: str) -> None:
        node = self._nodes.pop(path, None)
        if node is None:
            return
        parent, name = _parent(path)
        self._nodes[parent].children.pop(name, None)
        owner = self._sessions.get(node.session_id)
        if owner is not None:
            owner.ephemeral.pop(path, None)
        self._fire(self._watches_of_data, path)
        self._fire(self._watches_of_children, parent)

    def _fire(self, watches: dict[str, dict[int, None]], path: str) -> None:
        """Notify the sessions that watch ``path``, once."""
        for session_id in watches.pop(path, ()):
            life = self._sessions.get(session_id)
            if life is not None and life.link is not None:
                self._outgoing.append((life.link, Changed(path)))
            elif life is not None:
                life.missed.append(Changed(path))


def _parent(path: str) -> tuple[str, str]:
    parent, _, name = path.rpartition("/")
    return parent or "/", name


def _below(path: str, name: str) -> str:
    return f"{path.rstrip('/')}/{name}"
