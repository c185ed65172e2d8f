"""What many rebalances mean together."""

from __future__ import annotations

from typing import Final

from kohort.insight.catalogue.entry import CauseEntry

PATTERNS: Final = (
    CauseEntry(
        code="ROLLING_DEPLOY",
        sentence="Members were replaced one after another, by others of the same name: a deploy.",
        proof="at least two times a member left in order, and one with the same client id prefix joined within two "
        "minutes, each on its turn, while others went on",
        look_alikes=(
            ("CRASH_LOOP", "members did not leave in order, and it is the same one again and again"),
            ("GROUP_FORMING", "all went before any came"),
            ("SCALE_IN", "nobody came for those who went"),
        ),
        advice="static members (group.instance.id), or the consumer protocol, make a deploy all but silent",
        kind="pattern",
    ),
    CauseEntry(
        code="SCALE_OUT",
        sentence="Members were added.",
        proof="at least two members joined within five minutes, more than two minutes after the group had formed, and "
        "none went",
        look_alikes=(("ROLLING_DEPLOY", "as many went as came"), ("AUTOSCALER", "they go again, and come again")),
        kind="pattern",
    ),
    CauseEntry(
        code="SCALE_IN",
        sentence="Members were taken away.",
        proof="at least two members left in order within five minutes, and none came",
        look_alikes=(("CRASH_LOOP", "they did not leave in order"),),
        kind="pattern",
    ),
    CauseEntry(
        code="CRASH_LOOP",
        sentence="One client joins and vanishes, again and again.",
        proof="one client at one address joined, and fell out without leaving in order, at least three times within "
        "ten minutes",
        look_alikes=(("ROLLING_DEPLOY", "each member went once"), ("AUTOSCALER", "members leave in order")),
        advice="read that client's log: what it reads first may be what ends it (a poison record)",
        kind="pattern",
    ),
    CauseEntry(
        code="REBALANCE_STORM",
        sentence="The group rebalances all the time.",
        proof="at least ten rebalances within ten minutes, or less than half of the time stable over at least five",
        look_alikes=(("COOPERATIVE_FOLLOWUP", "second rounds do not count"),),
        advice="look at the cause that it is most often; static members and longer timeouts calm a group",
        kind="pattern",
    ),
    CauseEntry(
        code="FLAPPING_PARTITION",
        sentence="One partition goes from member to member.",
        proof="the same partition had a new owner at least three times within the window, and more often than most",
        look_alikes=(("REBALANCE_STORM", "all partitions move alike"),),
        advice="a sticky assignor (cooperative-sticky, or the consumer protocol's uniform) keeps partitions in place",
        kind="pattern",
    ),
    CauseEntry(
        code="PERIODIC",
        sentence="The group rebalances at a fixed period, for the same cause.",
        proof="at least four rebalances of one cause whose distances differ by less than a tenth",
        look_alikes=(("REBALANCE_STORM", "distances are irregular"), ("AUTOSCALER", "members come and go by turns")),
        advice="look what has that period: metadata.max.age.ms, a cron job, a probe of an orchestrator",
        kind="pattern",
    ),
    CauseEntry(
        code="AUTOSCALER",
        sentence="The number of members goes up and down by turns: something scales the group.",
        proof="at least three turns between members coming and members leaving in order, within the window",
        look_alikes=(("CRASH_LOOP", "members do not leave in order"), ("ROLLING_DEPLOY", "the number stays the same")),
        advice="each step pauses the group: scale on lag with a longer window, and down more slowly than up",
        kind="pattern",
    ),
)
