from __future__ import annotations

import json
import random

import pytest
from soak.run import main
from soak.verdict import MIB, judge, slope


def samples(**series):
    return [{"at_s": 5.0 * n, "values": {f"broker {name}": of(n) for name, of in series.items()}} for n in range(100)]


def verdicts(**series):
    return {line.series.removeprefix("broker "): line.is_flat for line in judge(samples(**series))}


def test_trend_distinguishes_growth_from_oscillation():
    rng = random.Random(1)
    assert verdicts(
        rss=lambda n: 60 * MIB + n * MIB // 5,
        handles=lambda n: 100 + rng.randrange(40),
        threads=lambda n: 4 + n // 10,
        disk=lambda n: (n % 5) * MIB,
        loop_lag_ms=lambda n: 500.0 if n % 10 == 0 else 3.0,
    ) == {"rss": False, "handles": True, "threads": False, "disk": True, "loop_lag_ms": True}


def test_series_that_stops_growing_is_flat():
    assert verdicts(rss=lambda n: min(n, 50) * MIB) == {"rss": True}


def test_slope_is_the_median_of_pairwise_slopes():
    assert slope([(0, 0), (1, 2), (2, 4), (3, 1000), (4, 8)]) == pytest.approx(2)
    assert slope([(1, 5)]) == 0.0


def test_series_without_a_bound_is_not_judged():
    assert verdicts(cpu_s=lambda n: n) == {}


@pytest.mark.slow
@pytest.mark.campaign
def test_leak_of_memory_and_files_is_detected(tmp_path, capsys):
    arguments = ["--minutes", "0.25", "--every", "1", "--no-spark", "--plant-leak", "--out", str(tmp_path)]

    assert main([*arguments, "--keep", str(tmp_path)]) == 1

    output = capsys.readouterr().out
    verdict = next(line for line in output.splitlines() if line.startswith("verdict: "))
    assert "churn rss" in verdict
    assert "churn handles" in verdict
    assert "transactions: nothing is wrong" in output
    assert "STALLED" not in output
    kept = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    assert {"broker rss", "broker disk", "broker loop_lag_ms", "groups handles", "scrape bytes"} <= kept[-1][
        "values"
    ].keys()
    assert main(["--judge", str(tmp_path / "samples.jsonl")]) == 1
