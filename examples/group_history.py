"""The rebalances of a cluster's groups, and how far each group is, as Spark tables: what one asks after a bad night.

python group_history.py HOST:PORT     a cluster of yours; without it, a small one is made and disturbed here
"""

import sys

from kohort import Broker, Consumer, Producer
from kohort.spark import session
from kohort.spark.group_tables import group_records, rebalance_table


def disturb(brokers: str) -> None:
    """Run a group of one member, then of two, with commits."""
    with Producer(bootstrap_servers=brokers) as producer:
        for n in range(200):
            producer.send("orders", f"order {n}", key=str(n))
    options = {"bootstrap_servers": brokers, "group_id": "billing", "auto_offset_reset": "earliest"}
    with Consumer(options | {"client_id": "first"}) as first, Consumer(options | {"client_id": "second"}) as second:
        first.subscribe(["orders"])
        first.poll(5000)
        second.subscribe(["orders"])
        for _ in range(20):
            first.poll(200)
            second.poll(200)
        first.commit()


def show(brokers: str) -> None:
    spark = session("group-history")
    rebalance_table(spark, brokers).select("group", "took_ms", "cause", "sentence").show(20, truncate=100)
    raw = spark.read.format("kohort").options(**{"kafka.bootstrap.servers": brokers, "subscribe": "__consumer_offsets"})
    commits = group_records(raw.load()).where("kind = 'commit' and not removed")
    commits.groupBy("group", "topic", "partition").agg({"committed": "max", "at": "max", "*": "count"}).show()
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        show(sys.argv[1])
    else:
        with Broker() as own:
            disturb(own.bootstrap)
            show(own.bootstrap)
