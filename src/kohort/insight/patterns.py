"""Patterns of many rebalances: deploys, scaling, crash loops, storms, flapping partitions, fixed periods.

Each pattern has a function that searches the rebalances of one group, oldest first. Follow-up rebalances of cooperative
assignors, and events without a rebalance, do not count.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, pairwise
from statistics import median
from typing import Final, NamedTuple

from kohort.insight.evidence import Confidence, PatternEntry
from kohort.insight.findings.model import EvidenceFinding, MemberRef, PatternFinding, RebalanceFinding, name_of_member
from kohort.insight.names import count, printable, seconds

PATTERNS: Final = (
    PatternEntry(
        code="ROLLING_DEPLOY",
        sentence="Members were replaced one after another by members of the same name: a deploy.",
        proof="at least two orderly leaves, each with a join under the same client id prefix within two minutes; other "
        "members stayed",
        look_alikes=(
            ("CRASH_LOOP", "the same member departs repeatedly, without an orderly leave"),
            ("GROUP_FORMING", "all members left before the first join"),
            ("SCALE_IN", "no new member replaced a departed member"),
        ),
        advice="use static members (group.instance.id) or the consumer protocol: a deploy then hardly rebalances",
    ),
    PatternEntry(
        code="SCALE_OUT",
        sentence="Members were added.",
        proof="at least two joins within five minutes and no departure, more than two minutes after the group formed",
        look_alikes=(
            ("ROLLING_DEPLOY", "as many members left as joined"),
            ("AUTOSCALER", "joins and leaves alternate"),
        ),
    ),
    PatternEntry(
        code="SCALE_IN",
        sentence="Members were removed.",
        proof="at least two orderly leaves within five minutes, and no join",
        look_alikes=(("CRASH_LOOP", "members departed without an orderly leave"),),
    ),
    PatternEntry(
        code="CRASH_LOOP",
        sentence="One client joins and fails repeatedly.",
        proof="one client at one address joined, and departed without an orderly leave, three times within ten minutes"
        "; medium confidence if a watcher could not exclude a leave",
        look_alikes=(("ROLLING_DEPLOY", "each member left once"), ("AUTOSCALER", "members leave in an orderly way")),
        advice="read that client's log: a record that it cannot process (poison record) may end the client",
    ),
    PatternEntry(
        code="REBALANCE_STORM",
        sentence="The group rebalances nearly all the time.",
        proof="at least ten rebalances within ten minutes; or rebalances for most of five minutes or longer",
        look_alikes=(("COOPERATIVE_FOLLOWUP", "cooperative follow-ups do not count"),),
        advice="check the most frequent cause; static members and longer timeouts reduce rebalances",
    ),
    PatternEntry(
        code="FLAPPING_PARTITION",
        sentence="One partition moves from member to member.",
        proof="at least three new owners of one partition, more than of most other partitions, in rebalances without a "
        "join or departure",
        look_alikes=(
            ("REBALANCE_STORM", "all partitions move equally often"),
            ("CRASH_LOOP", "the partition moves because its owner departs"),
        ),
        advice="use a sticky assignor (cooperative-sticky, or the consumer protocol's uniform), which keeps owners",
    ),
    PatternEntry(
        code="PERIODIC",
        sentence="The group rebalances at a fixed period, for the same cause.",
        proof="at least four rebalances of one cause, at intervals that differ by less than a tenth",
        look_alikes=(("REBALANCE_STORM", "intervals are irregular"), ("AUTOSCALER", "joins and leaves alternate")),
        advice="look for the period: metadata.max.age.ms, a cron job, a probe of an orchestrator",
    ),
    PatternEntry(
        code="AUTOSCALER",
        sentence="The number of members alternately rises and falls: an autoscaler resizes the group.",
        proof="at least three alternations between joins and orderly leaves in the examined time",
        look_alikes=(
            ("CRASH_LOOP", "members depart without an orderly leave"),
            ("ROLLING_DEPLOY", "the number of members stays the same"),
        ),
        advice="each resize pauses the group: scale on lag over a longer window, and scale in more slowly than out",
    ),
)
ADVICE: Final = {entry.code: entry.advice for entry in PATTERNS}
TURN_MS: Final = 120_000
"""Longest time from a member's leave to the join of its replacement in a rolling deploy, in ms."""
SCALING_MS: Final = 300_000
"""Joins (or leaves) at most this many ms apart belong to one scale-out (or scale-in)."""
CRASHES: Final = 3
CRASHES_WITHIN_MS: Final = 600_000
STORM: Final = 10
STORM_WITHIN_MS: Final = 600_000
RESTLESS_OVER_MS: Final = 300_000
"""Shortest period for which the share of time without rebalances is computed, in ms."""
FLAPS: Final = 3
PERIODS: Final = 4
PERIOD_SPREAD: Final = 0.1
TURNS: Final = 3
CAME: Final = ("NEW_MEMBER", "CLIENT_RESET", "GROUP_FORMING")
LEFT: Final = "left"
DEPARTED: Final = "departed"
NOT_FALLEN: Final = (LEFT, "removed", DEPARTED)
"""Kinds of departure that are no failure: leave, removal by an administrator, unknown."""


class MemberStep(NamedTuple):
    """Join or departure of a member. ``how``: ``came``, ``formed`` (join of an empty group) or a kind of departure."""

    at_ms: int
    member: MemberRef
    how: str
    of: RebalanceFinding

    @property
    def came(self) -> bool:
        return self.how in ("came", "formed")

    @property
    def fell_out(self) -> bool:
        return not self.came and self.how not in NOT_FALLEN

    @property
    def client(self) -> tuple[str, str]:
        return self.member.client_id, self.member.host

    @property
    def evidence(self) -> EvidenceFinding:
        return EvidenceFinding(kind="step", value=f"{name_of_member(self.member)}: {self.how}", at_ms=self.at_ms)


Tells = Callable[[MemberStep], bool]


def find_patterns(found: Iterable[RebalanceFinding], now_ms: int | None = None) -> list[PatternFinding]:
    """Return the patterns of each group, the most serious first.

    ``now_ms``: end of the examined period; by default, the time of the last event.
    """
    by_group: dict[str, list[RebalanceFinding]] = defaultdict(list)
    for rebalance in sorted(found, key=lambda rebalance: rebalance.opened_at_ms):
        if rebalance.end != "no_rebalance" and rebalance.cause != "COOPERATIVE_FOLLOWUP":
            by_group[rebalance.group].append(rebalance)
    return [
        pattern
        for rebalances in by_group.values()
        for find in FINDERS
        if (pattern := find(rebalances, now_ms)) is not None
    ]


def steps_of(rebalances: Sequence[RebalanceFinding]) -> list[MemberStep]:
    """Return joins and departures of members in order of the rebalances; departures precede joins of one rebalance."""
    steps: list[MemberStep] = []
    for rebalance in rebalances:
        known = {member.member_id: member for member in (*rebalance.members, *rebalance.members_before)}
        if rebalance.trigger is not None:
            known.setdefault(rebalance.trigger.member_id, rebalance.trigger)
        before = {member.member_id for member in rebalance.members_before}
        steps += [
            MemberStep(rebalance.opened_at_ms, known[m], how, rebalance)
            for m, how in rebalance.departures.items()
            if m in known
        ]
        # a static member with a new member id restarted: it neither left nor joined
        restarted = {member.instance_id for member in rebalance.members_before} - {None}
        came = [m for m in rebalance.members if m.member_id not in before and m.instance_id not in restarted]
        if not came and rebalance.cause in CAME and rebalance.trigger is not None and not rebalance.members:
            came = [rebalance.trigger]
        how = "formed" if rebalance.cause == "GROUP_FORMING" else "came"
        steps += [MemberStep(rebalance.opened_at_ms, member, how, rebalance) for member in came]
    return steps


def rolling_deploy(rebalances: Sequence[RebalanceFinding], _now_ms: int | None = None) -> PatternFinding | None:
    """Find a rolling deploy: members leave one after another, and each is replaced by a member with a similar name."""
    emptied = [rebalance.opened_at_ms for rebalance in rebalances if rebalance.end == "empty"]
    replaced = max(_deploys(steps_of(rebalances), emptied), key=len, default=[])
    if len(replaced) < 2:
        return None
    names = sorted({prefix_of(gone.member) for gone, _ in replaced})
    words = f"{count(len(replaced), 'member')} of {', '.join(names[:3])} were replaced one by one: a deploy"
    evidence = [
        EvidenceFinding(
            kind="replaced",
            value=f"{name_of_member(gone.member)} by {name_of_member(come.member)}, "
            f"{seconds(abs(come.at_ms - gone.at_ms))} {'later' if come.at_ms >= gone.at_ms else 'before'}",
            at_ms=gone.at_ms,
        )
        for gone, come in replaced
    ]
    return _pattern("ROLLING_DEPLOY", words, "high", evidence, [step.of for pair in replaced for step in pair])


Replacement = tuple[MemberStep, MemberStep]


def _deploys(steps: Sequence[MemberStep], emptied: Sequence[int]) -> list[list[Replacement]]:
    """Return the replacements of members, one list for each deploy: no member both joins and leaves in one deploy."""
    times = [step.at_ms for step in steps]
    joined = {step.member.member_id: i for i, step in enumerate(steps) if step.came}
    leaves = {step.member.member_id for step in steps if not step.came}
    deploys: list[list[Replacement]] = []
    began, taken = -1, set[int]()
    for i, gone in enumerate(steps):
        if gone.how != LEFT:
            continue
        if began < 0 or began < joined.get(gone.member.member_id, -1) < i:
            began = i
            deploys.append([])
        near = range(bisect_left(times, gone.at_ms - TURN_MS), bisect_right(times, gone.at_ms + TURN_MS))
        fits = [j for j in near if j not in taken and _replaces(steps[j], gone, emptied)]
        if fits:
            # a member that itself leaves later is more often a first member of the group than a replacement
            best = min(fits, key=lambda j: (steps[j].member.member_id in leaves, abs(times[j] - gone.at_ms)))
            taken.add(best)
            deploys[-1].append((gone, steps[best]))
    return deploys


def _replaces(come: MemberStep, gone: MemberStep, emptied: Sequence[int]) -> bool:
    if come.how != "came" or come.member.member_id == gone.member.member_id:
        return False
    if any(gone.at_ms <= at_ms <= come.at_ms for at_ms in emptied):
        return False  # all members left before one joined: a restart of the whole group
    return prefix_of(come.member) == prefix_of(gone.member)


def scale_out(rebalances: Sequence[RebalanceFinding], _now_ms: int | None = None) -> PatternFinding | None:
    """Find a scale-out: members join a group more than two minutes after it formed, and no member departs."""
    formed = [step.at_ms for step in steps_of(rebalances) if step.how == "formed"]

    def counts(step: MemberStep) -> bool:
        return step.how == "came" and not any(0 <= step.at_ms - at_ms <= TURN_MS for at_ms in formed)

    return _scaled(rebalances, "SCALE_OUT", (counts, lambda step: not step.came), "joined, and none left")


def scale_in(rebalances: Sequence[RebalanceFinding], _now_ms: int | None = None) -> PatternFinding | None:
    tells = (lambda step: step.how == LEFT, lambda step: step.how != LEFT)
    return _scaled(rebalances, "SCALE_IN", tells, "left in order, and none joined")


def _scaled(
    rebalances: Sequence[RebalanceFinding], code: str, tells: tuple[Tells, Tells], words: str
) -> PatternFinding | None:
    (counts, against), steps = tells, steps_of(rebalances)
    best: list[MemberStep] = []
    run: list[MemberStep] = []
    for step in steps:
        if against(step) or (run and step.at_ms - run[-1].at_ms > SCALING_MS):
            run = []
        if counts(step):
            run.append(step)
        others_near = any(against(o) and abs(o.at_ms - step.at_ms) <= SCALING_MS for o in steps)
        if len(run) > len(best) and not others_near:
            best = list(run)
    if len({step.member.member_id for step in best}) < 2:
        return None
    facts = [step.evidence for step in best]
    return _pattern(code, f"{count(len(best), 'member')} {words}", "high", facts, [step.of for step in best])


def crash_loop(rebalances: Sequence[RebalanceFinding], _now_ms: int | None = None) -> PatternFinding | None:
    """Find a client that joins and fails repeatedly.

    A watcher cannot always distinguish a failure from a leave. Such departures count, with less confidence.
    """
    by_client: dict[tuple[str, str], list[MemberStep]] = defaultdict(list)
    for step in steps_of(rebalances):
        by_client[step.client].append(step)
    for (client_id, host), steps in by_client.items():
        crashes = [step for step in steps if step.fell_out or step.how == DEPARTED]
        came = [step for step in steps if step.came]
        for first, last in zip(crashes, crashes[CRASHES - 1 :], strict=False):
            within = [step for step in crashes if first.at_ms <= step.at_ms <= last.at_ms]
            between = [step for step in came if first.at_ms <= step.at_ms <= last.at_ms]
            if last.at_ms - first.at_ms <= CRASHES_WITHIN_MS and len(between) >= CRASHES - 1:
                is_sure = all(step.fell_out for step in within)
                member = f"client {printable(client_id) or 'without a name'} at {printable(host) or 'one address'}"
                how = "failed" if is_sure else "departed"
                words = f"{member} joined and {how} {len(within)} times within {seconds(last.at_ms - first.at_ms)}"
                facts = sorted([*within, *between], key=lambda step: step.at_ms)
                evidence = [step.evidence for step in facts]
                sure: Confidence = "high" if is_sure else "medium"
                return _pattern("CRASH_LOOP", words, sure, evidence, [step.of for step in facts])
    return None


def rebalance_storm(rebalances: Sequence[RebalanceFinding], now_ms: int | None = None) -> PatternFinding | None:
    for first, last in zip(rebalances, rebalances[STORM - 1 :], strict=False):
        if last.opened_at_ms - first.opened_at_ms <= STORM_WITHIN_MS:
            until_ms = first.opened_at_ms + STORM_WITHIN_MS
            within = [rebalance for rebalance in rebalances if first.opened_at_ms <= rebalance.opened_at_ms <= until_ms]
            took = seconds(within[-1].opened_at_ms - first.opened_at_ms)
            words = f"{len(within)} rebalances within {took}"
            return _pattern("REBALANCE_STORM", words, "proof", _most_often(within), within)
    return _restless(rebalances, now_ms)


def _restless(rebalances: Sequence[RebalanceFinding], now_ms: int | None) -> PatternFinding | None:
    if len(rebalances) < 3:
        return None
    first = rebalances[0]
    ends = [rebalance.opened_at_ms + (rebalance.took_ms or 0) for rebalance in rebalances]
    until_ms = max(*ends, now_ms or 0)
    over_ms = until_ms - first.opened_at_ms
    busy_ms = 0
    for rebalance, following in zip(rebalances, [*rebalances[1:], None], strict=True):
        next_ms = until_ms if following is None else following.opened_at_ms
        unknown_ms = 0 if rebalance.origin == "inferred" else next_ms - rebalance.opened_at_ms
        took_ms = unknown_ms if rebalance.took_ms is None else rebalance.took_ms
        busy_ms += min(took_ms, next_ms - rebalance.opened_at_ms)
    if over_ms < RESTLESS_OVER_MS or busy_ms * 2 <= over_ms:
        return None
    stable = 100 * (over_ms - busy_ms) // over_ms
    words = f"stable for {stable} % of {seconds(over_ms)}, with {len(rebalances)} rebalances"
    return _pattern("REBALANCE_STORM", words, "proof", _most_often(rebalances), rebalances)


def _most_often(rebalances: Sequence[RebalanceFinding]) -> list[EvidenceFinding]:
    causes = Counter(rebalance.cause for rebalance in rebalances)
    return [EvidenceFinding(kind="cause", value=f"{cause}: {times} times") for cause, times in causes.most_common(5)]


def flapping_partition(rebalances: Sequence[RebalanceFinding], _now_ms: int | None = None) -> PatternFinding | None:
    """Find a partition whose owner changes more often than the owners of most other partitions of the group.

    Only moves in rebalances with the same members before and after count: a join or a leave moves partitions anyway.
    """
    moved: Counter[tuple[str, int]] = Counter()
    where: dict[tuple[str, int], list[RebalanceFinding]] = defaultdict(list)
    places: set[tuple[str, int]] = set()
    for rebalance in rebalances:
        is_same = {m.member_id for m in rebalance.members_before} == {m.member_id for m in rebalance.members}
        for move in rebalance.moves:
            place = move.topic, move.partition
            places.add(place)
            if is_same and move.before is not None and move.after is not None and move.before != move.after:
                moved[place] += 1
                where[place].append(rebalance)
    flapping = {place: times for place, times in moved.items() if times >= FLAPS}
    usual = median(moved.get(place, 0) for place in places) if places else 0
    flapping = {place: times for place, times in flapping.items() if times > usual or len(places) == 1}
    if not flapping:
        return None
    (topic, partition), times = max(flapping.items(), key=lambda item: (item[1], item[0]))
    rest = f"; also flapping: {count(len(flapping) - 1, 'other partition')}" if len(flapping) > 1 else ""
    words = f"partition {printable(topic)}-{partition} changed its owner {times} times{rest}"
    evidence = [
        EvidenceFinding(kind="moved", value=f"{printable(t)}-{p}: {n} times")
        for (t, p), n in sorted(flapping.items(), key=lambda item: (-item[1], item[0]))[:10]
    ]
    return _pattern("FLAPPING_PARTITION", words, "proof", evidence, where[topic, partition])


def periodic(rebalances: Sequence[RebalanceFinding], _now_ms: int | None = None) -> PatternFinding | None:
    by_cause: dict[str, list[RebalanceFinding]] = defaultdict(list)
    for rebalance in rebalances:
        by_cause[rebalance.cause].append(rebalance)
    for cause, of in sorted(by_cause.items(), key=lambda item: -len(item[1])):
        gaps = [after.opened_at_ms - before.opened_at_ms for before, after in pairwise(of)]
        if len(of) < PERIODS or min(gaps) <= 0:
            continue
        usual = median(gaps)
        if all(abs(gap - usual) <= usual * PERIOD_SPREAD for gap in gaps):
            words = f"every {seconds(round(usual))}, {len(of)} times: {cause}"
            distances = ", ".join(seconds(gap) for gap in gaps[:10])
            evidence = [EvidenceFinding(kind="distances", value=distances, at_ms=of[0].opened_at_ms)]
            return _pattern("PERIODIC", words, "high", evidence, of)
    return None


def autoscaler(rebalances: Sequence[RebalanceFinding], _now_ms: int | None = None) -> PatternFinding | None:
    steps = [step for step in steps_of(rebalances) if step.how != "formed"]
    if any(step.fell_out for step in steps):
        return None
    runs = [(came, list(run)) for came, run in groupby(steps, key=lambda step: step.came)]
    if len(runs) <= TURNS:
        return None
    replaced = sum(before[-1].at_ms + TURN_MS >= after[0].at_ms for (_, before), (_, after) in pairwise(runs))
    if replaced * 2 > len(runs) - 1:
        return None
    words = f"members alternately joined and left, {len(runs)} times: an autoscaler resizes the group"
    evidence = [
        EvidenceFinding(kind="came" if came else "left", value=count(len(run), "member"), at_ms=run[0].at_ms)
        for came, run in runs
    ]
    return _pattern("AUTOSCALER", words, "medium", evidence, [step.of for step in steps])


def prefix_of(member: MemberRef) -> str:
    """Return the name that a member shares with its replicas: client or instance id without number or random suffix."""
    text = member.client_id or member.instance_id or member.member_id
    head, dash, tail = text.rpartition("-")
    while dash and head and any(c.isdigit() for c in tail):
        text = head
        head, dash, tail = text.rpartition("-")
    return printable(text.rstrip("0123456789-_.") or text, 60)


def _pattern(
    code: str, words: str, confidence: Confidence, evidence: Sequence[EvidenceFinding], of: Sequence[RebalanceFinding]
) -> PatternFinding:
    rebalances = sorted(
        {rebalance.id: rebalance for rebalance in of}.values(), key=lambda rebalance: rebalance.opened_at_ms
    )
    last = rebalances[-1]
    if confidence == "proof" and any(rebalance.origin == "inferred" for rebalance in rebalances):
        confidence = "high"  # a pattern with an inferred cause has at most the confidence ``high``
    return PatternFinding(
        pattern=code,
        group=last.group,
        confidence=confidence,
        sentence=f"{words[:1].upper()}{words[1:]}.",
        advice=ADVICE[code],
        evidence=tuple(evidence),
        rebalances=tuple(rebalance.id for rebalance in rebalances),
        from_ms=rebalances[0].opened_at_ms,
        until_ms=last.opened_at_ms + (last.took_ms or 0),
    )


FINDERS: Final = (
    crash_loop,
    rebalance_storm,
    flapping_partition,
    periodic,
    autoscaler,
    rolling_deploy,
    scale_out,
    scale_in,
)
