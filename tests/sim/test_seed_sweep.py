"""``lab/tools/seeds.py``: resumable sweeps over many seeds of every world."""

import subprocess

import pytest
import seeds
from code_state import code_of
from seeds import PIECE, Failed, Sweep, WorldDone, begun, main, summary, sweep

from kohort_lab.sim.swarm import plan_of
from kohort_lab.sim.verdict import Verdict


def made_up(passes):
    judged = []

    def verdicts(piece, *, world, jobs):
        del jobs
        for seed in piece:
            judged.append((world, seed))
            failure = None if passes(world, seed) else "no"
            yield Verdict(plan_of(seed), failure, "", 1, 1, caught_by="" if failure is None else "calm: check")

    return verdicts, judged


def test_adjacent_ranges_are_merged_and_gaps_reported():
    done = WorldDone()
    for piece in (range(30, 40), range(10), range(10, 20)):
        done.add(piece)

    assert done.done == [(0, 20), (30, 40)]
    assert done.seeds == 30
    assert list(done.missing(range(5, 45))) == [range(20, 30), range(40, 45)]
    assert list(done.missing(range(20))) == []
    assert list(WorldDone().missing(range(PIECE + 1))) == [range(PIECE), range(PIECE, PIECE + 1)]


def test_interrupted_sweep_resumes(tmp_path, monkeypatch):
    kept = tmp_path / "sweep.json"

    def interrupted(world, seed):
        if (world, seed) == ("moves", PIECE + 3):
            raise KeyboardInterrupt
        return seed != 7

    verdicts, _ = made_up(interrupted)
    monkeypatch.setattr(seeds, "verdicts", verdicts)
    with pytest.raises(KeyboardInterrupt):
        sweep(begun(kept, "abc"), kept, range(2 * PIECE), ["group", "moves"], 1)

    verdicts, judged = made_up(lambda *_: True)
    monkeypatch.setattr(seeds, "verdicts", verdicts)
    found = begun(kept, "abc")
    sweep(found, kept, range(2 * PIECE), ["group", "moves"], 1)

    assert judged == [("moves", seed) for seed in range(PIECE, 2 * PIECE)]
    assert begun(kept, "abc") == found
    assert [done.done for done in found.worlds.values()] == [[(0, 2 * PIECE)]] * 2
    assert found.worlds["group"].failures == [Failed(7, "calm: check", "kohort sim replay 7")]
    assert found.worlds["moves"].failures == [Failed(7, "calm: check", "kohort sim replay 7 --world moves")]


def test_summary_has_passed_seeds_and_replay_commands_per_world():
    failed = Failed(7, "calm: check", "kohort sim replay 7")
    found = Sweep("abc-dirty-1", {"group": WorldDone([(0, 2_000)], [failed], 500.0), "moves": WorldDone()})

    code, _, group, moves, again = summary(found).splitlines()
    assert code == "code abc-dirty-1"
    assert group.split() == ["group", "2,000", "1,999", "1", "4.00"]
    assert moves.split() == ["moves", "0", "0", "0", "-"]
    assert again == "kohort sim replay 7  # calm: check"


def test_code_state_marks_uncommitted_changes_of_both_source_folders(tmp_path):
    def git(*words):
        subprocess.run(["git", "-C", tmp_path, "-c", "user.name=t", "-c", "user.email=t@t", *words], check=True)

    assert code_of(tmp_path / "nowhere") == "unknown"
    git("init", "-q")
    source = tmp_path / "src" / "a.py"
    lab = tmp_path / "lab" / "src" / "c.py"
    for file in (source, lab):
        file.parent.mkdir(parents=True)
        file.write_text("1\n")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    (tmp_path / "notes.txt").write_text("beside the sources")
    clean = code_of(tmp_path)
    git("add", ".")
    git("commit", "-q", "-m", "beside")
    assert code_of(tmp_path) == clean
    source.write_text("2\n")
    changed = code_of(tmp_path)
    source.with_name("b.py").write_text("3\n")
    more = code_of(tmp_path)
    lab.write_text("2\n")
    both = code_of(tmp_path)

    assert len(clean) == 12
    assert changed.startswith(f"{clean}-dirty-")
    assert more.startswith(f"{clean}-dirty-")
    assert len({clean, changed, more, both}) == 4


def test_second_sweep_of_two_worlds_runs_no_seed_again(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(seeds, "_interrupt_alone", lambda: None)  # signal handlers belong to the whole process
    words = ["--seeds", "0..2", "--worlds", "group", "transactions", "--jobs", "1"]

    assert main(words, tmp_path) == 0
    first = capsys.readouterr().out
    assert [line.split()[:4] for line in first.splitlines()[2:]] == [
        ["group", "2", "2", "0"],
        ["transactions", "2", "2", "0"],
    ]
    monkeypatch.setattr(seeds, "verdicts", None)
    assert main(words, tmp_path) == 0
    assert capsys.readouterr().out == first


def test_invalid_seed_ranges_are_rejected_with_a_message(tmp_path, capsys):
    (tmp_path / f"{code_of(seeds.ROOT)}.json").write_text("{}")

    for words, why in (["--seeds", "9..3"], "empty seed range"), (["--worlds", "group"], "is not a sweep of seeds"):
        with pytest.raises(SystemExit):
            main(words, tmp_path)
        assert why in capsys.readouterr().err
