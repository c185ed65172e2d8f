import pytest

import kohort
from kohort import NewTopic

KEYS = 20
ROUNDS = 60
DEADLINE_MS = 30_000


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_compacted_topic_returns_the_last_value_of_every_key(tmp_path, compression):
    options = {"log.cleaner.backoff.ms": 50, "log.segment.bytes": 4096, "log.cleaner.min.cleanable.ratio": 0.1}
    with kohort.Broker(options, data_dir=tmp_path) as broker:
        admin = kohort.Admin(bootstrap_servers=broker.bootstrap)
        admin.create_topics([NewTopic("prices", 1, configs={"cleanup.policy": "compact"})])
        with kohort.Producer(bootstrap_servers=broker.bootstrap, compression_type=compression) as producer:
            for n in range(ROUNDS):
                for key in range(KEYS):
                    producer.send("prices", b"%d %s" % (n, b"x" * 100), key=b"k%d" % key)
                producer.flush()
        admin.close()

        for _ in range(200):
            records = read_all(broker.bootstrap)
            latest = {r.key: int(r.value.split()[0]) for r in records}
            assert latest == {b"k%d" % key: ROUNDS - 1 for key in range(KEYS)}
            assert [r.offset for r in records] == sorted(r.offset for r in records)
            if len(records) < KEYS * ROUNDS / 4:
                break
        else:
            pytest.fail("it was never compacted")


def read_all(bootstrap):
    tp = kohort.TopicPartition("prices", 0)
    with kohort.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        end = consumer.end_offsets([tp])[tp]
        consumer.seek_to_beginning([tp])
        records = []
        while consumer.position(tp) < end:
            records += consumer.poll(DEADLINE_MS)
        return records
