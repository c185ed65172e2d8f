"""Source files of the demo, and the expected result."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from kohort.demo.expected import CANCELLED, NO_WEATHER, BadSourceFile, compare_delays, expect_from, read_tables
from kohort.demo.processes import records_of

FLIGHTS = """\
origin,dest,dep_time,dep_delay,arr_delay,hour,time_hour
JFK,MIA,542,20,33,5,2013-01-01T10:00:00Z
JFK,BQN,544,-2,NA,5,2013-01-01T10:00:00Z
EWR,IAH,NA,NA,NA,5,2013-01-01T10:00:00Z
LGA,ATL,554,4,9,6,2013-01-01T11:00:00Z
LGA,ATL,NA,NA,NA,6,2013-01-01T11:00:00Z
"""
WEATHER = """\
origin,temp,wind_speed,precip,visib,time_hour
JFK,30.0,NA,0.2,10,2013-01-01T10:00:00Z
EWR,30.0,25,0,10,2013-01-01T10:00:00Z
"""


def folder_of(tmp_path: Path, flights: str = FLIGHTS, weather: str = WEATHER) -> Path:
    (tmp_path / "flights.csv").write_text(flights)
    (tmp_path / "weather.csv").write_text(weather)
    return tmp_path


def test_expected_result_is_computed_from_the_files(tmp_path: Path) -> None:
    expected = expect_from(read_tables(folder_of(tmp_path)))

    assert (expected.rows_in, expected.weather_rows, expected.rows_out) == (5, 2, 2)
    assert expected.dead_letters == {CANCELLED: 1, NO_WEATHER: 1, f"{CANCELLED}; {NO_WEATHER}": 1}
    assert expected.delays == {
        ("JFK", 5, "snow"): {"flights": 2, "mean_dep_delay": 9.0, "mean_arr_delay": 33.0, "share_late": 0.5}
    }


def test_differences_of_results_are_reported(tmp_path: Path) -> None:
    expected = expect_from(read_tables(folder_of(tmp_path))).delays
    wrong = {("JFK", 5, "snow"): {**expected["JFK", 5, "snow"], "flights": 3}, ("EWR", 1, "fog"): {}}

    assert compare_delays(expected, expected) == []
    assert compare_delays(expected, wrong) == [
        "('EWR', 1, 'fog') is not expected",
        "('JFK', 5, 'snow'): flights is 3, expected 2",
    ]


def test_flights_and_weather_of_an_hour_share_a_key(tmp_path: Path) -> None:
    tables = read_tables(folder_of(tmp_path))

    flight = next(records_of(tables.flights))
    weather = next(records_of(tables.weather))

    assert flight[0] == weather[0] == b"JFK 2013-01-01T10"
    assert flight[1].startswith(b'{"origin":"JFK","dest":"MIA","dep_time":542,')


@pytest.mark.parametrize(
    ("flights", "message"),
    [
        (FLIGHTS + "JFK,MIA\n", r"flights.csv: malformed: .*Row #7: Expected 7 columns, got 2"),
        (FLIGHTS.replace("542", "noon"), r"flights.csv: malformed: .*column #2.*'noon'"),
        (FLIGHTS.replace("time_hour", "when"), r"flights.csv: no column time_hour; it has origin, dest"),
    ],
)
def test_malformed_row_is_named(tmp_path: Path, flights: str, message: str) -> None:
    with pytest.raises(BadSourceFile, match=message):
        read_tables(folder_of(tmp_path, flights))


def test_folder_without_the_files_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(BadSourceFile, match=r"has no flights.csv.zip or flights.csv"):
        read_tables(tmp_path)
