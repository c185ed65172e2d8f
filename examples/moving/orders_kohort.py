"""Send orders as JSON and read them back, with kohort: arguments are the broker and a topic."""

import asyncio
import json
import sys

from kohort import AsyncConsumer, AsyncProducer

BROKER, TOPIC = sys.argv[1:]
ORDERS = [{"id": number, "item": "tea"} for number in range(5)]


def to_json(value):
    return json.dumps(value).encode()


async def send():
    producer = AsyncProducer(bootstrap_servers=BROKER, value_serializer=to_json)
    try:
        for order in ORDERS:
            await producer.send_and_wait(TOPIC, order, key=b"orders")
    finally:
        await producer.close()


async def read():
    consumer = AsyncConsumer(
        bootstrap_servers=BROKER,
        group_id=f"readers-of-{TOPIC}",
        auto_offset_reset="earliest",
        value_deserializer=json.loads,
    )
    consumer.subscribe(TOPIC)
    try:
        async for message in consumer:
            print(message.offset, message.key, message.value)
            if message.offset == len(ORDERS) - 1:
                break
    finally:
        await consumer.close()


async def main():
    await send()
    await read()


asyncio.run(main())
