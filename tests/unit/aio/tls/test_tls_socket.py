import asyncio
from functools import wraps

from kohort.aio.tls.server_side import TlsListener
from kohort.aio.tls.tls_socket import PIECE_BYTES, TlsFilter
from support.security.tls_pair import client_context, read_all, server_context

HOLDS = 1 << 16


class Socket:
    def __init__(self):
        self.buffered = bytearray()
        self.is_paused = self.has_ended = self.is_closed = self.was_aborted = False
        self.protocol = None

    def get_extra_info(self, name, default=None):
        return ("10.0.0.1", 5000) if name == "peername" else default

    def write(self, data):
        assert not self.has_ended
        assert not self.is_closed
        self.buffered += data
        if len(self.buffered) > HOLDS and not self.is_paused:
            self.is_paused = True
            self.protocol.pause_writing()

    def sent(self):
        data, self.buffered = bytes(self.buffered), bytearray()
        if self.is_paused:
            self.is_paused = False
            self.protocol.resume_writing()
        return data

    def write_eof(self):
        self.has_ended = True

    def close(self):
        self.is_closed = True

    def abort(self):
        self.is_closed = self.was_aborted = True

    def is_closing(self):
        return self.is_closed

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


class Served:
    def __init__(self):
        self.events = []
        self.data = b""

    def connection_made(self, transport):
        self.transport = transport
        self.events.append("connected")

    def secured(self, name):
        self.events.append(("secured", name))

    def data_received(self, data):
        self.data += data

    def pause_writing(self):
        self.events.append("full")

    def resume_writing(self):
        self.events.append("empty")

    def connection_lost(self, exc):
        self.events.append("lost")


class Stage:
    def __init__(self):
        self.notes = []
        context = server_context()
        self.listener = TlsListener("TLS", lambda: context, self.notes.append)
        self.served, self.socket = Served(), Socket()
        self.protocol = self.socket.protocol = self.listener.serve(self.served)
        self.protocol.connection_made(self.socket)
        self.client = TlsFilter(client_context(), server_side=False, server_hostname="localhost")

    def shake(self):
        while not self.client.shake() or self.socket.buffered:
            self.pass_on()
        self.pass_on()
        assert "connected" in self.served.events
        assert self.served.events[-1] == ("secured", None)
        self.served.events.clear()
        return self

    def pass_on(self):
        if data := self.client.take():
            self.protocol.data_received(data)
        self.client.feed(self.socket.sent())

    def words(self):
        return [str(note) for note in self.notes]


def on_loop(test):
    @wraps(test)
    def run():
        async def story():
            test()

        asyncio.run(story())

    return run


@on_loop
def test_tls_socket_encrypts_few_bytes_while_peer_does_not_read():
    at = Stage().shake()
    answer = [b"head", bytes(1 << 20), b"tail"]
    at.served.transport.writelines(answer)
    assert at.served.events == ["full"]
    assert len(at.socket.buffered) < HOLDS + 2 * PIECE_BYTES
    read = b""
    while at.socket.buffered:
        at.client.feed(at.socket.sent())
        read += read_all(at.client)
    assert read == b"".join(answer)
    assert at.served.events[0] == "full"
    assert at.served.events[-1] == "empty"


@on_loop
def test_closed_tls_socket_sends_waiting_bytes_first():
    at = Stage().shake()
    at.served.transport.writelines([bytes(1 << 19)])
    at.served.transport.close()
    assert at.served.transport.is_closing()
    assert not at.socket.is_closed
    at.served.transport.writelines([b"too late"])
    read = b""
    while at.socket.buffered:
        at.client.feed(at.socket.sent())
        read += read_all(at.client)
    assert read == bytes(1 << 19)
    assert at.socket.is_closed
    assert at.client.has_ended  # close_notify ended the connection


@on_loop
def test_closing_tls_connection_passes_no_events_to_its_protocol():
    at = Stage().shake()
    at.served.transport.writelines([bytes(1 << 19)])
    at.served.transport.close()
    at.client.write(b"question")
    at.protocol.data_received(at.client.take())
    assert at.served.data == b""
    at.served.transport.abort()
    assert at.socket.was_aborted


@on_loop
def test_close_notify_closes_the_socket():
    at = Stage().shake()
    at.client.write(b"last words")
    at.client.close_notify()
    at.protocol.data_received(at.client.take())
    assert at.served.data == b"last words"
    assert at.socket.is_closed
    at.protocol.connection_lost(None)
    assert at.served.events == ["lost"]
    assert at.notes == []


@on_loop
def test_plaintext_client_gets_a_tls_alert_and_end_of_stream():
    at = Stage()
    at.protocol.data_received(b"\0\0\0\x0a")
    assert at.socket.sent() == bytes.fromhex("15030300020250")
    assert at.socket.has_ended
    assert not at.socket.is_closed  # the socket stays open for a moment, so that the alert is not lost
    at.protocol.data_received(bytes((1 << 20) - 4))
    assert not at.socket.is_closed
    at.protocol.data_received(b"and more")
    assert at.socket.was_aborted
    at.protocol.connection_lost(None)
    assert at.served.events == ["connected", "lost"]
    assert at.words() == [
        "10.0.0.1: sends plaintext to a TLS listener: set security.protocol=SSL or SASL_SSL in the client, or use"
        " another port (listener TLS)"
    ]
    assert at.listener.failed_handshakes == 1


@on_loop
def test_stopping_server_does_not_wait_for_rejected_clients():
    at = Stage()
    at.protocol.data_received(b"\0\0\0\x0a")
    at.served.transport.close()
    assert at.socket.was_aborted


@on_loop
def test_connection_closed_during_tls_handshake_is_logged_if_bytes_arrived():
    silent, torn = Stage(), Stage()
    silent.protocol.connection_lost(None)
    assert (silent.words(), silent.listener.failed_handshakes) == ([], 0)
    torn.protocol.data_received(b"\x16\x03\x01")
    torn.protocol.connection_lost(ConnectionResetError())
    assert torn.words() == ["10.0.0.1: connection closed during the TLS handshake (listener TLS)"]


@on_loop
def test_tls_handshake_size_is_limited():
    at = Stage()
    record = b"\x16\x03\x01\x3e\x80\x01\x03\xff\xff" + bytes(15996)
    for _ in range(20):
        if not at.socket.has_ended:
            at.protocol.data_received(record)
    assert at.socket.has_ended
    assert at.listener.failed_handshakes == 1
