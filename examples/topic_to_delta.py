"""Load a topic into a Delta table, exactly once: kill it at any time and start it again.

python topic_to_delta.py localhost:9092 orders ./orders      until SIGTERM or Ctrl-C
python topic_to_delta.py                                     a broker of its own, to the end of its topic
"""

import signal
import sys
import tempfile

from kohort import Broker, Consumer, Producer
from kohort.tables import DeltaSink, Loaded, load


def run(bootstrap: str, topic: str, folder: str, *, until_end: bool = False) -> Loaded:
    options = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "isolation_level": "read_committed"}
    with Consumer(bootstrap_servers=bootstrap, group_id=f"{topic}-to-delta", **options) as consumer:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: consumer.wakeup())
        return load(consumer, topic, DeltaSink(folder), until_end=until_end)


if len(sys.argv) == 4:
    print(run(*sys.argv[1:]))
else:
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for n in range(1000):
                producer.send("orders", f"order {n}", key=str(n % 7))
            producer.flush(30_000)
        print(run(broker.bootstrap, "orders", folder, until_end=True))
        print(run(broker.bootstrap, "orders", folder, until_end=True))
