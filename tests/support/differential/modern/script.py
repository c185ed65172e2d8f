"""Random scripts of consumer groups on both brokers, from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable

from support.differential.modern.both import Both, Parted
from support.differential.modern.log import compare_logs
from support.differential.modern.member import ModernMember
from support.differential.modern.outsider import Outsider

SIZES = (1, 2, 2, 3, 3, 4, 5, 6, 8, 12)


def play(bootstrap: str, seed: int, steps: int = 50) -> int:
    """Run one script; return its number of requests. Raises Parted with all requests."""
    return played(bootstrap, str(seed), lambda both: _play(both, random.Random(seed), steps))


def played(bootstrap: str, seed: str, script: Callable[[Both], None]) -> int:
    """Run a script; return its number of requests. Raises Parted with all requests."""
    both = Both(bootstrap)
    try:
        script(both)
        return len(both.transcript)
    except (Parted, AssertionError, LookupError) as error:
        transcript = "\n".join(both.transcript)
        ids = ", ".join(f"{name} {topic_id.hex()}" for topic_id, name in both.words.topics.items())
        raise Parted(
            f"seed {seed}, after {len(both.transcript)} requests: {error}\n{transcript}\n{both.mark}: {ids}"
        ) from error
    finally:
        both.close()


def _play(both: Both, chance: random.Random, steps: int) -> None:
    topics = [both.create(name, chance.randint(1, 6)) for name in "abc"[: chance.randint(1, 3)]]
    sizes = dict.fromkeys(topics, 6)
    names = [*topics, f"d-{both.mark}"]
    group = both.group("g")
    members = [ModernMember(both, chance, f"m{i}", group, names) for i in range(chance.choice(SIZES))]
    assignors = (chance.choice(("uniform", "range")),) * 6 + ("sticky", "")
    for member in members:
        member.assignors = assignors
    outsider = Outsider(both, chance, group, names)
    for _ in range(steps):
        if both.is_late:
            break
        member = chance.choice(members)
        kind = chance.random()
        if kind < 0.62:
            member.act()
            if any(one.regex for one in members):
                both.await_same_epoch(group)
        elif kind < 0.72:
            outsider.commit(member.member_id, member.epoch)
        elif kind < 0.80:
            outsider.fetch(member.member_id, member.epoch)
        elif kind < 0.83:
            outsider.remove_offsets()
        elif kind < 0.84:
            outsider.remove_group()
        elif kind < 0.87:
            outsider.look_otherwise()
        elif kind < 0.90:
            _change_topics(both, chance, sizes)
        outsider.look()
    both.check_still_parked()
    compare_logs(both, group)


def _change_topics(both: Both, chance: random.Random, sizes: dict[str, int]) -> None:
    """Create, grow or delete a topic; wait until Kafka's coordinator knows."""
    late = f"d-{both.mark}"
    if late not in sizes:
        both.transcript.append("a topic is made: d")
        both.create("d", 3)
        sizes[late] = 6
    else:
        topic = chance.choice([*sizes])
        if sizes[topic] < 12:
            sizes[topic] += chance.randint(1, 3)
            both.transcript.append(f"{topic} grows to {sizes[topic]}")
            both.grow(topic, sizes[topic])
        else:
            both.transcript.append(f"{topic} is deleted")
            both.delete(topic)
            del sizes[topic]
    both.theirs.await_earlier_requests(f"g-{both.mark}")
