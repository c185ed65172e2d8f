"""A history that a model makes, which keeps every promise, is never suspected; with one fault planted it always is."""

import random
from typing import Any

import pytest

from kohort_lab.history.checker import check_history
from support.histories import WrittenHistory

PARTITIONS = 3
RUNS = range(25)


class Model:
    """A log, a group of two members that copy in transactions, and a reader: a valid history."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.history = WrittenHistory()
        self.logs = [[] for _ in range(PARTITIONS)]
        self.out = []
        self.sent = 0
        self.generation = 0
        self.committed = [0] * PARTITIONS
        self.owner: list[Any] = [None] * PARTITIONS
        self.history.add("group", "setup", group="g", effects="out")
        self.producers = [self.history.client(f"p{n}", idempotent=True) for n in range(2)]
        self.members = [self.history.client(f"m{n}", isolation="read_committed", idempotent=True) for n in range(3)]
        self.transactions = 0
        self.positions = {}

    def run(self, steps):
        self.rebalance()
        for _ in range(steps):
            self.rng.choice([self.produce, self.produce, self.copy, self.copy, self.rebalance])()
        for partition in range(PARTITIONS):
            self.produce(partition)
        self.copy_all()
        self.read_all()
        return self.history.lines

    def produce(self, partition=None):
        producer = self.rng.choice(self.producers)
        log = self.rng.randrange(PARTITIONS) if partition is None else partition
        result = "unknown" if self.rng.random() < 0.1 else "ok"
        producer.sends(f"v:{self.sent}", len(self.logs[log]) if result == "ok" else None, result, partition=log)
        self.logs[log].append(f"v:{self.sent}")
        self.sent += 1

    def rebalance(self):
        self.generation += 1
        for partition in range(PARTITIONS):
            if self.owner[partition] is not None:
                self.owner[partition].gives_up(partition=partition)
        for partition in range(PARTITIONS):
            self.owner[partition] = self.rng.choice(self.members)
            self.positions[partition] = self.committed[partition]
            self.owner[partition].has(self.generation, self.committed[partition], partition)

    def copy(self, partition=None):
        log = self.rng.randrange(PARTITIONS) if partition is None else partition
        member, start = self.owner[log], self.positions[log]
        end = min(len(self.logs[log]), start + self.rng.randint(1, 4))
        if start >= end:
            return
        member.reads(*[(at, self.logs[log][at]) for at in range(start, end)], partition=log)
        name = f"T{self.transactions}"
        self.transactions += 1
        commits = self.rng.random() < 0.8
        member.add("begin", txn=name)
        for at in range(start, end):
            value = f"c:{len(self.out)}"
            member.sends(value, len(self.out), topic="out", txn=name, of=[["t", log, at]])
            self.out.append((value, commits))
        member.commits(end, self.generation, partition=log, txn=name)
        member.ends(name, "commit" if commits else "abort")
        self.out.append((None, True))
        if commits:
            self.committed[log] = self.positions[log] = end
        else:
            member.add("seek", topic="t", partition=log, offset=start)

    def copy_all(self):
        for partition in range(PARTITIONS):
            while self.committed[partition] < len(self.logs[partition]):
                self.copy(partition)

    def read_all(self):
        reader = self.history.client("reader", isolation="read_committed")
        reader.add("seek", topic="out", partition=0, offset=0)
        for at, (value, visible) in enumerate(self.out):
            if value is not None and visible:
                reader.reads((at, value), topic="out")
        reader.reads(topic="out", position=len(self.out))


def of_kind(lines, rng, op, **fields):
    found = [line for line in lines if line["op"] == op and all(line.get(k) == v for k, v in fields.items())]
    return rng.choice(found) if found else None


def committed_copy(lines, rng):
    ended = {line["txn"] for line in lines if line["op"] == "end" and line["outcome"] == "commit"}
    return rng.choice([line for line in lines if line["op"] == "send" and line.get("txn") in ended])


def read_of(lines, value):
    return next(line for line in lines if line["op"] == "read" and any(r[1] == value for r in line["records"]))


def read_loses_a_record(lines, rng):
    line = read_of(lines, committed_copy(lines, rng)["value"])
    line["records"] = []
    return {"lost-record", "partial-transaction"}


def read_has_another_value(lines, rng):
    line = of_kind(lines, rng, "read", client="reader", topic="out", position=None)
    line["records"][0][1] = "stranger:0"
    return {"two-values-at-one-offset"}


def record_is_appended_twice(lines, rng):
    last = next(line for line in reversed(lines) if line["op"] == "read")
    first = of_kind(lines, rng, "read", client="reader", topic="out", position=None)
    last["records"].append([last.pop("position") + 5, first["records"][0][1]])
    return {"duplicate-record"}


def committed_is_aborted(lines, rng):
    name = committed_copy(lines, rng)["txn"]
    next(line for line in lines if line["op"] == "end" and line["txn"] == name)["outcome"] = "abort"
    return {"aborted-read"}


def aborted_is_committed(lines, rng):
    of_kind(lines, rng, "end", outcome="abort")["outcome"] = "commit"
    return {"lost-record", "effect-twice"}


def input_is_another_records(lines, rng):
    sends = [line for line in lines if line["op"] == "send" and line.get("of")]
    ended = {line["txn"] for line in lines if line["op"] == "end" and line["outcome"] == "commit"}
    one = committed_copy(lines, rng)
    others = [s for s in sends if s["txn"] in ended and s["txn"] != one["txn"]]
    one["of"] = rng.choice(others)["of"]
    return {"effect-twice"}


def owner_begins_behind(lines, rng):
    found = [line for line in lines if line["op"] == "assigned" and line["partitions"][0][2] > 0]
    rng.choice(found)["partitions"][0][2] -= 1
    return {"started-behind-commit"}


def assignment_is_reported_too_early(lines, rng):
    assigned = [line for line in lines if line["op"] == "assigned"]
    moves = [
        (gave, took)
        for gave in lines
        for took in assigned
        if gave["op"] == "revoked" and took["partitions"][0][:2] == gave["partitions"][0]
        if took["client"] != gave["client"] and 0 < took["at"] - gave["at"] < 10_000
    ]
    gave, took = rng.choice(moves)
    gave["at"], gave["done"] = took["at"] + 100, took["at"] + 200
    return {"two-owners"}


def acknowledgements_are_swapped(lines, rng):
    sends = [line for line in lines if line["op"] == "send" and line["topic"] == "t" and line["result"] == "ok"]
    pairs = [(a, b) for a in sends for b in sends
             if a["client"] == b["client"] and a["partition"] == b["partition"] and a["at"] < b["at"]]  # fmt: skip
    one, other = rng.choice(pairs)
    one["offset"], other["offset"] = other["offset"], one["offset"]
    return {"two-values-at-one-offset", "value-at-two-offsets"}


FAULTS = [
    read_loses_a_record,
    read_has_another_value,
    record_is_appended_twice,
    committed_is_aborted,
    aborted_is_committed,
    input_is_another_records,
    owner_begins_behind,
    assignment_is_reported_too_early,
    acknowledgements_are_swapped,
]


def checked(model, tmp_path):
    return check_history([model.history.written(tmp_path)])


@pytest.mark.parametrize("seed", RUNS)
def test_what_keeps_every_promise_is_never_suspected(seed, tmp_path):
    model = Model(seed)
    model.run(60)
    assert checked(model, tmp_path).anomalies == ()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_one_fault_is_always_found(seed, fault, tmp_path):
    model = Model(seed)
    lines = model.run(60)
    expected = fault(lines, random.Random(seed))
    assert expected & set(checked(model, tmp_path).counts)
