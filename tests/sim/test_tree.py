"""Tree server: sessions, ephemeral nodes, one-shot watches; and its client."""

from typing import Any

import pytest

from kohort_lab.sim.network import Network
from kohort_lab.sim.tree.host import TreeHost
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
    TreeAnswer,
    Write,
)
from kohort_lab.sim.tree.server import TreeServer
from kohort_lab.sim.tree.session import TreeSession
from kohort_lab.sim.world import World

SESSION_MS = 6_000
ADDRESS = ("10.2.0.1", 2181)


class Clients:
    """Clients of a server, each on the link of its number, with their received messages."""

    def __init__(self):
        self.server = TreeServer()
        self.now_ms = 0
        self.received = {}

    def says(self, link, message):
        self._hear(self.server.received(link, message, self.now_ms))
        return self.received.pop(link, [])

    def asks(self, link, request):
        *before, answer = self.says(link, Numbered(1, request))
        assert isinstance(answer, TreeAnswer)
        if before:
            self.received[link] = before
        return answer

    def opens(self, link, session_id=0):
        return self.says(link, OpenSession(session_id, SESSION_MS))

    def pass_time(self, by_ms):
        self.now_ms += by_ms
        self._hear(self.server.tick(self.now_ms))

    def _hear(self, messages):
        for link, message in messages:
            self.received.setdefault(link, []).append(message)


@pytest.fixture
def clients():
    made = Clients()
    made.opens(1)
    made.opens(2)
    return made


def test_node_is_created_once_and_keeps_its_data(clients):
    assert clients.asks(1, Create("/a/b", "x")) == TreeAnswer(1)

    assert clients.asks(2, Create("/a/b", "y")) == TreeAnswer(1, NODE_EXISTS, "x")
    assert clients.asks(2, Read("/a/b")) == TreeAnswer(1, "", "x")
    assert clients.asks(2, ReadEach("/a")) == TreeAnswer(1, "", "", {"b": "x"})
    assert clients.asks(2, Read("/a/c")) == TreeAnswer(1, NO_NODE)


def test_write_creates_or_updates_a_node_and_any_client_deletes_it(clients):
    clients.asks(1, Write("/o", "5"))
    clients.asks(2, Write("/o", "3"))

    assert clients.asks(1, Read("/o")).data == "3"
    assert clients.asks(2, Delete("/o")) == TreeAnswer(1)
    assert clients.asks(2, Delete("/o")) == TreeAnswer(1, NO_NODE)


def test_session_lives_while_messages_arrive_in_time(clients):
    clients.asks(1, Create("/ids/one", "", ephemeral=True))
    for _ in range(5):
        clients.pass_time(SESSION_MS - 1)
        assert clients.says(1, Ping()) == [Ping()]

    assert clients.server.holds("/ids/one") == ""
    assert clients.server.sessions == 1, "the second client said nothing"


def test_silent_session_expires_with_its_ephemeral_nodes(clients):
    clients.asks(1, Create("/ids/one", "", ephemeral=True))
    clients.asks(1, Create("/stays", "here"))
    clients.pass_time(SESSION_MS)

    assert clients.received[1] == [Expired()]
    assert clients.server.holds("/ids/one") is None
    assert clients.server.holds("/stays") == "here"
    assert clients.opens(3, session_id=1) == [Expired()]


def test_lost_connection_does_not_end_the_session(clients):
    clients.asks(1, Create("/ids/one", "", ephemeral=True))
    clients.server.link_closed(1)
    clients.pass_time(SESSION_MS - 1)

    assert clients.opens(3, session_id=1) == [SessionOpened(1)]
    clients.pass_time(SESSION_MS - 1)
    assert clients.server.holds("/ids/one") == ""


def test_ended_session_removes_its_nodes_at_once(clients):
    clients.asks(1, Create("/ids/one", "", ephemeral=True))
    clients.says(1, End())

    assert clients.server.holds("/ids/one") is None
    assert clients.server.sessions == 1


def test_recreated_node_survives_its_first_creators_session(clients):
    clients.asks(1, Create("/owner", "one", ephemeral=True))
    clients.asks(2, Delete("/owner"))
    clients.asks(2, Create("/owner", "two", ephemeral=True))
    clients.says(1, End())

    assert clients.server.holds("/owner") == "two"


def test_watch_fires_once_until_set_again(clients):
    clients.asks(2, ReadEach("/ids", watch=True))
    clients.asks(1, Create("/ids/one", ""))
    assert clients.received.pop(2) == [Changed("/ids")]

    clients.asks(1, Create("/ids/two", ""))
    assert 2 not in clients.received, "nobody asked again"

    clients.asks(2, ReadEach("/ids", watch=True))
    clients.asks(1, Delete("/ids/one"))
    assert clients.received.pop(2) == [Changed("/ids")]


def test_read_without_watch_sets_none_and_repeated_watches_are_one(clients):
    clients.asks(2, Read("/topic"))
    clients.asks(1, Write("/topic", "6"))
    assert 2 not in clients.received

    clients.asks(2, Read("/topic", watch=True))
    clients.asks(2, Read("/topic", watch=True))
    clients.asks(1, Write("/topic", "8"))
    assert clients.received.pop(2) == [Changed("/topic")]


def test_all_watchers_are_notified_of_an_expired_session(clients):
    clients.opens(3)
    clients.asks(1, Create("/ids/one", "", ephemeral=True))
    for link in (2, 3):
        clients.asks(link, ReadEach("/ids", watch=True))
    clients.pass_time(SESSION_MS - 1)
    for link in (2, 3):
        clients.says(link, Ping())
    clients.pass_time(1)

    assert clients.received[2] == clients.received[3] == [Changed("/ids")]


def test_watch_that_fires_without_connection_is_delivered_after_reconnect(clients):
    clients.asks(2, ReadEach("/ids", watch=True))
    clients.server.link_closed(2)
    clients.asks(1, Create("/ids/one", ""))

    assert clients.opens(3, session_id=2) == [SessionOpened(2), Changed("/ids")]


class RecordingUser:
    def __init__(self, world):
        self._began_ms, self._world, self.received = world.now_ms, world, []

    def watch_fired(self, path):
        self.received.append(("changed", path))

    def session_renewed(self):
        self.received.append(("renewed", self._world.now_ms - self._began_ms))


class IgnoringTap:
    def client_sent(self, link_id, client, data):
        pass

    def server_sent(self, link_id, data):
        pass

    def link_closed(self, link_id):
        pass


@pytest.fixture
def tree():
    world = World(7)
    network = Network(world, IgnoringTap(), (1, 5))
    host = TreeHost(world, network, ADDRESS)

    def session(name):
        made = TreeSession(name, world, network, ADDRESS, SESSION_MS)
        made.user = RecordingUser(world)
        made.start()
        return made

    def run(for_ms):
        world.run(world.now_ms + for_ms, after_each=lambda: None)

    made: Any = IgnoringTap()
    made.network, made.server, made.session, made.run = network, host.server, session, run
    return made


def test_client_keeps_its_session_alive(tree):
    client, answers = tree.session("one"), []
    client.ask(Create("/ids/one", "", ephemeral=True), answers.append)
    tree.run(10 * SESSION_MS)

    assert [answer.error for answer in answers] == [""]
    assert tree.server.holds("/ids/one") == ""
    assert client.user.received == []


def test_process_frozen_beyond_its_session_learns_late_of_a_new_session(tree):
    client = tree.session("one")
    client.ask(Create("/ids/one", "", ephemeral=True), lambda _: None)
    tree.run(1_000)
    client.freeze(SESSION_MS + 1_000)
    tree.run(SESSION_MS + 500)
    assert tree.server.holds("/ids/one") is None
    assert client.user.received == []

    tree.run(3_000)
    [(what, at_ms)] = client.user.received
    assert what == "renewed"
    assert at_ms >= 1_000 + SESSION_MS + 1_000


def test_request_without_connection_takes_effect_in_the_next_session(tree):
    client = tree.session("one")
    tree.run(1_000)
    tree.network.part(client, ADDRESS)
    client.ask(Write("/offsets/0", "3"), lambda _: None)
    tree.run(2 * SESSION_MS)
    assert tree.server.holds("/offsets/0") is None

    tree.network.join_again(client, ADDRESS)
    tree.run(5_000)
    assert tree.server.holds("/offsets/0") == "3"
    assert [what for what, _ in client.user.received] == ["renewed"]


def test_killed_process_expires_later_and_ended_process_at_once(tree):
    killed, ended = tree.session("killed"), tree.session("ended")
    for client in (killed, ended):
        client.ask(Create(f"/ids/{client.name}", "", ephemeral=True), lambda _: None)
    tree.run(1_000)
    killed.kill()
    ended.end()
    tree.run(100)
    assert (tree.server.holds("/ids/killed"), tree.server.holds("/ids/ended")) == ("", None)

    tree.run(SESSION_MS)
    assert tree.server.holds("/ids/killed") is None
