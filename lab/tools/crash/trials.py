"""Trials of a start: copy the folder of a stopped broker, damage the copy, start a broker on it.

The broker's log must name the damage, reads of damaged records must fail, all other records must be served, and every
partition and group must continue. A failed start must name the file.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from crash.damages import DAMAGES, Harm
from kohort import Admin, Consumer, KohortError, OffsetAndMetadata, Producer, TopicPartition

Found = dict[tuple[str, int], dict[int, bytes | None]]
"""Values by offset, of each partition."""
READS_S = 120
ANSWERS_MS = 60_000
GROUP = "after-the-harm"


def try_damages(tool: ModuleType, data: Path, folder: Path, rng: random.Random) -> tuple[int, list[str]]:
    """Try every kind of damage on a copy of a stopped broker's ``data``; return their number and the errors."""
    problems: list[str] = []
    whole = folder / "unharmed"
    shutil.copytree(data, whole / "data")
    with tool.OurBroker(whole / "data") as broker:
        expected = read_everything(tool, broker.bootstrap, {}, problems.append)
        broker.end(kill=True)
    done = 0
    for damage in DAMAGES:
        place = folder / damage.__name__
        shutil.copytree(data, place / "data")
        harm = damage(place / "data", rng)
        if harm is not None:
            done += 1
            wrong = trial(tool, place, harm, expected)
            problems += [f"{place}: {harm.what}: {problem}" for problem in wrong]
            if wrong:
                continue
        shutil.rmtree(place)
    shutil.rmtree(whole)
    return done, problems


def trial(tool: ModuleType, place: Path, harm: Harm, expected: Found) -> list[str]:
    """Start a broker on a damaged folder; return the errors."""
    wrong: list[str] = []
    try:
        with tool.OurBroker(place / "data") as broker:
            if harm.refused:
                wrong.append("it starts")
            served(tool, broker.bootstrap, harm, expected, wrong.append)
            broker.end(kill=True)
    except RuntimeError as error:
        if not harm.refused:
            wrong.append(str(error))
        elif "Traceback" in str(error):
            wrong.append(f"it is refused with a traceback: {error}")
    log = (place / "broker.log").read_text()
    wrong += [f"the broker's log does not say {line!r}, but: {log}" for line in harm.expected_lines if line not in log]
    return wrong


def served(tool: ModuleType, bootstrap: str, harm: Harm, expected: Found, wrong: Callable[[str], None]) -> None:
    """Compare a broker's records with the expected ones, then produce and consume."""
    found = read_everything(tool, bootstrap, harm.lost if harm.unreadable else {}, wrong)
    for where, values in expected.items():
        lost = harm.lost.get(where, range(0))
        right = {offset: value for offset, value in values.items() if offset not in lost}
        if found[where] != right:
            missing, more = sorted(right.keys() - found[where].keys()), sorted(found[where].keys() - right.keys())
            wrong(f"{where}: {len(missing)} offsets are not served: {missing[:5]}; {len(more)} too many: {more[:5]}")
    with Producer(bootstrap_servers=bootstrap) as producer:
        for topic, partition in expected:
            new_offset = producer.send(topic, "after", partition=partition).result(ANSWERS_MS).offset
            if new_offset <= max(found[topic, partition], default=-1):
                wrong(f"{topic}-{partition}: a record goes to offset {new_offset}, which was taken")
    goes_on = [TopicPartition(*where) for where in expected]
    with Consumer(bootstrap_servers=bootstrap, group_id=GROUP) as consumer:
        consumer.assign(goes_on)
        consumer.commit(dict.fromkeys(goes_on, OffsetAndMetadata(1)), timeout_ms=ANSWERS_MS)
        if any(at is None or at.offset != 1 for at in consumer.committed(goes_on).values()):
            wrong("a group's commits are not there")
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.describe_groups([group.group_id for group in admin.list_groups()])


def read_everything(
    tool: ModuleType, bootstrap: str, bad: dict[tuple[str, int], range], wrong: Callable[[str], None]
) -> Found:
    """Read every partition of user topics; ``bad`` offsets must fail and are skipped."""
    found: Found = {}
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        for topic, count in tool.PARTITIONS.items():
            for partition in range(count):
                at = TopicPartition(topic, partition)
                consumer.assign([at])
                consumer.seek_to_beginning([at])
                end, deadline = consumer.end_offsets([at])[at], time.monotonic() + READS_S
                values, error_count = found.setdefault((topic, partition), {}), 0
                while consumer.position(at) < end:
                    if time.monotonic() > deadline:
                        wrong(f"{at}: nothing comes at {consumer.position(at)} of {end}")
                        break
                    try:
                        values.update({record.offset: record.value for record in consumer.poll(500)})
                    except KohortError as error:
                        error_count += 1
                        if (topic, partition) not in bad or str(at) not in str(error):
                            wrong(f"{at}: reading ends with {error!r}")
                            break
                        consumer.seek(at, bad[topic, partition].stop)
                if (topic, partition) in bad and not error_count:
                    wrong(f"{at}: nobody is told that {bad[topic, partition]} cannot be read")
    return found
