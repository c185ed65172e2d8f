"""A broker inside this process, a producer and a consumer: no server, no Docker, no JVM."""

from kohort import Broker, Consumer, Producer

with Broker() as broker, Producer(bootstrap_servers=broker.bootstrap) as producer:
    for n in range(10):
        producer.send("orders", f"order {n}", key=f"customer {n % 3}")
    producer.flush(10_000)

    with Consumer(bootstrap_servers=broker.bootstrap, group_id="billing", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        seen = 0
        while seen < 10:
            for record in consumer.poll(timeout_ms=1000):
                print(record.partition, record.offset, record.key, record.value)
                seen += 1
        consumer.commit()
