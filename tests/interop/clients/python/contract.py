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
"""Longest time until a pattern subscription finds a new topic."""
WAIT_S = 60
MEMBERS = ("consume", "play")
"""The verbs that end with SIGTERM, in order."""


class Stop:
    """True after SIGTERM.

    Checked between polls: an exception inside a poll would lose the record that the poll returns.
    """

    is_requested = False


class Security:
    """Options of ``--security=FILE``, by the names of ``../README.md``; empty for plaintext."""

    settings: ClassVar[dict[str, str]] = {}


class InputRecord(NamedTuple):
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
    """Print the number of partitions once it exceeds two: a node of Apache Kafka can learn of it after the response."""
    deadline = time.monotonic() + WAIT_S
    while partitions() == 2 and time.monotonic() < deadline:
        pass
    say(grown=partitions())


def say_altered(value, before):
    """Print an option's value once it has changed: a node can learn of it after the response."""
    deadline = time.monotonic() + WAIT_S
    while value() == before and time.monotonic() < deadline:
        pass
    say(altered=value())


def say_deleted(topic, topics):
    """Print whether a topic is deleted, once it is: a node can learn of it after the response."""
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
        yield InputRecord(
            None if partition == "-" else int(partition),
            as_bytes(key),
            as_bytes(value),
            [(name, as_bytes(of)) for name, _, of in named],
        )


def properties(path):
    return dict(line.split("=", 1) for line in path.read_text().splitlines())


def renamed(names):
    """Return the given ``names``, renamed for a client."""
    return {names[name]: value for name, value in Security.settings.items() if name in names}


# The verb play


class Orders:
    """Commands on stdin, one per line, read while the member polls. At the end of stdin the member exits."""

    def __init__(self):
        self._lines = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in sys.stdin:
            self._lines.put(line.split())
        os._exit(3)

    def next(self):
        """Return the words of the next command; empty without one."""
        return [] if self._lines.empty() else self._lines.get()


PATTERN = "pattern"
TOPICS = "topics"


def role(words):
    """Parse ``NAME=VALUE`` words, with numbers as numbers."""
    options = dict(word.split("=", 1) for word in words)
    return {name: int(value) if value.isdigit() else value for name, value in options.items()}


def stall(order):
    """Sleep if the command is a stall: user code that does not poll."""
    if order[:1] == ["stall"]:
        time.sleep(int(order[1]) / 1000)


def stop(_signal, _frame):
    Stop.is_requested = True


def main(verbs):
    """Run the verb that the command line names; ``verbs`` are functions by their names."""
    verb, *arguments = sys.argv[1:]
    if verb.startswith("--security="):
        Security.settings = properties(Path(verb.partition("=")[2]))
        verb, *arguments = arguments
    if verb in MEMBERS:
        signal.signal(signal.SIGTERM, stop)
    verbs[verb](*arguments)
    if verb in MEMBERS:
        say(left=True)
