"""Send users as Avro with a schema registry and read them back.

Arguments are the broker, the registry and a topic.
"""

import sys

from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

BROKER, REGISTRY, TOPIC = sys.argv[1:]
SCHEMA = """
{"type": "record", "name": "User", "namespace": "shop", "fields": [
    {"name": "name", "type": "string"},
    {"name": "age", "type": ["null", "int"], "default": null}
]}
"""
READER = {"bootstrap.servers": BROKER, "group.id": f"readers-of-{TOPIC}", "auto.offset.reset": "earliest"}
USERS = [{"name": "Ada", "age": 36}, {"name": "Alan", "age": None}]

registry = SchemaRegistryClient({"url": REGISTRY})
to_avro = AvroSerializer(registry, SCHEMA)
from_avro = AvroDeserializer(registry)
context = SerializationContext(TOPIC, MessageField.VALUE)

producer = Producer({"bootstrap.servers": BROKER})
for user in USERS:
    producer.produce(TOPIC, key=user["name"], value=to_avro(user, context))
producer.flush()

consumer = Consumer(READER)
consumer.subscribe([TOPIC])
left = len(USERS)
while left:
    for message in consumer.consume(10, 1.0):
        left -= 1
        print(message.offset(), message.key(), from_avro(message.value(), context))
consumer.close()
