"""The command line of ``../README.md`` for the Python clients: verbs, lines that go out, records that come in."""

import base64
import json
import os
import queue
import signal
import sys
import threading
import time
from pathlib import Path
from typing import ClassVar, NamedTuple

SESSION_MS = 6000
STATIC_SESSION_MS = 30_000  # outlives a restart, however slow
COMMIT_MS = 200
BY_COORDINATOR = "consumer"
"""In place of a strategy: the group protocol consumer (KIP-848)."""
METADATA_MS = 1000
"""How long a topic may be there that a pattern has not found."""
WAIT_S = 60
MEMBERS = ("consume", "play")
"""The verbs that end with SIGTERM, in order."""


class Stop:
    """Whether SIGTERM has come. Looked at between polls: raised in one, it would take the record with it that the
    poll was about to hand out, and that the client then commits."""

    wanted = False


class Security:
    """What ``--security=FILE`` told: options by the names of ``../README.md``; nothing where all is in plain text."""

    given: ClassVar[dict[str, str]] = {}


class Given(NamedTuple):
    """A record of the standard input; without a partition the client's partitioner chooses one."""

    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def session_ms(instance):
    return SESSION_MS if instance == "-" else STATIC_SESSION_MS


def say(**what):
    print(json.dumps(what), flush=True)


def say_grown(partitions):
    """Say how many partitions there are, of two, once there are more: a broker of Apache Kafka may learn of it a little
    later than the controller has answered."""
    deadline = time.monotonic() + WAIT_S
    while partitions() == 2 and time.monotonic() < deadline:
        pass
    say(grown=partitions())


def say_altered(value, before):
    """Say what an option is, once it is no longer what it was: a broker may learn of a change a little later, too."""
    deadline = time.monotonic() + WAIT_S
    while value() == before and time.monotonic() < deadline:
        pass
    say(altered=value())


def say_deleted(topic, topics):
    """Say whether a topic is gone, once it is: that, too, a broker may learn later."""
    deadline = time.monotonic() + WAIT_S
    while topic in topics() and time.monotonic() < deadline:
        pass
    say(deleted=topic not in topics())


def gained(partitions):
    say(gained=sorted(p.partition for p in partitions), at=time.time() * 1000)


def gave_up(partitions):
    say(gave_up=sorted(p.partition for p in partitions), at=time.time() * 1000)


def record(offset, timestamp, key, value, headers):
    named = [[name, as_text(of)] for name, of in headers or []]
    say(record=[offset, timestamp, as_text(key), as_text(value), named])


def as_text(value):
    return None if value is None else base64.b64encode(value).decode()


def as_bytes(field):
    return None if field == "~" else base64.b64decode(field)


def records():
    for line in sys.stdin:
        partition, key, value, *headers = line.rstrip("\n").split("\t")
        named = [header.partition("=") for header in headers]
        yield Given(
            None if partition == "-" else int(partition),
            as_bytes(key),
            as_bytes(value),
            [(name, as_bytes(of)) for name, _, of in named],
        )


def properties(path):
    return dict(line.split("=", 1) for line in path.read_text().splitlines())


def renamed(names):
    """What was given of ``names``, by the names that a client has for it."""
    return {names[name]: value for name, value in Security.given.items() if name in names}


# The verb play


class Orders:
    """The orders that come on the standard input, a line each, while the member polls. Whoever gave them has ended
    where the input ends: then the member ends, too."""

    def __init__(self):
        self._lines = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in sys.stdin:
            self._lines.put(line.split())
        os._exit(3)

    def next(self):
        """The next order, its words; none where nobody gave one."""
        return [] if self._lines.empty() else self._lines.get()


PATTERN = "pattern"
TOPICS = "topics"


def role(words):
    """What ``NAME=VALUE`` words say, with numbers as numbers."""
    given = dict(word.split("=", 1) for word in words)
    return {name: int(value) if value.isdigit() else value for name, value in given.items()}


def stall(order):
    """Stand still if that is the order: the user's code does something else than poll."""
    if order[:1] == ["stall"]:
        time.sleep(int(order[1]) / 1000)


def stop(_signal, _frame):
    Stop.wanted = True


def main(verbs):
    """Run the verb that the command line names; ``verbs`` are functions by their names."""
    verb, *arguments = sys.argv[1:]
    if verb.startswith("--security="):
        Security.given = properties(Path(verb.partition("=")[2]))
        verb, *arguments = arguments
    if verb in MEMBERS:
        signal.signal(signal.SIGTERM, stop)
    verbs[verb](*arguments)
    if verb in MEMBERS:
        say(left=True)
