"""Exchange records between kohort and other clients: every codec, headers, null keys, null values."""

import pytest

from kohort import Admin, Consumer, Producer, TopicPartition
from support.peers.client_programs import PYTHON_CLIENTS, as_line, as_record, program, run
from support.processes.served_broker import Served

OTHERS = [client for client in PYTHON_CLIENTS if client != "kohort"]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
RECORDS = [
    (b"key", b"value", [("name", b"\x00\xff"), ("empty", b""), ("null", None)]),
    (None, b"no key", []),
    (b"tombstone", None, [("again", b"1"), ("again", b"2")]),
    (b"", b"", []),
    ("Größe".encode(), b"x" * 5000, []),
]
WITHOUT_NULL_HEADERS = [(k, v, [(n, b"" if h is None else h) for n, h in headers]) for k, v, headers in RECORDS]
"""kafka-python's producer refuses a header whose value is null."""

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def bootstrap():
    served = Served()
    try:
        yield served.bootstrap
    finally:
        served.kill()


@pytest.fixture
def topic(bootstrap, request):
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics({name: 1})
    return name


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("reader", OTHERS)
def test_others_read_what_kohort_wrote(bootstrap, topic, reader, codec):
    with Producer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=50) as producer:
        sent = [producer.send(topic, v, k, partition=0, headers=h) for k, v, h in RECORDS]
        assert [s.result(30_000).offset for s in sent] == list(range(len(RECORDS)))

    read = run([*program(reader), "read", bootstrap, topic, "0", str(len(RECORDS))])
    assert [record for _, _, *record in map(as_record, read)] == [list(record) for record in RECORDS]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", OTHERS)
def test_kohort_reads_what_others_wrote(bootstrap, topic, writer, codec):
    expected = WITHOUT_NULL_HEADERS if writer == "kafka-python" else RECORDS
    lines = [as_line(0, *record) for record in expected]
    assert len(run([*program(writer), "produce", bootstrap, topic, codec], "\n".join(lines))) == len(expected)

    found = []
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while len(found) < len(RECORDS):
            records = consumer.poll(30_000)
            assert records, found
            found += [(r.key, r.value, list(r.headers)) for r in records]
    assert found == expected
