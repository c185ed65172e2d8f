"""Comparison of the generations of consumer groups."""

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from kohort.cli.main import main
from kohort.model import Record, TopicPartition
from kohort_lab.sim.generations.catalogue import GENERATIONS
from kohort_lab.sim.generations.claims import OwnerClaims, range_of
from kohort_lab.sim.generations.comparison import Comparison, CostRow, costs, rows_of
from kohort_lab.sim.generations.group_world import QUIET_MS, Setup
from kohort_lab.sim.generations.holdings import Holdings
from kohort_lab.sim.generations.measure import ChangeCost, measure
from kohort_lab.sim.generations.plots import draw
from kohort_lab.sim.world import World

CALM = ("joins", "leaves")
FAULTS = ("pauses", "is cut off")
LATER = [name for name in GENERATIONS if name != "zookeeper"]
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture(scope="module")
def found():
    """Cost of each generation in a group of four."""
    runs = {name: list(measure(name, Setup(3, 4, 8), [*CALM, *FAULTS])) for name in GENERATIONS}
    return {(name, cost.change): cost for name, run in runs.items() for cost in run}


@pytest.mark.parametrize("fault", FAULTS)
def test_only_the_zookeeper_era_has_two_committing_owners(found, fault):
    assert found["zookeeper", fault].split_s > 0
    assert [found[name, fault].split_s for name in LATER] == [0.0] * len(LATER)


@pytest.mark.parametrize("fault", FAULTS)
def test_zombie_member_continues_but_its_commits_are_rejected(found, fault):
    assert found["zookeeper", fault].zombie_s == 0, "nobody was refused anything"
    assert all(found[name, fault].zombie_s > 0 for name in ("eager", "cooperative"))


def test_eager_rebalance_interrupts_every_partition(found):
    everything = 8
    assert found["zookeeper", "joins"].interrupted == everything
    assert found["eager", "joins"].interrupted == everything
    for name in set(LATER) - {"eager"}:
        assert found[name, "joins"].interrupted == found[name, "joins"].moved < 3


def test_zookeeper_era_change_needs_many_times_the_requests(found):
    assert found["zookeeper", "joins"].requests > 4 * max(found[name, "joins"].requests for name in LATER)


def test_orderly_joins_and_leaves_cause_no_rereads_with_a_coordinator(found):
    assert {found[name, change].reread for name in LATER for change in CALM} == {0}


def test_every_partition_finally_has_one_owner(found):
    assert [key for key, cost in found.items() if not cost.settled] == []


def test_equal_views_of_the_tree_give_complete_disjoint_ranges():
    members = ["a", "b", "c"]
    shares = [range_of(member, members, "t", 8) for member in members]

    assert [len(share) for share in shares] == [3, 3, 2]
    assert [p.partition for share in shares for p in share] == list(range(8))


def test_different_views_of_the_tree_give_overlapping_ranges():
    assert set(range_of("a", ["a"], "t", 2)) & set(range_of("b", ["a", "b"], "t", 2)) == {P1}


def test_failed_claim_releases_all_partitions_and_is_retried_up_to_the_limit():
    claims = OwnerClaims("g", "g_a", "t")
    effects, answers = [], {"ReadEach": {"g_a": ""}, "Read": "2"}
    work = claims.rebalance()
    answer = None
    while True:
        try:
            effect = work.send(answer)
        except StopIteration as end:
            done = end.value
            break
        effects.append(effect)
        answer = _answer(effect, answers)

    assert done is False
    assert claims.owned == []
    owners = [f"{type(e).__name__} {e.path[-1]}" for e in effects if "owners" in getattr(e, "path", "")]
    assert owners == ["Create 0", "Create 1", "Delete 0"] * claims.max_retries
    assert [e.for_ms for e in effects if type(e).__name__ == "Sleep" and e.for_ms] == [2_000] * claims.max_retries


def _answer(effect, answers):
    """Answer a member as the tree does while another member owns its second partition."""
    from kohort_lab.sim.tree.messages import NODE_EXISTS, TreeAnswer

    match type(effect).__name__:
        case "ReadEach":
            return TreeAnswer(1, children=answers["ReadEach"] if "ids" in effect.path else {})
        case "Read":
            return TreeAnswer(1, data=answers["Read"] if "topics" in effect.path else "")
        case "Create":
            return TreeAnswer(1, NODE_EXISTS, "g_b") if effect.path.endswith("/1") else TreeAnswer(1)
        case "StopReading":
            return {}
    return TreeAnswer(1)


class Someone:
    def __init__(self, name):
        self.name = name


class Watched:
    def __init__(self):
        self.world = World(0)
        self.fenced = set()
        self.holdings = Holdings(self.world, lambda member: member.name in self.fenced)
        self.holdings.add([P0, P1])
        self.a, self.b = Someone("a"), Someone("b")

    def take(self, member, *partitions):
        self.holdings.took(member, 1, frozenset(partitions))

    def after(self, for_ms):
        self.world.now_ms += for_ms
        account = self.holdings.account
        return account.unowned_ms, account.split_ms, account.zombie_ms


@pytest.fixture
def watched():
    return Watched()


def test_unowned_time_is_summed_per_partition(watched):
    assert watched.after(10) == (20, 0, 0)
    watched.take(watched.a, P0)
    assert watched.after(10) == (30, 0, 0)
    watched.take(watched.b, P1)
    assert watched.after(10) == (30, 0, 0)
    watched.holdings.revoked(watched.a, "revoked", frozenset({P0}))
    assert watched.after(10) == (40, 0, 0)
    assert watched.holdings.interrupted == {P0}


def test_frozen_process_owns_nothing_until_it_continues(watched):
    watched.take(watched.a, P0, P1)
    watched.holdings.sleeps("a")
    assert watched.after(5) == (10, 0, 0)
    watched.holdings.wakes("a")
    assert watched.after(5) == (10, 0, 0)
    assert watched.holdings.is_whole


def test_two_committing_owners_are_split_brain_and_a_fenced_one_is_a_zombie(watched):
    watched.take(watched.a, P0, P1)
    watched.take(watched.b, P1)
    assert watched.after(4) == (0, 4, 0)

    watched.holdings.revoked(watched.b, "revoked", frozenset({P1}))
    watched.fenced.add("a")
    watched.take(watched.b, P1)
    assert watched.after(4) == (0, 4, 4)


def test_replaced_member_is_a_zombie_after_its_freeze_if_fenced(watched):
    watched.take(watched.a, P0, P1)
    watched.holdings.sleeps("a")
    watched.fenced.add("a")
    watched.take(watched.b, P0, P1)
    watched.holdings.wakes("a")
    assert watched.after(3) == (0, 0, 6)


def test_record_delivered_again_to_any_member_counts_as_reread(watched):
    def record(offset):
        return Record("t", 0, offset, 0, 0, None, b"", (), 0)

    watched.holdings.read(watched.a, [record(0), record(1)])
    watched.holdings.read(watched.b, [record(1), record(2)])
    account = watched.holdings.account
    assert (account.read, account.reread) == (4, 1)


@pytest.mark.parametrize("name", GENERATIONS)
def test_group_forms_and_every_partition_has_one_owner(name):
    group = GENERATIONS[name].world(Setup(1, 3, 6))
    group.begin()

    assert group.run_until_settled(QUIET_MS, 60_000)
    assert set(group.holdings.owners().values()) == {"c0", "c1", "c2"}


def cost(seed, **measured):
    fixed = {"generation": "eager", "change": "joins", "members": 3, "partitions": 6, "seed": seed, "settled": True}
    counted = dict.fromkeys(("requests", "notifications", "interrupted", "moved", "reread"), 0)
    timed = dict.fromkeys(("lasted_s", "unowned_s", "split_s", "zombie_s"), 0.0)
    return ChangeCost(**(fixed | counted | timed | measured))


def test_row_is_the_mean_over_the_seeds():
    [row] = rows_of([cost(0, requests=4, unowned_s=1.0), cost(1, requests=7, unowned_s=2.0, settled=False)])

    assert (row.seeds, row.unsettled, row.requests, row.unowned_s) == (2, 1, 5.5, 1.5)


def test_runs_are_equal_in_sequence_and_in_parallel():
    comparison = Comparison(["zookeeper", "eager"], [2], [5], ["joins"])

    assert list(costs(comparison)) == list(costs(comparison, jobs=2))


RUN = """
from kohort_lab.sim.generations.group_world import Setup; from kohort_lab.sim.generations.measure import measure
print([list(measure(name, Setup(2, 3, 6), ["pauses"])) for name in ("zookeeper", "cooperative")])
"""


def test_run_is_equal_under_any_hash_seed():
    def run(hash_seed):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run([sys.executable, "-c", RUN], env=env, capture_output=True, text=True, check=True)
        return done.stdout

    assert run("0") == run("4711")


def test_equal_rows_are_drawn_as_equal_bytes():
    rows = [CostRow(name, "joins", size, 2 * size, 1, 0, *[float(size)] * 9) for name in GENERATIONS for size in (3, 9)]
    svg = draw(rows, ["joins"], ["requests", "unowned_s"])

    assert svg == draw(rows, ["joins"], ["requests", "unowned_s"])
    assert all(f">{name}</text>" in svg for name in GENERATIONS)


def call(*args):
    return CliRunner().invoke(main, ["sim", "compare", *map(str, args)])


def test_compare_prints_rows_and_draws_a_plot(tmp_path):
    page = tmp_path / "page.html"
    done = call("--members", 2, "--generations", "zookeeper,eager", "--changes", "joins", "--output", "json",
                "--plot", page)  # fmt: skip

    rows = json.loads(done.stdout)["rows"]
    assert [(row["generation"], row["change"], row["members"]) for row in rows] == [
        ("zookeeper", "joins", 2), ("eager", "joins", 2)]  # fmt: skip
    assert rows[0]["requests"] > rows[1]["requests"]
    assert "<svg" in page.read_text()


def test_table_explains_its_columns():
    done = call("--members", 2, "--generations", "eager", "--changes", "leaves")

    assert done.stdout.startswith("2 members, 4 partitions, 1 seed\n")
    assert "p·s: partition-seconds" in done.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--members", "3,x"), "invalid group size 'x'"),
        (("--members", "1"), "invalid group size '1'"),
        (
            ("--generations", "greedy"),
            "unknown generation 'greedy'; expected one of: zookeeper, eager, cooperative, consumer",
        ),
        (("--changes", "explodes"), "unknown change 'explodes'; expected one of: joins, leaves"),
        (("--plot", "figure.png"), "cannot plot to figure.png"),
        (("--seeds", "5..5"), "empty seed range '5..5'"),
    ],
)
def test_invalid_compare_options_are_rejected(args, message):
    done = call(*args)

    assert done.exit_code == 2
    assert message in " ".join(done.output.replace("│", " ").split())
