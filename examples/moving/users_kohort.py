"""Send users as Avro with a schema registry and read them back.

Arguments are the broker, the registry and a topic.
"""

import sys

from kohort import AvroDeserializer, AvroSerializer, Consumer, Producer, SchemaRegistry

BROKER, REGISTRY, TOPIC = sys.argv[1:]
SCHEMA = """
{"type": "record", "name": "User", "namespace": "shop", "fields": [
    {"name": "name", "type": "string"},
    {"name": "age", "type": ["null", "int"], "default": null}
]}
"""
READER = {"bootstrap.servers": BROKER, "group.id": f"readers-of-{TOPIC}", "auto.offset.reset": "earliest"}
USERS = [{"name": "Ada", "age": 36}, {"name": "Alan", "age": None}]

registry = SchemaRegistry({"url": REGISTRY})
to_avro = AvroSerializer(registry, SCHEMA)
from_avro = AvroDeserializer(registry)

producer = Producer({"bootstrap.servers": BROKER}, value_serializer=to_avro)
for user in USERS:
    producer.send(TOPIC, key=user["name"], value=user)
producer.flush()

consumer = Consumer(READER, value_deserializer=from_avro)
consumer.subscribe([TOPIC])
left = len(USERS)
while left:
    for message in consumer.poll(1000):
        left -= 1
        print(message.offset, message.key, message.value)
consumer.close()
