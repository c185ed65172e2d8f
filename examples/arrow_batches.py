"""Read a topic as Arrow tables: whole fetched batches, no object per record."""

from kohort import Broker, Consumer, Producer, TopicPartition

with Broker() as broker, Producer(bootstrap_servers=broker.bootstrap, compression_type="zstd") as producer:
    for n in range(10_000):
        producer.send("readings", f"{n}", partition=0)
    producer.flush(30_000)

    with Consumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("readings", 0)])
        rows = 0
        while rows < 10_000:
            table = consumer.poll_arrow(timeout_ms=1000)
            rows += table.num_rows
        print(table.schema, rows, sep="\n")
