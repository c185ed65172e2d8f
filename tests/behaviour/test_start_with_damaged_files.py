import random

import pytest
from crash.run import SMALL, history_tool
from crash.trials import try_damages

from kohort import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition

ROUNDS = 60


def fill(tool, data):
    with tool.OurBroker(data, *SMALL) as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics(tool.PARTITIONS)
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for _ in range(ROUNDS):
                for topic, count in tool.PARTITIONS.items():
                    for partition in range(count):
                        producer.send(topic, random.Random(partition).randbytes(1000), partition=partition)
                producer.flush(60_000)
        with Producer(bootstrap_servers=broker.bootstrap, transactional_id="copies") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("out", "copy", partition=0)
            producer.commit_transaction()
        with Consumer(bootstrap_servers=broker.bootstrap, group_id="readers") as consumer:
            first = TopicPartition("in", 0)
            consumer.assign([first])
            for offset in range(20):
                consumer.commit({first: OffsetAndMetadata(offset)})
        broker.end(kill=True)


@pytest.mark.slow
@pytest.mark.campaign
def test_each_damaged_file_is_named_and_other_data_is_served(tmp_path):
    tool = history_tool()
    fill(tool, tmp_path / "data")

    done, problems = try_damages(tool, tmp_path / "data", tmp_path, random.Random(1))

    assert problems == []
    assert done == 13
