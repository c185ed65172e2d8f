"""An application of quixstreams: the sum of all numbers so far, by key, from one topic to another, with state.

    application.py BOOTSTRAP GROUP SOURCE TARGET STATE COUNT GUARANTEE

It reads COUNT records behind what GROUP has committed, and ends. STATE is the folder of its stores, which it fills from
their changelog topics where they are not there; GUARANTEE is ``at-least-once`` or ``exactly-once``.
"""

import json
import sys

import confluent_kafka
from quixstreams import Application


def add(number, state):
    total = state.get("total", 0) + number
    state.set("total", total)
    return total


def main(bootstrap, group, source, target, folder, count, guarantee):
    app = Application(
        broker_address=bootstrap,
        consumer_group=group,
        auto_offset_reset="earliest",
        state_dir=folder,
        processing_guarantee=guarantee,
        commit_interval=0.5,
    )
    numbers = app.dataframe(app.topic(source, value_deserializer="json", key_deserializer="str"))
    totals = numbers.apply(add, stateful=True)
    totals.to_topic(app.topic(target, value_serializer="json", key_serializer="str"))
    app.run(count=int(count), timeout=60.0)
    listed = app.get_consumer().list_topics(timeout=60.0).topics
    print(json.dumps({"librdkafka": confluent_kafka.libversion()[0], "topics": sorted(listed)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
