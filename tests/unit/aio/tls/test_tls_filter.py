"""TLS of one connection without a socket: handshakes cut at every byte, records, closes and failures."""

import ssl
from contextlib import suppress

import pytest

from kohort.aio.tls.tls_socket import PIECE_BYTES, RECORD_BYTES, PlainQueue, TlsFilter
from support.security.tls_pair import TlsPair, authority, client_context, read_all, server_context

OVERHEAD = 22


@pytest.fixture
def pair():
    return TlsPair().shake()


def send(data, sender, reader):
    sender.write(data)
    reader.feed(sender.take())
    return read_all(reader)


def test_tls_bytes_pass_both_ways_after_the_handshake(pair):
    assert (pair.client.is_open, pair.server.is_open) == (True, True)
    assert send(b"question", pair.client, pair.server) == b"question"
    assert send(b"answer", pair.server, pair.client) == b"answer"


def test_megabyte_passes_through_tls_with_buffers_of_any_size(pair):
    data = bytes(range(256)) * 4096
    pair.client.write(data)
    pair.server.feed(pair.client.take())
    assert read_all(pair.server, 1000) == data


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_handshake_may_arrive_byte_by_byte(version):
    client, server = client_context(), server_context()
    client.maximum_version = server.minimum_version = version
    pair = TlsPair(client, server)
    while not (pair.client.is_open and pair.server.is_open):
        for side, other in ((pair.client, pair.server), (pair.server, pair.client)):
            if not side.is_open:
                side.shake()
            for byte in side.take():
                other.feed(bytes([byte]))
                if not other.is_open:
                    other.shake()
    assert send(b"question", pair.client, pair.server) == b"question"
    assert send(b"answer", pair.server, pair.client) == b"answer"


def test_truncated_client_handshake_opens_no_connection():
    hello = TlsFilter(client_context(), server_side=False, server_hostname="localhost")
    hello.shake()
    handshake_bytes = hello.take()
    context = server_context()
    for end in range(len(handshake_bytes)):
        server = TlsFilter(context, server_side=True)
        server.feed(handshake_bytes[:end])
        assert not server.shake()
        assert not server.is_open


def test_truncated_server_handshake_opens_no_connection():
    pair = TlsPair()
    pair.client.shake()
    pair.server.feed(pair.client.take())
    pair.server.shake()
    handshake_bytes = pair.server.take()
    for end in range(0, len(handshake_bytes), 7):
        client = TlsFilter(client_context(), server_side=False, server_hostname="localhost")
        client.shake()
        client.feed(handshake_bytes[:end])
        with suppress(
            ssl.SSLError
        ):  # raised after a complete ServerHello, which answers the handshake of another client
            client.shake()
        assert not client.is_open


def test_plaintext_request_at_tls_listener_raises_ssl_error():
    server = TlsFilter(server_context(), server_side=True)
    server.feed(b"\0\0\0\x10" + bytes(16))
    with pytest.raises(ssl.SSLError) as error:
        server.shake()
    assert error.value.reason == "WRONG_VERSION_NUMBER"


def test_close_notify_ends_the_tls_connection(pair):
    pair.client.close_notify()
    pair.server.feed(pair.client.take())
    assert read_all(pair.server) == b""
    assert pair.server.has_ended


def test_bytes_before_a_damaged_tls_record_are_read_before_the_error(pair):
    pair.client.write(b"good")
    good = pair.client.take()
    pair.client.write(b"damaged")
    damaged = bytearray(pair.client.take())
    damaged[-1] ^= 1
    pair.server.feed(good + bytes(damaged))
    room = memoryview(bytearray(100))
    count = pair.server.read_into(room)
    assert bytes(room[:count]) == b"good"
    with pytest.raises(ssl.SSLError) as error:
        pair.server.read_into(room)
    assert error.value.reason == "DECRYPTION_FAILED_OR_BAD_RECORD_MAC"
    assert pair.server.take()  # the server answers with a TLS alert


def test_missing_client_certificate_fails_after_the_handshake_in_tls_1_3():
    server = server_context()
    server.verify_mode = ssl.CERT_REQUIRED
    authority().configure_trust(server)
    pair = TlsPair(server=server).shake()
    assert pair.client.is_open
    assert pair.failures["server"].reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE"
    with pytest.raises(ssl.SSLError) as error:
        read_all(pair.client)
    assert error.value.reason == "TLSV13_ALERT_CERTIFICATE_REQUIRED"


def test_client_certificate_is_sent_on_request():
    client, server = client_context(), server_context()
    own = authority().issue_cert("alice.example", common_name="alice")
    own.configure_cert(client)
    server.verify_mode = ssl.CERT_OPTIONAL
    authority().configure_trust(server)
    assert TlsPair(client, server).shake().server.certificate == ssl.PEM_cert_to_DER_cert(
        own.cert_chain_pems[0].bytes().decode()
    )
    assert TlsPair(server=server).shake().server.certificate is None


def test_client_sends_the_host_name_unless_it_is_an_ip_address():
    named = []
    server = server_context()
    server.sni_callback = lambda _object, name, _context: named.append(name)
    for host in ("localhost", "127.0.0.1", "::1"):
        TlsPair(server=server, host=host).shake()
    assert named == ["localhost", None, None]


# Bytes that wait for encryption


def taken(queue):
    found = []
    while piece := queue.take():
        found.append(piece)
    return found


def test_small_buffers_are_joined_in_one_tls_record(pair):
    queue = PlainQueue()
    queue.add([b"0123456789"] * 1000)
    for piece in taken(queue):
        pair.server.write(piece)
    assert len(pair.server.take()) == 10_000 + OVERHEAD
    assert queue.waiting_bytes == 0


def test_large_buffers_are_encrypted_in_pieces():
    queue = PlainQueue()
    large = bytes(3 * PIECE_BYTES + 5)
    queue.add([b"head", large, b"", b"between", bytes(RECORD_BYTES), b"tail"])
    sizes = [len(piece) for piece in taken(queue)]
    assert sizes == [4, PIECE_BYTES, PIECE_BYTES, PIECE_BYTES, 5 + len(b"between"), RECORD_BYTES, 4]


def test_queue_of_plain_bytes_returns_whole_buffer_without_copy():
    queue = PlainQueue()
    whole = bytes(RECORD_BYTES)
    queue.add([whole])
    assert queue.take() is whole
    assert queue.take() == b""


def test_buffers_of_mixed_sizes_keep_their_order_in_tls():
    queue = PlainQueue()
    buffers = [bytes([n % 256]) * (n * n * 37 % 70_000) for n in range(200)]
    queue.add(buffers)
    pieces = taken(queue)
    assert b"".join(pieces) == b"".join(buffers)
    assert max(map(len, pieces)) <= PIECE_BYTES
    queue.add([b"x", bytes(PIECE_BYTES * 2)])
    queue.take()
    queue.clear()
    assert (queue.take(), queue.waiting_bytes) == (b"", 0)
